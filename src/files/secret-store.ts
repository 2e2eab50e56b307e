// Secret store: secrets as files of a home on this machine, one folder for each owner. The login that stores a secret is
// the only one that can read it, also in a home that a group shares.

import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { exitCode, fileError, isFileMissing, JobmanError, messageOf } from '../app/errors.ts';
import { asFileName } from '../app/format.ts';
import type { SecretStore, StoredSecret } from '../app/ports.ts';
import { quote } from '../catalogue/shell.ts';
import { secretNamePattern } from '../core/model/spec.ts';
import type { UserName } from '../core/model/user.ts';
import { fileStateOf, makeFolder, readRegularFile, writeAtomically } from './files.ts';

export function secretsFolder(home: string, owner: UserName): string {
  return join(home, 'secrets', asFileName(owner));
}

export function createSecretStore(home: string): SecretStore {
  const fileOf = (owner: UserName, name: string): string => {
    if (!secretNamePattern.test(name)) throw new Error(`${name} cannot name a secret`);
    return join(secretsFolder(home, owner), name);
  };
  return {
    async list(owner) {
      const folder = secretsFolder(home, owner);
      try {
        const names = readdirSync(folder).filter((name) => secretNamePattern.test(name) && !draftPattern.test(name));
        return names.toSorted().flatMap((name): readonly StoredSecret[] => {
          const state = fileStateOf(join(folder, name));
          return state === undefined ? [] : [{ name, ...state }];
        });
      } catch (error) {
        if (isFileMissing(error)) return [];
        throw fileError(folder, error);
      }
    },

    async put(owner, name, value) {
      const file = fileOf(owner, name);
      try {
        makeFolder(join(home, 'secrets'));
        makeFolder(secretsFolder(home, owner), 0o700);
        writeAtomically(file, value, 0o600);
      } catch (error) {
        throw fileError(file, error);
      }
    },

    async remove(owner, name) {
      const file = fileOf(owner, name);
      const isThere = existsSync(file);
      try {
        rmSync(file, { force: true });
      } catch (error) {
        throw fileError(file, error);
      }
      return isThere;
    },

    async read(owner, name) {
      return readSecretFile(fileOf(owner, name), `the secret ${name} of ${owner}`, `jobman secret set ${name}`);
    },
  };
}

/** The unfinished file of `writeAtomically`. */
const draftPattern = /\.[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/;

/** Throws JobmanError with the command that repairs the secret. */
export function readSecretFile(file: string, what: string, repair: string): Uint8Array {
  let value: Uint8Array;
  try {
    value = readRegularFile(file);
  } catch (error) {
    const reason = isFileMissing(error) ? 'does not exist' : `cannot be read: ${messageOf(error)}`;
    throw new JobmanError(`${what} ${reason}; store it again: ${repair}`, exitCode.failed);
  }
  const open = [dirname(file), file].find((path) => (statSync(path).mode & 0o077) !== 0);
  if (open === undefined) return value;
  throw new JobmanError(`other users may read ${what}: chmod go= ${quote(open)}`, exitCode.failed);
}
