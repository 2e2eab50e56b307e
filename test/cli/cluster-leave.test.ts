/** Ctrl-C while a cluster deletes: what it was told stays told, nothing more is asked, and it is said. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { V1Job } from '@kubernetes/client-node';
import type { Cluster, ClusterJob } from '../../src/app/cluster/cluster.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { run } from '../../src/cli/run.ts';
import { fakeCluster, jobman, nothingKept, pretend } from './support/pretend.ts';
import { aClusterJob } from '../app/cluster/sample.ts';

const jobs = Array.from({ length: 12 }, (_, index) =>
  aClusterJob({ name: `train-${index}`, uid: `u${index}`, owner: 'alice', active: index === 0 ? 1 : 0 }),
);

/** Deletes nothing until somebody leaves; `begun` is called with each job. */
function door(all: readonly ClusterJob[], begun: (name: string) => void): Cluster {
  const there = fakeCluster({
    async *jobs() {
      yield all;
    },
    async *pods() {
      yield [];
    },
    job: async (name: string) => all.find((job) => job.name === name) ?? null,
    remove: (name: string, { signal }: { readonly signal: AbortSignal }) =>
      new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error));
        begun(name);
      }),
  });
  return there;
}

async function leaving(words: readonly string[], atOnce: number) {
  const begun: string[] = [];
  const cluster = door(jobs, (name) => {
    begun.push(name);
    if (begun.length === atOnce) setImmediate(() => world.signal());
  });
  const world = pretend({ services: { cluster: async () => cluster, usesCluster: async () => true } });
  const code = await run(words, world.services);
  return { code, begun, out: world.out(), err: world.err() };
}

suite('whoever leaves', () => {
  test('a deletion is told that it goes on', async () => {
    const { code, out, err } = await leaving(['delete', 'train-0'], 1);
    assert.deepEqual([code, out], [130, '']);
    assert.match(err, /^train-0: its pods are asked to end/);
    assert.match(
      err,
      /^Left before train-0 was seen gone; what the cluster was told stays told\. See: jobman why train-0$/m,
    );
  });

  test('a cancel too', async () => {
    const { code, err } = await leaving(['cancel', 'train-0'], 1);
    assert.equal(code, 130);
    assert.match(err, /^Left before train-0 was seen gone/m);
  });

  test('a job that was just submitted is told that it goes on, and how to get back to it', async () => {
    const cluster = fakeCluster({
      create: async (job: V1Job) => job,
      job: async (name: string) => aClusterJob({ name, active: 1 }),
    });
    // It takes a while to start the controller, and somebody does not wait for it.
    const keeper = { ...nothingKept, submitted: async () => (world.signal(), 'Started the controller.') };
    const world = pretend({
      services: {
        cluster: async () => cluster,
        keeper: async () => keeper,
      },
    });
    const flavor = '{"name":"small","resources":{"requests":{"cpu":"1"}}}';
    const code = await run(['submit', '-i', 'alpine', '-r', flavor, '-j', 'train', '--follow'], world.services);
    assert.deepEqual([code, world.out()], [130, 'train submitted to lab/vision as alice.\n']);
    assert.match(world.err(), /^Left; train goes on\. Back: jobman logs train -f$/m);
  });

  test('the deletion of all leaves the rest alone', async () => {
    const { code, begun, err } = await leaving(['delete', '--all', '--yes'], 8);
    assert.deepEqual([code, begun.length], [130, 8]);
    assert.equal(err.match(/^Left before /gm)?.length, 8);
    assert.match(err, /^Nothing was asked about the other 4 jobs\.$/m);
  });
});

test("of deletions side by side the worst exit code is the command's, also where others end after it", async () => {
  const cluster = fakeCluster({
    async *jobs() {
      yield jobs.slice(1, 4);
    },
    async *pods() {},
    async remove(name: string) {
      if (name === 'train-2') throw new JobmanError('The cluster does not answer.', exitCode.unreachable);
      await sleep(5);
      return 'gone';
    },
  });
  const { code, out, err } = await jobman(['delete', '--all', '--yes'], { services: { cluster: async () => cluster } });
  assert.equal(code, exitCode.unreachable);
  assert.match(out, /^train-1 is deleted[^]*^train-3 is deleted/m);
  assert.match(err, /The cluster does not answer\./);
});
