// Controllers: one simulated controller process after another, and the database that they share with the owners of the
// jobs. The controller, performer, log mirror, orphan collector, core and store are the real ones.

import type { Backend, Clock, MachinePort, Store, StoredJob, WorkerRef } from '../src/app/ports.ts';
import { createController } from '../src/controller/controller.ts';
import { fileLease, sharedLease } from '../src/controller/lease.ts';
import type { Controller, ExitReason } from '../src/controller/controller.ts';
import { applyCommand } from '../src/core/decide/commands.ts';
import { checkAction } from '../src/core/policy/permissions.ts';
import type { CommandOptions, Verb } from '../src/core/decide/commands.ts';
import type { Job } from '../src/core/model/job.ts';
import type { Outcome, OutcomeResult } from '../src/core/model/observation.ts';
import type { SetupStep } from '../src/core/model/spec.ts';
import { minute, second } from '../src/core/model/time.ts';
import type { Guard } from '../src/core/policy/guards.ts';
import type { Actor } from '../src/core/model/user.ts';
import type { Chance } from './chance.ts';
import { createCloudPort, createLocalPort } from './cloud.ts';
import type { PortOptions, CloudModel } from './cloud.ts';
import { connectionLostError, diskFullError } from './outputs.ts';
import type { DatabaseLink, DatabaseServer, LogCopies, Disk } from './outputs.ts';
import { createMachinePort } from './hosts.ts';
import type { HostPortOptions } from './hosts.ts';
import { simulatedHosts } from './invariants.ts';
import type { InvariantChecker } from './invariants.ts';
import type { Recipients } from './notifications.ts';
import { createProcess } from './process.ts';
import type { SimulatedProcess } from './process.ts';
import type { Timeline } from './timeline.ts';
import type { World } from './world.ts';

export interface SimulationContext {
  readonly world: World;
  readonly cloudModel: CloudModel;
  readonly disk: Disk;
  /** Absent: always answers. */
  readonly databaseServer?: DatabaseServer;
  /** The controllers are servers of different machines with one database. Absent: the database is a file. */
  readonly hasServers?: boolean;
  readonly logCopies: LogCopies;
  readonly store: Store;
  readonly clock: Clock;
  readonly checker: InvariantChecker;
  readonly installation: string;
  /** Absent: no user is notified. */
  readonly recipients?: Recipients;
  /** Number of workers of a machine for that job, and the behaviour of its programs. */
  readonly workersOf: (job: string) => number;
  readonly planFor: HostPortOptions['planFor'];
}

export interface ControllerProcess {
  readonly process: SimulatedProcess;
  /** Null: its database is a file. */
  readonly link: DatabaseLink | null;
  readonly controller: Controller;
  /** The world's time at which it got the lease; before that it only waits. */
  leasedAt: number | null;
  exitReason: ExitReason | null;
  /** The world's time at which it died or exited. */
  endedAt: number | null;
}

export interface Controllers {
  readonly processes: readonly ControllerProcess[];
  /** `certain`: the machine's lock proves that an earlier controller is dead. */
  start(why: string, certain?: boolean): ControllerProcess;
  ensureAlive(why: string): void;
}

export interface ControllersOptions {
  /** Splits off a generator for the ports of each process. */
  readonly portChance: Chance;
  /** Delay of the next controller after one has died or exited. */
  readonly restartChance: Chance;
  readonly onStart: (life: ControllerProcess) => void;
  readonly mayStart?: () => boolean;
  /** The number of controllers that run at once. Absent: one. */
  readonly serverCount?: () => number;
}

