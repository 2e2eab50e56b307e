/** Logs of a cluster's job: the selected pods, and a job that is replaced meanwhile. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { readArchivedLog } from '../../src/files/archived-logs.ts';
import type { Client } from '../../src/app/client.ts';
import type { Cluster, ClusterLogQuery } from '../../src/app/cluster/cluster.ts';
import type { ClusterJob, ClusterPod } from '../../src/app/cluster/objects.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { openWorld } from '../support/world.ts';
import { fakeCluster, jobman } from './support/harness.ts';
import { aClusterContainer, aClusterJob, aClusterPod, aCondition, anArchivedJob } from '../support/cluster-builders.ts';

const at = Date.UTC(2026, 10, 20, 12, 0, 0);
const train = aClusterJob({
  uid: 'first',
  createdAt: at,
  startedAt: at,
  active: 1,
  ready: 1,
  parallelism: 2,
  completions: 2,
});
const again: ClusterJob = { ...train, uid: 'second' };
/** The same with one pod. */
const one: ClusterJob = { ...train, parallelism: 1, completions: 1 };

const pod = (jobUid: string, index: number): ClusterPod =>
  aClusterPod({ name: `train-${jobUid}-${index}`, jobUid, uid: `${jobUid}-${index}`, index, createdAt: at });

/**
 * A cluster with the first of these jobs, the second at the next check, and the last from then on. Each pod logs its
 * name and more.
 */
function cluster(jobs: readonly (ClusterJob | null)[], pods: readonly ClusterPod[]): Cluster {
  let checks = 0;
  return fakeCluster({
    job: async () => jobs[Math.min(checks++, jobs.length - 1)] ?? null,
    async *pods() {
      yield pods;
    },
    async *logs(name: string, _: string, { follow, timestamps, resumeAfter = Buffer.alloc(0) }: ClusterLogQuery) {
      const there = [`hello from ${name}`, 'loss 1', 'other', 'loss 2\nloss 3'];
      const texts = follow === true && name.endsWith('-busy') ? [...there, 'more', 'loss 4'] : there;
      let second = 0;
      for (const line of texts.join('\n').split('\n')) {
        const timestamp = `2026-11-20T12:00:${String((second += 1)).padStart(2, '0')}Z`;
        if (Buffer.from(resumeAfter).includes(timestamp)) continue;
        yield Buffer.from(`${timestamps === true ? `${timestamp} ` : ''}${line}\n`);
      }
      // The end of this line comes later.
      if (follow !== true && name.endsWith('-busy')) yield Buffer.from('2026-11-20T12:00:06Z loss unfinished');
    },
  });
}

function run(args: readonly string[], fake: Cluster) {
  return jobman(args, { jobs: [], services: { cluster: async () => fake, isClusterConfigured: async () => true } });
}

/** The log of a pod that begins with this line. */
function lines(prefix: string, first: string): string {
  return [first, 'loss 1', 'other', 'loss 2', 'loss 3'].map((line) => `${prefix}${line}\n`).join('');
}

