// The logs of a cluster's job, as its source gives them to a reader: from the cluster, or from the archive for pods that
// the cluster has deleted. Pods appear and disappear meanwhile, so following checks the job until it has finished and no
// log is left to read.

import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { second, type Duration, type Instant } from '../../core/model/time.ts';
import type { Client, LogPart } from '../client.ts';
import { createBell, pause } from '../concurrency.ts';
import { exitCode, JobmanError, usageError } from '../errors.ts';
import { pluralize } from '../format.ts';
import { requireSupported, type JobLog, type LogsQuery, type LogStep } from '../job-source.ts';
import { createTailBuffer, withoutTimestamps } from './archived-lines.ts';
import type { Cluster, ClusterLogQuery } from './cluster.ts';
import type { ClusterContainer, ClusterJob, ClusterPod } from './objects.ts';
import type { ClusterParts, ClusterRecord } from './cluster-record.ts';
import { clusterPhase, clusterResult, formatRestarted, isClusterFinished } from './job-result.ts';
import { chooseContainer, mainContainer, observeJob, podsOf } from './observe-job.ts';

/** The logs of one source. `readLog` knows the logs that `logs` has named. */
export function createClusterLogs(parts: Pick<ClusterParts, 'io' | 'client' | 'clusterSubmissions'>) {
  const readers = new Map<string, LogReader>();

  async function* logs(
    record: ClusterRecord,
    explain: () => Promise<string>,
    query: LogsQuery,
    signal: AbortSignal,
  ): AsyncGenerator<LogStep> {
    requireSupported(query, 'cluster');
    if (query.allContainers === true && query.container !== undefined)
      throw usageError('--container names one container, and --all-containers means all: use only one of the two.');
    const { cluster, archived, job } = record;
    const isLive = archived === null && cluster !== null;
    if (query.previous === true && !isLive) {
      throw new JobmanError(
        'The archive does not separate the output before a restart of the container.',
        exitCode.notFound,
      );
    }
    const reading: LogReading = {
      job,
      query,
      now: () => parts.io.now(),
      signal,
      copies: createCopies(await parts.client(), (await parts.clusterSubmissions()).isUsed, job, query, !isLive),
      open(pod, container, pieces, options) {
        const id = `${pod.name}/${container}`;
        const reader = createReader(pieces, options);
        readers.set(`${job.uid} ${id}`, reader);
        const names = [
          ...(options.isLabelled ? [podLabel(pod)] : []),
          ...(query.allContainers === true ? [container] : []),
        ];
        const label =
          names.length === 0
            ? null
            : names.length === 1 && names[0] === String(pod.index)
              ? pod.index
              : names.join('/');
        const log: JobLog = {
          job: job.name,
          id,
          label,
          worker: pod.index,
          attempt: null,
          pod: { name: pod.name, container },
          from: 0,
          isNew: false,
          isSequential: options.isRepeatable !== true,
        };
        return { log, reader };
      },
    };
    if (query.follow === true && isLive) yield* followLogs(reading, cluster);
    else yield* printLogs(reading, isLive ? cluster : null, explain);
  }

  return {
    logs,
    async readLog({ job }: ClusterRecord, id: string, from: number, maxBytes: number): Promise<LogPart> {
      const reader = readers.get(`${job.uid} ${id}`);
      if (reader === undefined || !(await reader.moveTo(from)))
        throw new JobmanError(`Job ${job.name} has no log ${id} that is read at byte ${from}.`, exitCode.notFound);
      const bytes = await reader.read(maxBytes);
      return { bytes, from, end: Math.max(from, reader.position()), isComplete: reader.isEnded() };
    },
  };
}

type PodName = Pick<ClusterPod, 'name' | 'index'>;

interface OpenOptions {
  /** True if several pods are shown, so that each line begins with its pod. */
  readonly isLabelled: boolean;
  /** A read does not wait for bytes, but calls back when it has some. */
  readonly onChange?: () => void;
  /** True if an empty piece is where the log ends at the beginning; reads wait until then. */
  readonly reportsEnd?: boolean;
  /** True if `pieces` begins again at each call. */
  readonly isRepeatable?: boolean;
}

