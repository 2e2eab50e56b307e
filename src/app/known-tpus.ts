// Known TPUs: the lists of the clouds joined with what jobs hold and wait for, each TPU once. Pure: the caller passes what it
// has read, with the time of each reading.

import { chipCount } from '../catalogue/accelerators.ts';
import { isFinishedPhase } from '../core/decide/phase.ts';
import { compareText } from '../core/model/compare-text.ts';
import { hour, type Instant } from '../core/model/time.ts';
import type { JobActivity, JobTpu } from './activity.ts';
import { ownerName } from './tpu-phrases.ts';
import type { TpuList, TpuRow, UncheckedLocation } from './tpus.ts';

/** The newest list of the clouds, and why there is no newer one. */
export interface CheckedTpus {
  readonly list: TpuList | null;
  readonly at: Instant;
  readonly message: string | null;
  /** The last rows of the locations that this list lacks; absent without any. */
  readonly older?: readonly CheckedTpu[];
}

interface CheckedTpu {
  readonly row: TpuRow;
  /** Time of its list. */
  readonly at: Instant;
}

/**
 * `busy`: a command of a job runs on it. `idle`: ready without a command of jobman. `held`: it exists, and its use is not
 * known. `waiting`: requested. `ended`: the cloud has taken it or deletes it, and counts it until it is deleted.
 */
export const tpuUses = ['idle', 'busy', 'held', 'waiting', 'ended'] as const;

export type TpuUse = (typeof tpuUses)[number];

/** A TPU that exists, is requested, or has ended and is not deleted yet. */
export interface KnownTpu {
  readonly project: string;
  readonly zone: string;
  readonly name: string;
  readonly accelerator: string | null;
  /** Null if the size of the TPU is not known. */
  readonly chips: number | null;
  readonly pricing: TpuRow['pricing'];
  /** The cloud's state; null before the first check. */
  readonly state: string | null;
  readonly use: TpuUse;
  readonly idleSinceAt: Instant | null;
  readonly pricePerHourUsd: number | null;
  /** The person to ask, or the kind of the owner. */
  readonly user: string;
  /** The job of this installation that has it; the former job of an orphan. */
  readonly job: { readonly id: string; readonly name: string | null; readonly isFinished: boolean } | null;
  readonly ownership: JobTpu['ownership'];
  readonly simulated: boolean;
  /** The row of the cloud's list; null if the list lacks the TPU. */
  readonly row: TpuRow | null;
  /** Time of that list; null without one. */
  readonly checkedAt: Instant | null;
}

/** The next list. Rows of locations that it could not check stay, with the time of their list. */
export function nextCheck(before: CheckedTpus, list: TpuList, at: Instant): CheckedTpus {
  const listed = new Set(list.rows.map(({ resource }) => resource));
  const older = allRows(before).filter(({ row }) => gapOf(list, row) !== undefined && !listed.has(row.resource));
  return { list, at, message: null, ...(older.length === 0 ? {} : { older }) };
}

function allRows({ list, at, older = [] }: CheckedTpus): readonly CheckedTpu[] {
  return [...(list?.rows ?? []).map((row) => ({ row, at })), ...older];
}

type Location = Pick<TpuRow, 'project' | 'zone'>;

function gapOf(list: TpuList, { project, zone }: Location): UncheckedLocation | undefined {
  return list.unchecked.find((gap) => gap.project === project && (gap.zone === null || gap.zone === zone));
}

/** The reason why the cloud's newest list lacks the location; undefined if the cloud has answered for it. */
export function gapIn({ list, message }: CheckedTpus, location: Location): string | undefined {
  if (list?.projects.includes(location.project) !== true) return message ?? 'not checked yet';
  return gapOf(list, location)?.message;
}

/** Google's states of a TPU that no longer exists, or never will. */
const endedStates = new Set(['PREEMPTED', 'TERMINATED', 'DELETING', 'FAILED', 'SUSPENDED', 'SUSPENDING']);

