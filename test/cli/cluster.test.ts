/** Which job a word means where there is a record and a cluster, and the one list of both. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { ClusterKeeper } from '../../src/app/cluster/client.ts';
import type { Cluster, ClusterJob } from '../../src/app/cluster/cluster.ts';
import type { KeptJob } from '../../src/app/cluster/kept.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { jobman, nothingKept, view, type PretendOptions } from './support/pretend.ts';
import { aClusterJob, aClusterPod } from '../app/cluster/sample.ts';

const at = Date.UTC(2026, 10, 20, 12, 0, 0);

const train = aClusterJob({
  createdAt: at,
  startedAt: at,
  active: 1,
  ready: 1,
  flavor: 'small',
  owner: 'alice',
  requests: { cpu: '2' },
});
const ended = { type: 'Complete', status: 'True', reason: null, message: null, at: null };
const old: ClusterJob = { ...train, name: 'old', owner: null, flavor: null, endedAt: at, conditions: [ended] };

/** A cluster that has these, or does not answer; what is asked of it beyond that fails the test. */
function cluster(jobs: readonly ClusterJob[] | 'away'): { readonly door: Cluster; readonly asked: string[] } {
  const asked: string[] = [];
  const away = (): void => {
    if (jobs === 'away') throw new JobmanError('the cluster of lab did not answer.', exitCode.unreachable);
  };
  const all = jobs === 'away' ? [] : jobs;
  const door = {
    place: () => ({ context: 'lab', server: 'https://lab', namespace: 'vision', user: 'alice' }),
    async *jobs() {
      asked.push('jobs');
      away();
      yield all;
    },
    async job(name: string) {
      asked.push(`job ${name}`);
      away();
      return all.find((job) => job.name === name) ?? null;
    },
    async *pods() {},
    events: async () => [],
    async remove(name: string) {
      asked.push(`remove ${name}`);
      return 'gone' as const;
    },
    close: async () => void asked.push('close'),
  };
  return { door: door as object as Cluster, asked };
}

function run(words: readonly string[], jobs: readonly ClusterJob[] | 'away', options: PretendOptions = {}) {
  const { door, asked } = cluster(jobs);
  const services = { cluster: async () => door, usesCluster: async () => true };
  return jobman(words, { ...options, services }).then((ended_) => ({ ...ended_, ofCluster: asked }));
}

suite('a word', () => {
  const mine = view({ id: '000007', name: 'train' });

  test('means the job of the record first, and the one of the cluster where there is none here', async () => {
    const own = await run(['why', 'train'], [train], { jobs: [mine] });
    assert.deepEqual([own.code, own.out.split('\n')[0]], [0, '4 of 4 workers alive.']);
    const other = await run(['why', 'train'], [train], { jobs: [] });
    assert.equal(other.code, 0);
    assert.match(other.out, /^train /);
    assert.equal(other.ofCluster.at(-1), 'close');
  });

  test('that is an id asks no cluster', async () => {
    const { code, ofCluster } = await run(['why', '7'], [train], { jobs: [mine] });
    assert.deepEqual([code, ofCluster], [0, []]);
  });

  test('said exactly must not mean two', async () => {
    const { code, err } = await run(['delete', '-j', 'train'], [train], { jobs: [mine] });
    assert.equal(code, 4);
    assert.match(err, /The name "train" stands for two jobs: 000007 here, and one in lab\/vision\./);
    // A cluster that cannot be asked says nothing of it.
    assert.equal((await run(['why', '-j', 'train'], 'away', { jobs: [mine] })).code, 0);
  });

  test('with a namespace is a job of the cluster only', async () => {
    const { code, out, ofCluster } = await run(['delete', 'train', '--namespace', 'vision'], [train], { jobs: [mine] });
    assert.equal(code, 0);
    assert.match(out, /^train is deleted: it and its pods are gone from lab\/vision\.$/m);
    assert.ok(ofCluster.includes('remove train'));
  });

  test('that is nowhere is said, and keeps the others from nothing', async () => {
    const { code, out, err } = await run(['why', 'nothing', 'train'], [train], { jobs: [] });
    assert.equal(code, 3);
    assert.match(err, /There is no job called "nothing", here or in lab\/vision\./);
    assert.match(out, /^train /);
    const away = await run(['why', 'nothing'], 'away', { jobs: [] });
    assert.equal(away.code, 5);
    assert.match(
      away.err,
      /no job called "nothing" here, and the cluster cannot be asked\. the cluster of lab did not answer/,
    );
  });

  test('of a flag that the other kind has', async () => {
    assert.equal((await run(['logs', '7', '--all-pods'], [train], { jobs: [mine] })).code, 2);
    assert.equal((await run(['logs', 'train', '--step', 'docker'], [train], { jobs: [] })).code, 2);
    assert.equal((await run(['delete', '--own', 'train'], [train], { jobs: [] })).code, 2);
    assert.equal((await run(['delete', '--all', 'train'], [train], { jobs: [] })).code, 2);
  });
});

