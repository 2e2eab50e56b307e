// Observe: gathers the observation of one job for each pass. A failed observation is unknown. Only the start of a
// worker's silence is remembered between passes.

import { messageOf } from '../app/errors.ts';
import { lastException } from '../app/program-output.ts';
import type { Backend, Clock, StoredOutcome, WorkerRef, AllocationRef, CapacityPort, LogFiles } from '../app/ports.ts';
import {
  allocationOf,
  lastAllocation,
  lastAttempt,
  mayExist,
  mayOutliveRemoval,
  withLifecycle,
  commandWorkers,
  type Allocation,
  type Job,
} from '../core/model/job.ts';
import {
  known,
  unknown,
  hasSucceeded,
  type AllocationObservation,
  type Observed,
  type Observation,
  type WorkerObservation,
  type WorkerStatus,
  type AllocationStatus,
  type Known,
} from '../core/model/observation.ts';
import { matchPattern, patternAfterProgress } from '../core/model/log-lines.ts';
import { answersToOtherJobs, type AnswerRecord } from '../core/decide/capacity-answers.ts';
import { alternativeCount } from '../core/model/spec.ts';
import { minute, second, type Duration, type Instant } from '../core/model/time.ts';
import type { LogMirror } from './log-mirror.ts';
import type { DrainTimeouts } from './log-tail.ts';

export interface ObservationContext {
  readonly backend: Backend;
  readonly observeAllocations: Observer;
  readonly clock: Clock;
  readonly silences: Silences;
  /** True if this process lacked file descriptors, so that the worker was not asked. */
  readonly isDescriptorShortage: (reason: string) => boolean;
  readonly capacityAnswers: (project: string) => Promise<readonly AnswerRecord[]>;
  readonly observeOwnerSpending: (job: Job) => Promise<Observation['ownerSpending']>;
  /** Allocations with a committed request that this controller was not sending before the outcomes were read. */
  readonly idleRequests: readonly number[];
}

/** Never throws for a failure of the outside. The outcomes are older than every observation. */
export async function observe(
  job: Job,
  outcomes: readonly StoredOutcome[],
  admission: Pick<Observation, 'admitted' | 'slots'>,
  context: ObservationContext,
): Promise<Observation> {
  if (job.removed && !mayOutliveRemoval(job)) {
    return { ...admission, allocations: [], workers: [], outcomes: outcomes.map((stored) => stored.outcome) };
  }
  const lostReplies = context.idleRequests.filter(
    (ordinal) =>
      !outcomes.some(({ outcome: { subject } }) => subject.kind === 'request' && subject.allocation === ordinal),
  );
  const began = context.clock.now();
  const asked = job.allocations.filter((one) => mayExist(one) || one === lastAllocation(job));
  const facts = await context.observeAllocations(asked.map((allocation) => ({ job, allocation })));
  const allocations = asked.map((allocation, index): AllocationObservation => {
    const observed = facts[index] ?? unknown('the check gave no answer', context.clock.now());
    return { allocation: allocation.ordinal, observed };
  });
  const alternatives = await observeAlternatives(job, context);
  const ownerSpending = await context.observeOwnerSpending(job);
  const refs = workerRefs(job, allocations);
  const answers = await observeWorkers(refs, context.backend, context.clock);
  const answeredAt = context.clock.now();
  const workers = answers.map((one) =>
    one.observed.kind === 'unknown' && context.isDescriptorShortage(one.observed.reason)
      ? context.silences.withoutSilence(job.id, one, answeredAt)
      : context.silences.withSilence(job.id, one, began, answeredAt),
  );
  return {
    ...admission,
    allocations,
    workers,
    outcomes: outcomes.map((stored) => stored.outcome),
    ...(lostReplies.length === 0 ? {} : { unansweredRequests: lostReplies }),
    ...(alternatives === undefined ? {} : { alternativeAnswers: alternatives }),
    ...(ownerSpending === undefined ? {} : { ownerSpending }),
  };
}

