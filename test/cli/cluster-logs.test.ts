/** Logs of a cluster's job: which pods are read, and what is told when the job is another one meanwhile. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Cluster, ClusterJob, ClusterLogQuery, ClusterPod } from '../../src/app/cluster/cluster.ts';
import { jobman } from './support/pretend.ts';
import { aClusterJob, aClusterPod } from '../app/cluster/sample.ts';

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

const pod = (jobUid: string, index: number): ClusterPod =>
  aClusterPod({ name: `train-${jobUid}-${index}`, jobUid, uid: `${jobUid}-${index}`, index, createdAt: at });

/** A cluster that has the first of these jobs, at the next look the second, and the last from then on. Each pod says its name, and more. */
function cluster(jobs: readonly (ClusterJob | null)[], pods: readonly ClusterPod[]): Cluster {
  let look = 0;
  const door = {
    place: () => ({ context: 'lab', server: 'https://lab', namespace: 'vision', user: 'alice' }),
    job: async () => jobs[Math.min(look++, jobs.length - 1)] ?? null,
    async *pods() {
      yield pods;
    },
    events: async () => [],
    async *logs(name: string, _: string, { follow, stamped, after = Buffer.alloc(0) }: ClusterLogQuery) {
      const there = [`hello from ${name}`, 'loss 1', 'other', 'loss 2\nloss 3'];
      const texts = follow === true && name.endsWith('-busy') ? [...there, 'more', 'loss 4'] : there;
      let second = 0;
      for (const line of texts.join('\n').split('\n')) {
        const moment = `2026-11-20T12:00:${String((second += 1)).padStart(2, '0')}Z`;
        if (Buffer.from(after).includes(moment)) continue;
        yield Buffer.from(`${stamped === true ? `${moment} ` : ''}${line}\n`);
      }
      // The end of this line comes later.
      if (follow !== true && name.endsWith('-busy')) yield Buffer.from('2026-11-20T12:00:06Z loss unfinished');
    },
    close: async () => undefined,
  };
  return door as object as Cluster;
}

function run(words: readonly string[], door: Cluster) {
  return jobman(words, { jobs: [], services: { cluster: async () => door, usesCluster: async () => true } });
}

/** What the log of a pod is that begins with this line. */
function lines(mark: string, first: string): string {
  return [first, 'loss 1', 'other', 'loss 2', 'loss 3'].map((line) => `${mark}${line}\n`).join('');
}

suite('logs', () => {
  test('in which something is looked for have the last lines in which it is', async () => {
    const door = cluster([train], [pod('first', 0), pod('first', 1)]);
    const words = ['logs', 'train', '--grep', 'loss', '--tail', '2', '--all-pods'];
    const { out } = await run(words, door);
    assert.equal(out, '[0] loss 2\n[0] loss 3\n[1] loss 2\n[1] loss 3\n');
    const none = await run(['logs', 'train', '--grep', 'nothing', '--tail', '2'], door);
    assert.deepEqual([none.code, none.out], [0, '']);
  });

  test('that are followed begin with the last lines in which something is found', async () => {
    const busy = aClusterPod({ name: 'train-busy', jobUid: 'first', createdAt: at });
    const door = cluster([train, train, null], [busy]);
    const words = ['logs', 'train', '--follow', '--grep', 'loss', '--tail', '1'];
    assert.equal((await run(words, door)).out, 'loss 3\nloss 4\n');
  });

  test('as bytes are the lines in which something is found', async () => {
    const door = cluster([train], [pod('first', 0)]);
    assert.equal((await run(['logs', 'train', '--grep', 'oss 3', '--raw'], door)).out, 'loss 3\n');
  });

  test('of a job that was made anew under its name are its own, and its end is told', async () => {
    const door = cluster([train, train, again], [pod('first', 0), pod('second', 0), pod('second', 1)]);
    const { code, out, err } = await run(['logs', 'train', '--follow', '--all-pods'], door);
    assert.equal(out, lines('[0] ', 'hello from train-first-0'));
    assert.match(err, /^train was deleted meanwhile\.$/m);
    assert.equal(code, 0);
  });

  test('of a job that is gone meanwhile end with that word', async () => {
    const { out, err } = await run(['logs', 'train', '--follow'], cluster([train, train, null], [pod('first', 1)]));
    assert.equal(out, lines('', 'hello from train-first-1'));
    assert.match(err, /^train was deleted meanwhile\.$/m);
  });

  test('of a pod that there is not are not found, and the others are told', async () => {
    const door = cluster([train], [pod('first', 0), pod('second', 7)]);
    const { out: own } = await run(['logs', 'train', '--worker', '0'], door);
    assert.equal(own, lines('[0] ', 'hello from train-first-0'));
    const { code, out, err } = await run(['logs', 'train', '--worker', '7'], door);
    assert.deepEqual([code, out], [3, '']);
    assert.match(err, /train has no pod 7\.\n.*Its pods are 0 to 1; so far there are 1 of them\./);
  });
});
