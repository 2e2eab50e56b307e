// A small pretend world for tests of the rules: one cloud, its workers, and a controller's pass over them.
// It is as kind as the outside can be; faults are brought in by the tests that need them.

import { ask } from '../../src/core/commands.ts';
import type { AskOptions, Verb } from '../../src/core/commands.ts';
import { newJob, commandWorkers, lastAllocation, mayExist, stepsOf } from '../../src/core/job.ts';
import type { AllocationState, CloudError, Job } from '../../src/core/job.ts';
import type { Action, Decision, Event } from '../../src/core/decision.ts';
import { hasSucceeded, known, unknown } from '../../src/core/observation.ts';
import type {
  AllocationSeen,
  Fact,
  Observation,
  Outcome,
  OutcomeResult,
  RunSeen,
  WorkerSeen,
} from '../../src/core/observation.ts';
import { phaseOf } from '../../src/core/phase.ts';
import { presets } from '../../src/core/recover.ts';
import type { PresetName } from '../../src/core/recover.ts';
import { reconcile } from '../../src/core/reconcile.ts';
import type { JobSpec, LocalSpec, SetupStep, TpuSpec, WorkerId } from '../../src/core/spec.ts';
import { hour, minute } from '../../src/core/time.ts';
import type { Instant } from '../../src/core/time.ts';
import { localSpec, tpuCapacity } from '../support/builders.ts';

export const t0: Instant = 1_700_000_000_000;

export const tpu = tpuCapacity({ project: 'emulator', pricePerHour: 12.88 });

/** The same with two places beside its own, none of which may keep a request waiting for long. */
export const tpuOfPlaces: TpuSpec = {
  ...tpu,
  alternatives: [
    { zone: 'europe-west4-a', accelerator: 'v5litepod-16', pricing: 'spot', runtimeVersion: 'b', pricePerHour: 7 },
    { zone: 'us-central2-b', accelerator: 'v4-16', pricing: 'ondemand', runtimeVersion: 'b', pricePerHour: 25.76 },
  ],
  alternativesWait: 20 * minute,
};

export const local: LocalSpec = { kind: 'local', ownership: 'standing', workdir: '/work' };

export function step(name: string): SetupStep {
  return { name, key: `${name}-1`, check: null, apply: 'true', files: [], timeout: minute };
}

export function spec(changes: Partial<JobSpec> & { readonly preset?: PresetName } = {}): JobSpec {
  const { preset = 'pre', ...rest } = changes;
  const { command, recovery } = localSpec();
  return localSpec({
    capacity: tpu,
    steps: [step('ssh')],
    command: { ...command, script: 'true' },
    recovery: { ...recovery, preset, rules: presets[preset], delayMax: 5 * minute },
    ...rest,
  });
}

export function freshJob(given: JobSpec = spec()): { readonly job: Job; readonly events: readonly Event[] } {
  const { job, event } = newJob({ id: '000001', installation: 'abc123', owner: 'alice', spec: given, at: t0 });
  return { job, events: [event] };
}

/** A worker's run of one attempt, as the world knows it. */
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
  /** Since when every look at it has failed. */
  silentSince?: Instant;
}

interface Node {
  state: AllocationState;
  detail: string;
  cause?: 'preempted' | 'failed';
  error?: CloudError;
  /** Tells it from an earlier one of its name. */
  readonly made: string;
  workers: Worker[];
}

/** One job in its world. `pass` is one pass of a controller; `act` does what it asked; `run` does both until rest. */
export class World {
  job: Job;
  events: Event[];
  now: Instant = t0;
  /** Nodes by allocation ordinal; a standing node is there from the beginning under ordinal 1. */
  readonly nodes = new Map<number, Node>();
  readonly here: Worker = { proofs: new Set(), runs: [], isAnswering: true };
  cloudAnswers = true;
  hasLogin = true;
  workersCount = 2;
  private madeCount = 0;
  admitted = true;
  /** What the next request comes back with, instead of a node. */
  refusal: OutcomeResult | null = null;
  /** What the next setup step comes back with. */
  stepResult: OutcomeResult = { kind: 'done' };
  /** The log pattern that is found in the output of programs that failed. */
  pattern: string | null = null;
  /** Programs that ignore their stop signal. */
  isStubborn = false;
  /** The next look at the cloud shows nothing: a list that came back in part. */
  missNext = false;
  /** Every reply that was ever given, for those that come twice. */
  readonly replies: Outcome[] = [];
  outcomes: Outcome[] = [];
  decision: Decision | undefined;
  /** Called with every pass. */
  onPass: (before: Job, observation: Observation, decision: Decision, now: Instant) => void = () => undefined;

  constructor(given: JobSpec = spec()) {
    const { job, events } = freshJob(given);
    this.job = job;
    this.events = [...events];
    if (given.capacity.kind === 'local') this.workersCount = 1;
    if (given.capacity.ownership === 'standing') this.nodes.set(1, this.newNode('ready'));
  }

