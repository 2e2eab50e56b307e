// Devices: who holds the TPU of a worker. A chip serves one process at a time, and a program that finds it taken dies of
// something that explains nothing, or waits for ever. So it is looked at before a command starts.

import { quote } from './quote.ts';

/**
 * Words of shell that end when nobody holds the chips but this very attempt. What an earlier attempt of the same job has left
 * there is killed: it carries the job's mark, and has been asked to end long ago. Anybody else is named by process and command
 * line, and never touched. Calls `busy` with a sentence about who it is, or `fail` about what does not die.
 *
 * The devices are `accel0` and so on up to v4, `vfio/0` and so on since v5 (Google's public launchers look for both); a host
 * without any has nothing to look for. JOBMAN_DEVICES in its environment names another folder than /dev. Other users'
 * processes show what they hold to the administrator only, whom the login of a TPU VM may become.
 */
export function devicesText(marks: { readonly job: string; readonly attempt: string }): string {
  return `
as_administrator() {
  if [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null; then "$@"; else sudo -n "$@" 2>/dev/null || "$@"; fi
}
is_marked_with() {
  as_administrator cat "/proc/$1/environ" 2>/dev/null | tr '\\0' '\\n' | LC_ALL=C grep -q "^JOBMAN_RUN=$2"
}
check_devices() {
  devices=\${JOBMAN_DEVICES:-/dev}
  set -- "$devices"/accel[0-9]* "$devices"/vfio/[0-9]*
  [ -e "$1" ] || [ -e "$2" ] || return 0
  rounds=0
  while :; do
    ours=
    for holder in $(as_administrator find /proc/[0-9]*/fd -type l \\
      \\( -lname "$devices/accel[0-9]*" -o -lname "$devices/vfio/[0-9]*" \\) 2>/dev/null |
      sed -n 's,^/proc/\\([0-9]*\\)/fd/.*,\\1,p' | sort -un); do
      [ -d "/proc/$holder" ] && ! is_marked_with "$holder" ${quote(marks.attempt)} || continue
      if is_marked_with "$holder" ${quote(marks.job)}; then
        ours="$ours $holder"
        continue
      fi
      line=$(tr '\\0' ' ' <"/proc/$holder/cmdline" 2>/dev/null | tr -dc '[:print:]' | cut -c1-200)
      [ -z "$line" ] || busy "process $holder (\${line% })"
    done
    [ -n "$ours" ] || return 0
    rounds=$((rounds + 1))
    [ $rounds -lt 20 ] || fail "processes of an earlier attempt hold its TPU and do not die:$ours"
    as_administrator kill -s KILL $ours 2>/dev/null
    sleep 0.2 2>/dev/null || sleep 1
  done
}
`;
}
