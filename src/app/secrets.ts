// Secrets: the named secrets of an actor, and those that a job needs. No value is ever returned to a client.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { Job } from '../core/model/job.ts';
import { namedSecretsOf, secretNamePattern, type JobSpec, type SecretName } from '../core/model/spec.ts';
import type { Actor, UserName } from '../core/model/user.ts';
import { permissions } from '../core/policy/permissions.ts';
import type { SecretView } from './client.ts';
import { exitCode, JobmanError, usageError } from './errors.ts';
import { formatList } from './format.ts';
import type { SecretStore } from './ports.ts';
import { forbiddenError, requirePermission } from './require-permission.ts';
import type { ClientParts } from './store-client.ts';

type SecretParts = Pick<ClientParts, 'store' | 'secrets' | 'jobFolders'>;

/** A key or a token has a few kilobytes. Also below the limit of one variable of a process (128 KiB on Linux). */
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
  if (value.length === 0) throw usageError(`The value of ${name} is empty. Nothing was changed.`);
  if (value.length > maxSecretBytes)
    throw usageError(`The value of ${name} is longer than ${maxSecretBytes / 1024} KiB. Nothing was changed.`);
  const secrets = await parts.secrets();
  const isNew = (await secrets.list(actor.user)).every((one) => one.name !== name);
  (await parts.jobFolders()).makeHome();
  await secrets.put(actor.user, name, value);
  return isNew ? 'added' : 'replaced';
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
  const secrets = await parts.secrets();
  const needing = idsUsing(await jobsWithSecrets(parts, actor.user), name);
  if (needing.length > 0)
    throw new JobmanError(
      `The secret ${name} is needed by ${needing.length === 1 ? 'job' : 'jobs'} ${formatList(needing)}. It was not deleted.`,
      exitCode.conflict,
      [`To replace its value: jobman secret set ${name}`],
    );
  if (await secrets.remove(actor.user, name)) return;
  throw new JobmanError(missingSecretMessage(name, await namesOf(secrets, actor.user)), exitCode.notFound);
}

/** Refuses a job whose secrets are missing, or belong to another user than the actor. Throws JobmanError (2, 4). */
export async function requireJobSecrets(
  { secrets }: Pick<ClientParts, 'secrets'>,
  actor: Actor,
  job: { readonly owner: UserName; readonly spec: JobSpec },
): Promise<void> {
  const needed = namedSecretsOf(job.spec);
  if (needed.length === 0) return;
  requirePermission(job, 'secrets', actor);
  await requireSecretsOf(await secrets(), job.owner, needed);
}

/** Throws JobmanError (2) with the commands that store the missing ones. */
async function requireSecretsOf(secrets: SecretStore, owner: UserName, needed: readonly SecretName[]): Promise<void> {
  const known = await namesOf(secrets, owner);
  const missing = needed.filter((name) => !known.includes(name));
  if (missing.length === 0) return;
  const messages = missing.map((name) => missingSecretMessage(name, known));
  throw usageError(
    messages.join(' '),
    missing.map((name) => `jobman secret set ${name}    stores it`),
  );
}

/** For a start of an existing job: its program would fail on the worker, after the wait for capacity. */
export async function requireSecretsAtStart(parts: Pick<ClientParts, 'secrets'>, { owner, spec }: Job): Promise<void> {
  const needed = namedSecretsOf(spec);
  if (needed.length > 0) await requireSecretsOf(await parts.secrets(), owner, needed);
}

function missingSecretMessage(name: SecretName, known: readonly SecretName[]): string {
  const near = didYouMean(name, known);
  const others =
    known.length === 0 ? ' There is none yet.' : ` There ${known.length === 1 ? 'is' : 'are'} ${formatList(known)}.`;
  return `There is no secret ${name}.${near === undefined ? others : ` Did you mean ${near}?`}`;
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
  return stored.map(({ job }) => ({ id: job.id, names: namedSecretsOf(job.spec) }));
}

function idsUsing(jobs: Awaited<ReturnType<typeof jobsWithSecrets>>, name: SecretName): readonly string[] {
  return jobs.filter(({ names }) => names.includes(name)).map(({ id }) => id);
}
