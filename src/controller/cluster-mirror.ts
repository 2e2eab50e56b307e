// Cluster mirror: keeps logs and history of the jobs that were submitted to clusters from this record. It only observes.
//
// A namespace has one watch of the Jobs while any is left, and a second one of their pods while a job is open or a log is not copied to
// its end. After each change all that is known of the job is written again under keys of its own, so repetition changes nothing.

import type { Cluster, ClusterJob, ClusterPod } from '../app/cluster/cluster.ts';
import { clusterLabels } from '../app/cluster/job-object.ts';
import type { KeptWriter } from '../app/cluster/kept-logs.ts';
import type { ClusterRecord, KeptPlace } from '../app/cluster/kept.ts';
import { exitCode, JobmanError, textOf } from '../app/errors.ts';
import type { Clock } from '../app/ports.ts';
import { minute, second, type Duration, type Instant } from '../core/time.ts';
import {
  emptyView,
  hasOpen,
  logsToFollow,
  noteGone,
  noteJob,
  notePod,
  noteRecord,
  planFor,
  podsOf,
  type ClusterView,
} from './cluster-view.ts';
import { createLogCopies, createClusterWriter, type ClusterWriter } from './cluster-writer.ts';
import { oneAtATime, backoff, bounded, createTimers, type Timers } from './timers.ts';

interface ClusterMirrorOptions {
  readonly record: ClusterRecord;
  /** The installation id, which is a label of every job that is submitted from this record. */
  readonly installation: () => Promise<string>;
  /** The cluster of that place; rejects with JobmanError where the kubeconfig does not lead there any more. */
  readonly open: (place: KeptPlace) => Promise<Cluster>;
  /** The copy of that container's log; throws StoreError. */
  readonly copyOf: (job: ClusterJob, pod: string, container: string) => KeptWriter;
  readonly clock: Clock;
  readonly say: (line: string) => void;
}

/** A background task of the controller, next to the jobs that it supervises. */
export interface ClusterMirror {
  /** Begins to watch the namespaces that are new. Cheap, and safe to repeat. */
  look(): void;
  /** True while something of ours may still happen in a cluster, or is copied: then the controller should stay. */
  readonly isBusy: boolean;
  /** Leaves everything as it is; resolves when nothing is written any more. */
  stop(): Promise<void>;
}

/** Nothing is asked before `look`. */
export function createClusterMirror(options: ClusterMirrorOptions): ClusterMirror {
  const { record, say } = options;
  const watched = new Map<string, NamespaceWatch>();
  let isStopped = false;

  const looking = oneAtATime(async () => {
    if (isStopped) return;
    try {
      for (const place of await record.places()) {
        const key = `${place.server} ${place.namespace}`;
        const known = watched.get(key);
        if (isStopped) return;
        if (known !== undefined) known.wanted(place);
        else {
          const one = watchNamespace(place, options);
          watched.set(key, one);
          void one.left.then(() => {
            watched.delete(key);
            // A client may have submitted there at the same time.
            looking.again();
          });
        }
      }
    } catch (error) {
      say(`what is kept of clusters' jobs could not be read: ${textOf(error)}`);
    }
  });

  return {
    look: looking.again,
    get isBusy() {
      return looking.isRunning || [...watched.values()].some((one) => one.isBusy);
    },
    async stop() {
      isStopped = true;
      await Promise.all([...watched.values()].map((one) => one.stop()));
    },
  };
}

/** A client registers the namespace before it creates the job. An empty namespace is watched for this long. */
const emptyFor: Duration = minute;
/** How often the age of the record is written for jobs without events. */
const ageEvery: Duration = 50 * second;
/** A pod may be told of a little later than that its job has ended. */
const podsAfter: Duration = 10 * second;
/** A cluster that did not answer for so long keeps no controller from leaving. */
const reachedWithin: Duration = 24 * 60 * minute;

/** One namespace that is watched, as long as anything of ours is left there. */
interface NamespaceWatch {
  /** A client has submitted there again. */
  wanted(place: KeptPlace): void;
  readonly isBusy: boolean;
  /** Resolves when nothing of ours is left there, or it was stopped. */
  readonly left: Promise<void>;
  stop(): Promise<void>;
}

