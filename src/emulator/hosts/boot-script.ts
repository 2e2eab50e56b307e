/**
 * The boot script turns fresh namespaces into a host, as process 1 of the PID namespace. The host sees the machine's
 * file tree at its usual paths, but through overlays: its writes to /etc or /tmp stay in its own folder. Only the
 * host's folder and the buckets are shared with the machine.
 *
 * `startup-script` of the metadata runs as root at every boot of every worker, and READY does not wait for it.
 * `shutdown-script` has the time of a soft power-off.
 */

import { spawn } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
  writeSync,
  type Stats,
} from 'node:fs';
import { join } from 'node:path';
import type { Machine } from './machine.ts';
import { mountPoints, findExcludedMounts, excludedPaths } from './disk.ts';

export interface BootScriptOptions {
  readonly stateDir: string;
  readonly folder: string;
  readonly hostName: string;
  /** True when the namespaces belong to a user namespace. Overlays then need `userxattr`. */
  readonly inUserNamespace: boolean;
  readonly chips: readonly string[];
}

/** Disks and the machine's own terminals are left out. */
const devices = ['null', 'zero', 'full', 'random', 'urandom', 'tty', 'fuse', 'net', 'mqueue', 'hugepages'];

/** Seconds of one sleep of process 1. The unusual number identifies that sleep among the processes. */
export const idleSeconds = 86_413;

export function shellQuote(arg: string): string {
  return `'${arg.replaceAll("'", "'\\''")}'`;
}

/** Reads the machine's file tree and mounts now, at boot time. */
export async function bootScript(options: BootScriptOptions): Promise<string> {
  return `${preamble(options)}${await machineTree(options)}
${privateFolders(options.chips)}${epilogue}`;
}

async function machineTree({ stateDir, folder }: BootScriptOptions): Promise<string> {
  const mountinfo = readFileSync('/proc/self/mountinfo', 'utf8');
  const excludedMounts = await findExcludedMounts(mountinfo);
  const lines: string[] = [];
  const tops: string[] = [];
  for (const name of readdirSync('/')) {
    const path = `/${name}`;
    if (excludedPaths.includes(path) || excludedMounts.has(path)) continue;
    const entry = lstatSync(path);
    if (entry.isSymbolicLink()) lines.push(`ln -s ${shellQuote(readlinkSync(path))} "$root"${shellQuote(path)}`);
    else if (entry.isDirectory()) {
      tops.push(path);
      lines.push(overlayLine(folder, path, entry.mode));
    } else if (entry.isFile()) lines.push(`bind_file ${shellQuote(path)}`);
  }
  for (const mount of mountPoints(mountinfo, stateDir)) {
    if (excludedMounts.has(mount) || [...excludedMounts].some((other) => mount.startsWith(`${other}/`))) continue;
    const entry = statIfReadable(mount);
    if (entry?.isDirectory() === true) lines.push(overlayLine(folder, mount, entry.mode));
    else if (entry?.isFile() === true) lines.push(`bind_file ${shellQuote(mount)}`);
  }
  return `cd "$root"
mkdir ${tops.map((path) => shellQuote(path.slice(1))).join(' ')}
${lines.join('\n')}
`;
}

function preamble({ stateDir, folder, hostName, inUserNamespace }: BootScriptOptions): string {
  const attributes = inUserNamespace ? ',userxattr' : '';
  return `# Written by the emulator at each boot of this host; runs as process 1 of its namespaces.
folder=${shellQuote(folder)}
state=${shellQuote(stateDir)}
root=$folder/root
# The old /proc still has the machine's process ids: record ours and our start time.
read -r pid name rest </proc/self/stat
set -- $rest
shift 18
echo "$pid $2" >"$folder/init"
set -e
umask 022
die() { echo "boot: $1" >&2; exit 1; }
hostname ${shellQuote(hostName)} || die 'cannot set the host name'
mkdir -p "$root"
mount -t tmpfs -o mode=755,size=2g tmpfs "$root"

# layer PATH MODE KEY: the machine's folder, with an overlay that receives all writes.
layer() {
  [ -d "$root$1" ] || mkdir -p "$root$1"
  upper=$folder/disk/$3
  options="lowerdir=$1,upperdir=$upper/up,workdir=$upper/work${attributes}"
  mount -t overlay overlay -o "$options" "$root$1" 2>/dev/null && return
  # The disk below cannot hold an overlay (it may be one itself): keep the overlay in memory until the next boot.
  if [ ! -e "$folder/memory/on" ]; then
    mkdir -p "$folder/memory"
    mount -t tmpfs tmpfs "$folder/memory"
    : >"$folder/memory/on"
  fi
  upper=$folder/memory/$3
  mkdir -p "$upper/up" "$upper/work"
  chmod "$2" "$upper/up"
  options="lowerdir=$1,upperdir=$upper/up,workdir=$upper/work${attributes}"
  mount -t overlay overlay -o "$options" "$root$1" 2>/dev/null && return
  # Overlays do not work here: mount the folder itself, read-only for root, so that the machine stays unchanged.
  mount --rbind "$1" "$root$1" || die "cannot show $1"
  ${inUserNamespace ? ':' : 'mount -o remount,bind,ro "$root$1" || :'}
}
bind_file() {
  [ -e "$root$1" ] || : >"$root$1" || return 0
  mount --bind "$1" "$root$1" 2>/dev/null || :
}
`;
}

