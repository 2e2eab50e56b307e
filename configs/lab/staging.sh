# staging.sh: a minimal script for `tpu run`. It copies the code, reports the folders of the copy and the log, trains, and reports
# success. A lab's script would train on the workers of $VM_NAME with gcloud compute tpus tpu-vm ssh --worker=all; this one runs
# on the login machine, so that it works everywhere.

VM_NAME=${1#ka=}
shift

DATA_ROOT=${DATA_ROOT:-$JOBMAN_HOME/lab-data}
now=$(date +%Y%m%d_%H%M%S)
export STAGEDIR=$DATA_ROOT/staging/$now-$JOBMAN_JOB_ID-$JOBMAN_ATTEMPT
export LOGDIR=$DATA_ROOT/logs/$now-$JOBMAN_JOB_ID-$JOBMAN_ATTEMPT
mkdir -p "$STAGEDIR" "$LOGDIR"
cp -r . "$STAGEDIR"
# In a home that a group shares, every login of the group may use the copy.
chmod -R u+rw,g=u "$STAGEDIR"
cd "$STAGEDIR"

current_window=$(tmux display-message -p -t "$TMUX_PANE" '#S:#I')
tpu upd-log $current_window $LOGDIR $STAGEDIR $VM_NAME $now

bash train.sh "$@" 2>&1 | tee -a $LOGDIR/output.log
if [ ${PIPESTATUS[0]} -eq 0 ]; then
  tpu finish-job $current_window
else
  echo 'Job failed'
fi
