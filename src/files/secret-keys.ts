// Key file: the keys of sealed secrets, one in each line in Base64. The first one encrypts.

import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { exitCode, JobmanError, messageOf } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { keyBytes, toSecretKey, type SecretKey, type SecretKeys } from '../app/sealing.ts';
import { quote } from '../catalogue/shell.ts';
import { makeFolder, readRegularFile, writeAtomically } from './files.ts';

/** Throws JobmanError (1) if the file cannot be used. */
export function readSecretKeys(path: string): SecretKeys {
  const fail = (problem: string, ...lines: readonly string[]) =>
    new JobmanError(`The key file of the secrets, ${path}, cannot be used: ${problem}.`, exitCode.failed, lines);
  if (!existsSync(path))
    throw fail('it does not exist', 'Restore it: without its keys, the secrets in the database cannot be read.');
  let text: string;
  try {
    if ((statSync(path).mode & 0o007) !== 0)
      throw fail('every user of this machine can read it', `chmod 600 ${quote(path)}`);
    text = readRegularFile(path).toString('utf8');
  } catch (error) {
    throw error instanceof JobmanError ? error : fail(messageOf(error));
  }
  const lines = text.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('#'));
  const [first, ...others] = lines.map((line, at) => {
    const bytes = Buffer.from(line, 'base64');
    if (bytes.length !== keyBytes) throw fail(`key ${at + 1} of the file is not ${keyBytes} bytes in Base64`);
    return toSecretKey(bytes);
  });
  if (first === undefined) throw fail('it has no key');
  return [first, ...others];
}

/** Replaces the file at once, and before the database can have a value with a new key. Throws StoreError. */
export function writeSecretKeys(path: string, keys: readonly SecretKey[]): void {
  const lines = [
    '# Keys of the secrets in the database of jobman. Keep a copy elsewhere than the copies of the database.',
    ...keys.map(({ bytes }) => bytes.toString('base64')),
  ];
  try {
    makeFolder(dirname(path), 0o700);
    writeAtomically(path, `${lines.join('\n')}\n`, 0o600, { flush: true });
  } catch (error) {
    throw fileError(path, error);
  }
}
