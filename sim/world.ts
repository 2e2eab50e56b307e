// World: the truth. It contains the machines, the live programs and their output. The ports in cloud.ts and hosts.ts
// answer from it, correctly or not; the invariants check against it alone. Its time is the timeline's, which no jump of
// a controller's clock changes.

import type { OutputFile } from '../src/app/ports.ts';
import type { Chance } from './chance.ts';
import { resumedFrom } from './outputs.ts';
import type { Checkpoint, CheckpointPlan, CheckpointRecords } from './outputs.ts';
import type { Timeline } from './timeline.ts';

export type MachineState = 'waiting' | 'provisioning' | 'ready' | 'interrupted' | 'lost' | 'releasing' | 'gone';

export interface Labels {
  readonly installation: string;
  readonly job: string;
  readonly allocation: number;
}

/** A machine of the cloud: a node with its hosts; or this machine. */
export interface Machine {
  readonly name: string;
  /** Null for a resource without the label of any jobman. */
  readonly labels: Labels | null;
  /** True for a machine that existed before the jobs and that no job may delete. */
  readonly isPersistent: boolean;
  readonly zone: string;
  state: MachineState;
  /** The state before, and the time of the change: a lagging list still shows it. */
  stateBefore: MachineState | null;
  stateSince: number;
  cause: 'preempted' | 'failed' | null;
  readonly hosts: Host[];
  wasInterrupted: boolean;
  /** Last event of the machine or one of its hosts. */
  disruptedAt: number;
  /** A list has omitted it. That happens once: no second observation could tell two omissions from the truth. */
  wasOmitted: boolean;
  readonly createdAt: number;
  readyAt: number | null;
  /** When it was ready. `until` null: it is. */
  readyPeriods: readonly { readonly from: number; readonly until: number | null }[];
  lostAt: number | null;
  deletionRequestedAt: number | null;
  goneAt: number | null;
}

export interface Host {
  readonly machine: Machine;
  readonly worker: number;
  bootId: string;
  bootedAt: number;
  isUp: boolean;
  /** The connection is cut: nothing answers, and programs continue. `until` Infinity: for good. */
  outage: { readonly since: number; readonly until: number } | null;
  longestPastOutage: number;
  /** The last silence that has ended. */
  lastOutage: { readonly since: number; readonly until: number } | null;
  /** Number of restarts. */
  restarts: number;
  /** The longest silence, including one that still lasts. */
  longestOutage(now: number): number;
  /** Run folders by `job/worker`. */
  readonly folders: Map<string, RunFolder>;
}

export interface RunFolder {
  /** Proofs, `allocation/step key/boot id`: a restart may undo a step. */
  readonly proofs: Set<string>;
  /** Null: the attempt was stopped before its start, and never starts. */
  readonly runs: Map<number, Run | null>;
}

/** One attempt's run folder on one host, and the program in it. */
export interface Run {
  readonly host: Host;
  readonly job: string;
  readonly attempt: number;
  readonly worker: string;
  readonly allocation: number;
  readonly plan: ProgramPlan;
  /** Its checkpoint folder. Absent: none. */
  readonly checkpoints?: CheckpointPlan;
  /** The checkpoint from which it resumes; null for none. Final once it has started. */
  resumedFrom: Checkpoint | null;
  /** The step at which it starts. */
  firstStep: number;
  readonly createdAt: number;
  /** Null before the program runs. */
  startedAt: number | null;
  endedAt: number | null;
  /** Null: alive, or vanished without an exit code. */
  exitCode: number | null;
  stopRequestedAt: number | null;
  killed: boolean;
  /** Time at which it printed `hungLine` and became silent; null while it does not hang. */
  hungAt: number | null;
  /** The `failure` file in its run folder, if its exit code of 0 is not a success. */
  failure: string | null;
  readonly listeners: Set<() => void>;
}

/** The behaviour of one undisturbed program. */
export interface ProgramPlan {
  readonly startDelay: number;
  /** Time until it ends by itself; null: never. */
  readonly duration: number | null;
  readonly exitCode: number;
  /** Interval of its lines; null: it prints nothing after `silentAfter`. */
  readonly linePeriod: number;
  readonly silentAfter: number | null;
  readonly lastLine: string;
  /** Time until it obeys the stop signal; null: it ignores the signal. */
  readonly stopDelay: number | null;
  /** It deletes its run folder and ends before the worker is observed again. */
  readonly leavesNoTrace?: true;
}