suite('what the cluster has forgotten', () => {
  const kept: KeptJob = {
    job: { ...old, name: 'gone', uid: 'u2', owner: 'alice', endedAt: at, startedAt: at - 5_000 },
    pods: [],
    events: [],
    server: 'https://lab',
    context: 'lab',
    seenAt: at,
    goneAt: at,
    hidden: false,
    object: JSON.stringify({ metadata: { name: 'gone' }, spec: { template: { spec: {} } } }),
    logs: [],
  };
  const home = (jobs: readonly KeptJob[], done: string[] = []): ClusterKeeper => ({
    ...nothingKept,
    isUsed: true,
    jobs: async ({ name }) => jobs.filter(({ job }) => name === undefined || job.name === name),
    moments: async () => [{ key: 'created', at, sentence: 'created by alice: alpine' }],
    hide: async (uid) => void done.push(`hide ${uid}`),
    drop: async ({ job }) => void done.push(`drop ${job.name}`),
  });
  const ask = (words: readonly string[], jobs: readonly ClusterJob[] | 'away', keeper: ClusterKeeper) => {
    const { door } = cluster(jobs);
    const services = { cluster: async () => door, usesCluster: async () => true, keeper: async () => keeper };
    return jobman(words, { services });
  };

  test('answers from our copy, which says that it is one', async () => {
    const why = await ask(['why', 'gone'], [train], home([kept]));
    assert.equal(why.code, 0, why.err);
    assert.match(why.out, /^gone succeeded /);
    assert.match(why.err, /^lab\/vision does not have gone any more \(seen gone .* ago\); this is our copy\.\n/);
    const away = await ask(['history', '-j', 'gone'], 'away', home([kept]));
    assert.match(away.out, /created by alice: alpine\n/);
    assert.match(away.err, /did not answer\. This is our copy of lab\/vision, last seen .* ago\./);
    assert.match((await ask(['details', 'gone'], [], home([kept]))).out, /✓ succeeded\n/);
    assert.equal((await ask(['wait', 'gone'], [], home([kept]))).code, 0);
    assert.match((await ask(['logs', 'gone'], [], home([kept]))).err, /There is no copy of a log/);
  });

  test('is in the list of all, once, and not when it was taken off', async () => {
    const ids = async (keeper: ClusterKeeper, ...words: readonly string[]): Promise<readonly string[]> => {
      const { out } = await ask(['list', '--json', ...words], [train], keeper);
      return out
        .split('\n')
        .filter(Boolean)
        .map((line) => (JSON.parse(line) as { id: string }).id);
    };
    assert.deepEqual(await ids(home([kept])), ['train']);
    assert.deepEqual(await ids(home([kept, { ...kept, goneAt: at - 1 }]), '--all'), ['train', 'gone']);
    assert.deepEqual(await ids(home([{ ...kept, hidden: true }]), '--all'), ['train']);
    assert.deepEqual(await ids(home([{ ...kept, job: { ...kept.job, name: 'train' } }]), '--all'), ['train']);
    // What the cluster tells of is not told of again as another context's, nor as it was when it was last seen.
    const renamed: KeptJob = { ...kept, context: 'a/b', goneAt: null, job: train };
    assert.deepEqual(await ids(home([renamed]), '--all'), ['train']);
    assert.deepEqual(await ids(home([{ ...kept, goneAt: null, job: old }]), '--all', '--phase', 'succeeded'), []);
  });

  test('has no pod that runs any more, and moments as texts', async () => {
    const lost: KeptJob = {
      ...kept,
      job: { ...train, name: 'gone', uid: 'u2', images: ['alpine', 'alpine'] },
      pods: [aClusterPod({ jobUid: 'u2', createdAt: at })],
    };
    const { out } = await ask(['details', 'gone'], [], home([lost]));
    assert.match(out, /^image +alpine$/m);
    assert.match(out, /^pods +1: 1 gone before they had ended$/m);
    assert.match(out, /main +gone +0/);
    const told = await ask(['details', 'gone', '--json'], [], home([lost]));
    const { pods } = JSON.parse(told.out) as { pods: readonly { readonly createdAt: unknown }[] };
    assert.equal(pods[0]?.createdAt, '2026-11-20T12:00:00.000Z');
  });

  test('tells the newest of many events, and how many are older', async () => {
    const events = Array.from({ length: 23 }, (_, index) => ({
      object: { kind: 'Job', name: 'gone', uid: 'u2' },
      type: 'Normal' as const,
      reason: `Reason${index}`,
      message: 'said',
      count: 1,
      firstAt: at + index,
      lastAt: at + index,
    }));
    const { out } = await ask(['details', 'gone'], [], home([{ ...kept, events }]));
    assert.match(out, /Reason22 +said\nand 3 older events\n$/);
    assert.doesNotMatch(out, /Reason2 /);
  });

  test('says with its exit code that it may be old', async () => {
    const open = home([{ ...kept, goneAt: null, job: { ...train, name: 'gone' } }]);
    const away = await ask(['why', 'gone'], 'away', open);
    assert.equal(away.code, 5);
    assert.match(away.out, /^gone /);
    assert.equal((await ask(['why', 'gone'], 'away', home([kept]))).code, 0, 'what has ended does not change');
  });

  test('that was taken off the list is nowhere but in its logs and history, and can be run again', async () => {
    const hidden = home([{ ...kept, hidden: true }]);
    assert.equal((await ask(['history', 'gone'], [], hidden)).code, 0);
    for (const word of ['why', 'details', 'delete', 'wait']) {
      const { code, err } = await ask([word, 'gone'], [], hidden);
      assert.equal(code, 3, word);
      assert.match(err, /Its logs and history are kept: /);
    }
    // What it ran is kept too, unless it was not.
    const { err } = await ask(['rerun', 'gone'], [], home([{ ...kept, hidden: true, object: null }]));
    assert.match(err, /What gone ran was not kept, so it cannot be run again/);
  });

  test('in two places is not guessed at where no cluster says which', async () => {
    const done: string[] = [];
    const other: KeptJob = { ...kept, server: 'https://other', context: 'other', job: { ...kept.job, uid: 'u3' } };
    const keeper = home([kept, other], done);
    const away = { usesCluster: async () => false, keeper: async () => keeper };
    const { code, err } = await jobman(['clean', 'gone'], { services: away });
    assert.deepEqual([code, done], [4, []]);
    assert.match(err, /stands for 2 jobs that are kept here: in lab\/vision, other\/vision\.\n.*--context lab/);
    // Two of one name in one place are one after the other, and the newer is meant.
    const later = home([kept, { ...kept, job: { ...kept.job, uid: 'u3' } }]);
    const again = await jobman(['why', 'gone'], { services: { ...away, keeper: async () => later } });
    assert.equal(again.code, 0, again.err);
  });

  test('may be taken off the list, cleaned and not stopped', async () => {
    const done: string[] = [];
    assert.equal((await ask(['delete', 'gone'], [], home([kept], done))).code, 0);
    assert.equal((await ask(['clean', 'gone'], [], home([kept], done))).code, 0);
    assert.deepEqual(done, ['hide u2', 'drop gone']);
    assert.equal((await ask(['stop', 'gone'], [], home([kept]))).code, 4);
    const theirs = home([{ ...kept, job: { ...kept.job, owner: 'bob' } }], done);
    assert.match((await ask(['clean', 'gone'], [], theirs)).err, /belongs to bob/);
    assert.match((await ask(['clean', 'train'], [train], home([]))).err, /train is still in lab\/vision/);
  });

  test('is not at hand for what needs its pods', async () => {
    const { code, err } = await ask(['exec', 'gone', '--', 'ls'], [], home([kept]));
    assert.equal(code, 3);
    assert.match(
      err,
      /gone is not at hand\. .*\n  Its logs and history are kept: jobman logs gone, jobman history gone/,
    );
  });
});

