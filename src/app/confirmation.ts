// Confirmation: the question to the user before a job begins, if it requests more than the grants allow, or if another
// job uses its TPU or checkpoint folder. Without grants everything is allowed, and a terminal asks about a new job
// once, with its price. The TPU emulator needs no grant. core/policy/guards.ts has the rules.

import { isNearlyUsed } from '../core/decide/spending.ts';
import { checkpointFolder } from '../core/decide/launch.ts';
import { capacityAt, type JobSpec, type TpuSpec, runsCommandHere } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { UserName } from '../core/model/user.ts';
import type { Grant } from '../core/policy/grants.ts';
import {
  checkGuard,
  factsNeeded,
  type Guard,
  type GuardAnswer,
  type GuardedRequest,
  type GuardFacts,
  type GrantProblem,
  type GuardReason,
  type OtherJob,
} from '../core/policy/guards.ts';
import type { Price } from '../reports/prices.ts';
import type { CommandOptions, ConfirmationNeeded, ConfirmationRequired } from './client.ts';
import { exitCode, JobmanError } from './errors.ts';
import { firstJobs, formatList, pluralize } from './format.ts';
import { formatBudgetLeft, formatBudgetSpent } from './grants.ts';
import { describeLimit } from './limits.ts';
import { formatAccelerator, formatCapacityCost } from './phrases.ts';
import type { Store } from './ports.ts';
import { resolve } from './refs.ts';

export interface GuardParts {
  readonly store: Pick<Store, 'guardFacts'>;
  readonly now: () => Instant;
  readonly grants: () => Promise<readonly Grant[]>;
  readonly pricePerHour: (spec: JobSpec) => Promise<Price | null> | Price | null;
}

/** The spec with the prices of now, which a confirmation covers. */
export async function withPrice(parts: Pick<GuardParts, 'pricePerHour'>, spec: JobSpec): Promise<JobSpec> {
  const { capacity } = spec;
  const priceOf = async (alternative: number) => {
    const price = await parts.pricePerHour({ ...spec, capacity: capacityAt(capacity, alternative) });
    return price === null ? null : { pricePerHourUsd: price.usdPerHour, pricesOf: price.pricesOf };
  };
  if (capacity.kind !== 'tpu') return { ...spec, capacity: { ...capacity, ...(await priceOf(0)) } };
  const alternatives = await Promise.all(
    (capacity.alternatives ?? []).map(async (alternative, index) => ({
      ...alternative,
      ...((await priceOf(index + 1)) ?? { pricePerHourUsd: null }),
    })),
  );
  return {
    ...spec,
    capacity: {
      ...capacity,
      ...((await priceOf(0)) ?? { pricePerHourUsd: null }),
      ...(alternatives.length === 0 ? {} : { alternatives }),
    },
  };
}

const noFacts: GuardFacts = { onTpu: [], onCheckpoints: [], held: [], spending: [], limits: null, newest: null };

/** `text` identifies the request with its actor, as in `Guard`. */
export interface RequestToConfirm extends Pick<CommandOptions, 'confirmed' | 'replaces'> {
  readonly text: string;
}

/**
 * The reasons against the request now, which the transaction of the request checks again with the same guard. Null for a
 * dry run, which uses no token.
 */
export async function checkRequest(
  parts: GuardParts,
  request: GuardedRequest,
  given: RequestToConfirm | null,
): Promise<GuardAnswer & { readonly guard: Guard; readonly confirmation: ConfirmationNeeded | null }> {
  const [grants, now] = [await parts.grants(), parts.now()];
  const { text, confirmed = [], replaces = [] } = given ?? { text: '' };
  const guard = { grants, request: text, confirmed, replaces };
  const { newest, limitsOf, ...needed } = factsNeeded(request, grants, now);
  // A dry run without a database has no owner, and reads nothing more if it needs nothing.
  const isFree = needed.tpu === null && needed.checkpointStorage === null && !needed.held;
  const limited = request.owner === '' ? null : limitsOf;
  const readsNothing = isFree && needed.periodStarts === null && given === null && limited === null;
  const facts = readsNothing ? noFacts : await parts.store.guardFacts({ ...needed, newest, limitsOf: limited }, now);
  const answer = checkGuard(request, guard, facts, now);
  return { ...answer, guard, confirmation: await confirmationFor(parts, request, answer, confirmed.length > 0) };
}

async function confirmationFor(
  parts: GuardParts,
  request: GuardedRequest,
  { reasons, budgets }: GuardAnswer,
  isRepeated: boolean,
): Promise<ConfirmationNeeded | null> {
  if (reasons.length === 0) return null;
  const now = parts.now();
  const price = (await parts.pricePerHour(request.spec))?.usdPerHour ?? null;
  const left = budgets.map((one) => formatBudgetLeft(one, request.owner, now));
  const cost = (capacity: TpuSpec) =>
    price === null ? null : [formatCapacityCost(capacity, price), ...left].join('; ');
  return {
    reasons: reasons.map((reason) => ({
      kind: reason.kind,
      token: reason.token,
      mayProceed: reason.kind === 'price',
      cost: reason.kind === 'price' || reason.kind === 'not_granted' ? cost(request.spec.capacity as TpuSpec) : null,
      ...describeReason(reason, request, now),
    })),
    notice: isRepeated
      ? 'The confirmation does not cover this request: it was used already, was for another request, or the facts have changed since.'
      : null,
  };
}

