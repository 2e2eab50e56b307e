// Create: from a checked manifest to a stored job.

import { digestOf } from '../catalogue/digest.ts';
import type { Event } from '../core/model/event.ts';
import type { Job } from '../core/model/job.ts';
import { ownHost, programHostsOf, type JobSpec } from '../core/model/spec.ts';
import { nameInHistory, ownNames, type Actor } from '../core/model/user.ts';
import { auditEntry } from './audit.ts';
import { loginEffects } from './controller-login.ts';
import { checkRequest, warningsFor, withPrice, withResumeFrom } from './confirmation.ts';
import { maxManifestBytes } from '../manifest/parse.ts';
import { specProblems } from '../manifest/spec-problems.ts';
import type { CreateAnswer, CreateRequest } from './client.ts';
import { endRequests, reportEnds } from './commit-command.ts';
import { exitCode, JobmanError, StoreError, usageError } from './errors.ts';
import { noShell } from './hosts.ts';
import { channelsOf } from './notifications/recipients.ts';
import { pluralize } from './format.ts';
import { ownBlobs, type OwnBlobs } from './own-blobs.ts';
import { describeEvent } from './history.ts';
import type { ClientParts } from './store-client.ts';
import type { CreationKey, JobDraft, SecretRows, StoredJob } from './ports.ts';
import { requireAdoption, requirePermission } from './require-permission.ts';
import { jobSecretValues, requireJobSecrets } from './secrets.ts';
import { jobRow } from './views.ts';
import { requireUploaded } from './workdir.ts';

/**
 * Checks the guards before it writes anything, and again in the transaction. Writes the snapshot before the job, so that
 * a full disk fails before anything is stored.
 */
export async function createJob(parts: ClientParts, actor: Actor, request: CreateRequest): Promise<CreateAnswer> {
  const { store, now } = parts;
  const { manifest, onBehalfOf } = request;
  const [owner, by] = [onBehalfOf ?? actor.user, nameInHistory(actor)];
  requirePermission({ owner, spec: request.spec }, 'create', actor, onBehalfOf);
  const key = creationKeyOf(actor, request);
  // First, because the job that it created may be a reason against another one.
  const repeated = key === null ? null : await findRepeated(parts, key);
  if (repeated !== null) return repeated;
  if (Buffer.byteLength(manifest) > maxManifestBytes)
    throw usageError('Nothing was created: a manifest has at most 1 MiB.');
  await requireValidSpec(parts, request.spec);
  await requireAdoption(store, actor, request.spec.capacity);
  const checkSecrets = (rows?: SecretRows) => requireJobSecrets(parts, actor, { owner, spec: request.spec }, rows);
  await checkSecrets();
  // Check first: a refused home stays unchanged, and a job that no controller could run is not stored.
  const folders = await parts.jobFolders();
  folders.makeHome();
  await parts.isControllerRunning();
  await parts.prepareCloud?.(request.spec);
  const owners = owner === actor.user ? ownNames(actor) : [owner];
  const { workdir } = request;
  const requested = { ...request.spec, ...(workdir !== undefined && { workdir: { tree: workdir.tree } }) };
  const spec = await withResumeFrom(store, await withPrice(parts, requested), owners, now());
  const guarded = { owner, spec, job: null };
  const { confirmed, replaces = [] } = request;
  const text = JSON.stringify([by, 'create', request.spec, replaces]);
  const toConfirm = { text, replaces, ...(confirmed !== undefined && { confirmed }) };
  let check = await checkRequest(parts, guarded, toConfirm);
  if (check.confirmation !== null) return { kind: 'confirmation_required', confirmation: check.confirmation };
  const blobs = ownBlobs(parts, actor);
  await requireBlobs(blobs, spec);
  if (spec.workdir !== undefined && workdir === undefined)
    throw usageError('Nothing was created: the files of job.workdir were not sent.');
  const values = jobSecretValues(spec, request.secrets ?? {});
  const sealed = Object.keys(values).length === 0 ? null : (await parts.secrets()).sealForJob(owner, values);
  const draft = await folders.draft(owner, {
    manifest,
    secrets: sealed === null ? values : {},
    workdir: workdir === undefined ? null : await requireUploaded(blobs, workdir),
  });
  let stored: StoredJob;
  try {
    const { lab } = request;
    // Again in the transaction, because a secret may be deleted meanwhile.
    const job = {
      owner,
      by,
      spec,
      manifest,
      check: checkSecrets,
      ...(lab !== undefined && { lab }),
      ...(key !== null && { key }),
      ...(sealed !== null && { sealed }),
    };
    const detail = { name: spec.name, owner };
    const audit = auditEntry(actor, now(), 'create', null, { detail });
    for (;;) {
      const ends = await endRequests(parts, actor, replaces);
      const inserted = await store.insertGuarded({ ...job, audit, ends, at: now() }, check.guard);
      if (inserted !== 'unconfirmed') {
        stored = inserted;
        await reportEnds(parts, ends);
        break;
      }
      check = await checkRequest(parts, guarded, toConfirm);
      const { confirmation } = check;
      // The same request at the same time may have been stored first.
      const answer: CreateAnswer | null =
        (key === null ? null : await findRepeated(parts, key)) ??
        (confirmation === null ? null : { kind: 'confirmation_required', confirmation });
      if (answer === null) continue;
      await draft.discard();
      return answer;
    }
  } catch (error) {
    await draft.discard();
    throw error;
  }
  const { job } = stored;
  await writeCopies(parts.logFiles, job, by, draft);
  await store.notify({ topic: 'job', id: job.id });
  const warnings = [
    ...warningsFor(guarded, check, now()),
    ...loginEffects(spec, await parts.controllerLogin().catch(() => null)),
  ];
  return { kind: 'created', id: job.id, row: jobRow(job, now()), warnings };
}

