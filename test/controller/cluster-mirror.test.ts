/**
 * The mirror of cluster jobs against a pretend API server that drops, repeats, forgets and restarts, while the mirror itself is
 * killed and begun anew. The laws look at what the cluster really did: a copy that is said to be whole is what was printed, one
 * that was cut is its beginning, nothing is there twice, and every job is on record as it ended.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { suite, test } from 'node:test';
import { isKeptOpen, keptPhase, type ClusterRecord, type KeptPlace } from '../../src/app/cluster/kept.ts';
import { keptFile, keptFolder, openKept, readKept } from '../../src/app/cluster/kept-logs.ts';
import type { Clock } from '../../src/app/ports.ts';
import { createCluster } from '../../src/backends/kubernetes/cluster.ts';
import { createClusterMirror, type ClusterMirror } from '../../src/controller/cluster-mirror.ts';
import { openStore } from '../../src/store/store.ts';
import { createChance } from '../../sim/chance.ts';
import { eventually } from '../support/eventually.ts';
import { aClusterJob } from '../app/cluster/sample.ts';
import { openPretendedCluster } from './pretended-cluster.ts';

/** So many times faster than ours goes the clock of the mirror. */
const faster = 100;
const clock: Clock = {
  now: () => Date.now() * faster,
  at(at, call) {
    const timer = setTimeout(call, Math.max(0, (at - Date.now() * faster) / faster));
    return () => clearTimeout(timer);
  },
};

/** A mirror that can be killed: from then on nothing that it does is seen by anybody. */
interface Mortal {
  readonly mirror: ClusterMirror;
  kill(): void;
}

