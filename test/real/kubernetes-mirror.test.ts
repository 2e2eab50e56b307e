/** What outlives the pods of a real cluster, through the front door; and what an API server that dies costs nobody. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { suite, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jobman, startJobman, type Ended } from '../support/jobman.ts';
import { openKube, openOwnKube, type Kube } from '../support/kube.ts';
import { openWorld, type World } from '../support/world.ts';

/** Small enough to be placed beside anything. */
const small = '{"name":"small","resources":{"requests":{"cpu":"10m","memory":"20M"}}}';

function asker(world: World, kube: Kube) {
  const env = { KUBECONFIG: kube.admin };
  const at = ['--namespace', kube.namespace];
  return {
    ask: (...words: readonly string[]): Promise<Ended> => jobman(world, [...words, ...at], { env, withinMs: 180_000 }),
    start: (...words: readonly string[]) => startJobman(world, [...words, ...at], { env, withinMs: 240_000 }),
    submit: (name: string, program: string, ...more: readonly string[]): Promise<Ended> =>
      jobman(world, ['submit', '-i', 'alpine', '-r', small, '-j', name, ...at, ...more, '--', 'sh', '-c', program], {
        env,
        withinMs: 180_000,
      }),
  };
}

suite('logs and history', () => {
  test('answer after the cluster has forgotten the job, and after it has gone away', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const { ask, submit } = asker(world, kube);
    const program = 'echo one; echo two; printf three; exit 4';
    const submitted = await submit('short', program, '--ttl', '3s', '--backoff-limit', '1');
    assert.match(
      submitted.stderr,
      /Started the controller \(process \d+\), which keeps the logs and history of your jobs\./,
    );
    const again = await submit('other', 'echo other');
    assert.doesNotMatch(again.stderr, /controller/);

    const isGone = () => kube.kubectl('get', 'jobs', 'short', '--ignore-not-found', '-o', 'name') === '';
    assert.ok(await eventually(isGone, { withinMs: 120_000, everyMs: 250 }), 'the cluster has not forgotten it');
    const wasSeen = async () => (await ask('why', '-j', 'short', '--json')).stdout.includes('"phase":"failed"');
    assert.ok(await eventually(wasSeen, { withinMs: 60_000, everyMs: 250 }));

    const logs = await ask('logs', '-j', 'short');
    assert.deepEqual([logs.code, logs.stdout], [0, 'one\ntwo\nthree']);
    assert.match(logs.stderr, /does not have short any more.*this is our copy\.\n(?:short had 2 pods; .*\n)?$/s);
    const all = await ask('logs', 'short', '--all-pods', '--json');
    assert.equal(all.stdout.trim().split('\n').length, 6, all.stdout);
    assert.equal((await ask('logs', 'short', '--tail', '2')).stdout, 'two\nthree');

    const history = await ask('history', '-j', 'short');
    for (const line of [
      /created by /,
      /runs on /,
      /ended with exit code 4/,
      /failed: BackoffLimitExceeded/,
      /seen gone/,
    ]) {
      assert.match(history.stdout, line);
    }
    assert.match(
      (await ask('why', 'short')).stdout,
      /^short failed .* ago: its program ended with exit code 4 \(an earlier pod failed too\)\.\n/,
    );
    assert.match((await ask('details', '-j', 'short')).stdout, /✗ failed\n/);
    assert.match((await ask('list', '--all')).stdout, /short .* failed/);
    assert.equal((await ask('wait', 'short')).code, 1);

    // The kubeconfig leads nowhere any more.
    const lost = (...words: readonly string[]) => jobman(world, words, { env: { KUBECONFIG: `${world.folder}/none` } });
    assert.equal((await lost('logs', 'short')).stdout, 'one\ntwo\nthree');
    assert.match(
      (await lost('logs', 'short')).stderr,
      /No cluster is known here: there is no kubeconfig .*none\. This is our copy of /,
    );
    assert.match((await lost('list', '--all')).stdout, /short .* failed/);

    assert.match((await ask('clean', 'short')).stdout, /^The logs and history of short are removed\.\n/);
    assert.equal((await ask('logs', 'short')).code, 3);
    assert.match((await ask('clean', 'other')).stderr, /other is still in /);
  });

  test('are not kept where the settings do not want it', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const { submit } = asker(world, kube);
    const settings = `${world.folder}/settings.json`;
    writeFileSync(settings, '{"kubernetes": {"keepLogs": false}}');
    const submitted = await submit('plain', 'echo one', '-s', settings);
    assert.equal(submitted.code, 0, submitted.stderr);
    assert.doesNotMatch(submitted.stderr, /controller/);
    assert.match((await jobman(world, ['controller', 'status'])).stdout, /does not run/);
  });
});

