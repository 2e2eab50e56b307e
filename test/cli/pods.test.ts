/**
 * The pod selection of exec and similar commands, with a fake cluster; test/real/kubernetes-exec.test.ts uses a real
 * one.
 */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Cluster, ClusterExecRequest, ClusterTarget } from '../../src/app/cluster/cluster.ts';
import type { ClusterContainer, ClusterPod } from '../../src/app/cluster/objects.ts';
import { sessionNotOpened, type CopyRequest, type Session, type SessionEnd } from '../../src/app/worker-access.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { fakeCluster, jobman, jobView } from './support/harness.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';

type ClusterCopy = CopyRequest & { readonly cwd: string };

const at = Date.UTC(2026, 10, 20, 12, 0, 0);

const train = aClusterJob({
  createdAt: at,
  startedAt: at,
  parallelism: 2,
  completions: 2,
  active: 2,
  ready: 2,
  owner: 'alice',
});

function pod(name: string, index: number | null, more: Partial<ClusterPod> = {}): ClusterPod {
  return aClusterPod({ name, uid: name, index, createdAt: at, ...more });
}

/** One of several containers of a pod. */
function container(name: string, more: Partial<ClusterContainer> = {}): ClusterContainer {
  const [made] = aClusterPod({}, { name, ...more }).containers;
  assert.ok(made !== undefined);
  return made;
}

/** `jobman exec train …` in a cluster with these pods; each program prints where it is. */
const exec = (pods: readonly ClusterPod[], ...args: readonly string[]) => run(pods, ['exec', '-j', 'train', ...args]);

async function run(pods: readonly ClusterPod[], argv: readonly string[], end?: SessionEnd) {
  const started: { readonly target: ClusterTarget; readonly request: ClusterExecRequest }[] = [];
  const cluster = fakeCluster({
    job: async (name: string) => (name === 'train' ? train : null),
    async *pods() {
      yield pods;
    },
    exec(target: ClusterTarget, request: ClusterExecRequest): Session {
      started.push({ target, request });
      const ended = (async () => {
        if (end !== undefined) return end;
        await request.onBytes(Buffer.from(`in ${target.pod}/${target.container}\n`), 'stdout');
        return { kind: 'ended', exitCode: 0, signal: null } as const;
      })();
      return {
        ended,
        write: async () => undefined,
        end: () => undefined,
        stop: () => undefined,
        resize: () => undefined,
      };
    },
  }) as Partial<Cluster> as Cluster;
  const services = { isClusterConfigured: async () => true, cluster: async () => cluster };
  return { ...(await jobman(argv, { services })), started };
}