suite('logs', () => {
  test('with a search show the last matching lines', async () => {
    const fake = cluster([train], [pod('first', 0), pod('first', 1)]);
    const args = ['logs', 'train', '--grep', 'loss', '--tail', '2', '--all-pods'];
    const { out } = await run(args, fake);
    assert.equal(out, '[0] loss 2\n[0] loss 3\n[1] loss 2\n[1] loss 3\n');
    const none = await run(['logs', 'train', '--grep', 'nothing', '--tail', '2'], fake);
    assert.deepEqual([none.code, none.out], [0, '']);
  });

  test('with --json name the job in each line', async () => {
    const { out } = await run(['logs', 'train', '--grep', 'loss 3', '--json'], cluster([train], [pod('first', 0)]));
    assert.deepEqual(JSON.parse(out), { job: 'train', pod: 'train-first-0', container: 'main', text: 'loss 3' });
  });

  test('that are followed begin with the last lines in which something is found', async () => {
    const busy = aClusterPod({ name: 'train-busy', jobUid: 'first', createdAt: at });
    const fake = cluster([train, train, null], [busy]);
    const args = ['logs', 'train', '--follow', '--grep', 'loss', '--tail', '1'];
    assert.equal((await run(args, fake)).out, '[busy] loss 3\n[busy] loss 4\n');
  });

  test('as bytes are the lines in which something is found', async () => {
    const fake = cluster([train], [pod('first', 0)]);
    assert.equal((await run(['logs', 'train', '--grep', 'oss 3', '--raw'], fake)).out, 'loss 3\n');
  });

  test('have their first error found in every pod', async () => {
    const found = cluster([train], [pod('first', 0), pod('first', 1)]);
    const fake = {
      ...found,
      async *logs(name: string) {
        yield Buffer.from(name.endsWith('-0') ? 'fine\n' : 'before\nValueError: no\nafter\n');
      },
    } as object as Cluster;
    const { code, out, err } = await run(['logs', 'train', '--first-error'], fake);
    assert.deepEqual([code, out], [0, '[1] before\n[1] ValueError: no\n[1] after\n']);
    assert.match(err, /^-- first error: train-first-1, line 2$/m);
  });

  test('of a job that was recreated under its name are its own, and its end is reported', async () => {
    const fake = cluster([train, train, again], [pod('first', 0), pod('second', 0), pod('second', 1)]);
    const { code, out, err } = await run(['logs', 'train', '--follow', '--all-pods'], fake);
    assert.equal(out, lines('[0] ', 'hello from train-first-0'));
    assert.match(err, /^Job train was deleted meanwhile\.$/m);
    assert.equal(code, 0);
  });

  test('of a job that was deleted meanwhile end with a message', async () => {
    const { out, err } = await run(['logs', 'train', '--follow'], cluster([train, train, null], [pod('first', 1)]));
    assert.equal(out, lines('[1] ', 'hello from train-first-1'));
    assert.match(err, /^Job train was deleted meanwhile\.$/m);
  });

  test('of a job of several pods are followed of all of them, also of one that begins later', async () => {
    let checks = 0;
    const fake = {
      ...cluster([train, train, train, null], []),
      async *pods() {
        checks += 1;
        yield checks < 2 ? [pod('first', 0)] : [pod('first', 0), pod('first', 1)];
      },
    } as object as Cluster;
    const { out } = await run(['logs', 'train', '--follow'], fake);
    assert.equal(out, lines('[0] ', 'hello from train-first-0') + lines('[1] ', 'hello from train-first-1'));
  });

  test('of pods that are gone while their Job stays are our copies', async (t) => {
    const { folder } = openWorld(t);
    const path = join(folder, 'copy.log');
    writeFileSync(path, '2026-11-20T12:00:01Z kept line\n');
    const gone = aClusterPod({ name: 'train-gone', jobUid: 'first', uid: 'g', createdAt: at });
    const evicted = { ...gone, name: 'train-evicted', uid: 'e', phase: 'Failed', reason: 'Evicted' };
    const kept = anArchivedJob({ job: one, pods: [gone] });
    const archive: Partial<Client> = {
      archivedJob: async () => kept,
      archivedLogs: async () => [{ pod: gone.name, container: 'main', state: 'complete' }],
      readArchivedLog: (_uid, _log, query) => readArchivedLog(path, query),
    };
    const ask = (fake: Cluster, args: readonly string[], having = archive) =>
      jobman(args, {
        jobs: [],
        services: {
          cluster: async () => fake,
          isClusterConfigured: async () => true,
        },
        archive: having,
      });
    const none = await ask(cluster([one], []), ['logs', 'train']);
    assert.deepEqual([none.code, none.out], [0, 'kept line\n']);
    assert.match(none.err, /no longer has this log; this is from the archive/);
    assert.doesNotMatch(none.err, /Nothing was printed/);
    const all = await ask(cluster([one], [pod('first', 0)]), ['logs', 'train', '--all-pods']);
    assert.match(all.out, /^\[gone\] kept line\n\[0\] hello from train-first-0/);
    const newest = await ask(cluster([one], [pod('first', 0)]), ['logs', 'train']);
    assert.doesNotMatch(newest.out, /kept/);
    // The pod is there, and its node has put the log away.
    const silent = {
      ...cluster([one], [evicted]),
      async *logs() {},
    } as object as Cluster;
    const away = await ask(silent, ['logs', 'train'], {
      ...archive,
      archivedLogs: async () => [{ pod: evicted.name, container: 'main', state: 'complete' }],
    });
    assert.equal(away.out, 'kept line\n');
    const over = aClusterJob({
      ...one,
      conditions: [aCondition('Failed', { reason: 'DeadlineExceeded' })],
    });
    assert.equal((await ask(cluster([over], []), ['logs', 'train', '--follow'])).out, 'kept line\n');
  });

  test('of a missing pod are reported, and the others are shown', async () => {
    const fake = cluster([train], [pod('first', 0), pod('second', 7)]);
    const { out: own } = await run(['logs', 'train', '--worker', '0'], fake);
    assert.equal(own, lines('[0] ', 'hello from train-first-0'));
    const { code, out, err } = await run(['logs', 'train', '--worker', '7'], fake);
    assert.deepEqual([code, out], [3, '']);
    assert.match(err, /train has no pod 7\.\n.*Its pods are 0 to 1; so far there are 1 of them\./);
  });
});