  newNode(state: AllocationState): Node {
    const workers = Array.from({ length: this.workersCount }, () => ({
      proofs: new Set<string>(),
      runs: [],
      isAnswering: true,
    }));
    this.madeCount += 1;
    return { state, detail: state.toUpperCase(), made: `node ${this.madeCount}`, workers };
  }

  /** Somebody deletes a standing node and makes it anew, between two looks of the controller. */
  makeAnew(): void {
    this.nodes.set(1, this.newNode('ready'));
  }

  /** True of an allocation in whose place there is another node of its name. */
  private isReplaced(ordinal: number): boolean {
    const made = this.job.allocations[ordinal - 1]?.made;
    return made !== undefined && made !== this.nodes.get(1)?.made;
  }

  /** What is there of the newest allocation. */
  get node(): Node {
    const found = this.nodes.get(this.job.allocations.length);
    if (found === undefined) throw new Error('there is no node of the newest allocation');
    return found;
  }

  observe(): Observation {
    const missed = this.missNext;
    this.missNext = false;
    const asked = this.job.allocations.filter((one) => mayExist(one) || one === lastAllocation(this.job));
    const outcomes = this.outcomes;
    this.outcomes = [];
    return {
      admitted: this.admitted,
      allocations: asked.map(({ ordinal }) => ({
        allocation: ordinal,
        fact:
          missed && this.cloudAnswers
            ? known({ state: 'absent' as const, detail: '' }, this.now)
            : this.lookAt(ordinal),
      })),
      workers: missed ? [] : this.lookAtWorkers(),
      outcomes,
    };
  }

  lookAt(ordinal: number): Fact<AllocationSeen> {
    if (!this.cloudAnswers) return unknown('the cloud does not answer', this.now);
    if (!this.hasLogin) return { ...unknown('log in', this.now), noLogin: true };
    const node = this.nodes.get(this.job.spec.capacity.ownership === 'standing' ? 1 : ordinal);
    if (node === undefined || this.isReplaced(ordinal)) return known({ state: 'absent', detail: '' }, this.now);
    const isStanding = this.job.spec.capacity.ownership === 'standing';
    return known(
      {
        state: node.state,
        detail: node.detail,
        ...(node.cause === undefined ? {} : { cause: node.cause }),
        ...(node.error === undefined ? {} : { error: node.error }),
        ...(node.state === 'ready' ? { workers: node.workers.length } : {}),
        ...(node.state === 'ready' && isStanding ? { made: node.made } : {}),
      },
      this.now,
    );
  }

  lookAtWorkers(): Observation['workers'] {
    const allocation = lastAllocation(this.job);
    if (allocation === undefined || this.job.settled !== null) return [];
    const standing = this.job.spec.capacity.ownership === 'standing';
    const node = this.nodes.get(standing ? 1 : allocation.ordinal);
    const found: { allocation: number; worker: WorkerId; fact: Fact<WorkerSeen> }[] = [];
    if (
      node !== undefined &&
      allocation.goneAt === null &&
      !this.isReplaced(allocation.ordinal) &&
      (node.state === 'ready' || (!this.cloudAnswers && allocation.readyAt !== null))
    ) {
      for (const [index, worker] of node.workers.entries()) {
        found.push({ allocation: allocation.ordinal, worker: index, fact: this.lookAtWorker(worker) });
      }
    }
    if (this.job.spec.command.place === 'here') {
      found.push({ allocation: allocation.ordinal, worker: 'here', fact: this.lookAtWorker(this.here) });
    }
    return found;
  }

