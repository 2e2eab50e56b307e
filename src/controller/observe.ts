// Observe: gathers the observation of one job anew for each pass. A fact that was not asked for is missing; one that got no
// answer is unknown. Only the time since which a worker has been silent is remembered between passes.

import { textOf } from '../app/errors.ts';
import type { Backend, Clock, StoredOutcome, WorkerRef, AllocationRef, CapacityPort, LogFiles } from '../app/ports.ts';
import {
  allocationOf,
  lastAllocation,
  lastAttempt,
  mayExist,
  outlivesRemoval,
  withLife,
  commandWorkers,
  type Allocation,
  type Job,
} from '../core/job.ts';
import {
  known,
  unknown,
  hasSucceeded,
  type AllocationFact,
  type Fact,
  type Observation,
  type WorkerFact,
  type WorkerSeen,
  type AllocationSeen,
  type Known,
} from '../core/observation.ts';
import { matchPattern, troubleIn } from '../core/log-lines.ts';
import { saidToOthers, type PlaceAnswered } from '../core/alternatives.ts';
import { placeCount } from '../core/spec.ts';
import { minute, second, type Duration, type Instant } from '../core/time.ts';
import type { DrainPatience, LogMirror } from './log-mirror.ts';

export interface Outside {
  readonly backend: Backend;
  readonly look: Look;
  readonly clock: Clock;
  readonly silences: Silences;
  /** True for the reason of an unknown fact when this process lacked file descriptors, so that the worker was not asked. */
  readonly lacksFiles: (reason: string) => boolean;
  /** The answers of a project's places to any job. */
  readonly placeAnswers: (project: string) => Promise<readonly PlaceAnswered[]>;
  /** Allocations whose request is on record and that this controller was not asking for before the outcomes were read. */
  readonly unasked: readonly number[];
}

/** Never throws for the outside. Outcomes were read before, so no observation is older. */
export async function observe(
  job: Job,
  outcomes: readonly StoredOutcome[],
  admitted: boolean,
  outside: Outside,
): Promise<Observation> {
  // Off the list, and nothing of it would run on.
  if (job.removed && !outlivesRemoval(job)) {
    return { admitted, allocations: [], workers: [], outcomes: outcomes.map((stored) => stored.outcome) };
  }
  const unheard = outside.unasked.filter(
    (ordinal) =>
      !outcomes.some(({ outcome: { subject } }) => subject.kind === 'request' && subject.allocation === ordinal),
  );
  const began = outside.clock.now();
  const asked = job.allocations.filter((one) => mayExist(one) || one === lastAllocation(job));
  const facts = await outside.look(asked.map((allocation) => ({ job, allocation })));
  const allocations = asked.map((allocation, index): AllocationFact => {
    const fact = facts[index] ?? unknown('the look gave no answer', outside.clock.now());
    return { allocation: allocation.ordinal, fact };
  });
  const places = await heardOfPlaces(job, outside);
  const refs = workerRefs(job, allocations);
  const answers = await lookAtWorkers(refs, outside.backend, outside.clock);
  const heardAt = outside.clock.now();
  const workers = answers.map((one) =>
    one.fact.kind === 'unknown' && outside.lacksFiles(one.fact.reason)
      ? outside.silences.notAsked(job.id, one, heardAt)
      : outside.silences.heard(job.id, one, began, heardAt),
  );
  return {
    admitted,
    allocations,
    workers,
    outcomes: outcomes.map((stored) => stored.outcome),
    ...(unheard.length === 0 ? {} : { unheard }),
    ...(places === undefined ? {} : { places }),
  };
}

/** The answers of this job's places to other jobs, while it may still have to choose among them. */
async function heardOfPlaces(
  job: Job,
  { placeAnswers, clock }: Pick<Outside, 'placeAnswers' | 'clock'>,
): Promise<Observation['places']> {
  const { capacity } = job.spec;
  const newest = lastAllocation(job);
  if (capacity.kind !== 'tpu' || placeCount(capacity) === 1 || job.settled !== null) return undefined;
  if (newest !== undefined && newest.readyAt !== null) return undefined;
  try {
    return known(saidToOthers(job, await placeAnswers(capacity.project)), clock.now());
  } catch (error) {
    return unknown(textOf(error), clock.now());
  }
}

/** The workers of the newest allocation if it is, or last was, ready; `here` whenever the command runs on this machine. */
function workerRefs(job: Job, facts: readonly AllocationFact[]): readonly WorkerRef[] {
  const allocation = lastAllocation(job);
  if (allocation === undefined || allocation.requestedAt === null || job.settled !== null) return [];
  const found: WorkerRef[] = [];
  const fact = facts.find((one) => one.allocation === allocation.ordinal)?.fact;
  if (allocation.goneAt === null) {
    // The record learns the addresses with the commit of this pass.
    const hosts = fact?.kind === 'known' ? (fact.value.hosts ?? allocation.hosts) : allocation.hosts;
    for (let worker = 0; worker < answeringWorkers(allocation, fact); worker += 1) {
      found.push({ job, allocation: withLife({ ...allocation, hosts }), worker });
    }
  }
  const attempt = lastAttempt(job);
  if (job.spec.command.place === 'here' && attempt !== undefined) {
    // The program on this machine outlives the allocation that it drives.
    found.push({ job, allocation: allocationOf(job, attempt.allocation), worker: 'here' });
  }
  return found;
}

