// Checkpoints: the checkpoint folders of all jobs, and which of them no job needs. A folder is unneeded only if every fact
// about it is known; whatever is unknown counts as needed.

import { regionOf } from '../catalogue/zones.ts';
import { quote } from '../catalogue/shell.ts';
import { checkpointFolder } from '../core/decide/launch.ts';
import { phaseOf } from '../core/decide/phase.ts';
import { allocationOf, capacityOf, heldAllocations, type Attempt, type Job } from '../core/model/job.ts';
import { nodeNamePlaceholder, withBuckets, runsCommandHere } from '../core/model/spec.ts';
import { hour, type Duration, type Instant } from '../core/model/time.ts';
import type { ObjectCount } from './storage.ts';

/** A folder in a bucket, or on the machine of the controller. */
type FolderSource =
  | { readonly kind: 'bucket'; readonly bucket: string; readonly prefix: string }
  | { readonly kind: 'local'; readonly path: string };

export interface CheckpointFolder {
  readonly source: FolderSource;
  /** `gs://bucket/runs/000001-k3x9ab`, or an absolute path. */
  readonly address: string;
  /** The jobs that write there, newest first; several for a folder that the manifest names. */
  readonly jobs: readonly Job[];
  readonly sharing: 'own' | 'named' | 'shared';
  /** Null for a job that runs on this machine. */
  readonly project: string | null;
}

export interface CheckpointFolders {
  readonly folders: readonly CheckpointFolder[];
  /** Jobs whose folders cannot be listed from here: on the disk of a TPU, in other storage, or of an earlier version. */
  readonly unlisted: readonly Job[];
}

/** The folders that attempts of these jobs may have written to. */
export function checkpointFolders(jobs: readonly Job[]): CheckpointFolders {
  const folders = new Map<string, CheckpointFolder>();
  const unlisted = new Set<Job>();
  for (const job of jobs.toSorted((one, other) => (one.id < other.id ? 1 : -1))) {
    const { checkpoints: sharing = 'shared' } = job.spec.command;
    for (const attempt of job.attempts.filter(({ startedAt }) => startedAt !== null)) {
      const path = checkpointFolder(job, attempt);
      if (path === null) continue;
      const source = sourceOf(job, attempt, path);
      if (source === undefined) {
        unlisted.add(job);
        continue;
      }
      const address = addressOf(source);
      const known = folders.get(address);
      const { capacity } = job.spec;
      if (known?.jobs.includes(job) === true) continue;
      folders.set(address, {
        source,
        address,
        jobs: [...(known?.jobs ?? []), job],
        // If two jobs describe a folder differently, the more careful description counts.
        sharing: known === undefined || known.sharing === sharing ? sharing : 'shared',
        project: capacity.kind === 'tpu' ? capacity.project : (known?.project ?? null),
      });
    }
  }
  return { folders: [...folders.values()], unlisted: [...unlisted] };
}

function addressOf(source: FolderSource): string {
  return source.kind === 'local' ? source.path : `gs://${source.bucket}/${source.prefix.replace(/\/$/, '')}`;
}

/** Undefined if the folder cannot be listed from here. */
function sourceOf(job: Job, attempt: Attempt, path: string): FolderSource | undefined {
  const { command } = job.spec;
  const allocation = allocationOf(job, attempt.allocation);
  const resolve = (text: string): string => text.replaceAll(nodeNamePlaceholder, allocation.name);
  const folder = resolve(path);
  if (folder.includes('://')) return bucketSource(folder);
  if (runsCommandHere(job.spec))
    return folder.startsWith('/') ? { kind: 'local', path: folder.replace(/\/+$/, '') } : undefined;
  const { checkpointStorage: storage, checkpointDir } = command;
  if (storage === undefined || checkpointDir === null) return undefined;
  // A later start from the beginning appends a suffix to the folder of the first.
  const suffix = path.slice(checkpointDir.length);
  const { kind, ...rest } = capacityOf(job, allocation);
  const region = kind === 'tpu' && 'zone' in rest ? regionOf(rest.zone) : '';
  return bucketSource(resolve(withBuckets(storage, region)) + suffix);
}

