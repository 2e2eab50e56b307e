/** The job that an argument means with the database and a cluster, and the one list of both. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Client } from '../../src/app/client.ts';
import type { Cluster } from '../../src/app/cluster/cluster.ts';
import type { ArchivedJob, ClusterJob } from '../../src/app/cluster/objects.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { jobman, jobView, type CliHarnessOptions } from './support/harness.ts';
import { usageRow } from '../support/builders.ts';
import { aClusterEvent, aClusterJob, aClusterPod, aCondition, anArchivedJob } from '../support/cluster-builders.ts';

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

const keptJob = (job: ClusterJob, more: Partial<ArchivedJob> = {}): ArchivedJob =>
  anArchivedJob({ job, observedAt: at, ...more });

const old: ClusterJob = {
  ...train,
  name: 'old',
  owner: null,
  flavor: null,
  endedAt: at,
  conditions: [aCondition('Complete')],
};

/** A cluster that has these, or does not answer; what is asked of it beyond that fails the test. */
function cluster(jobs: readonly ClusterJob[] | 'away'): { readonly fake: Cluster; readonly asked: string[] } {
  const asked: string[] = [];
  const away = (): void => {
    if (jobs === 'away') throw new JobmanError('the cluster of lab did not answer.', exitCode.unreachable);
  };
  const all = jobs === 'away' ? [] : jobs;
  const fake = {
    context: () => ({ context: 'lab', server: 'https://lab', namespace: 'vision', user: 'alice' }),
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
    async remove({ name }: ClusterJob) {
      asked.push(`remove ${name}`);
      return 'gone' as const;
    },
    close: async () => void asked.push('close'),
  };
  return { fake: fake as object as Cluster, asked };
}

/** With that cluster, and with nothing in the record unless the options say otherwise. */
function jobmanAt(fake: Cluster, args: readonly string[], { services, ...options }: CliHarnessOptions = {}) {
  return jobman(args, {
    ...options,
    services: { cluster: async () => fake, isClusterConfigured: async () => true, ...services },
  });
}

async function run(args: readonly string[], jobs: readonly ClusterJob[] | 'away', options: CliHarnessOptions = {}) {
  const { fake, asked } = cluster(jobs);
  return { ...(await jobmanAt(fake, args, options)), ofCluster: asked };
}

/** The objects that a command has printed. */
const objectsIn = (out: string): readonly Readonly<Record<string, unknown>>[] =>
  out.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Record<string, unknown>]));
const idsIn = (out: string): readonly unknown[] => objectsIn(out).map(({ id }) => id);

const stuck = aClusterJob({ name: 'stuck', uid: 'u9', createdAt: at, active: 1 });
const withoutImage = aClusterPod(
  { job: 'stuck', jobUid: 'u9', phase: 'Pending' },
  { state: 'waiting', reason: 'ErrImagePull', image: 'lab/x', startedAt: null },
);

