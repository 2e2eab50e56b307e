// Secrets: the named secrets of an actor, and those that a job needs. No value is ever returned to a client.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Job } from '../core/model/job.ts';
import { secretNamePattern, secretNamesOf, secretRefsOf, type JobSpec, type SecretName } from '../core/model/spec.ts';
import type { Actor, UserName } from '../core/model/user.ts';
import { permissions } from '../core/policy/permissions.ts';
import { auditEntry, type AuditObject } from './audit.ts';
import type { CreateRequest, SecretView } from './client.ts';
import { exitCode, JobmanError, reworded, usageError } from './errors.ts';
import { formatList } from './format.ts';
import type { SecretRows, SecretStore } from './ports.ts';
import { forbiddenError, requirePermission } from './require-permission.ts';
import type { ClientParts } from './store-client.ts';

type SecretParts = Pick<ClientParts, 'store' | 'secrets' | 'jobFolders' | 'access' | 'now'>;

/** Enough for a key or a token, and below the limit of one variable of a process (128 KiB on Linux). */
export const maxSecretBytes = 48 * 1024;

export async function listSecrets(parts: SecretParts, actor: Actor): Promise<readonly SecretView[]> {
  requireSecrets(actor);
  const [stored, jobs] = await Promise.all([
    parts.secrets().then((secrets) => secrets.list(actor.user)),
    jobsWithSecrets(parts, actor.user),
  ]);
  return stored.map((one) => ({ ...one, usedBy: idsUsing(jobs, one.name) }));
}

export async function setSecret(
  parts: SecretParts,
  actor: Actor,
  name: SecretName,
  value: Uint8Array,
): Promise<'added' | 'replaced'> {
  requireSecrets(actor);
  requireSecretName(name);
  checkedValue(name, value);
  const secrets = await parts.secrets();
  const isNew = (await secrets.list(actor.user)).every((one) => one.name !== name);
  (await parts.jobFolders()).makeHome();
  await parts.access.record(auditEntry(actor, parts.now(), 'set-secret', secretObject(name)));
  await secrets.put(actor.user, name, value);
  return isNew ? 'added' : 'replaced';
}

/** Throws JobmanError: 3 if the job has no such secret, 4 for the job of another user. */
export async function replaceJobSecret(
  { secrets, access, now }: Pick<ClientParts, 'secrets' | 'access' | 'now'>,
  actor: Actor,
  job: Job,
  name: SecretName,
  value: Uint8Array,
): Promise<void> {
  requirePermission(job, 'secrets', actor);
  const known = secretNamesOf(job.spec, 'job');
  if (!known.includes(name))
    throw new JobmanError(
      `Job ${job.id} (${job.spec.name}) has no secret ${name} of its own.${otherSecrets(name, known)}`,
      exitCode.notFound,
    );
  const checked = checkedValue(name, value);
  const object = { kind: 'job', id: job.id } as const;
  await access.record(auditEntry(actor, now(), 'replace-job-secret', object, { detail: { secret: name } }));
  await (await secrets()).putOfJob(job, name, checked);
}

export function checkedValue(name: SecretName, value: Uint8Array): Uint8Array {
  if (value.length === 0) throw usageError(`The value of the secret ${name} is empty.`);
  if (value.length > maxSecretBytes)
    throw usageError(`The value of the secret ${name} is longer than ${maxSecretBytes / 1024} KiB.`);
  if (value.includes(0))
    throw usageError(`The value of the secret ${name} has a NUL byte, which no environment variable can contain.`);
  return value;
}

function secretObject(name: SecretName): AuditObject {
  return { kind: 'secret', id: name };
}

/** Throws JobmanError (2). */
export function requireSecretName(name: string): void {
  if (secretNamePattern.test(name)) return;
  throw usageError(
    `${JSON.stringify(name)} is not a name of a secret: letters, digits, _, . and -, at most 128, beginning with a letter, a digit or _.`,
  );
}