/** Undefined for other storage, for the whole bucket, and while the bucket of the region is unknown. */
function bucketSource(address: string): FolderSource | undefined {
  const [, bucket = '', path = ''] = /^gs:\/\/([a-z\d][a-z\d._-]+)\/(.+?)\/*$/.exec(address) ?? [];
  return bucket === '' ? undefined : { kind: 'bucket', bucket, prefix: `${path}/` };
}

// ------------------------------------------------------------------------------------------ which are needed

/** The contents of a folder. `unreadable`: it may have entries that were not counted. */
export type FolderContents = { readonly count: ObjectCount } | { readonly unreadable: string };

/** A checkpoint folder of a job, or of several jobs. */
export interface CheckpointRow {
  /** Ids of the jobs, newest first. */
  readonly jobs: readonly string[];
  /** The name of the newest job. */
  readonly name: string;
  /** The owner of the newest job. */
  readonly owner: string;
  /** The phase of the newest job; `deleted` after it has left the list. */
  readonly phase: string;
  /** `gs://my-bucket/runs/000001-k3x9ab`, or an absolute path on this machine. */
  readonly folder: string;
  /** The size of all files; null if the folder could not be read. */
  readonly bytes: number | null;
  /** The number of files; null if the folder could not be read. */
  readonly files: number | null;
  /** The newest change of a file; null without files. */
  readonly newestAt: Instant | null;
  /** True if it was not read completely: `bytes` and `files` are lower limits. */
  readonly partial: boolean;
  /** False only if it is certain that no job of this installation needs it. */
  readonly needed: boolean;
  /** True if the folder could not be read completely, so that jobman assumes that it is needed. */
  readonly assumed: boolean;
  /** The reason, for people. */
  readonly message: string;
  /** The command that removes the folder; null for one that is needed, has no files or may not be named in a command. */
  readonly removeCommand: string | null;
}

/** A change so long after the end of the job comes from another program. */
const settlingTime: Duration = 1 * hour;

/**
 * One row for each folder, newest job first. `jobs` are all jobs of the installation, including deleted ones. `gcloudPrefix` is
 * the environment that gcloud needs for the bucket's server.
 */
export function checkpointRows(
  folders: readonly CheckpointFolder[],
  contents: ReadonlyMap<CheckpointFolder, FolderContents>,
  jobs: readonly Job[],
  gcloudPrefix: (folder: CheckpointFolder) => string,
): readonly CheckpointRow[] {
  const resuming = jobs.filter((job) => !isDone(job) && job.spec.command.resumeFrom !== undefined);
  const needs = new Map(folders.map((folder) => [folder, needOf(folder, contents.get(folder), resuming)] as const));
  return folders.map((folder) => {
    const content = contents.get(folder);
    const count = content !== undefined && 'count' in content ? content.count : null;
    const need = needs.get(folder) ?? overlapOf(folder, needs);
    const [job] = folder.jobs;
    return {
      jobs: folder.jobs.map(({ id }) => id),
      name: job?.spec.name ?? '',
      owner: job?.owner ?? '',
      phase: job === undefined ? '' : job.removed ? 'deleted' : phaseOf(job),
      folder: folder.address,
      bytes: count?.bytes ?? null,
      files: count?.objects ?? null,
      newestAt: count?.newestAt ?? null,
      partial: count?.isPartial ?? false,
      needed: need !== null,
      assumed: need?.assumed ?? false,
      message: need?.message ?? folder.jobs.map(describeDone).join(', '),
      removeCommand:
        need === null && count !== null && count.objects > 0 ? removeCommand(folder, gcloudPrefix(folder)) : null,
    };
  });
}

/** The reason why a folder counts as needed. `assumed`: it could not be read completely. */
interface Need {
  readonly message: string;
  readonly assumed: boolean;
}

/** Null if no job needs the folder. */
function needOf(folder: CheckpointFolder, contents: FolderContents | undefined, resuming: readonly Job[]): Need | null {
  const certain = knownNeedOf(folder, resuming);
  if (certain !== null) return { message: certain, assumed: false };
  if (contents === undefined || 'unreadable' in contents)
    return { message: `it could not be read: ${contents?.unreadable ?? 'interrupted'}`, assumed: true };
  const { isPartial, newestAt } = contents.count;
  if (isPartial) return { message: 'it was not read completely', assumed: true };
  const endedAt = Math.max(...folder.jobs.map(({ finish }) => finish?.at ?? 0));
  return newestAt !== null && newestAt > endedAt + settlingTime
    ? { message: 'it changed after the job had finished', assumed: false }
    : null;
}

/** The reason that follows from the jobs alone; null if there is none. */
function knownNeedOf({ jobs, sharing, address }: CheckpointFolder, resuming: readonly Job[]): string | null {
  const unfinished = jobs.find((job) => job.finish === null || job.startRequest !== null);
  if (unfinished !== undefined)
    return unfinished.removed
      ? `job ${unfinished.id} was deleted before it had ended`
      : `job ${unfinished.id} is ${phaseOf(unfinished)}`;
  const resumes = resuming.find((job) => mayResumeFrom(job, jobs, address));
  if (resumes !== undefined) return `job ${resumes.id} resumes from it (job.resume_from)`;
  if (sharing === 'shared') return 'jobs share it (job.checkpoint_shared)';
  if (sharing === 'named') return 'the manifest names it, so other programs may use it';
  const resumable = jobs.find((job) => !isDone(job));
  if (resumable !== undefined)
    return `job ${resumable.id} ${phaseOf(resumable) === 'failed' ? 'failed' : `was ${phaseOf(resumable)}`} and can be resumed`;
  const holder = jobs.find((job) => heldAllocations(job).length > 0);
  return holder === undefined ? null : `job ${holder.id} still holds capacity`;
}

/** Succeeded or deleted: nothing more is expected of it. */
function isDone(job: Job): boolean {
  return job.finish !== null && job.startRequest === null && (job.removed || job.finish.verdict === 'succeeded');
}

function describeDone(job: Job): string {
  return job.removed ? `job ${job.id} was deleted` : `job ${job.id} succeeded`;
}

/**
 * True unless it is certain that `job.resume_from` is elsewhere. A path on a worker may be in a mounted bucket, so only the
 * names are compared: one of the two must contain the last part of the other.
 */
function mayResumeFrom(job: Job, jobs: readonly Job[], address: string): boolean {
  const { resumeFrom } = job.spec.command;
  if (resumeFrom === undefined) return false;
  if (resumeFrom.kind === 'job') return true;
  if (resumeFrom.kind === 'folder' && jobs.some(({ id }) => id === resumeFrom.job)) return true;
  const [from, folder] = [partsOf(resumeFrom.path), partsOf(address)];
  return from.includes(folder.at(-1) ?? '') || folder.includes(from.at(-1) ?? '');
}

function partsOf(path: string): readonly string[] {
  return path.split('/').filter((part) => part !== '');
}

/** Removing a folder would also remove those inside it, and a needed folder may count everything inside it. */
function overlapOf({ address }: CheckpointFolder, needs: ReadonlyMap<CheckpointFolder, Need | null>): Need | null {
  for (const [other, need] of needs) {
    if (need === null || other.address === address) continue;
    if (other.address.startsWith(`${address}/`)) return { message: `${other.address} is inside it`, assumed: false };
    if (address.startsWith(`${other.address}/`)) return { message: `it is inside ${other.address}`, assumed: false };
  }
  return null;
}

/** gcloud expands wildcards and versions in an address, even in a quoted one. */
const unsafeAddress = /[*?[\]#]/;

function removeCommand({ source, address }: CheckpointFolder, gcloudPrefix: string): string | null {
  if (/\p{Cc}/u.test(address)) return null;
  if (source.kind === 'local') return `rm -r ${quote(address)}`;
  return unsafeAddress.test(address) ? null : `${gcloudPrefix}gcloud storage rm -r ${quote(address)}`;
}
