/**
 * A machine behind a worker: something that can be switched on, entered, frozen and ended with all its processes.
 * With Linux namespaces the end is the kernel's: when process 1 of a PID namespace dies, so does everything in it. Without
 * them a mark in the environment finds a host's processes, which holds for all that keep their environment.
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
import { hostMark, machineBootId, markedPids, signal, startTicks, until } from './processes.ts';
import { rebootFile } from './reboot.ts';

export type Isolation = 'root' | 'user' | 'none';

export interface Machine {
  /** Where a process outside finds the machine's root folder; follow no symbolic link below it (file-view.ts). */
  readonly root: string;
  /** The command line that runs `argv` inside, from any folder, or from `home` when that is given and is there. */
  enter(argv: readonly string[], home?: string): readonly string[];
  isAlive(): boolean;
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /**
   * Asks every process to end, as a machine that is switched off by its button does (SIGTERM), runs `last` meanwhile, and
   * resolves when none is left or that time is over. `end` follows.
   */
  shutDown(graceMs: number, last: (() => Promise<void>) | undefined): Promise<void>;
  /** Ends every process; resolves when none is left. */
  end(): Promise<void>;
}

export interface MachineFacts {
  readonly stateDir: string;
  readonly folder: string;
  readonly hostName: string;
  /** The count of this host's starts; kept, so that a machine is found again by a later emulator. */
  readonly boot: number;
  /** The contents of /proc/sys/kernel/random/boot_id inside. */
  readonly bootId: string;
  /** The texts of files inside, by name: `hosts` and `passwd` of /etc, `profile` and `ssh_config` for their folders. */
  readonly files: Readonly<Record<'hosts' | 'passwd' | 'profile' | 'ssh_config' | 'zone', string>>;
  /** Names below /dev of the chips. */
  readonly chips: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** The command line of the sleep that process 1 of a host waits for. */
const idleWords = `sleep\0${String(idleSeconds)}\0`;

/** The record of a running machine. */
interface BootNote {
  readonly boot: number;
  readonly isolation: Isolation;
  readonly pid: number;
  readonly startTicks: string;
  readonly machineBootId: string;
}

/** The strongest way to keep hosts apart that works here, found out by trying it. */
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

/** The same by a shell, which is a program more to begin. */
function fromHome(argv: readonly string[], home: string): readonly string[] {
  return ['/bin/sh', '-c', 'cd "$0" 2>/dev/null; exec "$@"', home, ...argv];
}

/** By its place where it usually is: the emulator stands still until a program that it starts was found on a long PATH. */
const nsenter = ['/usr/bin/nsenter', '/bin/nsenter'].find(exists) ?? 'nsenter';

let knowsFolders: boolean | undefined;

/** Whether nsenter can begin in a folder of the namespace: since util-linux 2.38 (nsenter(1), --wdns). */
function entersFolders(): boolean {
  knowsFolders ??= spawnSync(nsenter, ['--help'], { encoding: 'utf8' }).stdout.includes('--wdns');
  return knowsFolders;
}

function unshareOptions(isolation: Isolation): string[] {
  const user = isolation === 'user' ? ['--user', '--map-root-user'] : [];
  return [...user, '--mount', '--pid', '--uts', '--fork', '--propagation', 'private', '--'];
}

/** How many machines boot at once: more only wait for each other, and the last for longer than a boot may take. */
const bootsAtOnce = 8;

let booting = 0;
const waitingToBoot: (() => void)[] = [];

/** Switches a machine on, after those that came before. Rejects with the console's last words when it does not come up. */
export async function bootMachine(facts: MachineFacts, isolation: Isolation): Promise<Machine> {
  if (booting >= bootsAtOnce) await new Promise<void>((resolve) => waitingToBoot.push(resolve));
  else booting += 1;
  try {
    return await boot(facts, isolation);
  } finally {
    const next = waitingToBoot.shift();
    if (next === undefined) booting -= 1;
    else next();
  }
}

async function boot(facts: MachineFacts, isolation: Isolation): Promise<Machine> {
  const { folder } = facts;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  if (isolation === 'none') unmountLinks(folder);
  for (const name of ['up', 'init', 'boot.json', 'mounts', 'namespaces', rebootFile])
    rmSync(join(folder, name), { force: true });
  writeFileSync(join(folder, 'hostname'), `${facts.hostName}\n`);
  writeFileSync(join(folder, 'boot_id'), `${facts.bootId}\n`);
  for (const [name, text] of Object.entries(facts.files)) writeFileSync(join(folder, name), text);
  if (isolation === 'none') {
    note(facts, { isolation, pid: 0, startTicks: '' });
    return markedMachine(folder);
  }
  writeFileSync(join(folder, 'namespaces'), isolation);
  const inUserNamespace = isolation === 'user';
  writeFileSync(join(folder, 'boot.sh'), await bootScript({ ...facts, inUserNamespace }));
  const consolePath = join(folder, 'console');
  const output = openSync(consolePath, 'w');
  const child = spawn('unshare', [...unshareOptions(isolation), '/bin/sh', join(folder, 'boot.sh')], {
    // Of its own session, with files for streams: the host outlives the emulator.
    detached: true,
    stdio: ['ignore', output, output],
    cwd: '/',
    env: { ...facts.env, [hostMark]: folder },
  });
  closeSync(output);
  let ended = false;
  child.on('error', () => (ended = true));
  child.on('exit', () => (ended = true));
  child.unref();
  const isUp = (): boolean => exists(join(folder, 'up'));
  await until(() => ended || isUp(), 30_000);
  if (!isUp()) {
    await signal('KILL', await markedPids(folder));
    throw new Error(`${facts.hostName} does not boot: ${readText(consolePath).trim().split('\n').slice(-3).join(' ')}`);
  }
  const [pid = '0', ticks = ''] = readText(join(folder, 'init')).trim().split(' ');
  note(facts, { isolation, pid: Number(pid), startTicks: ticks });
  return namespacedMachine(folder, Number(pid), ticks, inUserNamespace);
}

/** Without namespaces a mounted bucket is a link on the disk. No mount outlives a boot; gcsfuse would mount the next inside of it. */
function unmountLinks(folder: string): void {
  for (const line of readText(join(folder, 'mounts')).split('\n')) {
    const path = line.split('\t')[1] ?? '';
    if (path === '' || lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) continue;
    rmSync(path);
    mkdirSync(path);
  }
}

function note(facts: MachineFacts, what: Omit<BootNote, 'boot' | 'machineBootId'>): void {
  const text: BootNote = { ...what, boot: facts.boot, machineBootId: machineBootId() };
  writeFileSync(join(facts.folder, 'boot.json'), JSON.stringify(text));
}

/** The machine that an earlier emulator switched on, when it still runs and is of that boot. */
export function findMachine(folder: string, boot: number, isolation: Isolation): Machine | undefined {
  let found: BootNote;
  try {
    found = JSON.parse(readText(join(folder, 'boot.json'))) as BootNote;
  } catch {
    return undefined;
  }
  if (found.boot !== boot || found.isolation !== isolation || found.machineBootId !== machineBootId()) return undefined;
  if (isolation === 'none') return markedMachine(folder);
  const machine = namespacedMachine(folder, found.pid, found.startTicks, isolation === 'user');
  return machine.isAlive() ? machine : undefined;
}

function namespacedMachine(folder: string, pid: number, ticks: string, inUserNamespace: boolean): Machine {
  const isAlive = (): boolean => startTicks(pid) === ticks;
  const enter = (argv: readonly string[], home?: string): readonly string[] => {
    // A home is the same folder inside and outside.
    const isDirect = home !== undefined && entersFolders() && isFolder(home);
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
      ...(home === undefined || isDirect ? argv : fromHome(argv, home)),
    ];
  };
  // Inside, -1 means every process but the sender and process 1; that reaches those that lost their mark.
  const toAll = async (name: 'STOP' | 'CONT' | 'TERM'): Promise<void> => {
    // An nsenter outside stops itself when its child is stopped, and would never wake up by itself to bury it.
    if (name === 'CONT') await signal(name, await markedPids(folder));
    await new Promise<void>((resolve) => {
      const [command = '', ...rest] = enter(['/bin/sh', '-c', `kill -s ${name} -- -1`]);
      const child = spawn(command, rest, { stdio: 'ignore', cwd: '/' });
      child.on('error', () => resolve());
      child.on('close', () => resolve());
    });
  };
  const endNamespace = async (): Promise<void> => {
    await signal('KILL', [pid]);
    if (await until(() => !isAlive(), 200, 5)) return openWorkFolders(folder);
    // The kernel ends the namespace only when everybody in it is buried. The undertaker of a session is the nsenter
    // outside, and one that was stopped with its host does not bury.
    await signal('KILL', await markedPids(folder));
    if (!(await until(() => !isAlive(), 10_000))) throw new Error(`process ${String(pid)} does not end`);
    openWorkFolders(folder);
  };
  return {
    root: `/proc/${String(pid)}/root`,
    enter,
    isAlive,
    freeze: () => toAll('STOP'),
    thaw: () => toAll('CONT'),
    async shutDown(graceMs, last) {
      if (!isAlive() || (last === undefined && isEmpty(pid))) return;
      await toAll('TERM');
      await Promise.all([within(graceMs, last?.()), until(() => isEmpty(pid), graceMs, 25)]);
    },
    async end() {
      if (isAlive()) await endNamespace();
      if (!inUserNamespace) await removeCgroups(folder);
    },
  };
}

