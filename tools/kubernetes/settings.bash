# What `up` and `down` agree on. Sourced, never run.
# Every folder and port can be moved through the environment, so that two clusters can run side by side.

cache=${JOBMAN_KUBE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/jobman-kube}
state=${JOBMAN_KUBE_STATE:-/var/tmp/jobman-kube-$UID}
port=${JOBMAN_KUBE_PORT:-16440}                # first of nine ports on loopback
node_address=${JOBMAN_KUBE_ADDRESS:-10.213.0.1} # the kubelet refuses 127.0.0.1, so `lo` gets this one too

etcd_port=$port etcd_peer_port=$((port + 1)) api_port=$((port + 3))
controller_port=$((port + 4)) scheduler_port=$((port + 5)) kubelet_port=$((port + 6))
kubelet_health_port=$((port + 7)) registry_port=$((port + 8))

cgroup=jobman-kube-$port      # everything that pods run lives below it
network=jobman-kube-$port     # name of the pod network, and of its leftovers
containerd_socket=$state/containerd/containerd.sock

say() { printf '%6.1fs  %s\n' "$(awk -v now="$EPOCHREALTIME" -v then="$began" 'BEGIN { print now - then }')" "$*"; }
fail() { printf 'kube: %s\n' "$*" >&2; exit 1; }
began=$EPOCHREALTIME

# A process is known by its id and its start time, so that a recycled id is not taken for ours.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }
alive() {
  local pid started
  read -r pid started 2>/dev/null <"$state/pids/$1" || return 1
  [[ -n $started && $(start_time "$pid") == "$started" ]] &&
    [[ $(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -c1) != Z ]]
}
