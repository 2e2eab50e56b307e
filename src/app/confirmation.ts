// Confirmation: the question to the user before a job begins, if it requests more than the grants allow, or if another
// job uses its TPU or checkpoint folder. Without grants everything is allowed, and a terminal asks about a new job
// once, with its price. The TPU emulator needs no grant.

import { chipCount } from '../catalogue/accelerators.ts';
import { heldAllocations, isDesiredRunning, type Job, usableAllocation } from '../core/model/job.ts';
import { capacityAt, alternativesOf, type JobSpec, type TpuSpec } from '../core/model/spec.ts';
import type { OwnerSpending } from '../core/model/observation.ts';
import type { Price } from '../reports/prices.ts';
import type { Instant } from '../core/model/time.ts';
import type { UserName } from '../core/model/user.ts';
import type { ConfirmationRequired } from './client.ts';
import { formatCapacityCost, isSimulated, formatAccelerator } from './phrases.ts';
import { firstJobs, formatList, pluralize } from './format.ts';
import {
  formatBudgetLeft,
  formatBudgetSpent,
  grantMatches,
  hasBudget,
  isGrantValid,
  possibleCapacity,
  readOwnerSpending,
} from './grants.ts';
import type { Grant } from './settings.ts';
import type { Store } from './ports.ts';
import { checkpointFolder } from '../core/decide/launch.ts';
import { phaseOf } from '../core/decide/phase.ts';
import { exitCode, JobmanError } from './errors.ts';
import { resolve } from './refs.ts';

/** The reason why one of the spec's alternatives exceeds the grants, without a full stop; null if none does. */
export function findViolation(
  grants: readonly Grant[],
  requested: TpuSpec,
  others: readonly Job[],
  now: Instant,
): string | null {
  if (grants.length === 0 || requested.ownership === 'persistent' || isSimulated(requested)) return null;
  for (const alternative of alternativesOf(requested).keys()) {
    const violation = findViolationAt(grants, capacityAt(requested, alternative), others, now);
    if (violation !== null) return violation;
  }
  return null;
}

export async function checkGrants(
  parts: {
    readonly store: Pick<Store, 'list' | 'spending'>;
    /** The owner of a new job. Called only for a budget, so that a dry run may work without the database. */
    readonly owner: () => Promise<UserName>;
    readonly now: () => Instant;
    readonly grants: () => Promise<readonly Grant[]>;
    readonly pricePerHour: (spec: JobSpec) => Promise<Price | null> | Price | null;
  },
  spec: JobSpec,
  job: Job | null,
): Promise<ConfirmationRequired | null> {
  const { capacity } = spec;
  if (capacity.kind !== 'tpu') return null;
  const [grants, now, possible] = [await parts.grants(), parts.now(), possibleCapacity(spec)];
  const owner = hasBudget(grants, possible, now) ? (job?.owner ?? (await parts.owner())) : null;
  const budgets = owner === null ? [] : await readOwnerSpending(parts.store, grants, owner, possible, now);
  const used = budgets.find(({ spentUsd, budgetUsd }) => spentUsd >= budgetUsd);
  if (owner !== null && used !== undefined) return refuseForBudget(used, owner, now);
  if (job !== null && isAlreadyRequested(job)) return null;
  const priceOf = async (): Promise<number | null> => (await parts.pricePerHour(spec))?.usdPerHour ?? null;
  if (grants.length === 0) return job === null ? confirmPrice(capacity, await priceOf()) : null;
  const { jobs } = await parts.store.list({ maxFinished: maxFinishedJobs, includeRemoved: true });
  const others = jobs.filter(({ id }) => id !== job?.id);
  const violation = findViolation(grants, capacity, others, now);
  if (violation === null) return null;
  const price = await priceOf();
  const left = owner === null ? [] : budgets.map((one) => formatBudgetLeft(one, owner, now));
  const cost = price === null ? null : [formatCapacityCost(capacity, price), ...left].join('; ');
  return { message: violation, cost, remedy };
}

/** The controller would end the job at once, so there is nothing to confirm. */
function refuseForBudget(budget: OwnerSpending, owner: string, now: Instant): ConfirmationRequired {
  const { grant, period } = budget.ownerBudget;
  const message = `the budget of ${owner} for ${grant} is used up: ${formatBudgetSpent(budget, now)}`;
  const remedy = `Raise budgetUsd of that grant (setting \`grants\`), or wait for the next ${period}. To see what it was spent on: jobman cost --user ${owner}`;
  return { message, cost: null, remedy, isRefused: true };
}

function confirmPrice(requested: TpuSpec, price: number | null): ConfirmationRequired | null {
  if (requested.ownership === 'persistent' || isSimulated(requested)) return null;
  const message = `The job requests ${formatAccelerator(requested)} ${requested.pricing} in ${requested.zone}`;
  return { message, cost: price === null ? null : formatCapacityCost(requested, price), remedy, mayProceed: true };
}

const remedy = 'The setting `grants` lists what needs no confirmation.';

function isAlreadyRequested(job: Job): boolean {
  return usableAllocation(job) !== undefined || isDesiredRunning(job);
}

/** A finished job may keep its TPU. Only those of this many newest finished jobs count. */
const maxFinishedJobs = 1_000;

function findViolationAt(
  grants: readonly Grant[],
  requested: TpuSpec,
  others: readonly Job[],
  now: Instant,
): string | null {
  const subject = `${requested.accelerator} ${requested.pricing} in ${requested.zone}`;
  const matching = grants.filter((grant) => grantMatches(grant, requested));
  if (matching.length === 0) return `${subject} is not in your grants`;
  const valid = matching.filter((grant) => isGrantValid(grant, now));
  if (valid.length === 0) return `${subject}: its grant ended on ${matching.at(-1)?.until ?? ''}`;
  const reasons = valid.map((grant) => findChipViolation(grant, requested, others));
  return reasons.includes(null) ? null : `${subject}: ${reasons[0] ?? ''}`;
}

