/**
 * The fleet: makes the hosts what the world says they are. For each worker it knows what is wanted (on, which boot,
 * hung) and what runs, and goes from one to the other, one step at a time and never two at once for the same host.
 *
 * Hosts are detached processes. A kill -9 of the emulator leaves them running, as real machines outlive an outage of
 * the API: a later emulator finds them by process id and start time and opens their SSH doors again. A proper `close`
 * ends them. What cannot be found again (a reboot of the machine) boots anew with its disk, as after a power cut.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Storage } from '../http/storage.ts';
import type { NodeRecord, WorkerRecord } from '../world/records.ts';
import type { World } from '../world/world.ts';
import { bucketsFolder } from './boot-script.ts';
import { findMachine, type Isolation } from './machine.ts';
import { type HostSideTrouble, type PoweredHost, type PowerOptions, turnOn } from './power.ts';
import { lookAtMarks, markedPids, signal } from './processes.ts';
import { writePrograms } from './programs.ts';
import { endSshd } from './sshd.ts';

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
  readonly storage: Storage;
  readonly stateDir: string;
  readonly sshPort: number;
  readonly isolation: Isolation;
  /** OpenSSH's server, where the hosts are to be reached by it; undefined for the server of this process. */
  readonly sshd: string | undefined;
  /** Google's gcsfuse, by its path; undefined for the built-in one. */
  readonly gcsfuse: string | undefined;
  /** The user that the emulator runs as. */
  readonly user: { readonly name: string; readonly uid: number };
  readonly env: Readonly<Record<string, string | undefined>>;
}

interface Host {
  readonly key: string;
  /** Of which node, by name and id, and which worker of it. */
  readonly nodeName: string;
  readonly nodeId: string;
  readonly index: number;
  readonly folder: string;
  running: PoweredHost | undefined;
  /** The work under way; it looks again at what is wanted before it ends. */
  work: Promise<void> | undefined;
}

/** In the order in which they are brought about: who stands still refuses nobody. */
const troubles: readonly HostSideTrouble[] = ['diskFull', 'sshRefused', 'hung'];

/** A host that does not boot is tried again after this long. */
const bootAgainMs = 2_000;

export async function createFleet(options: FleetOptions): Promise<Fleet> {
  const { world, stateDir, isolation } = options;
  const { env, sshPort, sshd, user } = options;
  const power: PowerOptions = {
    world,
    storage: options.storage,
    stateDir,
    sshPort,
    isolation,
    sshd,
    env,
    ownUser: user.name,
    uid: user.uid,
    programs: writePrograms(stateDir, options.gcsfuse),
  };
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
    !isClosed && node.state === 'READY' && worker.power && worker.rebooting !== true;

  /** One step towards what is wanted; false when there is none to take. */
  async function step(host: Host): Promise<boolean> {
    const records = recordsOf(host);
    const { running } = host;
    if (running !== undefined) {
      const { node, worker } = records ?? {};
      const isAlive = running.isAlive();
      const stays =
        node !== undefined &&
        worker !== undefined &&
        isWantedOn(node, worker) &&
        worker.boot === running.boot &&
        worker.address === running.address &&
        isAlive;
      if (!stays) {
        // The cloud presses the button and waits; only a lost power, or our own end, is sudden.
        await running.turnOff(isAlive && !isClosed && worker?.power !== false);
        host.running = undefined;
        return true;
      }
      for (const trouble of troubles) {
        const isWanted = worker[trouble] === true;
        if (isWanted === running.trouble[trouble]) continue;
        await running.setTrouble(trouble, isWanted);
        return true;
      }
      return false;
    }
    if (records !== undefined && isWantedOn(records.node, records.worker)) {
      const { folder } = host;
      host.running = await turnOn(
        power,
        { folder, records: () => recordsOf(host), clear: () => endMarked(folder) },
        records.node,
        records.worker,
      );
      return true;
    }
    if (records === undefined) {
      if (!isClosed) await removeFolder(host.folder);
      hosts.delete(host.key);
    }
    return false;
  }

  /** Takes the folder of a worker away, and the node's when it was the last. Others go on meanwhile: there may be many. */
  async function removeFolder(folder: string): Promise<void> {
    try {
      await rm(folder, { recursive: true, force: true });
    } catch {
      // The kernel makes the working folders of overlays unreadable, even for their owner. And a program there may have made paths that
      // are longer than a path can be, which Node does not remove.
      spawnSync('chmod', ['-R', 'u+rwx', folder], { stdio: 'ignore' });
      spawnSync('rm', ['-rf', folder], { stdio: 'ignore' });
      await rm(folder, { recursive: true, force: true });
    }
    const parent = dirname(folder);
    if (parent !== hostsFolder && entries(parent).length === 0) await rm(parent, { recursive: true, force: true });
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
    for (const host of hosts.values()) {
      host.running?.changed();
      if (needsWork(host)) wake(host);
    }
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
      troubles.some((trouble) => (worker[trouble] === true) !== host.running?.trouble[trouble])
    );
  }

  async function endMarked(folder: string): Promise<void> {
    await endSshd(folder);
    for (let round = 0; round < 20; round += 1) {
      const pids = await markedPids(folder);
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
    const strays = [...(await lookAtMarks()).keys()].filter((mark) => mark.startsWith(`${hostsFolder}/`));
    for (const folder of strays) if (!wanted.has(folder)) await endMarked(folder);
    for (const nodeFolder of entries(hostsFolder)) {
      for (const index of entries(join(hostsFolder, nodeFolder))) {
        const folder = join(hostsFolder, nodeFolder, index);
        if (!kept.has(folder)) await removeFolder(folder);
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

function entries(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}