/** Throws JobmanError (2) for a text that cannot be an idempotency key. */
export function requireIdempotencyKey(key: string): void {
  if (!/^[\u0021-\u007e]{1,255}$/.test(key))
    throw usageError('An idempotency key has 1 to 255 characters of ASCII, without spaces.');
}

/** Throws JobmanError (2) for a key that cannot be one. */
function creationKeyOf({ user: actor }: Actor, request: CreateRequest): CreationKey | null {
  const { idempotencyKey: key, spec, manifest, onBehalfOf, replaces, workdir, secrets = {}, lab } = request;
  if (key === undefined) return null;
  requireIdempotencyKey(key);
  const parts = [spec, manifest, onBehalfOf, replaces, workdir?.tree, Object.keys(secrets), lab];
  return { actor, key, digest: digestOf(Buffer.from(JSON.stringify(parts))) };
}

/** The answer of the request that was stored with the key. Throws JobmanError (4) if that was another request. */
async function findRepeated({ store, now }: ClientParts, key: CreationKey): Promise<CreateAnswer | null> {
  const found = await store.createdWith(key, now());
  if (found === null) return null;
  const { id, digest } = found;
  const conflict = (why: string): JobmanError => new JobmanError(`Nothing was created: ${why}.`, exitCode.conflict);
  if (digest !== key.digest) throw conflict(`another request with this idempotency key created job ${id}`);
  const stored = await store.load(id);
  if (stored === undefined) throw conflict(`job ${id}, which this request created, is not in the database any more`);
  return { kind: 'created', id, row: jobRow(stored.job, now()), warnings: [] };
}

/** More than any manifest needs: each of at most 500 files takes some 500 characters. */
const maxSpecCharacters = 2 * maxManifestBytes;

/**
 * Throws JobmanError (2) with every problem of a spec that no manifest could have given, and for one that the machine of the
 * controller cannot run.
 */
export async function requireValidSpec(
  { pools, channels, hasShell }: Pick<ClientParts, 'pools' | 'channels' | 'hasShell'>,
  spec: JobSpec,
): Promise<void> {
  const { version }: { readonly version: number } = spec;
  // Lists and passes read the specs of all their jobs.
  if (JSON.stringify(spec).length > maxSpecCharacters)
    throw usageError('Nothing was created: the spec has more than 2 MiB.', [
      'Put large texts into files, and name the files in job.files or job.workdir.',
    ]);
  // A program of a later version may be the client of this one.
  if (version !== 2) throw usageError(`This jobman creates jobs from specs of version 2, and not ${version}.`);
  if (hasShell?.() === false && programHostsOf(spec).includes(ownHost))
    throw usageError(`Nothing was created: ${noShell}.`, [
      'Use a TPU, a cluster, or another machine: jobman hosts add NAME --ssh ADDRESS',
    ]);
  const hosts = (await pools()).map(({ name }) => name);
  const known = spec.notify?.to === undefined ? undefined : channelsOf((await channels()).settings);
  const problems = specProblems(spec, hosts, known);
  if (problems.length === 0) return;
  const count = pluralize(problems.length, 'problem');
  throw new JobmanError(`Nothing was created: the spec has ${count}.`, exitCode.usage, problems, {
    errorCode: 'invalid_manifest',
  });
}

/** They stay for a day, and as long as a job needs them. */
async function requireBlobs(blobs: OwnBlobs, { steps }: JobSpec): Promise<void> {
  const files = steps.flatMap((step) => step.files).filter((file) => file.kind === 'blob');
  if (files.length === 0) return;
  const stored = new Set(await blobs.has(files.map(({ blob }) => blob)));
  const missing = files.find(({ blob }) => !stored.has(blob));
  if (missing !== undefined)
    throw usageError(`Nothing was created: the content of ${missing.to} (${missing.blob}) was not sent by this user.`);
}

/** The job exists by now: the controller rewrites its copies with the next event. */
async function writeCopies(logFiles: ClientParts['logFiles'], job: Job, by: string, draft: JobDraft): Promise<void> {
  try {
    await draft.moveTo(job);
    const created: Event = { kind: 'created', at: job.createdAt, by };
    await logFiles.note(job, 'job', created.at, describeEvent(created, job));
    await logFiles.mirror(job, [created]);
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
  }
}
