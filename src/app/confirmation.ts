// Confirmation: what a person is asked before a job begins. It requests more of a cloud than the settings grant, or it would use a
// TPU or a checkpoint folder that another job uses. Without any grant everything is allowed, and a new job on a terminal is
// asked about once, with its price. Nothing of the built-in cloud needs a grant.

import { accelerator, generationOf } from '../catalogue/accelerators.ts';
import { usableAllocation } from '../core/allocate.ts';
import { heldAllocations, type Job } from '../core/job.ts';
import { capacityAt, placesOf, type JobSpec, type TpuSpec } from '../core/spec.ts';
import type { Instant } from '../core/time.ts';
import type { Beyond } from './client.ts';
import { costOf, isPretended, acceleratorText } from './phrases.ts';
import { countText } from './figures.ts';
import { endOf, type Grant } from './settings.ts';
import type { Store } from './ports.ts';
import { checkpointFolder } from '../core/prepare.ts';
import { phaseOf } from '../core/phase.ts';
import { exitCode, JobmanError } from './errors.ts';
import { resolve } from './refs.ts';

/** Why something is outside of the grants, in any of its places, as a sentence without its full stop; null when it is inside. */
export function whyBeyond(
  grants: readonly Grant[],
  asked: TpuSpec,
  others: readonly Job[],
  now: Instant,
): string | null {
  if (grants.length === 0 || asked.ownership === 'standing' || isPretended(asked)) return null;
  for (const place of placesOf(asked).keys()) {
    const why = whyBeyondAt(grants, capacityAt(asked, place), others, now);
    if (why !== null) return why;
  }
  return null;
}

export async function beyondGrants(
  parts: {
    readonly store: Pick<Store, 'list'>;
    readonly now: () => Instant;
    readonly grants: () => Promise<readonly Grant[]>;
    readonly pricePerHour: (spec: JobSpec) => Promise<number | null> | number | null;
  },
  spec: JobSpec,
  job: Job | null,
): Promise<Beyond | null> {
  const { capacity } = spec;
  if (capacity.kind !== 'tpu' || (job !== null && hasAsked(job))) return null;
  const grants = await parts.grants();
  if (grants.length === 0) return job === null ? priceQuestion(capacity, await parts.pricePerHour(spec)) : null;
  const { jobs } = await parts.store.list({ settledMost: settledLooked, withRemoved: true });
  const others = jobs.filter(({ id }) => id !== job?.id);
  const why = whyBeyond(grants, capacity, others, parts.now());
  if (why === null) return null;
  const price = await parts.pricePerHour(spec);
  return { sentence: why, cost: price === null ? null : costOf(capacity, price), remedy };
}

function priceQuestion(asked: TpuSpec, price: number | null): Beyond | null {
  if (asked.ownership === 'standing' || isPretended(asked)) return null;
  const sentence = `The job requests ${acceleratorText(asked)} ${asked.pricing} in ${asked.zone}`;
  return { sentence, cost: price === null ? null : costOf(asked, price), remedy, mayContinue: true };
}

const remedy = 'The setting `grants` says what needs no question.';

function hasAsked(job: Job): boolean {
  return usableAllocation(job) !== undefined || (job.settled === null && job.desired === 'run');
}

/** A settled job may have kept its TPU; one that has done so for long is among those that settled last only by chance. */
const settledLooked = 1_000;

function whyBeyondAt(grants: readonly Grant[], asked: TpuSpec, others: readonly Job[], now: Instant): string | null {
  const what = `${asked.accelerator} ${asked.pricing} in ${asked.zone}`;
  const about = grants.filter((grant) => isAbout(grant, asked));
  if (about.length === 0) return `${what} is in none of the grants of the settings`;
  const standing = about.filter(({ until }) => until === undefined || now < endOf(until));
  if (standing.length === 0) return `${what}: its grant was until ${about.at(-1)?.until ?? ''}`;
  const reasons = standing.map((grant) => whyTooMany(grant, asked, others));
  return reasons.includes(null) ? null : `${what}: ${reasons[0] ?? ''}`;
}

function whyTooMany({ chips, ...grant }: Grant, asked: TpuSpec, others: readonly Job[]): string | null {
  if (chips === undefined) return null;
  const wanted = chipsOf(asked);
  if (wanted === undefined) return `nobody here knows how many chips it has, and ${chips} are granted`;
  let held = 0;
  const holders: string[] = [];
  for (const job of others) {
    const counted = takenBy(job).filter((spec) => isAbout(grant, spec));
    if (counted.length === 0) continue;
    held += counted.reduce((sum, spec) => sum + (chipsOf(spec) ?? 0), 0);
    holders.push(job.id);
  }
  if (held + wanted <= chips) return null;
  const names = `${holders.slice(0, namedMost).join(', ')}${holders.length > namedMost ? ' and others' : ''}`;
  return `it has ${countText(wanted, 'chip')} where ${chips} are granted${held === 0 ? '' : `, and ${held} are taken by ${names}`}`;
}

const namedMost = 5;

/** What a job holds, or its next request, so that a job that was created a moment ago counts. */
function takenBy(job: Job): readonly TpuSpec[] {
  const { capacity } = job.spec;
  if (capacity.kind !== 'tpu' || capacity.ownership === 'standing' || isPretended(capacity)) return [];
  const held = heldAllocations(job);
  if (held.length > 0) return held.map(({ place = 0 }) => capacityAt(capacity, place));
  return job.settled === null && job.desired === 'run' ? [capacity] : [];
}

