// Observation: everything that a decision about one job may need to know, looked at afresh.
// An unasked thing is missing, an unanswered one unknown; nothing is remembered from an earlier pass but since when
// a worker has been silent.

import type { Backend, Clock, StoredOutcome, WorkerRef } from '../app/ports.ts';
import { allocationOf, lastAllocation, lastAttempt, mayExist, outlivesRemoval, withLife } from '../core/job.ts';
import type { Allocation, Job } from '../core/job.ts';
import { known, unknown } from '../core/observation.ts';
import type { AllocationFact, Fact, Observation, WorkerFact, WorkerSeen } from '../core/observation.ts';
import { placeCount } from '../core/place.ts';
import { saidToOthers } from '../core/place-answers.ts';
import type { PlaceAnswered } from '../core/place-answers.ts';
import type { Look } from './looks.ts';
import { textOf } from './looks.ts';
import type { Silences } from './silences.ts';

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
export function workerRefs(job: Job, facts: readonly AllocationFact[]): readonly WorkerRef[] {
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
export async function lookAtWorkers(
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
