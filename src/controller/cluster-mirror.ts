// Cluster mirror: keeps logs and history of the jobs that were submitted to clusters from this record. It only looks. A
// cluster runs its jobs itself and throws away what they printed; what is written here answers when it has.
//
// Where nothing of ours is left, nothing is asked. Where something is, one watch tells of the Jobs; a second one of their pods
// for as long as a job is open or a log is not copied to its end. Whatever a watch tells, all that is known of the job is
// then written down anew under keys of its own, so telling twice, or again after a restart, changes nothing. A log is
// gone on with behind the end of its own copy.

import { LogLineTooLong, type Cluster, type ClusterJob, type ClusterPod } from '../app/cluster/cluster.ts';
import { clusterLabels } from '../app/cluster/job-object.ts';
import {
  goneMoment,
  isKeptOpen,
  mergedSight,
  momentsOf,
  type ClusterRecord,
  type KeptJob,
  type KeptPlace,
} from '../app/cluster/kept.ts';
import type { KeptWriter } from '../app/cluster/kept-logs.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { Clock } from '../app/ports.ts';
import { minute, second, type Duration, type Instant } from '../core/time.ts';
import { backoff, bounded } from './bounded.ts';
import { textOf } from './looks.ts';

/** What the mirror is made of. */
export interface ClusterMirrorOptions {
  readonly record: ClusterRecord;
  /** The mark of this record, which is a label of every job that is submitted from it. */
  readonly installation: () => Promise<string>;
  /** The cluster of that place; rejects with JobmanError where the kubeconfig does not lead there any more. */
  readonly open: (place: KeptPlace) => Promise<Cluster>;
  /** The copy of that container's log; throws StoreError. */
  readonly copyOf: (job: ClusterJob, pod: string, container: string) => KeptWriter;
  readonly clock: Clock;
  readonly say: (line: string) => void;
}

/** What goes on beside the jobs that a controller supervises. */
export interface ClusterMirror {
  /** Somebody may have submitted somewhere: begins to look after places that are new. Cheap, and safe to repeat. */
  look(): void;
  /** True while something of ours may still happen in a cluster, or is being copied: then the controller should stay. */
  readonly isBusy: boolean;
  /** Leaves everything as it is; resolves when nothing is written any more. */
  stop(): Promise<void>;
}

/** What was told is gathered for so long before it is written down. */
const gatherFor: Duration = 0.5 * second;
/** Somebody who submits says where before there is a job; so long a place without any is watched. */
const emptyFor: Duration = minute;
/** How often the age of the record is written for jobs without events. */
const ageEvery: Duration = 50 * second;
/** A pod may be told of a little later than that its job has ended. */
const podsAfter: Duration = 10 * second;
/** A cluster that did not answer for so long keeps no controller from leaving. */
const reachedWithin: Duration = 24 * 60 * minute;
/** Connections that follow logs at once in one place; other logs wait for their turn. */
const followedMost = 256;
/** Events are told of those pods of a job that are newest: more all say the same. */
const eventsOf = 5;
/** A log of a job that is over is given up after so many failures in a row. */
const lossesMost = 5;

/** Nothing is asked before `look`. */
export function createClusterMirror(options: ClusterMirrorOptions): ClusterMirror {
  const { record, say } = options;
  const tended = new Map<string, Tended>();
  let isStopped = false;
  let looking: Promise<void> | undefined;
  let isWanted = false;

  async function lookOnce(): Promise<void> {
    try {
      for (const place of await record.places()) {
        const key = `${place.server} ${place.namespace}`;
        const known = tended.get(key);
        if (isStopped) return;
        if (known !== undefined) known.wanted(place);
        else {
          const one = tend(place, options);
          tended.set(key, one);
          void one.left.then(() => {
            tended.delete(key);
            // Somebody may have submitted there in the moment of leaving.
            look();
          });
        }
      }
    } catch (error) {
      say(`what is kept of clusters' jobs could not be read: ${textOf(error)}`);
    }
  }

  function look(): void {
    isWanted = true;
    looking ??= (async () => {
      while (isWanted && !isStopped) {
        isWanted = false;
        await lookOnce();
      }
      looking = undefined;
    })();
  }

  return {
    look,
    get isBusy() {
      return looking !== undefined || [...tended.values()].some((one) => one.isBusy);
    },
    async stop() {
      isStopped = true;
      await Promise.all([...tended.values()].map((one) => one.stop()));
    },
  };
}

