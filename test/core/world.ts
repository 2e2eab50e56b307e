// A small simulated world for tests of the rules: one cloud, its workers, and the passes of a controller. It has no
// faults except those that a test adds.

import { applyCommand } from '../../src/core/decide/commands.ts';
import type { CommandOptions, Verb } from '../../src/core/decide/commands.ts';
import { newJob, commandWorkers, lastAllocation, mayExist, stepsOf } from '../../src/core/model/job.ts';
import type { AllocationState, CloudError, Job } from '../../src/core/model/job.ts';
import type { Action, Decision } from '../../src/core/model/decision.ts';
import type { Event } from '../../src/core/model/event.ts';
import { hasSucceeded, known, unknown } from '../../src/core/model/observation.ts';
import type {
  AllocationStatus,
  Observed,
  Observation,
  Outcome,
  OutcomeResult,
  RunStatus,
  WorkerStatus,
} from '../../src/core/model/observation.ts';
import { phaseOf } from '../../src/core/decide/phase.ts';
import { presets } from '../../src/core/policy/presets.ts';
import type { PresetName } from '../../src/core/policy/presets.ts';
import { reconcile } from '../../src/core/decide/reconcile.ts';
import type { JobSpec, HostsSpec, SetupStep, TpuSpec, WorkerId } from '../../src/core/model/spec.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import type { Instant } from '../../src/core/model/time.ts';
import { localSpec, tpuCapacity } from '../support/builders.ts';

export const t0: Instant = 1_700_000_000_000;

export const tpu = tpuCapacity({ project: 'emulator', pricePerHourUsd: 12.88 });

/** The same with two alternatives, none of which may keep a request waiting for long. */
export const tpuWithAlternatives: TpuSpec = {
  ...tpu,
  alternatives: [
    { zone: 'europe-west4-a', accelerator: 'v5litepod-16', pricing: 'spot', runtimeVersion: 'b', pricePerHourUsd: 7 },
    { zone: 'us-central2-b', accelerator: 'v4-16', pricing: 'ondemand', runtimeVersion: 'b', pricePerHourUsd: 25.76 },
  ],
  alternativesWaitMs: 20 * minute,
};

export const local: HostsSpec = { kind: 'hosts', ownership: 'persistent', hosts: ['localhost'] };

export function step(name: string): SetupStep {
  return { name, key: `${name}-1`, check: null, apply: 'true', files: [], timeoutMs: minute };
}

export function spec(changes: Partial<JobSpec> & { readonly preset?: PresetName } = {}): JobSpec {
  const { preset = 'pre', ...rest } = changes;
  const { command, recovery } = localSpec();
  return localSpec({
    capacity: tpu,
    steps: [step('ssh')],
    command: { ...command, script: 'true' },
    recovery: { ...recovery, preset, rules: presets[preset], delayMaxMs: 5 * minute },
    ...rest,
  });
}

export function freshJob(jobSpec: JobSpec = spec()): { readonly job: Job; readonly events: readonly Event[] } {
  const { job, event } = newJob({ id: '000001', installation: 'abc123', owner: 'alice', spec: jobSpec, at: t0 });
  return { job, events: [event] };
}

/** The true state of a worker's run of one attempt. */
interface Run {
  readonly attempt: number;
  readonly startedAt: Instant;
  outputAt: Instant;
  ended:
    | { readonly exitCode: number; readonly signal?: string; readonly failure?: string; readonly at: Instant }
    | 'vanished'
    | null;
}

interface Worker {
  proofs: Set<string>;
  runs: Run[];
  isAnswering: boolean;
  /** Its programs belong to another home on the same or another machine. */
  elsewhere?: 'home' | 'machine' | undefined;
  /** Since when every observation of it has failed. */
  unreachableSince?: Instant;
}

interface Node {
  state: AllocationState;
  detail: string;
  cause?: 'preempted' | 'failed';
  error?: CloudError;
  /** Differs for an earlier one of its name. */
  readonly creationTime: string;
  workers: Worker[];
}