interface OpenLog {
  readonly log: JobLog;
  readonly reader: LogReader;
}

interface LogReading {
  readonly job: ClusterJob;
  readonly query: LogsQuery;
  readonly now: () => Instant;
  readonly signal: AbortSignal;
  readonly copies: ReturnType<typeof createCopies>;
  open(pod: PodName, container: string, pieces: () => AsyncIterable<Uint8Array>, options: OpenOptions): OpenLog;
}

type LogReader = ReturnType<typeof createReader>;

const noBytes: Uint8Array = new Uint8Array();

/** Holds one piece at a time, so that a slow reader slows the cluster. */
function createReader(
  pieces: () => AsyncIterable<Uint8Array>,
  { onChange, reportsEnd = false, isRepeatable = false }: OpenOptions,
) {
  let iterator = pieces()[Symbol.asyncIterator]();
  let hasReachedEnd = !reportsEnd;
  let rest = noBytes;
  let position = 0;
  let isEnded = false;
  let failure: unknown;
  let next: Promise<void> | null = null;

  async function advance(): Promise<void> {
    try {
      const piece = await iterator.next();
      if (piece.done === true) isEnded = true;
      else if (piece.value.length === 0) hasReachedEnd = true;
      else rest = piece.value;
    } catch (error) {
      isEnded = true;
      failure = error;
    }
    next = null;
    onChange?.();
  }

  async function read(maxBytes: number): Promise<Uint8Array> {
    if (rest.length === 0 && !isEnded) {
      next ??= advance();
      const mayWait = onChange === undefined || !hasReachedEnd;
      if (mayWait) await next;
      // The failure of a followed log is reported by the one who follows it.
      if (failure !== undefined && onChange === undefined) throw failure;
    }
    const bytes = rest.subarray(0, maxBytes);
    rest = rest.subarray(bytes.length);
    position += bytes.length;
    return bytes;
  }

  const close = (): void => void iterator.return?.().catch(() => undefined);

  return {
    position: () => position,
    /** The next read begins there, or at the end of a shorter log. False for another offset of a log that is read once. */
    async moveTo(offset: number): Promise<boolean> {
      if (!isRepeatable) return offset === position;
      if (offset < position) {
        close();
        iterator = pieces()[Symbol.asyncIterator]();
        [rest, position, isEnded] = [noBytes, 0, false];
      }
      while (position < offset && !(isEnded && rest.length === 0)) await read(offset - position);
      return true;
    },
    /** False while a piece is awaited, and before the first. */
    isEnded: () => isEnded && rest.length === 0,
    failure: () => failure,
    read,
    close,
  };
}

/** Without a number the end of the pod's name, which is different for each pod. */
function podLabel({ name, index }: PodName): string {
  return index === null ? name.slice(name.lastIndexOf('-') + 1) : String(index);
}

// ------------------------------------------------------------------------------------------ once

