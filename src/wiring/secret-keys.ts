// The key file of a home's secrets: moves them into the database, and replaces the key.

import { existsSync, readdirSync, rmSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { auditEntry } from '../app/audit.ts';
import { exitCode, JobmanError, StoreError, usageError } from '../app/errors.ts';
import { asFileName } from '../app/format.ts';
import type { SecretKeyService, Services } from '../app/services.ts';
import { newSecretKey, seal, unseal, type SecretAddress, type SecretKey } from '../app/sealing.ts';
import { setSetting } from '../files/change-settings.ts';
import { fileStateOf, makeHome, readRegularFile } from '../files/files.ts';
import { folderOf, secretFile } from '../files/job-folder.ts';
import { readSecretKeys, writeSecretKeys } from '../files/secret-keys.ts';
import { openStore, withReadOnlyStore, withStore, type JobmanStore } from '../store/store.ts';
import { databaseOf, hasDatabase } from './paths.ts';
import { secretKeys, secretsKeyFile } from './secrets.ts';

export function createSecretKeyService(services: Services): SecretKeyService {
  const { io, home } = services;

  /** In the database of the home, as an admin. The audit log has it first. */
  async function asAdmin<T>(operation: string, change: (store: JobmanStore) => Promise<T>): Promise<T> {
    const actor = await (await services.client()).whoAmI();
    if (actor.role !== 'admin')
      throw new JobmanError(`Only an admin may do this. Your role is ${actor.role}.`, exitCode.conflict, [], {
        errorCode: 'forbidden',
      });
    makeHome(home);
    return withStore(openStore(databaseOf({ io, home })), async (store) => {
      await store.access.record(auditEntry(actor, io.now(), operation, null));
      return change(store);
    });
  }

  /** Also the rest of a run that was killed: a file is removed once the database has its value. */
  async function encrypt(file: string | undefined) {
    const current = secretsKeyFile({ io, home, settings: await services.settings() });
    const keyFile = file === undefined ? (current ?? join(home, 'secrets.key')) : resolve(io.cwd, file);
    if (current !== null && keyFile !== current)
      throw new JobmanError(
        `The secrets have the key file ${current} already. Nothing was changed.`,
        exitCode.conflict,
        ['To replace the key: jobman secret rotate-key'],
      );
    return asAdmin('encrypt-secrets', async (store) => {
      // A key file that the settings name must exist: values may depend on it.
      await store.secrets.alone(() => {
        if (current === null && !existsSync(keyFile)) writeSecretKeys(keyFile, [newSecretKey()]);
      });
      readSecretKeys(keyFile);
      if (current === null) await setSetting(services.settingsFiles(), 'server.secrets_key', keyFile);
      return { keyFile, secrets: await moveFiles(store, keyFile) };
    });
  }

  async function moveFiles(store: JobmanStore, keyFile: string): Promise<number> {
    let count = 0;
    for (const { address, path } of await secretFiles(store)) {
      // A row is newer than its file: only a command that was killed has left both.
      if ((await store.secrets.find(address)) === null) {
        const changedAt = fileStateOf(path)?.changedAt ?? io.now();
        const value = readRegularFile(path);
        await store.secrets.put(() => seal(readSecretKeys(keyFile), address, value, changedAt));
      }
      rmSync(path);
      count += 1;
    }
    return count;
  }

  async function secretFiles(store: JobmanStore) {
    const { jobs } = await store.list({ maxFinished: null, includeRemoved: true });
    const users = await store.access.users();
    const owners = new Set([...jobs.map(({ owner }) => owner), ...users.map(({ name }) => name)]);
    const ownerOf = (folder: string): string => [...owners].find((owner) => asFileName(owner) === folder) ?? folder;
    const found: { readonly address: SecretAddress; readonly path: string }[] = [];
    for (const folder of namesIn(join(home, 'secrets'))) {
      for (const name of namesIn(join(home, 'secrets', folder)))
        found.push({ address: { owner: ownerOf(folder), job: null, name }, path: join(home, 'secrets', folder, name) });
    }
    for (const job of jobs) {
      const path = (name: string) => secretFile(folderOf(home, job), name);
      for (const name of namesIn(dirname(path('x'))))
        found.push({ address: { owner: job.owner, job: job.id, name }, path: path(name) });
    }
    return found;
  }

  /**
   * The new key is the first of the file, and the others stay until no row needs them. A run that was killed left more
   * than one key, and the next run continues it.
   */
  async function rotate() {
    const keyFile = secretsKeyFile({ io, home, settings: await services.settings() });
    if (keyFile === null)
      throw usageError('The secrets of this home are files, and have no key. Nothing was changed.', [
        'To encrypt them in the database: jobman secret encrypt',
      ]);
    return asAdmin('rotate-secrets-key', async (store) => {
      let wasInterrupted = true;
      await store.secrets.alone(() => {
        const before = readSecretKeys(keyFile);
        wasInterrupted = before.length > 1;
        if (!wasInterrupted && !hasWritten(keyFile, [newSecretKey(), ...before]))
          throw new JobmanError(`The key file ${keyFile} cannot be written. Nothing was changed.`, exitCode.failed, [
            'Add a new key as its first line, and repeat the command. A new key: openssl rand -base64 32',
          ]);
      });
      return { keyFile, wasInterrupted, ...(await encryptAgain(store, keyFile)) };
    });
  }

  async function values(): Promise<readonly string[]> {
    const database = databaseOf({ io, home });
    if (!hasDatabase(database)) return [];
    try {
      const keys = secretKeys({ io, home, settings: await services.settings() })();
      if (keys === null) return [];
      const rows = await withReadOnlyStore(database, ({ secrets }) => secrets.all());
      return rows
        .filter(({ key }) => keys.some(({ id }) => id === key))
        .map((row) => unseal(keys, row).toString('utf8'));
    } catch (error) {
      if (error instanceof JobmanError) return [];
      throw error;
    }
  }

  return { encrypt, values, rotate };
}

/**
 * Encrypts all values with the first key of the file, and removes the other keys from it. Another process may complete the same
 * rotation and begin the next one at any time. `secrets`: the number of rows that it changed. `keepsOthers`: the file cannot be written,
 * as in Kubernetes.
 */
async function encryptAgain({ secrets }: JobmanStore, keyFile: string) {
  let count = 0;
  let keepsOthers = false;
  for (;;) {
    const [{ id }] = readSecretKeys(keyFile);
    const giveUpOthers = (): void => {
      const [first, ...others] = readSecretKeys(keyFile);
      if (first.id === id && others.length > 0) keepsOthers = !hasWritten(keyFile, [first]);
    };
    if (await secrets.onceAllHave(id, giveUpOthers)) return { secrets: count, keepsOthers };
    const rows = await secrets.withOtherKeys(id);
    // Read after the rows, so that it has their keys.
    const keys = readSecretKeys(keyFile);
    if (keys[0].id !== id) continue;
    // Without its key a row stays as it is, and so does every key of the file.
    const readable = rows.filter(({ key }) => keys.some((one) => one.id === key));
    for (const row of readable.length > 0 ? readable : rows) {
      const sealed = seal(keys, row, unseal(keys, row), row.changedAt);
      if (await secrets.replace(row, sealed)) count += 1;
    }
  }
}

/** False if the file cannot be written, such as a mounted Secret of Kubernetes. */
function hasWritten(keyFile: string, keys: readonly SecretKey[]): boolean {
  try {
    writeSecretKeys(keyFile, keys);
    return true;
  } catch (error) {
    if (error instanceof StoreError && error.kind === 'read_only') return false;
    throw error;
  }
}

/** Of the files and folders, without those of interrupted writes. */
function namesIn(folder: string): readonly string[] {
  return existsSync(folder) ? readdirSync(folder).filter((name) => !name.startsWith('.')) : [];
}