/** Answers that other jobs got for this job's alternatives; undefined when the job has no choice left. */
async function observeAlternatives(
  job: Job,
  { capacityAnswers, clock }: Pick<ObservationContext, 'capacityAnswers' | 'clock'>,
): Promise<Observation['alternativeAnswers']> {
  const { capacity } = job.spec;
  const newest = lastAllocation(job);
  if (capacity.kind !== 'tpu' || alternativeCount(capacity) === 1 || job.finish !== null) return undefined;
  if (newest !== undefined && newest.readyAt !== null) return undefined;
  try {
    return known(answersToOtherJobs(job, await capacityAnswers(capacity.project)), clock.now());
  } catch (error) {
    return unknown(messageOf(error), clock.now());
  }
}

/** The workers of the newest allocation if it is ready or was when last observed; `controller` if the command runs there. */
function workerRefs(job: Job, facts: readonly AllocationObservation[]): readonly WorkerRef[] {
  const allocation = lastAllocation(job);
  if (allocation === undefined || allocation.requestedAt === null || job.finish !== null) return [];
  const found: WorkerRef[] = [];
  const fact = facts.find((one) => one.allocation === allocation.ordinal)?.observed;
  if (allocation.goneAt === null) {
    // The commit of this pass stores the addresses.
    const hosts = fact?.kind === 'known' ? (fact.value.hosts ?? allocation.hosts) : allocation.hosts;
    for (let worker = 0; worker < readyWorkerCount(allocation, fact); worker += 1) {
      found.push({ job, allocation: withLifecycle({ ...allocation, hosts }), worker });
    }
  }
  const attempt = lastAttempt(job);
  if (job.spec.command.runsOn === 'controller' && attempt !== undefined) {
    // The program on this machine outlives the allocation that it drives.
    found.push({ job, allocation: allocationOf(job, attempt.allocation), worker: 'controller' });
  }
  return found;
}

function readyWorkerCount(allocation: Allocation, fact: AllocationObservation['observed'] | undefined): number {
  if (fact?.kind === 'known') {
    return fact.value.state === 'ready' ? (fact.value.workers ?? allocation.workers ?? 0) : 0;
  }
  return allocation.lastObserved?.state === 'ready' ? (allocation.workers ?? 0) : 0;
}

async function observeWorkers(
  refs: readonly WorkerRef[],
  backend: Backend,
  clock: Clock,
): Promise<readonly WorkerObservation[]> {
  if (refs.length === 0) return [];
  let facts: readonly Observed<WorkerStatus>[];
  try {
    facts = await backend.machines.observe(refs);
  } catch (error) {
    facts = refs.map(() => unknown(`the check failed: ${messageOf(error)}`, clock.now()));
  }
  return refs.map((ref, index) => ({
    allocation: ref.allocation.ordinal,
    worker: ref.worker,
    observed: facts[index] ?? unknown('the check gave no answer', clock.now()),
  }));
}

interface PendingObservation {
  readonly refs: readonly AllocationRef[];
  readonly answer: (facts: readonly Observed<AllocationStatus>[]) => void;
}

export type Observer = (refs: readonly AllocationRef[]) => Promise<readonly Observed<AllocationStatus>[]>;