function findChipViolation({ chips, ...grant }: Grant, requested: TpuSpec, others: readonly Job[]): string | null {
  if (chips === undefined) return null;
  const wanted = chipCount(requested.accelerator, requested.nodeCount);
  if (wanted === null) return `its number of chips is unknown, and ${chips} are granted`;
  let held = 0;
  const holders: string[] = [];
  for (const job of others) {
    const counted = capacityUsedBy(job).filter((spec) => grantMatches(grant, spec));
    if (counted.length === 0) continue;
    held += counted.reduce((sum, { accelerator, nodeCount }) => sum + (chipCount(accelerator, nodeCount) ?? 0), 0);
    holders.push(job.id);
  }
  if (held + wanted <= chips) return null;
  const names = formatList(firstJobs(holders, maxNamedJobs));
  return `it has ${pluralize(wanted, 'chip')}, and ${chips} are granted${held === 0 ? '' : ` (${held} used by ${names})`}`;
}

const maxNamedJobs = 5;

/** The held capacity, or else the next request, so that a job created just now counts. */
function capacityUsedBy(job: Job): readonly TpuSpec[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu' || capacity.ownership === 'persistent' || isSimulated(capacity)) return [];
  const held = heldAllocations(job);
  if (held.length > 0) return held.map(({ alternative = 0 }) => capacityAt(capacity, alternative));
  return isDesiredRunning(job) ? [capacity] : [];
}

// ------------------------------------------------------------------------------------------ checkpoint folders

/** Null if no other unfinished job uses the folder. `job` is null for a new one. */
export async function checkpointsInUse(
  store: Pick<Store, 'list'>,
  spec: JobSpec,
  job: Job | null,
): Promise<ConfirmationRequired | null> {
  if (spec.command.checkpoints !== 'named') return null;
  const [other] = await checkpointUsers(store, spec, job);
  if (other === undefined) return null;
  return {
    message: `job ${other.id} (${other.spec.name}) of ${other.owner}, which is ${phaseOf(other)}, keeps its checkpoints in the same folder (${spec.command.checkpointDir}), and each job could overwrite the other's`,
    cost: null,
    remedy: 'Give the job another name or folder, or set job.checkpoint_shared: true.',
  };
}

export async function sharedCheckpoints(store: Pick<Store, 'list'>, spec: JobSpec): Promise<string | null> {
  if (spec.command.checkpoints !== 'shared') return null;
  const others = await checkpointUsers(store, spec, null);
  if (others.length === 0) return null;
  const names = others.map((one) => `job ${one.id} (${one.spec.name}, ${phaseOf(one)})`);
  return `the checkpoint folder ${spec.command.checkpointDir} is also used by ${formatList(firstJobs(names, 3))}: each job may resume from a checkpoint of another (job.checkpoint_shared)`;
}

async function checkpointUsers(store: Pick<Store, 'list'>, spec: JobSpec, job: Job | null): Promise<readonly Job[]> {
  const { checkpointStorage: storage } = spec.command;
  if (storage === undefined) return [];
  return otherUnfinishedJobs(store, job, (other) => other.command.checkpointStorage === storage);
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
  if (isOnThisMachine(source.spec) !== isOnThisMachine(spec) && !path.includes('://'))
    throw new JobmanError(
      `The job cannot resume from ${it}: its checkpoints are ${isOnThisMachine(source.spec) ? 'on this machine' : 'on TPU workers'}. Copy them and set job.resume_from to the path.`,
      exitCode.usage,
    );
  return { ...spec, command: { ...spec.command, resumeFrom: { kind: 'folder', path, job: source.id } } };
}

function isOnThisMachine({ capacity, command }: JobSpec): boolean {
  return capacity.kind === 'local' || command.runsOn === 'controller';
}

// ------------------------------------------------------------------------------------------ persistent TPUs

// Two programs cannot use the chips of one TPU, and the second ends with an error that names neither.

export async function tpuInUse(
  store: Pick<Store, 'list'>,
  spec: JobSpec,
  job: Job | null,
): Promise<ConfirmationRequired | null> {
  const wanted = persistentTpu(spec);
  if (wanted === null) return null;
  const [other] = await otherUnfinishedJobs(store, job, (one) => isSameTpu(persistentTpu(one), wanted));
  if (other === undefined) return null;
  const message = `the TPU ${wanted.name} is used by job ${other.id} (${other.spec.name}) of ${other.owner}, which is ${phaseOf(other)}`;
  return { message, cost: null, remedy: `Wait for it: jobman wait ${Number(other.id)}` };
}

async function otherUnfinishedJobs(
  store: Pick<Store, 'list'>,
  job: Job | null,
  matches: (spec: JobSpec) => boolean,
): Promise<readonly Job[]> {
  const { jobs } = await store.list({ maxFinished: 0, includeRemoved: false });
  return jobs.filter((one) => one.id !== job?.id && one.finish === null && matches(one.spec));
}

function persistentTpu({ capacity }: JobSpec): TpuSpec | null {
  return capacity.kind === 'tpu' && capacity.ownership === 'persistent' ? capacity : null;
}

function isSameTpu(one: TpuSpec | null, other: TpuSpec): boolean {
  return one?.project === other.project && one.zone === other.zone && one.name === other.name;
}
