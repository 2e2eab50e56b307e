// Shower: the program in the window of an attempt. It shows the attempt's output, says at the end how it ended, and stays until
// somebody closes the window. It is a shell, because there is one for every job on the list and Node takes fifty times the memory.

/**
 * The words that show the output of an attempt. `folder` is its run folder on this machine. `about` begins the last line
 * (`000012, attempt 1`), and `next` is what may be typed then. When somebody closes the window before its time, `closed` is
 * run, apart from the window and by nobody waited for.
 */
export function showerArgv(of: {
  readonly folder: string;
  readonly about: string;
  readonly next: string;
  readonly closed: readonly string[];
}): readonly string[] {
  return ['/bin/sh', '-c', shower, 'jobman', of.folder, of.about, of.next, ...of.closed];
}

const shower = `
folder=$1 about=$2 next=$3
shift 3
following=
closed() {
  trap '' HUP
  [ -z "$following" ] || kill "$following" 2>/dev/null
  setsid "$@" </dev/null >/dev/null 2>&1 &
  exit 0
}
trap 'closed "$@"' HUP
trap 'printf "\\n-- The job goes on without this window. To look what comes next, or to end it: %s\\n" "$next"' INT

launcher=
{ read -r launcher rest <"$folder/pid"; } 2>/dev/null
# Until the launcher has ended, which it does after everything is written.
if tail --version 2>/dev/null | grep -q GNU; then
  tail -n +1 -f --pid="$launcher" "$folder/log" 2>/dev/null &
  following=$!
else
  tail -n +1 -f "$folder/log" 2>/dev/null &
  following=$!
  (
    while [ -d "/proc/$launcher" ]; do sleep 1; done
    sleep 2
    kill "$following"
  ) 2>/dev/null &
fi
# A trap ends the wait, and not what is waited for.
while kill -0 "$following" 2>/dev/null; do wait "$following"; done
following=

code=
{ read -r code rest <"$folder/exit"; } 2>/dev/null
if [ -n "$code" ]; then how="has ended with exit code $code"; else how='is gone, and nobody wrote down how it ended'; fi
printf '\\n-- %s: its script %s. What comes next: %s\\n' "$about" "$how" "$next"
# Nothing that is typed here does anything. Where there is no terminal any more there is nothing to stay for.
failed=0
while [ $failed -lt 20 ]; do
  if read -r typed; then failed=0; else failed=$((failed + 1)); sleep 1; fi
done
`;
