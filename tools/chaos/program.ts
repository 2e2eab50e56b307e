// The program of every job in a chaos test. It counts once a second and reports to a folder that no fault can reach.
// The invariants use these reports and not jobman's database.

/** The environment variable with that folder. */
export const reportFolderVariable = 'CHAOS_REPORTS';

/**
 * A bash script. Below `$CHAOS_REPORTS/<job id>/` it writes:
 *
 * - `alive/<attempt>-<worker>`, a file that the kernel keeps locked while any process of that program is alive, even a
 *   suspended one. A starting program checks the locks of other attempts: clocks and process ids are less reliable.
 * - `printed/<attempt>-<worker>`, each line just before it goes to the log, numbered from 1.
 * - `events`, one line for each event in order:
 *   `start <attempt> <worker> <pid> <boot id> <first step>`, `saved <attempt> <step>`,
 *   `collision <attempt>-<worker> <the other>`, `end <attempt> <worker> <pid> done|stopped`.
 */
export function programScript(steps: number): string {
  return `#!/usr/bin/env bash
reports=$${reportFolderVariable}/$JOBMAN_JOB_ID
me=$JOBMAN_ATTEMPT-$JOBMAN_WORKER
mkdir -p "$reports/alive" "$reports/printed" "$JOBMAN_CHECKPOINT_DIR"
report() { printf '%s\\n' "$*" >>"$reports/events"; }
# A shell that loses its sleep to a signal says so; that is not the program's output.
exec 2>>"$reports/errors"
trap 'report "end $JOBMAN_ATTEMPT $JOBMAN_WORKER $$ stopped"; exit 143' TERM

exec 9>"$reports/alive/$me"
flock -n 9 || report "collision $me $me"
for other in "$reports"/alive/*; do
  other=\${other##*/}
  [ "\${other%-*}" != "$JOBMAN_ATTEMPT" ] || continue
  flock -n -s "$reports/alive/$other" true || report "collision $me $other"
done

step=0
case \${JOBMAN_RESUME_FROM:-} in */step_*) step=$((10#\${JOBMAN_RESUME_FROM##*/step_})) ;; esac
report "start $JOBMAN_ATTEMPT $JOBMAN_WORKER $$ $(cat "\${JOBMAN_BOOT_ID_FILE:-/proc/sys/kernel/random/boot_id}") $step"

line=0
while [ $step -lt ${steps} ]; do
  step=$((step + 1))
  line=$((line + 1))
  text="$line: step $step of ${steps}, attempt $JOBMAN_ATTEMPT, worker $JOBMAN_WORKER"
  printf '%s\\n' "$text" >>"$reports/printed/$me"
  printf '%s\\n' "$text"
  case $JOBMAN_WORKER in
    0 | controller)
      if [ $((step % 5)) = 0 ]; then
        checkpoint=$JOBMAN_CHECKPOINT_DIR/$(printf 'step_%06d' $step)
        echo "$text" >"$checkpoint.tmp" && mv "$checkpoint.tmp" "$checkpoint" && report "saved $JOBMAN_ATTEMPT $step"
      fi ;;
  esac
  sleep 1
done
report "end $JOBMAN_ATTEMPT $JOBMAN_WORKER $$ done"
`;
}