suite('logs of all containers', () => {
  const step = aClusterContainer({ name: 'fetch', init: true, state: 'terminated', exitCode: 0 });
  const sidecar = aClusterContainer({ name: 'sidecar' });
  const of = (index: number): ClusterPod => {
    const plain = pod('first', index);
    return { ...plain, containers: [step, ...plain.containers, sidecar] };
  };
  const withSidecar = (jobs: readonly (ClusterJob | null)[], pods: readonly ClusterPod[]): Cluster =>
    ({
      ...cluster(jobs, pods),
      async *logs(name: string, container: string) {
        yield Buffer.from(`${container} of ${name}\n`);
      },
    }) as object as Cluster;

  test('have the name of each in front, and of several pods its number too', async () => {
    const single = await run(['logs', 'train', '--all-containers'], withSidecar([one], [of(0)]));
    const name = 'train-first-0';
    assert.equal(single.out, `[fetch] fetch of ${name}\n[main] main of ${name}\n[sidecar] sidecar of ${name}\n`);
    assert.doesNotMatch(single.err, /has several containers/);
    const both = await run(['logs', 'train', '--all-containers', '--all-pods'], withSidecar([train], [of(0), of(1)]));
    assert.match(both.out, /^\[0\/fetch\] .*\n\[0\/main\] .*\n\[0\/sidecar\] .*\n\[1\/fetch\] /);
  });

  test('are followed together', async () => {
    const { out } = await run(['logs', 'train', '-f', '--all-containers'], withSidecar([one, one, null], [of(0)]));
    assert.deepEqual(out.match(/^\[\w+\]/gm)?.toSorted(), ['[fetch]', '[main]', '[sidecar]']);
  });

  test('go with no single one, and are of a cluster', async () => {
    const both = await run(['logs', 'train', '--all-containers', '--container', 'main'], withSidecar([one], [of(0)]));
    assert.equal(both.code, 2);
    assert.match(both.err, /--container names one container, and --all-containers means all/);
  });
});

