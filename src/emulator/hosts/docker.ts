/**
 * The Docker of a worker: a daemon of its own inside the host's namespaces, begun when somebody first asks for it, so that a
 * host without containers pays nothing. It ends with the host, as everything in its process namespace does, and its mounts
 * go with the host's mount namespace. Images lie on the host's disk and outlive a boot, not the host.
 *
 * It changes nothing of the machine: no bridge and no rules of the packet filter, so a container has the worker's network
 * with `--network=host` and none without. What would be left is the containers' cgroups, which are the machine's: they are
 * made below one of the host's own, which is removed with it.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { until } from './processes.ts';

/** The cgroup of a host's containers is called so, and after the host. */
const cgroupPrefix = 'jobman-emulator-';

/**
 * The program `worker-docker start|stop|restart|is-active`, which `docker`, `systemctl` and `service` ask. Only on hosts whose
 * namespaces are root's, on a machine that has Docker; elsewhere it says so and exits with 127.
 */
export const workerDocker = `#!/bin/sh
# The Docker daemon of this worker: its own, inside the worker's namespaces.
folder=\${0%/*}
own=$EMULATOR_HOST/docker
PATH=$(printf %s "$PATH" | sed "s|^$folder:||"):/usr/sbin:/sbin
fail() { echo "docker: $1" >&2; exit "\${2:-1}"; }
if [ "$(cat "$EMULATOR_HOST/namespaces" 2>/dev/null)" != root ]; then
  fail 'not on this process host of the emulator: a worker has a Docker of its own only where the emulator runs as root and can make namespaces' 127
fi
for program in dockerd docker containerd runc flock setsid; do
  command -v "$program" >/dev/null || fail "not on this process host of the emulator: the machine that it runs on has no $program" 127
done
is_alive() { pid=$(cat /run/docker.pid 2>/dev/null) && kill -0 "$pid" 2>/dev/null; }
is_up() { is_alive && docker --host unix:///run/docker.sock info >/dev/null 2>&1; }
start() {
  rm -f /run/docker.stopped
  is_up && return 0
  mkdir -p "$own"
  printf '{}\\n' >"$own/daemon.json"
  if ! is_alive; then
    rm -f /run/docker.pid
    # Nothing of whoever asks is handed on: a job's mark in its environment would end the daemon with that job.
    env -i PATH="$PATH" HOME=/root EMULATOR_HOST="$EMULATOR_HOST" setsid dockerd --config-file "$own/daemon.json" \\
      --data-root "$own/data" --exec-root /run/docker --pidfile /run/docker.pid -H unix:///run/docker.sock \\
      --cgroup-parent "/${cgroupPrefix}$(printf %s "$EMULATOR_HOST" | sha256sum | cut -c 1-16)" --exec-opt native.cgroupdriver=cgroupfs \\
      --iptables=false --ip6tables=false --ip-forward=false --bridge=none </dev/null >>"$own/log" 2>&1 9>&- &
    begun=$!
  fi
  turns=0
  until is_up; do
    turns=$((turns + 1))
    if [ $turns -ge 300 ] || { [ -n "\${begun:-}" ] && ! kill -0 "$begun" 2>/dev/null; }; then
      fail "the daemon of this worker does not start: $(tail -n 3 "$own/log" | tr '\\n' ' ')"
    fi
    sleep 0.2
  done
}
stop() {
  : >/run/docker.stopped
  is_alive || return 0
  # As systemd does: the daemon ends its containers, and is killed when it takes too long.
  kill "$pid"
  turns=0
  while kill -0 "$pid" 2>/dev/null; do
    turns=$((turns + 1))
    [ $turns -lt 300 ] || kill -KILL "$pid" 2>/dev/null
    sleep 0.1
  done
}
case \${1:-} in
  # A daemon that was stopped by hand stays so; one that died is begun again, as its service would.
  use) [ ! -e /run/docker.stopped ] || exit 0; is_alive && exit 0 ;;
  is-active) if [ ! -e /run/docker.stopped ]; then echo active; exit 0; else echo inactive; exit 3; fi ;;
esac
# One at a time, and nobody who ends with the lock in hand keeps it.
exec 9>/run/docker.lock
flock 9
case \${1:-} in
  use) [ -e /run/docker.stopped ] || start ;;
  start) start ;;
  stop) stop ;;
  restart) stop; start ;;
  *) fail 'use, start, stop, restart or is-active' 2 ;;
esac
`;

/** The program \`docker\`: the machine's own client, with the worker's daemon behind its usual socket. */
export const dockerClient = `#!/bin/sh
# The machine's own client. The daemon behind it is this worker's, begun now if it has not been.
folder=\${0%/*}
"$folder/worker-docker" use || exit
PATH=$(printf %s "$PATH" | sed "s|^$folder:||")
exec docker "$@"
`;

/** Removes what the containers of a host that has just ended have left in the machine's cgroups. Safe to repeat. */
export async function removeCgroups(folder: string): Promise<void> {
  const name = `${cgroupPrefix}${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`;
  const root = '/sys/fs/cgroup';
  // One tree for all controllers, or one for each of them.
  const trees = [root, ...foldersIn(root).map((controller) => join(root, controller))];
  let left = trees.map((tree) => join(tree, name)).filter((path) => existsSync(path));
  // A cgroup can go only once the kernel has buried the last that was in it.
  await until(() => (left = left.filter((path) => !removeCgroup(path))).length === 0, 2_000, 20);
}

/** Files in it are the kernel's and cannot be removed; a cgroup goes by rmdir, its children before it. */
function removeCgroup(path: string): boolean {
  for (const child of foldersIn(path)) removeCgroup(join(path, child));
  try {
    rmdirSync(path);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
}

function foldersIn(path: string): string[] {
  try {
    return readdirSync(path, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch {
    return [];
  }
}
