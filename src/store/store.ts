// Store: the database of all jobs, as the rest of the program sees it. database-file.ts opens its file.

import type { ClusterStore } from '../app/cluster/archive.ts';
import { StoreError } from '../app/errors.ts';
import type { Store } from '../app/ports.ts';
import type { LabStore } from '../lab/lab-store.ts';
import { clusterStore } from './cluster-jobs.ts';
import * as jobs from './jobs.ts';
import { addLabEntry, labStore } from './lab.ts';
import * as locations from './locations.ts';
import { readInstallationId, openDatabaseFile, type OpenDatabaseOptions } from './database-file.ts';

interface OpenStoreOptions extends OpenDatabaseOptions {
  /** Default: no id is taken. */
  readonly isIdTaken?: jobs.IsIdTaken;
}

/** The whole database. Code that decides about jobs uses only `Store`, without clusters and the lab. */
export interface JobmanStore extends Store {
  readonly clusters: ClusterStore;
  readonly lab: LabStore;
}

/** Opens nothing yet: the first use of a method does, and throws StoreError when it cannot. */
export function openStore({ isIdTaken = () => false, ...given }: OpenStoreOptions): JobmanStore {
  const { read, readBeforeWriting, write, close } = openDatabaseFile(given);
  return {
    // For callers that are about to write: a new database must get its installation id first.
    installationId: () => readBeforeWriting(readInstallationId),
    insert: (job) =>
      write(async (db) => {
        const stored = await jobs.insertJob(db, await readInstallationId(db), job, isIdTaken);
        if (job.lab !== undefined) await addLabEntry(db, stored.job, job.lab);
        return stored;
      }),
    load: (id) => read(async (db) => (await jobs.loadJobs(db, [id]))[0]),
    loadMany: (ids) => read((db) => jobs.loadJobs(db, ids)),
    commit: (commit) => write((db) => jobs.commitJob(db, commit)),
    list: (filter) => read((db) => jobs.listJobs(db, filter)),
    listRows: (filter, rowOf) => read((db) => jobs.listRows(db, filter, rowOf)),
    events: (id, after) => read((db) => jobs.readEvents(db, id, after)),
    addOutcome: (id, outcome) => write((db) => jobs.writeOutcome(db, id, outcome)),
    outcomes: (id) => read((db) => jobs.readOutcomes(db, id)),
    dueJobs: (now, limit) => read((db) => jobs.readDue(db, now, limit)),
    nextWake: () => read(jobs.readNextWake),
    wakeAt: (id) => read((db) => jobs.readWakeAt(db, id)),
    similarJobs: (requested, since, limit) => read((db) => jobs.readSimilarJobs(db, requested, since, limit)),
    changeCount: () => read((db) => jobs.readCounter(db, 'change')),
    takeLease: (holder, version, now, ttl, holdsLock) =>
      write((db) => jobs.takeLease(db, { holder, version, now, ttl, holdsLock })),
    releaseLease: (holder) => write((db) => jobs.releaseLease(db, holder)),
    lease: () => read(jobs.readLease),
    capacityAnswers: (project) => read((db) => locations.readCapacityAnswers(db, project)),
    locationsToCollect: (now) => read((db) => locations.readLocationsToCollect(db, now)),
    recordOrphan: (orphan) => write((db) => locations.writeOrphan(db, orphan)),
    orphans: () => read(locations.readOrphans),
    forgetOrphan: (orphan) => write((db) => locations.deleteOrphan(db, orphan)),
    clusters: clusterStore(read, write),
    lab: labStore(read, write, isIdTaken),
    close,
  };
}

/** Migrates a database of an earlier version, as the next command would do. Rejects with StoreError. */
export async function withReadOnlyStore<T>(file: string, read: (store: JobmanStore) => Promise<T>): Promise<T> {
  try {
    return await withStore(openStore({ file, readOnly: true }), read);
  } catch (error) {
    if (!(error instanceof StoreError) || error.kind !== 'older') throw error;
    return withStore(openStore({ file }), read);
  }
}

async function withStore<T>(store: JobmanStore, read: (store: JobmanStore) => Promise<T>): Promise<T> {
  try {
    return await read(store);
  } finally {
    await store.close();
  }
}