/** `cluster` is null for a job of which only the archive has a copy. */
async function* printLogs(
  reading: LogReading,
  cluster: Cluster | null,
  explain: () => Promise<string>,
): AsyncGenerator<LogStep> {
  const { job, query, copies } = reading;
  const all = cluster === null ? [] : await podsOf(cluster, job);
  const pods = selectedPods(all, query);
  // A single pod is the newest one, and deleted pods are older. With all pods, deleted ones come first.
  const gone = query.allPods === true || pods.length === 0 ? await copies.deletedPods(all) : [];
  const shownGone = query.allPods === true ? gone : gone.slice(-1);
  if (pods.length + gone.length === 0 && query.worker !== undefined && all.length > 0) {
    throw new JobmanError(`Job ${job.name} has no pod ${query.worker}.`, exitCode.notFound, [
      formatPodNumbers(job, all),
    ]);
  }
  const count = pods.length + shownGone.length;
  const isLabelled = count > 1 || job.parallelism > 1;
  let isSilent = true;
  async function* shown(opened: AsyncIterable<LogStep | OpenLog> | Iterable<OpenLog>): AsyncGenerator<LogStep> {
    for await (const one of opened) {
      if ('kind' in one) yield one;
      else yield { kind: 'logs', logs: [one.log], isNext: true };
      if ('reader' in one && one.reader.position() > 0) isSilent = false;
    }
  }
  for (const name of shownGone) yield* shown(copies.open(reading, name, { isLabelled }));
  for (const pod of pods) {
    for (const container of yield* containersOf(pod, query)) {
      if (query.previous === true && container.restarts === 0) {
        if (query.allContainers === true) continue;
        throw new JobmanError(
          `The container ${container.name} of ${pod.name} was never restarted, so it has no previous log.`,
          exitCode.notFound,
        );
      }
      if (cluster === null || (container.state === 'waiting' && query.previous !== true)) continue;
      const pieces = () => cluster.logs(pod.name, container.name, clusterQueryOf(query));
      const opened = reading.open(pod, container.name, pieces, { isLabelled });
      yield* shown([opened]);
      // The kubelet has deleted the log of an evicted pod.
      if (opened.reader.position() === 0 && hasPodEnded(pod))
        yield* shown(copies.open(reading, pod.name, { isLabelled }, container.name));
      if (query.previous !== true && container.restarts > 0) {
        // The node keeps the previous log only while the pod exists and can run.
        const hint = hasPodEnded(pod) ? '' : ' What it printed before that: --previous.';
        yield note(`${formatRestart(pod, container)}${hint}`);
      }
    }
  }
  // The newest pod has not printed yet, and the previous pod is deleted.
  if (isSilent && pods.length > 0 && query.allPods !== true) {
    for (const name of (await copies.deletedPods(all)).slice(-1))
      yield* shown(copies.open(reading, name, { isLabelled }));
  }
  if (all.length + gone.length > count) {
    const pod = pods[0]?.name ?? shownGone[0] ?? 'none';
    const counted = `${cluster === null ? 'had' : 'has'} ${pluralize(all.length + gone.length, 'pod')}`;
    yield note(`${job.name} ${counted}; this is ${pod}. --all-pods shows all.`);
  }
  if (isSilent)
    yield note(`${cluster === null ? 'The archive has no log.' : 'Nothing was printed.'} ${await explain()}`);
}

function note(message: string): LogStep {
  return { kind: 'note', message };
}

/** The archived logs of one job, read when needed. */
function createCopies(client: Client, isUsed: boolean, { uid }: ClusterJob, query: LogsQuery, isNoted: boolean) {
  let hasNoted = isNoted;
  const read = async () => {
    const archived = isUsed && query.previous !== true ? await client.archivedJob(uid) : null;
    return { pods: archived?.pods ?? [], logs: archived === null ? [] : await client.archivedLogs(uid) };
  };
  let copies: ReturnType<typeof read> | undefined;
  const load = () => (copies ??= read());
  const { tail, since } = query;
  const timestamps = query.timestamps === true ? true : undefined;
  return {
    /** Names of pods with archived logs that the cluster no longer has, oldest first. */
    async deletedPods(existing: readonly ClusterPod[]): Promise<readonly string[]> {
      const { pods, logs } = await load();
      const wanted = logs.filter(({ container }) => query.container === undefined || container === query.container);
      const names = new Set([...pods.map(({ name }) => name), ...wanted.map(({ pod }) => pod)]);
      return [...names].filter(
        (name) =>
          !existing.some((pod) => pod.name === name) &&
          wanted.some(({ pod }) => pod === name) &&
          (query.worker === undefined || pods.some((pod) => pod.name === name && pod.index === query.worker)),
      );
    },
    /** Without a name, the container that jobman creates. Nothing if the archive has no such log. */
    async *open(
      reading: LogReading,
      name: string,
      options: OpenOptions,
      container = query.container,
    ): AsyncGenerator<LogStep | OpenLog> {
      const { pods, logs } = await load();
      const pod = pods.find((one) => one.name === name);
      const all = logs.filter((log) => log.pod === name);
      const main = mainContainer(pod?.containers ?? [])?.name ?? all[0]?.container;
      const wanted = container ?? (query.allContainers === true ? undefined : main);
      const chosen = wanted === undefined ? all : all.filter((log) => log.container === wanted);
      if (chosen.length === 0) return;
      if (!hasNoted) yield note('The cluster no longer has this log; this is from the archive.');
      hasNoted = true;
      for (const log of chosen) {
        const { state, ...named } = log;
        const pieces = () => client.readArchivedLog(uid, named, omitUndefined({ tail, since, timestamps }));
        const index = pod?.index ?? null;
        yield reading.open({ name, index }, log.container, pieces, { ...options, isRepeatable: true });
        if (state === 'truncated')
          yield note(`Pod ${name} was deleted before the end of the output of ${log.container} was archived.`);
      }
      if (container === undefined && chosen.length < all.length) {
        const names = all.map((log) => log.container).join(', ');
        yield note(`${name} had several containers (${names}); this is ${main}. --container chooses another.`);
      }
    },
  };
}

