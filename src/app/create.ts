// Create: from a checked manifest to a job that exists.

import { randomUUID } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Event } from '../core/decision.ts';
import type { Job } from '../core/job.ts';
import { capacityAt, type JobSpec } from '../core/spec.ts';
import { sharedCheckpoints, withResumeFrom } from './confirmation.ts';
import type { Created, CreateRequest } from './client.ts';
import { exitCode, JobmanError, StoreError, fileError } from './errors.ts';
import { eventSentence } from './history.ts';
import { folderOf, jobFolder, manifestFile, secretFile } from './job-folder.ts';
import type { ClientParts } from './jobman.ts';
import { fileModeIn, makeFolder, makeHome } from './files.ts';
import type { Stored } from './ports.ts';
import { jobRow } from './views.ts';
import { workdirFolder, workdirsOf } from './workdir.ts';

/** Stores the job and its snapshot, the snapshot first, so that a full disk stops it before anything is stored. */
export async function createJob(parts: ClientParts, request: CreateRequest): Promise<Created> {
  const { store, home, now, hint } = parts;
  const { owner, manifest, by = owner } = request;
  // Before anything is written: a home that is refused stays as it is, and a job that no controller could run is not stored.
  makeHome(home);
  await parts.expectController?.();
  const spec = await withResumeFrom(store, await withPrice(parts, request.spec), owner, now());
  const shared = await sharedCheckpoints(store, spec);
  const draft = jobFolder(home, owner, `.new-${randomUUID()}`);
  let stored: Stored;
  try {
    makeFolder(draft);
    await writeFile(manifestFile(draft), manifest, { mode: fileModeIn(draft) });
    if (spec.workdir !== undefined) await parts.freeze(spec.workdir.from, workdirFolder(draft, 1));
    await keepSecrets(draft, spec, request.env ?? {});
    stored = await store.insert({ owner, by, spec, manifest, at: now() });
  } catch (error) {
    // A disk that could not be written may refuse the removal too.
    await rm(draft, { recursive: true, force: true }).catch(() => undefined);
    throw error instanceof JobmanError ? error : fileError(dirname(draft), error);
  }
  const { job } = stored;
  await writeCopies(parts.logFiles, job, by, draft, folderOf(home, job));
  await hint(job.id);
  return { id: job.id, row: jobRow(job, now()), warnings: shared === null ? [] : [shared] };
}

/** A resume may come days later, from a controller that has another environment: the values are kept, for their owner only. */
async function keepSecrets(folder: string, spec: JobSpec, env: NonNullable<CreateRequest['env']>): Promise<void> {
  for (const [name, source] of Object.entries(spec.command.secrets ?? {})) {
    if (source.kind !== 'environment') continue;
    const value = env[source.variable];
    if (value === undefined)
      throw new JobmanError(
        `The secret ${name} is to come from the variable ${source.variable}, which is not set.`,
        exitCode.usage,
      );
    const file = secretFile(folder, name);
    makeFolder(dirname(file));
    await writeFile(file, value, { mode: 0o600 });
  }
}

/** The job exists by now: the controller writes its copies again with the next event. */
async function writeCopies(
  logFiles: ClientParts['logFiles'],
  job: Job,
  by: string,
  draft: string,
  folder: string,
): Promise<void> {
  try {
    await moveInto(draft, folder);
    const created: Event = { kind: 'created', at: job.createdAt, by };
    await logFiles.note(job, 'job', created.at, eventSentence(created, job));
    await logFiles.mirror(job, [created]);
  } catch (error) {
    if (!(fileError(folder, error) instanceof StoreError)) throw error;
  }
}

/** A controller that was quicker has made the job's folder already; then the snapshot joins what is there. */
async function moveInto(draft: string, folder: string): Promise<void> {
  try {
    await rename(draft, folder);
  } catch {
    await rename(manifestFile(draft), manifestFile(folder));
    await rename(dirname(secretFile(draft, '')), dirname(secretFile(folder, ''))).catch(() => undefined);
    await rename(workdirsOf(draft), workdirsOf(folder)).catch(() => undefined);
    await rm(draft, { recursive: true, force: true });
  }
}

async function withPrice(parts: ClientParts, spec: JobSpec): Promise<JobSpec> {
  if (spec.capacity.kind !== 'tpu') return spec;
  const { capacity } = spec;
  const priceAt = (place: number): Promise<number | null> | number | null =>
    parts.pricePerHour({ ...spec, capacity: capacityAt(capacity, place) });
  const alternatives = await Promise.all(
    (capacity.alternatives ?? []).map(async (place, index) => ({ ...place, pricePerHour: await priceAt(index + 1) })),
  );
  return {
    ...spec,
    capacity: {
      ...capacity,
      pricePerHour: await priceAt(0),
      ...(alternatives.length === 0 ? {} : { alternatives }),
    },
  };
}
