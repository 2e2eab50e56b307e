// The program of every job in a storm: it counts, once a second, and tells the truth about itself in a folder that no
// fault can reach. What the judge knows of the jobs' programs it knows from there, and not from jobman's record.

/** Where that folder is, in the environment of every job. */
export const witnessVariable = 'STORM_WITNESS';

/**
 * A script for bash. Below `$STORM_WITNESS/<job id>/` it leaves:
 *
 * - `alive/<attempt>-<worker>`, a file that the kernel holds locked for as long as anything of that program is alive,
 *   also while it stands still. Who starts looks whether another attempt's is locked: no clock and no number of a process
 *   can say that as surely.
 * - `printed/<attempt>-<worker>`, each line a moment before it goes to the log, numbered from 1.
 * - `story`, a line for each thing that happened, in the order in which it did:
 *   `start <attempt> <worker> <pid> <boot id> <step it goes on from>`, `saved <attempt> <step>`,
 *   `collision <attempt>-<worker> <the other>`, `end <attempt> <worker> <pid> done|asked`.
 */
export function programText(steps: number): string {
  return `#!/usr/bin/env bash
witness=$${witnessVariable}/$JOBMAN_JOB_ID
me=$JOBMAN_ATTEMPT-$JOBMAN_WORKER
mkdir -p "$witness/alive" "$witness/printed" "$JOBMAN_CHECKPOINT_DIR"
tell() { printf '%s\\n' "$*" >>"$witness/story"; }
# A shell that loses its sleep to a signal says so; that is not the program's word.
exec 2>>"$witness/errors"
trap 'tell "end $JOBMAN_ATTEMPT $JOBMAN_WORKER $$ asked"; exit 143' TERM

exec 9>"$witness/alive/$me"
flock -n 9 || tell "collision $me $me"
for other in "$witness"/alive/*; do
  other=\${other##*/}
  [ "\${other%-*}" != "$JOBMAN_ATTEMPT" ] || continue
  flock -n -s "$witness/alive/$other" true || tell "collision $me $other"
done

step=0
case \${JOBMAN_RESUME_FROM:-} in */step_*) step=$((10#\${JOBMAN_RESUME_FROM##*/step_})) ;; esac
tell "start $JOBMAN_ATTEMPT $JOBMAN_WORKER $$ $(cat "\${JOBMAN_BOOT_ID_FILE:-/proc/sys/kernel/random/boot_id}") $step"

line=0
while [ $step -lt ${steps} ]; do
  step=$((step + 1))
  line=$((line + 1))
  text="$line: step $step of ${steps}, attempt $JOBMAN_ATTEMPT, worker $JOBMAN_WORKER"
  printf '%s\\n' "$text" >>"$witness/printed/$me"
  printf '%s\\n' "$text"
  case $JOBMAN_WORKER in
    0 | here)
      if [ $((step % 5)) = 0 ]; then
        checkpoint=$JOBMAN_CHECKPOINT_DIR/$(printf 'step_%06d' $step)
        echo "$text" >"$checkpoint.tmp" && mv "$checkpoint.tmp" "$checkpoint" && tell "saved $JOBMAN_ATTEMPT $step"
      fi ;;
  esac
  sleep 1
done
tell "end $JOBMAN_ATTEMPT $JOBMAN_WORKER $$ done"
`;
}
