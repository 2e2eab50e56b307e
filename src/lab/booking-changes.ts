// The rules and sentences of `tpu book` and `tpu release`, for every front end. Pure.

import { exitCode, JobmanError } from '../app/errors.ts';
import { capitalize, escapeLine, formatAge } from '../app/format.ts';
import { generalProblem } from '../core/policy/permissions.ts';
import type { Instant } from '../core/model/time.ts';
import type { Actor, UserName } from '../core/model/user.ts';
import { formatBooking, type Booking, type ChangedBooking } from './bookings.ts';
import type { SheetState, UsedTpu } from './lab-usage.ts';
import { formatUsage, type TpuUsage } from './tpu-usage.ts';

/** The booking in the sheet with that name, and its latest change. */
export function formatBookingNow(sheetName: string, booking: Booking, now: Instant): string {
  const { alias, changedAt, changedBy } = booking;
  const age = changedAt === null ? '' : `${formatAge(now - changedAt)} ago`;
  const change =
    changedAt === null ? '' : changedBy === null ? ` It was changed ${age}.` : ` ${changedBy} changed it ${age}.`;
  return `In ${sheetName}, ${alias} is ${formatBooking(booking)}.${change}`;
}

/** For an actor who acts for another user. `what` completes "this would". Without a full stop. */
export function formatActing(actor: UserName, what: string, user: UserName): string {
  return `You are ${actor}; this would ${what} for ${user}`;
}

/** The reason against a release: a TPU with a job under way stays booked. The hints are the commands that end the jobs. */
export function releaseConflict(tpu: string, { jobs, otherJobs }: Pick<TpuUsage, 'jobs' | 'otherJobs'>) {
  if (jobs.length === 0 && otherJobs.length === 0) return null;
  const sentences = formatUsage({ jobs, otherJobs }, tpu);
  const [first = ''] = sentences;
  return new JobmanError(escapeLine(`${capitalize(first)}. Its booking was not changed.`), exitCode.conflict, [
    ...sentences.slice(1).map((one) => escapeLine(one)),
    ...jobs.map(({ job, window }) =>
      window === null
        ? `jobman cancel ${Number(job.job)}    cancels it`
        : `tpu kill w=${window} ${job.user}    kills it`,
    ),
    ...otherJobs.map(({ id }) => `jobman cancel ${Number(id)}    cancels it`),
  ]);
}

export function noRowError(sheetName: string, tpu: string): JobmanError {
  return new JobmanError(`${sheetName} has no row for ${tpu}.`, exitCode.notFound, [
    'Column B of a row has the alias of the TPU; `tpu list` shows the aliases.',
  ]);
}

export interface BookingResult {
  readonly status: 'free' | 'running' | 'reserved';
  /** `v2-32-6 is reserved for ada in the booking table. It was free.` */
  readonly message: string;
}

export function bookingResult(
  sheetName: string,
  kind: 'book' | 'release',
  { before, after }: ChangedBooking,
): BookingResult {
  const { tpu, user } = after;
  const status = kind === 'release' ? 'free' : after.status.kind === 'running' ? 'running' : 'reserved';
  const was =
    before.user === user && (user !== '' || before.status.kind === status) ? '' : ` It was ${formatBooking(before)}.`;
  return { status, message: `${tpu} is ${status}${user === '' ? '' : ` for ${user}`} in ${sheetName}.${was}` };
}

/** The reasons why the actor cannot change the booking now, as sentences; null if the actor can. */
export function bookingRefusals(
  actor: Actor,
  sheet: SheetState,
  { tpu, alias, booking, use }: UsedTpu,
): { readonly book: string | null; readonly release: string | null } {
  const problem = generalProblem(actor, 'lab', 'change the lab');
  const both =
    problem !== null
      ? `${capitalize(problem)}.`
      : sheet.failure !== null
        ? `${capitalize(sheet.name)} does not answer, so no booking can be changed now.`
        : booking === null
          ? capitalize(noRowError(sheet.name, tpu).message)
          : null;
  if (both !== null) return { book: both, release: both };
  const isFree = booking?.status.kind === 'free' && booking.user === '';
  const inUse = use === null ? null : `${use}. A TPU with a job stays booked.`;
  return { book: null, release: isFree ? `${alias} is free already.` : inUse };
}