async function play(seed: number): Promise<void> {
  const chance = createChance(seed);
  const home = mkdtempSync(join(tmpdir(), 'jobman-mirror-'));
  const store = openStore({ file: ':memory:', installation: 'abc123' });
  const record: ClusterRecord = store.clusters;
  const cluster = await openPretendedCluster(chance.fork('cluster'), 'abc123');
  const place: KeptPlace = {
    server: cluster.url,
    namespace: 'vision',
    context: 'lab',
    setting: { type: 'default', file: null },
    kubeconfig: null,
    flavorKey: 'jobman/flavor',
    wantedAt: clock.now(),
  };
  const said: string[] = [];
  const graves: Promise<void>[] = [];

  function beget(): Mortal {
    let isDead = false;
    const alive = <T>(act: () => T): T => {
      if (isDead) throw new Error('killed');
      return act();
    };
    const mirror = createClusterMirror({
      record: {
        ...record,
        keepSight: (...given) => alive(() => record.keepSight(...given)),
        keepLog: (...given) => alive(() => record.keepLog(...given)),
        leavePlace: (...given) => alive(() => record.leavePlace(...given)),
      },
      installation: () => store.installation(),
      open: async () =>
        createCluster({
          context: {
            name: 'lab',
            namespace: 'vision',
            cluster: { server: cluster.url },
            user: { token: 'secret' },
            userName: 'ada',
            from: 'a test',
          },
          flavorKey: 'jobman/flavor',
          env: {},
          now: () => Date.now(),
          retry: { tries: 3, triesBroken: 2, first: 1, most: 10 },
        }),
      copyOf(job, pod, container) {
        const kept = alive(() => openKept(keptFile(keptFolder(home, job), pod, container)));
        return { ...kept, append: (lines) => alive(() => kept.append(lines)) };
      },
      clock,
      say: (line) => void said.push(line),
    });
    mirror.look();
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
    /** As a submit does it: first where, then the job, then what was asked, then a knock. */
    const submit = async (name: string): Promise<void> => {
      await record.wantPlace({ ...place, wantedAt: clock.now() });
      const job = aClusterJob({ name, uid: cluster.createJob(name) });
      if (chance.yes(0.5)) await sleep(chance.between(0, 5));
      await record.keepObject({ server: place.server, context: 'lab', seenAt: clock.now(), job }, '{}');
      mortal?.mirror.look();
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
        // The cluster goes on while nobody looks.
        for (let missed = chance.between(0, 4); missed > 0; missed -= 1) cluster.step();
        mortal = beget();
      }
      await sleep(5);
    }
    cluster.calm();
    while (!cluster.isOver) cluster.step();

    const textOf = async (uid: string, name: string, pod: string, container: string): Promise<string> => {
      const parts: Uint8Array[] = [];
      for await (const part of readKept(keptFile(keptFolder(home, { name, uid }), pod, container))) parts.push(part);
      return Buffer.concat(parts).toString();
    };
    const told = (): string => `seed ${seed}; the mirror said:\n${said.join('\n')}`;

    // Calm: every job is on record as it ended, every log that can be had is whole, and the mirror is at rest.
    let problem = '';
    const isRight = async (): Promise<boolean> => {
      problem = '';
      const kept = new Map((await record.jobs({})).map((one) => [one.job.uid, one]));
      for (const [uid, { phase, gone }] of cluster.truth) {
        const one = kept.get(uid);
        // One that came and went while nobody looked is known to nobody.
        if (one === undefined && gone) continue;
        if (one === undefined) problem = `${uid} is not on record`;
        else if ((one.goneAt !== null) !== gone) problem = `${uid} is ${gone ? '' : 'not '}gone`;
        else if (!gone && keptPhase(one) !== phase) problem = `${uid} is ${phase}, on record ${keptPhase(one)}`;
        else if (gone && isKeptOpen(one)) problem = `${uid} is open`;
      }
      for (const { job, pod, container, removed } of cluster.printed) {
        const state = kept.get(job)?.logs.find((log) => log.pod === pod && log.container === container)?.state;
        if (!removed && state !== 'whole') problem ||= `the log of ${pod} ${container} is ${state}`;
      }
      if (mortal?.mirror.isBusy === true) problem ||= 'the mirror is busy';
      return problem === '';
    };
    if ((await eventually(isRight, { withinMs: 60_000 })) === undefined) assert.fail(`${problem}; ${told()}`);

    const all = await record.jobs({});
    for (const one of all) {
      const moments = await record.moments(one.job.uid);
      assert.equal(moments.filter(({ key }) => key === 'created').length, 1, told());
      assert.equal(
        moments.some(({ key }) => key === 'gone'),
        one.goneAt !== null,
        told(),
      );
      const ends = moments.filter(({ sentence }) => /^(succeeded|failed)/.test(sentence));
      assert.equal(ends.length, keptPhase(one) === 'cancelled' ? 0 : 1, told());
    }
    for (const { job, pod, container, text } of cluster.printed) {
      const one = all.find(({ job: { uid } }) => uid === job);
      if (one === undefined) continue;
      const copy = await textOf(job, one.job.name, pod, container);
      const state = one.logs.find((log) => log.pod === pod && log.container === container)?.state;
      if (state === 'whole') assert.equal(copy, text, `${pod} ${container}; ${told()}`);
      else assert.ok(text.startsWith(copy), `${pod} ${container} is not the beginning; ${told()}`);
    }

    // When nothing of ours is left there, nothing is asked any more.
    cluster.removeAll();
    const isLeft = async (): Promise<boolean> => (await record.places()).length === 0;
    assert.ok(await eventually(isLeft, { withinMs: 60_000 }), `the place is still watched; ${told()}`);
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
  test('keeps what the cluster forgets, whatever the cluster, the line and the controller do', async () => {
    for (let seed = first; seed < first + count; seed += 4) {
      await Promise.all([0, 1, 2, 3].filter((one) => seed + one < first + count).map((one) => play(seed + one)));
    }
  });
});

test('a job that changes without pause is written down at a pace of our own', { timeout: 20_000 }, async () => {
  const home = mkdtempSync(join(tmpdir(), 'jobman-mirror-'));
  const store = openStore({ file: ':memory:', installation: 'abc123' });
  const ours: Clock = {
    now: () => Date.now(),
    at(at, call) {
      const timer = setTimeout(call, Math.max(0, at - Date.now()));
      return () => clearTimeout(timer);
    },
  };
  const place: KeptPlace = {
    server: 'https://127.0.0.1:1',
    namespace: 'vision',
    context: 'lab',
    setting: { type: 'default', file: null },
    kubeconfig: null,
    flavorKey: 'jobman/flavor',
    wantedAt: ours.now(),
  };
  await store.clusters.wantPlace(place);
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
      // A server takes a moment, in which the job has changed again.
      await sleep(20);
      return [];
    },
    async close() {},
  };
  const mirror = createClusterMirror({
    record: store.clusters,
    installation: () => store.installation(),
    open: async () => cluster as unknown as Awaited<ReturnType<typeof createCluster>>,
    copyOf: (job, pod, container) => openKept(keptFile(keptFolder(home, job), pod, container)),
    clock: ours,
    say: () => undefined,
  });
  try {
    mirror.look();
    await sleep(2_000);
    assert.ok(changes > 50 && asks > 0 && asks <= 5, `${changes} changes, ${asks} writes`);
  } finally {
    await mirror.stop();
    rmSync(home, { recursive: true });
  }
});