export function createControllers(context: SimulationContext, options: ControllersOptions): Controllers {
  const { world, checker, clock, recipients, hasServers = false } = context;
  const { timeline } = world;
  const processes: ControllerProcess[] = [];

  function start(why: string, certain = true): ControllerProcess {
    const name = `controller ${processes.length + 1}`;
    world.log(`${name} begins: ${why}`);
    const simulated = createProcess(name);
    const linkChance = options.portChance.fork(`link ${processes.length}`);
    const link = hasServers ? { cutUntil: 0, slowUntil: 0, chance: linkChance } : null;
    const onLease = (): void => void (controllerProcess.leasedAt ??= timeline.now);
    const controllerProcess: ControllerProcess = {
      process: simulated,
      link,
      controller: controllerFor(simulated, link, certain && !hasServers, onLease),
      leasedAt: null,
      exitReason: null,
      endedAt: null,
    };
    processes.push(controllerProcess);
    void controllerProcess.controller.exited.then((exitReason) => {
      if (simulated.isDead) return;
      controllerProcess.exitReason = exitReason;
      controllerProcess.endedAt ??= timeline.now;
      world.log(`${name} leaves: ${exitReason}`);
      // A client that needs a controller soon starts another one.
      if (exitReason === 'lease_lost')
        timeline.after(options.restartChance.between(1_000, 30_000), () => ensureAlive('the last one lost its lease'));
    });
    void simulated.dead.then(() => {
      controllerProcess.endedAt ??= timeline.now;
      world.log(`${name} is dead`);
      timeline.after(options.restartChance.between(100, 60_000), () => ensureAlive('the last one is dead'));
    });
    options.onStart(controllerProcess);
    controllerProcess.controller.start();
    return controllerProcess;
  }

  function ensureAlive(why: string): void {
    if (options.mayStart?.() === false) return;
    const alive = processes.filter(({ process, exitReason }) => !process.isDead && exitReason === null).length;
    for (let count = alive; count < (options.serverCount?.() ?? 1); count += 1) start(why);
  }

  function controllerFor(
    simulated: SimulatedProcess,
    link: DatabaseLink | null,
    certain: boolean,
    onLease: () => void,
  ): Controller {
    const parts: PortOptions = {
      world,
      cloudModel: context.cloudModel,
      chance: options.portChance.fork(`ports ${processes.length}`),
      clock,
      watcher: {
        called: (kind, ref, detail) => checker.called(kind, ref, detail),
        deletes: (machine, ref) => checker.deletes(machine, ref),
        orphanReleased: (orphan) => checker.orphanReleased(orphan),
      },
      installation: context.installation,
      workersOf: context.workersOf,
    };
    const machines = simulated.wrap(withReplyCheck(createMachinePort({ ...parts, planFor: context.planFor })));
    const cloud: Backend = { capacity: simulated.wrap(withReplyCheck(createCloudPort(parts))), machines };
    const here: Backend = { capacity: simulated.wrap(createLocalPort(clock, world)), machines };
    return createController({
      store: simulated.wrap(storeThrough(context, checker, link)),
      backendOf: (spec) => (spec.capacity.kind === 'hosts' ? here : cloud),
      clock: simulated.clock(clock),
      logFiles: simulated.wrap(context.logCopies),
      log: {
        info: (line) => simulated.isDead || world.log(`${simulated.name}: ${line}`),
        warn: (line) => simulated.isDead || world.log(`${simulated.name}! ${line}`),
      },
      holder: simulated.name,
      version: '0.0.0',
      holdsLock: certain,
      leaseTimes: hasServers ? sharedLease : fileLease,
      ...(hasServers && { monotonicNow: () => timeline.now }),
      pools: simulatedHosts,
      keptPasses: { days: 7, count: 2_000 },
      grants: world.ownerBudgetUsd === null ? [] : [{ budgetUsd: world.ownerBudgetUsd, budgetPeriod: 'day' }],
      idleExitMs: minute,
      onRenewal: onLease,
      ...(recipients !== undefined && { createBackgroundTasks: () => [recipients.notifierOf(simulated)] }),
    });
  }

  /** The ports. The checker gets every outcome as it is returned. */
  function withReplyCheck<T extends object>(port: T): T {
    return new Proxy(port, {
      get(target, key) {
        const member = Reflect.get(target, key) as unknown;
        const kind = key === ('runStep' satisfies keyof MachinePort) ? 'step' : key;
        const isAction =
          kind === 'request' || kind === 'release' || kind === 'step' || kind === 'start' || kind === 'stop';
        if (!isAction || typeof member !== 'function') return member;
        return async (...args: unknown[]) => {
          const result = (await Reflect.apply(member, target, args)) as OutcomeResult;
          const ref = args[0] as Parameters<typeof checker.replied>[1] & Partial<WorkerRef>;
          const step = kind === 'step' ? `${ref.worker}/${(args[1] as SetupStep).name}` : undefined;
          checker.replied(kind, ref, result, step);
          world.log(`reply: ${kind} ${(args[0] as { job: Job }).job.id} ${result.kind}`);
          return result;
        };
      },
    });
  }

  return { processes, start, ensureAlive };
}

// -------------------------------------------------------------------------------------- the database

/**
 * The database as a client or controller reaches it: a full disk takes no writes. The checker gets every write of a
 * controller, and only a controller loses its connection to the database server.
 */
function storeThrough(
  {
    world: { timeline },
    store,
    disk,
    databaseServer,
    recipients,
  }: Pick<SimulationContext, 'world' | 'store' | 'disk' | 'databaseServer' | 'recipients'>,
  checker?: InvariantChecker,
  link: DatabaseLink | null = null,
): Store {
  const losesConnection = (): boolean =>
    checker !== undefined && databaseServer?.isUnsteady === true && databaseServer.chance.yes(0.2);
  const writing: readonly (keyof Store)[] = [
    'insert',
    'commit',
    'addOutcome',
    'takeLease',
    'releaseLease',
    'recordOrphan',
  ];
  const writes = new Set<string | symbol>(writing);
  return new Proxy(store, {
    get(target, key) {
      const member = Reflect.get(target, key) as unknown;
      if (typeof member !== 'function') return member;
      const execute = async (...args: unknown[]): Promise<unknown> => {
        if (disk.isFull && writes.has(key)) throw diskFullError();
        if (losesConnection()) throw connectionLostError();
        const answer: unknown = await (Reflect.apply(member, target, args) as Promise<unknown>);
        if (key === 'commit') {
          const commit = args[0] as Parameters<Store['commit']>[0];
          if (answer === 'committed') recipients?.committed(commit.job, commit.events);
          checker?.committed(commit, answer as Awaited<ReturnType<Store['commit']>>);
        }
        if (key === 'addOutcome') checker?.replyRecorded((args[1] as Outcome).result);
        if (losesConnection()) throw connectionLostError();
        return answer;
      };
      return link === null ? execute : (...args: unknown[]) => sendOver(timeline, link, () => execute(...args));
    },
  });
}