suite('the owner says', () => {
  test('stop, start, cancel and rerun to a job of a cluster', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const { ask, submit } = asker(world, kube);
    const suspended = () => kube.kubectl('get', 'job', 'long', '-o', 'jsonpath={.spec.suspend}');
    const printed = async () => (await ask('logs', 'long')).stdout.includes('begin');
    await submit('long', 'echo begin; trap "echo end; exit 0" TERM; while true; do sleep 1; done');
    assert.ok(await eventually(printed, { withinMs: 60_000, everyMs: 250 }));

    assert.match((await ask('stop', 'long')).stdout, /^long is (being )?stopped: /);
    assert.equal(suspended(), 'true');
    assert.match((await ask('stop', '-j', 'long')).stdout, /^long is (being )?stopped already[.;]/);
    assert.equal((await ask('wait', 'long')).code, 1);
    // Its pod is gone with its end; the copy has both, and what it said last.
    const ended = async () => /long-\S+ ended with exit code 0/.test((await ask('history', 'long')).stdout);
    assert.ok(await eventually(ended, { withinMs: 60_000, everyMs: 250 }), (await ask('history', 'long')).stdout);
    assert.match((await ask('resume', 'long')).stdout, /^long is started; /);
    assert.equal(suspended(), 'false');
    assert.equal((await ask('start', 'long')).code, 4);
    assert.match((await ask('rerun', 'long')).stderr, /under way already/);
    assert.ok(await eventually(printed, { withinMs: 60_000, everyMs: 250 }));

    const cancelled = await ask('cancel', 'long');
    assert.match(cancelled.stdout, /^long is cancelled: .*; its logs and history are kept\.\n/, cancelled.stderr);
    assert.equal(kube.kubectl('get', 'jobs', '-o', 'name'), '');
    assert.match((await ask('logs', 'long')).stdout, /^begin\n/);
    assert.match((await ask('why', 'long')).stdout, /^long was deleted .* ago, before it had ended; it had run for /);
    const { stdout } = await ask('history', 'long');
    for (const line of [/suspended/, /resumed/, /seen gone/]) assert.match(stdout, line);

    assert.match((await ask('rerun', 'long')).stdout, /^long-2 runs what long ran, /);
    const object = JSON.parse(kube.kubectl('get', 'job', 'long-2', '-o', 'json')) as {
      metadata: { labels: Record<string, string> };
      spec: { template: { spec: { containers: { args: string[] }[] } } };
    };
    assert.equal(object.metadata.labels['jobman/job'], 'long-2');
    assert.match(object.spec.template.spec.containers[0]?.args.join(' ') ?? '', /echo begin/);
    assert.equal((await ask('delete', 'long-2')).code, 0);
    assert.doesNotMatch((await ask('list', '--all')).stdout, /long-2/);
    assert.match((await ask('logs', 'long-2')).stderr, /this is our copy/);
    assert.match((await ask('rerun', 'long-2')).stdout, /^long-3 runs what long-2 ran, /);
  });

  test('wait, and gets the worst verdict of several', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const { ask, start, submit } = asker(world, kube);
    await submit('good', 'sleep 2');
    await submit('bad', 'sleep 1; exit 3');
    const watching = start('list', '--watch', '--json');
    await watching.prints(/"name":"bad"/);
    const both = await ask('wait', 'good', 'bad');
    assert.equal(both.code, 1);
    assert.match(both.stdout, /good succeeded /);
    assert.match(both.stdout, /bad failed .*: its program ended with exit code 3\./);
    assert.equal((await ask('wait', 'good')).code, 0);
    await submit('slow', 'sleep 300');
    assert.match((await ask('wait', 'slow', '--timeout', '1s')).stderr, /Not settled after 1s: slow\./);

    // The list has told of every change by its watch.
    await watching.prints(/"name":"good".*"phase":"succeeded"/);
    await watching.prints(/"name":"slow"/);
    watching.child.kill('SIGINT');
    assert.equal((await watching.ended).code, 130);
  });
});

suite('an API server that is killed', () => {
  test('costs neither a reader nor the copy a line', async (t) => {
    const world = openWorld(t, { patienceMs: 20_000 });
    const kube = openOwnKube(t, world);
    if (kube === undefined) return;
    const { ask, start, submit } = asker(world, kube);
    const count = 3_000;
    const program = `i=0; while [ $i -lt ${count} ]; do i=$((i+1)); echo line $i; [ $((i % 100)) = 0 ] && sleep 1; done; true`;
    const whole = Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join('');
    await submit('talker', program);
    const following = start('logs', '-f', '-j', 'talker');
    const waiting = start('wait', 'talker');
    await following.prints('line 300\n', 60_000);

    kube.killServer();
    await sleep(2_000);
    kube.bringBack();
    await following.prints(/line 1\d00\n/, 90_000);
    // And the one who copies is killed as well, and another takes over.
    const { pid } = JSON.parse((await jobman(world, ['controller', 'status', '--json'])).stdout) as { pid: number };
    process.kill(pid, 'SIGKILL');
    kube.killServer();
    await jobman(world, ['controller', 'start']);
    kube.bringBack();

    assert.equal((await following.ended).stdout, whole, following.stderr);
    assert.equal((await waiting.ended).code, 0, waiting.stderr);
    const isKept = async () => /succeeded/.test((await ask('history', 'talker')).stdout);
    assert.ok(await eventually(isKept, { withinMs: 60_000, everyMs: 500 }));
    assert.match((await ask('cancel', 'talker')).stderr, /is over already/);
    assert.equal((await ask('delete', 'talker')).code, 0);
    const copy = await ask('logs', 'talker');
    assert.equal(copy.stdout, whole, copy.stderr);
    assert.match(copy.stderr, /this is our copy/);
  });
});