function answeringWorkers(allocation: Allocation, fact: AllocationFact['fact'] | undefined): number {
  if (fact?.kind === 'known') {
    return fact.value.state === 'ready' ? (fact.value.workers ?? allocation.workers ?? 0) : 0;
  }
  return allocation.seen?.state === 'ready' ? (allocation.workers ?? 0) : 0;
}

/** Never throws: what did not answer is unknown. */
async function lookAtWorkers(
  refs: readonly WorkerRef[],
  backend: Backend,
  clock: Clock,
): Promise<readonly WorkerFact[]> {
  if (refs.length === 0) return [];
  let facts: readonly Fact<WorkerSeen>[];
  try {
    facts = await backend.machines.look(refs);
  } catch (error) {
    facts = refs.map(() => unknown(`the look failed: ${textOf(error)}`, clock.now()));
  }
  return refs.map((ref, index) => ({
    allocation: ref.allocation.ordinal,
    worker: ref.worker,
    fact: facts[index] ?? unknown('the look gave no answer', clock.now()),
  }));
}

interface Question {
  readonly refs: readonly AllocationRef[];
  readonly answer: (facts: readonly Fact<AllocationSeen>[]) => void;
}

/** Observes these allocations. Never throws. */
export type Look = (refs: readonly AllocationRef[]) => Promise<readonly Fact<AllocationSeen>[]>;

/**
 * Shares one request between all that ask at the same time, which in turn is one list per place: a thousand jobs in one zone cost what
 * one costs. Never answers with a request that is older than the question.
 */
export function createLook(capacity: CapacityPort, clock: Clock): Look {
  let questions: Question[] = [];
  let armed = false;
  let underWay = 0;

  async function ask(): Promise<void> {
    const asked = questions;
    questions = [];
    if (asked.length === 0) return;
    underWay += 1;
    const refs = asked.flatMap((question) => question.refs);
    let facts: readonly Fact<AllocationSeen>[];
    try {
      facts = await capacity.look(refs);
    } catch (error) {
      facts = refs.map(() => unknown(`the look failed: ${textOf(error)}`, clock.now()));
    }
    underWay -= 1;
    arm();
    let at = 0;
    for (const question of asked) {
      question.answer(facts.slice(at, at + question.refs.length));
      at += question.refs.length;
    }
  }

  function arm(): void {
    // Two at most: one slow place does not hold up all others, and many jobs still share.
    if (armed || questions.length === 0 || underWay >= 2) return;
    armed = true;
    // At the clock's next turn, so that passes which began together are in one question.
    clock.at(clock.now(), () => {
      armed = false;
      void ask();
    });
  }

  return (refs) => {
    if (refs.length === 0) return Promise.resolve([]);
    return new Promise((resolve) => {
      questions.push({ refs, answer: resolve });
      arm();
    });
  };
}

/** Between two observations of one silence: twice the longest wait for a next one. */
const apartMost: Duration = minute;
/** An observation that takes longer rather means that this process was suspended. */
const lookLongest: Duration = 2 * minute;

interface Silence {
  readonly since: Instant;
  readonly lastAt: Instant;
}

export type Silences = ReturnType<typeof createSilences>;

/**
 * Since when each worker has not answered, without a break. Before a failed observation the worker may have answered while nothing
 * asked it (the process was suspended, the disk was full), so a silence lasts only while observations follow closely on each other.
 * It is kept in memory because it changes with every observation. Losing it costs patience and nothing else.
 */
export function createSilences() {
  const silences = new Map<string, Map<string, Silence>>();
  return {
    /** The fact of an observation from `began` to `now`; of a silent worker with the time since which it has been silent. */
    heard(job: string, seen: WorkerFact, began: Instant, now: Instant): WorkerFact {
      const { allocation, worker, fact } = seen;
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
        began - before.lastAt <= apartMost &&
        now >= began &&
        now - began <= lookLongest;
      const since = isUnbroken ? before.since : now;
      silences.set(job, (ofJob ?? new Map<string, Silence>()).set(key, { since, lastAt: now }));
      return { ...seen, fact: unknown(fact.reason, since) };
    },
    /** The fact of a worker that this process could not ask: its silence has lasted for no time. */
    notAsked(job: string, seen: WorkerFact, now: Instant): WorkerFact {
      silences.get(job)?.delete(`${seen.allocation}/${seen.worker}`);
      return seen.fact.kind === 'known' ? seen : { ...seen, fact: unknown(seen.fact.reason, now) };
    },
    forget: (job: string) => void silences.delete(job),
  };
}

