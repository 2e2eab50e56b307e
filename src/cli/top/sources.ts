// Sources of `top`: the store, the clouds, a cluster, and the workers, each read at its own pace. A source that fails
// keeps what it has reported before, with its time.

import type { JobActivity } from '../../app/activity.ts';
import type { Client } from '../../app/client.ts';
import { mapConcurrent, withTimeout } from '../../app/concurrency.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { formatLocalTimeOfDay } from '../../app/format.ts';
import { runsHere, topRows, workerKey, type MeasuredWorker, type TopFilter, type TopRows } from '../../app/top.ts';
import { nextCheck, type CheckedTpus } from '../../app/known-tpus.ts';
import type { FiguresAnswer, FiguresTarget } from '../../app/worker-figures.ts';
import type { QuotaRow } from '../../reports/quota.ts';
import { minute, second, type Duration, type Instant } from '../../core/model/time.ts';
import type { Cli } from '../context.ts';
import { createControllerCheck } from '../controller.ts';
import { noticeChanges } from '../../app/job-updates.ts';
import type { Jobs } from '../../app/jobs.ts';

/** The clouds are other people's servers, and TPUs come and go slowly. */
const cloudInterval: Duration = minute;
/** A busy controller changes something several times a second. */
const minReadInterval: Duration = second;
/** Workers that are measured at once, and that begin in one second: the controller's connections carry the answers. */
const maxMeasuredAtOnce = 16;
const maxStartsPerSecond = 16;
/** A list without the figures is better than a longer wait. */
const maxWaitForFirst: Duration = 12 * second;

export type TopSources = ReturnType<typeof createTopSources>;

export function createTopSources(cli: Cli, client: Client, jobs: Pick<Jobs, 'watchActivity'>, interval: Duration) {
  const store = createStoreSource(cli, client, interval);
  const clouds = createCloudSource(cli);
  const workers = createWorkerSource(cli, interval);
  let opened: ReturnType<Jobs['watchActivity']> | undefined;
  let cluster: Awaited<ReturnType<Jobs['watchActivity']>> = null;
  let revisions = '';

  async function start(): Promise<void> {
    cluster = await (opened ??= jobs.watchActivity(interval));
  }

  return {
    /** True if something is new. Throws the JobmanError of the first read of the store. */
    async poll(): Promise<boolean> {
      await start();
      await store.read();
      void clouds.read();
      workers.measureDue(store.jobs());
      const next = [store.revision(), clouds.revision(), workers.revision(), cluster?.revision ?? 0].join(' ');
      const isNew = next !== revisions;
      revisions = next;
      return isNew;
    },

    /** Waits for the jobs of the store and of the cluster, or until the time is over. */
    async readJobs(): Promise<void> {
      await start();
      await Promise.all([
        store.read(),
        withTimeout(maxWaitForFirst, cluster?.first ?? Promise.resolve(), () => undefined),
      ]);
    },

    /** Waits for one answer of each source and each worker, or until the time is over. */
    async readOnce(): Promise<void> {
      await start();
      await store.read();
      const all = [clouds.read(), cluster?.first ?? Promise.resolve(), workers.measureAll(store.jobs())];
      await withTimeout(maxWaitForFirst, Promise.all(all), () => undefined);
    },

    /** Their workers are measured before the others. */
    prefer: (jobs: readonly string[]): void => workers.prefer(jobs),

    rows: (filter: TopFilter): TopRows =>
      topRows(
        {
          jobs: store.jobs(),
          clusterJobs: cluster?.jobs() ?? [],
          workers: workers.known(),
          tpus: clouds.tpus(),
          limits: clouds.limits(),
        },
        filter,
      ),

    notes: (): readonly string[] =>
      [...store.notes(), clouds.note(), cluster?.note() ?? null].filter((note) => note !== null),

    async close(): Promise<void> {
      store.close();
      await cluster?.close();
    },
  };
}

function createStoreSource(cli: Cli, client: Client, interval: Duration) {
  const { io } = cli;
  let jobs: readonly JobActivity[] = [];
  const changes = noticeChanges(client);
  let seen = 0;
  let readAt: Instant = Number.NEGATIVE_INFINITY;
  let revision = 0;
  let note: string | null = null;
  let controller: string | null = null;
  const checkController = createControllerCheck(cli, client);
  return {
    jobs: () => jobs,
    revision: () => revision,
    notes: (): readonly (string | null)[] => [note, controller],
    close: () => changes.close(),
    async read(): Promise<void> {
      const age = io.now() - readAt;
      if (age < minReadInterval) return;
      try {
        const count = changes.count();
        if (count === seen && age < interval) return;
        jobs = await client.activity();
        seen = count;
        readAt = io.now();
        note = null;
        controller = await checkController(jobs.length > 0);
      } catch (error) {
        // Before the first jobs there is nothing to show, so fail.
        if (!(error instanceof JobmanError) || revision === 0) throw error;
        note = `jobs not updated since ${formatLocalTimeOfDay(readAt)}: ${error.message.split('\n')[0] ?? ''}`;
      }
      revision += 1;
    },
  };
}