/** One job in its world. `pass` is one pass of a controller; `act` performs its actions; `run` does both until rest. */
export class World {
  job: Job;
  events: Event[];
  now: Instant = t0;
  /** Nodes by allocation ordinal; a persistent node exists from the beginning under ordinal 1. */
  readonly nodes = new Map<number, Node>();
  readonly controllerHost: Worker = { proofs: new Set(), runs: [], isAnswering: true };
  isCloudUp = true;
  hasLogin = true;
  workerCount = 2;
  private nodeCount = 0;
  admitted = true;
  ownerSpending: Observation['ownerSpending'];
  /** The outcome of the next request, instead of a node. */
  refusal: OutcomeResult | null = null;
  /** The outcome of the next setup step. */
  stepResult: OutcomeResult = { kind: 'done' };
  /** The log pattern in the output of failed programs. */
  pattern: string | null = null;
  /** Programs that ignore their stop signal. */
  ignoresStop = false;
  /** The next observation of the cloud shows nothing: a partial list. */
  omitNext = false;
  /** Every outcome so far, to repeat some. */
  readonly pastOutcomes: Outcome[] = [];
  outcomes: Outcome[] = [];
  decision: Decision | undefined;
  /** Called with every pass. */
  onPass: (before: Job, observation: Observation, decision: Decision, now: Instant) => void = () => undefined;

  constructor(given: JobSpec = spec()) {
    const { job, events } = freshJob(given);
    this.job = job;
    this.events = [...events];
    if (given.capacity.kind === 'hosts') this.workerCount = 1;
    if (given.capacity.ownership === 'persistent') this.nodes.set(1, this.newNode('ready'));
  }

  newNode(state: AllocationState): Node {
    const workers = Array.from({ length: this.workerCount }, () => ({
      proofs: new Set<string>(),
      runs: [],
      isAnswering: true,
    }));
    this.nodeCount += 1;
    return { state, detail: state.toUpperCase(), creationTime: `node ${this.nodeCount}`, workers };
  }

  /** A user deletes and recreates a persistent node between two observations. */
  recreateNode(): void {
    this.nodes.set(1, this.newNode('ready'));
  }

  /** True for an allocation that was replaced by another node of its name. */
  private isReplaced(ordinal: number): boolean {
    const made = this.job.allocations[ordinal - 1]?.creationTime;
    return made !== undefined && made !== this.nodes.get(1)?.creationTime;
  }

  /** The node of the newest allocation. */
  get node(): Node {
    const found = this.nodes.get(this.job.allocations.length);
    if (found === undefined) throw new Error('there is no node of the newest allocation');
    return found;
  }

  observe(): Observation {
    const isOmitted = this.omitNext;
    this.omitNext = false;
    const observedAllocations = this.job.allocations.filter((one) => mayExist(one) || one === lastAllocation(this.job));
    const outcomes = this.outcomes;
    this.outcomes = [];
    return {
      admitted: this.admitted,
      allocations: observedAllocations.map(({ ordinal }) => ({
        allocation: ordinal,
        observed:
          isOmitted && this.isCloudUp
            ? known({ state: 'absent' as const, detail: '' }, this.now)
            : this.observeAllocation(ordinal),
      })),
      workers: isOmitted ? [] : this.observeWorkers(),
      outcomes,
      ...(this.ownerSpending && { ownerSpending: this.ownerSpending }),
    };
  }

  observeAllocation(ordinal: number): Observed<AllocationStatus> {
    if (!this.isCloudUp) return unknown('the cloud does not answer', this.now);
    if (!this.hasLogin) return { ...unknown('log in', this.now), noLogin: true };
    const node = this.nodes.get(this.job.spec.capacity.ownership === 'persistent' ? 1 : ordinal);
    if (node === undefined || this.isReplaced(ordinal)) return known({ state: 'absent', detail: '' }, this.now);
    const isPersistent = this.job.spec.capacity.ownership === 'persistent';
    return known(
      {
        state: node.state,
        detail: node.detail,
        ...(node.cause === undefined ? {} : { cause: node.cause }),
        ...(node.error === undefined ? {} : { error: node.error }),
        ...(node.state === 'ready' ? { workers: node.workers.length } : {}),
        ...(isPersistent && { creationTime: node.creationTime }),
      },
      this.now,
    );
  }

  observeWorkers(): Observation['workers'] {
    const allocation = lastAllocation(this.job);
    if (allocation === undefined || this.job.finish !== null) return [];
    const isPersistent = this.job.spec.capacity.ownership === 'persistent';
    const node = this.nodes.get(isPersistent ? 1 : allocation.ordinal);
    const found: { allocation: number; worker: WorkerId; observed: Observed<WorkerStatus> }[] = [];
    if (
      node !== undefined &&
      allocation.goneAt === null &&
      !this.isReplaced(allocation.ordinal) &&
      (node.state === 'ready' || (!this.isCloudUp && allocation.readyAt !== null))
    ) {
      for (const [index, worker] of node.workers.entries()) {
        found.push({ allocation: allocation.ordinal, worker: index, observed: this.observeWorker(worker) });
      }
    }
    if (this.job.spec.command.runsOn === 'controller') {
      found.push({
        allocation: allocation.ordinal,
        worker: 'controller',
        observed: this.observeWorker(this.controllerHost),
      });
    }
    return found;
  }

