/**
 * The fleet: makes the hosts what the world says they are. For each worker it knows what is wanted (on, which boot,
 * hung) and what runs, and goes from one to the other, one step at a time and never two at once for the same host.
 *
 * Hosts are detached processes. A kill -9 of the emulator leaves them running, as real machines outlive an outage of
 * the API: a later emulator finds them by process id and start time and opens their SSH doors again. A proper `close`
 * ends them. What cannot be found again (a reboot of the machine) boots anew with its disk, as after a power cut.
 */
import { spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { NodeRecord, WorkerRecord } from '../world/records.ts';
import { workerHostName } from '../world/nodes.ts';
import type { World } from '../world/world.ts';
import { bucketsFolder } from './boot-script.ts';
import { authorizedKeys } from './keys.ts';
import { type Login, openLogin } from './login.ts';
import { bootMachine, findMachine, type Isolation, type Machine, markedPids } from './machine.ts';
import { hostMark, markedProcesses, signal } from './processes.ts';
import { writePrograms } from './programs.ts';
import { loginShell } from './session.ts';

export interface Fleet {
  /** True when no process and no door of that node's workers is left. */
  isDown(node: NodeRecord): boolean;
  /** Resolves when every host is as the world wants it. */
  settled(): Promise<void>;
  /** Ends all hosts and frees all addresses. Folders stay. */
  close(): Promise<void>;
}

export interface FleetOptions {
  readonly world: World;
  readonly stateDir: string;
  readonly sshPort: number;
  readonly isolation: Isolation;
  readonly env: Readonly<Record<string, string | undefined>>;
}

interface Running {
  readonly boot: number;
  readonly address: string;
  readonly machine: Machine;
  readonly login: Login;
  hung: boolean;
}

interface Host {
  readonly key: string;
  /** Of which node, by name and id, and which worker of it. */
  readonly nodeName: string;
  readonly nodeId: string;
  readonly index: number;
  readonly folder: string;
  running: Running | undefined;
  /** The work under way; it looks again at what is wanted before it ends. */
  work: Promise<void> | undefined;
}

/** A host that does not boot is tried again after this long. */
const bootAgainMs = 2_000;

export async function createFleet(options: FleetOptions): Promise<Fleet> {
  const { world, stateDir, isolation } = options;
  const programs = writePrograms(stateDir);
  const buckets = bucketsFolder(stateDir);
  const hostsFolder = join(stateDir, 'hosts');
  mkdirSync(buckets, { recursive: true });
  mkdirSync(hostsFolder, { recursive: true });
  const hosts = new Map<string, Host>();
  const timers = new Set<NodeJS.Timeout>();
  let isClosed = false;

  const folderOf = (node: NodeRecord, index: number): string =>
    join(hostsFolder, `${node.nodeId}-${node.id.slice(-6)}`, String(index));
  const keyOf = (node: NodeRecord, index: number): string => `${node.id}/${String(index)}`;

  /** The node and worker that a host stands for; undefined when they are no more. */
  function recordsOf(host: Host): { node: NodeRecord; worker: WorkerRecord } | undefined {
    const node = world.nodes.get(host.nodeName);
    const worker = node?.workers[host.index];
    return node === undefined || worker === undefined || node.id !== host.nodeId ? undefined : { node, worker };
  }

  const isWantedOn = (node: NodeRecord, worker: WorkerRecord): boolean =>
    !isClosed && node.state === 'READY' && worker.power;

  /** One step towards what is wanted; false when there is none to take. */
  async function step(host: Host): Promise<boolean> {
    const records = recordsOf(host);
    const { running } = host;
    if (running !== undefined) {
      const { node, worker } = records ?? {};
      const stays =
        node !== undefined &&
        worker !== undefined &&
        isWantedOn(node, worker) &&
        worker.boot === running.boot &&
        worker.address === running.address &&
        running.machine.isAlive();
      if (!stays) {
        // The processes first: a program must not see its own connections go and start something new.
        await running.machine.end();
        await running.login.close();
        host.running = undefined;
        return true;
      }
      if (worker.hung !== running.hung) {
        running.hung = worker.hung;
        running.login.setHung(worker.hung);
        await (worker.hung ? running.machine.freeze() : running.machine.thaw());
        return true;
      }
      return false;
    }
    if (records !== undefined && isWantedOn(records.node, records.worker)) {
      host.running = await turnOn(host, records.node, records.worker);
      return true;
    }
    if (records === undefined) {
      hosts.delete(host.key);
      if (!isClosed) removeFolder(host.folder);
    }
    return false;
  }

  async function turnOn(host: Host, node: NodeRecord, worker: WorkerRecord): Promise<Running> {
    const found = findMachine(host.folder, worker.boot, isolation);
    if (found === undefined) await endMarked(host.folder);
    const machine =
      found ??
      (await bootMachine(
        {
          stateDir,
          folder: host.folder,
          hostName: workerHostName(node, worker.index),
          boot: worker.boot,
          bootId: randomUUID(),
          hosts: hostsText(node),
          env: { PATH: `${machinePath(options.env)}:/usr/sbin:/sbin:/usr/bin:/bin` },
        },
        isolation,
      ));
    const login = await openLogin({
      address: worker.address,
      port: options.sshPort,
      hostKey: worker.hostKey,
      folder: host.folder,
      machine,
      keys: () => authorizedKeys(metadataOf(recordsOf(host)?.node ?? node)['ssh-keys']),
      environment: (user, client) => ({
        ...baseEnvironment(node, worker, host.folder),
        ...userEnvironment(host.folder, user),
        SSH_CLIENT: `${client.address} ${String(client.port)} ${String(options.sshPort)}`,
        SSH_CONNECTION: `${client.address} ${String(client.port)} ${worker.address} ${String(options.sshPort)}`,
      }),
      log: (line) => world.log(line),
    }).catch(async (error: unknown) => {
      await machine.end();
      throw error;
    });
    return { boot: worker.boot, address: worker.address, machine, login, hung: false };
  }

  function baseEnvironment(node: NodeRecord, worker: WorkerRecord, folder: string): Record<string, string> {
    const { env } = options;
    return {
      PATH: `${programs}:${machinePath(env)}`,
      SHELL: loginShell,
      [hostMark]: folder,
      TPU_WORKER_ID: String(worker.index),
      TPU_ACCELERATOR_TYPE: node.type,
      ...(env['LANG'] === undefined ? {} : { LANG: env['LANG'] }),
      ...(env['TZ'] === undefined ? {} : { TZ: env['TZ'] }),
    };
  }

  function userEnvironment(folder: string, user: string): Record<string, string> {
    const home = join(folder, 'home', user);
    mkdirSync(home, { recursive: true });
    return { HOME: home, USER: user, LOGNAME: user };
  }

  /** Takes the folder of a worker away, and the node's when it was the last. */
  function removeFolder(folder: string): void {
    try {
      rmSync(folder, { recursive: true, force: true });
    } catch {
      // The kernel makes the working folders of overlays unreadable, even for their owner.
      spawnSync('chmod', ['-R', 'u+rwx', folder], { stdio: 'ignore' });
      rmSync(folder, { recursive: true, force: true });
    }
    const parent = dirname(folder);
    if (parent !== hostsFolder && entries(parent).length === 0) rmSync(parent, { recursive: true, force: true });
  }

  async function run(host: Host): Promise<void> {
    try {
      while (await step(host));
      host.work = undefined;
      // Something may have changed between the last look and this line.
      if (hosts.has(host.key) && needsWork(host)) wake(host);
    } catch (error) {
      world.log(`host ${host.key}: ${error instanceof Error ? error.message : String(error)}`);
      host.work = undefined;
      if (isClosed) return;
      const timer = setTimeout(() => {
        timers.delete(timer);
        wake(host);
      }, bootAgainMs);
      timers.add(timer);
    }
  }

  function wake(host: Host): void {
    // A change that comes while work is under way is seen by it, because it looks again before it ends.
    host.work ??= Promise.resolve().then(() => run(host));
  }

  function align(): void {
    for (const node of world.nodes.values()) {
      for (const worker of node.workers) {
        const key = keyOf(node, worker.index);
        if (!hosts.has(key) && isWantedOn(node, worker)) {
          hosts.set(key, {
            key,
            nodeName: node.name,
            nodeId: node.id,
            index: worker.index,
            folder: folderOf(node, worker.index),
            running: undefined,
            work: undefined,
          });
        }
      }
    }
    for (const host of hosts.values()) if (needsWork(host)) wake(host);
  }

  /** Cheap enough to ask for every host at every change. */
  function needsWork(host: Host): boolean {
    const records = recordsOf(host);
    if (records === undefined) return true;
    const { node, worker } = records;
    if (host.running === undefined) return isWantedOn(node, worker);
    return (
      !isWantedOn(node, worker) ||
      worker.boot !== host.running.boot ||
      worker.address !== host.running.address ||
      worker.hung !== host.running.hung
    );
  }

  async function endMarked(folder: string): Promise<void> {
    for (let round = 0; round < 20; round += 1) {
      const pids = markedPids(folder);
      if (pids.length === 0) return;
      await signal('KILL', pids);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** What an earlier emulator left: processes and folders of hosts that are not wanted any more. */
  async function clearLeftovers(): Promise<void> {
    const wanted = new Set<string>();
    const kept = new Set<string>();
    for (const node of world.nodes.values()) {
      for (const worker of node.workers) {
        const folder = folderOf(node, worker.index);
        kept.add(folder);
        if (isWantedOn(node, worker) && findMachine(folder, worker.boot, isolation) !== undefined) wanted.add(folder);
      }
    }
    const strays = new Set(markedProcesses(`${hostsFolder}/`).map(({ mark }) => mark));
    for (const folder of strays) if (!wanted.has(folder)) await endMarked(folder);
    for (const nodeFolder of entries(hostsFolder)) {
      for (const index of entries(join(hostsFolder, nodeFolder))) {
        const folder = join(hostsFolder, nodeFolder, index);
        if (!kept.has(folder)) removeFolder(folder);
      }
    }
  }

  async function settled(): Promise<void> {
    while ([...hosts.values()].some((host) => host.work !== undefined)) {
      await Promise.all([...hosts.values()].flatMap((host) => host.work ?? []));
    }
  }

  await clearLeftovers();
  world.onChange(align);
  align();

  return {
    isDown: (node) =>
      node.workers.every((worker) => {
        const host = hosts.get(keyOf(node, worker.index));
        return host === undefined || (host.running === undefined && host.work === undefined);
      }),
    settled,
    async close() {
      isClosed = true;
      for (const timer of timers) clearTimeout(timer);
      for (const host of hosts.values()) wake(host);
      await settled();
    },
  };
}

function machinePath(env: Readonly<Record<string, string | undefined>>): string {
  return env['PATH'] || '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin';
}

function metadataOf(node: NodeRecord): Record<string, string> {
  return (node.asked['metadata'] ?? {}) as Record<string, string>;
}

/** The machine's own names, and those of the node's workers, so that they find each other by name. */
function hostsText(node: NodeRecord): string {
  let own = '127.0.0.1 localhost\n';
  try {
    own = readFileSync('/etc/hosts', 'utf8');
  } catch {
    // A machine without the file still knows itself.
  }
  const workers = node.workers.map((worker) => `${worker.address} ${workerHostName(node, worker.index)}`);
  return `${own.trimEnd()}\n${workers.join('\n')}\n`;
}

function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