/** Common to the login and the connections of a namespace. */
interface Namespace {
  readonly options: ClusterMirrorOptions;
  readonly view: ClusterView;
  readonly timers: Timers;
  /** Aborts when the controller leaves. */
  readonly end: AbortSignal;
  readonly place: () => KeptPlace;
  /** The cluster has answered. */
  readonly reached: () => void;
  readonly say: (line: string) => void;
}

/** Begins at once. */
export function watchNamespace(begun: KeptPlace, options: ClusterMirrorOptions): NamespaceWatch {
  const { record, clock, say } = options;
  const end = new AbortController();
  const view = emptyView();
  const timers = createTimers(clock);
  const spot = `${begun.context}/${begun.namespace}`;
  let place = begun;
  let isRead = false;
  let reachedAt: Instant = clock.now();
  const namespace: Namespace = {
    options,
    view,
    timers,
    end: end.signal,
    place: () => place,
    reached: () => void (reachedAt = clock.now()),
    say: (line) => say(`${spot}: ${line}`),
  };

  async function read(): Promise<void> {
    if (isRead) return;
    const { server, namespace: of } = place;
    for (const kept of await record.jobs({ server, namespace: of })) noteRecord(view, kept);
    isRead = true;
  }

  async function work(): Promise<void> {
    let said = '';
    for (let failures = 0; !end.signal.aborted; failures += 1) {
      try {
        await read();
        const cluster = await options.open(place);
        try {
          await attend(cluster, namespace);
          return;
        } finally {
          await cluster.close();
        }
      } catch (error) {
        if (hasLeft(end.signal)) return;
        if (view.isSynced) failures = 0;
        view.isSynced = false;
        const why = textOf(error);
        if (why !== said) namespace.say(`logs and history are not kept now: ${why}`);
        said = why;
        await timers.rest(backoff(failures, 5 * second, 5 * minute), end.signal);
      }
    }
  }

  const left = work();
  return {
    wanted(next) {
      place = next;
    },
    get isBusy() {
      if (!isRead) return true;
      if (view.following.size > 0 || view.changed.size > 0) return true;
      return hasOpen(view) && clock.now() - reachedAt < reachedWithin;
    },
    left,
    async stop() {
      end.abort(new Error('the controller leaves'));
      await bounded(clock, left, 5 * second);
    },
  };
}

/** As long as anything is left to do there; rejects with what ends the connection before. */
async function attend(cluster: Cluster, namespace: Namespace): Promise<void> {
  const { options, view, timers, end, place, say } = namespace;
  const { record, clock } = options;
  const round = new AbortController();
  const signal = AbortSignal.any([end, round.signal]);
  /** Resolves with the place in which nothing of ours is left, as it was wanted then. */
  const over = Promise.withResolvers<KeptPlace | null>();
  const labels = `${clusterLabels.installation}=${await options.installation()}`;
  view.arePodsRefused = false;
  const common = { cluster, record, view, timers, signal, say };
  const logs = createLogCopies({
    ...common,
    copyOf: ({ job, pod, container }) => options.copyOf(job, pod, container),
    done: ({ job }) => writer.touch(job.uid),
    failed: over.reject,
  });
  const writer = createClusterWriter({
    ...common,
    clock,
    place,
    wrote: followLogs,
    rested: check,
  });
  const pods = createPodWatch(timers, (ended) => watchPods(AbortSignal.any([signal, ended])).catch(over.reject), view);
  let agedAt = clock.now();

  function followLogs(job: ClusterJob, pods: readonly ClusterPod[]): void {
    for (const log of logsToFollow(view, job, pods)) logs.follow(log);
  }

  async function watchJobs(): Promise<void> {
    for await (const change of cluster.watchJobs({ labels, signal, onLost, onHeard })) {
      namespace.reached();
      if (change.kind === 'synced') await compare(namespace, writer, () => cluster.jobs({ labels, signal }));
      else if (change.kind === 'gone') {
        noteGone(view, change.object);
        writer.touch(change.object.uid);
      } else {
        noteJob(view, change.object);
        writer.touch(change.object.uid);
        followLogs(change.object, podsOf(view, change.object));
      }
      check();
    }
  }

  function onLost(why: string | null): void {
    const { context, namespace: of } = place();
    options.say(
      why === null ? `${context}/${of} answers again` : `${context}/${of} does not answer (${why}); still trying`,
    );
    if (why !== null) void keepAge();
  }

  /** When nothing changes, the cluster reports that about once a minute. */
  function onHeard(): void {
    namespace.reached();
    if (clock.now() - agedAt >= ageEvery) void keepAge();
  }

  /** The watch held until now, so what is on record is as old as this. Commands show that age while the cluster is away. */
  async function keepAge(): Promise<void> {
    if (view.isSynced) agedAt = clock.now();
    await writer.keepAge();
  }

  async function watchPods(ended: AbortSignal): Promise<void> {
    try {
      for await (const change of cluster.watchPods({ labels, signal: ended })) {
        if (change.kind === 'synced') continue;
        const job = notePod(view, change.object, change.kind === 'gone');
        if (job === undefined) continue;
        writer.touch(job.uid);
        followLogs(job, [change.object]);
      }
    } catch (error) {
      if (hasLeft(ended)) return;
      if (!(error instanceof JobmanError) || error.code !== exitCode.failed) throw error;
      view.arePodsRefused = true;
      say(`logs are not kept: ${error.message}`);
    }
  }

  function check(): void {
    if (signal.aborted) return;
    const plan = planFor(view);
    pods.watch(plan.watchesPods);
    if (!plan.isEmpty || writer.isWriting) return;
    const left = place().wantedAt + emptyFor - clock.now();
    if (left > 0) timers.after(left, check);
    else over.resolve(place());
  }

  try {
    watchJobs().catch(over.reject);
    const empty = await Promise.race([over.promise, leaving(signal)]);
    if (empty !== null) await record.leavePlace(empty);
  } finally {
    if (end.aborted) await keepAge();
    round.abort();
    timers.callOffAll();
    await Promise.all([logs.ended(), writer.ended(), pods.ended()]);
    view.jobs.clear();
    view.open.clear();
    view.pods.clear();
  }
}

