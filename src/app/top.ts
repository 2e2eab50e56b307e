// Top: what is used, by whom, and what each job and worker does now, as rows for the terminal and for JSON. Pure: the
// caller passes what it has read, with the time of each reading.

import { generationOf } from '../catalogue/accelerators.ts';
import { isOwnHost, type WorkerId } from '../core/model/spec.ts';
import { compareText } from '../core/model/compare-text.ts';
import { earliest, type Instant } from '../core/model/time.ts';
import type { JobActivity } from './activity.ts';
import type { QuotaRow } from '../reports/quota.ts';
import type { JobRow } from './client.ts';
import { gapIn, knownTpus, type CheckedTpus, type KnownTpu, type TpuUse } from './known-tpus.ts';
import { unknownFigures, type MachineFigures, type WorkerFigures } from './worker-figures.ts';

/** The TPUs of one generation in a zone. Numbers are chips; null if the size of one TPU is not known. */
export interface TopZone {
  readonly kind: 'zone';
  readonly project: string;
  readonly zone: string;
  /** `v5e`; the accelerator type if jobman does not know its generation. Null if the cloud does not report it. */
  readonly generation: string | null;
  /** The quotas of all pricings together, as `jobman quota` or `create` has read them last; null without any. */
  readonly limitChips: number | null;
  /** Time at which they were read; null without any. */
  readonly limitReadAt: Instant | null;
  /** Of the TPUs that exist, including those of other people. */
  readonly heldChips: number | null;
  /** Of the TPUs on which a command of a job runs. */
  readonly busyChips: number | null;
  /** Of the TPUs that are ready without a command of jobman. */
  readonly idleChips: number | null;
  /** Time since which the longest-idle TPU has been idle; null without an idle TPU. */
  readonly idleSinceAt: Instant | null;
  /** Of the requests that wait. */
  readonly waitingChips: number | null;
  /** Of the TPUs that the cloud has taken or deletes. They count against the quota until they are deleted. */
  readonly endedChips: number | null;
  /** Of the TPUs with the label of this installation that no job claims. */
  readonly orphanChips: number | null;
  /** Chips that exist, by owner, the largest number first. */
  readonly users: readonly { readonly user: string; readonly chips: number | null }[];
  readonly simulated: boolean;
  /**
   * Time of the cloud's list, of an earlier one if the cloud does not answer now; null if it has never answered, so that the
   * row has only the TPUs of the jobs.
   */
  readonly checkedAt: Instant | null;
  /** The reason why the cloud's list is missing or old; null otherwise. */
  readonly message: string | null;
}

/** The fields that a job has in `list`, too. */
type SharedFields =
  | 'id'
  | 'name'
  | 'owner'
  | 'backend'
  | 'accelerator'
  | 'pricing'
  | 'zone'
  | 'phase'
  | 'createdAt'
  | 'phaseStartedAt'
  | 'tags'
  | 'attempt'
  | 'simulated';

/** An active job. Figures are of its workers that answered: the mean of CPU and duty, the largest of memory and disk, the sum of the network. */
export interface TopJob extends Pick<JobRow, SharedFields> {
  readonly kind: 'job';
  /** The reason for the phase; if workers do not answer, which ones and why. */
  readonly message: string;
  /** Number of workers or pods of the newest attempt; 0 before its command runs. */
  readonly workerCount: number;
  /** Number of those whose program runs and that answered last time; null before all have been asked. */
  readonly runningCount: number | null;
  /** Number of those whose program has exited. */
  readonly exitedCount: number;
  /** Time of the newest output of the worker that has printed nothing for the longest time, of those that have not exited; null without output. */
  readonly logAt: Instant | null;
  /** The newest line of that worker; null without output. */
  readonly lastLine: string | null;
  readonly cpuPercent: number | null;
  readonly memoryPercent: number | null;
  readonly diskPercent: number | null;
  readonly receivedBytesPerSecond: number | null;
  readonly sentBytesPerSecond: number | null;
  readonly dutyPercent: number | null;
  /** The count of the slowest worker in the program's own output, for example its step; null without one. */
  readonly step: number | null;
  readonly stepsPerSecond: number | null;
  /** Time since which its TPU is ready without a command; null while it is in use or not ready. */
  readonly idleSinceAt: Instant | null;
  /** Time of the oldest of these figures; null without any. */
  readonly measuredAt: Instant | null;
}