suite('the one list', () => {
  const row = view({ id: '000007', name: 'iris', phase: 'succeeded', since: at + 1_000, createdAt: at });

  test('has both, what is not settled first', async () => {
    const { code, out, err } = await run(['list', '--json'], [train, old], { jobs: [row] });
    assert.equal(code, 0, err);
    const rows = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(
      rows.map(({ id, backend, user }) => [id, backend, user]),
      [
        ['train', 'kubernetes', 'alice'],
        ['000007', 'tpu', 'alice'],
        ['old', 'kubernetes', '-'],
      ],
    );
    assert.deepEqual(
      [rows[0]?.['accelerator'], rows[2]?.['accelerator'], rows[0]?.['zone']],
      ['small', 'cpu 2', 'lab/vision'],
    );
  });

  test('keeps to the filters', async () => {
    const names = async (...words: readonly string[]): Promise<readonly string[]> => {
      const { out } = await run(['list', '--json', ...words], [train, old], { jobs: [] });
      return out
        .split('\n')
        .filter(Boolean)
        .map((line) => (JSON.parse(line) as { id: string }).id);
    };
    assert.deepEqual(await names('--name', 'TR*'), ['train']);
    assert.deepEqual(await names('--user', 'alice'), ['train']);
    assert.deepEqual(await names('--phase', 'succeeded'), ['old']);
    assert.deepEqual(await names('--tag', 'x'), []);
  });

  test('says why pods do not run, and asks for those of such jobs only', async () => {
    const stuck = aClusterJob({ name: 'stuck', uid: 'u9', createdAt: at, active: 1 });
    const missing = aClusterPod(
      { job: 'stuck', jobUid: 'u9', phase: 'Pending' },
      { state: 'waiting', reason: 'ErrImagePull', image: 'lab/x', startedAt: null },
    );
    const earlier = { ...missing, uid: 'p2', jobUid: 'u8', conditions: [], containers: [] };
    const look = async (
      jobs: readonly ClusterJob[],
      pods: () => AsyncIterable<readonly unknown[]>,
      ...words: string[]
    ) => {
      const asked: unknown[] = [];
      const { door } = cluster(jobs);
      const counted = {
        ...door,
        pods: ({ labels }: { labels: string }) => (asked.push(labels), pods()),
      } as object as Cluster;
      const services = { cluster: async () => counted, usesCluster: async () => true };
      const { out, code } = await jobman(['list', '--json', ...words], { jobs: [], services });
      assert.equal(code, 0);
      const lines = out.split('\n').filter(Boolean);
      const rows = lines.map((line) => JSON.parse(line) as { id: string; phase: string; reason: string });
      return { asked, rows: rows.map(({ id, phase, reason }) => `${id} ${phase}: ${reason}`) };
    };
    const told = async function* () {
      yield [earlier, missing];
    };
    const calm = await look([train, old], told);
    assert.deepEqual(calm.asked, []);
    const { rows, asked } = await look([train, stuck, old], told);
    assert.deepEqual(asked, ['job-name in (stuck)']);
    assert.ok(rows.includes('stuck setup: cannot get its image lab/x'), rows.join('\n'));
    assert.deepEqual((await look([train, stuck], told, '--phase', 'queued')).rows, []);
    assert.equal((await look([train, stuck], told, '--phase', 'setup')).rows.length, 1);
    const refused = await look([stuck], async function* () {
      yield [];
      throw new JobmanError('may not list pods', exitCode.failed);
    });
    assert.deepEqual(refused.rows, ['stuck queued: its pod does not run yet']);
  });

  test('asks for the pods of the newest where very many do not run', async () => {
    const many = Array.from({ length: 2_500 }, (_, index) =>
      aClusterJob({ name: `job-${index}`, uid: `u${index}`, active: 1, createdAt: at + ((index * 7) % 2_500) }),
    );
    let labels = '';
    const { door } = cluster(many);
    const counted = {
      ...door,
      async *pods(query: { labels: string }) {
        ({ labels } = query);
        yield [];
      },
    } as object as Cluster;
    const services = { cluster: async () => counted, usesCluster: async () => true };
    const { out } = await jobman(['list', '--json'], { jobs: [], services });
    assert.equal(out.split('\n').filter(Boolean).length, 2_500);
    const names = new Set(/\((.*)\)/.exec(labels)?.[1]?.split(','));
    const newest = many.filter(({ createdAt }) => createdAt >= at + 2_400).map(({ name }) => name);
    assert.deepEqual([...names].toSorted(), newest.toSorted());
  });

  test('is whole without a cluster that does not answer', async () => {
    const { code, out, err } = await run(['list'], 'away', { jobs: [row] });
    assert.equal(code, 0);
    assert.match(out, /iris/);
    assert.match(err, /note: The cluster of lab is not shown: the cluster of lab did not answer\./);
  });

  test('that should show a named place fails with it, and does not say that there are no jobs', async () => {
    const unnamed = await run(['list'], 'away', { jobs: [] });
    assert.equal(unnamed.code, 0);
    assert.match(unnamed.err, /^No jobs here\.\n/);
    const { code, err } = await run(['list', '--namespace', 'vision'], 'away', { jobs: [row] });
    assert.equal(code, 5);
    assert.match(err, /note: The cluster of lab is not shown/);
    const { code: shown } = await run(['list', '--context', 'lab'], [train], { jobs: [row] });
    assert.equal(shown, 0);
  });

  test('has the line of settings that are wrong', async () => {
    const broken = new JobmanError('settings.json is not valid JSON.', exitCode.usage, [
      'settings.json:1:32: no comma',
    ]);
    const services = {
      usesCluster: async () => true,
      cluster: async () => {
        throw broken;
      },
    };
    const { code, err } = await jobman(['list'], { jobs: [row], services });
    assert.equal(code, 0);
    assert.match(err, /is not shown: settings\.json is not valid JSON\. settings\.json:1:32: no comma/);
  });
});
