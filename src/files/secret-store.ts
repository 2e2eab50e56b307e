// Secret store: secrets as encrypted rows of the database if there is a key file, otherwise as files of a home on this
// machine, one folder for each owner. The login that stores a file is the only one that can read it, also in a home that
// a group shares. A file counts only without a row, because `jobman secret encrypt` moves the files into the database.

import { createHash } from 'node:crypto';
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { exitCode, isFileMissing, JobmanError, messageOf } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import { asFileName } from '../app/format.ts';
import type { SecretRows, SecretStore, StoredSecret } from '../app/ports.ts';
import {
  describeSecret,
  seal,
  unseal,
  type SealedSecret,
  type SecretAddress,
  type SecretKeys,
} from '../app/sealing.ts';
import { quote } from '../catalogue/shell.ts';
import type { Job } from '../core/model/job.ts';
import { secretNamePattern, type SecretRef, type SecretSetting } from '../core/model/spec.ts';
import type { UserName } from '../core/model/user.ts';
import { folderOf, jobFolder, secretFile } from './job-folder.ts';
import { fileStateOf, makeFolder, ownUid, readRegularFile, writeAtomically } from './files.ts';

function secretsFolder(home: string, owner: UserName): string {
  return join(home, 'secrets', asFileName(owner));
}

/** The absolute path that the setting has; null if it is not set. */
export type SettingFile = (setting: SecretSetting) => string | null;

export interface SecretSources {
  readonly settingFile?: SettingFile | undefined;
  /** A row of the database; without it only files count. */
  readonly find?: SecretRows['find'] | undefined;
  /** Null without a key file. Throws JobmanError if it cannot be used. */
  readonly keys?: (() => SecretKeys | null) | undefined;
}

type OwnJob = Pick<Job, 'id' | 'owner'>;

/** For the start of programs, and for connections with a key of the job. */
export function createSecretReader(
  home: string,
  { settingFile = () => null, find, keys = () => null }: SecretSources = {},
): Pick<SecretStore, 'require' | 'fileOf' | 'read'> {
  async function rowOf(job: OwnJob, ref: SecretRef): Promise<SealedSecret | null> {
    return ref.kind === 'named' || ref.kind === 'job' ? ((await find?.(addressOf(job, ref))) ?? null) : null;
  }

  return {
    async require(job, ref) {
      if ((await rowOf(job, ref)) === null) plainFile(home, settingFile, job, ref);
    },

    async fileOf(job, ref) {
      const row = await rowOf(job, ref);
      return row === null ? plainFile(home, settingFile, job, ref) : memoryFile(row, unseal(keys() ?? [], row));
    },

    async read(job, ref) {
      const row = await rowOf(job, ref);
      if (row !== null) return unseal(keys() ?? [], row);
      const file = plainFile(home, settingFile, job, ref);
      try {
        return readRegularFile(file);
      } catch (error) {
        throw new JobmanError(`${describe(job, ref)} cannot be read: ${messageOf(error)}`, exitCode.failed);
      }
    },
  };
}