/** Width of every line with its end, so that an offset determines the line. */
const lineWidth = 20;

export interface World {
  readonly timeline: Timeline;
  readonly chance: Chance;
  /** Every machine that ever existed, in order of creation. */
  readonly machines: Machine[];
  /** The machine that jobman itself runs on. */
  readonly controllerMachine: Machine;
  /** Another machine of the users, which a job names `gpu1`. No cloud has it. */
  readonly gpuMachine: Machine;
  /** Every run that ever existed. */
  readonly runs: Run[];
  /** The records of the newest start from the beginning in the checkpoint folders. */
  readonly checkpointRecords: CheckpointRecords;
  hasCapacity: boolean;
  /** The budget of the owner of all jobs for each day, by a grant; null: no limit. An hour of a machine costs a dollar. */
  ownerBudgetUsd: number | null;
  /** Zones without capacity, and zones without permission to request or list; every other zone has capacity. */
  readonly emptyZones: Set<string>;
  readonly forbiddenZones: Set<string>;
  /** The longest time for which our own connection to all hosts was cut. */
  longestNetworkCut: number;
  networkCutUntil: number;
  /** By zone, the time of the last list of everything with our label. */
  readonly listedAt: Map<string, number>;
  /** Time at which the disk with the copies last had space again. */
  diskFullUntil: number;
  /**
   * By job and ordinal, the machine whose host keys an allocation has learned: jobman connects to no other machine of
   * its name.
   */
  readonly trustedMachines: Map<string, Machine>;
  /** Called with every log line. */
  log(line: string): void;
  /** Callbacks for the invariants. */
  readonly watchers: Watchers;
}

export interface Watchers {
  /** Before a program starts; the run is already in `runs`. */
  runBegins(run: Run): void;
  /** A started program gets the stop signal. */
  stopRequested?(run: Run): void;
  /** A host has gone down with all its programs. */
  hostDown?(host: Host): void;
}

export function createWorld(
  timeline: Timeline,
  chance: Chance,
  log: (line: string) => void,
  watchers: Watchers,
  zones: Pick<World, 'emptyZones' | 'forbiddenZones'> = { emptyZones: new Set(), forbiddenZones: new Set() },
): World {
  const controllerMachine = ownMachine('controller');
  return {
    timeline,
    chance,
    machines: [controllerMachine],
    controllerMachine,
    gpuMachine: ownMachine('gpu1'),
    runs: [],
    checkpointRecords: new Map(),
    hasCapacity: true,
    ownerBudgetUsd: null,
    ...zones,
    longestNetworkCut: 0,
    networkCutUntil: -Infinity,
    listedAt: new Map(),
    diskFullUntil: -Infinity,
    trustedMachines: new Map(),
    log: (line) => log(`${String(timeline.now).padStart(8)} ${line}`),
    watchers,
  };
}

/** A machine that exists before and after every job. */
function ownMachine(name: string): Machine {
  const machine = newMachine({ name, labels: null, isPersistent: true, workers: 1, at: 0 });
  machine.state = 'ready';
  machine.readyAt = 0;
  for (const host of machine.hosts) host.isUp = true;
  return machine;
}

// ---------------------------------------------------------------------------------------------- machines

export function newMachine(options: {
  readonly name: string;
  readonly labels: Labels | null;
  readonly isPersistent: boolean;
  readonly workers: number;
  readonly at: number;
  readonly zone?: string;
}): Machine {
  const machine: Machine = {
    name: options.name,
    labels: options.labels,
    isPersistent: options.isPersistent,
    zone: options.zone ?? 'simulated-a',
    state: 'waiting',
    stateBefore: null,
    stateSince: options.at,
    cause: null,
    hosts: [],
    wasInterrupted: false,
    disruptedAt: -Infinity,
    wasOmitted: false,
    createdAt: options.at,
    readyAt: null,
    readyPeriods: [],
    lostAt: null,
    deletionRequestedAt: null,
    goneAt: null,
  };
  for (let worker = 0; worker < options.workers; worker += 1) {
    const host: Host = {
      machine,
      worker,
      bootId: `${options.name}-${options.at}-${worker}-0`,
      bootedAt: options.at,
      isUp: false,
      outage: null,
      longestPastOutage: 0,
      lastOutage: null,
      restarts: 0,
      longestOutage: (now) => Math.max(host.longestPastOutage, host.outage === null ? 0 : now - host.outage.since),
      folders: new Map(),
    };
    machine.hosts.push(host);
  }
  return machine;
}

