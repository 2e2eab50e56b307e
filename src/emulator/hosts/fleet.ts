/**
 * The fleet: makes the hosts what the world says they are. For each worker it knows what is wanted (on, which boot,
 * hung) and what runs, and goes from one to the other, one step at a time and never two at once for the same host.
 *
 * Hosts are detached processes. A kill -9 of the emulator leaves them running, as real machines outlive an outage of
 * the API: a later emulator finds them by process id and start time and opens their SSH doors again. A proper `close`
 * ends them. What cannot be found again (a reboot of the machine) boots anew with its disk, as after a power cut.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { NodeRecord, WorkerRecord } from '../world/records.ts';
import type { World } from '../world/world.ts';
import { bucketsFolder } from './boot-script.ts';
import { clearLeftovers, endMarked, hostFolder, removeHostFolder } from './host-folders.ts';
import { findMachine, type Isolation } from './machine.ts';
import { type HostSideTrouble, type PoweredHost, type PowerOptions, turnOn } from './power.ts';
import { writePrograms } from './programs.ts';

export interface Fleet {
  /** True when no process and no door of that node's workers is left. */
  isDown(node: NodeRecord): boolean;
  /** Resolves when every host is as the world wants it. */
  settled(): Promise<void>;
  /** Ends all hosts and frees all addresses. Folders stay. */
  close(): Promise<void>;
}

export interface FleetOptions extends Omit<PowerOptions, 'ownUser' | 'uid' | 'programs'> {
  /** Google's gcsfuse, by its path; undefined for the built-in one. */
  readonly gcsfuse: string | undefined;
  /** The user that the emulator runs as. */
  readonly user: { readonly name: string; readonly uid: number };
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

/** The next step of a host: on, off, into or out of a trouble, or to be forgotten with its folder. */
type Step = 'on' | 'off' | 'forget' | HostSideTrouble;

/** In the order in which they are brought about: who stands still refuses nobody. */
const troubles: readonly HostSideTrouble[] = ['diskFull', 'sshRefused', 'hung'];

/** A host that does not boot is tried again after this long. */
const bootAgainMs = 2_000;

/** Makes the hosts what the world wants now, and keeps them so until `close`. */
export async function createFleet(options: FleetOptions): Promise<Fleet> {
  const { world, stateDir, isolation, user } = options;
  const power: PowerOptions = {
    ...options,
    ownUser: user.name,
    uid: user.uid,
    programs: writePrograms(stateDir, options.gcsfuse),
  };
  const hostsFolder = join(stateDir, 'hosts');
  for (const folder of [bucketsFolder(stateDir), hostsFolder]) mkdirSync(folder, { recursive: true });
  const hosts = new Map<string, Host>();
  const timers = new Set<NodeJS.Timeout>();
  let isClosed = false;

  const keyOf = (node: NodeRecord, index: number): string => `${node.id}/${String(index)}`;

  const isWantedOn = (node: NodeRecord, worker: WorkerRecord): boolean => !isClosed && shouldRun(node, worker);

  /** Undefined when the host is as the world wants it. Without a look at its processes cheap enough for every change. */
  function stepDue(host: Host, isAlive = true): Step | undefined {
    const records = recordsOf(world, host);
    const { running } = host;
    if (records === undefined) return running === undefined ? 'forget' : 'off';
    const { node, worker } = records;
    const isWanted = isWantedOn(node, worker);
    if (running === undefined) return isWanted ? 'on' : undefined;
    const isSame = worker.boot === running.boot && worker.address === running.address;
    if (!isWanted || !isSame || !isAlive) return 'off';
    return troubles.find((trouble) => (worker[trouble] === true) !== running.trouble[trouble]);
  }

  async function take(due: Step, host: Host, isAlive: boolean): Promise<void> {
    const records = recordsOf(world, host);
    const { folder, running } = host;
    if (due === 'forget') {
      if (!isClosed) await removeHostFolder(hostsFolder, folder);
      hosts.delete(host.key);
    } else if (due === 'off') {
      // The cloud presses the button and waits; only a lost power, or our own end, is sudden.
      await running?.turnOff(isAlive && !isClosed && records?.worker.power !== false);
      host.running = undefined;
    } else if (due !== 'on') await running?.setTrouble(due, !running.trouble[due]);
    else if (records !== undefined) {
      const here = { folder, records: () => recordsOf(world, host), clear: () => endMarked(folder) };
      host.running = await turnOn(power, here, records.node, records.worker);
    }
  }

  async function run(host: Host): Promise<void> {
    try {
      while (hosts.get(host.key) === host) {
        const isAlive = host.running?.isAlive() ?? true;
        const due = stepDue(host, isAlive);
        if (due === undefined) break;
        await take(due, host, isAlive);
      }
      host.work = undefined;
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
        const { index } = worker;
        const key = keyOf(node, index);
        if (hosts.has(key) || !isWantedOn(node, worker)) continue;
        hosts.set(key, newHost(key, node, index, hostFolder(hostsFolder, node, index)));
      }
    }
    for (const host of hosts.values()) {
      host.running?.changed();
      if (stepDue(host) !== undefined) wake(host);
    }
  }

  async function settled(): Promise<void> {
    while ([...hosts.values()].some((host) => host.work !== undefined)) {
      await Promise.all([...hosts.values()].flatMap((host) => host.work ?? []));
    }
  }

  await clearLeftovers(hostsFolder, knownFolders(world, hostsFolder, isolation));
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

function newHost(key: string, { name: nodeName, id: nodeId }: NodeRecord, index: number, folder: string): Host {
  return { key, nodeName, nodeId, index, folder, running: undefined, work: undefined };
}

/** The node and worker that a host stands for; undefined when they are no more. */
function recordsOf(world: World, host: Host): { node: NodeRecord; worker: WorkerRecord } | undefined {
  const node = world.nodes.get(host.nodeName);
  const worker = node?.workers[host.index];
  return node === undefined || worker === undefined || node.id !== host.nodeId ? undefined : { node, worker };
}

function shouldRun(node: NodeRecord, worker: WorkerRecord): boolean {
  return node.state === 'READY' && worker.power && worker.rebooting !== true;
}

/** The folders of all workers, true for those whose host goes on with what an earlier emulator has left. */
function knownFolders(world: World, hostsFolder: string, isolation: Isolation): Map<string, boolean> {
  const known = new Map<string, boolean>();
  for (const node of world.nodes.values()) {
    for (const worker of node.workers) {
      const folder = hostFolder(hostsFolder, node, worker.index);
      known.set(folder, shouldRun(node, worker) && findMachine(folder, worker.boot, isolation) !== undefined);
    }
  }
  return known;
}
