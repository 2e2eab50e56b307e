// Store: the record of all jobs, as the rest of the program sees it. How its file is opened: record-file.ts.

import type { ClusterRecord } from '../app/cluster/kept.ts';
import type { Store } from '../app/ports.ts';
import type { LabRecord } from '../lab/record.ts';
import { clusterRecord } from './cluster-jobs.ts';
import { newest } from './counters.ts';
import {
  commitJob,
  insertJob,
  listJobs,
  listRows,
  loadJobs,
  readDue,
  readEvents,
  readManifest,
  readAlike,
  readNextWake,
  readSweepable,
  readWakeOf,
  type IsTaken,
} from './jobs.ts';
import { readInstallation } from './installation.ts';
import { labRecord } from './lab.ts';
import { dropLease, readLease, takeLease } from './lease.ts';
import { readOutcomes, writeOutcome } from './outcomes.ts';
import { readAnswers } from './place-answers.ts';
import { openRecordFile, type OpenRecord } from './record-file.ts';
import { deleteStray, readStrays, writeStray } from './strays.ts';

export interface OpenStore extends OpenRecord {
  /** Nothing is, when absent. */
  readonly isTaken?: IsTaken;
}

/**
 * The whole record. What is kept of clusters' jobs and of the lab stands apart: nothing that decides about jobs reads it.
 */
export interface RecordStore extends Store {
  readonly clusters: ClusterRecord;
  readonly lab: LabRecord;
}

/** The record in that file. Opens nothing yet: the first use of a method does, and throws StoreError when it cannot. */
export function openStore({ isTaken = () => false, ...given }: OpenStore): RecordStore {
  const { read, readBeforeWriting, write, close } = openRecordFile(given);
  return {
    // Asked by those who are about to write: a record that is not there yet must get its identity first.
    installation: () => readBeforeWriting(readInstallation),
    insert: (job) => write(async (db) => insertJob(db, await readInstallation(db), job, isTaken)),
    load: (id) => read(async (db) => (await loadJobs(db, [id]))[0]),
    loadMany: (ids) => read((db) => loadJobs(db, ids)),
    manifest: (id) => read((db) => readManifest(db, id)),
    commit: (commit) => write((db) => commitJob(db, commit)),
    list: (filter) => read((db) => listJobs(db, filter)),
    rows: (filter, rowOf) => read((db) => listRows(db, filter, rowOf)),
    events: (id, after) => read((db) => readEvents(db, id, after)),
    addOutcome: (id, outcome) => write((db) => writeOutcome(db, id, outcome)),
    outcomes: (id) => read((db) => readOutcomes(db, id)),
    due: (now, most) => read((db) => readDue(db, now, most)),
    nextWake: () => read(readNextWake),
    wakeOf: (id) => read((db) => readWakeOf(db, id)),
    alike: (asked, since, most) => read((db) => readAlike(db, asked, since, most)),
    changes: () => read((db) => newest(db, 'change')),
    takeLease: (holder, version, now, ttl, certain) =>
      write((db) => takeLease(db, { holder, version, now, ttl, certain })),
    dropLease: (holder) => write((db) => dropLease(db, holder)),
    lease: () => read(readLease),
    placeAnswers: (project) => read((db) => readAnswers(db, project)),
    sweepable: (now) => read((db) => readSweepable(db, now)),
    recordStray: (stray) => write((db) => writeStray(db, stray)),
    strays: () => read(readStrays),
    forgetStray: (stray) => write((db) => deleteStray(db, stray)),
    clusters: clusterRecord(read, write),
    lab: labRecord(read, write, isTaken),
    close,
  };
}
