// Guards: the reasons against a new job, or a new start of a job, which its user must confirm. The rules are pure. The
// store reads the facts in the transaction that writes the job, so that two requests cannot both find a TPU free.

import { chipCount } from '../../catalogue/accelerators.ts';
import { persistentTpuOf } from '../decide/allocate.ts';
import { phaseOf, type Phase } from '../decide/phase.ts';
import { isDesiredRunning, usableAllocation, type BudgetPeriod, type Job } from '../model/job.ts';
import type { OwnerSpending } from '../model/observation.ts';
import { alternativesOf, capacityAt, isSimulated, type JobSpec, type TpuSpec } from '../model/spec.ts';
import { hashFraction, type Instant } from '../model/time.ts';
import type { UserName } from '../model/user.ts';
import { usesPersistentTpu } from './admission.ts';
import { limitProblems, type LimitFacts, type LimitProblem } from './limits.ts';
import {
  grantMatches,
  hasBudget,
  isGrantValid,
  ownerSpendingOf,
  periodStarts,
  possibleCapacity,
  type Grant,
  type HeldCapacity,
  type UserSpending,
} from './grants.ts';

/** A request for capacity: a new job, or a stored job that starts again. */
export interface GuardedRequest {
  readonly owner: UserName;
  readonly spec: JobSpec;
  /** Null for a new job. */
  readonly job: Job | null;
}

/**
 * Covers one reason for one request, once: it is a hash of the request and of facts that the request changes, so nothing
 * is stored.
 */
export type ConfirmationToken = string;

export interface Guard {
  readonly grants: readonly Grant[];
  /** The actor, the command and its options as text: a token covers no other request. */
  readonly request: string;
  readonly confirmed: readonly ConfirmationToken[];
  /** Jobs on the same TPU that the request ends. They do not count against it, but it waits for them. */
  readonly replaces?: readonly string[];
}

/** The facts that a request needs. Null: none of that kind, so that most requests read almost nothing. */
export interface FactsNeeded {
  /** As `persistentTpuOf`. */
  readonly tpu: string | null;
  readonly checkpointStorage: string | null;
  readonly held: boolean;
  readonly periodStarts: Readonly<Record<BudgetPeriod, Instant>> | null;
  /** The owner, whose user may have limits. Null: the owner is not known. */
  readonly limitsOf: UserName | null;
  /** For a new job that may need a confirmation. */
  readonly newest: { readonly owner: UserName; readonly name: string } | null;
}

/** About other jobs. Specs may be outlines. */
export interface GuardFacts {
  /** Unfinished jobs on the same persistent TPU: the one that uses it, then those that wait for it. */
  readonly onTpu: readonly Job[];
  /** Unfinished jobs with the same checkpoint folder. */
  readonly onCheckpoints: readonly Job[];
  readonly held: readonly HeldCapacity[];
  readonly spending: readonly UserSpending[];
  /** Null for a user without limits. */
  readonly limits: LimitFacts | null;
  /** The id of the newest job of the owner with the name of the new one, finished or not. */
  readonly newest: string | null;
}

export interface OtherJob extends Pick<Job, 'id' | 'owner'> {
  readonly name: string;
  readonly phase: Phase;
}

export type GrantProblem =
  | { readonly kind: 'no_grant' }
  | { readonly kind: 'ended'; readonly until: string }
  /** `wanted` is null for a type with an unknown number of chips. */
  | {
      readonly kind: 'chips';
      readonly wanted: number | null;
      readonly granted: number;
      readonly held: number;
      readonly holders: readonly string[];
    };