/** The answer of a database on another machine. During a cut its sender waits, or gives up after some seconds. */
async function sendOver(timeline: Timeline, link: DatabaseLink, execute: () => Promise<unknown>): Promise<unknown> {
  const { chance } = link;
  /** False if the sender has given up. */
  async function travel(): Promise<boolean> {
    await timeline.pause(timeline.now < link.slowUntil ? chance.between(200, 2_500) : chance.between(0, 20));
    if (timeline.now >= link.cutUntil) return true;
    const waits = chance.yes(0.6);
    await timeline.pause(waits ? link.cutUntil - timeline.now : chance.between(1_000, 10_000));
    return waits;
  }
  if (!(await travel())) {
    if (chance.yes(0.6)) timeline.at(link.cutUntil, () => void execute().catch(() => undefined));
    throw connectionLostError();
  }
  const answer = await execute();
  if (!(await travel())) throw connectionLostError();
  return answer;
}

// -------------------------------------------------------------------------------------- the owners' side

export interface OwnerClient {
  /** Creates the job, waiting while the disk is full. */
  insert(given: Parameters<Store['insert']>[0]): Promise<Job>;
  /** The same, unless the guard has a reason against the job. */
  insertGuarded(given: Parameters<Store['insertGuarded']>[0], guard: Guard): Promise<Job | null>;
  /** Sends that command to that job if it is allowed. True if it changed anything. */
  sendCommand(verb: Verb, id: string, options: Omit<CommandOptions, 'by'>): Promise<boolean>;
  /** The client's wake-up, which may be lost, and its check that a controller runs. */
  wake(id: string): void;
}

/** The owners' access to the database of a world, like the real client's. */
export function createOwnerClient(
  context: SimulationContext,
  controllers: Controllers,
  people: { readonly owner: (id: string) => string; readonly isWakeLost: () => boolean },
): OwnerClient {
  const { world, checker, store, clock } = context;
  const { timeline } = world;
  const watchedStore = storeThrough(context);

  async function untilWritten<T>(write: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await write();
      } catch {
        await timeline.pause(5 * second);
      }
    }
  }

  function wake(id: string): void {
    const { processes } = controllers;
    if (!people.isWakeLost()) for (const controllerProcess of processes) controllerProcess.controller.wake(id);
    timeline.after(100, () => {
      if (processes.every((controllerProcess) => controllerProcess.process.isDead || controllerProcess.exitReason))
        controllers.ensureAlive('a client found no controller');
    });
  }

  async function recordCreation({ job }: StoredJob): Promise<Job> {
    checker.commandGiven(
      job,
      (await store.events(job.id, 0)).map((one) => one.event),
    );
    world.log(`owner: job ${job.id} was created`);
    return job;
  }

  return {
    wake,
    insert: async (job) => recordCreation(await untilWritten(() => watchedStore.insert(job))),
    async insertGuarded(job, guard) {
      const stored = await untilWritten(() => watchedStore.insertGuarded(job, guard));
      return stored === 'unconfirmed' ? null : recordCreation(stored);
    },
    async sendCommand(verb, id, options) {
      const by = people.owner(id);
      const actor: Actor = { user: by, role: 'member', via: 'local', logins: [] };
      for (let tries = 0; tries < 20; tries += 1) {
        const stored = await store.load(id);
        if (stored === undefined) return false;
        if (checkAction(stored.job, verb, actor, options).answer !== 'allow') return false;
        const change = applyCommand(stored.job, verb, { by, ...options }, clock.now());
        if (change.events.length === 0) return false;
        let result;
        try {
          result = await watchedStore.commit({
            job: change.job,
            revision: stored.revision,
            events: change.events,
            foldedOutcomes: [],
            wakeAt: clock.now(),
            epoch: null,
          });
        } catch {
          return false;
        }
        if (result !== 'committed') continue;
        const flags = Object.entries(options).flatMap(([name, isSet]) => (isSet ? [` --${name}`] : []));
        world.log(`owner: ${verb}${flags.join('')} ${id}`);
        checker.commandGiven(change.job, change.events);
        wake(id);
        return true;
      }
      return false;
    },
  };
}