function changeState(world: World, machine: Machine, state: MachineState): void {
  const { now } = world.timeline;
  machine.readyPeriods = machine.readyPeriods.map((one) => (one.until === null ? { ...one, until: now } : one));
  if (state === 'ready') machine.readyPeriods = [...machine.readyPeriods, { from: now, until: null }];
  machine.stateBefore = machine.state;
  machine.state = state;
  machine.stateSince = now;
}

/** The machine of that name that exists in that zone now. */
export function findMachine(world: World, zone: string, name: string): Machine | undefined {
  return world.machines.findLast(
    (machine) => machine.zone === zone && machine.name === name && machine.state !== 'gone',
  );
}

/** When a cloud machine was last created, deleted or changed its state, in the world's time. */
export function lastChangeOfMachines({ machines }: World): number {
  return Math.max(...machines.map(({ stateSince }) => stateSince));
}

export function requestMachine(world: World, machine: Machine): void {
  world.machines.push(machine);
  world.log(`cloud: ${machine.name} requested`);
  void provision(world, machine);
}

async function provision(world: World, machine: Machine): Promise<void> {
  const { timeline, chance } = world;
  await timeline.pause(chance.between(500, 8_000));
  while (!world.hasCapacity && machine.state === 'waiting') await timeline.pause(5_000);
  if (machine.state !== 'waiting') return;
  changeState(world, machine, 'provisioning');
  await timeline.pause(chance.between(1_000, 15_000));
  if ((machine.state as MachineState) !== 'provisioning') return;
  becomeReady(world, machine);
}

function becomeReady(world: World, machine: Machine): void {
  changeState(world, machine, 'ready');
  machine.readyAt ??= world.timeline.now;
  for (const host of machine.hosts) host.isUp = true;
  world.log(`cloud: ${machine.name} is ready`);
}

/** The cloud preempts it, or it breaks. Its name must still be released. */
export function loseMachine(world: World, machine: Machine, cause: 'preempted' | 'failed'): void {
  if (machine.state === 'gone' || machine.state === 'lost' || machine.state === 'releasing') return;
  world.log(`cloud: ${machine.name} is ${cause}`);
  changeState(world, machine, 'lost');
  machine.cause = cause;
  machine.lostAt = world.timeline.now;
  for (const host of machine.hosts) shutDown(world, host);
}

/** Maintenance: it goes down and returns by itself with new boots. */
export async function interruptMachine(world: World, machine: Machine, length: number): Promise<void> {
  if (machine.state !== 'ready') return;
  world.log(`cloud: ${machine.name} goes into maintenance`);
  changeState(world, machine, 'interrupted');
  machine.wasInterrupted = true;
  machine.disruptedAt = world.timeline.now;
  for (const host of machine.hosts) shutDown(world, host);
  await world.timeline.pause(length);
  if ((machine.state as MachineState) !== 'interrupted') return;
  for (const host of machine.hosts) newBoot(world, host);
  becomeReady(world, machine);
}

/** One host restarts, without a report by the cloud. */
export async function restartHost(world: World, host: Host): Promise<void> {
  if (!host.isUp) return;
  world.log(`host: ${hostName(host)} restarts`);
  host.restarts += 1;
  host.machine.disruptedAt = world.timeline.now;
  shutDown(world, host);
  await world.timeline.pause(world.chance.between(5_000, 60_000));
  if (host.machine.state !== 'ready') return;
  newBoot(world, host);
  host.isUp = true;
}

/** So fast that only its boot id shows it. */
export function restartInstantly(world: World, host: Host): void {
  world.log(`host: ${hostName(host)} restarts at once`);
  host.restarts += 1;
  host.machine.disruptedAt = world.timeline.now;
  shutDown(world, host);
  newBoot(world, host);
  host.isUp = true;
}

function newBoot(world: World, host: Host): void {
  host.bootId = `${hostName(host)}-${world.timeline.now}`;
  host.bootedAt = world.timeline.now;
}