function chipsOf({ accelerator: type, nodeCount = 1 }: TpuSpec): number | undefined {
  const chips = accelerator(type)?.chips;
  return chips === undefined ? undefined : chips * nodeCount;
}

function isAbout(grant: Grant, { zone, accelerator: type, pricing }: TpuSpec): boolean {
  return (
    (grant.zone === undefined || isLike(zone, grant.zone)) &&
    (grant.pricing === undefined || grant.pricing === pricing) &&
    (grant.accelerator === undefined ||
      isLike(type, grant.accelerator) ||
      generationOf(type)?.name === grant.accelerator)
  );
}

function isLike(text: string, pattern: string): boolean {
  const parts = pattern.split('*').map((part) => part.replaceAll(/[\\^$.|?+()[\]{}]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`).test(text);
}

// ------------------------------------------------------------------------------------------ checkpoint folders

/** The question before a job begins in a checkpoint folder that another unfinished job uses; `job` is null for a new one. */
export async function checkpointsInUse(
  store: Pick<Store, 'list'>,
  spec: JobSpec,
  job: Job | null,
): Promise<Beyond | null> {
  if (spec.command.checkpoints !== 'named') return null;
  const [other] = await usersOf(store, spec, job);
  if (other === undefined) return null;
  return {
    sentence: `job ${other.id} (${other.spec.name}) of ${other.owner}, which is ${phaseOf(other)}, keeps its checkpoints in the same folder (${spec.command.checkpointDir}), so each job could overwrite the checkpoints of the other`,
    cost: null,
    remedy: 'Give the job another name or folder, or share the folder on purpose with job.checkpoint_shared: true.',
  };
}

/** The warning about a folder that is shared on purpose, while another unfinished job uses it; null when none does. */
export async function sharedCheckpoints(store: Pick<Store, 'list'>, spec: JobSpec): Promise<string | null> {
  if (spec.command.checkpoints !== 'shared') return null;
  const others = await usersOf(store, spec, null);
  if (others.length === 0) return null;
  const named = others.slice(0, 3).map((one) => `job ${one.id} (${one.spec.name}), which is ${phaseOf(one)}`);
  const more = others.length > named.length ? ` and ${others.length - named.length} more` : '';
  return `the checkpoint folder ${spec.command.checkpointDir} is also used by ${named.join(', ')}${more}: each job may resume from a checkpoint of another (job.checkpoint_shared)`;
}

async function usersOf(store: Pick<Store, 'list'>, spec: JobSpec, job: Job | null): Promise<readonly Job[]> {
  const { checkpointStorage: storage } = spec.command;
  if (storage === undefined) return [];
  return unfinishedOthers(store, job, (other) => other.command.checkpointStorage === storage);
}

/** The spec with the folder of the job that `job.resume_from` names. Throws JobmanError when it has none. */
export async function withResumeFrom(store: Store, spec: JobSpec, owner: string, now: Instant): Promise<JobSpec> {
  const { resumeFrom } = spec.command;
  if (resumeFrom?.kind !== 'job') return spec;
  const { job: source } = await resolve(store, resumeFrom.job, owner, now);
  const it = `job ${source.id} (${source.spec.name})`;
  const newest = source.attempts.findLast(({ startedAt }) => startedAt !== null);
  const path = newest === undefined ? source.spec.command.checkpointDir : checkpointFolder(source, newest);
  if (path === null)
    throw new JobmanError(
      `The job cannot begin from ${it}, whose manifest names no job.checkpoint_dir. Name a path as job.resume_from.`,
      exitCode.usage,
    );
  if (isOnThisMachine(source.spec) !== isOnThisMachine(spec) && !path.includes('://'))
    throw new JobmanError(
      `The job cannot begin from ${it}: its checkpoints are ${isOnThisMachine(source.spec) ? 'on this machine' : 'on TPU workers'}. Copy them and name the path as job.resume_from.`,
      exitCode.usage,
    );
  return { ...spec, command: { ...spec.command, resumeFrom: { kind: 'folder', path, job: source.id } } };
}

function isOnThisMachine({ capacity, command }: JobSpec): boolean {
  return capacity.kind === 'local' || command.place === 'here';
}

// ------------------------------------------------------------------------------------------ standing TPUs

// Two programs cannot hold one TPU's chips, and the second one ends with an error that names neither.

export async function usedByOthers(store: Pick<Store, 'list'>, spec: JobSpec, job: Job | null): Promise<Beyond | null> {
  const wanted = standing(spec);
  if (wanted === null) return null;
  const [other] = await unfinishedOthers(store, job, (one) => isSame(standing(one), wanted));
  if (other === undefined) return null;
  const said = `the TPU ${wanted.name} is used by job ${other.id} (${other.spec.name}) of ${other.owner}, which is ${phaseOf(other)}`;
  return { sentence: said, cost: null, remedy: `\`jobman wait ${other.id}\` tells when it is free.` };
}

async function unfinishedOthers(
  store: Pick<Store, 'list'>,
  job: Job | null,
  fits: (spec: JobSpec) => boolean,
): Promise<readonly Job[]> {
  const { jobs } = await store.list({ settledMost: 0, withRemoved: false });
  return jobs.filter((one) => one.id !== job?.id && one.settled === null && fits(one.spec));
}

function standing({ capacity }: JobSpec): TpuSpec | null {
  return capacity.kind === 'tpu' && capacity.ownership === 'standing' ? capacity : null;
}

function isSame(one: TpuSpec | null, other: TpuSpec): boolean {
  return one?.project === other.project && one.zone === other.zone && one.name === other.name;
}
