// Store: the record of all jobs, as the rest of the program sees it. How its file is opened: record-file.ts.

import type { ClusterRecord } from '../app/cluster/kept.ts';
import { StoreError } from '../app/errors.ts';
import type { Store } from '../app/ports.ts';
import type { LabRecord } from '../lab/record.ts';
import { clusterRecord } from './cluster-jobs.ts';
import * as jobs from './jobs.ts';
import { labRecord } from './lab.ts';
import * as places from './places.ts';
import { readInstallation, openRecordFile, type OpenRecord } from './record-file.ts';

interface OpenStore extends OpenRecord {
  /** Nothing is, when absent. */
  readonly isTaken?: jobs.IsTaken;
}

/** The whole record. Nothing that decides about jobs reads its parts for clusters and the lab. */
export interface RecordStore extends Store {
  readonly clusters: ClusterRecord;
  readonly lab: LabRecord;
}

/** The record in that file. Opens nothing yet: the first use of a method does, and throws StoreError when it cannot. */
export function openStore({ isTaken = () => false, ...given }: OpenStore): RecordStore {
  const { read, readBeforeWriting, write, close } = openRecordFile(given);
  return {
    // For callers that are about to write: a new record must get its installation id first.
    installation: () => readBeforeWriting(readInstallation),
    insert: (job) => write(async (db) => jobs.insertJob(db, await readInstallation(db), job, isTaken)),
    load: (id) => read(async (db) => (await jobs.loadJobs(db, [id]))[0]),
    loadMany: (ids) => read((db) => jobs.loadJobs(db, ids)),
    manifest: (id) => read((db) => jobs.readManifest(db, id)),
    commit: (commit) => write((db) => jobs.commitJob(db, commit)),
    list: (filter) => read((db) => jobs.listJobs(db, filter)),
    rows: (filter, rowOf) => read((db) => jobs.listRows(db, filter, rowOf)),
    events: (id, after) => read((db) => jobs.readEvents(db, id, after)),
    addOutcome: (id, outcome) => write((db) => jobs.writeOutcome(db, id, outcome)),
    outcomes: (id) => read((db) => jobs.readOutcomes(db, id)),
    due: (now, most) => read((db) => jobs.readDue(db, now, most)),
    nextWake: () => read(jobs.readNextWake),
    wakeOf: (id) => read((db) => jobs.readWakeOf(db, id)),
    alike: (asked, since, most) => read((db) => jobs.readAlike(db, asked, since, most)),
    changes: () => read((db) => jobs.newest(db, 'change')),
    takeLease: (holder, version, now, ttl, certain) =>
      write((db) => jobs.takeLease(db, { holder, version, now, ttl, certain })),
    dropLease: (holder) => write((db) => jobs.dropLease(db, holder)),
    lease: () => read(jobs.readLease),
    placeAnswers: (project) => read((db) => places.readAnswers(db, project)),
    sweepable: (now) => read((db) => places.readSweepable(db, now)),
    recordStray: (stray) => write((db) => places.writeStray(db, stray)),
    strays: () => read(places.readStrays),
    forgetStray: (stray) => write((db) => places.deleteStray(db, stray)),
    clusters: clusterRecord(read, write),
    lab: labRecord(read, write, isTaken),
    close,
  };
}

// A look into the record by whoever has nothing to write there.

/**
 * Looks into the record, which is opened for reading only; one of an earlier version is first brought up to date, as the
 * next command would. Rejects with StoreError when it cannot be read.
 */
export async function lookAtRecord<T>(file: string, look: (store: RecordStore) => Promise<T>): Promise<T> {
  try {
    return await inStore(openStore({ file, readOnly: true }), look);
  } catch (error) {
    if (!(error instanceof StoreError) || error.trouble !== 'older') throw error;
    return inStore(openStore({ file }), look);
  }
}

async function inStore<T>(store: RecordStore, look: (store: RecordStore) => Promise<T>): Promise<T> {
  try {
    return await look(store);
  } finally {
    await store.close();
  }
}