export function knownTpus(jobs: readonly JobActivity[], tpus: CheckedTpus): readonly KnownTpu[] {
  const own = new Map(jobs.flatMap((job) => job.tpus.map((tpu) => [tpuKey(tpu), { job, tpu }] as const)));
  const active = new Set(jobs.map(({ id }) => id));
  const listed = new Set<JobTpu>();
  const ofCloud = allRows(tpus).flatMap(({ row, at }): readonly KnownTpu[] => {
    if (endedStates.has(row.state)) return [tpuOfCloud(row, at, 'ended')];
    // The nodes of a queued resource have its name and a number.
    const found = own.get(tpuKey(row)) ?? own.get(tpuKey({ ...row, name: row.name.replace(/-\d+$/, '') }));
    // A request of a job is counted with the job, even before the cloud has accepted it.
    if (row.nodeState === null) return row.owner.kind === 'job' ? [] : [tpuOfCloud(row, at, 'waiting')];
    if (found !== undefined) {
      const { job, tpu } = found;
      listed.add(tpu);
      const use = tpu.readyAt === null ? 'held' : useOf(tpu);
      const { idleSinceAt, ownership } = tpu;
      return [{ ...tpuOfCloud(row, at, use), idleSinceAt, ownership, job: jobOf(job) }];
    }
    // The job has lost or released it since the list.
    if (row.job !== null && active.has(row.job)) return [];
    return [tpuOfCloud(row, at, row.idleMs === null ? 'held' : 'idle')];
  });
  const ofJobs = jobs.flatMap((job) =>
    job.tpus
      // The list lacks the requests that the cloud has refused, and what has become ready since.
      .filter(
        (tpu) => !listed.has(tpu) && (gapIn(tpus, tpu) !== undefined || tpu.readyAt === null || tpu.readyAt > tpus.at),
      )
      .map((tpu) => tpuOfJob(job, tpu)),
  );
  return [...ofCloud, ...ofJobs];
}

/** The same for the same TPU in each reading. */
export function tpuKey({ project, zone, name }: Pick<JobTpu, 'project' | 'zone' | 'name'>): string {
  return `${project}/${zone}/${name}`;
}

function useOf({ readyAt, idleSinceAt }: JobTpu): TpuUse {
  return readyAt === null ? 'waiting' : idleSinceAt === null ? 'busy' : 'idle';
}

function jobOf({ id, name, phase }: JobActivity): KnownTpu['job'] {
  return { id, name, isFinished: isFinishedPhase(phase) };
}

function tpuOfJob(job: JobActivity, tpu: JobTpu): KnownTpu {
  const { readyAt: _readyAt, ...facts } = tpu;
  const { simulated } = job;
  return { ...facts, use: useOf(tpu), user: job.owner ?? '-', job: jobOf(job), simulated, row: null, checkedAt: null };
}

function tpuOfCloud(row: TpuRow, at: Instant, use: TpuUse): KnownTpu {
  const { project, zone, name, accelerator, nodeCount, pricing, state, pricePerHourUsd, simulated, owner } = row;
  const job = owner.kind === 'job' ? { id: owner.id, name: owner.name, isFinished: owner.isFinished } : null;
  return {
    project,
    zone,
    name,
    accelerator,
    chips: accelerator === null ? null : chipCount(accelerator, nodeCount),
    pricing,
    state,
    use,
    idleSinceAt: use === 'idle' && row.idleMs !== null ? at - row.idleMs : null,
    pricePerHourUsd,
    // `shared`, `orphan` and `none` are not names of people.
    user: ownerName(row) ?? owner.kind,
    job: owner.kind === 'orphan' ? { id: owner.id, name: null, isFinished: true } : job,
    // A job labels what it creates.
    ownership: row.label === null ? 'persistent' : 'ephemeral',
    simulated,
    row,
    checkedAt: at,
  };
}

/** The estimated dollars of its idle time until now; null if it is not idle or has no known price. */
export function idleCostOf({ idleSinceAt, pricePerHourUsd }: KnownTpu, now: Instant): number | null {
  return idleSinceAt === null || pricePerHourUsd === null
    ? null
    : (Math.max(0, now - idleSinceAt) / hour) * pricePerHourUsd;
}

type IdleMoney = Pick<TpuRow, 'simulated' | 'idleCostUsd' | 'idleMs' | 'pricePerHourUsd' | 'resource'>;

/** An order. A simulated TPU costs nothing. */
export function mostIdleMoneyFirst(one: IdleMoney, other: IdleMoney): number {
  return (
    Number(one.simulated) - Number(other.simulated) ||
    (other.idleCostUsd ?? 0) - (one.idleCostUsd ?? 0) ||
    (other.idleMs ?? 0) - (one.idleMs ?? 0) ||
    (other.pricePerHourUsd ?? 0) - (one.pricePerHourUsd ?? 0) ||
    // Resource names are ASCII; Intl's order would take as long as everything else here.
    compareText(one.resource, other.resource)
  );
}

/** The order of `jobman tpus`. */
export function sortKnownTpus(tpus: readonly KnownTpu[], now: Instant): readonly KnownTpu[] {
  return tpus
    .map((tpu) => {
      const idleMs = tpu.idleSinceAt === null ? null : now - tpu.idleSinceAt;
      return { ...tpu, tpu, idleMs, idleCostUsd: idleCostOf(tpu, now), resource: tpu.row?.resource ?? tpuKey(tpu) };
    })
    .toSorted(mostIdleMoneyFirst)
    .map(({ tpu }) => tpu);
}
