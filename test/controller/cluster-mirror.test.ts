/**
 * The mirror of cluster jobs against a fake API server that drops, repeats, forgets and restarts, while the mirror is
 * killed and restarted. The invariants use the server's own truth: a complete copy equals the output, a truncated one
 * is its beginning, nothing is there twice, and every job is archived with its end.
 */

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createChance } from '../../sim/chance.ts';
import type { Cluster } from '../../src/app/cluster/cluster.ts';
import { archivedLogPath, archiveFolder, openArchivedLog, readArchivedLog } from '../../src/files/archived-logs.ts';
import { mayBeActive, archivedPhase } from '../../src/app/cluster/archive.ts';
import type { ClusterStore, WatchedContext } from '../../src/app/cluster/objects.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import type { Clock } from '../../src/app/ports.ts';
import { createCluster } from '../../src/backends/kubernetes/cluster.ts';
import { createClusterMirror, watchNamespace, type ClusterMirror } from '../../src/controller/cluster-mirror.ts';
import { emptyView, isEmpty, noteGone, noteJob, notePod, podsOf } from '../../src/controller/cluster-writer.ts';
import { openStore } from '../../src/store/store.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';
import { eventually } from '../support/eventually.ts';
import { openFakeApiServer } from './fake-api-server.ts';

/** The mirror's clock is faster than ours by this factor. */
const faster = 100;
const clock: Clock = {
  now: () => Date.now() * faster,
  at(at, call) {
    const timer = setTimeout(call, Math.max(0, (at - Date.now() * faster) / faster));
    return () => clearTimeout(timer);
  },
};

/** A mirror that can be killed: from then on its actions have no effect. */
interface Mortal {
  readonly mirror: ClusterMirror;
  kill(): void;
}

