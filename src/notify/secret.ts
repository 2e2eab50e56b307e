// Secrets of notifications: read at each use, so that a changed file counts at once, and removed from errors.

import { isAbsolute, join } from 'node:path';
import { isFileMissing, messageOf } from '../app/errors.ts';
import { readRegularFile } from '../files/files.ts';

/** The folders and variables that a source refers to. */
export interface SecretContext {
  /** Relative paths start at this folder, `$JOBMAN_HOME`. */
  readonly home: string;
  readonly userHome: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The path of a source that is a file. */
export function secretPath(source: string, { home, userHome }: Pick<SecretContext, 'home' | 'userHome'>): string {
  if (source.startsWith('~/')) return join(userHome, source.slice(2));
  return isAbsolute(source) ? source : join(home, source);
}

/** Larger files are not secrets. */
const maxBytes = 64 * 1024;

/**
 * The secret of `env:NAME` or of a file, without surrounding space. Throws Error with a phrase that names the source
 * and never the secret.
 */
export async function readSecret(source: string, { home, userHome, env }: SecretContext): Promise<string> {
  if (source.startsWith('env:')) {
    const name = source.slice(4);
    const value = env[name]?.trim() ?? '';
    if (value === '') throw new Error(`the environment variable ${name} is not set in this process`);
    return value;
  }
  const path = secretPath(source, { home, userHome });
  let text: string;
  try {
    text = readRegularFile(path, maxBytes).toString('utf8');
  } catch (error) {
    throw new Error(
      isFileMissing(error) ? `the file ${path} does not exist` : `cannot read ${path}: ${messageOf(error)}`,
      {
        cause: error,
      },
    );
  }
  const value = text.trim();
  if (value === '') throw new Error(`the file ${path} is empty`);
  return value;
}

const maxErrorLength = 300;

/** Foreign text for an error: one line of bounded length, with `***` for each secret. */
export function errorText(text: string, secrets: readonly string[]): string {
  let shown = text;
  for (const secret of secrets) if (secret.length > 3) shown = shown.replaceAll(secret, '***');
  const line = shown.trim().replaceAll(/[\s\p{Cc}]+/gu, ' ');
  return line.length <= maxErrorLength ? line : `${line.slice(0, maxErrorLength - 1)}…`;
}
