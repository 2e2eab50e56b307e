/** The archive of a real cluster after the pods are gone, and an API server that restarts. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../support/eventually.ts';
import { withoutLogArchive, kubeTest, openDedicatedCluster, tinyFlavor } from '../support/kube.ts';
import { openWorld } from '../support/world.ts';

const soon = { withinMs: 60_000, everyMs: 250 };

suite('logs and history', () => {
  kubeTest('are shown after the cluster has deleted the job, and while the cluster is away', async (kube) => {
    const person = kube.adminUser();
    const started = /Started the controller \(process \d+\)\. It archives the logs and history of your jobs\./;
    const submit = ['submit', '-i', 'alpine', '-r', tinyFlavor, '-j'];
    const program = ['sh', '-c', 'echo one; echo two; printf three; exit 4'];
    const short = await person.run([...submit, 'short', '--ttl', '3s', '--backoff-limit', '1', '--', ...program]);
    assert.match(short.stderr, started);
    assert.doesNotMatch((await person.run([...submit, 'other', '--', 'echo', 'other'])).stderr, /controller/);

    const isGone = () => kube.kubectl('get', 'jobs', 'short', '--ignore-not-found', '-o', 'name') === '';
    assert.ok(await eventually(isGone, { ...soon, withinMs: 120_000 }), 'the cluster has deleted the job');
    const wasSeen = async () => (await person.run('why -j short --json')).stdout.includes('"phase":"failed"');
    assert.ok(await eventually(wasSeen, soon));

    const logs = await person.run('logs -j short');
    assert.deepEqual([logs.code, logs.stdout], [0, 'one\ntwo\nthree']);
    assert.match(
      logs.stderr,
      /does not have short any more.*this is from the archive\.\n(?:(?:Job )?short had 2 pods; .*\n)?$/s,
    );
    assert.equal((await person.output('logs short --all-pods --json')).trim().split('\n').length, 6);
    assert.equal(await person.output('logs short --tail 2'), 'two\nthree');

    const history = await person.output('history -j short');
    for (const line of [
      /created by /,
      /runs on /,
      /with exit code 4/,
      /failed: BackoffLimitExceeded/,
      /deleted from the cluster/,
    ]) {
      assert.match(history, line);
    }
    assert.match(
      await person.output('why short'),
      /^Job short failed .* ago: its program ended with exit code 4 \(an earlier pod failed too\)\.\n/,
    );
    assert.match(await person.output('details -j short'), /✗ failed\n/);
    assert.match(await person.output('list --all'), /short .* failed/);
    assert.equal((await person.run('wait short')).code, 1);

    // The kubeconfig leads nowhere any more.
    const lost = person.withKubeconfig(`${kube.world.folder}/none`);
    const copy = await lost.run('logs short');
    assert.equal(copy.stdout, 'one\ntwo\nthree');
    assert.match(
      copy.stderr,
      /There is no cluster configuration: the kubeconfig .*none does not exist\. This is from the archive of /,
    );
    assert.match((await lost.run('list --all')).stdout, /short .* failed/);

    assert.match(await person.output('clean short'), /^The logs and history of short are removed\.\n/);
    assert.equal((await person.run('logs short')).code, 3);
    assert.match((await person.run('clean other')).stderr, /other is still in /);
  });

  kubeTest('are not archived if the settings say so', async (kube) => {
    const person = kube.adminUser(withoutLogArchive);
    const { code, stderr } = await person.run(['submit', '-i', 'alpine', '-r', tinyFlavor, '--', 'true']);
    assert.equal(code, 0, stderr);
    assert.doesNotMatch(stderr, /controller/);
    assert.match((await person.run('controller status')).stdout, /does not run/);
  });
});

suite("the owner's commands", () => {
  kubeTest('stop, start, cancel and rerun of a job in a cluster', async (kube) => {
    const person = kube.adminUser();
    const suspended = () => kube.field('.spec.suspend', 'job', 'long');
    const printed = async () => (await person.run('logs long')).stdout.includes('begin');
    await person.submit('long', 'echo begin; trap "echo end; exit 0" TERM; while true; do sleep 1; done');
    assert.ok(await eventually(printed, soon));

    assert.match(await person.output('stop long'), /^Job long is (being )?stopped: /);
    assert.equal(suspended(), 'true');
    assert.match(await person.output('stop -j long'), /^Job long is already (being )?stopped[.:]/);
    assert.equal((await person.run('wait long')).code, 1);
    // Its pod is gone after its end; the archive has its end and its last output.
    const ended = async () => /long-\S+ ended with exit code 0/.test(await person.output('history long'));
    assert.ok(await eventually(ended, soon), await person.output('history long'));
    assert.match(await person.output('resume long'), /^Job long is started with /);
    assert.equal(suspended(), 'false');
    assert.equal((await person.run('start long')).code, 4);
    assert.match((await person.run('rerun long')).stderr, /already active/);
    assert.ok(await eventually(printed, soon));

    assert.match(await person.output('cancel long'), /^Job long is cancelled: .*; its logs and history are kept\.\n/);
    assert.equal(kube.jobs(), '');
    assert.match(await person.output('logs long'), /^begin\n/);
    assert.match(await person.output('why long'), /^Job long was deleted .* ago, after running for /);
    const history = await person.output('history long');
    for (const line of [/suspended/, /resumed/, /deleted from the cluster/]) assert.match(history, line);

    assert.match(await person.output('rerun long'), /^Job long-2 runs what long ran, /);
    const { metadata } = kube.get<{ metadata: { labels: Record<string, string> } }>('job', 'long-2');
    assert.equal(metadata.labels['jobman/job'], 'long-2');
    assert.match(kube.field('.spec.template.spec.containers[0].args', 'job', 'long-2'), /echo begin/);
    await person.output('delete long-2');
    assert.doesNotMatch(await person.output('list --all'), /long-2/);
    assert.match((await person.run('logs long-2')).stderr, /this is from the archive/);
    assert.match(await person.output('rerun long-2'), /^Job long-3 runs what long-2 ran, /);
  });

  kubeTest('wait returns the worst result of several jobs', async (kube) => {
    const person = kube.adminUser();
    await person.submit('good', 'sleep 2');
    await person.submit('bad', 'sleep 1; exit 3');
    const watching = person.start('list --watch --json');
    await watching.waitForOutput(/"name":"bad"/);
    const both = await person.run('wait good bad');
    assert.equal(both.code, 1);
    assert.match(both.stdout, /good succeeded /);
    assert.match(both.stdout, /bad failed .*: its program ended with exit code 3\./);
    await person.output('wait good');
    await person.submit('slow', 'sleep 300');
    assert.match((await person.run('wait slow --timeout 1s')).stderr, /Not finished after 1s: slow\./);

    // The watch has reported every change.
    await watching.waitForOutput(/"name":"good".*"phase":"succeeded"/);
    await watching.waitForOutput(/"name":"slow"/);
    watching.child.kill('SIGINT');
    assert.equal((await watching.result).code, 130);
  });
});

test('an API server that is killed costs neither a reader nor the archive a line', async (t) => {
  const own = openDedicatedCluster(t, openWorld(t, { patienceMs: 20_000 }));
  if (own === undefined) return;
  const person = own.kube.adminUser();
  const count = 3_000;
  const program = `i=0; while [ $i -lt ${count} ]; do i=$((i+1)); echo line $i; [ $((i % 100)) = 0 ] && sleep 1; done; true`;
  const whole = Array.from({ length: count }, (_, index) => `line ${index + 1}\n`).join('');
  await person.submit('talker', program);
  const following = person.start('logs -f -j talker', { withinMs: 240_000 });
  const waiting = person.start('wait talker', { withinMs: 240_000 });
  await following.waitForOutput('line 300\n', 60_000);

  own.killServer();
  await sleep(2_000);
  own.restartServer();
  await following.waitForOutput(/line 1\d00\n/, 90_000);
  // Kill the archiving controller as well; another one continues.
  const { pid } = JSON.parse(await person.output('controller status --json')) as { pid: number };
  process.kill(pid, 'SIGKILL');
  own.killServer();
  await person.run('controller start');
  own.restartServer();

  assert.equal((await following.result).stdout, whole, following.stderr);
  assert.equal((await waiting.result).code, 0, waiting.stderr);
  const isKept = async () => /succeeded/.test(await person.output('history talker'));
  assert.ok(await eventually(isKept, soon));
  assert.match((await person.run('cancel talker')).stderr, /has already /);
  await person.output('delete talker');
  const copy = await person.run('logs talker');
  assert.equal(copy.stdout, whole, copy.stderr);
  assert.match(copy.stderr, /this is from the archive/);
});
