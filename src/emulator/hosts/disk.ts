/** The `fill-disk` fault, an overlay without free space (ENOSPC, except in open files), and the mounts of a host. */

import { spawn } from 'node:child_process';
import type { Machine } from './machine.ts';

/** Fills or empties the disk of a host with namespaces. Rejects with a sentence when that fails. */
export async function setDiskFull(
  machine: Machine,
  folder: string,
  inUserNamespace: boolean,
  full: boolean,
): Promise<void> {
  const [command = '', ...args] = machine.wrapCommand(['/bin/sh', '-c', full ? fillScript : emptyScript, folder]);
  const attributes = inUserNamespace ? ',userxattr' : '';
  await new Promise<void>((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      cwd: '/',
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ATTRIBUTES: attributes },
    });
    let output = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (output += text));
    child.on('error', reject);
    child.on('close', (code) =>
      code === 0 ? resolve() : reject(new Error(`the disk cannot be ${full ? 'filled' : 'emptied'}: ${output.trim()}`)),
    );
  });
}

// A mounted bucket is not on the disk, so it is mounted again above the layer.
const fillScript = `folder=$0
[ ! -e /run/full/on ] || exit 0
mkdir -p /run/full && mount -t tmpfs -o mode=755,size=256k tmpfs /run/full || exit 1
number=0
for path in "$folder/home" /tmp /var/tmp /var/log; do
  [ -d "$path" ] || continue
  # If the emulator's folder is below this path, an overlay would hide the host's own files.
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

const emptyScript = `[ -e /run/full/on ] || exit 0
rm -f /run/full/ballast
while read -r path; do umount -l "$path"; done </run/full/on
umount -l /run/full
`;

const kernelFilesystems =
  /^(proc|sysfs|cgroup2?|devpts|devtmpfs|autofs|tracefs|debugfs|securityfs|bpf|mqueue|hugetlbfs|fusectl|configfs|pstore|binfmt_misc|nsfs|rpc_pipefs|efivarfs)$/;

/** Served by a program of this machine (gcsfuse, sshfs). A TPU VM has none of them, so no host shows one. */
const fuseFilesystems = /^fuse(\.|$)/;

const networkFilesystems = /^(nfs\d?|cifs|smb\w*|ceph|lustre|gpfs|afs|beegfs\w*|ocfs2|gfs2|9p|virtiofs)$/;

export const excludedPaths: readonly string[] = [
  '/proc',
  '/sys',
  '/dev',
  '/run',
  '/var/lib/docker',
  '/var/lib/containers',
  '/var/lib/kubelet',
];

/** In milliseconds. On a busy machine, much of it passes before `stat` starts. */
const answerTimeoutMs = 5_000;

interface Mount {
  readonly path: string;
  readonly type: string;
}

/** Mount points of real file systems below the root's folders, parents first, from the text of mountinfo. */
export function mountPoints(mountinfo: string, stateDir: string): string[] {
  const points = readMounts(mountinfo).flatMap(({ path, type }) => {
    const isTopLevel = path.lastIndexOf('/') === 0;
    if (isTopLevel || kernelFilesystems.test(type) || fuseFilesystems.test(type)) return [];
    if ([...excludedPaths, stateDir].some((other) => path === other || path.startsWith(`${other}/`))) return [];
    return [path];
  });
  return [...new Set(points)].toSorted();
}

/** Mount points that a host leaves out: fuse mounts, and network mounts that do not answer in `answerTimeoutMs`. */
export async function findExcludedMounts(
  mountinfo: string,
  answers: (path: string) => Promise<boolean> = answersInTime,
): Promise<ReadonlySet<string>> {
  const mounts = readMounts(mountinfo);
  const served = mounts.filter(({ type }) => fuseFilesystems.test(type)).map(({ path }) => path);
  const remote = mounts
    .filter(({ type, path }) => networkFilesystems.test(type) && path !== '/')
    .map(({ path }) => path);
  const silent = await Promise.all(remote.map(async (path) => ((await answers(path)) ? [] : [path])));
  return new Set([...served, ...silent.flat()]);
}

/** Includes mounts that are hidden below another mount at the same path. */
function readMounts(mountinfo: string): readonly Mount[] {
  return mountinfo.split('\n').flatMap((line) => {
    const [before = '', after = ''] = line.split(' - ');
    const path = (before.split(' ')[4] ?? '').replace(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    );
    return path === '' ? [] : [{ path, type: after.split(' ')[0] ?? '' }];
  });
}

/** A child process asks, because a hanging call of our own would block one of Node's few threads forever. */
export function answersInTime(path: string, limitMs = answerTimeoutMs, program = 'stat'): Promise<boolean> {
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
