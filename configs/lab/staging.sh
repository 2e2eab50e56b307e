# staging.sh: the smallest that `tpu run` can run. It keeps a copy of the code, says where that and the log are, trains, and says
# that it has succeeded. One of a lab would train on the workers of $VM_NAME, by gcloud compute tpus tpu-vm ssh --worker=all;
# this one counts on the login machine, so that it runs wherever jobman does.

VM_NAME=${1#ka=}
shift

DATA_ROOT=${DATA_ROOT:-$JOBMAN_HOME/lab-data}
now=$(date +%Y%m%d_%H%M%S)
export STAGEDIR=$DATA_ROOT/staging/$now-$JOBMAN_JOB_ID-$JOBMAN_ATTEMPT
export LOGDIR=$DATA_ROOT/logs/$now-$JOBMAN_JOB_ID-$JOBMAN_ATTEMPT
mkdir -p "$STAGEDIR" "$LOGDIR"
cp -r . "$STAGEDIR"
cd "$STAGEDIR"

current_window=$(tmux display-message -p -t "$TMUX_PANE" '#S:#I')
tpu upd-log $current_window $LOGDIR $STAGEDIR $VM_NAME $now

bash train.sh "$@" 2>&1 | tee -a $LOGDIR/output.log
if [ ${PIPESTATUS[0]} -eq 0 ]; then
  tpu finish-job $current_window
else
  echo 'Job failed'
fi