/**
 * All has been told that was there: what is on record and was not told is gone, unless it is younger than the list that was told. `now` is
 * a list that begins later, and is read only if something is missing.
 */
async function compare(
  { options, view, place }: Namespace,
  writer: ClusterWriter,
  now: () => AsyncIterable<readonly ClusterJob[]>,
): Promise<void> {
  const { server, namespace } = place();
  const missing = (await options.record.jobs({ server, namespace })).filter(
    ({ job: { uid }, goneAt }) => goneAt === null && !view.jobs.has(uid) && !view.gone.has(uid),
  );
  const there = missing.length === 0 ? new Set<string>() : await uidsIn(now());
  for (const { job } of missing) {
    // Submitted while the list was read, the watch is going to tell of it.
    if (there.has(job.uid)) continue;
    view.gone.set(job.uid, job);
    writer.touch(job.uid);
  }
  view.isSynced = true;
}

async function uidsIn(pages: AsyncIterable<readonly ClusterJob[]>): Promise<ReadonlySet<string>> {
  try {
    return new Set((await Array.fromAsync(pages)).flat().map(({ uid }) => uid));
  } catch (error) {
    // The namespace was deleted with all its jobs.
    if (error instanceof JobmanError && error.code === exitCode.notFound) return new Set();
    throw error;
  }
}

/** The watch of pods, while it is wanted and a little longer. */
function createPodWatch(
  timers: Timers,
  begin: (ended: AbortSignal) => Promise<void>,
  view: ClusterView,
): { watch(isWanted: boolean): void; ended(): Promise<void> } {
  const works: Promise<void>[] = [];
  let round: AbortController | undefined;
  let callOff: (() => void) | undefined;
  return {
    watch(isWanted) {
      if (isWanted) {
        callOff?.();
        callOff = undefined;
        if (round !== undefined) return;
        round = new AbortController();
        works.push(begin(round.signal));
      } else if (round !== undefined && callOff === undefined) {
        callOff = timers.after(podsAfter, () => {
          round?.abort();
          round = callOff = undefined;
          view.pods.clear();
        });
      }
    },
    async ended() {
      await Promise.allSettled(works);
    },
  };
}

function hasLeft(signal: AbortSignal): boolean {
  return signal.aborted;
}

function leaving(signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(null);
    else signal.addEventListener('abort', () => resolve(null), { once: true });
  });
}
