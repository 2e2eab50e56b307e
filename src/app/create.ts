// Create: from a checked manifest to a stored job.

import { randomUUID } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Event } from '../core/model/event.ts';
import type { Job } from '../core/model/job.ts';
import type { JobSpec } from '../core/model/spec.ts';
import { ownNames, type Actor } from '../core/model/user.ts';
import { checkRequest, warningsFor, withPrice, withResumeFrom } from './confirmation.ts';
import type { CreateAnswer, CreateRequest } from './client.ts';
import { exitCode, JobmanError, StoreError, fileError } from './errors.ts';
import { describeEvent } from './history.ts';
import { folderOf, jobFolder, manifestFile, secretFile } from './job-folder.ts';
import type { ClientParts } from './store-client.ts';
import { fileModeIn, makeFolder, makeHome } from './files.ts';
import type { StoredJob } from './ports.ts';
import { requirePermission } from './require-permission.ts';
import { jobRow } from './views.ts';
import { workdirFolder, workdirsOf } from './workdir.ts';

/**
 * Checks the guards before it copies anything, and again in the transaction. Writes the snapshot before the job, so that
 * a full disk fails before anything is stored.
 */
export async function createJob(parts: ClientParts, actor: Actor, request: CreateRequest): Promise<CreateAnswer> {
  const { store, home, now } = parts;
  const { manifest, onBehalfOf } = request;
  const [owner, by] = [onBehalfOf ?? actor.user, actor.user];
  requirePermission({ owner, spec: request.spec }, 'create', actor, onBehalfOf);
  // Check first: a refused home stays unchanged, and a job that no controller could run is not stored.
  makeHome(home);
  await parts.isControllerRunning();
  await parts.prepareCloud?.(request.spec);
  const owners = owner === actor.user ? ownNames(actor) : [owner];
  const spec = await withResumeFrom(store, await withPrice(parts, request.spec), owners, now());
  const guarded = { owner, spec, job: null };
  let check = await checkRequest(parts, guarded, request.confirmed);
  if (check.confirmation !== null) return { kind: 'confirmation_required', confirmation: check.confirmation };
  const draft = jobFolder(home, owner, `.new-${randomUUID()}`);
  let stored: StoredJob;
  try {
    makeFolder(draft);
    await writeFile(manifestFile(draft), manifest, { mode: fileModeIn(draft) });
    if (spec.workdir !== undefined) await parts.freeze(spec.workdir.from, workdirFolder(draft, 1));
    await storeSecrets(draft, spec, request.env ?? {});
    const { lab } = request;
    const job = { owner, by, spec, manifest, ...(lab !== undefined && { lab }) };
    for (;;) {
      const inserted = await store.insertGuarded({ ...job, at: now() }, check.guard);
      if (inserted !== 'unconfirmed') {
        stored = inserted;
        break;
      }
      check = await checkRequest(parts, guarded, request.confirmed);
      if (check.confirmation === null) continue;
      await rm(draft, { recursive: true, force: true });
      return { kind: 'confirmation_required', confirmation: check.confirmation };
    }
  } catch (error) {
    // An unwritable disk may refuse the removal too.
    await rm(draft, { recursive: true, force: true }).catch(() => undefined);
    throw error instanceof JobmanError ? error : fileError(dirname(draft), error);
  }
  const { job } = stored;
  await writeCopies(parts.logFiles, job, by, draft, folderOf(home, job));
  await store.notify({ topic: 'job', id: job.id });
  return { kind: 'created', id: job.id, row: jobRow(job, now()), warnings: warningsFor(guarded, check, now()) };
}

/** Stored for the owner only: a resume may come days later, from a controller with another environment. */
async function storeSecrets(folder: string, spec: JobSpec, env: NonNullable<CreateRequest['env']>): Promise<void> {
  for (const [name, source] of Object.entries(spec.command.secrets ?? {})) {
    if (source.kind !== 'environment') continue;
    const value = env[source.variable];
    if (value === undefined)
      throw new JobmanError(
        `The secret ${name} needs the environment variable ${source.variable}, which is not set.`,
        exitCode.usage,
      );
    const file = secretFile(folder, name);
    makeFolder(dirname(file));
    await writeFile(file, value, { mode: 0o600 });
  }
}

/** The job exists by now: the controller rewrites its copies with the next event. */
async function writeCopies(
  logFiles: ClientParts['logFiles'],
  job: Job,
  by: string,
  draft: string,
  folder: string,
): Promise<void> {
  try {
    await moveDraft(draft, folder);
    const created: Event = { kind: 'created', at: job.createdAt, by };
    await logFiles.note(job, 'job', created.at, describeEvent(created, job));
    await logFiles.mirror(job, [created]);
  } catch (error) {
    if (!(fileError(folder, error) instanceof StoreError)) throw error;
  }
}

/** If the controller has already created the job's folder, the snapshot moves into it. */
async function moveDraft(draft: string, folder: string): Promise<void> {
  try {
    await rename(draft, folder);
  } catch {
    await rename(manifestFile(draft), manifestFile(folder));
    await rename(dirname(secretFile(draft, '')), dirname(secretFile(folder, ''))).catch(() => undefined);
    await rename(workdirsOf(draft), workdirsOf(folder)).catch(() => undefined);
    await rm(draft, { recursive: true, force: true });
  }
}
