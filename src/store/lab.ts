// Lab: the lab's part of the record, as the rest of the program sees it. Its statements stand in the files beside it, by subject.

import type { LabRecord } from '../lab/record.ts';
import type { IsTaken } from './jobs.ts';
import { addUser, changeUser, dropUser, readUsers } from './lab-people.ts';
import { changeBooking, changeTpu, readAliases, readBookings, readTpus, setAlias } from './lab-tpus.ts';
import {
  addLabJob,
  changeLabJob,
  findWindow,
  finishWindow,
  markWindows,
  openWindow,
  readEventsSince,
  readLabJobs,
  readWindows,
  reportWindow,
} from './lab-windows.ts';
import { openRecordFile, type OpenRecord, type Run } from './record-file.ts';

/** The part of the record that is about the lab, over these two ways to run an operation. */
export function labRecord(read: Run, write: Run, isTaken: IsTaken): LabRecord {
  return {
    users: () => read(readUsers),
    addUser: (user) => write((db) => addUser(db, user)),
    changeUser: (name, change) => write((db) => changeUser(db, name, change)),
    dropUser: (name) => write((db) => dropUser(db, name)),

    tpus: () => read(readTpus),
    tpuAliases: () => read(readAliases),
    changeTpu: (name, change) => write((db) => changeTpu(db, name, change)),
    setTpuAlias: (alias, name) => write((db) => setAlias(db, alias, name)),

    async addPastJob(past) {
      const { addPastJob } = await import('./past-jobs.ts');
      return write((db) => addPastJob(db, past, isTaken));
    },
    addJob: (job) => write((db) => addLabJob(db, job)),
    changeJob: (job, change) => write((db) => changeLabJob(db, job, change)),
    job: (job) => read(async (db) => (await readLabJobs(db, { job }))[0] ?? null),
    jobs: (user) => read((db) => readLabJobs(db, user === undefined ? {} : { user })),
    async lives(user, ids) {
      const { readLives } = await import('./lab-lives.ts');
      return read((db) => readLives(db, user, ids));
    },

    async alike(asked, since, most) {
      const { readAlike } = await import('./jobs.ts');
      return read((db) => readAlike(db, asked, since, most));
    },

    openWindow: (job, attempt, now) => write((db) => openWindow(db, { job, attempt, now })),
    windows: (query) => read((db) => readWindows(db, query)),
    windowOf: (session, window) => read((db) => findWindow(db, session, window)),
    report: (session, window, report) => write((db) => reportWindow(db, session, window, report)),
    finish: (session, window, at) => write((db) => finishWindow(db, session, window, at)),
    markWindows: (windows, mark, at) => write((db) => markWindows(db, windows, mark, at)),

    bookings: () => read(readBookings),
    changeBooking: (tpu, change) => write((db) => changeBooking(db, tpu, change)),

    eventsSince: (user, after, kinds) => read((db) => readEventsSince(db, user, after, kinds)),

    together: (work) =>
      write((db) => {
        const alone = oneByOne();
        return work(
          labRecord(
            (operation) => alone(() => operation(db)),
            (operation) => alone(() => db.transaction(operation)),
            isTaken,
          ),
        );
      }),
  };
}

/**
 * How long a command of the lab waits for its turn to write: of a hundred that begin in the same second, each with several
 * transactions, the unluckiest waits for more than the usual 5 s on a slow machine, and what a script tells is told once.
 */
const patienceMs = 60_000;

/**
 * The lab's part of the record in that file, without what the jobs' part has to load: commands that stand in the way of a
 * training ask for nothing else. Opens nothing yet.
 */
export function openLabRecord({ isTaken = () => false, ...given }: OpenRecord & { readonly isTaken?: IsTaken }): {
  readonly record: LabRecord;
  readonly close: () => Promise<void>;
} {
  const { read, write, close } = openRecordFile({ patienceMs, ...given });
  return { record: labRecord(read, write, isTaken), close };
}

/** Parts of one transaction follow each other, also those that are begun at once: each is undone by itself when it throws. */
function oneByOne(): <T>(operation: () => Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (operation) => {
    const next = last.then(operation);
    last = next.catch(() => undefined);
    return next;
  };
}
