// Secret store: secrets as files of a home on this machine, one folder for each owner. The login that stores a secret is
// the only one that can read it, also in a home that a group shares.

import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { exitCode, fileError, isFileMissing, JobmanError, messageOf } from '../app/errors.ts';
import { asFileName } from '../app/format.ts';
import type { SecretStore, StoredSecret } from '../app/ports.ts';
import { quote } from '../catalogue/shell.ts';
import type { Job } from '../core/model/job.ts';
import { secretNamePattern, type SecretRef, type SecretSetting } from '../core/model/spec.ts';
import type { UserName } from '../core/model/user.ts';
import { folderOf, jobFolder, secretFile } from './job-folder.ts';
import { fileStateOf, makeFolder, readRegularFile, writeAtomically } from './files.ts';

export function secretsFolder(home: string, owner: UserName): string {
  return join(home, 'secrets', asFileName(owner));
}

/** The absolute path that the setting has; null if it is not set. */
export type SettingFile = (setting: SecretSetting) => string | null;

export function createSecretStore(home: string, settingFile: SettingFile = () => null): SecretStore {
  const fileOf = (owner: UserName, name: string): string => {
    if (!secretNamePattern.test(name)) throw new Error(`${name} cannot name a secret`);
    return join(secretsFolder(home, owner), name);
  };
  return {
    async list(owner) {
      const folder = secretsFolder(home, owner);
      try {
        const names = readdirSync(folder).filter((name) => secretNamePattern.test(name));
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

    async putOfJob(job, name, value) {
      const file = secretFile(folderOf(home, job), name);
      try {
        makeFolder(dirname(file));
        writeAtomically(file, value, 0o600);
      } catch (error) {
        throw fileError(file, error);
      }
    },

    fileOf: secretFileOf,

    async read(job, ref) {
      const file = secretFileOf(job, ref);
      try {
        return readRegularFile(file);
      } catch (error) {
        throw new JobmanError(`${describe(job, ref)} cannot be read: ${messageOf(error)}`, exitCode.failed);
      }
    },
  };

  function secretFileOf(job: Pick<Job, 'id' | 'owner'>, ref: SecretRef): string {
    if (ref.kind === 'localFile') return ref.path;
    if (ref.kind === 'setting') {
      const path = settingFile(ref.setting);
      if (path !== null) return path;
      throw new JobmanError(`the setting ${ref.setting} names no file`, exitCode.notFound);
    }
    const { secret } = ref;
    const file =
      ref.kind === 'named' ? fileOf(job.owner, secret) : secretFile(jobFolder(home, job.owner, job.id), secret);
    let mode: number | undefined;
    try {
      mode = statSync(file, { throwIfNoEntry: false })?.mode;
    } catch {
      // Another login cannot see it: `read` says so.
      return file;
    }
    if (mode === undefined)
      throw new JobmanError(
        `${describe(job, ref)} does not exist; store it again: ${repairCommand(job, ref)}`,
        exitCode.notFound,
      );
    if ((mode & 0o077) === 0) return file;
    throw new JobmanError(`other users may read ${describe(job, ref)}: chmod 600 ${quote(file)}`, exitCode.failed);
  }
}

function describe({ id, owner }: Pick<Job, 'id' | 'owner'>, ref: SecretRef): string {
  if (ref.kind === 'localFile') return `the file ${ref.path} of a secret`;
  if (ref.kind === 'setting') return `the file of the setting ${ref.setting}`;
  return `the secret ${ref.secret} of ${ref.kind === 'named' ? owner : `job ${id}`}`;
}

function repairCommand({ id }: Pick<Job, 'id'>, ref: Extract<SecretRef, { readonly kind: 'named' | 'job' }>): string {
  return `jobman secret set ${ref.secret}${ref.kind === 'job' ? ` --job ${Number(id)}` : ''}`;
}