/** A worker of a job, or a pod. */
export interface TopWorker extends MachineFigures {
  readonly kind: 'worker';
  readonly job: string;
  readonly worker: WorkerId | null;
  readonly pod: string | null;
  /** The address of the worker, or the node of the pod; null while it is not known. */
  readonly host: string | null;
  /** `running`, `exited` or `absent`: the program on the worker. For a pod its phase. Null if it was never measured. */
  readonly state: string | null;
  /** Number of restarts of the pod; null on a worker. */
  readonly restarts: number | null;
  readonly logAt: Instant | null;
  readonly lastLine: string | null;
  /** Time of these figures; null without any. */
  readonly measuredAt: Instant | null;
  /** Time since which it does not answer; null while it answers. */
  readonly silentSinceAt: Instant | null;
  /** The reason why it does not answer; null while it answers. */
  readonly message: string | null;
}

/** A TPU that exists without an active job. */
export interface TopTpu {
  readonly kind: 'tpu';
  readonly project: string;
  readonly zone: string;
  readonly name: string;
  readonly accelerator: string | null;
  /** Google's state. */
  readonly state: string;
  readonly user: string;
  readonly idleSinceAt: Instant | null;
  readonly pricePerHourUsd: number | null;
  readonly simulated: boolean;
}

export type TopRow = TopZone | TopJob | TopWorker | TopTpu;

/** The last figures of a worker, which stay while it does not answer. */
export interface MeasuredWorker {
  readonly figures: WorkerFigures | null;
  readonly measuredAt: Instant | null;
  readonly silentSinceAt: Instant | null;
  readonly message: string | null;
}

/** A job of a cluster with its pods, as rows without an order. */
export interface ClusterActivity {
  readonly row: JobRow;
  readonly pods: readonly TopWorker[];
}

export interface TopInput {
  readonly jobs: readonly JobActivity[];
  readonly clusterJobs: readonly ClusterActivity[];
  /** By `workerKey`. */
  readonly workers: ReadonlyMap<string, MeasuredWorker>;
  readonly tpus: CheckedTpus;
  /** Rows of `quota` with the limits that were read last. Only their limits are used. */
  readonly limits: readonly QuotaRow[];
}

export interface TopFilter {
  readonly user?: string;
  readonly zone?: string;
  readonly tag?: string;
  /** Ids, or names of jobs in a cluster; then there are no rows for zones and for TPUs without a job. */
  readonly jobs?: readonly string[];
}

export interface TopRows {
  readonly zones: readonly TopZone[];
  readonly jobs: readonly TopJob[];
  readonly tpus: readonly TopTpu[];
  /** By job. */
  readonly workers: ReadonlyMap<string, readonly TopWorker[]>;
}

/** Identifies one attempt on one worker: figures of an earlier attempt say nothing about this one. */
export function workerKey({ id, attempt }: Pick<JobRow, 'id' | 'attempt'>, worker: WorkerId): string {
  return `${id}/${attempt}/${worker}`;
}

/** True if the program runs on this machine, with other programs. */
export function runsHere({ hosts, workers }: Pick<JobActivity, 'hosts' | 'workers'>): boolean {
  return isOwnHost(hosts) || workers.some(({ worker }) => worker === 'controller');
}

export function topRows(input: TopInput, filter: TopFilter): TopRows {
  const isWanted = (row: JobRow): boolean =>
    (filter.user === undefined || row.owner === filter.user) &&
    (filter.zone === undefined || row.zone === filter.zone) &&
    (filter.tag === undefined || row.tags.includes(filter.tag)) &&
    (filter.jobs === undefined || filter.jobs.includes(row.id));
  const stored = input.jobs.filter(isWanted).map((job) => storedRows(job, input.workers));
  const clustered = input.clusterJobs
    .filter(({ row }) => isWanted(row))
    .map(({ row, pods }) => ({ job: jobRow(row, pods), workers: pods }));
  const all = [...stored, ...clustered].toSorted((one, other) => other.job.createdAt - one.job.createdAt);
  const showsCloud = filter.jobs === undefined && filter.tag === undefined;
  const known = showsCloud ? knownTpus(input.jobs, input.tpus) : [];
  return {
    zones: topZones(known, input).filter(({ zone }) => filter.zone === undefined || zone === filter.zone),
    jobs: all.map(({ job }) => job),
    tpus: tpuRows(known, filter),
    workers: new Map(all.map(({ job, workers }) => [job.id, workers])),
  };
}

// ---------------------------------------------------------------------------------------------- zones