  private lookAtWorker(worker: Worker): Fact<WorkerSeen> {
    if (!worker.isAnswering) {
      worker.silentSince ??= this.now;
      return unknown('no answer', worker.silentSince);
    }
    delete worker.silentSince;
    const runs = worker.runs.map((run): RunSeen => {
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
    const { troubleTimeout = Infinity } = this.job.spec.limits;
    const failed = runs.findLast(
      (run) =>
        (run.state === 'exited' && !hasSucceeded(run)) ||
        (run.state === 'running' && this.now - run.outputAt >= troubleTimeout),
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

  /** Does what was asked; each thing comes back as an outcome. */
  act(actions: readonly Action[] = this.decision?.actions ?? []): void {
    for (const action of actions) {
      const of = 'attempt' in action && { attempt: action.attempt };
      const outcome = { subject: action, ...of, at: this.now, result: this.perform(action) };
      this.outcomes.push(outcome);
      this.replies.push(outcome);
    }
  }

  perform(action: Action): OutcomeResult {
    const standing = this.job.spec.capacity.ownership === 'standing';
    const ordinal = standing ? 1 : action.allocation;
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
        const worker = action.worker === 'here' ? this.here : node?.workers[action.worker];
        if (worker === undefined || !worker.isAnswering) return { kind: 'unclear', evidence: { detail: 'no answer' } };
        if (!worker.runs.some(({ attempt }) => attempt === action.attempt)) {
          worker.runs.push({ attempt: action.attempt, startedAt: this.now, outputAt: this.now, ended: null });
        }
        return { kind: 'done' };
      }
      case 'stop': {
        const worker = action.worker === 'here' ? this.here : node?.workers[action.worker];
        if (worker === undefined || !worker.isAnswering) return { kind: 'unclear', evidence: { detail: 'no answer' } };
        const run = worker.runs.find(({ attempt }) => attempt === action.attempt);
        if (run?.ended === null && (action.how === 'kill' || !this.isStubborn)) {
          run.ended = {
            exitCode: action.how === 'kill' ? 137 : 143,
            signal: action.how === 'kill' ? 'KILL' : 'TERM',
            at: this.now,
          };
        }
        return { kind: 'done' };
      }
    }
  }

  /** Passes and acts until nothing more is due at this moment, or at most that often. */
  settleNow(most = 60): void {
    for (let count = 0; count < most; count += 1) {
      const decision = this.pass();
      this.act();
      if (this.outcomes.length === 0 && (decision.wakeAt === undefined || decision.wakeAt > this.now)) return;
    }
    throw new Error(`no rest after ${most} passes; the last decision: ${JSON.stringify(this.decision?.actions)}`);
  }

  /** Lets time pass, waking as the decisions ask, until `enough` or until that much time has gone by. */
  live(enough: () => boolean, atMost = 6 * hour): void {
    const end = this.now + atMost;
    while (this.now <= end) {
      this.settleNow();
      if (enough()) return;
      const wakeAt = this.decision?.wakeAt;
      if (wakeAt === undefined) return;
      this.now = Math.max(wakeAt, this.now + 1);
    }
  }

  /** Lets time pass until the command runs. Throws where it does not. */
  untilRunning(atMost = hour): void {
    this.live(() => phaseOf(this.job) === 'running', atMost);
    if (phaseOf(this.job) !== 'running') throw new Error(`the job does not run, it is ${phaseOf(this.job)}`);
  }

  /** Lets time pass until the job has ended. Throws where it does not. */
  untilSettled(atMost = 10 * hour): void {
    this.live(() => this.job.settled !== null, atMost);
    if (this.job.settled === null) throw new Error(`the job does not end, it is ${phaseOf(this.job)}`);
  }

  /** The run of that attempt on that worker of the newest node. */
  run(worker: WorkerId, attempt: number): Run {
    const host = worker === 'here' ? this.here : this.node.workers[worker];
    const found = host?.runs.find((one) => one.attempt === attempt);
    if (found === undefined) throw new Error(`worker ${worker} has no run of attempt ${attempt}`);
    return found;
  }

  exit(worker: WorkerId, exitCode: number, attempt = this.job.attempts.length): void {
    this.run(worker, attempt).ended = { exitCode, at: this.now };
  }

  exitAll(exitCode: number, attempt = this.job.attempts.length): void {
    for (const worker of commandWorkers(this.job.spec.command, this.workersCount)) this.exit(worker, exitCode, attempt);
  }

  preempt(): void {
    this.node.state = 'lost';
    this.node.detail = 'PREEMPTED';
    this.node.cause = 'preempted';
  }

  /** The owner's word, committed as a client commits it. */
  ask(verb: Verb, options: Omit<AskOptions, 'by'> = {}): void {
    const change = ask(this.job, verb, { by: 'alice', ...options }, this.now);
    this.job = change.job;
    this.events.push(...change.events);
  }

  /** The storm is over: everything answers, and there is capacity. */
  calm(): void {
    this.cloudAnswers = true;
    this.missNext = false;
    this.refusal = null;
    this.stepResult = { kind: 'done' };
    for (const node of this.nodes.values()) {
      if (node.state === 'interrupted') Object.assign(node, { state: 'ready', detail: 'READY' });
      for (const worker of node.workers) worker.isAnswering = true;
    }
  }

  /** What is wrong in the world itself, whatever the record says. */
  faults(): readonly string[] {
    const found: string[] = [];
    const hosts = [
      this.here,
      ...[...this.nodes.values()].filter(({ state }) => state !== 'lost').flatMap(({ workers }) => workers),
    ];
    const alive = new Set(
      hosts.flatMap(({ runs }) => runs.filter(({ ended }) => ended === null).map(({ attempt }) => attempt)),
    );
    if (alive.size > 1) found.push(`4 one command at a time: attempts ${[...alive].join(' and ')} are alive together`);
    for (const host of hosts) {
      const isBare = host !== this.here && stepsOf(this.job).some(({ key }) => !host.proofs.has(key));
      const started = host.runs.some(
        ({ startedAt, attempt }) => startedAt === this.now && this.job.attempts[attempt - 1]?.commandOnly === undefined,
      );
      if (isBare && started) found.push('5 setup before start: a command runs on a worker that is not set up');
    }
    const owned = this.job.spec.capacity.ownership === 'owned';
    for (const [ordinal] of this.nodes) {
      const allocation = this.job.allocations[ordinal - 1];
      if (owned && allocation !== undefined && allocation.goneAt !== null) {
        found.push(`6 settled means empty: allocation ${ordinal} counts as gone and is there`);
      }
      if (owned && allocation?.requestedAt === null)
        found.push(`2 commit before act: allocation ${ordinal} is there and was never recorded`);
    }
    return found;
  }

  kinds(): readonly string[] {
    return this.events.map(({ kind }) => kind);
  }
}