/** Combines concurrent calls into one request. Never answers with a request that is older than the call. */
export function createObserver(capacity: CapacityPort, clock: Clock): Observer {
  let pending: PendingObservation[] = [];
  let armed = false;
  let activeRequests = 0;

  async function send(): Promise<void> {
    const batch = pending;
    pending = [];
    if (batch.length === 0) return;
    activeRequests += 1;
    const refs = batch.flatMap(({ refs }) => refs);
    let facts: readonly Observed<AllocationStatus>[];
    try {
      facts = await capacity.observe(refs);
    } catch (error) {
      facts = refs.map(() => unknown(`the check failed: ${messageOf(error)}`, clock.now()));
    }
    activeRequests -= 1;
    arm();
    let at = 0;
    for (const { refs, answer } of batch) {
      answer(facts.slice(at, at + refs.length));
      at += refs.length;
    }
  }

  function arm(): void {
    // Two requests at most, so that one slow location does not delay all others.
    if (armed || pending.length === 0 || activeRequests >= 2) return;
    armed = true;
    // Asynchronous, so that passes which began together share the request.
    clock.at(clock.now(), () => {
      armed = false;
      void send();
    });
  }

  return (refs) => {
    if (refs.length === 0) return Promise.resolve([]);
    return new Promise((resolve) => {
      pending.push({ refs, answer: resolve });
      arm();
    });
  };
}

/** Longest gap between two observations of one silence: twice the longest wait for a next observation. */
const maxObservationGap: Duration = minute;
/** The process was suspended during a longer one. */
const maxObservationTime: Duration = 2 * minute;

interface Silence {
  readonly since: Instant;
  readonly lastAt: Instant;
}

export type Silences = ReturnType<typeof createSilences>;

/**
 * The start of each worker's silence, which lasts only while observations follow closely: a suspended process asks no
 * worker. Losing this state only delays a decision.
 */
export function createSilences() {
  const silences = new Map<string, Map<string, Silence>>();
  return {
    withSilence(job: string, seen: WorkerObservation, began: Instant, now: Instant): WorkerObservation {
      const { allocation, worker, observed: fact } = seen;
      const key = `${allocation}/${worker}`;
      const ofJob = silences.get(job);
      if (fact.kind === 'known') {
        ofJob?.delete(key);
        if (ofJob?.size === 0) silences.delete(job);
        return seen;
      }
      const before = ofJob?.get(key);
      const isUnbroken =
        before !== undefined &&
        began >= before.lastAt &&
        began - before.lastAt <= maxObservationGap &&
        now >= began &&
        now - began <= maxObservationTime;
      const since = isUnbroken ? before.since : now;
      silences.set(job, (ofJob ?? new Map<string, Silence>()).set(key, { since, lastAt: now }));
      return { ...seen, observed: { ...fact, since } };
    },
    /** For a worker that this process could not ask: its silence starts at `now`. */
    withoutSilence(job: string, seen: WorkerObservation, now: Instant): WorkerObservation {
      silences.get(job)?.delete(`${seen.allocation}/${seen.worker}`);
      return seen.observed.kind === 'known' ? seen : { ...seen, observed: unknown(seen.observed.reason, now) };
    },
    forget: (job: string) => void silences.delete(job),
  };
}

const searchedBytes = 256 * 1024;
/** Short, because commands wait for the pass. A release waits for the rest of the output. */
const drainTimeouts: DrainTimeouts = { idle: 5 * second, total: 5 * second };

interface OutputParts {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly mirror: LogMirror;
  readonly logFiles: LogFiles;
}

/** Copies and searches the last outputs first, because the decision may release the machine. */
export async function withLogPatterns(job: Job, observation: Observation, parts: OutputParts): Promise<Observation> {
  const { workers } = observation;
  if (workers.length === 0) return observation;
  await Promise.all(workers.map((worker) => copyLastOutput(job, worker, parts)));
  const refs = workerRefs(job, observation.allocations);
  return {
    ...observation,
    workers: await Promise.all(
      workers.map(async (worker, index) => {
        const ref = refs[index];
        const ended = await withEndedRunPattern(job, worker, parts.logFiles);
        return ref === undefined ? ended : withSilentRunPattern(job, ended, parts, ref);
      }),
    ),
  };
}

type EndedRun = { readonly attempt: number; readonly failed: boolean };

