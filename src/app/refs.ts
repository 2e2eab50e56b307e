// Refs: finds the job that a user names.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import { isFinishedPhase, phaseOf } from '../core/decide/phase.ts';
import type { Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import type { UserName } from '../core/model/user.ts';
import type { Ref } from './client.ts';
import { exitCode, JobmanError, usageError } from './errors.ts';
import { formatAge, pluralize } from './format.ts';
import type { JobFilter, Store, StoredJob } from './ports.ts';

/** Of several jobs with one name, a command that only reads takes the newest, and any other the unfinished one. */
export type RefPurpose = 'read' | 'change';

/** True for one to six digits, which are an id and not a name. */
export function isIdRef(ref: Ref): boolean {
  return /^\d{1,6}$/.test(ref);
}

/** The six digits of an id. Throws JobmanError (2) for a name. */
export function idOfRef(ref: Ref): string {
  if (isIdRef(ref)) return ref.padStart(6, '0');
  throw usageError(`${JSON.stringify(ref)} is not the id of a job.`);
}

/** By id or name; `owners` as in `resolveName`. Throws JobmanError (3, 4). */
export async function resolve(
  store: Store,
  ref: Ref,
  owners: readonly UserName[],
  now: Instant,
  purpose: RefPurpose,
): Promise<StoredJob> {
  const id = isIdRef(ref) ? idOfRef(ref) : await resolveName(store, ref, owners, now, purpose);
  const stored = await store.load(id);
  if (stored === undefined) {
    throw new JobmanError(`There is no job ${id}. List all jobs: jobman list --all`, exitCode.notFound);
  }
  return stored;
}

/** The id of the job of that name. The jobs of `owners` come before those of other users. Throws JobmanError (3, 4). */
export async function resolveName(
  store: Store,
  name: string,
  owners: readonly UserName[],
  now: Instant,
  purpose: RefPurpose,
): Promise<string> {
  const { jobs } = await store.list({ name, maxFinished: null });
  const own = jobs.filter((job) => owners.includes(job.owner));
  const candidates = (own.length > 0 ? own : jobs).toSorted((one, other) => Number(other.id) - Number(one.id));
  const [newest, ...older] = candidates;
  if (newest === undefined) throw await unknownNameError(store, name);
  if (purpose === 'read' || older.length === 0) return newest.id;
  const unfinished = candidates.filter((job) => !isFinishedPhase(phaseOf(job)));
  const [only, ...others] = unfinished;
  if (only !== undefined && others.length === 0) return only.id;
  throw ambiguousNameError(name, unfinished.length > 0 ? unfinished : candidates, now);
}

/** The filter of a name, or of a pattern such as `vit-*`. */
export function nameFilter(name: string | undefined): Pick<JobFilter, 'name' | 'nameGlob'> {
  if (name === undefined) return {};
  return /[*?]/.test(name) ? { nameGlob: name } : { name };
}

const maxCandidates = 10;

function ambiguousNameError(name: string, candidates: readonly Job[], now: Instant): JobmanError {
  const unfinished = candidates.some((job) => !isFinishedPhase(phaseOf(job)));
  const lines = candidates
    .slice(0, maxCandidates)
    .map((job) => `${job.id}  ${phaseOf(job).padEnd(12)}  created ${formatAge(now - job.createdAt)} ago`);
  const more = candidates.length - lines.length;
  return new JobmanError(
    `${pluralize(candidates.length, unfinished ? 'unfinished job' : 'finished job')} named "${name}": give an id.`,
    exitCode.conflict,
    more > 0 ? [...lines, `and ${more} older: jobman list --all --name ${name}`] : lines,
  );
}

export function manifestHint(name: string): readonly string[] {
  return /\.ya?ml$/i.test(name) ? [`jobman create ${name}    creates a job from a manifest`] : [];
}

async function unknownNameError(store: Store, name: string): Promise<JobmanError> {
  const hint = manifestHint(name);
  if (hint.length > 0) return new JobmanError(`There is no job named "${name}".`, exitCode.notFound, hint);
  if (name === 'all') {
    const lines = ['Cancel all your jobs: jobman cancel --all', 'Several jobs: jobman stop 1 2'];
    return new JobmanError('There is no job named "all".', exitCode.notFound, lines);
  }
  if (name.includes(',')) {
    const apart = name.split(',').filter((one) => one.trim() !== '');
    const hint = `Separate several jobs by spaces: ${apart.map((one) => one.trim()).join(' ')}`;
    return new JobmanError(`There is no job named "${name}". ${hint}`, exitCode.notFound);
  }
  const { jobs } = await store.list({ maxFinished: 50 });
  const near = didYouMean(name, [...new Set(jobs.map((job) => job.spec.name))]);
  const next = near === undefined ? 'List all jobs: jobman list --all' : `Did you mean ${near}?`;
  return new JobmanError(`There is no job named "${name}". ${next}`, exitCode.notFound);
}
