// Cluster mirror: archives logs and history of the jobs that were submitted to clusters from this home. Each namespace
// has watches of its Jobs and their pods while any is left. After each change the whole job is written again under
// stable keys, so repetition changes nothing.

import type { Cluster } from '../app/cluster/cluster.ts';
import type { ClusterJob, ClusterPod, ClusterStore, WatchedContext } from '../app/cluster/objects.ts';
import { clusterLabels } from '../app/cluster/job-object.ts';
import type { ArchivedLogWriter } from '../files/archived-logs.ts';
import { exitCode, isNotFoundError, JobmanError, messageOf } from '../app/errors.ts';
import type { Clock } from '../app/ports.ts';
import { minute, second, type Duration, type Instant } from '../core/model/time.ts';
import {
  emptyView,
  hasOpenJobs,
  isEmpty,
  logsToFollow,
  noteGone,
  noteJob,
  notePod,
  noteArchived,
  podsOf,
  type ClusterView,
  createLogCopier,
  createClusterWriter,
  type ClusterWriter,
} from './cluster-writer.ts';
import type { FlavorPrice } from '../reports/prices.ts';
import { createCoalescedTask, backoff, waitAtMost, createTimers, type Timers } from './timers.ts';

interface ClusterMirrorOptions {
  readonly store: ClusterStore;
  readonly installation: () => Promise<string>;
  /** The cluster of that context; rejects with JobmanError when the kubeconfig no longer has it. */
  readonly open: (context: WatchedContext) => Promise<Cluster>;
  /** Throws StoreError. */
  readonly openLogCopy: (
    job: ClusterJob,
    pod: string,
    container: string,
  ) => ArchivedLogWriter | Promise<ArchivedLogWriter>;
  readonly clock: Clock;
  /** The own price of a job's flavor now; null without one. */
  readonly flavorPrice: (job: ClusterJob) => FlavorPrice | null;
  readonly report: (line: string) => void;
}

export interface ClusterMirror {
  /** Begins to watch new namespaces. Cheap, and safe to repeat. */
  poll(): void;
  /** True while a job may change in a cluster or a log is copied. */
  readonly isBusy: boolean;
  /** Resolves when nothing is written any more. */
  stop(): Promise<void>;
}

export function createClusterMirror(options: ClusterMirrorOptions): ClusterMirror {
  const { store, report } = options;
  const watched = new Map<string, NamespaceWatch>();
  let isStopped = false;

  const polling = createCoalescedTask(async () => {
    if (isStopped) return;
    try {
      for (const clusterContext of await store.contexts()) {
        const key = `${clusterContext.server} ${clusterContext.namespace}`;
        const known = watched.get(key);
        if (isStopped) return;
        if (known !== undefined) known.renew(clusterContext);
        else {
          const one = watchNamespace(clusterContext, options);
          watched.set(key, one);
          void one.ended.then(() => {
            watched.delete(key);
            // A client may have submitted to this namespace at the same time.
            polling.trigger();
          });
        }
      }
    } catch (error) {
      report(`cannot read the archive of cluster jobs: ${messageOf(error)}`);
    }
  });

  return {
    poll: polling.trigger,
    get isBusy() {
      return polling.isRunning || [...watched.values()].some((one) => one.isBusy);
    },
    async stop() {
      isStopped = true;
      await Promise.all([...watched.values()].map((one) => one.stop()));
    },
  };
}

/** A client registers the namespace before it creates the job. Keep watching an empty namespace for this long. */
const emptyTimeout: Duration = minute;
/** Interval for updating `observedAt` of jobs without events. */
const ageInterval: Duration = 50 * second;
/** A cluster that has not answered for this long does not keep the controller running. */
const maxUnreachableTime: Duration = 24 * 60 * minute;

