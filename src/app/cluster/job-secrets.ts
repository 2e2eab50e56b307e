// Job secrets: `job.secrets` of a job in a cluster. Their values are in a Secret that belongs to the Job, so the cluster
// deletes it with the Job; the Job names only this Secret. An annotation says which values are named secrets of the
// owner, so that a later start gets their newest values.

import type { V1Job } from '@kubernetes/client-node';
import type { JobSecretSource } from '../../manifest/kubernetes.ts';
import { exitCode, JobmanError, messageOf } from '../errors.ts';
import { formatList } from '../format.ts';
import { checkedValue } from '../secrets.ts';
import type { Services } from '../services.ts';
import { identityOf, type Cluster } from './cluster.ts';
import { secretsAnnotation, type JobSecrets } from './job-object.ts';

/** Values by variable, in Base64, as a Secret has them. */
export type SecretData = Readonly<Record<string, string>>;

export function jobSecretsOf({ metadata }: V1Job): JobSecrets | null {
  const text = metadata?.annotations?.[secretsAnnotation];
  if (text === undefined) return null;
  try {
    const { name, variables } = JSON.parse(text) as JobSecrets;
    if (typeof name === 'string' && typeof variables === 'object' && variables !== null) return { name, variables };
  } catch {
    // Users of the cluster can change annotations.
  }
  throw new JobmanError(`The annotation ${secretsAnnotation} is not in the format of jobman.`, exitCode.conflict);
}

/** `own` has the values that are no named secrets, in Base64. Throws JobmanError. */
export async function secretData(
  services: Pick<Services, 'namedSecret'>,
  sources: Readonly<Record<string, JobSecretSource>>,
  own: SecretData,
): Promise<SecretData> {
  const data: Record<string, string> = {};
  for (const [variable, source] of Object.entries(sources)) {
    const value =
      source.kind === 'named' ? await services.namedSecret(source.secret) : Buffer.from(own[variable] ?? '', 'base64');
    if (value !== null) data[variable] = encode(variable, value);
  }
  return data;
}

function encode(variable: string, value: Uint8Array): string {
  // As on a worker: editors end a file with a newline, which is not part of a password.
  const text = Buffer.from(checkedValue(variable, value))
    .toString('latin1')
    .replace(/\r?\n$/, '');
  return Buffer.from(text, 'latin1').toString('base64');
}

/** The newest values of the owner's named secrets. Empty for the job of another user, whose secrets are not the actor's. */
export async function namedData(
  services: Pick<Services, 'namedSecret'>,
  { variables }: JobSecrets,
  isOwn: boolean,
): Promise<SecretData> {
  const data: Record<string, string> = {};
  for (const [variable, secret] of Object.entries(variables))
    if (secret !== null && isOwn) {
      const value = await services.namedSecret(secret);
      if (value !== null) data[variable] = encode(variable, value);
    }
  return data;
}

/** For another Job of the same values. Throws JobmanError if the cluster has them no longer. */
export async function dataForRerun(cluster: Cluster, secrets: JobSecrets, named: SecretData): Promise<SecretData> {
  const variables = Object.keys(secrets.variables);
  const isComplete = variables.every((variable) => named[variable] !== undefined);
  const data = { ...(isComplete ? {} : await cluster.secret(secrets.name)), ...named };
  const missing = variables.filter((variable) => data[variable] === undefined);
  if (missing.length === 0) return data;
  throw new JobmanError(
    `The Secret ${secrets.name} with ${formatList(missing)} is no longer in the cluster, or you may not read it.`,
    exitCode.conflict,
    ['Submit the job again from its manifest.'],
  );
}

/** The same Job with another Secret, which no other Job has. */
export function withOtherSecret(job: V1Job, { name, variables }: JobSecrets): V1Job {
  const other = `${job.metadata?.name}-${crypto.randomUUID().slice(0, 8)}`;
  const renamed = (key: string, value: unknown): unknown =>
    key === 'secretKeyRef' && (value as { name?: unknown } | null)?.name === name
      ? { ...(value as object), name: other }
      : value;
  const next = JSON.parse(JSON.stringify(job), renamed) as V1Job;
  next.metadata ??= {};
  next.metadata.annotations = {
    ...next.metadata.annotations,
    [secretsAnnotation]: JSON.stringify({ name: other, variables }),
  };
  return next;
}

/** The Job comes first, because its Secret belongs to it; its pods wait for the Secret. Throws JobmanError. */
export async function createWithSecrets(
  cluster: Cluster,
  job: V1Job,
  data: SecretData | null,
  options: { readonly signal?: AbortSignal } = {},
): Promise<V1Job> {
  const made = await cluster.create(job, options);
  // If the request is repeated, these are the secrets of the first one.
  const secrets = jobSecretsOf(made);
  if (secrets === null || data === null) return made;
  try {
    await cluster.createSecret(secrets.name, made, data);
    return made;
  } catch (error) {
    const job = identityOf(made);
    const isRemoved = await cluster.remove(job).then(
      () => true,
      () => false,
    );
    throw new JobmanError(
      `The Secret for job.secrets was not created: ${messageOf(error)}`,
      error instanceof JobmanError ? error.code : exitCode.failed,
      [isRemoved ? 'Nothing was submitted.' : `Job ${job.name} waits without its secrets: jobman delete ${job.name}`],
    );
  }
}
