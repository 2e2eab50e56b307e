// Observation: everything that a decision about one job may need to know, looked at afresh.
// An unasked thing is missing, an unanswered one unknown; nothing is remembered from an earlier pass but since when
// a worker has been silent.

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

/** Everything that an observation needs. */
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

/** Observes all of one job's world. Never throws for the outside. Outcomes were read before, so no observation is older. */
export async function observe(
  job: Job,
  outcomes: readonly StoredOutcome[],
  admitted: boolean,
  outside: Outside,
): Promise<Observation> {
  // Off the list, and nothing of it would run on: nobody is asked about it any more.
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
  {
    placeAnswers,
    clock,
  }: { readonly placeAnswers: (project: string) => Promise<readonly PlaceAnswered[]>; readonly clock: Clock },
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
    // The record learns the addresses with the commit of this very pass; the look has them already.
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

// Looks at capacity, shared: jobs that look in the same moment are one question to the backend, which in turn makes
// one list per place of it. A thousand jobs in one zone cost what one costs.

interface Question {
  readonly refs: readonly AllocationRef[];
  readonly answer: (facts: readonly Fact<AllocationSeen>[]) => void;
}

/** Looks at these allocations, together with whoever asks in the same moment. Never throws. */
export type Look = (refs: readonly AllocationRef[]) => Promise<readonly Fact<AllocationSeen>[]>;

/** Shares one request between all that ask while another is under way; never answers with one older than the question. */
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
      // A port that throws has seen nothing. Not knowing is a value.
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
    // Two at most: one place that is slow to answer does not hold up all others, and many jobs still share.
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

// Silences: since when each worker has not answered, without a break. A look that failed says nothing about the time since
// the one before it: the worker may have answered in between, with nobody there to ask (the process stood still, the disk
// was full, the laptop slept). So a silence is as long as looks that followed closely upon one another have found it to be.
// This is kept beside the record, not in it, because it changes with every look. Losing it costs patience and nothing else.

/** From the end of one look to the beginning of the next, within one silence: twice the longest wait for a next look. */
const apartMost: Duration = minute;
/** An observation that takes longer looks more like a process that stood still in the middle of it. */
const lookLongest: Duration = 2 * minute;

export interface Silences {
  /** The fact of an observation from `began` to `now`; of a silent worker with the time since which it has been silent. */
  heard(job: string, fact: WorkerFact, began: Instant, now: Instant): WorkerFact;
  /** The same fact of a worker that was not asked, because this process could not: its silence has lasted for no time. */
  notAsked(job: string, fact: WorkerFact, now: Instant): WorkerFact;
  /** Nobody asks about that job any more. */
  forget(job: string): void;
}

interface Silence {
  readonly since: Instant;
  readonly lastAt: Instant;
}

/** Remembers nothing yet: for a controller that has just begun every silence begins with its first look. */
export function createSilences(): Silences {
  const silences = new Map<string, Map<string, Silence>>();
  return {
    heard(job, seen, began, now) {
      const { allocation, worker, fact } = seen;
      const key = `${allocation}/${worker}`;
      const ofJob = silences.get(job);
      if (fact.kind === 'known') {
        ofJob?.delete(key);
        if (ofJob?.size === 0) silences.delete(job);
        return seen;
      }
      const before = ofJob?.get(key);
      // A clock that was set back makes the time between two looks unknown, as a long one is.
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
    notAsked(job, seen, now) {
      silences.get(job)?.delete(`${seen.allocation}/${seen.worker}`);
      return seen.fact.kind === 'known' ? seen : { ...seen, fact: unknown(seen.fact.reason, now) };
    },
    forget: (job) => void silences.delete(job),
  };
}

// Outputs: what the programs of an observation printed last. It is copied, and searched for patterns, before the core decides:
// the machine may be released by that very decision.

/** How much of the end of an output is searched for known patterns. */
const searched = 256 * 1024;
/** How long a pass waits for the last output: not long, since commands wait with it. A release waits for the rest. */
const lastWords: DrainPatience = { quiet: 5 * second, most: 5 * second };

/** Everything that the search needs. */
interface OutputParts {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly mirror: LogMirror;
  readonly logFiles: LogFiles;
}

/** The same observation with the patterns that were found in the outputs of ended and of silent programs. */
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

/** The rest of an ended program's output is copied before the core hears of the end, which may release the machine. */
async function copyLastWords(job: Job, worker: WorkerFact, { backend, mirror }: OutputParts): Promise<void> {
  const run = endedRun(job, worker);
  if (run === undefined) return;
  const output = { attempt: run.attempt, allocation: worker.allocation, worker: worker.worker };
  await mirror.drain(job, backend.machines, output, lastWords);
}

/**
 * The same fact with the pattern at the end of a silent run's output. The output is read after the observation, and the run may have
 * printed its last lines and ended in between. A second observation with the same age of the output rules that out.
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

/** Undefined also without our copy of the output: then only the exit code counts. */
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