export async function deleteSecret(parts: SecretParts, actor: Actor, name: SecretName): Promise<void> {
  requireSecrets(actor);
  requireSecretName(name);
  const secrets = await parts.secrets();
  const known = await namesOf(secrets, actor.user);
  if (!known.includes(name)) throw new JobmanError(missingSecretMessage(name, known), exitCode.notFound);
  const isNeeded = (spec: JobSpec): boolean => secretNamesOf(spec, 'named').includes(name);
  const remove = async (rows: SecretRows): Promise<void> =>
    void (await (await parts.secrets(rows)).remove(actor.user, name));
  const audit = auditEntry(actor, parts.now(), 'delete-secret', secretObject(name));
  const needing = await parts.store.unlessNeeded(actor.user, isNeeded, remove, audit);
  if (needing.length > 0)
    throw new JobmanError(
      `The secret ${name} is needed by ${needing.length === 1 ? 'job' : 'jobs'} ${formatList(needing)}. It was not deleted.`,
      exitCode.conflict,
      [`To replace its value: jobman secret set ${name}`],
    );
}

/** Refuses a job whose named secrets are missing, or belong to another user than the actor. Throws JobmanError (2, 4). */
export async function requireJobSecrets(
  { secrets }: Pick<ClientParts, 'secrets'>,
  actor: Actor,
  job: { readonly owner: UserName; readonly spec: JobSpec },
  rows?: SecretRows,
): Promise<void> {
  const needed = secretNamesOf(job.spec, 'named');
  if (needed.length === 0) return;
  requirePermission(job, 'secrets', actor);
  const known = await namesOf(await secrets(rows), job.owner);
  const missing = needed.filter((name) => !known.includes(name));
  if (missing.length === 0) return;
  const messages = missing.map((name) => missingSecretMessage(name, known));
  throw usageError(
    messages.join(' '),
    missing.map((name) => `jobman secret set ${name}    stores it`),
  );
}

/** The values of a new job's own secrets. Throws JobmanError (2) without one of them. */
export function jobSecretValues(
  spec: JobSpec,
  values: NonNullable<CreateRequest['secrets']>,
): Readonly<Record<SecretName, Uint8Array>> {
  const given = secretNamesOf(spec, 'job').map((name) => {
    const value = values[name];
    if (value === undefined) throw usageError(`Nothing was created: the value of the secret ${name} was not sent.`);
    return [name, checkedValue(name, Buffer.from(value, 'base64'))] as const;
  });
  return Object.fromEntries(given);
}

/** Refuses to start a job whose secrets are missing: its program would fail later, on the worker. */
export async function requireSecretsAtStart(
  { secrets }: Pick<ClientParts, 'secrets'>,
  job: Job,
  rows?: SecretRows,
): Promise<void> {
  const refs = secretRefsOf(job.spec).filter(({ kind }) => kind === 'named' || kind === 'job');
  if (refs.length === 0) return;
  const store = await secrets(rows);
  for (const ref of refs) {
    try {
      await store.require(job, ref);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      throw reworded(error, { message: `Job ${job.id} was not started: ${error.message}` });
    }
  }
}

function missingSecretMessage(name: SecretName, known: readonly SecretName[]): string {
  return `There is no secret ${name}.${otherSecrets(name, known)}`;
}

function otherSecrets(name: SecretName, known: readonly SecretName[]): string {
  const near = didYouMean(name, known);
  if (near !== undefined) return ` Did you mean ${near}?`;
  return known.length === 0
    ? ' There is none yet.'
    : ` There ${known.length === 1 ? 'is' : 'are'} ${formatList(known)}.`;
}

async function namesOf(secrets: SecretStore, owner: UserName): Promise<readonly SecretName[]> {
  return (await secrets.list(owner)).map(({ name }) => name);
}

function requireSecrets({ role }: Actor): void {
  if (permissions.secrets[role].own !== 'allow') throw forbiddenError(`your role is ${role}, which has no secrets`);
}

/** The unfinished jobs of the owner with their named secrets. */
async function jobsWithSecrets({ store }: SecretParts, owner: UserName) {
  const { jobs } = await store.list({ owners: [owner], maxFinished: 0 });
  // A list has no setup steps.
  const stored = await store.loadMany(jobs.map(({ id }) => id));
  return stored.map(({ job }) => ({ id: job.id, names: secretNamesOf(job.spec, 'named') }));
}

function idsUsing(jobs: Awaited<ReturnType<typeof jobsWithSecrets>>, name: SecretName): readonly string[] {
  return jobs.filter(({ names }) => names.includes(name)).map(({ id }) => id);
}
