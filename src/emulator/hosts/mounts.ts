/**
 * The machine's file systems, as far as a host shows them. Whoever looks at a mount whose server is gone waits with it, for
 * ever and out of reach of any signal; so nothing here is looked at before a program of its own has found that it answers.
 */
import { spawn } from 'node:child_process';

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