/**
 * The kernel makes the working folders of overlays unreadable, even for their owner, who then cannot remove the folder of
 * the whole cloud by hand.
 */
function openWorkFolders(folder: string): void {
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

/** True when a namespace holds nobody but process 1, the sleep that it waits for, and the dead. */
function isEmpty(pid: number): boolean {
  const inside = `/proc/${String(pid)}/root/proc`;
  try {
    return readdirSync(inside).every((name) => {
      if (!/^\d+$/.test(name) || name === '1') return true;
      const words = readText(join(inside, name, 'cmdline'));
      return words === '' || words === idleWords;
    });
  } catch {
    return true;
  }
}

/** Waits for that, but no longer than so many milliseconds. */
function within(limitMs: number, what: Promise<void> | undefined): Promise<void> {
  if (what === undefined) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, limitMs);
    void what.finally(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

function markedMachine(folder: string): Machine {
  const pids = (): Promise<readonly number[]> => markedPids(folder);
  return {
    root: '/',
    enter: (argv, home) => (home === undefined ? argv : fromHome(argv, home)),
    isAlive: () => true,
    freeze: async () => signal('STOP', await pids()),
    thaw: async () => signal('CONT', await pids()),
    async shutDown(graceMs, last) {
      const found = await pids();
      if (last === undefined && found.length === 0) return;
      await signal('TERM', found);
      await Promise.all([within(graceMs, last?.()), until(async () => (await pids()).length === 0, graceMs, 50)]);
    },
    async end() {
      // A process may start another while we look, so it is done until a look finds none.
      for (let round = 0; round < 100; round += 1) {
        const found = await pids();
        if (found.length === 0) return;
        await signal('KILL', found);
        await until(() => found.every((pid) => startTicks(pid) === undefined), 1_000, 5);
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
