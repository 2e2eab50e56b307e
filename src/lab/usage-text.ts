// Sentences about a TPU of a lab: its booking, its jobs and its programs, and where these three disagree. Pure.

import { formatAge, formatDuration, pluralize } from '../app/format.ts';
import type { DeviceHolder } from '../app/lab-job.ts';
import type { Instant } from '../core/model/time.ts';
import { formatBooked, isBookedByOther } from './bookings.ts';
import type { LabUsage, SheetState, UsedTpu, UsingJob } from './lab-usage.ts';
import { formatHolders, formatJobAt, phaseInSentence } from './tpu-usage.ts';

/** Earlier uses are not looked up. */
export const lastUseDays = 30;

/** True while the command of a job runs there. */
export function isBusy({ phase }: Pick<UsingJob, 'phase'>): boolean {
  return phase === 'running' || phase === 'stopping';
}

/** Since when a booked TPU has had no job; null for a time that is not known, undefined if it is not booked or in use. */
export function idleSince({ booking, jobs, lastUsedAt }: UsedTpu): Instant | null | undefined {
  if (booking === null || !isBookedByOther(booking, null) || jobs.length > 0) return undefined;
  const since = Math.max(lastUsedAt ?? 0, booking.changedAt ?? 0);
  return since === 0 ? null : since;
}

/**
 * Sentences about what the sheet, the jobs and the programs on the devices say differently. `programs`: null if they are not
 * known.
 */
export function differencesOf(
  { booking, jobs }: UsedTpu,
  { sheet: { readAt }, hiddenJobs }: Pick<LabUsage, 'sheet' | 'hiddenJobs'>,
  programs: readonly DeviceHolder[] | null,
): readonly string[] {
  if (readAt === null) return [];
  const entry = booking === null ? 'The sheet has no row for it' : `The sheet says ${formatBooked(booking)}`;
  const bookedBy = booking !== null && isBookedByOther(booking, null) ? booking.user : null;
  if (jobs.length > 0)
    return jobs
      .filter(({ sheetName }) => sheetName !== bookedBy)
      .map(({ job, user, window, phase }) => {
        return `${entry}, but ${formatJobAt(job, window)} of ${user} is ${phaseInSentence(phase)} here.`;
      });
  const [program] = formatHolders(programs ?? []);
  if (booking?.status.kind === 'running' && program === undefined && hiddenJobs === 0)
    return [`${entry}, but no job runs here${programs === null ? '' : ', and no program uses its devices'}.`];
  return bookedBy === null && program !== undefined ? [`${entry}, but ${program}.`] : [];
}

/** `free`, `reserved for Ada`; also for a TPU without a known booking. */
export function formatBookedCell({ booking }: UsedTpu, { readAt }: Pick<SheetState, 'readAt'>): string {
  if (booking !== null) return formatBooked(booking);
  return readAt === null ? 'not known' : 'not in the sheet';
}

/** `changed 27s ago by ada`; null if it is not known. */
export function formatChange({ booking }: UsedTpu, now: Instant): string | null {
  const { changedAt = null, changedBy = null } = booking ?? {};
  if (changedAt === null) return null;
  return `changed ${formatAge(now - changedAt)} ago${changedBy === null ? '' : ` by ${changedBy}`}`;
}

/** For how long no command of a job has run there: `booked and idle for 5h12m`. */
export function formatIdle(used: UsedTpu, now: Instant): string {
  const since = idleSince(used);
  if (since !== undefined) return `booked and idle${since === null ? '' : ` for ${formatDuration(now - since)}`}`;
  const { lastUsedAt } = used;
  return lastUsedAt === null
    ? `no command in ${lastUseDays} days`
    : `no command for ${formatDuration(now - lastUsedAt)}`;
}

/** Sentences about the whole sheet; none if it has answered. */
export function formatSheetFailure({ failure, readAt }: SheetState, now: Instant): readonly string[] {
  if (failure === null) return [];
  return [
    `${failure}.`,
    readAt === null
      ? 'No copy of it exists here, so the bookings are not known.'
      : `These are its bookings of ${formatDuration(now - readAt)} ago. They cannot be changed until it answers.`,
  ];
}

/** The jobs that are missing in the columns; null if none is. */
export function formatHiddenJobs({ hiddenJobs }: Pick<LabUsage, 'hiddenJobs'>): string | null {
  if (hiddenJobs === 0) return null;
  return `${pluralize(hiddenJobs, 'job')} that you may not read may be on these TPUs.`;
}
