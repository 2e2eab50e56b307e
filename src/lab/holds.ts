// Holds: who uses a TPU. The record of jobs, the booking sheet and the programs on its devices each know what the others do not: a
// waiting job holds no device, and a program that was started manually is in no record.

import type { Client, JobRow } from '../app/client.ts';
import { JobmanError } from '../app/errors.ts';
import { isSettledPhase } from '../core/phase.ts';
import { newestOf } from './lineage.ts';
import type { LabUser } from './people.ts';
import type { LabJob, LabRecord } from './record.ts';
import type { Holder, TpuDesk } from './tpu-desk.ts';
import { type LabTpu } from './tpus.ts';
import { type Booking, type BookingSheet, notesIn } from './bookings.ts';

export interface JobThere {
  readonly job: LabJob;
  readonly row: JobRow;
  readonly window: number | null;
}

export interface Holds {
  readonly jobs: readonly JobThere[];
  /** Jobs of jobman that stand on it and are none of the lab's. */
  readonly others: readonly JobRow[];
  readonly booking: Booking | null;
  readonly holders: readonly Holder[];
}

export interface JobsThere {
  /** On that TPU, without that job. */
  on(tpu: string, without?: string): readonly JobThere[];
  /** Every job of the lab that there was on it when this was read, settled ones too. */
  readonly known: ReadonlySet<string>;
}

/** Reads what the record says of all TPUs at once. `rows` are the jobs of a list without a filter. */
export async function jobsThere(record: LabRecord, rows: readonly JobRow[]): Promise<JobsThere> {
  const jobs = await record.jobs();
  const live = new Map(rows.filter(({ phase }) => !isSettledPhase(phase)).map((row) => [row.id, row]));
  const windows = await record.windows({ jobs: [...live.keys()], cleared: true });
  const newest = newestOf(windows);
  return {
    known: new Set(jobs.map(({ job }) => job)),
    on: (tpu, without) =>
      jobs.flatMap((job) => {
        const row = live.get(job.job);
        if (row === undefined || job.tpu !== tpu || job.job === without) return [];
        return [{ job, row, window: newest.get(job.job)?.window.window ?? null }];
      }),
  };
}

/** The jobs under way on that TPU that came to it by a manifest, as far as they can be read. */
export async function jobsOfManifests(
  client: Pick<Client, 'show'>,
  rows: readonly JobRow[],
  { known }: Pick<JobsThere, 'known'>,
  tpu: string,
): Promise<readonly JobRow[]> {
  const live = rows.filter(({ id, phase, backend }) => backend === 'tpu' && !isSettledPhase(phase) && !known.has(id));
  const views = await Promise.all(live.map(({ id }) => client.show(id)));
  return views.filter(
    ({ spec: { capacity } }) => capacity.kind === 'tpu' && capacity.ownership === 'standing' && capacity.name === tpu,
  );
}

/** The jobs under way on that TPU: the lab's, without the job `without`, and those of manifests. */
export async function jobsOn(
  client: Pick<Client, 'list' | 'show'>,
  record: LabRecord,
  tpu: string,
  without?: string,
): Promise<Pick<Holds, 'jobs' | 'others'> & Pick<JobsThere, 'known'>> {
  const { rows } = await client.list({});
  const there = await jobsThere(record, rows);
  const others = await jobsOfManifests(client, rows, there, tpu);
  return { jobs: there.on(tpu, without), others, known: there.known };
}

/** The bookings of all TPUs; none, with a sentence, where the sheet does not answer: nobody is kept from working by that. */
export async function bookingsNow(
  sheet: () => Promise<BookingSheet>,
): Promise<{ readonly bookings: readonly Booking[]; readonly says: readonly string[] }> {
  try {
    const { bookings } = await (await sheet()).read();
    return { bookings, says: [] };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    const why = error.lines[0] === undefined ? '' : ` (${error.lines[0]})`;
    return { bookings: [], says: [`Who has booked it cannot be told: ${error.message.replace(/\.$/, '')}${why}.`] };
  }
}

/** The booking of that TPU by another user who runs there or has reserved it; by any user where `user` is null. */
export function othersBooking(
  bookings: readonly Booking[],
  tpu: string,
  user: Pick<LabUser, 'sheetName'> | null,
): Booking | null {
  const found = bookings.find((one) => one.tpu === tpu);
  const isTaken = found?.status.kind === 'running' || found?.status.kind === 'reserved';
  return isTaken && found.user !== user?.sheetName && found.user !== '' ? found : null;
}

/** The programs that hold its devices, without those of `ownFolders`, and a sentence about workers that do not answer. */
export async function holdersNow(
  desk: TpuDesk,
  tpu: LabTpu,
  ownFolders: readonly string[],
  signal: AbortSignal,
): Promise<{ readonly holders: readonly Holder[]; readonly says: readonly string[] }> {
  const { holders, missed } = await desk.holders(tpu, signal);
  const [first] = missed;
  const whose = missed.length === 1 ? `worker ${first?.worker}` : `${missed.length} workers`;
  const says = first === undefined ? [] : [`Who holds the devices of ${whose} cannot be told: ${first.says}`];
  const isOwn = ({ command }: Holder): boolean =>
    command.split(' ').some((word) => ownFolders.some((folder) => word === folder || word.endsWith(`=${folder}`)));
  return { holders: holders.filter((one) => !isOwn(one)), says };
}

export function holdSentences(holds: Partial<Holds>, called: string): readonly string[] {
  const { jobs = [], others = [], booking = null, holders = [] } = holds;
  return [
    ...jobs.map(({ job, row, window }) => {
      const where = window === null ? `job ${job.job}` : `window ${window} (job ${job.job})`;
      return `${where} of ${job.user} is ${row.status} on ${called}${row.reason === '' ? '' : `: ${row.reason}`}`;
    }),
    ...others.map(({ id, name, user, status }) => `job ${id} (${name}) of ${user} is ${status} on ${called}`),
    ...(booking === null ? [] : [bookingSentence(booking, called)]),
    ...holderSentences(holders),
  ];
}

function bookingSentence(booking: Booking, called: string): string {
  const { status, user } = booking;
  const notes = notesIn(booking);
  const fact = status.kind === 'reserved' ? `${called} is reserved for ${user}` : `${user} runs on ${called}`;
  return `by the booking sheet ${fact}${notes === '' ? '' : ` ("${notes}")`}`;
}

/** Programs that are alike on many workers are one sentence. */
export function holderSentences(holders: readonly Holder[]): readonly string[] {
  const alike = new Map<string, Holder[]>();
  for (const one of holders) {
    const key = `${one.user}\n${one.command}`;
    alike.set(key, [...(alike.get(key) ?? []), one]);
  }
  return [...alike.values()].map((ones) => {
    const [{ user, command, pid, worker } = { user: '', command: '', pid: 0, worker: 0 }] = ones;
    const shown = command.length > 80 ? `${command.slice(0, 79)}…` : command;
    const where = ones.length === 1 ? `process ${pid} on worker ${worker}` : `${ones.length} processes on its workers`;
    return `${where} (${user}) ${ones.length === 1 ? 'holds' : 'hold'} its device: ${shown}`;
  });
}