  private observeWorker(worker: Worker): Observed<WorkerStatus> {
    if (worker.elsewhere !== undefined)
      return { ...unknown('it runs in another home', this.now), elsewhere: worker.elsewhere };
    if (!worker.isAnswering) {
      worker.unreachableSince ??= this.now;
      return unknown('no answer', worker.unreachableSince);
    }
    delete worker.unreachableSince;
    const runs = worker.runs.map((run): RunStatus => {
      const { attempt } = run;
      if (run.ended === 'vanished') return { attempt, state: 'vanished', detail: 'the machine restarted' };
      if (run.ended === null) return { attempt, state: 'running', startedAt: run.startedAt, outputAt: run.outputAt };
      const { exitCode, signal, failure, at } = run.ended;
      return {
        attempt,
        state: 'exited',
        exitCode,
        ...(signal === undefined ? {} : { signal }),
        endedAt: at,
        ...(failure !== undefined && { failure }),
      };
    });
    const { failedCallTimeoutMs = Infinity } = this.job.spec.limits;
    const failed = runs.findLast(
      (run) =>
        (run.state === 'exited' && !hasSucceeded(run)) ||
        (run.state === 'running' && this.now - run.outputAt >= failedCallTimeoutMs),
    );
    const { pattern } = this;
    const matched =
      failed === undefined || pattern === null ? {} : { matched: { attempt: failed.attempt, pattern, line: pattern } };
    return known({ bootId: 'b1', proofs: [...worker.proofs], runs, ...matched }, this.now);
  }

  /** One pass: observe, reconcile, commit. */
  pass(observation: Observation = this.observe()): Decision {
    const before = this.job;
    const decision = reconcile(before, observation, this.now);
    this.job = decision.job;
    this.events.push(...decision.events);
    this.decision = decision;
    this.onPass(before, observation, decision, this.now);
    return decision;
  }

  /** Performs these actions; each result becomes an outcome. */
  performActions(actions: readonly Action[] = this.decision?.actions ?? []): void {
    for (const action of actions) {
      const of = 'attempt' in action && { attempt: action.attempt };
      const outcome = { subject: action, ...of, at: this.now, result: this.perform(action) };
      this.outcomes.push(outcome);
      this.pastOutcomes.push(outcome);
    }
  }

  perform(action: Action): OutcomeResult {
    const isPersistent = this.job.spec.capacity.ownership === 'persistent';
    const ordinal = isPersistent ? 1 : action.allocation;
    const node = this.nodes.get(ordinal);
    switch (action.kind) {
      case 'request':
        if (this.refusal !== null) return this.refusal;
        if (node === undefined) this.nodes.set(ordinal, this.newNode('ready'));
        return { kind: 'done' };
      case 'release':
        if (!this.isReplaced(action.allocation)) this.nodes.delete(ordinal);
        return { kind: 'done' };
      case 'step': {
        const key = stepsOf(this.job).find(({ name }) => name === action.step)?.key ?? '';
        if (this.stepResult.kind === 'done') node?.workers[action.worker]?.proofs.add(key);
        return this.stepResult;
      }
      case 'start': {
        const worker = action.worker === 'controller' ? this.controllerHost : node?.workers[action.worker];
        if (worker === undefined || !worker.isAnswering) return { kind: 'unclear', evidence: { message: 'no answer' } };
        if (!worker.runs.some(({ attempt }) => attempt === action.attempt)) {
          worker.runs.push({ attempt: action.attempt, startedAt: this.now, outputAt: this.now, ended: null });
        }
        return { kind: 'done' };
      }
      case 'stop': {
        const worker = action.worker === 'controller' ? this.controllerHost : node?.workers[action.worker];
        if (worker === undefined || !worker.isAnswering) return { kind: 'unclear', evidence: { message: 'no answer' } };
        const run = worker.runs.find(({ attempt }) => attempt === action.attempt);
        if (run?.ended === null && (action.signal === 'kill' || !this.ignoresStop)) {
          run.ended = {
            exitCode: action.signal === 'kill' ? 137 : 143,
            signal: action.signal === 'kill' ? 'KILL' : 'TERM',
            at: this.now,
          };
        }
        return { kind: 'done' };
      }
    }
  }

