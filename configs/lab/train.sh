# train.sh: simulates 90 epochs of training, half a second each. It saves the number of the last epoch, and continues after
# the one that it finds in the folder of --config.load_from.

epoch=0
pace=0.5
for argument in "$@"; do
  case $argument in
    --config.load_from=*) epoch=$(cat "${argument#*=}/epoch" 2>/dev/null || echo 0) ;;
    --config.pace=*) pace=${argument#*=} ;;
  esac
done
echo "training with $*"
while [ $epoch -lt 90 ]; do
  sleep $pace
  epoch=$((epoch + 1))
  echo $epoch > "$LOGDIR/epoch"
  echo "epoch $epoch of 90"
done
