/**
 * Docker on a worker: a daemon inside the host's namespaces, started at first use, so that other hosts pay nothing. It
 * ends with the host. Images are on the host's disk: they survive a boot, but not the host.
 *
 * It changes nothing on the machine: no bridge and no packet filter rules, so a container has the worker's network with
 * `--network=host` and none otherwise. Only the containers' cgroups are the machine's. They are below one cgroup per
 * host, which is removed with the host.
 */
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { waitUntil } from './processes.ts';

const cgroupPrefix = 'jobman-emulator-';

/**
 * `worker-docker start|stop|restart|is-active`, which `docker`, `systemctl` and `service` call. It needs root's
 * namespaces and a machine with Docker. Elsewhere it prints the reason and exits with 127.
 */
export const workerDockerScript = `#!/bin/sh
# This worker's own Docker daemon, inside the worker's namespaces.
folder=\${0%/*}
own=$EMULATOR_HOST/docker
PATH=$(printf %s "$PATH" | sed "s|^$folder:||"):/usr/sbin:/sbin
fail() { echo "docker: $1" >&2; exit "\${2:-1}"; }
if [ "$(cat "$EMULATOR_HOST/namespaces" 2>/dev/null)" != root ]; then
  fail 'not on this process host of the emulator: a worker has its own Docker only if the emulator runs as root and can create namespaces' 127
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
    # Start with an empty environment: the marker of a job would end the daemon together with that job.
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
  # As with systemd, the daemon ends its containers, and is killed when that takes too long.
  kill "$pid"
  turns=0
  while kill -0 "$pid" 2>/dev/null; do
    turns=$((turns + 1))
    [ $turns -lt 300 ] || kill -KILL "$pid" 2>/dev/null
    sleep 0.1
  done
}
case \${1:-} in
  # A daemon that was stopped stays stopped. A daemon that died starts again, as its service would do.
  use) [ ! -e /run/docker.stopped ] || exit 0; is_alive && exit 0 ;;
  is-active) if [ ! -e /run/docker.stopped ]; then echo active; exit 0; else echo inactive; exit 3; fi ;;
esac
# One call at a time. The kernel releases the lock of a process that dies.
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

export const dockerClientScript = `#!/bin/sh
# The machine's own client, connected to this worker's daemon, which starts now if it is not running.
folder=\${0%/*}
"$folder/worker-docker" use || exit
PATH=$(printf %s "$PATH" | sed "s|^$folder:||")
exec docker "$@"
`;

/** Removes the cgroups of the containers of a host that has just ended. Safe to repeat. */
export async function removeCgroups(folder: string): Promise<void> {
  const name = `${cgroupPrefix}${createHash('sha256').update(folder).digest('hex').slice(0, 16)}`;
  const root = '/sys/fs/cgroup';
  // cgroup v2 has one tree for all controllers, v1 one tree for each.
  const trees = [root, ...foldersIn(root).map((controller) => join(root, controller))];
  let remaining = trees.map((tree) => join(tree, name)).filter((path) => existsSync(path));
  // A cgroup can be removed only after the kernel has reaped its last process.
  await waitUntil(() => (remaining = remaining.filter((path) => !removeCgroup(path))).length === 0, 2_000, 20);
}

/** The files in a cgroup belong to the kernel and cannot be removed. rmdir removes the folder, children first. */
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
