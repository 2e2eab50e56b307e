/** Jobs of a real cluster through the front door: arguments in; text, exit code and what is in the cluster out. */
import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jobman, type Ended } from '../support/jobman.ts';
import { changedKubeconfig, openCutLine, openKube, type Kube } from '../support/kube.ts';
import { openWorld, type World } from '../support/world.ts';

/** Small enough to be placed beside anything. */
const small = '{"name":"small","resources":{"requests":{"cpu":"10m","memory":"20M"}}}';

interface Opened {
  readonly world: World;
  readonly kube: Kube;
  readonly at: readonly string[];
  readonly ask: (words: readonly string[], kubeconfig?: string) => Promise<Ended>;
  /** Submits a job of that name with these further words, which hold its program. */
  readonly submit: (name: string, ...more: readonly string[]) => Promise<Ended>;
}

function open(t: TestContext): Opened | undefined {
  const world = openWorld(t);
  const kube = openKube(t, world);
  if (kube === undefined) return undefined;
  const at = ['--namespace', kube.namespace];
  const ask: Opened['ask'] = (words, kubeconfig = kube.admin) =>
    jobman(world, words, { env: { KUBECONFIG: kubeconfig }, withinMs: 120_000 });
  const plain = ['submit', '-i', 'alpine', '-r', small, ...at];
  return { world, kube, at, ask, submit: (name, ...more) => ask([...plain, '-j', name, ...more]) };
}

suite('a job of a cluster', () => {
  test('is submitted, followed, shown and deleted, as kubectl sees it', async (t) => {
    const opened = open(t);
    if (opened === undefined) return;
    const { kube, at, ask, submit } = opened;

    const program = 'echo one; echo two; sleep 1; echo three';
    const followed = await submit('listing', '-q', '--follow', '--', 'sh', '-c', program);
    assert.deepEqual([followed.code, followed.stdout], [0, 'listing\none\ntwo\nthree\n'], followed.stderr);
    const labels = JSON.parse(kube.kubectl('get', 'job', 'listing', '-o', 'json')) as {
      metadata: { labels: Record<string, string>; annotations: Record<string, string> };
    };
    assert.equal(labels.metadata.labels['app.kubernetes.io/managed-by'], 'jobman');
    assert.equal(labels.metadata.annotations['jobman/flavor'], 'small');

    assert.equal((await ask(['logs', '-j', 'listing', ...at])).stdout, kube.kubectl('logs', 'job/listing'));
    assert.equal((await ask(['logs', 'listing', '--tail', '1', ...at])).stdout, 'three\n');
    assert.equal((await ask(['logs', 'listing', '--grep', 't', '--json', ...at])).stdout.split('\n').length, 3);
    const details = await ask(['details', '-j', 'listing', '--json', ...at]);
    const shown = JSON.parse(details.stdout) as {
      phase: string;
      job: { metadata: { uid: string } };
      pods: readonly unknown[];
    };
    assert.equal(shown.phase, 'succeeded');
    assert.equal(shown.job.metadata.uid, kube.kubectl('get', 'job', 'listing', '-o', 'jsonpath={.metadata.uid}'));
    assert.match(
      (await ask(['details', '-j', 'listing', ...at])).stdout,
      /^listing \(.+\)  ✓ succeeded\nwhy +listing succeeded/,
    );

    const found = await ask(['details', '-j', 'listing', '--json']);
    assert.equal(found.code, 0, 'it is found in the namespace that it was submitted to');
    const nowhere = await ask(['details', '-j', 'unlisted']);
    assert.equal(nowhere.code, 3);
    assert.match(nowhere.stderr, /There is no job called "unlisted", here or in /);

    const failed = await submit('failing', '--follow', '--', 'sh', '-c', 'exit 3');
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /failing failed .*: its program ended with exit code 3\./);

    const deleted = await ask(['delete', '-j', 'listing', ...at]);
    assert.match(deleted.stdout, /^listing is deleted: it and its pods are gone from /);
    assert.equal(kube.kubectl('get', 'pods', '-l', 'job-name=listing', '-o', 'name'), '');
    assert.equal((await ask(['delete', '-j', 'listing', ...at])).code, 3);
  });

  test('of several pods is told pod by pod', async (t) => {
    const opened = open(t);
    if (opened === undefined) return;
    const { at, ask, submit } = opened;
    const program = 'echo "pod $JOB_COMPLETION_INDEX"; sleep 1; echo end';
    const followed = await submit('many', '-q', '--parallelism', '3', '--follow', '--', 'sh', '-c', program);
    assert.equal(followed.code, 0, followed.stderr);
    const [, ...lines] = followed.stdout.trim().split('\n');
    const expected = [0, 1, 2].flatMap((index) => [`[${index}] end`, `[${index}] pod ${index}`]);
    assert.deepEqual(lines.toSorted(), expected.toSorted());
    const one = await ask(['logs', 'many', '-w', '1', '--raw', ...at]);
    assert.equal(one.stdout, 'pod 1\nend\n');
  });

  test('is followed over a line that is cut again and again: nothing is lost, nothing comes twice', async (t) => {
    const opened = open(t);
    if (opened === undefined) return;
    const { world, kube, at, ask, submit } = opened;
    let server = '';
    changedKubeconfig(world, kube.admin, (config) => void (server = String(config.clusters[0]?.cluster['server'])));
    const line = await openCutLine(world, server, 700);
    const cut = changedKubeconfig(world, kube.admin, (config) => {
      for (const { cluster } of config.clusters) cluster['server'] = line.url;
    });
    const program =
      'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); echo line $i; [ $((i % 500)) = 0 ] && sleep 1; done; true';
    await submit('talker', '--', 'sh', '-c', program);
    await eventually(
      () =>
        kube.kubectl('get', 'pods', '-l', 'job-name=talker', '-o', 'jsonpath={.items[*].status.phase}') === 'Running',
      { withinMs: 60_000 },
    );
    // The first connection may be cut too, which is told as it is.
    let followed = await ask(['logs', '-f', '-j', 'talker', ...at], cut);
    for (let attempt = 0; attempt < 5 && followed.stdout === ''; attempt += 1) {
      followed = await ask(['logs', '-f', '-j', 'talker', ...at], cut);
    }
    assert.equal(
      followed.stdout,
      Array.from({ length: 4000 }, (_, index) => `line ${index + 1}\n`).join(''),
      followed.stderr,
    );
    assert.ok(line.cuts() > 0, 'the line was never cut');
  });
});

suite('all jobs of a namespace', () => {
  test('are deleted after they are shown; those of other tools only without --own', async (t) => {
    const opened = open(t);
    if (opened === undefined) return;
    const { kube, at, ask, submit } = opened;
    const left = (): string => kube.kubectl('get', 'jobs', '-o', 'name').trim();
    await submit('mine', '--', 'true');
    kube.kubectl('create', 'job', 'theirs', '--image=alpine', '--', 'true');

    const refused = await ask(['delete', '--all', ...at]);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /theirs .* made by another tool\n/);
    assert.match(refused.stderr, /2 jobs in .*, 1 of them not yours: nothing was deleted\. Say --yes/);
    assert.equal(left().split('\n').length, 2);

    assert.equal((await ask(['delete', '--all', '--own', '--yes', ...at])).code, 0);
    assert.equal(left(), 'job.batch/theirs');
    assert.equal((await ask(['delete', '--all', '--yes', ...at])).code, 0);
    assert.equal(left(), '');
    assert.equal(kube.kubectl('get', 'pods', '-o', 'name'), '');
  });
});
