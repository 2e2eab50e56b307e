// Certificates in files: that of a server with its key, and those of authorities that a client trusts.

import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { messageOf, usageError } from '../app/errors.ts';
import { formatDate } from '../app/format.ts';
import { quote } from '../catalogue/shell.ts';
import type { Instant } from '../core/model/time.ts';
import { isReadableByOthers, readRegularFile } from './files.ts';

export interface TlsFiles {
  /** PEM: the certificate of the server, then those of intermediate authorities. */
  readonly certificate: string;
  /** PEM, without a passphrase. */
  readonly key: string;
}

/** The contents of the files. */
export interface TlsIdentity {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Throws JobmanError (2) with every problem of the files. */
export function readTls(files: TlsFiles, now: Instant): TlsIdentity {
  return readCertificate(files, now).identity;
}

/** With the certificates: first the server's own. Throws as `readTls`. */
export function readCertificate(
  files: TlsFiles,
  now: Instant,
): { readonly identity: TlsIdentity; readonly chain: readonly X509Certificate[] } {
  const problems: string[] = [];
  const read = <T>(path: string, parse: (bytes: Buffer) => T): { bytes: Buffer; value: T } | undefined => {
    try {
      const bytes = readRegularFile(path);
      return { bytes, value: parse(bytes) };
    } catch (error) {
      problems.push(problemOf(path, error));
      return undefined;
    }
  };
  const chain = read(files.certificate, parseCertificates);
  for (const certificate of chain?.value ?? []) {
    const problem = validityProblem(certificate, now);
    if (problem !== undefined) problems.push(`${files.certificate}: ${problem}`);
  }
  const key = read(files.key, parseKey);
  const [own] = chain?.value ?? [];
  if (key !== undefined && own?.checkPrivateKey(key.value) === false)
    problems.push(`${files.key}: it is the key of another certificate than ${files.certificate}`);
  if (isReadableByOthers(files.key))
    problems.push(`${files.key}: every user of this machine can read it: chmod o= ${quote(files.key)}`);
  if (chain !== undefined && key !== undefined && problems.length === 0) {
    const identity = { cert: chain.bytes, key: key.bytes };
    try {
      createSecureContext(identity);
      return { identity, chain: chain.value };
    } catch (error) {
      // Such as a key that is too short for OpenSSL.
      problems.push(problemOf(files.certificate, error));
    }
  }
  throw usageError('The server has no usable certificate.', problems);
}

function parseCertificates(bytes: Buffer): readonly X509Certificate[] {
  const blocks = bytes.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g);
  if (blocks === null) throw new Error('it contains no PEM certificate');
  return blocks.map((block) => new X509Certificate(block));
}

function parseKey(bytes: Buffer): KeyObject {
  const text = bytes.toString('latin1');
  if (!/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text)) throw new Error('it contains no private key in PEM');
  if (/-----BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED/.test(text)) throw new Error('its key has a passphrase; remove it');
  return createPrivateKey(bytes);
}

function validityProblem({ validFromDate, validToDate }: X509Certificate, now: Instant): string | undefined {
  if (validToDate.getTime() <= now) return `its certificate expired on ${formatDate(validToDate.getTime(), now)}`;
  if (validFromDate.getTime() > now)
    return `its certificate is not valid before ${formatDate(validFromDate.getTime(), now)}`;
  return undefined;
}

/** The certificates of authorities, in PEM. Throws Error with the path and the reason. */
export function readAuthorities(path: string): string {
  try {
    const bytes = readRegularFile(path);
    parseCertificates(bytes);
    return bytes.toString('latin1');
  } catch (error) {
    throw new Error(problemOf(path, error), { cause: error });
  }
}

function problemOf(path: string, error: unknown): string {
  const { code } = error as NodeJS.ErrnoException;
  if (code === 'ENOENT') return `${path}: it does not exist`;
  if (code === 'EACCES') return `${path}: this login may not read it`;
  // The code of an error of OpenSSL, such as `error:04800066:PEM routines::bad end line`.
  const message = messageOf(error).replace(/^error:\w+:/, '');
  return message.startsWith(path) ? message : `${path}: ${message}`;
}
