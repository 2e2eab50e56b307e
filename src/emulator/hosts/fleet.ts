/**
 * The fleet makes the hosts match the world. For each worker it compares the desired state (power, boot, faults) with
 * the running host, and takes one step at a time, never two at once for the same host. Hosts are detached processes. A
 * kill -9 of the emulator leaves them running, as real machines outlive an outage of the API. A later emulator finds
 * them by process id and start time and opens their SSH servers again. A proper `close` ends them. A host that cannot
 * be found (after a reboot of the machine) boots again with its disk, as after a power cut.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { NodeRecord, WorkerRecord } from '../world/records.ts';
import type { World } from '../world/world.ts';
import { bucketsFolder } from './boot-script.ts';
import { clearLeftovers, endHostProcesses, hostFolder, removeHostFolder } from './host-folders.ts';
import { findMachine, type Isolation } from './machine.ts';
import { type RunningHostFault, type RunningHost, type HostOptions, turnOn } from './power.ts';
import { writePrograms } from './programs.ts';

export interface Fleet {
  /** True when no process and no open port of that node's workers is left. */
  isDown(node: NodeRecord): boolean;
  waitUntilSynced(): Promise<void>;
  close(): Promise<void>;
}

export interface FleetOptions extends Omit<HostOptions, 'ownUser' | 'uid' | 'programs'> {
  /** The path of Google's gcsfuse; undefined for the emulator's own. */
  readonly gcsfuse: string | undefined;
  readonly user: { readonly name: string; readonly uid: number };
}

interface Host {
  readonly key: string;
  readonly nodeName: string;
  readonly nodeId: string;
  readonly index: number;
  readonly folder: string;
  running: RunningHost | undefined;
  work: Promise<void> | undefined;
}

type Step = 'on' | 'off' | 'forget' | RunningHostFault;

/** In the order of application: `hung` last, because a hung host cannot refuse connections. */
const hostFaults: readonly RunningHostFault[] = ['diskFull', 'sshRefused', 'hung'];

const bootRetryMs = 2_000;

/** Returns once the hosts match the world, and keeps them so until `close`. */
export async function createFleet(options: FleetOptions): Promise<Fleet> {
  const { world, stateDir, isolation, user } = options;
  const hostOptions: HostOptions = {
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

  /** Does not check the process itself, which is too slow for every change. */
  function nextStep(host: Host, isAlive = true): Step | undefined {
    const records = recordsOf(world, host);
    const { running } = host;
    if (records === undefined) return running === undefined ? 'forget' : 'off';
    const { node, worker } = records;
    const isWanted = isWantedOn(node, worker);
    if (running === undefined) return isWanted ? 'on' : undefined;
    const isSame = worker.boot === running.boot && worker.address === running.address;
    if (!isWanted || !isSame || !isAlive) return 'off';
    return hostFaults.find((fault) => (worker[fault] === true) !== running.faults[fault]);
  }

  async function applyStep(step: Step, host: Host, isAlive: boolean): Promise<void> {
    const records = recordsOf(world, host);
    const { folder, running } = host;
    if (step === 'forget') {
      if (!isClosed) await removeHostFolder(hostsFolder, folder);
      hosts.delete(host.key);
    } else if (step === 'off') {
      // The cloud shuts down softly. Only a power cut and the end of the emulator are sudden.
      await running?.turnOff(isAlive && !isClosed && records?.worker.power !== false);
      host.running = undefined;
    } else if (step !== 'on') await running?.setFault(step, !running.faults[step]);
    else if (records !== undefined) {
      const context = { folder, records: () => recordsOf(world, host), endLeftovers: () => endHostProcesses(folder) };
      host.running = await turnOn(hostOptions, context, records.node, records.worker);
    }
  }

  async function reconcileHost(host: Host): Promise<void> {
    try {
      while (hosts.get(host.key) === host) {
        const isAlive = host.running?.isAlive() ?? true;
        const step = nextStep(host, isAlive);
        if (step === undefined) break;
        await applyStep(step, host, isAlive);
      }
      host.work = undefined;
    } catch (error) {
      world.log(`host ${host.key}: ${error instanceof Error ? error.message : String(error)}`);
      host.work = undefined;
      if (isClosed) return;
      const timer = setTimeout(() => {
        timers.delete(timer);
        enqueueHost(host);
      }, bootRetryMs);
      timers.add(timer);
    }
  }

  function enqueueHost(host: Host): void {
    // Work in progress sees this change too, because it checks again before it ends.
    host.work ??= Promise.resolve().then(() => reconcileHost(host));
  }

  function syncHosts(): void {
    for (const node of world.nodes.values()) {
      for (const worker of node.workers) {
        const { index } = worker;
        const key = keyOf(node, index);
        if (hosts.has(key) || !isWantedOn(node, worker)) continue;
        hosts.set(key, newHost(key, node, index, hostFolder(hostsFolder, node, index)));
      }
    }
    for (const host of hosts.values()) {
      host.running?.onWorldChange();
      if (nextStep(host) !== undefined) enqueueHost(host);
    }
  }

  async function waitUntilSynced(): Promise<void> {
    while ([...hosts.values()].some((host) => host.work !== undefined)) {
      await Promise.all([...hosts.values()].flatMap((host) => host.work ?? []));
    }
  }

  await clearLeftovers(hostsFolder, workerFolders(world, hostsFolder, isolation));
  world.onChange(syncHosts);
  syncHosts();

  return {
    isDown: (node) =>
      node.workers.every((worker) => {
        const host = hosts.get(keyOf(node, worker.index));
        return host === undefined || (host.running === undefined && host.work === undefined);
      }),
    waitUntilSynced,
    async close() {
      isClosed = true;
      for (const timer of timers) clearTimeout(timer);
      for (const host of hosts.values()) enqueueHost(host);
      await waitUntilSynced();
    },
  };
}

function newHost(key: string, { name: nodeName, id: nodeId }: NodeRecord, index: number, folder: string): Host {
  return { key, nodeName, nodeId, index, folder, running: undefined, work: undefined };
}

function recordsOf(world: World, host: Host): { node: NodeRecord; worker: WorkerRecord } | undefined {
  const node = world.nodes.get(host.nodeName);
  const worker = node?.workers[host.index];
  return node === undefined || worker === undefined || node.id !== host.nodeId ? undefined : { node, worker };
}

function shouldRun(node: NodeRecord, worker: WorkerRecord): boolean {
  return node.state === 'READY' && worker.power && worker.rebooting !== true;
}

function workerFolders(world: World, hostsFolder: string, isolation: Isolation): Map<string, boolean> {
  const known = new Map<string, boolean>();
  for (const node of world.nodes.values()) {
    for (const worker of node.workers) {
      const folder = hostFolder(hostsFolder, node, worker.index);
      known.set(folder, shouldRun(node, worker) && findMachine(folder, worker.boot, isolation) !== undefined);
    }
  }
  return known;
}
