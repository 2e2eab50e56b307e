// Usage of all TPUs of a lab: what the booking sheet, the jobs and the ledger know of each.

import type { Client } from '../app/client.ts';
import { JobmanError } from '../app/errors.ts';
import { capitalize } from '../app/format.ts';
import type { Phase } from '../core/decide/phase.ts';
import { day, second, type Duration, type Instant } from '../core/model/time.ts';
import type { UserName } from '../core/model/user.ts';
import type { Booking, BookingSheet, SheetContents } from './bookings.ts';
import { findTpus } from './find-tpus.ts';
import type { Lab } from './lab.ts';
import { formatUsage, readJobsByTpu, reasonOf, type TpuUsage } from './tpu-usage.ts';
import { aliasesOf, shortName } from './tpus.ts';
import { idleSince, lastUseDays } from './usage-text.ts';

export interface LabUsage {
  /** Free ones first, then those that are booked and idle. */
  readonly tpus: readonly UsedTpu[];
  readonly sheet: SheetState;
  /** The number of unfinished jobs that the actor may not read. They may be on any of these TPUs. */
  readonly hiddenJobs: number;
}

export interface SheetState extends Pick<SheetContents, 'problems' | 'late'> {
  /** The name in messages: `the booking table`. */
  readonly name: string;
  /** The time at which it had these bookings. Null: it does not answer, and there is no copy. */
  readonly readAt: Instant | null;
  /** The reason why it does not answer, without a full stop. Null: the bookings are those of now. */
  readonly failure: string | null;
}

export interface UsedTpu {
  readonly tpu: string;
  /** The name that people use: its first alias, or a short form of the full name. */
  readonly alias: string;
  readonly aliases: readonly string[];
  /** The accelerator type; null if neither the registry nor the name has it. */
  readonly accelerator: string | null;
  readonly zone: string;
  /** Null: the sheet has no row for it, or is not known. */
  readonly booking: Booking | null;
  /** The unfinished jobs on it that the actor may see. */
  readonly jobs: readonly UsingJob[];
  /** When the command of a job last ended there; null if none did in the last 30 days. */
  readonly lastUsedAt: Instant | null;
  /** The use by the first of these jobs, as a sentence without its full stop; null without jobs. */
  readonly use: string | null;
}

export interface UsingJob {
  readonly job: string;
  readonly name: string;
  readonly user: UserName;
  /** The user's name in the sheet. */
  readonly sheetName: string;
  /** Null for a job of a manifest, and before it has a window. */
  readonly window: number | null;
  readonly phase: Phase;
  readonly phaseStartedAt: Instant;
}

const lastUsesFor: Duration = lastUseDays * day;
/** A spreadsheet allows few reads a minute, and many pages show it. */
const copyTime: Duration = 10 * second;

/** Throws no error of the sheet. */
export async function readLabUsage(
  client: Pick<Client, 'list' | 'show'>,
  lab: Pick<Lab, 'store' | 'localStore' | 'site' | 'sheet'>,
  now: Instant,
): Promise<LabUsage> {
  const { store } = lab;
  const [tpus, aliases, users, jobsByTpu, lastUses, { namePrefix }, read] = await Promise.all([
    store.tpus(),
    store.tpuAliases(),
    store.users(),
    readJobsByTpu(client, store),
    lab.localStore().lastUses(now - lastUsesFor),
    lab.site(),
    readSheet(await lab.sheet(), now),
  ]);
  const { bookings, ...sheet } = read;
  const sheetNames = new Map(users.map(({ name, sheetName }) => [name, sheetName]));
  const describe = (tpu: string, known: Pick<UsedTpu, 'accelerator' | 'aliases' | 'booking' | 'zone'>): UsedTpu => {
    const usage = jobsByTpu.on(tpu);
    const [use = null] = formatUsage(usage, tpu);
    return {
      tpu,
      alias: known.aliases.find((one) => one !== tpu) ?? shortName(tpu, namePrefix),
      ...known,
      jobs: usingJobs(usage, (user) => sheetNames.get(user) ?? user),
      lastUsedAt: lastUses.get(tpu) ?? null,
      use: use && capitalize(use),
    };
  };
  const zoneOf = (tpu: string): string => tpus.find(({ name }) => name === tpu)?.zone ?? '';
  const booked = findTpus(bookings, { tpus, aliases }, { types: [], only: null }).map((found) =>
    describe(found.booking.tpu, { ...found, zone: found.booking.zone || zoneOf(found.booking.tpu) }),
  );
  const others = tpus
    .filter(({ name }) => booked.every(({ tpu }) => tpu !== name))
    .map(({ name, accelerator, zone }) =>
      describe(name, { accelerator, aliases: aliasesOf(name, aliases), booking: null, zone: zone ?? '' }),
    );
  const used = [...booked, ...others];
  const sorted = used.toSorted((one, other) => rankOf(one) - rankOf(other) || byName(one, other));
  return { tpus: sorted, sheet, hiddenJobs: jobsByTpu.hidden };
}

function byName({ alias }: UsedTpu, other: UsedTpu): number {
  return alias.localeCompare(other.alias, 'en', { numeric: true });
}

function usingJobs(
  { jobs, otherJobs }: Pick<TpuUsage, 'jobs' | 'otherJobs'>,
  sheetNameOf: (user: UserName) => string,
): readonly UsingJob[] {
  const lab = jobs.map(({ job, row, window }) => ({ row, user: job.user, window }));
  const others = otherJobs.map((row) => ({ row, user: row.owner ?? '', window: null }));
  return [...lab, ...others].map(({ row: { id, name, phase, phaseStartedAt }, user, window }) => ({
    job: id,
    name,
    user,
    sheetName: sheetNameOf(user),
    window,
    phase,
    phaseStartedAt,
  }));
}

/** The sheet as it is, else its copy. */
async function readSheet(
  sheet: BookingSheet,
  now: Instant,
): Promise<SheetState & { readonly bookings: readonly Booking[] }> {
  const copy = await sheet.lastRead();
  const { name } = sheet;
  if (copy !== null && copy.readAt > now - copyTime && copy.readAt <= now)
    return { ...copy.contents, name, readAt: copy.readAt, failure: null };
  try {
    return { ...(await sheet.read()), name, readAt: now, failure: null };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    const contents = copy?.contents ?? { bookings: [], problems: [], late: [] };
    return { ...contents, name, readAt: copy?.readAt ?? null, failure: reasonOf(error) };
  }
}

function rankOf(used: UsedTpu): number {
  const { booking, jobs } = used;
  if (booking?.status.kind === 'free' && jobs.length === 0) return 0;
  if (idleSince(used) !== undefined) return 1;
  return booking === null || booking.status.kind === 'gone' ? 3 : 2;
}