function endedRun(job: Job, worker: WorkerObservation): EndedRun | undefined {
  const attempt = lastAttempt(job);
  if (attempt === undefined || attempt.endedAt !== null || worker.observed.kind === 'unknown') return undefined;
  const { workers } = allocationOf(job, attempt.allocation);
  if (!commandWorkers(job.spec.command, workers ?? 0).includes(worker.worker)) return undefined;
  const run = worker.observed.value.runs.find((one) => one.attempt === attempt.ordinal);
  if (run?.state !== 'vanished' && run?.state !== 'exited') return undefined;
  return { attempt: attempt.ordinal, failed: !hasSucceeded(run) };
}

async function copyLastOutput(job: Job, worker: WorkerObservation, { backend, mirror }: OutputParts): Promise<void> {
  const run = endedRun(job, worker);
  if (run === undefined) return;
  // The pattern needs the log alone.
  const output = { attempt: run.attempt, allocation: worker.allocation, worker: worker.worker, file: 'log' } as const;
  await mirror.drain(job, backend.machines, output, drainTimeouts);
}

/** A second observation with the same output time proves that the run has not ended in between. */
async function withSilentRunPattern(
  job: Job,
  worker: WorkerObservation,
  { backend, clock, logFiles }: OutputParts,
  ref: WorkerRef,
): Promise<WorkerObservation> {
  const run = silentRun(job, worker, clock.now());
  if (run === undefined || worker.observed.kind === 'unknown') return worker;
  const found = await findPattern(job, run.attempt, worker, logFiles, patternAfterProgress);
  if (found === undefined) return worker;
  const [again] = await observeWorkers([ref], backend, clock);
  if (again === undefined || silentRun(job, again, clock.now())?.outputAt !== run.outputAt) return worker;
  return withMatch(worker, worker.observed, run.attempt, found);
}

/** The run of the open attempt if it has printed nothing for the spec's `failedCallTimeoutMs`. */
function silentRun(
  job: Job,
  { observed: fact }: WorkerObservation,
  now: Instant,
): { readonly attempt: number; readonly outputAt: Instant } | undefined {
  const { failedCallTimeoutMs } = job.spec.limits;
  const attempt = lastAttempt(job);
  if (failedCallTimeoutMs === undefined || attempt === undefined || attempt.ending !== null || fact.kind === 'unknown')
    return undefined;
  const run = fact.value.runs.find((one) => one.attempt === attempt.ordinal);
  return run?.state === 'running' && now - run.outputAt >= failedCallTimeoutMs ? run : undefined;
}

async function withEndedRunPattern(
  job: Job,
  worker: WorkerObservation,
  logFiles: LogFiles,
): Promise<WorkerObservation> {
  const run = endedRun(job, worker);
  if (run === undefined || !run.failed || worker.observed.kind === 'unknown') return worker;
  const search = (text: string): PatternMatch | undefined =>
    matchPattern(text, job.spec.recovery.customPatterns) ?? exceptionIn(text);
  const found = await findPattern(job, run.attempt, worker, logFiles, search);
  return found === undefined ? worker : withMatch(worker, worker.observed, run.attempt, found);
}

function exceptionIn(text: string): PatternMatch | undefined {
  const line = lastException(text);
  return line === undefined ? undefined : { line };
}

interface PatternMatch {
  readonly pattern?: string;
  readonly line: string;
}

/** Undefined without our copy of the output: then only the exit code counts. */
async function findPattern(
  job: Job,
  attempt: number,
  { worker }: WorkerObservation,
  logFiles: LogFiles,
  search: (text: string) => PatternMatch | undefined,
): Promise<PatternMatch | undefined> {
  try {
    return search(new TextDecoder().decode(await logFiles.readEnd(job, attempt, worker, searchedBytes)));
  } catch {
    return undefined;
  }
}

function withMatch(
  worker: WorkerObservation,
  fact: Known<WorkerStatus>,
  attempt: number,
  found: PatternMatch,
): WorkerObservation {
  return { ...worker, observed: { ...fact, value: { ...fact.value, matched: { attempt, ...found } } } };
}