/** `known`: the TPUs of all jobs and of the list. Zones without one have no row. */
export function topZones(
  known: readonly KnownTpu[],
  { tpus, limits }: Pick<TopInput, 'tpus' | 'limits'>,
): readonly TopZone[] {
  const groups = Map.groupBy(known, ({ project, zone, accelerator }) =>
    JSON.stringify([project, zone, generationName(accelerator)]),
  );
  const rows = [...groups.values()].map((group): TopZone => {
    const [{ project, zone, accelerator, simulated }] = group as [KnownTpu];
    const generation = generationName(accelerator);
    const quotas = limits.filter(
      (one) =>
        one.project === project && one.zone === zone && one.generation === generation && one.limitState === 'limited',
    );
    const gap = gapIn(tpus, { project, zone });
    const chipsOf = (...uses: readonly TpuUse[]): number | null =>
      sumChips(group.filter(({ use }) => uses.includes(use)));
    const existing = group.filter(({ use }) => use !== 'waiting' && use !== 'ended');
    return {
      kind: 'zone',
      project,
      zone,
      generation,
      limitChips: sum(quotas.map(({ limitChips }) => limitChips)),
      limitReadAt: earliestOf(quotas.map(({ limitReadAt }) => limitReadAt)),
      heldChips: chipsOf('busy', 'idle', 'held'),
      busyChips: chipsOf('busy'),
      idleChips: chipsOf('idle'),
      idleSinceAt: earliestOf(group.map(({ idleSinceAt }) => idleSinceAt)),
      waitingChips: chipsOf('waiting'),
      endedChips: chipsOf('ended'),
      orphanChips: sumChips(existing.filter(({ row }) => row?.owner.kind === 'orphan')),
      users: [...Map.groupBy(existing, ({ user }) => user)]
        .map(([user, of]) => ({ user, chips: sumChips(of) }))
        .toSorted((one, other) => (other.chips ?? 0) - (one.chips ?? 0) || compareText(one.user, other.user)),
      simulated,
      checkedAt: gap === undefined ? tpus.at : earliestOf(group.map(({ checkedAt }) => checkedAt)),
      message: gap ?? tpus.message,
    };
  });
  return rows.toSorted(
    (one, other) =>
      Number(one.simulated) - Number(other.simulated) ||
      compareText(one.zone, other.zone) ||
      compareText(one.generation ?? '', other.generation ?? '') ||
      compareText(one.project, other.project),
  );
}

/** `bob 64, alice 32`: the owners of the chips that exist. */
export function formatZoneUsers({ users }: Pick<TopZone, 'users'>): string {
  return users.length === 0 ? '-' : users.map(({ user, chips }) => `${user} ${chips ?? '?'}`).join(', ');
}

function generationName(accelerator: string | null): string | null {
  return accelerator === null ? null : (generationOf(accelerator)?.name ?? accelerator);
}

function sumChips(tpus: readonly { readonly chips: number | null }[]): number | null {
  return tpus.reduce<number | null>((sum, { chips }) => (sum === null || chips === null ? null : sum + chips), 0);
}

/** The TPUs without a job. */
function tpuRows(known: readonly KnownTpu[], { user, zone }: TopFilter): readonly TopTpu[] {
  return known.flatMap((tpu): readonly TopTpu[] => {
    const { row, use } = tpu;
    if (row === null || row.nodeState === null || use === 'ended') return [];
    // A TPU that belonged to a job in the list, and does not now, is being released.
    if (tpu.job !== null && row.owner.kind !== 'orphan') return [];
    if ((user !== undefined && tpu.user !== user) || (zone !== undefined && tpu.zone !== zone)) return [];
    const { project, name, accelerator, idleSinceAt, pricePerHourUsd, simulated } = tpu;
    const node = { project, zone: tpu.zone, name, accelerator, state: row.state };
    return [{ kind: 'tpu', ...node, user: tpu.user, idleSinceAt, pricePerHourUsd, simulated }];
  });
}

// ---------------------------------------------------------------------------------------------- jobs and workers

interface StoredRows {
  readonly job: TopJob;
  readonly workers: readonly TopWorker[];
}

/** A cache: the rows of a job are made again only if the job or one of its workers is a new object. */
const madeRows = new WeakMap<JobActivity, StoredRows & { readonly from: readonly (MeasuredWorker | undefined)[] }>();

function storedRows(job: JobActivity, measured: TopInput['workers']): StoredRows {
  const from = job.workers.map(({ worker }) => measured.get(workerKey(job, worker)));
  const made = madeRows.get(job);
  if (made !== undefined && from.every((one, index) => one === made.from[index])) return made;
  const workers = job.workers.map((worker, index) => workerRow(job, worker, from[index]));
  const rows = { job: storedJobRow(job, workers), workers, from };
  madeRows.set(job, rows);
  return rows;
}

function storedJobRow(job: JobActivity, workers: readonly TopWorker[]): TopJob {
  const { step, stepsPerSecond, tpus } = job;
  const idleSinceAt = earliestOf(tpus.map((tpu) => tpu.idleSinceAt));
  return { ...jobRow(job, workers), step, stepsPerSecond, idleSinceAt };
}