suite('an argument', () => {
  const mine = jobView({ id: '000007', name: 'train' });

  test('means the job of the database, otherwise that of the cluster', async () => {
    const own = await run(['why', 'train'], [train], { jobs: [mine] });
    assert.deepEqual([own.code, own.out.split('\n')[0]], [0, '4 of 4 workers alive.']);
    const other = await run(['why', 'train'], [train], { jobs: [] });
    assert.equal(other.code, 0);
    assert.match(other.out, /^Job train /);
    assert.equal(other.ofCluster.at(-1), 'close');
  });

  test('that is an id asks no cluster', async () => {
    const { code, ofCluster } = await run(['why', '7'], [train], { jobs: [mine] });
    assert.deepEqual([code, ofCluster], [0, []]);
  });

  test('said exactly must not mean two', async () => {
    const { code, err } = await run(['delete', '-j', 'train'], [train], { jobs: [mine] });
    assert.equal(code, 4);
    assert.match(err, /Two jobs are named "train": 000007 here, and one in lab\/vision\./);
    // A cluster that cannot be asked says nothing of it.
    assert.equal((await run(['why', '-j', 'train'], 'away', { jobs: [mine] })).code, 0);
  });

  test('with a namespace is a job of the cluster only', async () => {
    const { code, out, ofCluster } = await run(['delete', 'train', '--namespace', 'vision'], [train], { jobs: [mine] });
    assert.equal(code, 0);
    assert.match(out, /^Job train and its pods are deleted from lab\/vision\.$/m);
    assert.ok(ofCluster.includes('remove train'));
  });

  test('that is nowhere is said, and keeps the others from nothing', async () => {
    const { code, out, err } = await run(['why', 'nothing', 'train'], [train], { jobs: [] });
    assert.equal(code, 3);
    assert.match(err, /There is no job named "nothing", here or in lab\/vision\./);
    assert.match(out, /^Job train /);
    const waited = await run(['wait', 'nothing', '--json'], [train], { jobs: [] });
    assert.equal((JSON.parse(waited.err) as { error: { job: string } }).error.job, 'nothing');
    const away = await run(['why', 'nothing'], 'away', { jobs: [] });
    assert.equal(away.code, 5);
    assert.match(
      away.err,
      /no job named "nothing" here, and the cluster cannot be reached\. the cluster of lab did not answer/,
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
  const kept = keptJob(
    { ...old, name: 'gone', uid: 'u2', owner: 'alice', endedAt: at, startedAt: at - 5_000 },
    { goneAt: at, object: JSON.stringify({ metadata: { name: 'gone' }, spec: { template: { spec: {} } } }) },
  );
  const home = (jobs: readonly ArchivedJob[], done: string[] = []): Partial<Client> => ({
    archivedJobs: async ({ name }) => jobs.filter(({ job }) => name === undefined || job.name === name),
    archivedEvents: async () => [{ key: 'created', at, message: 'created by alice: alpine' }],
    hideArchivedJob: async (uid) => void done.push(`hide ${uid}`),
    removeArchivedJob: async (uid) => void done.push(`remove ${uid}`),
  });
  const ask = (args: readonly string[], jobs: readonly ClusterJob[] | 'away', archive: Partial<Client>) =>
    run(args, jobs, { archive });

  test('the cost of a job is not that of another job of its name', async () => {
    const hours = { job: 'gone', jobName: 'gone', source: 'kubernetes', location: 'lab/vision' } as const;
    const usage = [usageRow({ ...hours, uid: 'u2' }), usageRow({ ...hours, uid: 'u1', pricePerHourUsd: 100 })];
    const ofGone = (...args: readonly string[]) => run(args, [], { usage, archive: home([kept]) });
    const cost = await ofGone('cost', 'gone');
    assert.match(cost.out, /^gone  lab\/vision  ada .* \$8\.00 /m);
    assert.match(cost.out, /^total .* \$8\.00$/m);
    assert.match(cost.err, /This is job gone, one of 2 named gone\. All of them: jobman cost --name gone\n/);
    assert.match((await ofGone('show', 'gone')).out, /cost .*\$8\.00 estimated/);
  });

  test('answers from our copy, which says that it is one', async () => {
    const why = await ask(['why', 'gone'], [train], home([kept]));
    assert.equal(why.code, 0, why.err);
    assert.match(why.out, /^Job gone succeeded /);
    assert.match(why.err, /^lab\/vision does not have gone any more \(deleted .* ago\); this is from the archive\.\n/);
    const away = await ask(['history', '-j', 'gone'], 'away', home([kept]));
    assert.match(away.out, /created by alice: alpine\n/);
    assert.match(away.err, /did not answer\. This is from the archive of lab\/vision, .* old\./);
    assert.match((await ask(['details', 'gone'], [], home([kept]))).out, /✓ succeeded\n/);
    assert.equal((await ask(['wait', 'gone'], [], home([kept]))).code, 0);
    assert.match((await ask(['logs', 'gone'], [], home([kept]))).err, /The archive has no log/);
  });

  test('is in the list of all, once, and not when it was taken off', async () => {
    const ids = async (archive: Partial<Client>, ...args: readonly string[]) =>
      idsIn((await ask(['list', '--json', ...args], [train], archive)).out);
    assert.deepEqual(await ids(home([kept])), ['train']);
    assert.deepEqual(await ids(home([kept, { ...kept, goneAt: at - 1 }]), '--all'), ['train', 'gone']);
    assert.deepEqual(await ids(home([{ ...kept, hidden: true }]), '--all'), ['train']);
    assert.deepEqual(await ids(home([{ ...kept, job: { ...kept.job, name: 'train' } }]), '--all'), ['train']);
    // Jobs that the cluster lists are not listed again from another context or from the archive.
    const renamed: ArchivedJob = { ...kept, context: 'a/b', goneAt: null, job: train };
    assert.deepEqual(await ids(home([renamed]), '--all'), ['train']);
    assert.deepEqual(await ids(home([{ ...kept, goneAt: null, job: old }]), '--all', '--phase', 'succeeded'), []);
  });

  test('has no running pod, and times as text', async () => {
    const lost: ArchivedJob = {
      ...kept,
      job: { ...train, name: 'gone', uid: 'u2', images: ['alpine', 'alpine'] },
      pods: [aClusterPod({ jobUid: 'u2', createdAt: at })],
    };
    const { out } = await ask(['details', 'gone'], [], home([lost]));
    assert.match(out, /^image +alpine$/m);
    assert.match(out, /^pods +1: 1 deleted before they ended$/m);
    assert.match(out, /main +gone +0/);
    const result = await ask(['details', 'gone', '--json'], [], home([lost]));
    const { pods } = JSON.parse(result.out) as { pods: readonly { readonly createdAt: unknown }[] };
    assert.equal(pods[0]?.createdAt, '2026-11-20T12:00:00.000Z');
  });

  test('shows the newest of many events, and the number of older ones', async () => {
    const events = Array.from({ length: 23 }, (_, index) =>
      aClusterEvent({ reason: `Reason${index}`, message: 'text', lastAt: at + index }),
    );
    const { out } = await ask(['details', 'gone'], [], home([{ ...kept, events }]));
    assert.match(out, /Reason22 +text\nand 3 older events\n$/);
    assert.doesNotMatch(out, /Reason2 /);
  });

  test('says with its exit code that it may be old', async () => {
    const open = home([{ ...kept, goneAt: null, job: { ...train, name: 'gone' } }]);
    const away = await ask(['why', 'gone'], 'away', open);
    assert.equal(away.code, 5);
    assert.match(away.out, /^Job gone /);
    assert.equal((await ask(['why', 'gone'], 'away', home([kept]))).code, 0, 'what has ended does not change');
  });

  test('a deleted job is found by logs, history and rerun only', async () => {
    const hidden = home([{ ...kept, hidden: true }]);
    assert.equal((await ask(['history', 'gone'], [], hidden)).code, 0);
    for (const verb of ['why', 'details', 'delete', 'wait']) {
      const { code, err } = await ask([verb, 'gone'], [], hidden);
      assert.equal(code, 3, verb);
      assert.match(err, /Its logs and history remain: /);
    }
    // Its command is archived too, if it is known.
    const { err } = await ask(['rerun', 'gone'], [], home([{ ...kept, hidden: true, object: null }]));
    assert.match(err, /jobman has no copy of the Job gone, so it cannot be run again/);
  });

  test('is the newest job for logs without a job', async () => {
    const older = jobView({ id: '000007', name: 'iris', createdAt: kept.job.createdAt - 1 });
    const archive = home([kept]);
    for (const args of [['logs'], ['logs', '-n', 'vision']]) {
      const { err } = await run(args, [train], { jobs: [older], archive });
      assert.match(err, /^The newest job is gone in lab\/vision\.\n/);
    }
    const newer = jobView({ id: '000008', name: 'vit', createdAt: kept.job.createdAt + 1 });
    assert.match(
      (await run(['logs'], [train], { jobs: [newer], archive })).err,
      /^The newest job is 000008 \(vit\)\.\n/,
    );
  });

  test('in two clusters is ambiguous if no cluster is named', async () => {
    const done: string[] = [];
    const other: ArchivedJob = { ...kept, server: 'https://other', context: 'other', job: { ...kept.job, uid: 'u3' } };
    const archive = home([kept, other], done);
    const services = { isClusterConfigured: async () => false };
    const { code, err } = await jobman(['clean', 'gone'], { archive, services });
    assert.deepEqual([code, done], [4, []]);
    assert.match(err, /Several jobs are named "\S+": in lab\/vision and in other\/vision\.\n.*--context lab/);
    // Two jobs of one name in one namespace follow each other, and the newer one is meant.
    const later = home([kept, { ...kept, job: { ...kept.job, uid: 'u3' } }]);
    const again = await jobman(['why', 'gone'], { archive: later, services });
    assert.equal(again.code, 0, again.err);
  });

  test('may be taken off the list, cleaned and not stopped', async () => {
    const done: string[] = [];
    assert.equal((await ask(['delete', 'gone'], [], home([kept], done))).code, 0);
    assert.equal((await ask(['clean', 'gone'], [], home([kept], done))).code, 0);
    assert.deepEqual(done, ['hide u2', 'remove u2']);
    assert.equal((await ask(['stop', 'gone'], [], home([kept]))).code, 4);
    const theirs = home([{ ...kept, job: { ...kept.job, owner: 'bob' } }], done);
    for (const verb of ['clean', 'delete']) {
      const { code, err } = await ask([verb, 'gone'], [], theirs);
      assert.equal(code, 4, verb);
      assert.match(err, /belongs to bob/);
    }
    assert.match((await ask(['clean', 'train'], [train], home([]))).err, /train is still in lab\/vision/);
  });

  test('cannot do what needs its pods', async () => {
    const { code, err } = await ask(['exec', 'gone', '--', 'ls'], [], home([kept]));
    assert.equal(code, 3);
    assert.match(err, /gone is deleted\. .*\n  Its logs and history remain: jobman logs gone, jobman history gone/);
  });

  test('is not changed while its cluster does not answer, and nothing is said to be done', async () => {
    const done: string[] = [];
    const open = { ...kept, goneAt: null, job: { ...train, name: 'gone' } };
    const over = { ...kept, goneAt: null };
    for (const job of [open, over]) {
      for (const verb of ['delete', 'stop', 'cancel', 'start', 'rerun']) {
        const { code, out, err } = await ask([verb, 'gone'], 'away', home([job], done));
        assert.deepEqual([verb, code, out], [verb, 5, '']);
        assert.match(err, /Nothing changed: gone may still run in its cluster\. the cluster of lab did not answer\./);
      }
    }
    const { code, err } = await ask(['exec', 'gone', '--', 'ls'], 'away', home([open]));
    assert.equal(code, 5);
    assert.match(err, /gone cannot be reached/);
    assert.deepEqual(done, []);
    // Our own copies need no cluster.
    assert.equal((await ask(['clean', 'gone'], 'away', home([over], done))).code, 0);
    assert.deepEqual(done, ['remove u2']);
  });

  test('is in the list with its age while the cluster does not answer, which is then the result', async () => {
    const open = { ...kept, goneAt: null, job: { ...train, name: 'gone' } };
    const deleted = { ...kept, job: { ...train, name: 'deleted', uid: 'u9' } };
    const elsewhere = { ...open, context: 'other', job: { ...train, name: 'elsewhere', uid: 'u8' } };
    const archive = home([open, deleted, elsewhere]);
    const { code, out, err } = await ask(['list'], 'away', archive);
    assert.equal(code, 5);
    assert.match(out, /gone.*running.*as seen .* ago/);
    assert.doesNotMatch(out, /deleted/);
    assert.match(err, /note: The cluster of lab is not shown/);
    assert.doesNotMatch(err, /No jobs/);
    const json = await ask(['list', '--json'], 'away', archive);
    assert.deepEqual([json.code, json.out.split('\n').length], [5, 3]);
    const one = await ask(['list', '--context', 'other'], 'away', archive);
    assert.match(one.out, /elsewhere/);
    assert.doesNotMatch(one.out, /gone/);
  });
});

suite('the one list', () => {
  const row = jobView({ id: '000007', name: 'iris', phase: 'succeeded', phaseStartedAt: at + 1_000, createdAt: at });

  test('has both, the newest first', async () => {
    const { code, out, err } = await run(['list', '--json'], [train, old], { jobs: [row] });
    assert.equal(code, 0, err);
    const rows = objectsIn(out);
    assert.deepEqual(
      rows.map(({ id, backend, owner }) => [id, backend, owner]),
      [
        ['000007', 'tpu', 'alice'],
        ['train', 'kubernetes', 'alice'],
        ['old', 'kubernetes', null],
      ],
    );
    assert.deepEqual(
      [rows[1]?.['accelerator'], rows[2]?.['accelerator'], rows[1]?.['zone']],
      ['small', 'cpu 2', 'lab/vision'],
    );
  });

  test('keeps to the filters', async () => {
    const names = async (...args: readonly string[]) =>
      idsIn((await run(['list', '--json', ...args], [train, old])).out);
    assert.deepEqual(await names('--name', 'TR*'), ['train']);
    assert.deepEqual(await names('--user', 'alice'), ['train']);
    assert.deepEqual(await names('--phase', 'succeeded'), ['old']);
    assert.deepEqual(await names('--tag', 'x'), []);
  });

  test('says why pods do not run, and asks for those of such jobs only', async () => {
    const earlier = { ...withoutImage, uid: 'p2', jobUid: 'u8', conditions: [], containers: [] };
    const list = async (
      jobs: readonly ClusterJob[],
      pods: () => AsyncIterable<readonly unknown[]>,
      ...args: string[]
    ) => {
      const asked: unknown[] = [];
      const counted = {
        ...cluster(jobs).fake,
        pods: ({ labels }: { labels: string }) => (asked.push(labels), pods()),
      } as object as Cluster;
      const { out, code } = await jobmanAt(counted, ['list', '--json', ...args]);
      assert.equal(code, 0);
      const rows = objectsIn(out).map(({ id, phase, message }) => `${String(id)} ${String(phase)}: ${String(message)}`);
      return { asked, rows };
    };
    const listPods = async function* () {
      yield [earlier, withoutImage];
    };
    const calm = await list([train, old], listPods);
    assert.deepEqual(calm.asked, ['job-name in (train,old)']);
    const { rows, asked } = await list([train, stuck, old], listPods);
    assert.deepEqual(asked, ['job-name in (stuck)', 'job-name in (train,old)']);
    assert.ok(rows.includes('stuck setup: cannot pull its image lab/x'), rows.join('\n'));
    assert.deepEqual((await list([train, stuck], listPods, '--phase', 'queued')).rows, []);
    assert.equal((await list([train, stuck], listPods, '--phase', 'setup')).rows.length, 1);
    const refused = await list([stuck], async function* () {
      yield [];
      throw new JobmanError('may not list pods', exitCode.failed);
    });
    assert.deepEqual(refused.rows, ['stuck queued: pod not running yet']);
  });

  test('and the question of delete --all name the same status', async () => {
    const { fake, asked } = cluster([stuck]);
    const whole = {
      ...fake,
      async *pods() {
        yield [withoutImage];
      },
    } as object as Cluster;
    assert.equal(objectsIn((await jobmanAt(whole, ['list', '--json'])).out)[0]?.['phase'], 'setup');
    const question = await jobmanAt(whole, ['delete', '--all']);
    assert.equal(question.code, 4);
    assert.match(question.err, /^stuck .* setup /m);
    assert.ok(!asked.includes('remove stuck'));
  });

  test('asks for the pods of the newest where very many do not run', async () => {
    const many = Array.from({ length: 2_500 }, (_, index) =>
      aClusterJob({ name: `job-${index}`, uid: `u${index}`, active: 1, createdAt: at + ((index * 7) % 2_500) }),
    );
    let labels = '';
    const counted = {
      ...cluster(many).fake,
      async *pods(query: { labels: string }) {
        ({ labels } = query);
        yield [];
      },
    } as object as Cluster;
    const { out } = await jobmanAt(counted, ['list', '--json']);
    assert.equal(idsIn(out).length, 2_500);
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

  test('for a named cluster fails with its error, and does not say that there are no jobs', async () => {
    const unnamed = await run(['list'], 'away', { jobs: [] });
    assert.equal(unnamed.code, 5);
    assert.match(unnamed.err, /^No jobs\.\n/);
    const json = await run(['list', '--json'], 'away', { jobs: [] });
    assert.deepEqual([json.code, json.out], [5, '']);
    assert.match(json.err, /^\{"error":\{"code":"unreachable","exitCode":5,.*\}\n$/);
    const { code, err } = await run(['list', '--namespace', 'vision'], 'away', { jobs: [row] });
    assert.equal(code, 5);
    assert.match(err, /note: The cluster of lab is not shown/);
    const { code: shown } = await run(['list', '--context', 'lab'], [train], { jobs: [row] });
    assert.equal(shown, 0);
  });

  test('is whole whatever a cluster does', async () => {
    const cluster = () => Promise.reject(new TypeError('items.map is not a function'));
    const { code, out, err } = await run(['list'], [], { jobs: [row], services: { cluster } });
    assert.equal(code, 0);
    assert.match(out, /iris/);
    assert.match(err, /The cluster is not shown: items\.map is not a function/);
  });

  test('has every line of settings that are wrong', async () => {
    const broken = new JobmanError('settings.json holds something that is not a setting.', exitCode.usage, [
      'settings.json:1:32: "slots" is not a setting',
      'settings.json:4:2: "user" should be a string',
    ]);
    const cluster = () => Promise.reject(broken);
    const { code, err } = await run(['list'], [], { jobs: [row], services: { cluster } });
    assert.equal(code, 0);
    assert.match(
      err,
      /is not shown: settings\.json holds something that is not a setting\. settings\.json:1:32: "slots" is/,
    );
    assert.match(err, /^note: settings\.json:4:2: "user" should be a string$/m);
  });
});

suite('a job that was submitted to another namespace', () => {
  const elsewhere: ClusterJob = { ...train, name: 'a1', uid: 'u7', namespace: 'quota' };

  /** Namespaces with their jobs; what is asked of each is written down with its name. */
  async function ask(
    args: readonly string[],
    namespaces: Readonly<Record<string, readonly ClusterJob[] | 'away'>>,
    jobs: readonly ArchivedJob[],
  ) {
    const asked: string[] = [];
    const services = {
      isClusterConfigured: async () => true,
      async cluster({ namespace = 'vision' }: { readonly namespace?: string } = {}) {
        const { fake, asked: calls } = cluster(namespaces[namespace] ?? []);
        const context = { ...fake.context(), namespace };
        const close = async (): Promise<void> => {
          asked.push(...calls.map((one) => `${namespace}: ${one}`), `${namespace}: close`);
        };
        return { ...fake, context: () => context, close };
      },
    };
    const archive: Partial<Client> = {
      archivedJobs: async ({ name, namespace }) =>
        jobs.filter(({ job }) => job.name === name && (namespace === undefined || job.namespace === namespace)),
    };
    return { ...(await jobman(args, { archive, services })), ofClusters: asked };
  }

  test('is found without naming the namespace again', async () => {
    const { code, out, ofClusters } = await ask(['why', 'a1'], { quota: [elsewhere] }, [keptJob(elsewhere)]);
    assert.equal(code, 0);
    assert.match(out, /^Job a1 /);
    assert.deepEqual(
      ofClusters.filter((one) => /close|job a1/.test(one)),
      ['vision: job a1', 'vision: close', 'quota: job a1', 'quota: close'],
    );
    const removed = await ask(['delete', '-j', 'a1', '--yes'], { quota: [elsewhere] }, [keptJob(elsewhere)]);
    assert.equal(removed.code, 0, removed.err);
    assert.ok(removed.ofClusters.includes('quota: remove a1'));
  });

  test('is not searched for with a named namespace, or if another home submitted it', async () => {
    const named = await ask(['why', 'a1', '-n', 'vision'], { quota: [elsewhere] }, [keptJob(elsewhere)]);
    assert.equal(named.code, 3);
    assert.match(named.err, /There is no job named "a1" in lab\/vision/);
    const foreign = await ask(['why', 'a1'], { quota: [elsewhere] }, [keptJob(elsewhere, { object: null })]);
    assert.equal(foreign.code, 3);
  });

  test('answers from our copy once the cluster has deleted it', async () => {
    const { code, err } = await ask(['why', 'a1'], {}, [keptJob(elsewhere, { goneAt: at })]);
    assert.equal(code, 0);
    assert.match(err, /lab\/quota does not have a1 any more/);
  });

  test('reading commands take the job of the current namespace, and changing commands refuse an ambiguous name', async () => {
    const here: ClusterJob = { ...train, name: 'a1', uid: 'u8' };
    const both = { vision: [here], quota: [elsewhere] };
    const read = await ask(['why', 'a1'], both, [keptJob(elsewhere)]);
    assert.equal(read.code, 0);
    assert.match(read.err, /This is a1 of lab\/vision; another one was submitted to lab\/quota\./);
    for (const verb of ['delete', 'stop', 'cancel']) {
      const { code, err, ofClusters } = await ask([verb, '-j', 'a1', '--yes'], both, [keptJob(elsewhere)]);
      assert.equal(code, 4);
      assert.match(
        err,
        /Several jobs are named "\S+": in lab\/vision and in lab\/quota\.\n {2}Choose one: --context lab -n quota/,
      );
      assert.ok(!ofClusters.some((one) => one.includes('remove')));
    }
    // The copy is older than the deletion of the other one.
    const stale = await ask(['delete', '-j', 'a1', '--yes'], { vision: [here] }, [keptJob(elsewhere)]);
    assert.ok(stale.ofClusters.includes('vision: remove a1'), stale.err);
  });

  test('of several such namespaces none is guessed', async () => {
    const third: ClusterJob = { ...elsewhere, uid: 'u9', namespace: 'speech' };
    const { code, err } = await ask(['logs', 'a1'], { quota: [elsewhere], speech: [third] }, [
      keptJob(elsewhere),
      keptJob(third),
    ]);
    assert.equal(code, 4);
    assert.match(err, /in lab\/(speech and in lab\/quota|quota and in lab\/speech)\./);
  });

  test('a cluster that does not answer is not a missing job', async () => {
    const { code, err } = await ask(['why', 'a1'], { vision: 'away', quota: 'away' }, [keptJob(elsewhere)]);
    assert.equal(code, 5);
    assert.match(err, /This is from the archive of lab\/quota/);
  });
});

suite('list', () => {
  const jobIn = (namespace: string): ClusterJob => ({ ...train, namespace, uid: namespace });

  async function listed(args: readonly string[], kept: readonly ClusterJob[] = []) {
    const queries: object[] = [];
    const fake = {
      ...cluster([]).fake,
      async *jobs({ allNamespaces }: { readonly allNamespaces?: true }) {
        queries.push({ allNamespaces });
        yield allNamespaces === true ? [jobIn('vision'), jobIn('speech')] : [jobIn('vision')];
      },
    } as Cluster;
    const archive = { archivedJobs: async () => kept.map((job) => keptJob(job)) };
    return {
      ...(await jobmanAt(fake, ['list', ...args], { archive })),
      queries,
    };
  }

  test('-A has the Jobs of every namespace', async () => {
    const { code, out, queries } = await listed(['-A']);
    assert.equal(code, 0);
    assert.match(out, /lab\/vision/);
    assert.match(out, /lab\/speech/);
    assert.deepEqual(queries, [{ allNamespaces: true }]);
    assert.doesNotMatch((await listed([])).out, /speech/);
  });

  test('-A goes neither with a namespace nor with --watch', async () => {
    assert.equal((await listed(['-A', '-n', 'vision'])).code, 2);
    assert.equal((await listed(['-A', '--watch'])).code, 2);
  });

  test('counts the own open jobs that were submitted to other namespaces', async () => {
    const foreign = { ...jobIn('quota'), uid: 'y', owner: 'eve' };
    const { err } = await listed([], [jobIn('vision'), jobIn('quota'), { ...jobIn('quota'), uid: 'x' }, foreign]);
    assert.match(err, /note: you have 2 jobs in lab\/quota: jobman list --context lab -n quota\n/);
    assert.doesNotMatch(err, /in lab\/vision/);
    assert.doesNotMatch((await listed(['-A'], [jobIn('quota')])).err, /quota/);
  });
});
