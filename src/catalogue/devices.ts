// Devices: POSIX shell that finds the processes holding the chips of a TPU. They are `accel0` and so on up to v4, `vfio/0`
// and so on since v5 (Google's public launchers search for both).

/**
 * `find_holders` prints the ids of these processes. `print_process` prints id, user and command line, separated by tabs;
 * nothing if the process is gone. Only the administrator can see the devices of other users' processes, and the login of
 * a TPU VM may use sudo. JOBMAN_DEVICES names another folder than /dev.
 */
export const holderFunctions = `
as_administrator() {
  if [ "$(id -u)" -eq 0 ] || ! command -v sudo >/dev/null; then "$@"; else sudo -n "$@" 2>/dev/null || "$@"; fi
}
print_process() {
  line=$(tr '\\0' ' ' <"/proc/$1/cmdline" 2>/dev/null | tr -dc '[:print:]' | cut -c1-400)
  [ -n "$line" ] || return 1
  printf '%s\\t%s\\t%s\\n' "$1" "$(stat -c %U "/proc/$1" 2>/dev/null)" "\${line% }"
}
find_holders() {
  devices=\${JOBMAN_DEVICES:-/dev}
  as_administrator find /proc/[0-9]*/fd -type l \\
    \\( -lname "$devices/accel[0-9]*" -o -lname "$devices/vfio/[0-9]*" \\) 2>/dev/null |
    sed -n 's,^/proc/\\([0-9]*\\)/fd/.*,\\1,p' | sort -un
}
`;