/** The choice of one container is reported. */
function* containersOf(
  pod: ClusterPod,
  { container, allContainers }: LogsQuery,
): Generator<LogStep, readonly ClusterContainer[]> {
  if (allContainers === true) return pod.containers;
  const chosen = chooseContainer(pod, container);
  if (chosen.note !== null) yield note(chosen.note);
  return [chosen.container];
}

function isReadable({ containers, phase }: ClusterPod): boolean {
  return phase !== 'Pending' || containers.some(({ state }) => state !== 'waiting');
}

function selectedPods(pods: readonly ClusterPod[], { allPods, worker }: LogsQuery): readonly ClusterPod[] {
  if (allPods === true) return pods;
  const wanted = worker === undefined ? pods : pods.filter(({ index }) => index === worker);
  return wanted.slice(-1);
}

function formatPodNumbers({ completions, parallelism }: ClusterJob, pods: readonly ClusterPod[]): string {
  const numbers = pods.flatMap(({ index }) => index ?? []);
  if (numbers.length === 0) return 'Its pods have no numbers. --all-pods shows all.';
  return `Its pods are 0 to ${(completions ?? parallelism) - 1}; so far there are ${new Set(numbers).size} of them.`;
}

function hasPodEnded({ phase }: ClusterPod): boolean {
  return phase === 'Succeeded' || phase === 'Failed';
}

function clusterQueryOf({ previous, tail, since, timestamps }: LogsQuery): ClusterLogQuery {
  return omitUndefined({ previous, tail, since, timestamps });
}

function formatRestart(pod: ClusterPod, container: ClusterContainer): string {
  return `In ${pod.name}, ${formatRestarted(container, pod) ?? 'nothing was restarted'}.`;
}

// ------------------------------------------------------------------------------------------ followed

/** `first`: after a change. Each check lists the job's pods. */
const checkInterval: { readonly first: Duration; readonly max: Duration } = { first: second, max: 5 * second };
const maxFollowed = 100;
/** Failed attempts to open one container's log, a second apart. */
const maxMisses = 5;

interface FollowedLog extends OpenLog {
  readonly key: string;
  readonly pod: ClusterPod;
  readonly container: ClusterContainer;
}

/** A recreated Job or a replacement pod has another uid. */
function keyOf({ uid }: ClusterPod, { name }: ClusterContainer): string {
  return `${uid} ${name}`;
}