type ReasonFacts =
  | { readonly kind: 'tpu_in_use'; readonly tpu: string; readonly users: readonly [OtherJob, ...OtherJob[]] }
  | { readonly kind: 'checkpoints_in_use'; readonly users: readonly [OtherJob, ...OtherJob[]] }
  | { readonly kind: 'not_granted'; readonly capacity: TpuSpec; readonly problem: GrantProblem }
  /** Nothing forbids the request, but it costs money. Only for a new job without grants. */
  | { readonly kind: 'price'; readonly capacity: TpuSpec }
  | { readonly kind: 'budget_used'; readonly budget: OwnerSpending }
  /** A limit that an admin has set for the owner's user. */
  | { readonly kind: 'user_limit'; readonly user: UserName; readonly problem: LimitProblem };

/** Without a token no confirmation helps. */
export type GuardReason = ReasonFacts & { readonly token: ConfirmationToken | null };

export interface GuardAnswer {
  /** All reasons that no token covers. */
  readonly reasons: readonly GuardReason[];
  /** Other jobs on its persistent TPU, for which the job waits. */
  readonly onTpu: readonly OtherJob[];
  /** The budgets of the owner that limit the job. */
  readonly budgets: readonly OwnerSpending[];
  /** Other jobs with the same checkpoint folder. */
  readonly onCheckpoints: readonly OtherJob[];
}

export function factsNeeded({ owner, spec, job }: GuardedRequest, grants: readonly Grant[], now: Instant): FactsNeeded {
  const { checkpoints, checkpointStorage } = spec.command;
  const tpu = job !== null && usesPersistentTpu(job) ? null : persistentTpuOf(spec.capacity);
  const mayBeAsked = tpu !== null || checkpoints === 'named' || needsGrant(spec, job);
  return {
    tpu,
    checkpointStorage: checkpoints === 'named' || checkpoints === 'shared' ? (checkpointStorage ?? null) : null,
    newest: job === null && mayBeAsked ? { owner, name: spec.name } : null,
    held: grants.some(({ chips }) => chips !== undefined) && needsGrant(spec, job),
    periodStarts: hasBudget(grants, possibleCapacity(spec), now) ? periodStarts(now) : null,
    limitsOf: owner,
  };
}

/** The reasons that need a confirmation. None helps against a budget that is used up or a limit of the user. */
export function checkGuard(request: GuardedRequest, guard: Guard, facts: GuardFacts, now: Instant): GuardAnswer {
  const { owner, spec, job } = request;
  const budgets = ownerSpendingOf(guard.grants, owner, possibleCapacity(spec), facts.spending, now);
  const [onTpu, onCheckpoints] = [facts.onTpu, facts.onCheckpoints].map((jobs) =>
    jobs.filter(({ id }) => id !== job?.id).map(otherJob),
  ) as [OtherJob[], OtherJob[]];
  const used = budgets.find(({ spentUsd, budgetUsd }) => spentUsd >= budgetUsd);
  const replaces = guard.replaces ?? [];
  const limited = { spec, job: job?.id ?? null, replaces, keepsCapacity: !needsGrant(spec, job) };
  const exceeded = facts.limits === null ? [] : limitProblems(facts.limits, limited, facts.spending, now);
  const refusals: readonly ReasonFacts[] = [
    ...(used === undefined ? [] : [{ kind: 'budget_used', budget: used } as const]),
    ...exceeded.map((problem) => ({ kind: 'user_limit', user: facts.limits?.user ?? owner, problem }) as const),
  ];
  const found: readonly ReasonFacts[] =
    refusals.length === 0
      ? findReasons(
          request,
          guard.grants,
          facts,
          now,
          onTpu.filter(({ id }) => !replaces.includes(id)),
          onCheckpoints,
        )
      : [];
  const reasons = found
    .map((reason) => ({ ...reason, token: tokenFor(request, guard, facts, reason) }))
    .filter(({ token }) => !guard.confirmed.includes(token));
  return {
    reasons: refusals.length === 0 ? reasons : refusals.map((refusal) => ({ ...refusal, token: null })),
    onTpu,
    budgets,
    onCheckpoints,
  };
}