async function play(seed: number): Promise<void> {
  const chance = createChance(seed);
  const home = mkdtempSync(join(tmpdir(), 'jobman-mirror-'));
  const store = openStore({ file: ':memory:', installation: 'abc123' });
  const record: ClusterStore = store.clusters;
  const cluster = await openFakeApiServer(chance.fork('cluster'), 'abc123');
  const watched: WatchedContext = {
    server: cluster.url,
    namespace: 'vision',
    context: 'lab',
    setting: { type: 'default', file: null },
    kubeconfig: null,
    flavorAnnotation: 'jobman/flavor',
    requestedAt: clock.now(),
  };
  const reports: string[] = [];
  const graves: Promise<void>[] = [];

  function beget(): Mortal {
    let isDead = false;
    const alive = <T>(act: () => T): T => {
      if (isDead) throw new Error('killed');
      return act();
    };
    const mirror = createClusterMirror({
      store: {
        ...record,
        archiveObservation: (...given) => alive(() => record.archiveObservation(...given)),
        archiveLog: (...given) => alive(() => record.archiveLog(...given)),
        unwatchContext: (...given) => alive(() => record.unwatchContext(...given)),
      },
      installation: () => store.installationId(),
      open: async () =>
        createCluster({
          context: {
            name: 'lab',
            namespace: 'vision',
            cluster: { server: cluster.url },
            user: { token: 'secret' },
            userName: 'ada',
            source: 'a test',
          },
          flavorKey: 'jobman/flavor',
          env: {},
          now: () => Date.now(),
          retry: { maxTries: 3, maxTriesIfBroken: 2, initialDelay: 1, maxDelay: 10 },
        }),
      openLogCopy(job, pod, container) {
        const kept = alive(() => openArchivedLog(archivedLogPath(archiveFolder(home, job), pod, container)));
        return { ...kept, append: (lines) => alive(() => kept.append(lines)) };
      },
      clock,
      flavorPrice: () => null,
      report: (line) => void reports.push(line),
    });
    mirror.poll();
    return {
      mirror,
      kill() {
        isDead = true;
        graves.push(mirror.stop());
      },
    };
  }

  let mortal: Mortal | undefined;
  try {
    /** Like a submission: first the context, then the job, then its object, then the wake-up. */
    const submit = async (name: string): Promise<void> => {
      await record.watchContext({ ...watched, requestedAt: clock.now() });
      const job = aClusterJob({ name, uid: cluster.createJob(name) });
      if (chance.yes(0.5)) await sleep(chance.between(0, 5));
      await record.archiveObject({ server: watched.server, context: 'lab', observedAt: clock.now(), job }, '{}');
      mortal?.mirror.poll();
    };
    for (let name = 0; name < 3; name += 1) await submit(`job-${name}`);
    mortal = beget();
    for (let tick = 0; tick < 60; tick += 1) {
      cluster.step();
      if (chance.yes(0.05)) await submit(`late-${tick}`);
      if (chance.yes(0.06)) cluster.compact();
      if (chance.yes(0.04)) cluster.restart(chance.between(5, 60));
      if (chance.yes(0.06)) {
        mortal.kill();
        mortal = undefined;
        // The cluster continues without a mirror.
        for (let missed = chance.between(0, 4); missed > 0; missed -= 1) cluster.step();
        mortal = beget();
      }
      await sleep(5);
    }
    cluster.stopFaults();
    while (!cluster.isFinished) cluster.step();

    const textOf = async (uid: string, name: string, pod: string, container: string): Promise<string> => {
      const parts: Uint8Array[] = [];
      for await (const part of readArchivedLog(archivedLogPath(archiveFolder(home, { name, uid }), pod, container)))
        parts.push(part);
      return Buffer.concat(parts).toString();
    };
    const context = (): string => `seed ${seed}; the mirror said:\n${reports.join('\n')}`;

    // Calm: every job is archived with its end, every available log is complete, and the mirror is at rest.
    let problem = '';
    const isRight = async (): Promise<boolean> => {
      problem = '';
      const kept = new Map((await record.jobs({})).map((one) => [one.job.uid, one]));
      for (const [uid, { phase, gone }] of cluster.actualJobs) {
        const one = kept.get(uid);
        // A job that existed only while no mirror ran is unknown.
        if (one === undefined && gone) continue;
        if (one === undefined) problem = `${uid} is not on record`;
        else if ((one.goneAt !== null) !== gone) problem = `${uid} is ${gone ? '' : 'not '}gone`;
        else if (!gone && archivedPhase(one) !== phase) problem = `${uid} is ${phase}, on record ${archivedPhase(one)}`;
        else if (gone && mayBeActive(one)) problem = `${uid} is open`;
      }
      for (const { job, pod, container, removed } of cluster.printed) {
        const state = kept.get(job)?.logs.find((log) => log.pod === pod && log.container === container)?.state;
        if (!removed && state !== 'complete') problem ||= `the log of ${pod} ${container} is ${state}`;
      }
      if (mortal?.mirror.isBusy === true) problem ||= 'the mirror is busy';
      return problem === '';
    };
    if ((await eventually(isRight, { withinMs: 60_000 })) === undefined) assert.fail(`${problem}; ${context()}`);

    const all = await record.jobs({});
    const notices = await store.notifications.unaddressed(clock.now());
    for (const one of all) {
      const reported = notices.filter(({ job, event }) => job === one.job.name && /^(succeeded|failed)$/.test(event));
      assert.ok(reported.length <= 1, `${one.job.name} is reported ${reported.length} times; ${context()}`);
      const events = await record.events(one.job.uid);
      assert.equal(events.filter(({ key }) => key === 'created').length, 1, context());
      assert.equal(
        events.some(({ key }) => key === 'gone'),
        one.goneAt !== null,
        context(),
      );
      const ends = events.filter(({ message: sentence }) => /^(succeeded|failed)/.test(sentence));
      assert.equal(ends.length, archivedPhase(one) === 'cancelled' ? 0 : 1, context());
    }
    for (const { job, pod, container, text } of cluster.printed) {
      const one = all.find(({ job: { uid } }) => uid === job);
      if (one === undefined) continue;
      const copy = await textOf(job, one.job.name, pod, container);
      const state = one.logs.find((log) => log.pod === pod && log.container === container)?.state;
      if (state === 'complete') assert.equal(copy, text, `${pod} ${container}; ${context()}`);
      else assert.ok(text.startsWith(copy), `${pod} ${container} is not the beginning; ${context()}`);
    }

    // When no job of ours is left there, nothing is requested any more.
    cluster.removeAll();
    const isLeft = async (): Promise<boolean> => (await record.contexts()).length === 0;
    assert.ok(await eventually(isLeft, { withinMs: 60_000 }), `the namespace is still watched; ${context()}`);
    assert.ok((await record.jobs({})).every(({ goneAt }) => goneAt !== null));
  } finally {
    mortal?.kill();
    await Promise.all(graves);
    await cluster.close();
    await store.close();
    rmSync(home, { recursive: true });
  }
}

suite('the mirror of cluster jobs', () => {
  const first = Number(process.env['JOBMAN_TEST_SEED'] ?? 1);
  const count = Number(process.env['JOBMAN_TEST_SEEDS'] ?? 8);
  test('archives every job despite faults of the cluster, the connection and the controller', async () => {
    for (let seed = first; seed < first + count; seed += 4) {
      await Promise.all([0, 1, 2, 3].filter((one) => seed + one < first + count).map((one) => play(seed + one)));
    }
  });
});

