// Refs: finds the job that a user names.

import type { Job } from '../core/model/job.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Ref } from './client.ts';
import { exitCode, JobmanError } from './errors.ts';
import { formatAge } from './format.ts';
import type { Store, StoredJob } from './ports.ts';
import type { Instant } from '../core/model/time.ts';

function idOfRef(ref: Ref): string | undefined {
  return /^\d{1,6}$/.test(ref) && Number(ref) > 0 ? ref.padStart(6, '0') : undefined;
}

/** By id or name. Of several jobs with one name: the owner's, then the unfinished one. Throws JobmanError (3, 4). */
export async function resolve(store: Store, ref: Ref, owner: string, now: Instant): Promise<StoredJob> {
  const id = idOfRef(ref) ?? (await idOfName(store, ref, owner, now));
  const stored = await store.load(id);
  if (stored === undefined) {
    throw new JobmanError(`There is no job ${id}. List all: jobman list --all`, exitCode.notFound);
  }
  return stored;
}

async function idOfName(store: Store, name: string, owner: string, now: Instant): Promise<string> {
  const { jobs } = await store.list({ names: [name], maxFinished: null });
  const [first, ...others] = narrowed(
    narrowed(jobs, (job) => job.owner === owner),
    (job) => job.finish === null,
  );
  if (first === undefined) throw await unknownName(store, name);
  if (others.length === 0) return first.id;
  // Newest id first, regardless of the end: users most often mean the newest job.
  const all = [first, ...others].toSorted((one, other) => Number(other.id) - Number(one.id));
  const ids = all.map((job) => job.id).join(', ');
  throw new JobmanError(
    `The name "${name}" stands for ${all.length} jobs: ${ids}. Say which one by its id.`,
    exitCode.conflict,
    all.map((job) => `${job.id}  ${job.owner}, created ${formatAge(now - job.createdAt)} ago`),
  );
}

function narrowed(jobs: readonly Job[], claim: (job: Job) => boolean): readonly Job[] {
  const some = jobs.filter(claim);
  return some.length > 0 ? some : jobs;
}

export function manifestHint(name: string): readonly string[] {
  return /\.ya?ml$/i.test(name) ? [`jobman create ${name}    creates a job from a manifest`] : [];
}

async function unknownName(store: Store, name: string): Promise<JobmanError> {
  const { jobs } = await store.list({ maxFinished: 50 });
  const manifest = manifestHint(name);
  if (manifest.length > 0) return new JobmanError(`There is no job called "${name}".`, exitCode.notFound, manifest);
  const suggestion = didYouMean(name, [...new Set(jobs.map((job) => job.spec.name))]);
  const hint = suggestion === undefined ? 'List all: jobman list --all' : `Did you mean ${suggestion}?`;
  return new JobmanError(`There is no job called "${name}". ${hint}`, exitCode.notFound);
}