function findReasons(
  { spec, job }: GuardedRequest,
  grants: readonly Grant[],
  { held }: GuardFacts,
  now: Instant,
  onTpu: readonly OtherJob[],
  onCheckpoints: readonly OtherJob[],
): readonly ReasonFacts[] {
  const { capacity, command } = spec;
  const reasons: ReasonFacts[] = [];
  const [writer, ...writers] = command.checkpoints === 'named' ? onCheckpoints : [];
  if (writer !== undefined) reasons.push({ kind: 'checkpoints_in_use', users: [writer, ...writers] });
  const [user, ...users] = onTpu;
  if (capacity.kind !== 'tpu') return reasons;
  if (user !== undefined) reasons.push({ kind: 'tpu_in_use', tpu: capacity.name, users: [user, ...users] });
  if (!needsGrant(spec, job)) return reasons;
  if (grants.length === 0) return job === null ? [...reasons, { kind: 'price', capacity }] : reasons;
  const others = held.filter((one) => one.job !== job?.id);
  for (const alternative of alternativesOf(capacity).keys()) {
    const requested = capacityAt(capacity, alternative);
    const problem = grantProblem(grants, requested, others, now);
    if (problem !== null) return [...reasons, { kind: 'not_granted', capacity: requested, problem }];
  }
  return reasons;
}

/** Capacity that the job holds or has requested needs no confirmation again. */
function needsGrant({ capacity }: JobSpec, job: Job | null): boolean {
  if (capacity.kind !== 'tpu' || capacity.ownership === 'persistent' || isSimulated(capacity)) return false;
  return job === null || !(usableAllocation(job) !== undefined || isDesiredRunning(job));
}

function grantProblem(
  grants: readonly Grant[],
  requested: TpuSpec,
  others: readonly HeldCapacity[],
  now: Instant,
): GrantProblem | null {
  const matching = grants.filter((grant) => grantMatches(grant, requested));
  if (matching.length === 0) return { kind: 'no_grant' };
  const valid = matching.filter((grant) => isGrantValid(grant, now));
  if (valid.length === 0) return { kind: 'ended', until: matching.at(-1)?.until ?? '' };
  const problems = valid.map((grant) => chipProblem(grant, requested, others));
  return problems.includes(null) ? null : (problems[0] ?? null);
}

function chipProblem(
  grant: Grant,
  { accelerator, nodeCount }: TpuSpec,
  others: readonly HeldCapacity[],
): GrantProblem | null {
  const { chips: granted } = grant;
  if (granted === undefined) return null;
  const wanted = chipCount(accelerator, nodeCount);
  const counted = others.filter((one) => grantMatches(grant, one));
  const held = counted.reduce((sum, { chips }) => sum + (chips ?? 0), 0);
  if (wanted !== null && held + wanted <= granted) return null;
  return { kind: 'chips', wanted, granted, held, holders: [...new Set(counted.map(({ job }) => job))] };
}

function otherJob(job: Job): OtherJob {
  return { id: job.id, owner: job.owner, name: job.spec.name, phase: phaseOf(job) };
}

/**
 * Of the request and of the facts of the reason. Of other jobs only the ids count: their phases change while a user
 * reads, and mean the same to the request. Every accepted request adds a job, or a start to its job, so that its token
 * covers no second one.
 */
function tokenFor(
  { owner, spec, job }: GuardedRequest,
  { request }: Guard,
  { newest }: GuardFacts,
  reason: ReasonFacts,
): ConfirmationToken {
  const facts = 'users' in reason ? { ...reason, users: reason.users.map(({ id }) => id) } : reason;
  const { capacity, command } = spec;
  const before = job === null ? newest : [job.id, job.attempts.at(-1)?.ordinal, job.desiredAt, job.startRequest?.at];
  const text = JSON.stringify([request, owner, before, capacity, command.checkpointStorage ?? null, facts]);
  // It protects against mistakes, not attacks: a client that may confirm one reason may confirm all.
  return [1, 2, 3].map((part) => Math.floor(hashFraction(part, text) * 2 ** 32).toString(36)).join('');
}