/** It goes down with all its programs. */
export function shutDown(world: World, host: Host): void {
  host.isUp = false;
  for (const run of runsOn(world, host)) endRun(world, run, null);
  world.watchers.hostDown?.(host);
}

/** The connection to a host is cut for that time. */
export function disconnectHost(world: World, host: Host, length: number): void {
  if (!host.isUp || host.outage !== null) return;
  world.log(`host: ${hostName(host)} falls silent for ${length}`);
  const { now } = world.timeline;
  // A short answer that nothing observed does not interrupt the silence.
  const { lastOutage } = host;
  const isContinued = lastOutage !== null && now - lastOutage.until < 15_000;
  const outage = { since: isContinued ? lastOutage.since : now, until: now + length };
  host.machine.disruptedAt = now;
  host.outage = outage;
  if (Number.isFinite(length)) {
    world.timeline.after(length, () => {
      if (host.outage !== outage) return;
      host.outage = null;
      host.machine.disruptedAt = world.timeline.now;
      host.lastOutage = outage;
      host.longestPastOutage = Math.max(host.longestPastOutage, outage.until - outage.since);
      world.log(`host: ${hostName(host)} answers again`);
    });
  }
}

/** A release arrives: the machine and its programs exist for some more time, and then it is deleted. */
export function releaseMachine(world: World, machine: Machine): void {
  if (machine.state === 'gone' || machine.state === 'releasing') return;
  world.log(`cloud: ${machine.name} is being deleted`);
  machine.deletionRequestedAt = world.timeline.now;
  changeState(world, machine, 'releasing');
  world.timeline.after(world.chance.between(500, 15_000), () => removeMachine(world, machine));
}

/** It no longer exists, with everything on it. */
export function removeMachine(world: World, machine: Machine): void {
  if (machine.state === 'gone') return;
  machine.lostAt ??= world.timeline.now;
  changeState(world, machine, 'gone');
  machine.goneAt = world.timeline.now;
  for (const host of machine.hosts) shutDown(world, host);
  world.log(`cloud: ${machine.name} is gone`);
}

export function hostName(host: Host): string {
  return `${host.machine.name}:${host.worker}`;
}

// ---------------------------------------------------------------------------------------------- programs

export function folderOf(host: Host, job: string, worker: string): RunFolder {
  const key = `${job}/${worker}`;
  let folder = host.folders.get(key);
  if (folder === undefined) {
    folder = { proofs: new Set(), runs: new Map() };
    host.folders.set(key, folder);
  }
  return folder;
}

/** The launcher arrives on the host: an atomic mkdir makes a second start harmless. */
export function startRun(
  world: World,
  host: Host,
  options: {
    readonly job: string;
    readonly attempt: number;
    readonly worker: string;
    readonly allocation: number;
    readonly checkpoints?: CheckpointPlan;
  },
  plan: ProgramPlan,
): void {
  if (!host.isUp) return;
  const folder = folderOf(host, options.job, options.worker);
  if (folder.runs.has(options.attempt)) return;
  const { now } = world.timeline;
  const run: Run = {
    host,
    ...options,
    plan,
    resumedFrom: null,
    firstStep: 0,
    createdAt: now,
    startedAt: null,
    endedAt: null,
    exitCode: null,
    stopRequestedAt: null,
    killed: false,
    hungAt: null,
    failure: null,
    listeners: new Set(),
  };
  folder.runs.set(options.attempt, run);
  world.runs.push(run);
  world.timeline.after(plan.startDelay, () => {
    if (run.endedAt !== null) return;
    const from = run.checkpoints === undefined ? null : resumedFrom(world, run.checkpoints);
    run.resumedFrom = from ?? null;
    run.firstStep = from === null || from === undefined ? 0 : Number(from.name.replace('step_', ''));
    run.startedAt = world.timeline.now;
    const where = run.resumedFrom === null ? '' : ` at ${run.resumedFrom.name} of ${runName(run.resumedFrom.writer)}`;
    world.log(`host: ${runName(run)} starts on ${hostName(host)}${where}`);
    world.watchers.runBegins(run);
    if (from === undefined) {
      endRun(world, run, 66);
      return;
    }
    if (plan.duration !== null) world.timeline.after(plan.duration, () => endRun(world, run, plan.exitCode));
  });
}