/** The logs that are open or were open. `ring` is called when one has more bytes, an end or a note. */
function createFollowedLogs(reading: LogReading, cluster: Cluster, isLabelled: boolean, ring: () => void) {
  const { query, copies, signal } = reading;
  const { reportsEnd = false } = query;
  const taken = new Set<string>();
  const open = new Set<FollowedLog>();
  /** Logs that could not be opened, until the next try. */
  const waiting = new Set<string>();
  const misses = new Map<string, number>();
  const restarted = new Map<string, number>();
  let notes: string[] = [];
  let hasReportedMany = false;

  function follow(pod: ClusterPod, container: ClusterContainer): JobLog {
    const key = keyOf(pod, container);
    taken.add(key);
    const followed: ClusterLogQuery = {
      ...clusterQueryOf(query),
      follow: true,
      signal,
      onLost(why) {
        notes.push(why === null ? 'The cluster answers again.' : `The cluster does not answer (${why}); still trying.`);
        ring();
      },
    };
    const pieces = () =>
      reportsEnd
        ? endReportingLog(cluster, pod.name, container.name, followed)
        : cluster.logs(pod.name, container.name, followed);
    const opened = reading.open(pod, container.name, pieces, { isLabelled, reportsEnd, onChange: ring });
    open.add({ ...opened, key, pod, container });
    return opened.log;
  }

  async function* shownCopies(name: string, container?: string): AsyncGenerator<LogStep> {
    for await (const one of copies.open(reading, name, { isLabelled }, container))
      yield 'kind' in one ? one : { kind: 'logs', logs: [one.log], isNext: false };
  }

  /** A log that has printed nothing may be opened again; the logs of other pods continue meanwhile. */
  async function* endOf({ key, pod, container, reader }: FollowedLog): AsyncGenerator<LogStep> {
    const error = reader.failure();
    if (error === undefined) return;
    if (!(error instanceof JobmanError) || reader.position() > 0) throw error;
    if (error.code === exitCode.notFound) {
      // The pod was listed, and deleted before its log was opened.
      const steps = await Array.fromAsync(shownCopies(pod.name, container.name));
      yield* steps;
      if (steps.length === 0) yield note(`${pod.name} was deleted before its log was read.`);
      return;
    }
    const times = (misses.get(key) ?? 0) + 1;
    misses.set(key, times);
    if (error.code !== exitCode.unreachable || times >= maxMisses) throw error;
    if (times === 1) yield note(`${error.message} Still trying.`);
    waiting.add(key);
    void pause(second, signal).then(() => {
      waiting.delete(key);
      taken.delete(key);
      ring();
    });
  }

  return {
    isIdle: (): boolean => open.size + waiting.size === 0,
    hasTaken: (): boolean => taken.size > 0,
    isTaken: (pod: ClusterPod, container: ClusterContainer): boolean => taken.has(keyOf(pod, container)),
    shownCopies,
    /** Opens as many logs as may be open. A waiting log is lost only if its pod is deleted. */
    *open(wanted: readonly (readonly [ClusterPod, ClusterContainer])[]): Generator<LogStep> {
      const room = Math.max(0, maxFollowed - open.size - waiting.size);
      if (wanted.length > room && !hasReportedMany) {
        hasReportedMany = true;
        yield note(`${reading.job.name}: ${maxFollowed} logs are followed at a time; the others start when these end.`);
      }
      const logs = wanted.slice(0, room).map((pair) => follow(...pair));
      if (logs.length > 0) yield { kind: 'logs', logs, isNext: false };
    },
    *restarts(pods: readonly ClusterPod[]): Generator<LogStep> {
      for (const pod of pods) {
        for (const container of pod.containers.filter((one) => taken.has(keyOf(pod, one)))) {
          const before = restarted.get(keyOf(pod, container));
          restarted.set(keyOf(pod, container), container.restarts);
          if (before !== undefined && before < container.restarts) yield note(formatRestart(pod, container));
        }
      }
    },
    /** Notes, and what follows the logs that have ended. Returns true if one has. */
    async *news(): AsyncGenerator<LogStep, boolean> {
      yield* notes.map(note);
      notes = [];
      const ended = [...open].filter(({ reader }) => reader.isEnded());
      for (const one of ended) {
        open.delete(one);
        yield* endOf(one);
      }
      return ended.length > 0;
    },
    close(): void {
      for (const { reader } of open) reader.close();
    },
  };
}