export function createSecretStore(
  home: string,
  { rows, keys }: { readonly rows: SecretRows; readonly keys: () => SecretKeys | null },
): SecretStore {
  const now = Date.now;

  function keysInForce(): SecretKeys {
    const found = keys();
    if (found === null) throw new Error('the key file was given up meanwhile');
    return found;
  }

  async function put(address: SecretAddress, value: Uint8Array, file: string): Promise<void> {
    if (keys() !== null) {
      await rows.put(() => seal(keysInForce(), address, value, now()));
      removeFile(file);
      return;
    }
    // A row would count before the file.
    await rows.remove(address);
    try {
      makeFolder(dirname(file), 0o700);
      writeAtomically(file, value, 0o600);
    } catch (error) {
      throw fileError(file, error);
    }
  }

  return {
    ...createSecretReader(home, { find: (address) => rows.find(address), keys }),

    async list(owner) {
      const sealed = await rows.list(owner);
      const files = listFiles(home, owner).filter(({ name }) => sealed.every((row) => row.name !== name));
      return [...sealed, ...files].toSorted((one, other) => (one.name < other.name ? -1 : 1));
    },

    async put(owner, name, value) {
      const file = namedFile(home, owner, name);
      if (keys() === null) makeFolder(join(home, 'secrets'));
      await put({ owner, job: null, name }, value, file);
    },

    async remove(owner, name) {
      const isRow = await rows.remove({ owner, job: null, name });
      return removeFile(namedFile(home, owner, name)) || isRow;
    },

    putOfJob: (job, name, value) =>
      put({ owner: job.owner, job: job.id, name }, value, secretFile(folderOf(home, job), name)),

    sealForJob(owner, values) {
      if (keys() === null) return null;
      return (job) =>
        Object.entries(values).map(([name, value]) => seal(keysInForce(), { owner, job, name }, value, now()));
    },
  };
}

function addressOf({ id, owner }: OwnJob, ref: OwnRef): SecretAddress {
  return { owner, job: ref.kind === 'named' ? null : id, name: ref.secret };
}

function namedFile(home: string, owner: UserName, name: string): string {
  if (!secretNamePattern.test(name)) throw new Error(`${name} cannot name a secret`);
  return join(secretsFolder(home, owner), name);
}

function listFiles(home: string, owner: UserName): readonly StoredSecret[] {
  const folder = secretsFolder(home, owner);
  try {
    const names = readdirSync(folder).filter((name) => secretNamePattern.test(name));
    return names.flatMap((name): readonly StoredSecret[] => {
      const state = fileStateOf(join(folder, name));
      return state === undefined ? [] : [{ name, ...state }];
    });
  } catch (error) {
    if (isFileMissing(error)) return [];
    throw fileError(folder, error);
  }
}

/** False if there is none. */
function removeFile(file: string): boolean {
  const isThere = existsSync(file);
  try {
    rmSync(file, { force: true });
  } catch (error) {
    throw fileError(file, error);
  }
  return isThere;
}

function plainFile(home: string, settingFile: SettingFile, job: OwnJob, ref: SecretRef): string {
  if (ref.kind === 'localFile') return ref.path;
  if (ref.kind === 'setting') {
    const path = settingFile(ref.setting);
    if (path !== null) return path;
    throw new JobmanError(`the setting ${ref.setting} names no file`, exitCode.notFound);
  }
  const { secret } = ref;
  const file =
    ref.kind === 'named' ? namedFile(home, job.owner, secret) : secretFile(jobFolder(home, job.owner, job.id), secret);
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

/** ssh reads keys from files only: one in memory, which no disk has. Its name follows from the row. */
function memoryFile({ sealed }: SealedSecret, value: Uint8Array): string {
  const shared = '/dev/shm';
  const folder = join(existsSync(shared) ? shared : tmpdir(), `jobman-${ownUid()}`);
  makeFolder(folder, 0o700);
  const { mode, uid } = statSync(folder);
  if (uid !== ownUid() || (mode & 0o077) !== 0)
    throw new JobmanError(`other users may write to ${folder}, so no key is written there`, exitCode.failed);
  const file = join(folder, createHash('sha256').update(sealed).digest('hex').slice(0, 32));
  writeAtomically(file, value, 0o600);
  return file;
}

type OwnRef = Extract<SecretRef, { readonly kind: 'named' | 'job' }>;

function describe(job: OwnJob, ref: SecretRef): string {
  if (ref.kind === 'localFile') return `the file ${ref.path} of a secret`;
  if (ref.kind === 'setting') return `the file of the setting ${ref.setting}`;
  return describeSecret(addressOf(job, ref));
}

function repairCommand({ id }: OwnJob, ref: OwnRef): string {
  return `jobman secret set ${ref.secret}${ref.kind === 'job' ? ` --job ${Number(id)}` : ''}`;
}