const grantsRemedy = 'The setting `grants` lists what needs no confirmation.';

function describeReason(
  reason: GuardReason,
  { owner, spec }: GuardedRequest,
  now: Instant,
): Pick<ConfirmationRequired, 'message' | 'remedy'> {
  switch (reason.kind) {
    case 'tpu_in_use': {
      const [user, ...waiting] = reason.users;
      const behind =
        waiting.length === 0
          ? ''
          : `, and ${pluralize(waiting.length, 'job')} wait${waiting.length === 1 ? 's' : ''} for it`;
      return {
        message: `the TPU ${reason.tpu} is used by ${formatOther(user)}${behind}: this job would wait until it is free`,
        remedy: `To begin later: jobman wait ${Number(user.id)}`,
      };
    }
    case 'checkpoints_in_use':
      return {
        message: `${formatOther(reason.users[0])}, keeps its checkpoints in the same folder (${spec.command.checkpointDir}), and each job could overwrite the other's`,
        remedy: 'Give the job another name or folder, or set job.checkpoint_shared: true.',
      };
    case 'not_granted': {
      const { accelerator, pricing, zone } = reason.capacity;
      return {
        message: `${accelerator} ${pricing} in ${zone}${describeProblem(reason.problem)}`,
        remedy: grantsRemedy,
      };
    }
    case 'price': {
      const { pricing, zone } = reason.capacity;
      const message = `The job requests ${formatAccelerator(reason.capacity)} ${pricing} in ${zone}`;
      return { message, remedy: grantsRemedy };
    }
    case 'user_limit':
      return {
        message: describeLimit(reason.user, reason.problem, now),
        remedy: `An admin changes the limits of a user: jobman user limit ${reason.user}`,
      };
    case 'budget_used': {
      const { grant, period } = reason.budget.ownerBudget;
      return {
        message: `the budget of ${owner} for ${grant} is used up: ${formatBudgetSpent(reason.budget, now)}`,
        remedy: `Raise budgetUsd of that grant (setting \`grants\`), or wait for the next ${period}. To see what it was spent on: jobman cost --user ${owner}`,
      };
    }
  }
}

function formatOther({ id, name, owner, phase }: OtherJob): string {
  return `job ${id} (${name}) of ${owner}, which is ${phase === 'setup' ? 'in setup' : phase}`;
}

const maxNamedJobs = 5;

function describeProblem(problem: GrantProblem): string {
  switch (problem.kind) {
    case 'no_grant':
      return ' is not in your grants';
    case 'ended':
      return `: its grant ended on ${problem.until}`;
    case 'chips': {
      const { wanted, granted, held, holders } = problem;
      if (wanted === null) return `: its number of chips is unknown, and ${granted} are granted`;
      const used = held === 0 ? '' : ` (${held} used by ${formatList(firstJobs(holders, maxNamedJobs))})`;
      return `: it has ${pluralize(wanted, 'chip')}, and ${granted} are granted${used}`;
    }
  }
}

/** Warnings for a job that was created although other jobs or budgets concern it. */
export function warningsFor({ owner, spec }: GuardedRequest, answer: GuardAnswer, now: Instant): readonly string[] {
  const { onCheckpoints, budgets } = answer;
  const names = onCheckpoints.map(({ id, name, phase }) => `job ${id} (${name}, ${phase})`);
  const isShared = spec.command.checkpoints === 'shared' && names.length > 0;
  return [
    ...(isShared
      ? [
          `the checkpoint folder ${spec.command.checkpointDir} is also used by ${formatList(firstJobs(names, 3))}: each job may resume from a checkpoint of another (job.checkpoint_shared)`,
        ]
      : []),
    ...budgets
      .filter(isNearlyUsed)
      .map(
        (one) =>
          `the budget of ${owner} for ${one.ownerBudget.grant} is nearly used up: ${formatBudgetSpent(one, now)}`,
      ),
  ];
}

/** The spec with the folder of the job in `job.resume_from`, a name among the jobs of `owners`. Throws JobmanError if that job has none. */
export async function withResumeFrom(
  store: Store,
  spec: JobSpec,
  owners: readonly UserName[],
  now: Instant,
): Promise<JobSpec> {
  const { resumeFrom } = spec.command;
  if (resumeFrom?.kind !== 'job') return spec;
  const { job: source } = await resolve(store, resumeFrom.job, owners, now, 'read');
  const it = `job ${source.id} (${source.spec.name})`;
  const newest = source.attempts.findLast(({ startedAt }) => startedAt !== null);
  const path = newest === undefined ? source.spec.command.checkpointDir : checkpointFolder(source, newest);
  if (path === null)
    throw new JobmanError(
      `The job cannot resume from ${it}, whose manifest has no job.checkpoint_dir. Set job.resume_from to a path.`,
      exitCode.usage,
    );
  if (runsCommandHere(source.spec) !== runsCommandHere(spec) && !path.includes('://'))
    throw new JobmanError(
      `The job cannot resume from ${it}: its checkpoints are ${runsCommandHere(source.spec) ? 'on this machine' : 'on its workers'}. Copy them and set job.resume_from to the path.`,
      exitCode.usage,
    );
  return { ...spec, command: { ...spec.command, resumeFrom: { kind: 'folder', path, job: source.id } } };
}