interface NamespaceWatch {
  renew(context: WatchedContext): void;
  readonly isBusy: boolean;
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

interface NamespaceContext {
  readonly options: ClusterMirrorOptions;
  readonly view: ClusterView;
  readonly timers: Timers;
  readonly stopSignal: AbortSignal;
  readonly clusterContext: () => WatchedContext;
  readonly onReached: () => void;
  readonly report: (line: string) => void;
}

export function watchNamespace(initial: WatchedContext, options: ClusterMirrorOptions): NamespaceWatch {
  const { store, clock, report } = options;
  const end = new AbortController();
  const view = emptyView();
  const timers = createTimers(clock);
  const name = `${initial.context}/${initial.namespace}`;
  let clusterContext = initial;
  let isLoaded = false;
  let reachedAt: Instant = clock.now();
  const namespace: NamespaceContext = {
    options,
    view,
    timers,
    stopSignal: end.signal,
    clusterContext: () => clusterContext,
    onReached: () => void (reachedAt = clock.now()),
    report: (line) => report(`${name}: ${line}`),
  };

  async function loadArchived(): Promise<void> {
    if (isLoaded) return;
    const { server, namespace: of } = clusterContext;
    for (const archived of await store.jobs({ server, namespace: of })) noteArchived(view, archived);
    isLoaded = true;
  }

  async function work(): Promise<void> {
    let lastReport = '';
    for (let failures = 0; !end.signal.aborted; failures += 1) {
      try {
        await loadArchived();
        const cluster = await options.open(clusterContext);
        try {
          await syncNamespace(cluster, namespace);
          return;
        } finally {
          await cluster.close();
        }
      } catch (error) {
        if (isAborted(end.signal)) return;
        if (view.isSynced) failures = 0;
        view.isSynced = false;
        const reason = messageOf(error);
        if (reason !== lastReport) namespace.report(`logs and history are not archived now: ${reason}`);
        lastReport = reason;
        await timers.sleep(backoff(failures, 5 * second, 5 * minute), end.signal);
      }
    }
  }

  const ended = work();
  return {
    renew(next) {
      clusterContext = next;
    },
    get isBusy() {
      if (!isLoaded) return true;
      if (view.following.size > 0 || view.changed.size > 0) return true;
      return hasOpenJobs(view) && clock.now() - reachedAt < maxUnreachableTime;
    },
    ended,
    async stop() {
      end.abort(new Error('the controller exits'));
      await waitAtMost(clock, ended, 5 * second);
    },
  };
}

/** Runs until no work is left there; rejects with the error that ends the connection earlier. */
async function syncNamespace(cluster: Cluster, namespace: NamespaceContext): Promise<void> {
  const { options, view, timers, stopSignal, clusterContext, report } = namespace;
  const { store, clock } = options;
  const connection = new AbortController();
  const signal = AbortSignal.any([stopSignal, connection.signal]);
  /** Resolves with the context of an empty namespace, as it was when the namespace became empty. */
  const emptied = Promise.withResolvers<WatchedContext | null>();
  const labels = `${clusterLabels.installation}=${await options.installation()}`;
  view.isPodAccessDenied = false;
  const common = { cluster, store, view, timers, signal, report };
  const logs = createLogCopier({
    ...common,
    openLogCopy: ({ job, pod, container }) => options.openLogCopy(job, pod, container),
    onDone: ({ job }) => writer.enqueue(job.uid),
    onFailed: emptied.reject,
  });
  const writer = createClusterWriter({
    ...common,
    clock,
    clusterContext,
    onWritten: followLogs,
    onIdle: check,
    flavorPrice: options.flavorPrice,
  });
  let agedAt = clock.now();
  let watchingPods: Promise<void> | undefined;

  function followLogs(job: ClusterJob, pods: readonly ClusterPod[]): void {
    for (const log of logsToFollow(view, job, pods)) logs.follow(log);
  }

  async function watchJobs(): Promise<void> {
    for await (const change of cluster.watchJobs({ labels, signal, onActivity: onHeard })) {
      if (change.kind === 'lost') {
        onLost(change.why);
        continue;
      }
      namespace.onReached();
      if (change.kind === 'synced') await detectGoneJobs(namespace, writer, () => cluster.jobs({ labels, signal }));
      else if (change.kind === 'gone') {
        noteGone(view, change.object);
        writer.enqueue(change.object.uid);
      } else {
        noteJob(view, change.object);
        writer.enqueue(change.object.uid);
        followLogs(change.object, podsOf(view, change.object));
      }
      check();
    }
  }

  function onLost(why: string | null): void {
    const { context, namespace: of } = clusterContext();
    options.report(
      why === null ? `${context}/${of} answers again` : `${context}/${of} does not answer (${why}); retrying`,
    );
    if (why !== null) void updateAge();
  }

  /** Without changes, called about once a minute. */
  function onHeard(): void {
    namespace.onReached();
    if (clock.now() - agedAt >= ageInterval) void updateAge();
  }

  /** Commands show this age while the cluster is unreachable. */
  async function updateAge(): Promise<void> {
    if (view.isSynced) agedAt = clock.now();
    await writer.updateAge();
  }

  async function watchPods(): Promise<void> {
    try {
      for await (const change of cluster.watchPods({ labels, signal })) {
        if (change.kind === 'synced' || change.kind === 'lost') continue;
        const job = notePod(view, change.object, change.kind === 'gone');
        if (job === undefined) continue;
        writer.enqueue(job.uid);
        followLogs(job, [change.object]);
      }
    } catch (error) {
      if (isAborted(signal)) return;
      if (!(error instanceof JobmanError) || error.code !== exitCode.failed) throw error;
      view.isPodAccessDenied = true;
      report(`logs are not archived: ${error.message}`);
    }
  }

  function check(): void {
    if (signal.aborted) return;
    if (!isEmpty(view) || writer.isWriting) return;
    const left = clusterContext().requestedAt + emptyTimeout - clock.now();
    if (left > 0) timers.after(left, check);
    else emptied.resolve(clusterContext());
  }

  try {
    watchJobs().catch(emptied.reject);
    watchingPods = watchPods().catch(emptied.reject);
    const empty = await Promise.race([emptied.promise, whenAborted(signal)]);
    if (empty !== null) await store.unwatchContext(empty);
  } finally {
    if (stopSignal.aborted) await updateAge();
    connection.abort();
    timers.cancelAll();
    await Promise.all([logs.ended(), writer.ended(), watchingPods]);
    view.jobs.clear();
    view.open.clear();
    view.pods.clear();
  }
}

/** A job that is missing in the complete list is gone, unless it is younger. `listNow` reads a later list. */
async function detectGoneJobs(
  { options, view, clusterContext }: NamespaceContext,
  writer: ClusterWriter,
  listNow: () => AsyncIterable<readonly ClusterJob[]>,
): Promise<void> {
  const { server, namespace } = clusterContext();
  const missing = (await options.store.jobs({ server, namespace })).filter(
    ({ job: { uid }, goneAt }) => goneAt === null && !view.jobs.has(uid) && !view.gone.has(uid),
  );
  const there = missing.length === 0 ? new Set<string>() : await uidsIn(listNow());
  for (const { job } of missing) {
    // The job was submitted while the list was read; the watch will report it.
    if (there.has(job.uid)) continue;
    view.gone.set(job.uid, job);
    writer.enqueue(job.uid);
  }
  view.isSynced = true;
}

async function uidsIn(pages: AsyncIterable<readonly ClusterJob[]>): Promise<ReadonlySet<string>> {
  try {
    return new Set((await Array.fromAsync(pages)).flat().map(({ uid }) => uid));
  } catch (error) {
    // The namespace was deleted with all its jobs.
    if (isNotFoundError(error)) return new Set();
    throw error;
  }
}

function isAborted(signal: AbortSignal): boolean {
  return signal.aborted;
}

function whenAborted(signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(null);
    else signal.addEventListener('abort', () => resolve(null), { once: true });
  });
}
