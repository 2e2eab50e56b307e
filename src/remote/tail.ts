// Tail: an attempt's output from a byte on, as it grows.

import { prelude } from './run-folder.ts';
import { quote } from './quote.ts';

/** Exit codes of the scripts here, told apart by whoever started them. */
export const tailCodes = { over: 0, missing: 4 } as const;

/**
 * Sends the log from byte `from` on as it grows, and ends with `over` soon after the run has. The last bytes may then
 * still be missing: `restScript` sends them, from where the receiver has come to. Ends by itself when we have gone.
 */
export function followScript(
  root: string,
  run: { readonly attempt: number; readonly mark: string; readonly from: number },
): string {
  return `
root=${root}
dir=$root/attempt_${run.attempt}
mark=${quote(run.mark)}
${prelude}
[ -d "$dir" ] || exit ${tailCodes.missing}

# True when nothing of it is alive and nothing more will be written.
is_over() {
  [ ! -e "$dir/exit" ] && [ ! -e "$dir/never" ] || return 0
  turns=$((turns + 1))
  [ $((turns % 10)) -eq 0 ] && read_pid "$dir" || return 1
  ! is_alive "$dir" || return 1
  find_marked "$mark"
  [ -z "$found" ] || return 1
  # One that is just becoming another program shows no mark.
  nap 0.05
  find_marked "$mark"
  [ -z "$found" ]
}
turns=0
# A tail that begins behind the end would not wait for it.
until [ -e "$dir/log" ] && [ "$(wc -c <"$dir/log")" -ge ${run.from} ]; do
  ! is_over || exit ${tailCodes.over}
  nap 0.3
done
tail -c +${run.from + 1} -f "$dir/log" 3<&- &
follower=$!
( cat <&3; kill -s TERM $$ ) >/dev/null 2>&1 &
watcher=$!
exec 3<&-
trap 'kill $follower $watcher 2>/dev/null; exit 1' TERM
until is_over; do nap 0.3; done
kill $follower $watcher 2>/dev/null
exit ${tailCodes.over}
`;
}

/** Sends what is there from that byte on. For a log that has ended. */
export function restScript(root: string, run: { readonly attempt: number; readonly from: number }): string {
  return `
root=${root}
log=$root/attempt_${run.attempt}/log
[ -d "\${log%/log}" ] || exit ${tailCodes.missing}
[ ! -e "$log" ] || tail -c +${run.from + 1} "$log"
`;
}