/** One place that is looked after. */
interface Tended {
  /** Somebody has submitted there again. */
  wanted(place: KeptPlace): void;
  readonly isBusy: boolean;
  /** Resolves when nothing of ours is left there, or it was stopped. */
  readonly left: Promise<void>;
  stop(): Promise<void>;
}

function tend(begun: KeptPlace, options: ClusterMirrorOptions): Tended {
  const { record, clock, say } = options;
  const end = new AbortController();
  let place = begun;
  const spot = `${place.context}/${place.namespace}`;
  const { server, namespace } = place;

  /** What is there, as it was told last; by uid. */
  const held = new Map<string, ClusterJob>();
  const pods = new Map<string, ClusterPod>();
  /** What was told to be gone and is not written down as that. */
  const gone = new Map<string, ClusterJob>();
  /** What is on record of the jobs that something may still happen to. */
  const known = new Map<string, KeptJob>();
  /** Jobs that are over and written down, with all their logs. */
  const finished = new Set<string>();
  /** Pods' containers whose logs are followed, and those that need not be any more. */
  const following = new Set<string>();
  const copied = new Set<string>();
  const dirty = new Set<string>();
  const timers = new Set<() => void>();
  let isRead = false;
  let isSynced = false;
  let reachedAt: Instant = clock.now();

  const isOpen = (job: ClusterJob): boolean => isKeptOpen({ job, goneAt: null });
  /** Of those that are held, the ones that the cluster may still do something about. */
  const open = new Set<string>();
  const hasOpen = (): boolean => open.size > 0 || (!isSynced && [...known.values()].some((kept) => isKeptOpen(kept)));

  function hold(job: ClusterJob): void {
    held.set(job.uid, job);
    if (isOpen(job)) {
      open.add(job.uid);
      // A watch that begins before the end of its list tells of what was once more, and then of the end.
      finished.delete(job.uid);
    } else open.delete(job.uid);
  }

  /** Calls back after that time, unless it is over before. */
  function after(length: Duration, call: () => void): () => void {
    const callOff = clock.at(clock.now() + length, () => {
      timers.delete(callOff);
      call();
    });
    timers.add(callOff);
    return callOff;
  }

  /** Resolves after that time, or when the signal says so. */
  async function rest(length: Duration, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const done = (): void => {
        callOff();
        signal.removeEventListener('abort', done);
        resolve();
      };
      const callOff = after(length, done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  /** From the record: what is open there may have gone meanwhile, and what is finished need not be asked for again. */
  async function read(): Promise<void> {
    if (isRead) return;
    for (const kept of await record.jobs({ server, namespace })) {
      const { uid } = kept.job;
      for (const { pod, container, state } of kept.logs) if (state !== 'open') copied.add(logKey(uid, pod, container));
      if (kept.goneAt !== null || (!isKeptOpen(kept) && isCopied(uid, kept.pods))) finished.add(uid);
      else known.set(uid, kept);
    }
    isRead = true;
  }

  /** Whether all logs of those pods are copied as far as they ever will be. */
  function isCopied(uid: string, all: readonly ClusterPod[]): boolean {
    return all.every((pod) =>
      pod.containers.every(({ name, state }) => state === 'waiting' || copied.has(logKey(uid, pod.name, name))),
    );
  }

  async function work(): Promise<void> {
    let said = '';
    for (let failures = 0; !end.signal.aborted; failures += 1) {
      try {
        await read();
        const cluster = await options.open(place);
        try {
          await attend(cluster);
          return;
        } finally {
          await cluster.close();
        }
      } catch (error) {
        if (hasLeft(end.signal)) return;
        // Reached meanwhile: then it is the first failure of a new row.
        if (isSynced) failures = 0;
        isSynced = false;
        const why = textOf(error);
        if (why !== said) say(`${spot}: logs and history are not kept now: ${why}`);
        said = why;
        await rest(backoff(failures, 5 * second, 5 * minute), end.signal);
      }
    }
  }

  /** As long as that login lasts and anything is left to do there; rejects with what ends it before. */
  async function attend(cluster: Cluster): Promise<void> {
    const round = new AbortController();
    const signal = AbortSignal.any([end.signal, round.signal]);
    /** Resolves with the place in which nothing of ours is left, as it was wanted then. */
    const over = Promise.withResolvers<KeptPlace | null>();
    const labels = `${clusterLabels.installation}=${await options.installation()}`;
    const followers = new Set<Promise<void>>();
    const turns: (() => void)[] = [];
    let writing: Promise<void> | undefined;
    let podsRound: AbortController | undefined;
    let podsLeaving: (() => void) | undefined;
    let arePodsRefused = false;
    const looksAgain = new Map<string, number>();

    // ---------------------------------------------------------------------------------------- what is told

    async function watchJobs(): Promise<void> {
      for await (const change of cluster.watchJobs({ labels, signal, onLost, onHeard })) {
        reachedAt = clock.now();
        if (change.kind === 'synced') await compare();
        else if (change.kind === 'gone') {
          held.delete(change.object.uid);
          open.delete(change.object.uid);
          gone.set(change.object.uid, change.object);
          touch(change.object.uid);
        } else {
          hold(change.object);
          gone.delete(change.object.uid);
          touch(change.object.uid);
          for (const pod of podsOf(change.object)) follow(change.object, pod);
        }
        check();
      }
    }

    function onLost(why: string | null): void {
      say(why === null ? `${spot} answers again` : `${spot} does not answer (${why}); still trying`);
      if (why !== null) void keepAge();
    }

    /** When nothing changes, the cluster reports that about once a minute. */
    function onHeard(): void {
      reachedAt = clock.now();
      if (reachedAt - agedAt >= ageEvery) void keepAge();
    }

    let agedAt = clock.now();

    /** The watch held until now, so what is on record is as old as this. Commands show that age while the cluster is away. */
    async function keepAge(): Promise<void> {
      if (!isSynced) return;
      const now = clock.now();
      agedAt = now;
      for (const [uid, { hidden: _hidden, object: _object, logs: _logs, ...sight }] of known) {
        if (!held.has(uid)) continue;
        const seen = { ...sight, seenAt: now };
        known.set(uid, { hidden: false, object: null, logs: [], ...seen });
        await record.keepSight(seen, []).catch(() => undefined);
      }
    }

    /** All has been told that was there: what is on record and was not told is gone, unless it is younger than the list. */
    async function compare(): Promise<void> {
      for (const { job, goneAt } of await record.jobs({ server, namespace })) {
        const { uid, name } = job;
        if (goneAt !== null || held.has(uid) || gone.has(uid)) continue;
        // Submitted while the list was read, the watch is going to tell of it.
        if ((await cluster.job(name))?.uid === uid) continue;
        gone.set(uid, job);
        touch(uid);
      }
      isSynced = true;
    }

    async function watchPods(podsSignal: AbortSignal): Promise<void> {
      try {
        for await (const change of cluster.watchPods({ labels, signal: podsSignal })) {
          if (change.kind === 'synced') continue;
          const pod = change.object;
          const uid = ownerOf(pod);
          if (uid !== undefined && finished.has(uid)) continue;
          if (change.kind === 'gone') pods.delete(pod.uid);
          else pods.set(pod.uid, pod);
          const job = uid === undefined ? undefined : held.get(uid);
          if (uid === undefined || job === undefined) continue;
          if (change.kind === 'gone') lastSeen.set(pod.uid, pod);
          touch(uid);
          follow(job, pod);
        }
      } catch (error) {
        if (hasLeft(podsSignal)) return;
        if (!(error instanceof JobmanError) || error.code !== exitCode.failed) throw error;
        // A right that is missing: the Jobs alone can still be kept.
        arePodsRefused = true;
        say(`${spot}: logs are not kept: ${error.message}`);
      }
    }

    /** Pods that went away since their job was last written down. */
    const lastSeen = new Map<string, ClusterPod>();

    function ownerOf(pod: ClusterPod): string | undefined {
      if (pod.jobUid !== undefined && pod.jobUid !== null) return pod.jobUid;
      return [...held.values()].find(({ name }) => name === pod.job)?.uid;
    }

    function podsOf({ uid }: ClusterJob): readonly ClusterPod[] {
      return [...lastSeen.values(), ...pods.values()].filter((pod) => ownerOf(pod) === uid);
    }

    // ---------------------------------------------------------------------------------------- what follows

    /** Whether pods are to be watched, and whether anything is left to do here at all. */
    function check(): void {
      if (signal.aborted) return;
      const wantsPods = !arePodsRefused && (hasOpen() || following.size > 0);
      if (wantsPods) {
        podsLeaving?.();
        podsLeaving = undefined;
        if (podsRound === undefined) {
          podsRound = new AbortController();
          followers.add(watchPods(AbortSignal.any([signal, podsRound.signal])).catch(over.reject));
        }
      } else if (podsRound !== undefined && podsLeaving === undefined) {
        podsLeaving = after(podsAfter, () => {
          podsRound?.abort();
          podsRound = podsLeaving = undefined;
          pods.clear();
        });
      }
      const isEmpty = isSynced && held.size === 0 && dirty.size === 0 && writing === undefined && following.size === 0;
      if (!isEmpty) return;
      const left = place.wantedAt + emptyFor - clock.now();
      if (left > 0) after(left, check);
      else over.resolve(place);
    }

    function touch(uid: string): void {
      const job = held.get(uid);
      if (finished.has(uid) && job !== undefined && !isOpen(job)) return;
      dirty.add(uid);
      writing ??= write().finally(() => {
        writing = undefined;
        const [next] = dirty;
        if (next !== undefined && !signal.aborted) touch(next);
        check();
      });
    }

    async function write(): Promise<void> {
      for (let failures = 0; dirty.size > 0 && !signal.aborted;) {
        // In each round, since each write asks the cluster too: a job that changes without pause must not be written without pause.
        await rest(gatherFor, signal);
        // A job that changes meanwhile is one of the next round.
        const round = [...dirty];
        for (const uid of round) {
          if (signal.aborted) return;
          dirty.delete(uid);
          try {
            await writeOne(uid);
            failures = 0;
          } catch (error) {
            if (signal.aborted) return;
            dirty.add(uid);
            if (failures === 0) say(`${spot}: what was seen could not be written down: ${textOf(error)}`);
            await rest(backoff(failures, second, 30 * second), signal);
            failures += 1;
          }
        }
      }
    }

    /** All that is known of that job, anew. */
    async function writeOne(uid: string): Promise<void> {
      const isGone = gone.has(uid);
      const job = gone.get(uid) ?? held.get(uid);
      if (job === undefined) return;
      const isOver = isGone || !isOpen(job);
      let ours = podsOf(job);
      const went = ours.filter((pod) => lastSeen.has(pod.uid));
      if (isOver && !isGone && !arePodsRefused) {
        // Its pods are asked for once more: what began and ended in one breath no watch may have told of.
        const listed: ClusterPod[] = [];
        for await (const page of cluster.pods({ job: job.name, signal })) listed.push(...page);
        ours = [...ours, ...listed.filter((pod) => ownerOf(pod) === uid)];
      }
      const names = [job.name, ...ours.slice(-eventsOf).map(({ name }) => name)];
      const events = isGone ? [] : ((await cluster.events({ names })) ?? []);
      const before = known.get(uid) ?? (await record.job(uid));
      const now = clock.now();
      const sight = mergedSight(before, { job, pods: ours, events });
      const goneAt = isGone ? (before?.goneAt ?? now) : null;
      const seen = { server, context: place.context, seenAt: isGone ? (before?.seenAt ?? now) : now, goneAt, ...sight };
      const moments = momentsOf(sight);
      await record.keepSight(seen, goneAt === null ? moments : [...moments, goneMoment(goneAt)]);
      for (const { uid: podUid } of went) lastSeen.delete(podUid);
      if (isGone) {
        gone.delete(uid);
        known.delete(uid);
        finished.add(uid);
        return;
      }
      known.set(uid, { hidden: false, object: null, logs: [], ...seen });
      for (const pod of ours) follow(job, pod);
      if (isOver && (arePodsRefused || isCopied(uid, sight.pods))) {
        finished.add(uid);
        known.delete(uid);
        looksAgain.delete(uid);
      } else if (!isOver && !job.suspended && job.ready === 0) {
        // That no pod can be made is told by events alone, which nobody watches.
        const times = looksAgain.get(uid) ?? 0;
        looksAgain.set(uid, times + 1);
        after(backoff(times, 15 * second, 10 * minute), () => {
          if (held.get(uid)?.ready === 0 && looksAgain.get(uid) === times + 1) touch(uid);
        });
      }
    }

    // ---------------------------------------------------------------------------------------- logs

    /** Copies the logs of its containers that have any, to their ends, once the job is on record. Safe to repeat. */
    function follow(job: ClusterJob, pod: ClusterPod): void {
      if (signal.aborted || !known.has(job.uid)) return;
      for (const { name, state } of pod.containers) {
        const key = logKey(job.uid, pod.name, name);
        if (state === 'waiting' || following.has(key) || copied.has(key)) continue;
        following.add(key);
        const work: Promise<void> = inTurn(() => copy(job, pod, name))
          .catch(over.reject)
          .finally(() => {
            followers.delete(work);
            following.delete(key);
            if (!signal.aborted) touch(job.uid);
          });
        followers.add(work);
      }
    }

    let taken = 0;
    /** So many connections at once and no more. */
    async function inTurn(act: () => Promise<void>): Promise<void> {
      if (taken >= followedMost) await new Promise<void>((resolve) => turns.push(resolve));
      else taken += 1;
      try {
        await act();
      } finally {
        const next = turns.shift();
        if (next === undefined) taken -= 1;
        else next();
      }
    }

    async function copy(job: ClusterJob, pod: ClusterPod, container: string): Promise<void> {
      const { uid } = job;
      const ended = async (state: 'whole' | 'cut'): Promise<void> => {
        await record.keepLog(uid, { pod: pod.name, container, state });
        copied.add(logKey(uid, pod.name, container));
        if (state === 'cut') say(`${spot}: ${pod.name} was gone before the end of its log was copied`);
      };
      for (let failures = 0; !signal.aborted; failures += 1) {
        try {
          if (await copyOnce(job, pod.name, container, () => (failures = 0))) await ended('whole');
          else if (!signal.aborted) await ended('cut');
          return;
        } catch (error) {
          if (signal.aborted) return;
          const isOver = !held.has(uid) || finished.has(uid) || !isOpen(held.get(uid) ?? job);
          const isAbsent =
            error instanceof LogLineTooLong || (error instanceof JobmanError && error.code === exitCode.notFound);
          try {
            if (isAbsent || (isOver && failures + 1 >= lossesMost)) return await ended('cut');
          } catch {
            // The record could not be written; it is tried again with the log.
          }
          if (failures === 0) say(`${spot}: the log of ${pod.name} cannot be copied now: ${textOf(error)}`);
          await rest(backoff(failures, second, minute), signal);
        }
      }
    }

    /** True when it was copied to its end; false when its pod went away in the middle, or we left. */
    async function copyOnce(job: ClusterJob, pod: string, container: string, got: () => void): Promise<boolean> {
      let isWhole = true;
      const kept = options.copyOf(job, pod, container);
      try {
        const query = {
          follow: true,
          stamped: true,
          after: kept.tail,
          signal,
          onCut: () => {
            isWhole = false;
          },
        };
        for await (const lines of cluster.logs(pod, container, query)) {
          kept.append(lines);
          got();
        }
      } finally {
        kept.close();
      }
      return isWhole && !signal.aborted;
    }

    try {
      watchJobs().catch(over.reject);
      const empty = await Promise.race([over.promise, leaving(signal)]);
      if (empty !== null) await record.leavePlace(empty);
    } finally {
      if (end.signal.aborted) await keepAge();
      round.abort();
      for (const callOff of timers) callOff();
      timers.clear();
      for (const go of turns.splice(0)) go();
      await Promise.allSettled([...followers, writing]);
      following.clear();
      held.clear();
      open.clear();
      pods.clear();
    }
  }

  const left = work();
  return {
    wanted(next) {
      place = next;
    },
    get isBusy() {
      if (!isRead) return true;
      if (following.size > 0 || dirty.size > 0) return true;
      return hasOpen() && clock.now() - reachedAt < reachedWithin;
    },
    left,
    async stop() {
      end.abort(new Error('the controller leaves'));
      await bounded(clock, left, 5 * second);
    },
  };
}

function logKey(uid: string, pod: string, container: string): string {
  return `${uid} ${pod} ${container}`;
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
