// Sealed secrets: values that the database stores encrypted. The keys are in a file of the server's machine.

import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import type { SecretName } from '../core/model/spec.ts';
import type { Instant } from '../core/model/time.ts';
import type { UserName } from '../core/model/user.ts';
import { exitCode, JobmanError } from './errors.ts';

export interface SecretKey {
  /** Follows from the key, so that another key never has it. */
  readonly id: string;
  readonly bytes: Buffer;
}

/** The first key encrypts; the others decrypt values that it has not encrypted yet. */
export type SecretKeys = readonly [SecretKey, ...SecretKey[]];

/** `job`: the id of the job that the secret belongs to; null for a named secret of its owner. */
export interface SecretAddress {
  readonly owner: UserName;
  readonly job: string | null;
  readonly name: SecretName;
}

/** A row of the database. */
export interface SealedSecret extends SecretAddress {
  /** The id of the key. */
  readonly key: string;
  /** Base64 of the nonce, the encrypted value and its tag. */
  readonly sealed: string;
  /** Of the value, in bytes. */
  readonly size: number;
  readonly changedAt: Instant;
}

export const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
const algorithm = 'aes-256-gcm';

export function toSecretKey(bytes: Buffer): SecretKey {
  return { id: createHash('sha256').update(bytes).digest('hex').slice(0, 12), bytes };
}

export function newSecretKey(): SecretKey {
  return toSecretKey(randomBytes(keyBytes));
}

export function seal([key]: SecretKeys, address: SecretAddress, value: Uint8Array, at: Instant): SealedSecret {
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv(algorithm, key.bytes, nonce).setAAD(boundTo(address));
  const sealed = Buffer.concat([nonce, cipher.update(value), cipher.final(), cipher.getAuthTag()]);
  const { owner, job, name } = address;
  return { owner, job, name, key: key.id, sealed: sealed.toString('base64'), size: value.length, changedAt: at };
}

/** Throws JobmanError (1) without its key, and for a row that is not as jobman has stored it. */
export function unseal(keys: readonly SecretKey[], row: SealedSecret): Buffer {
  const key = keys.find(({ id }) => id === row.key);
  if (key === undefined)
    throw new JobmanError(
      `${describeSecret(row)} is encrypted with the key ${row.key}, which the key file of this machine does not have`,
      exitCode.failed,
      [
        'The setting server.secrets_key names the file. Restore that file, or copy it from the machine that has the key.',
      ],
    );
  const bytes = Buffer.from(row.sealed, 'base64');
  try {
    const decipher = createDecipheriv(algorithm, key.bytes, bytes.subarray(0, nonceBytes));
    decipher.setAAD(boundTo(row)).setAuthTag(bytes.subarray(bytes.length - tagBytes));
    return Buffer.concat([decipher.update(bytes.subarray(nonceBytes, bytes.length - tagBytes)), decipher.final()]);
  } catch (error) {
    const message = `${describeSecret(row)} cannot be decrypted: its row in the database was changed or copied from another secret`;
    throw new JobmanError(message, exitCode.failed, [], { cause: error });
  }
}

/** A row that is copied to another owner, job or name does not decrypt. */
function boundTo({ owner, job, name }: SecretAddress): Buffer {
  return Buffer.from(JSON.stringify(['jobman secret', owner, job, name]));
}

export function describeSecret({ owner, job, name }: SecretAddress): string {
  return `the secret ${name} of ${job === null ? owner : `job ${job}`}`;
}