/** How much of the end of an output is searched for known patterns. */
const searched = 256 * 1024;
/** How long a pass waits for the last output: not long, since commands wait with it. A release waits for the rest. */
const lastWords: DrainPatience = { quiet: 5 * second, most: 5 * second };

interface OutputParts {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly mirror: LogMirror;
  readonly logFiles: LogFiles;
}

/**
 * The same observation with the patterns that were found in the last outputs of ended and of silent programs. Outputs are copied and
 * searched before the core decides, because that decision may release the machine.
 */
export async function withOutputs(job: Job, observation: Observation, parts: OutputParts): Promise<Observation> {
  const { workers } = observation;
  if (workers.length === 0) return observation;
  await Promise.all(workers.map((worker) => copyLastWords(job, worker, parts)));
  const refs = workerRefs(job, observation.allocations);
  return {
    ...observation,
    workers: await Promise.all(
      workers.map(async (worker, index) => {
        const ref = refs[index];
        const ended = await withPattern(job, worker, parts.logFiles);
        return ref === undefined ? ended : withTrouble(job, ended, parts, ref);
      }),
    ),
  };
}

/** The run of the attempt that is under way, if it has ended on this worker. */
function endedRun(job: Job, worker: WorkerFact): { readonly attempt: number; readonly failed: boolean } | undefined {
  const attempt = lastAttempt(job);
  if (attempt === undefined || attempt.endedAt !== null || worker.fact.kind === 'unknown') return undefined;
  if (!commandWorkers(job.spec.command, allocationOf(job, attempt.allocation).workers ?? 0).includes(worker.worker)) {
    return undefined;
  }
  const run = worker.fact.value.runs.find((one) => one.attempt === attempt.ordinal);
  if (run?.state === 'vanished') return { attempt: attempt.ordinal, failed: true };
  if (run?.state === 'exited') return { attempt: attempt.ordinal, failed: !hasSucceeded(run) };
  return undefined;
}

async function copyLastWords(job: Job, worker: WorkerFact, { backend, mirror }: OutputParts): Promise<void> {
  const run = endedRun(job, worker);
  if (run === undefined) return;
  const output = { attempt: run.attempt, allocation: worker.allocation, worker: worker.worker };
  await mirror.drain(job, backend.machines, output, lastWords);
}

/**
 * The same fact with the pattern at the end of a silent run's output. The run may have printed it and ended after the observation; a
 * second observation with the same age of the output rules that out.
 */
async function withTrouble(
  job: Job,
  worker: WorkerFact,
  { backend, clock, logFiles }: OutputParts,
  ref: WorkerRef,
): Promise<WorkerFact> {
  const run = silentRun(job, worker, clock.now());
  if (run === undefined || worker.fact.kind === 'unknown') return worker;
  const found = await foundIn(job, run.attempt, worker, logFiles, troubleIn);
  if (found === undefined) return worker;
  const [again] = await lookAtWorkers([ref], backend, clock);
  if (again === undefined || silentRun(job, again, clock.now())?.outputAt !== run.outputAt) return worker;
  return withMatch(worker, worker.fact, run.attempt, found);
}

/** The run of the open attempt on this worker while it runs and has been silent for the spec's `troubleTimeout`. */
function silentRun(
  job: Job,
  { fact }: WorkerFact,
  now: Instant,
): { readonly attempt: number; readonly outputAt: Instant } | undefined {
  const { troubleTimeout } = job.spec.limits;
  const attempt = lastAttempt(job);
  if (troubleTimeout === undefined || attempt === undefined || attempt.ending !== null || fact.kind === 'unknown')
    return undefined;
  const run = fact.value.runs.find((one) => one.attempt === attempt.ordinal);
  return run?.state === 'running' && now - run.outputAt >= troubleTimeout ? run : undefined;
}

async function withPattern(job: Job, worker: WorkerFact, logFiles: LogFiles): Promise<WorkerFact> {
  const run = endedRun(job, worker);
  if (run === undefined || !run.failed || worker.fact.kind === 'unknown') return worker;
  const search = (text: string): Found | undefined => matchPattern(text, job.spec.recovery.texts);
  const found = await foundIn(job, run.attempt, worker, logFiles, search);
  return found === undefined ? worker : withMatch(worker, worker.fact, run.attempt, found);
}

type Found = NonNullable<ReturnType<typeof matchPattern>>;

/** Undefined without our copy of the output: then only the exit code counts. */
async function foundIn(
  job: Job,
  attempt: number,
  { worker }: WorkerFact,
  logFiles: LogFiles,
  search: (text: string) => Found | undefined,
): Promise<Found | undefined> {
  try {
    return search(new TextDecoder().decode(await logFiles.last(job, attempt, worker, searched)));
  } catch {
    return undefined;
  }
}

function withMatch(worker: WorkerFact, fact: Known<WorkerSeen>, attempt: number, { pattern, line }: Found): WorkerFact {
  return { ...worker, fact: { ...fact, value: { ...fact.value, matched: { attempt, pattern, line } } } };
}