suite('exec in a job in a cluster', () => {
  const two = [pod('train-0-aaa', 0), pod('train-1-bbb', 1)];

  test('is for every pod that runs, by its number', async () => {
    const { code, out, err } = await exec(two, '--', 'ls');
    assert.deepEqual([code, out], [0, '[0] in train-0-aaa/main\n[1] in train-1-bbb/main\n'], err);
  });

  test('is for the newest pod of a number, and not for one that is going', async () => {
    const pods = [
      pod('train-0-old', 0, { createdAt: at - 60_000, phase: 'Failed' }),
      pod('train-0-new', 0),
      pod('train-1-bbb', 1, { deleting: true }),
    ];
    assert.equal((await exec(pods, '--', 'ls')).out, 'in train-0-new/main\n');
    const going = await exec(pods, '--pod', '1', '--', 'ls');
    assert.equal(going.code, 4);
    assert.match(going.err, /The pod train-1-bbb is not running: it is being deleted\./);
  });

  test('finds a pod by its number, its name and the end of it', async () => {
    for (const pod of ['1', 'train-1-bbb', 'bbb']) {
      assert.equal((await exec(two, '--pod', pod, '--', 'ls')).out, 'in train-1-bbb/main\n', pod);
    }
    const { code, err } = await exec(two, '--pod', 'ccc', '--', 'ls');
    assert.equal(code, 3);
    assert.match(err, /train has no pod ccc; it has 0 \(train-0-aaa\), 1 \(train-1-bbb\)\./);
  });

  test('numbers pods without a number by their age', async () => {
    const pods = [pod('train-bbb', null), pod('train-aaa', null, { createdAt: at - 1_000 })];
    assert.equal((await exec(pods, '--pod', '0', '--', 'ls')).out, 'in train-aaa/main\n');
  });

  test('runs in the container that jobman makes, else the first; another is named', async () => {
    const containers = [container('setup', { init: true, state: 'terminated' }), container('proxy'), container('main')];
    const [one] = [pod('train-0-aaa', 0, { containers })];
    const usual = await exec([one], '--', 'ls');
    assert.equal(usual.out, 'in train-0-aaa/main\n');
    assert.match(
      usual.err,
      /has several containers \(setup, proxy, main\); this is main\. --container chooses another\./,
    );
    assert.equal((await exec([one], '--container', 'proxy', '--', 'ls')).out, 'in train-0-aaa/proxy\n');
    assert.equal((await exec([one], '--container', 'none', '--', 'ls')).code, 3);
    const ended = await exec([one], '--container', 'setup', '--', 'ls');
    assert.equal(ended.code, 4);
    assert.match(ended.err, /The container setup of train-0-aaa is not running: it is terminated\./);
    const crashing = container('main', { state: 'waiting', reason: 'CrashLoopBackOff' });
    const { err } = await exec([pod('train-0-aaa', 0, { containers: [crashing] })], '--', 'ls');
    assert.match(err, /it is waiting \(CrashLoopBackOff\)/);
  });

  test('with input or a terminal is for one pod', async () => {
    const { code, err, started } = await exec(two, '--stdin', '--', 'cat');
    assert.equal(code, 2);
    assert.match(err, /--stdin is for one pod, and this command runs on 2 pods/);
    assert.equal(started.length, 0, 'nothing was begun');
    const [one] = (await exec(two, '--stdin', '--pod', '1', '--', 'cat')).started;
    assert.deepEqual([one?.request.hasInput, one?.request.terminal], [true, null]);
    assert.match((await exec(two, '-it', '--pod', '1', '--', 'sh')).err, /--tty needs a terminal/);
  });

  test('says which flag is for the other kind of job', async () => {
    assert.match((await exec(two, '--in-container', '--', 'ls')).err, /--in-container is for a TPU job/);
    const jobs = [jobView()];
    for (const [flag, message] of [
      ['--pod=1', /--pod needs a job in a cluster; a TPU has workers: --workers\./],
      ['--container=x', /--container needs a job in a cluster; the job's own is --in-container\./],
    ] as const) {
      const { code, err } = await jobman(['exec', '42', flag, '--', 'ls'], { jobs });
      assert.equal(code, 2, flag);
      assert.match(err, message);
    }
    const shell = await run(two, ['ssh', 'train']);
    assert.equal(shell.code, 2);
    assert.match(shell.err, /train is in a cluster, .* jobman exec -j train -it -- sh/);
    const forward = await jobman(['port-forward', '42', '6006', '--pod', '1'], { jobs });
    assert.match(forward.err, /--pod needs a job in a cluster; a TPU has workers: --worker\./);
  });
});

suite('cp in a job in a cluster', () => {
  const two = [pod('train-0-aaa', 0), pod('train-1-bbb', 1)];

  async function cp(pods: readonly ClusterPod[], ...args: readonly string[]) {
    const copies: object[] = [];
    const copy =
      (way: string) =>
      async (target: ClusterTarget, { from, to, replace, cwd }: ClusterCopy) => {
        copies.push({ way, pod: target.pod, container: target.container, from, to, replace, cwd });
        return { kind: 'done', path: to } as const;
      };
    const cluster = fakeCluster({
      job: async (name: string) => (name === 'train' ? train : null),
      async *pods() {
        yield pods;
      },
      put: copy('put'),
      get: copy('get'),
    }) as Partial<Cluster> as Cluster;
    const services = { isClusterConfigured: async () => true, cluster: async () => cluster };
    return { ...(await jobman(['cp', ...args], { cwd: '/work', services })), copies };
  }

  test('copies to every pod that runs, and from several into a folder of each', async () => {
    const there = await cp(two, 'data', 'train:in');
    assert.equal(there.code, 0, there.err);
    const put = { way: 'put', container: 'main', from: 'data', to: 'in', replace: false, cwd: '/work' };
    assert.deepEqual(there.copies, [
      { ...put, pod: 'train-0-aaa' },
      { ...put, pod: 'train-1-bbb' },
    ]);
    assert.match(there.err, /, 2 pods\.\n$/);
    const back = await cp(two, 'train:out', '.', '--replace');
    const get = { way: 'get', container: 'main', from: 'out', replace: true, cwd: '/work' };
    assert.deepEqual(back.copies, [
      { ...get, pod: 'train-0-aaa', to: './pod-0/' },
      { ...get, pod: 'train-1-bbb', to: './pod-1/' },
    ]);
  });

  test('--pod and --container say which; a job without pods that run says why', async () => {
    const { copies } = await cp(two, 'train:out', '.', '--pod', 'bbb', '--container', 'main');
    assert.deepEqual(copies, [
      { way: 'get', pod: 'train-1-bbb', container: 'main', from: 'out', to: '.', replace: false, cwd: '/work' },
    ]);
    assert.equal((await cp(two, 'train:out', '.', '--container', 'none')).code, 3);
    const none = await cp([pod('train-0-aaa', 0, { phase: 'Failed' })], 'train:out', '.');
    assert.equal(none.code, 4);
    assert.match(none.err, /train has no running pod\./);
    assert.equal((await cp(two, 'other:out', '.')).code, 3);
  });
});

suite('exec without the right to it', () => {
  const pods = [pod('train-0', 0), pod('train-1', 1)];
  const line = 'Missing is the right `create` on pods/exec';
  const ends = (code: number): SessionEnd =>
    sessionNotOpened(new JobmanError('You may not create pods/exec.', code, [line]), code === exitCode.failed);

  test('says so once for all pods, with the exit code of a missing right', async () => {
    for (const args of [
      ['--', 'true'],
      ['--pod', '0', '--', 'true'],
    ]) {
      const { code, err } = await run(pods, ['exec', '-j', 'train', ...args], ends(exitCode.failed));
      assert.equal(code, 1);
      assert.equal(err.match(/You may not create pods\/exec\./g)?.length, 1, err);
      assert.match(err, /Missing is the right/);
    }
  });

  test('is another thing than a pod that is not reached', async () => {
    const { code, err } = await run(pods, ['exec', '-j', 'train', '--', 'true'], ends(exitCode.unreachable));
    assert.equal(code, 255);
    assert.match(err, /not reached/);
  });
});