function privateFolders(chips: readonly string[]): string {
  return `mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/run"
mount -t proc proc "$root/proc"
mount --bind "$folder/boot_id" "$root/proc/sys/kernel/random/boot_id"
mount --rbind /sys "$root/sys"

# /dev is a new folder, so that chips can be added. Its devices are the machine's.
mount -t tmpfs -o mode=755,size=1m tmpfs "$root/dev"
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" || :
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts" || mount --rbind /dev/pts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
# device SOURCE NAME
device() {
  if [ -d "$1" ]; then mkdir -p "$root/dev/$2"; elif [ -e "$1" ]; then : >"$root/dev/$2"; else return 0; fi
  mount --rbind "$1" "$root/dev/$2" || :
}
for name in ${devices.join(' ')}; do device "/dev/$name" "$name"; done
(
  umask 0
${chips.map(chipDeviceLine).join('\n')}
)

`;
}

const epilogue = `mount -t tmpfs -o mode=755,size=64m tmpfs "$root/run"
mkdir -p "$root/run/lock" "$root/run/sshd"
if [ -d /run/systemd/resolve ]; then
  mkdir -p "$root/run/systemd/resolve"
  mount --bind /run/systemd/resolve "$root/run/systemd/resolve" || :
fi
# The host's users and names. The emulator rewrites these files when a new user's key arrives.
mount --bind "$folder/hosts" "$root/etc/hosts" 2>/dev/null || :
mount --bind "$folder/passwd" "$root/etc/passwd" 2>/dev/null || :
# A login shell resets PATH, and our programs must come first on it. ssh must use the workers' common port.
{ mkdir -p "$root/etc/profile.d" && cp "$folder/profile" "$root/etc/profile.d/zz-worker.sh"; } 2>/dev/null || :
{ mkdir -p "$root/etc/ssh/ssh_config.d" && cp "$folder/ssh_config" "$root/etc/ssh/ssh_config.d/worker.conf"; } 2>/dev/null || :
ln -sf "$folder/startup-script.log" "$root/var/log/startup-script.log" 2>/dev/null || :

# A host sees only its own part of the emulator's folder.
mkdir -p "$root$state"
mount -t tmpfs -o mode=755,size=1m tmpfs "$root$state"
for path in "$state/bin" "$state/buckets" "$folder"; do
  mkdir -p "$root$path"
  mount --bind "$path" "$root$path"
done

cd "$root"
mkdir .machine
pivot_root . .machine
cd /
umount -l /.machine
rmdir /.machine
set +e
: >"$folder/mounts"
: >"$folder/up"
# From here on process 1 only reaps orphans, as every waiting shell does.
while :; do
  sleep ${String(idleSeconds)} &
  wait $!
done
`;

/** Undefined when missing or not readable by this user, such as another user's mount below a closed folder. */
function statIfReadable(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}

function chipDeviceLine(name: string): string {
  const folder = name.slice(0, Math.max(0, name.indexOf('/')));
  return `  ${folder === '' ? '' : `[ -d "$root/dev/${folder}" ] || mkdir "$root/dev/${folder}"; `}: >"$root/dev/${name}"`;
}

/** Also creates the folder for the host's writes. */
function overlayLine(folder: string, path: string, mode: number): string {
  const key = path.slice(1).replace(/[^A-Za-z0-9.-]/g, '_');
  const upper = join(folder, 'disk', key);
  mkdirSync(join(upper, 'work'), { recursive: true });
  mkdirSync(join(upper, 'up'), { recursive: true });
  chmodSync(join(upper, 'up'), mode & 0o7777);
  return `layer ${shellQuote(path)} ${(mode & 0o7777).toString(8)} ${key}`;
}

export function bucketsFolder(stateDir: string): string {
  return join(stateDir, 'buckets');
}

export interface HostScriptOptions {
  readonly machine: Machine;
  /** The host's own folder. The script is stored there as `name`, and its output as `<name>.log`. */
  readonly folder: string;
  readonly name: 'startup-script' | 'shutdown-script';
  readonly text: string;
  readonly env: Readonly<Record<string, string>>;
  readonly heading: string;
}

/** Runs the script and resolves when it has ended, with any result. The log has its output and its exit code. */
export function runScript(options: HostScriptOptions): Promise<void> {
  const path = join(options.folder, options.name);
  const log = `${path}.log`;
  // Like Google's agent, run the file itself: its first line names the interpreter, and the default is the shell.
  writeFileSync(path, options.text, { mode: 0o700 });
  const output = openSync(log, 'a', 0o644);
  writeSync(output, `${options.heading}\n`);
  const run = `cd /; /bin/bash -c '"$0"' "$0"; code=$?; echo "${options.name} exit status $code"; exit "$code"`;
  const [command = '', ...args] = options.machine.wrapCommand(['/bin/sh', '-c', run, path]);
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      // In a session of its own, so that it outlives the emulator, as everything on a host does.
      detached: true,
      stdio: ['ignore', output, output],
      cwd: '/',
      env: { ...options.env },
    });
    closeSync(output);
    child.on('error', () => resolve());
    child.on('close', () => resolve());
    child.unref();
  });
}
