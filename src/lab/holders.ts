// Who holds the devices of a worker: words of shell that tell it, and the reading of what they print.

import type { Holder } from './tpu-desk.ts';

/**
 * Functions of POSIX shell. Other users' processes show what they hold, and take signals, from the administrator only, whom the
 * login of a TPU VM may become. `tell` prints a line about a process: its number, its user, its command line, parted by tabs;
 * nothing about one that has gone.
 */
export const processFunctions = `
as_administrator() {
  if [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null; then "$@"; else sudo -n "$@" 2>/dev/null || "$@"; fi
}
tell() {
  line=$(tr '\\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | tr -dc '[:print:]' | cut -c1-400)
  [ -n "$line" ] || return 1
  printf '%s\\t%s\\t%s\\n' "$1" "$(stat -c %U "/proc/$1" 2>/dev/null)" "\${line% }"
}
`;

/**
 * Prints the numbers of the processes that hold a chip: `accel0` and so on up to v4, `vfio/0` and so on since v5. JOBMAN_DEVICES
 * in the worker's environment names another folder than /dev.
 */
export const findHolders = `
find_holders() {
  devices=\${JOBMAN_DEVICES:-/dev}
  as_administrator find /proc/[0-9]*/fd -type l \\
    \\( -lname "$devices/accel[0-9]*" -o -lname "$devices/vfio/[0-9]*" \\) 2>/dev/null |
    sed -n 's,^/proc/\\([0-9]*\\)/fd/.*,\\1,p' | sort -un
}
`;

/** A line that \`tell\` printed on that worker, or none. */
export function holderIn(worker: number, line: string): readonly Holder[] {
  const [pid = '', user = '', ...command] = line.split('\t');
  return /^\d+$/.test(pid) ? [{ worker, pid: Number(pid), user, command: command.join(' ') }] : [];
}