/** The stop signal, or an immediate kill. A run that has not started never will. */
export function stopRun(
  world: World,
  host: Host,
  job: string,
  worker: string,
  attempt: number,
  signal: 'stop' | 'kill',
): void {
  const run = folderOf(host, job, worker).runs.get(attempt);
  if (run === undefined) {
    // The run folder says "never", so a launcher that arrives later does nothing.
    folderOf(host, job, worker).runs.set(attempt, null);
    return;
  }
  if (run === null || run.endedAt !== null) return;
  world.log(`host: ${runName(run)} gets ${signal}`);
  if (signal === 'kill') {
    run.killed = true;
    endRun(world, run, 137);
    return;
  }
  run.stopRequestedAt ??= world.timeline.now;
  world.watchers.stopRequested?.(run);
  const { stopDelay } = run.plan;
  if (stopDelay !== null) world.timeline.after(stopDelay, () => endRun(world, run, 143));
}

/** Its end: with an exit code, or without one (null). */
export function endRun(world: World, run: Run, exitCode: number | null): void {
  if (run.endedAt !== null) return;
  run.endedAt = world.timeline.now;
  run.exitCode = exitCode;
  world.log(`host: ${runName(run)} ends: ${exitCode ?? 'without an exit code'}`);
  for (const listener of run.listeners) listener();
}

export function isAlive(run: Run): boolean {
  return run.startedAt !== null && run.endedAt === null;
}

function runsOn(world: World, host: Host): readonly Run[] {
  return world.runs.filter((run) => run.host === host && run.endedAt === null);
}

export function runName(run: Run): string {
  return `run ${run.job}/${run.attempt}/${run.worker}`;
}

/** The last line of a program that hangs. */
export const hungLine = 'GRPC error';

/** Time until which it prints at its normal pace. */
function printsUntil(run: Run, startedAt: number, at: number): number {
  const silentAt = run.plan.silentAfter === null ? Infinity : startedAt + run.plan.silentAfter;
  return Math.min(at, run.endedAt ?? Infinity, silentAt, run.hungAt ?? Infinity);
}

function isHungAt(run: Run, at: number): boolean {
  return run.hungAt !== null && at >= run.hungAt;
}

/** Number of bytes printed by that time. */
export function printedBytes(run: Run, at: number): number {
  if (run.startedAt === null) return 0;
  const printing = printsUntil(run, run.startedAt, at);
  const lines = 1 + Math.floor((printing - run.startedAt) / run.plan.linePeriod);
  const last = run.exitCode !== null && at >= (run.endedAt ?? Infinity) && !run.killed ? 1 : 0;
  return (lines + (isHungAt(run, at) ? 1 : 0) + last) * lineWidth;
}

/** Number of bytes of a file of its run folder. The program of every other job reports all its lines as metrics too. */
export function writtenBytes(run: Run, file: OutputFile, at: number): number {
  return file === 'log' || Number(run.job) % 2 === 0 ? printedBytes(run, at) : 0;
}

/** Time of its last output. */
export function lastPrintedAt(run: Run, at: number): number {
  if (run.startedAt === null) return run.createdAt;
  if (run.hungAt !== null && at >= run.hungAt) return run.hungAt;
  const printing = printsUntil(run, run.startedAt, at);
  return printing - ((printing - run.startedAt) % run.plan.linePeriod);
}

/** Its output, from one offset to another. */
export function outputOf(run: Run, from: number, to: number): Uint8Array {
  const bytes = new Uint8Array(to - from);
  const lastAt =
    run.endedAt === null
      ? Infinity
      : printedBytes(run, run.endedAt) - (run.exitCode === null || run.killed ? 0 : lineWidth);
  const hungFrom = run.hungAt === null ? Infinity : (printedBytes(run, run.hungAt - 1) / lineWidth) | 0;
  let line = '';
  let lineNumber = -1;
  for (let offset = from; offset < to; offset += 1) {
    const number = Math.floor(offset / lineWidth);
    if (number !== lineNumber) {
      lineNumber = number;
      const own = number === hungFrom ? hungLine : null;
      const text =
        offset >= lastAt
          ? run.plan.lastLine
          : own !== null
            ? own
            : `${run.job.slice(-2)}.${run.attempt}.${run.worker} ${number}`;
      line = `${text.slice(0, lineWidth - 1).padEnd(lineWidth - 1)}\n`;
    }
    bytes[offset - from] = line.charCodeAt(offset % lineWidth);
  }
  return bytes;
}