  /** Passes and acts until nothing more is due at this time, or at most that often. */
  runUntilIdle(maxPasses = 60): void {
    for (let count = 0; count < maxPasses; count += 1) {
      const decision = this.pass();
      this.performActions();
      if (this.outcomes.length === 0 && (decision.wakeAt === undefined || decision.wakeAt > this.now)) return;
    }
    throw new Error(`no rest after ${maxPasses} passes; the last decision: ${JSON.stringify(this.decision?.actions)}`);
  }

  /** Lets time pass, waking as the decisions ask, until `enough` or until that much time has passed. */
  runUntil(isDone: () => boolean, atMost = 6 * hour): void {
    const end = this.now + atMost;
    while (this.now <= end) {
      this.runUntilIdle();
      if (isDone()) return;
      const wakeAt = this.decision?.wakeAt;
      if (wakeAt === undefined) return;
      this.now = Math.max(wakeAt, this.now + 1);
    }
  }

  /** Lets time pass until the command runs. Throws otherwise. */
  runUntilRunning(atMost = hour): void {
    this.runUntil(() => phaseOf(this.job) === 'running', atMost);
    if (phaseOf(this.job) !== 'running') throw new Error(`the job does not run, it is ${phaseOf(this.job)}`);
  }

  /** Lets time pass until the job has finished. Throws otherwise. */
  runUntilFinished(atMost = 10 * hour): void {
    this.runUntil(() => this.job.finish !== null, atMost);
    if (this.job.finish === null) throw new Error(`the job does not end, it is ${phaseOf(this.job)}`);
  }

  /** The run of that attempt on that worker of the newest node. */
  run(worker: WorkerId, attempt: number): Run {
    const host = worker === 'controller' ? this.controllerHost : this.node.workers[worker];
    const found = host?.runs.find((one) => one.attempt === attempt);
    if (found === undefined) throw new Error(`worker ${worker} has no run of attempt ${attempt}`);
    return found;
  }

  exit(worker: WorkerId, exitCode: number, attempt = this.job.attempts.length): void {
    this.run(worker, attempt).ended = { exitCode, at: this.now };
  }

  exitAll(exitCode: number, attempt = this.job.attempts.length): void {
    for (const worker of commandWorkers(this.job.spec.command, this.workerCount)) this.exit(worker, exitCode, attempt);
  }

  preempt(): void {
    this.node.state = 'lost';
    this.node.detail = 'PREEMPTED';
    this.node.cause = 'preempted';
  }

  /** The owner's command, committed as a client commits it. */
  command(verb: Verb, options: Partial<CommandOptions> = {}): void {
    const change = applyCommand(this.job, verb, { by: 'alice', ...options }, this.now);
    this.job = change.job;
    this.events.push(...change.events);
  }

  /** The storm is over: everything answers, and there is capacity. */
  clearFaults(): void {
    this.isCloudUp = true;
    this.omitNext = false;
    this.refusal = null;
    this.stepResult = { kind: 'done' };
    for (const node of this.nodes.values()) {
      if (node.state === 'interrupted') Object.assign(node, { state: 'ready', detail: 'READY' });
      for (const worker of node.workers) worker.isAnswering = true;
    }
  }

  /** Broken invariants of the world itself. */
  violations(): readonly string[] {
    const found: string[] = [];
    const hosts = [
      this.controllerHost,
      ...[...this.nodes.values()].filter(({ state }) => state !== 'lost').flatMap(({ workers }) => workers),
    ];
    const alive = new Set(
      hosts.flatMap(({ runs }) => runs.filter(({ ended }) => ended === null).map(({ attempt }) => attempt)),
    );
    if (alive.size > 1) found.push(`4 one command at a time: attempts ${[...alive].join(' and ')} are alive together`);
    for (const host of hosts) {
      const lacksSetup = host !== this.controllerHost && stepsOf(this.job).some(({ key }) => !host.proofs.has(key));
      const started = host.runs.some(
        ({ startedAt, attempt }) => startedAt === this.now && this.job.attempts[attempt - 1]?.commandOnly === undefined,
      );
      if (lacksSetup && started) found.push('5 setup before start: a command runs on a worker that is not set up');
    }
    const isEphemeral = this.job.spec.capacity.ownership === 'ephemeral';
    for (const [ordinal] of this.nodes) {
      const allocation = this.job.allocations[ordinal - 1];
      if (isEphemeral && allocation !== undefined && allocation.goneAt !== null) {
        found.push(`6 finished jobs hold nothing: allocation ${ordinal} counts as gone and is there`);
      }
      if (isEphemeral && allocation?.requestedAt === null)
        found.push(`2 commit before act: allocation ${ordinal} is there and was never recorded`);
    }
    return found;
  }

  eventKinds(): readonly string[] {
    return this.events.map(({ kind }) => kind);
  }
}
