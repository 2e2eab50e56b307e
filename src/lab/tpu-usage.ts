// Usage: the users of a TPU. Jobs, the booking sheet and the programs on its devices each know only a part: a waiting
// job holds no device, and a program that was started manually is not a job.

import { formatStatus } from '../app/format.ts';
import type { Client, JobRow } from '../app/client.ts';
import { JobmanError } from '../app/errors.ts';
import { isFinishedPhase } from '../core/decide/phase.ts';
import { newestWindows } from './lineage.ts';
import type { LabUser } from './users.ts';
import type { LabJob, SharedLabStore } from './lab-store.ts';
import type { DeviceHolder } from '../app/lab-job.ts';
import type { HolderScan, TpuOperations } from './tpu-operations.ts';
import { type LabTpu } from './tpus.ts';
import { type Booking, type BookingSheet, type LateChange, formatBooking, isBookedByOther } from './bookings.ts';

export interface JobOnTpu {
  readonly job: LabJob;
  readonly row: JobRow;
  readonly window: number | null;
}

export interface TpuUsage {
  readonly jobs: readonly JobOnTpu[];
  readonly otherJobs: readonly JobRow[];
  readonly booking: Booking | null;
  readonly holders: readonly DeviceHolder[];
}

export interface JobsByTpu {
  /** Jobs under way on the TPU: the lab's, except the job `without`, and those of manifests. */
  on(tpu: string, without?: string): Pick<TpuUsage, 'jobs' | 'otherJobs'>;
  /** The number of jobs of manifests that the actor may not read. They may be on any TPU. */
  readonly hidden: number;
}

export async function readJobsByTpu(client: Pick<Client, 'list' | 'show'>, store: SharedLabStore): Promise<JobsByTpu> {
  const [{ rows }, jobs] = await Promise.all([client.list({}), store.jobs()]);
  const ofLab = new Set(jobs.map(({ job }) => job));
  const live = new Map(rows.filter(({ phase }) => !isFinishedPhase(phase)).map((row) => [row.id, row]));
  const newest = newestWindows(await store.windows({ jobs: [...live.keys()], cleared: true }));
  const others = [...live.values()].filter(({ id, backend }) => backend === 'tpu' && !ofLab.has(id));
  const shown = await Promise.all(others.map(({ id }) => unlessForbidden(client.show(id))));
  const views = shown.filter((view) => view !== null);
  return {
    hidden: shown.length - views.length,
    on: (tpu, without) => ({
      jobs: jobs.flatMap((job) => {
        const row = live.get(job.job);
        if (row === undefined || job.tpu !== tpu || job.job === without) return [];
        return [{ job, row, window: newest.get(job.job)?.window.window ?? null }];
      }),
      otherJobs: views.filter(
        ({ spec: { capacity } }) =>
          capacity.kind === 'tpu' && capacity.ownership === 'persistent' && capacity.name === tpu,
      ),
    }),
  };
}

/** Null if the actor may not read the job. */
async function unlessForbidden<T>(read: Promise<T>): Promise<T | null> {
  try {
    return await read;
  } catch (error) {
    if (error instanceof JobmanError && error.errorCode === 'forbidden') return null;
    throw error;
  }
}

/** The bookings of all TPUs. A sheet that does not answer is only a warning, so that users can continue. */
export async function readBookings(sheet: () => Promise<BookingSheet>): Promise<{
  readonly bookings: readonly Booking[];
  readonly late: readonly LateChange[];
  readonly warnings: readonly string[];
}> {
  try {
    const { bookings, late } = await (await sheet()).read();
    return { bookings, late, warnings: [] };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return { bookings: [], late: [], warnings: [`The booking is unknown: ${reasonOf(error)}.`] };
  }
}

/** The message with its first hint, without a full stop. */
export function reasonOf({ message, lines: [hint] }: JobmanError): string {
  return `${message.replace(/\.$/, '')}${hint === undefined ? '' : ` (${hint})`}`;
}

/** A booking (running or reserved) by another user; by any user if `user` is null. */
export function othersBooking(
  bookings: readonly Booking[],
  tpu: string,
  user: Pick<LabUser, 'sheetName'> | null,
): Booking | null {
  return bookings.find((one) => one.tpu === tpu && isBookedByOther(one, user)) ?? null;
}

/** Programs that hold the TPU's devices, except those of `ownFolders`, and a warning if workers do not answer. */
export async function readHolders(
  tpus: TpuOperations,
  tpu: LabTpu,
  ownFolders: readonly string[],
  signal: AbortSignal,
): Promise<{ readonly holders: readonly DeviceHolder[]; readonly warnings: readonly string[] }> {
  const { holders, unreachable } = await tpus.holders(tpu, signal);
  const warnings = formatUnreachable(unreachable);
  const isOwn = ({ command }: DeviceHolder): boolean =>
    command.split(' ').some((arg) => ownFolders.some((folder) => arg === folder || arg.endsWith(`=${folder}`)));
  return { holders: holders.filter((one) => !isOwn(one)), warnings };
}

/** A sentence, if workers do not answer. */
export function formatUnreachable(unreachable: HolderScan['unreachable']): readonly string[] {
  const [first] = unreachable;
  const which = unreachable.length === 1 ? `worker ${first?.worker}` : `${unreachable.length} workers`;
  return first === undefined ? [] : [`The programs on ${which} are unknown: ${first.message}`];
}

/** `window 3 (job 000042)`. */
export function formatJobAt(job: string, window: number | null): string {
  return window === null ? `job ${job}` : `window ${window} (job ${job})`;
}

/** `is setup` is wrong English. */
export function phaseInSentence(status: string): string {
  return status.replace(/^setup/, 'in setup');
}

export function formatUsage(usage: Partial<TpuUsage>, called: string): readonly string[] {
  const { jobs = [], otherJobs = [], booking = null, holders = [] } = usage;
  return [
    ...jobs.map(({ job, row, window }) => {
      const where = formatJobAt(job.job, window);
      const status = formatStatus(row);
      const [is, why] = row.message.startsWith(status) ? [row.message, ''] : [status, row.message];
      const verb = is.startsWith(`${status} for `) ? 'has been' : 'is';
      return `${where} of ${job.user} ${verb} ${phaseInSentence(is)} on ${called}${why === '' ? '' : `: ${why}`}`;
    }),
    ...otherJobs.map(
      (row) => `job ${row.id} (${row.name}) of ${row.owner} is ${phaseInSentence(formatStatus(row))} on ${called}`,
    ),
    ...(booking === null ? [] : [`in the booking sheet ${called} is ${formatBooking(booking)}`]),
    ...formatHolders(holders),
  ];
}

/** Equal programs on several workers are one sentence. */
export function formatHolders(holders: readonly DeviceHolder[]): readonly string[] {
  const alike = new Map<string, DeviceHolder[]>();
  for (const one of holders) {
    const key = `${one.user}\n${one.command}`;
    alike.set(key, [...(alike.get(key) ?? []), one]);
  }
  return [...alike.values()].map((ones) => {
    const [{ user, command, pid, worker } = { user: '', command: '', pid: 0, worker: 0 }] = ones;
    const shown = command.length > 80 ? `${command.slice(0, 79)}…` : command;
    const where = ones.length === 1 ? `process ${pid} on worker ${worker}` : `${ones.length} processes on its workers`;
    return `${where} (${user}) ${ones.length === 1 ? 'uses' : 'use'} the device: ${shown}`;
  });
}