test("a job that changes without pause is written at the mirror's own pace", { timeout: 20_000 }, async () => {
  const home = mkdtempSync(join(tmpdir(), 'jobman-mirror-'));
  const store = openStore({ file: ':memory:', installation: 'abc123' });
  const ours: Clock = {
    now: () => Date.now(),
    at(at, call) {
      const timer = setTimeout(call, Math.max(0, at - Date.now()));
      return () => clearTimeout(timer);
    },
  };
  const watched: WatchedContext = {
    server: 'https://127.0.0.1:1',
    namespace: 'vision',
    context: 'lab',
    setting: { type: 'default', file: null },
    kubeconfig: null,
    flavorAnnotation: 'jobman/flavor',
    requestedAt: ours.now(),
  };
  await store.clusters.watchContext(watched);
  let changes = 0;
  let asks = 0;
  const none = async function* (): AsyncIterable<never> {};
  const cluster = {
    async *watchJobs({ signal }: { readonly signal: AbortSignal }) {
      yield { kind: 'synced' } as const;
      while (!signal.aborted) {
        changes += 1;
        yield { kind: 'changed', object: aClusterJob({ name: 'hot', uid: 'u1', suspended: true }) } as const;
        await sleep(1);
      }
    },
    watchPods: none,
    pods: none,
    async events() {
      asks += 1;
      // The server takes some time, in which the job has changed again.
      await sleep(20);
      return [];
    },
    async close() {},
  };
  const mirror = createClusterMirror({
    store: store.clusters,
    installation: () => store.installationId(),
    open: async () => cluster as unknown as Awaited<ReturnType<typeof createCluster>>,
    openLogCopy: (job, pod, container) => openArchivedLog(archivedLogPath(archiveFolder(home, job), pod, container)),
    clock: ours,
    flavorPrice: () => null,
    report: () => undefined,
  });
  try {
    mirror.poll();
    await sleep(2_000);
    assert.ok(changes > 50 && asks > 0 && asks <= 5, `${changes} changes, ${asks} writes`);
  } finally {
    await mirror.stop();
    rmSync(home, { recursive: true });
  }
});

// The plan for a namespace, from its known state.

const running = aClusterJob();
const pod = aClusterPod();

test('a namespace is empty once its list is complete and nothing of ours is left to write', () => {
  const view = { ...emptyView(), isSynced: true };
  assert.equal(isEmpty(view), true);
  noteJob(view, running);
  view.changed.add('u1');
  noteGone(view, running);
  assert.equal(isEmpty(view), false);
  view.changed.clear();
  assert.equal(isEmpty(view), true);
});

test('a deleted pod belongs to its job until that is written', () => {
  const view = emptyView();
  noteJob(view, running);
  assert.equal(notePod(view, pod, false)?.uid, 'u1');
  notePod(view, pod, true);
  assert.deepEqual(podsOf(view, running), [pod]);
});

/** Archived jobs that a cluster does not list any more. */

const watched: WatchedContext = {
  server: 'https://127.0.0.1:1',
  namespace: 'vision',
  context: 'lab',
  setting: { type: 'default', file: null },
  kubeconfig: null,
  flavorAnnotation: 'jobman/flavor',
  requestedAt: Date.now(),
};
const [young, ...old] = ['u1', 'u2', 'u3'].map((uid) => aClusterJob({ name: `train-${uid}`, uid }));

/** The uids archived as gone after an empty list, and the number of requests for jobs. */
async function goneAfter(count: number, jobs: () => AsyncIterable<unknown>) {
  const store = openStore({ file: ':memory:', installation: 'abc123' });
  for (const job of [young, ...old]) {
    if (job === undefined) continue;
    await store.clusters.archiveObject({ server: watched.server, context: 'lab', observedAt: Date.now(), job }, '{}');
  }
  let asks = 0;
  const cluster = {
    async *watchJobs({ signal }: { readonly signal: AbortSignal }) {
      yield { kind: 'synced' } as const;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    },
    jobs() {
      asks += 1;
      return jobs();
    },
    async *watchPods() {},
    async *pods() {},
    events: async () => [],
    close: async () => undefined,
  };
  const watch = watchNamespace(watched, {
    store: store.clusters,
    installation: () => store.installationId(),
    open: async () => cluster as unknown as Cluster,
    openLogCopy: () => assert.fail('no log exists'),
    clock: {
      now: () => Date.now(),
      at(at, call) {
        const timer = setTimeout(call, at - Date.now());
        return () => clearTimeout(timer);
      },
    },
    flavorPrice: () => null,
    report: () => undefined,
  });
  const gone = async () =>
    (await store.clusters.jobs({})).flatMap(({ job, goneAt }) => (goneAt === null ? [] : [job.uid])).toSorted();
  try {
    assert.ok(await eventually(async () => (await gone()).length === count));
    return { gone: await gone(), asks };
  } finally {
    await watch.stop();
    await store.close();
  }
}

test('a job is gone if two lists do not have it, so that a new job is not', async () => {
  const found = await goneAfter(2, async function* () {
    yield [young];
  });
  assert.deepEqual(found, { gone: ['u2', 'u3'], asks: 1 });
});

test('jobs of a deleted namespace are gone', async () => {
  const found = await goneAfter(3, async function* () {
    yield [];
    throw new JobmanError('There is no namespace vision in lab.', exitCode.notFound);
  });
  assert.deepEqual(found.gone, ['u1', 'u2', 'u3']);
});
