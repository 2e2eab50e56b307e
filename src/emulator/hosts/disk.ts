/**
 * A full disk. Hosts have no disks of their own that could be filled, so a layer that holds nothing is laid over the
 * folders that programs write to: what is there can be read, and whoever writes is told that no space is left. A file
 * that was open before can still be written to.
 */

import { spawn } from 'node:child_process';
import type { Machine } from './machine.ts';

/** Fills or empties the disk of a host with namespaces. Rejects with a sentence when it cannot be done. */
export async function setDiskFull(
  machine: Machine,
  folder: string,
  inUserNamespace: boolean,
  full: boolean,
): Promise<void> {
  const [command = '', ...words] = machine.enter(['/bin/sh', '-c', full ? fill : empty, folder]);
  const attributes = inUserNamespace ? ',userxattr' : '';
  await new Promise<void>((resolve, reject) => {
    const child = spawn(command, words, {
      stdio: ['ignore', 'ignore', 'pipe'],
      cwd: '/',
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ATTRIBUTES: attributes },
    });
    let said = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
    child.on('error', reject);
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`the disk cannot be ${full ? 'filled' : 'emptied'}: ${said.trim()}`)),
    );
  });
}

// A mounted bucket is not on the disk: it is shown again above the layer.
const fill = `folder=$0
[ ! -e /run/full/on ] || exit 0
mkdir -p /run/full && mount -t tmpfs -o mode=755,size=256k tmpfs /run/full || exit 1
number=0
for path in "$folder/home" /tmp /var/tmp /var/log; do
  [ -d "$path" ] || continue
  # Where the cloud's own folder lies below it, the layer would hide the host from itself.
  case "$folder" in "$path"/*) continue ;; esac
  number=$((number + 1))
  up=/run/full/$number
  mkdir -p "$up/up" "$up/work"
  chmod --reference="$path" "$up/up"
  mount -t overlay -o "lowerdir=$path,upperdir=$up/up,workdir=$up/work$ATTRIBUTES" overlay "$path" || {
    [ "$number" != 1 ] || exit 1
    continue
  }
  echo "$path" >>/run/full/on
done
state=\${folder%/*/*/*}
[ ! -f "$folder/mounts" ] || while IFS='	' read -r bucket path; do
  case "$path" in "$folder/home"/*|/tmp/*|/var/tmp/*) mount --bind "$state/buckets/$bucket" "$path" ;; esac
done <"$folder/mounts"
dd if=/dev/zero of=/run/full/ballast bs=4096 2>/dev/null
:
`;

const empty = `[ -e /run/full/on ] || exit 0
rm -f /run/full/ballast
while read -r path; do umount -l "$path"; done </run/full/on
umount -l /run/full
`;

/** File systems that are the kernel speaking, not somebody's files. */
const kernelTypes =
  /^(proc|sysfs|cgroup2?|devpts|devtmpfs|autofs|tracefs|debugfs|securityfs|bpf|mqueue|hugetlbfs|fusectl|configfs|pstore|binfmt_misc|nsfs|rpc_pipefs|efivarfs)$/;

/** File systems that a program here serves (gcsfuse, sshfs). A TPU VM has none of this machine's, so no host shows it. */
const servedTypes = /^fuse(\.|$)/;

/** File systems that another machine serves. */
const remoteTypes = /^(nfs\d?|cifs|smb\w*|ceph|lustre|gpfs|afs|beegfs\w*|ocfs2|gfs2|9p|virtiofs)$/;

/** Folders that are made anew, and places where other systems keep mounts of their own. */
export const notCopied: readonly string[] = [
  '/proc',
  '/sys',
  '/dev',
  '/run',
  '/var/lib/docker',
  '/var/lib/containers',
  '/var/lib/kubelet',
];

/** How long a file system may take to answer, in milliseconds; a busy machine needs much of it to begin the asking program. */
const patienceMs = 5_000;

interface Mount {
  readonly path: string;
  readonly type: string;
}

/** Mount points of real file systems below the root's folders, parents first, from the text of mountinfo. */
export function mountPoints(mountinfo: string, stateDir: string): string[] {
  const points = readMounts(mountinfo).flatMap(({ path, type }) => {
    const isTopLevel = path.lastIndexOf('/') === 0;
    if (isTopLevel || kernelTypes.test(type) || servedTypes.test(type)) return [];
    if ([...notCopied, stateDir].some((other) => path === other || path.startsWith(`${other}/`))) return [];
    return [path];
  });
  return [...new Set(points)].toSorted();
}

/**
 * Mount points that a host must do without, from the text of mountinfo: what programs of this machine serve, and what other
 * machines serve and does not answer now. Takes as long as the slowest of them answers, and a few seconds at most.
 */
export async function mountsToLeaveOut(
  mountinfo: string,
  answers: (path: string) => Promise<boolean> = answersInTime,
): Promise<ReadonlySet<string>> {
  const mounts = readMounts(mountinfo);
  const served = mounts.filter(({ type }) => servedTypes.test(type)).map(({ path }) => path);
  const remote = mounts.filter(({ type, path }) => remoteTypes.test(type) && path !== '/').map(({ path }) => path);
  const silent = await Promise.all(remote.map(async (path) => ((await answers(path)) ? [] : [path])));
  return new Set([...served, ...silent.flat()]);
}

/** Mounts that are hidden below another one at the same place are told like it. */
function readMounts(mountinfo: string): readonly Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const path = (before.split(' ')[4] ?? '').replace(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    );
    return path === '' ? [] : [{ path, type: after.split(' ')[0] ?? '' }];
  });
}

/**
 * Whether somebody may look at that path without waiting. A program asks, because a look of our own that hangs would keep one
 * of Node's few threads for good; it is left behind when it hangs.
 */
export function answersInTime(path: string, limitMs = patienceMs, program = 'stat'): Promise<boolean> {
  return new Promise((resolve) => {
    const child = spawn(program, [path], { stdio: 'ignore', cwd: '/' });
    const timer = setTimeout(() => {
      child.kill('SIGKILL');
      child.unref();
      resolve(false);
    }, limitMs);
    const end = (answer: boolean): void => {
      clearTimeout(timer);
      resolve(answer);
    };
    child.on('error', () => end(false));
    child.on('exit', (code) => end(code === 0));
  });
}