async function* followLogs(reading: LogReading, cluster: Cluster): AsyncGenerator<LogStep> {
  const { job: begun, query, copies, signal, now } = reading;
  // Show all pods, with their numbers, if several run at the same time or one after another for one result.
  const isOfAll =
    query.allPods === true || (query.worker === undefined && (begun.parallelism > 1 || (begun.completions ?? 1) > 1));
  const bell = createBell();
  const followed = createFollowedLogs(reading, cluster, isOfAll, () => bell.ring());
  let lastNote = '';
  let isLost = false;
  let isCheckDue = true;
  let interval: Duration = checkInterval.first;
  let timer: NodeJS.Timeout | undefined;
  /** Chosen once per pod, because the choice of one container is reported. */
  const chosen = new Map<string, readonly ClusterContainer[]>();

  /** Returns true when the job has finished and no log is left to read. */
  async function* check(): AsyncGenerator<LogStep, boolean> {
    // Read the job before its pods: a job that is finished then creates no more pods.
    const job = await cluster.job(begun.name);
    const isGone = job === null || job.uid !== begun.uid;
    const isOver = isGone || isClusterFinished(job);
    const pods = isGone ? [] : await podsOf(cluster, begun);
    const fresh: (readonly [ClusterPod, ClusterContainer])[] = [];
    for (const pod of selectedPods(pods, { ...query, allPods: isOfAll }).filter(isReadable)) {
      const containers = chosen.get(pod.uid) ?? (yield* containersOf(pod, query));
      chosen.set(pod.uid, containers);
      fresh.push(...containers.filter((one) => !followed.isTaken(pod, one)).map((one) => [pod, one] as const));
    }
    if (isOfAll || followed.isIdle()) {
      for (const step of followed.open(fresh)) {
        interval = checkInterval.first;
        yield step;
      }
    }
    yield* followed.restarts(pods);
    if (!followed.isIdle()) return false;
    if (isOver && !followed.hasTaken())
      for (const name of await copies.deletedPods([])) yield* followed.shownCopies(name);
    if (isGone) {
      yield note(`Job ${begun.name} was deleted meanwhile.`);
      yield { kind: 'finished', phase: null };
      return true;
    }
    const { message, phase } = clusterResult(await observeJob(cluster, job), { now: now() });
    if (isOver) {
      yield note(message);
      yield { kind: 'finished', phase: clusterPhase(job) };
      return true;
    }
    // Repeat a message only when more than its numbers changed. Skip `stopping`: the end is reported soon.
    const bare = message.replaceAll(/\d+/g, '');
    if (bare !== lastNote && !(phase === 'stopping' && !job.deleting)) yield note(message);
    if (bare !== lastNote) interval = checkInterval.first;
    lastNote = bare;
    return false;
  }

  function scheduleCheck(): void {
    clearTimeout(timer);
    timer = setTimeout(() => {
      isCheckDue = true;
      bell.ring();
    }, interval);
    interval = Math.min(1.5 * interval, checkInterval.max);
  }

  try {
    while (!signal.aborted) {
      if (yield* followed.news()) {
        isCheckDue = true;
        interval = checkInterval.first;
      }
      if (isCheckDue) {
        isCheckDue = false;
        try {
          if (yield* check()) return;
          if (isLost && cluster.server !== undefined) yield note('The cluster answers again.');
          isLost = false;
        } catch (error) {
          if (!(error instanceof JobmanError) || error.code !== exitCode.unreachable) throw error;
          // A followed log reports it, but not through a server.
          if (!isLost && (followed.isIdle() || cluster.server !== undefined))
            yield note(`${error.message} Still trying.`);
          isLost = true;
        }
        scheduleCheck();
      }
      yield { kind: 'grown' };
      await bell.wait(checkInterval.max, signal);
    }
  } finally {
    clearTimeout(timer);
    followed.close();
  }
}

/** The log so far, an empty piece, and what follows. */
async function* endReportingLog(
  cluster: Cluster,
  pod: string,
  container: string,
  { follow: _follow, ...query }: ClusterLogQuery,
): AsyncGenerator<Uint8Array> {
  const tail = createTailBuffer();
  try {
    for await (const piece of cluster.logs(pod, container, { ...query, timestamps: true })) {
      // An incomplete line is left to the query that continues.
      if (tail.take(piece)) yield withoutTimestamps(piece);
    }
  } catch (error) {
    // A container that has not started has no log; following waits for it.
    if (!(error instanceof JobmanError) || error.code === exitCode.unreachable) throw error;
  }
  yield noBytes;
  yield* cluster.logs(pod, container, { ...query, follow: true, resumeAfter: tail.resumeAfter() });
}