suite('logs that are followed', () => {
  const two = [pod('first', 0), pod('first', 1)];
  /** The second pod's log ends in this error, so often. */
  const failing = (jobs: readonly (ClusterJob | null)[], error: JobmanError, times: number) => {
    let left = times;
    const fake = cluster(jobs, two);
    return {
      ...fake,
      async *logs(name: string, container: string, query: ClusterLogQuery) {
        if (name.endsWith('-1') && (left -= 1) >= 0) throw error;
        yield* fake.logs(name, container, query);
      },
    } as object as Cluster;
  };

  test('of a pod that is deleted before it is read do not end those of the others', async () => {
    const gone = new JobmanError('Could not read the log of train-first-1: not found.', exitCode.notFound);
    const { code, out, err } = await run(['logs', 'train', '-f'], failing([train, train, train, null], gone, 9));
    assert.deepEqual([code, out], [0, lines('[0] ', 'hello from train-first-0')]);
    assert.match(err, /train-first-1 was deleted before its log was read\./);
  });

  test('are opened again where the cluster was away', async () => {
    const away = new JobmanError('Could not read the log of train-first-1.', exitCode.unreachable);
    const jobs = [train, train, train, train, null];
    const { code, out, err } = await run(['logs', 'train', '-f'], failing(jobs, away, 1));
    assert.equal(code, 0, err);
    assert.equal(out, lines('[0] ', 'hello from train-first-0') + lines('[1] ', 'hello from train-first-1'));
  });

  test('are given up after several tries', async () => {
    const away = new JobmanError('Could not read the log of train-first-1.', exitCode.unreachable);
    const { code, err } = await run(['logs', 'train', '-f'], failing([train], away, 99));
    assert.equal(code, 5);
    assert.match(err, /Could not read the log of train-first-1\. Still trying\./);
  });

  test('through a server say when its cluster does not answer, and when it does again', async () => {
    const away = new JobmanError('The cluster of lab did not answer.', exitCode.unreachable);
    const over = Promise.withResolvers<void>();
    let checks = 0;
    const fake = fakeCluster({
      server: {},
      async job() {
        checks += 1;
        // The first two find the job and begin to follow it.
        if (checks === 3 || checks === 4) throw away;
        if (checks > 4) over.resolve();
        return checks > 5 ? null : one;
      },
      async *pods() {
        yield [pod('first', 0)];
      },
      async *logs() {
        yield Buffer.from('begun\n');
        await over.promise;
        yield Buffer.from('ended\n');
      },
    });
    const { out, err } = await run(['logs', 'train', '-f'], fake);
    assert.equal(out, 'begun\nended\n');
    assert.match(err, /^The cluster of lab did not answer\. Still trying\.\nThe cluster answers again\.$/m);
  });

  test('check for new pods less often while nothing changes', async () => {
    let checks = 0;
    const fake = {
      ...cluster([], [pod('first', 0)]),
      job: async () => ((checks += 1) && performance.now() < end ? one : null),
      async *logs() {
        await new Promise((resolve) => setTimeout(resolve, 5_000));
        yield Buffer.from('the end\n');
      },
    } as object as Cluster;
    const end = performance.now() + 4_900;
    const { out } = await run(['logs', 'train', '-f'], fake);
    assert.equal(out, 'the end\n');
    // To find the job, at 0 s, 1 s, 2.5 s and 4.75 s, and when the log has ended.
    assert.ok(checks <= 6, `${checks} checks`);
  });

  test('say that a container was restarted, and why', async () => {
    const lastEnd = { reason: 'OOMKilled', exitCode: 137, signal: null };
    const first = aClusterPod({ name: 'train-x', jobUid: 'first' });
    const again = aClusterPod({ name: 'train-x', jobUid: 'first' }, { restarts: 2, lastEnd });
    const message =
      /In train-x, its program was restarted 2 times, last because it ran out of memory .*\(OOMKilled\)\./;
    const once = await run(['logs', 'train'], cluster([one], [again]));
    assert.match(once.err, message);
    assert.match(once.err, /What it printed before that: --previous\.$/m);
    let checks = 0;
    const fake = {
      ...cluster([one, one, one, null], []),
      async *pods() {
        yield [(checks += 1) < 2 ? first : again];
      },
      async *logs() {
        await new Promise((resolve) => setTimeout(resolve, 1_500));
        yield Buffer.from('x\n');
      },
    } as object as Cluster;
    assert.match((await run(['logs', 'train', '-f'], fake)).err, message);
  });

  test('of very many pods take turns', async () => {
    const many = Array.from({ length: 130 }, (_, index) => pod('first', index));
    let [open, most, ended] = [0, 0, 0];
    const fake = {
      ...cluster([train], many),
      job: async () => (ended < 50 ? train : { ...train, conditions: [aCondition('Complete')] }),
      async *logs(name: string) {
        open += 1;
        most = Math.max(most, open);
        await new Promise((resolve) => setTimeout(resolve, 20));
        open -= 1;
        ended += 1;
        yield Buffer.from(`${name}\n`);
      },
    } as object as Cluster;
    const { out, err } = await run(['logs', 'train', '-f'], fake);
    assert.equal(out.split('\n').length - 1, 130);
    assert.equal(most, 100);
    assert.equal(err.match(/logs are followed at a time/g)?.length, 1);
  });
});
