// Observation: everything that a decision about one job may need to know, looked at afresh.
// What is not asked is missing, what did not answer is unknown; nothing is remembered from an earlier pass but since when
// a worker has been silent.

import type { Backend, Clock, LogFiles, StoredOutcome, WorkerRef } from '../app/ports.ts';
import { allocationOf, commandWorkers, lastAllocation, lastAttempt, mayExist, outlivesRemoval } from '../core/job.ts';
import type { Allocation, Job } from '../core/job.ts';
import { hasSucceeded, known, unknown } from '../core/observation.ts';
import type { AllocationFact, Fact, Known, Observation, WorkerFact, WorkerSeen } from '../core/observation.ts';
import { matchPattern } from '../core/patterns.ts';
import { troubleIn } from '../core/phases.ts';
import { placeCount } from '../core/place.ts';
import { saidToOthers } from '../core/place-answers.ts';
import type { PlaceAnswered } from '../core/place-answers.ts';
import type { WorkerId } from '../core/spec.ts';
import { second } from '../core/time.ts';
import type { Instant } from '../core/time.ts';
import type { DrainPatience, LogMirror } from './log-mirror.ts';
import type { Look } from './looks.ts';
import { textOf } from './looks.ts';
import type { Silences } from './silences.ts';

/** How much of the end of an output is searched for known patterns. */
const searched = 256 * 1024;
/**
 * How long a pass waits for the rest of an output whose program has ended: not for long, since the owner's word waits with
 * it. A release waits for what is still missing then.
 */
const lastWords: DrainPatience = { quiet: 5 * second, most: 5 * second };

/**
 * Looks at all of one job's world. Never throws for what the outside does.
 * The outcomes were read before: a look is then never older than an outcome that is folded with it.
 */
export async function observe(
  job: Job,
  outcomes: readonly StoredOutcome[],
  admitted: boolean,
  outside: {
    readonly backend: Backend;
    readonly look: Look;
    readonly clock: Clock;
    readonly silences: Silences;
    /** True for the reason of an unknown fact when this process lacked file descriptors, so that the worker was not asked. */
    readonly lacksFiles: (reason: string) => boolean;
    /** What the places of a project have answered to any job. */
    readonly placeAnswers: (project: string) => Promise<readonly PlaceAnswered[]>;
    readonly mirror: LogMirror;
    readonly logFiles: LogFiles;
    /** Allocations whose request is on record and that this controller was not asking for before the outcomes were read. */
    readonly unasked: readonly number[];
  },
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
  const refs = workersToLookAt(job, allocations).map(({ allocation, worker }) => ({ job, allocation, worker }));
  const answers = await lookAtWorkers(refs, outside.backend, outside.clock);
  const heardAt = outside.clock.now();
  const workers = answers.map((one) =>
    one.fact.kind === 'unknown' && outside.lacksFiles(one.fact.reason)
      ? outside.silences.notAsked(job.id, one, heardAt)
      : outside.silences.heard(job.id, one, began, heardAt),
  );
  await Promise.all(workers.map((worker) => copyLastWords(job, worker, outside)));
  return {
    admitted,
    allocations,
    workers: await Promise.all(
      workers.map(async (worker, index) => {
        const ref = refs[index];
        const ended = await withPattern(job, worker, outside.logFiles);
        return ref === undefined ? ended : withTrouble(job, ended, outside, ref);
      }),
    ),
    outcomes: outcomes.map((stored) => stored.outcome),
    ...(unheard.length === 0 ? {} : { unheard }),
    ...(places === undefined ? {} : { places }),
  };
}

/** What other jobs were told at the places of this one, while it may still have to choose among them. */
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

/**
 * The workers of the newest allocation when it is ready, and also when nobody could say whether it is but it was the last
 * time: the host may answer although the cloud does not. `here` whenever the command runs on this machine.
 */
function workersToLookAt(
  job: Job,
  facts: readonly AllocationFact[],
): readonly { readonly allocation: Allocation; readonly worker: WorkerId }[] {
  const allocation = lastAllocation(job);
  if (allocation === undefined || allocation.requestedAt === null || job.settled !== null) return [];
  const found: { allocation: Allocation; worker: WorkerId }[] = [];
  const fact = facts.find((one) => one.allocation === allocation.ordinal)?.fact;
  if (allocation.goneAt === null) {
    // The record learns the addresses with the commit of this very pass; the look has them already.
    const hosts = fact?.kind === 'known' ? (fact.value.hosts ?? allocation.hosts) : allocation.hosts;
    for (let worker = 0; worker < answeringWorkers(allocation, fact); worker += 1) {
      found.push({ allocation: { ...allocation, hosts }, worker });
    }
  }
  const attempt = lastAttempt(job);
  if (job.spec.command.place === 'here' && attempt !== undefined) {
    // The program on this machine outlives the allocation that it drives.
    found.push({ allocation: allocationOf(job, attempt.allocation), worker: 'here' });
  }
  return found;
}

function answeringWorkers(allocation: Allocation, fact: AllocationFact['fact'] | undefined): number {
  if (fact?.kind === 'known') {
    return fact.value.state === 'ready' ? (fact.value.workers ?? allocation.workers ?? 0) : 0;
  }
  return allocation.seen?.state === 'ready' ? (allocation.workers ?? 0) : 0;
}

async function lookAtWorkers(refs: readonly WorkerRef[], backend: Backend, clock: Clock): Promise<WorkerFact[]> {
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

/**
 * A program that has ended has said all it will say, and its machine may be let go by the very next decision.
 * So the rest is copied before the end is told to the core.
 */
async function copyLastWords(
  job: Job,
  worker: WorkerFact,
  outside: { readonly backend: Backend; readonly mirror: LogMirror },
): Promise<void> {
  const run = endedRun(job, worker);
  if (run === undefined) return;
  const output = { attempt: run.attempt, allocation: worker.allocation, worker: worker.worker };
  await outside.mirror.drain(job, outside.backend.machines, output, lastWords);
}

/**
 * The same fact with the pattern at the end of a silent run's output. The output is read after the observation, and the run may have
 * printed its last lines and ended in between. A second observation with the same age of the output rules that out.
 */
async function withTrouble(
  job: Job,
  worker: WorkerFact,
  outside: { readonly backend: Backend; readonly clock: Clock; readonly logFiles: LogFiles },
  ref: WorkerRef,
): Promise<WorkerFact> {
  const run = silentRun(job, worker, outside.clock.now());
  if (run === undefined || worker.fact.kind === 'unknown') return worker;
  const found = await foundIn(job, run.attempt, worker, outside.logFiles, troubleIn);
  if (found === undefined) return worker;
  const [again] = await lookAtWorkers([ref], outside.backend, outside.clock);
  if (again === undefined || silentRun(job, again, outside.clock.now())?.outputAt !== run.outputAt) return worker;
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