function createCloudSource({ io, services }: Cli) {
  let tpus: CheckedTpus = { list: null, at: io.now(), message: null };
  let limits: readonly QuotaRow[] = [];
  let reading: Promise<void> | null = null;
  let nextAt: Instant = Number.NEGATIVE_INFINITY;
  let revision = 0;

  async function ask(): Promise<void> {
    try {
      const client = await services.client();
      const list = await client.tpus({});
      tpus = nextCheck(tpus, list, io.now());
      limits = await client.knownQuota(list.projects);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      // Without a project there is no cloud to ask.
      const message = error.code === exitCode.usage ? null : (error.message.split('\n')[0] ?? '');
      tpus = { ...tpus, message };
    }
    revision += 1;
    reading = null;
    nextAt = io.now() + cloudInterval;
  }

  return {
    tpus: () => tpus,
    limits: () => limits,
    revision: () => revision,
    /** Resolves when no answer is awaited any more. */
    read(): Promise<void> {
      if (reading === null && io.now() >= nextAt) reading = ask();
      return reading ?? Promise.resolve();
    },
    note(): string | null {
      const gaps = (tpus.list?.unchecked ?? []).filter(({ isEmulatorStopped }) => !isEmulatorStopped);
      const [first] = gaps;
      const since = `TPUs not updated since ${formatLocalTimeOfDay(tpus.at)}`;
      if (tpus.message !== null)
        return tpus.list === null ? `TPUs not listed: ${tpus.message}` : `${since}: ${tpus.message}`;
      if (first === undefined) return null;
      const others = gaps.length === 1 ? '' : ` and ${gaps.length - 1} more`;
      return `${first.zone ?? first.project}${others} not checked: ${first.message}`;
    },
  };
}

interface DueTarget extends FiguresTarget {
  readonly job: string;
  /** True if the worker is this machine: of a local job, or the worker `controller`. */
  readonly isHere: boolean;
}

interface KnownWorker extends MeasuredWorker {
  /** True while an answer is awaited. */
  readonly isPending: boolean;
  readonly nextAt: Instant;
}

function createWorkerSource({ io, services }: Cli, interval: Duration) {
  const known = new Map<string, KnownWorker>();
  let preferred: ReadonlySet<string> = new Set();
  let running = 0;
  let revision = 0;
  let starts: Instant[] = [];

  async function answerOf({ job, worker, attempt }: DueTarget): Promise<FiguresAnswer> {
    try {
      return await (await services.client()).workerFigures(job, { worker, attempt });
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      return { kind: 'unknown', reason: error.message };
    }
  }

  async function measure(key: string, target: DueTarget): Promise<void> {
    const before = known.get(key);
    const began = io.now();
    known.set(key, { ...(before ?? unmeasured), isPending: true, nextAt: began + interval });
    running += 1;
    try {
      const answer = await answerOf(target);
      known.set(key, {
        ...afterAnswer(before, answer, began),
        isPending: false,
        nextAt: Math.max(began + interval, io.now()),
      });
      revision += 1;
    } finally {
      running -= 1;
    }
  }

  /** The workers of running jobs. Forgets all others. */
  function currentTargets(jobs: readonly JobActivity[]): ReadonlyMap<string, DueTarget> {
    const targets = targetsOf(jobs);
    for (const key of known.keys()) if (!targets.has(key)) known.delete(key);
    return targets;
  }

  return {
    known: (): ReadonlyMap<string, MeasuredWorker> => known,
    revision: () => revision,
    prefer(ids: readonly string[]): void {
      preferred = new Set(ids);
    },

    measureDue(jobs: readonly JobActivity[]): void {
      const now = io.now();
      starts = starts.filter((at) => now - at < second);
      const due = [...currentTargets(jobs)].filter(([key]) => {
        const worker = known.get(key);
        return worker === undefined || (!worker.isPending && now >= worker.nextAt);
      });
      // Programs on this machine share one measurement.
      for (const [key, target] of due.filter(([, { isHere }]) => isHere)) void measure(key, target);
      const order = due
        .filter(([, { isHere }]) => !isHere)
        .toSorted(
          ([oneKey, one], [otherKey, other]) =>
            Number(preferred.has(other.job)) - Number(preferred.has(one.job)) ||
            (known.get(oneKey)?.nextAt ?? 0) - (known.get(otherKey)?.nextAt ?? 0),
        );
      for (const [key, target] of order) {
        if (running >= maxMeasuredAtOnce || starts.length >= maxStartsPerSecond) break;
        starts.push(now);
        void measure(key, target);
      }
    },

    async measureAll(jobs: readonly JobActivity[]): Promise<void> {
      const targets = [...currentTargets(jobs)];
      const here = targets.filter(([, { isHere }]) => isHere);
      const remote = targets.filter(([, { isHere }]) => !isHere);
      await Promise.all([
        ...here.map(([key, target]) => measure(key, target)),
        mapConcurrent(remote, maxMeasuredAtOnce, ([key, target]) => measure(key, target)),
      ]);
    },
  };
}

function targetsOf(jobs: readonly JobActivity[]): ReadonlyMap<string, DueTarget> {
  const targets = new Map<string, DueTarget>();
  for (const job of jobs.filter(({ isRunning }) => isRunning)) {
    const attempt = { job: job.id, attempt: job.attempt, isHere: runsHere(job) };
    for (const { worker } of job.workers) targets.set(workerKey(job, worker), { ...attempt, worker });
  }
  return targets;
}

/** A failure keeps the figures of the last answer, and their time. `began`: start of the measurement. */
function afterAnswer(before: MeasuredWorker | undefined, answer: FiguresAnswer, began: Instant): MeasuredWorker {
  return answer.kind === 'known'
    ? { figures: answer.figures, measuredAt: answer.at, silentSinceAt: null, message: null }
    : {
        figures: before?.figures ?? null,
        measuredAt: before?.measuredAt ?? null,
        silentSinceAt: before?.silentSinceAt ?? before?.measuredAt ?? began,
        message: answer.reason,
      };
}

const unmeasured: MeasuredWorker = { figures: null, measuredAt: null, silentSinceAt: null, message: null };
