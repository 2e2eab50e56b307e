/**
 * The machine behind a worker: it can be booted, entered, frozen and ended with all its processes. With Linux
 * namespaces the kernel ends it: when process 1 of a PID namespace dies, all processes in it die. Without namespaces a
 * variable in the environment identifies a host's processes, unless they clear their environment.
 */
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { bootScript, idleSeconds } from './boot-script.ts';
import { removeCgroups } from './docker.ts';
import { hostVariable, machineBootId, hostPids, signal, startTicks, waitUntil } from './processes.ts';
import { rebootFile } from './reboot.ts';

export type Isolation = 'root' | 'user' | 'none';

export interface Machine {
  /** The path of the host's root folder for a process outside. Follow no symbolic link below it (file-view.ts). */
  readonly root: string;
  /** The command line that runs `argv` inside the host: in `home` when it is given and exists, else in any folder. */
  wrapCommand(argv: readonly string[], home?: string): readonly string[];
  isAlive(): boolean;
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** Sends SIGTERM to all, runs `shutdownTask`, and waits for the processes at most `graceMs`. `end` follows. */
  shutDown(graceMs: number, shutdownTask: (() => Promise<void>) | undefined): Promise<void>;
  end(): Promise<void>;
}

export interface MachineOptions {
  readonly stateDir: string;
  readonly folder: string;
  readonly hostName: string;
  /** The number of the host's boot. Stored, so that a later emulator finds the machine again. */
  readonly boot: number;
  readonly bootId: string;
  /** The texts of files inside, by name: `hosts` and `passwd` of /etc, `profile` and `ssh_config` for their folders. */
  readonly files: Readonly<Record<'hosts' | 'passwd' | 'profile' | 'ssh_config' | 'zone', string>>;
  readonly chips: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const idleCommandLine = `sleep\0${String(idleSeconds)}\0`;

interface BootRecord {
  readonly boot: number;
  readonly isolation: Isolation;
  readonly pid: number;
  readonly startTicks: string;
  readonly machineBootId: string;
}

export function probeIsolation(scratch: string): Isolation {
  mkdirSync(scratch, { recursive: true });
  const trial =
    'mount -t tmpfs tmpfs "$1" && mkdir "$1/proc" "$1/old" && mount -t proc proc "$1/proc" && mount --rbind /dev "$1/old"';
  for (const isolation of ['root', 'user'] as const) {
    const { status } = spawnSync('unshare', [...unshareOptions(isolation), '/bin/sh', '-c', trial, 'sh', scratch], {
      stdio: 'ignore',
      timeout: 10_000,
    });
    const needed = spawnSync(nsenter, ['--version'], { stdio: 'ignore' }).status === 0;
    if (status === 0 && needed) return isolation;
  }
  return 'none';
}

/** Does the same as `--wdns`, at the cost of one more process. */
function commandInHome(argv: readonly string[], home: string): readonly string[] {
  return ['/bin/sh', '-c', 'cd "$0" 2>/dev/null; exec "$@"', home, ...argv];
}

/** The absolute path where possible: `spawn` blocks the emulator while it searches a long PATH. */
const nsenter = ['/usr/bin/nsenter', '/bin/nsenter'].find(exists) ?? 'nsenter';

let hasWdns: boolean | undefined;

/** True when nsenter supports --wdns (util-linux 2.38, nsenter(1)). */
function supportsWdns(): boolean {
  hasWdns ??= spawnSync(nsenter, ['--help'], { encoding: 'utf8' }).stdout.includes('--wdns');
  return hasWdns;
}

function unshareOptions(isolation: Isolation): string[] {
  const user = isolation === 'user' ? ['--user', '--map-root-user'] : [];
  return [...user, '--mount', '--pid', '--uts', '--fork', '--propagation', 'private', '--'];
}

/** Number of machines that boot at once. More would only wait for each other, and the last one beyond its timeout. */
const maxConcurrentBoots = 8;

let booting = 0;
const bootQueue: (() => void)[] = [];

/** Boots a machine, in the order of the calls. Rejects with the last lines of its console when it does not come up. */
export async function bootMachine(options: MachineOptions, isolation: Isolation): Promise<Machine> {
  if (booting >= maxConcurrentBoots) await new Promise<void>((resolve) => bootQueue.push(resolve));
  else booting += 1;
  try {
    return await boot(options, isolation);
  } finally {
    const next = bootQueue.shift();
    if (next === undefined) booting -= 1;
    else next();
  }
}

async function boot(options: MachineOptions, isolation: Isolation): Promise<Machine> {
  const { folder } = options;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  if (isolation === 'none') unmountLinks(folder);
  for (const name of ['up', 'init', 'boot.json', 'mounts', 'namespaces', rebootFile])
    rmSync(join(folder, name), { force: true });
  writeFileSync(join(folder, 'hostname'), `${options.hostName}\n`);
  writeFileSync(join(folder, 'boot_id'), `${options.bootId}\n`);
  for (const [name, text] of Object.entries(options.files)) writeFileSync(join(folder, name), text);
  if (isolation === 'none') {
    writeBootRecord(options, { isolation, pid: 0, startTicks: '' });
    return unisolatedMachine(folder);
  }
  writeFileSync(join(folder, 'namespaces'), isolation);
  const inUserNamespace = isolation === 'user';
  writeFileSync(join(folder, 'boot.sh'), await bootScript({ ...options, inUserNamespace }));
  const consolePath = join(folder, 'console');
  const output = openSync(consolePath, 'w');
  const child = spawn('unshare', [...unshareOptions(isolation), '/bin/sh', join(folder, 'boot.sh')], {
    // In a session of its own and with files as streams, so that the host outlives the emulator.
    detached: true,
    stdio: ['ignore', output, output],
    cwd: '/',
    env: { ...options.env, [hostVariable]: folder },
  });
  closeSync(output);
  let ended = false;
  child.on('error', () => (ended = true));
  child.on('exit', () => (ended = true));
  child.unref();
  const isUp = (): boolean => exists(join(folder, 'up'));
  await waitUntil(() => ended || isUp(), 30_000);
  if (!isUp()) {
    await signal('KILL', await hostPids(folder));
    throw new Error(
      `${options.hostName} does not boot: ${readText(consolePath).trim().split('\n').slice(-3).join(' ')}`,
    );
  }
  const [pid = '0', ticks = ''] = readText(join(folder, 'init')).trim().split(' ');
  writeBootRecord(options, { isolation, pid: Number(pid), startTicks: ticks });
  return namespacedMachine(folder, Number(pid), ticks, inUserNamespace);
}

/**
 * Without namespaces a mounted bucket is a link, which must not outlive a boot: gcsfuse would link inside the bucket.
 */
function unmountLinks(folder: string): void {
  for (const line of readText(join(folder, 'mounts')).split('\n')) {
    const path = line.split('\t')[1] ?? '';
    if (path === '' || lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) continue;
    rmSync(path);
    mkdirSync(path);
  }
}

function writeBootRecord(options: MachineOptions, what: Omit<BootRecord, 'boot' | 'machineBootId'>): void {
  const text: BootRecord = { ...what, boot: options.boot, machineBootId: machineBootId() };
  writeFileSync(join(options.folder, 'boot.json'), JSON.stringify(text));
}

/** The machine that an earlier emulator booted, if it still runs and is of that boot. */
export function findMachine(folder: string, boot: number, isolation: Isolation): Machine | undefined {
  let found: BootRecord;
  try {
    found = JSON.parse(readText(join(folder, 'boot.json'))) as BootRecord;
  } catch {
    return undefined;
  }
  if (found.boot !== boot || found.isolation !== isolation || found.machineBootId !== machineBootId()) return undefined;
  if (isolation === 'none') return unisolatedMachine(folder);
  const machine = namespacedMachine(folder, found.pid, found.startTicks, isolation === 'user');
  return machine.isAlive() ? machine : undefined;
}

function namespacedMachine(folder: string, pid: number, ticks: string, inUserNamespace: boolean): Machine {
  const isAlive = (): boolean => startTicks(pid) === ticks;
  const wrapCommand = (argv: readonly string[], home?: string): readonly string[] => {
    // A home has the same path inside and outside.
    const isDirect = home !== undefined && supportsWdns() && isFolder(home);
    return [
      nsenter,
      '--target',
      String(pid),
      ...(inUserNamespace ? ['--user', '--preserve-credentials'] : []),
      '--mount',
      '--pid',
      '--uts',
      ...(isDirect ? [`--wdns=${home}`] : []),
      '--',
      ...(home === undefined || isDirect ? argv : commandInHome(argv, home)),
    ];
  };
  // Inside, -1 is every process but the sender and process 1, also those that cleared their environment.
  const signalAll = async (name: 'STOP' | 'CONT' | 'TERM'): Promise<void> => {
    // An nsenter outside stops itself when its child is stopped. It needs its own SIGCONT to run on and reap the child.
    if (name === 'CONT') await signal(name, await hostPids(folder));
    await new Promise<void>((resolve) => {
      const [command = '', ...rest] = wrapCommand(['/bin/sh', '-c', `kill -s ${name} -- -1`]);
      const child = spawn(command, rest, { stdio: 'ignore', cwd: '/' });
      child.on('error', () => resolve());
      child.on('close', () => resolve());
    });
  };
  const endNamespace = async (): Promise<void> => {
    await signal('KILL', [pid]);
    if (await waitUntil(() => !isAlive(), 200, 5)) return chmodWorkFolders(folder);
    // The kernel ends a namespace only after its processes are reaped, and a stopped nsenter outside reaps nothing.
    await signal('KILL', await hostPids(folder));
    if (!(await waitUntil(() => !isAlive(), 10_000))) throw new Error(`process ${String(pid)} does not end`);
    chmodWorkFolders(folder);
  };
  return {
    root: `/proc/${String(pid)}/root`,
    wrapCommand,
    isAlive,
    freeze: () => signalAll('STOP'),
    thaw: () => signalAll('CONT'),
    async shutDown(graceMs, shutdownTask) {
      if (!isAlive() || (shutdownTask === undefined && isEmpty(pid))) return;
      await signalAll('TERM');
      await Promise.all([withTimeout(graceMs, shutdownTask?.()), waitUntil(() => isEmpty(pid), graceMs, 25)]);
    },
    async end() {
      if (isAlive()) await endNamespace();
      if (!inUserNamespace) await removeCgroups(folder);
    },
  };
}

/** Work folders of overlays are unreadable even for their owner, who then could not `rm` the state folder. */
function chmodWorkFolders(folder: string): void {
  for (const name of namesIn(join(folder, 'disk'))) {
    try {
      chmodSync(join(folder, 'disk', name, 'work', 'work'), 0o700);
    } catch {
      // This layer was never mounted, or is in memory.
    }
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** True when a namespace holds only process 1, the sleep that it waits for, and zombies. */
function isEmpty(pid: number): boolean {
  const inside = `/proc/${String(pid)}/root/proc`;
  try {
    return readdirSync(inside).every((name) => {
      if (!/^\d+$/.test(name) || name === '1') return true;
      const commandLine = readText(join(inside, name, 'cmdline'));
      return commandLine === '' || commandLine === idleCommandLine;
    });
  } catch {
    return true;
  }
}

function withTimeout(limitMs: number, what: Promise<void> | undefined): Promise<void> {
  if (what === undefined) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, limitMs);
    void what.finally(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function unisolatedMachine(folder: string): Machine {
  const pids = (): Promise<readonly number[]> => hostPids(folder);
  return {
    root: '/',
    wrapCommand: (argv, home) => (home === undefined ? argv : commandInHome(argv, home)),
    isAlive: () => true,
    freeze: async () => signal('STOP', await pids()),
    thaw: async () => signal('CONT', await pids()),
    async shutDown(graceMs, shutdownTask) {
      const found = await pids();
      if (shutdownTask === undefined && found.length === 0) return;
      await signal('TERM', found);
      await Promise.all([
        withTimeout(graceMs, shutdownTask?.()),
        waitUntil(async () => (await pids()).length === 0, graceMs, 50),
      ]);
    },
    async end() {
      // A process may start another one during the scan, so repeat until a scan finds none.
      for (let round = 0; round < 100; round += 1) {
        const found = await pids();
        if (found.length === 0) return;
        await signal('KILL', found);
        await waitUntil(() => found.every((pid) => startTicks(pid) === undefined), 1_000, 5);
      }
      throw new Error(`the processes of ${folder} do not end`);
    },
  };
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function exists(path: string): boolean {
  try {
    closeSync(openSync(path, 'r'));
    return true;
  } catch {
    return false;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