function jobRow(row: JobRow, workers: readonly TopWorker[]): TopJob {
  const { id, name, owner, backend, accelerator, pricing, zone, phase, tags, attempt } = row;
  const left = workers.filter((worker) => !hasExited(worker));
  const [oldest] = (left.length === 0 ? workers : left)
    .filter(({ logAt }) => logAt !== null)
    .toSorted((one, other) => (one.logAt ?? 0) - (other.logAt ?? 0));
  return {
    kind: 'job',
    id,
    name,
    owner,
    backend,
    accelerator,
    pricing,
    zone,
    phase,
    createdAt: row.createdAt,
    phaseStartedAt: row.phaseStartedAt,
    message: formatSilent(workers) ?? row.message,
    tags,
    attempt,
    workerCount: workers.length,
    runningCount: workers.some(({ state, silentSinceAt }) => state === null && silentSinceAt === null)
      ? null
      : workers.filter(({ state, silentSinceAt }) => state?.toLowerCase() === 'running' && silentSinceAt === null)
          .length,
    exitedCount: workers.length - left.length,
    logAt: oldest?.logAt ?? null,
    lastLine: oldest?.lastLine ?? null,
    cpuPercent: mean(workers.map(({ cpuPercent }) => cpuPercent)),
    memoryPercent: largest(workers.map((worker) => percentOf(worker.memoryUsedBytes, worker.memoryTotalBytes))),
    diskPercent: largest(workers.map((worker) => percentOf(worker.diskUsedBytes, worker.diskTotalBytes))),
    receivedBytesPerSecond: sum(workers.map(({ receivedBytesPerSecond }) => receivedBytesPerSecond)),
    sentBytesPerSecond: sum(workers.map(({ sentBytesPerSecond }) => sentBytesPerSecond)),
    dutyPercent: mean(workers.map(({ dutyPercent }) => dutyPercent)),
    step: null,
    stepsPerSecond: null,
    idleSinceAt: null,
    measuredAt: earliestOf(workers.map(({ measuredAt }) => measuredAt)),
    simulated: row.simulated,
  };
}

/** `exited`: a program on a worker; `succeeded`: a pod. */
function hasExited({ state, silentSinceAt }: TopWorker): boolean {
  return silentSinceAt === null && ['exited', 'succeeded'].includes(state?.toLowerCase() ?? '');
}

function formatSilent(workers: readonly TopWorker[]): string | undefined {
  const silent = workers.filter(({ silentSinceAt }) => silentSinceAt !== null);
  const [first] = silent;
  if (first === undefined) return undefined;
  const names = silent.map(({ worker }) => worker).join(', ');
  return `${silent.length === 1 ? 'worker' : 'workers'} ${names} silent: ${first.message ?? 'no answer'}`;
}

function workerRow(
  job: JobActivity,
  { worker, address, logAt, lastLine }: JobActivity['workers'][number],
  measured: MeasuredWorker | undefined,
): TopWorker {
  const { program = null, ...figures } = measured?.figures ?? { ...unknownFigures, program: undefined };
  const { programCpuPercent, programMemoryBytes } = figures;
  return {
    kind: 'worker',
    job: job.id,
    worker,
    pod: null,
    host: address,
    state: program,
    restarts: null,
    logAt,
    lastLine,
    ...figures,
    // Other programs use this machine, too.
    ...(runsHere(job) ? { cpuPercent: programCpuPercent, memoryUsedBytes: programMemoryBytes } : {}),
    measuredAt: measured?.measuredAt ?? null,
    silentSinceAt: measured?.silentSinceAt ?? null,
    message: measured?.message ?? null,
  };
}

/** With one decimal; null if one of the two is not known. */
export function percentOf(used: number | null, total: number | null): number | null {
  return used === null || total === null || total <= 0 ? null : oneDecimal((100 * used) / total);
}

function oneDecimal(value: number): number {
  return Math.round(10 * value) / 10;
}

type Numbers = readonly (number | null)[];

function known(values: Numbers): readonly number[] {
  return values.filter((value) => value !== null);
}

function sum(values: Numbers): number | null {
  const all = known(values);
  return all.length === 0 ? null : all.reduce((total, value) => total + value, 0);
}

function mean(values: Numbers): number | null {
  const total = sum(values);
  return total === null ? null : oneDecimal(total / known(values).length);
}

function largest(values: Numbers): number | null {
  const all = known(values);
  return all.length === 0 ? null : Math.max(...all);
}

function earliestOf(values: Numbers): Instant | null {
  return earliest(...known(values)) ?? null;
}
