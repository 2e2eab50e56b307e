/** Jobs of a real cluster through the front door: arguments in; text, exit code and what is in the cluster out. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { jobman, type Ended } from '../support/jobman.ts';
import { changedKubeconfig, openCutLine, openKube, type Kube } from '../support/kube.ts';
import { openWorld, type World } from '../support/world.ts';

/** Small enough to be placed beside anything. */
const small = '{"name":"small","resources":{"requests":{"cpu":"10m","memory":"20M"}}}';

interface Asker {
  (words: readonly string[], kubeconfig?: string): Promise<Ended>;
}

function asker(world: World, kube: Kube): Asker {
  return (words, kubeconfig = kube.admin) =>
    jobman(world, words, { env: { KUBECONFIG: kubeconfig }, withinMs: 120_000 });
}

const submit = (kube: Kube, name: string, ...more: readonly string[]): readonly string[] => [
  'submit',
  '-q',
  '-i',
  'alpine',
  '-r',
  small,
  '-j',
  name,
  '--namespace',
  kube.namespace,
  ...more,
];

suite('a job of a cluster', () => {
  test('is submitted, followed, shown and deleted, as kubectl sees it', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const ask = asker(world, kube);
    const at = ['--namespace', kube.namespace];

    const followed = await ask(
      submit(kube, 'listing', '--follow', '--', 'sh', '-c', 'echo one; echo two; sleep 1; echo three'),
    );
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

    const failed = await ask([
      ...submit(kube, 'failing', '--follow').filter((word) => word !== '-q'),
      '--',
      'sh',
      '-c',
      'exit 3',
    ]);
    assert.equal(failed.code, 1);
    assert.match(failed.stderr, /failing failed .*: its program ended with exit code 3\./);

    const deleted = await ask(['delete', '-j', 'listing', ...at]);
    assert.match(deleted.stdout, /^listing is deleted: it and its pods are gone from /);
    assert.equal(kube.kubectl('get', 'pods', '-l', 'job-name=listing', '-o', 'name'), '');
    assert.equal((await ask(['delete', '-j', 'listing', ...at])).code, 3);
  });

  test('says why it is as it is', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const ask = asker(world, kube);
    const big = '{"name":"big","resources":{"requests":{"cpu":"4000"}}}';
    const tight = '{"name":"tight","resources":{"requests":{"cpu":"10m"},"limits":{"memory":"20M"}}}';
    const at = ['--namespace', kube.namespace];
    await ask(['submit', '-q', '-i', 'private/x', '-r', small, '-j', 'noimage', ...at]);
    await ask(['submit', '-q', '-i', 'alpine', '-r', big, '-j', 'big', ...at, '--', 'ls']);
    await ask([
      'submit',
      '-q',
      '-i',
      'alpine',
      '-r',
      tight,
      '-j',
      'oom',
      ...at,
      '--',
      'sh',
      '-c',
      'x=a; while true; do x=$x$x; done',
    ]);
    await ask(submit(kube, 'held', '--suspend', '--', 'ls'));
    for (const [name, phase, sentence] of [
      ['noimage', 'setup', /^noimage cannot get its image private\/x\.$/],
      [
        'big',
        'queued',
        /^big waits for room: the best node, .+, has .+ cpu free of the 4k that it asks for: .+ are missing\.$/,
      ],
      ['oom', 'failed', /more memory than it may have and was killed \(OOMKilled\)/],
      ['held', 'stopped', /^held is suspended/],
    ] as const) {
      let said = '';
      const isSo = await eventually(
        async () => {
          said = (await ask(['why', name, '--json', ...at])).stdout;
          const why = JSON.parse(said) as { phase: string; sentence: string };
          return why.phase === phase && sentence.test(why.sentence);
        },
        { withinMs: 60_000 },
      );
      assert.ok(isSo, `${name}: ${said}`);
    }
  });

  test('of several pods is told pod by pod', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const ask = asker(world, kube);
    const program = 'echo "pod $JOB_COMPLETION_INDEX"; sleep 1; echo end';
    const followed = await ask(submit(kube, 'many', '--parallelism', '3', '--follow', '--', 'sh', '-c', program));
    assert.equal(followed.code, 0, followed.stderr);
    const [, ...lines] = followed.stdout.trim().split('\n');
    const expected = [0, 1, 2].flatMap((index) => [`[${index}] end`, `[${index}] pod ${index}`]);
    assert.deepEqual(lines.toSorted(), expected.toSorted());
    const one = await ask(['logs', 'many', '-w', '1', '--raw', '--namespace', kube.namespace]);
    assert.equal(one.stdout, 'pod 1\nend\n');
  });

  test('is followed over a line that is cut again and again: nothing is lost, nothing comes twice', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const ask = asker(world, kube);
    let server = '';
    changedKubeconfig(world, kube.admin, (config) => void (server = String(config.clusters[0]?.cluster['server'])));
    const line = await openCutLine(world, server, 700);
    const cut = changedKubeconfig(world, kube.admin, (config) => {
      for (const { cluster } of config.clusters) cluster['server'] = line.url;
    });
    const program =
      'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); echo line $i; [ $((i % 500)) = 0 ] && sleep 1; done; true';
    await ask(submit(kube, 'talker', '--', 'sh', '-c', program));
    await eventually(
      () =>
        kube.kubectl('get', 'pods', '-l', 'job-name=talker', '-o', 'jsonpath={.items[*].status.phase}') === 'Running',
      { withinMs: 60_000 },
    );
    // The first connection may be cut too, which is told as it is.
    let followed = await ask(['logs', '-f', '-j', 'talker', '--namespace', kube.namespace], cut);
    for (let attempt = 0; attempt < 5 && followed.stdout === ''; attempt += 1) {
      followed = await ask(['logs', '-f', '-j', 'talker', '--namespace', kube.namespace], cut);
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
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const ask = asker(world, kube);
    const at = ['--namespace', kube.namespace];
    const left = (): string => kube.kubectl('get', 'jobs', '-o', 'name').trim();
    await ask(submit(kube, 'mine', '--', 'true'));
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

suite('what goes wrong', () => {
  test('has its exit code and a sentence', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const ask = asker(world, kube);
    const { admin, restricted, namespace } = kube;
    const says = async (code: number, text: RegExp, words: readonly string[], kubeconfig = admin): Promise<void> => {
      const ended = await ask(words, kubeconfig);
      assert.equal(ended.code, code, `${words.join(' ')}: ${ended.stderr}`);
      assert.match(ended.stderr, text);
    };
    const plain = ['submit', '-q', '-i', 'alpine', '-r', small];
    await ask(submit(kube, 'taken', '--', 'true'));
    await says(4, /The name taken is taken in .*\n  -j taken-2 is free/, submit(kube, 'taken', '--', 'true'));
    await says(3, /There is no namespace nowhere-at-all in /, [...plain, '-n', 'nowhere-at-all', '--', 'ls']);
    await says(3, /has no context other\./, [...plain, '--context', 'other', '--', 'ls']);
    await says(5, /there is no kubeconfig/, [...plain, '--', 'ls'], `${world.folder}/none`);
    await says(2, /--parallelism: spec\.parallelism: Invalid value/, [
      ...plain,
      '-n',
      namespace,
      '--parallelism',
      '200000',
      '--',
      'ls',
    ]);
    if (restricted !== undefined) {
      await says(
        1,
        /may not create jobs in the namespace .*\n  Missing is the right `create` on jobs\.batch/,
        [...plain, '-n', namespace, '--', 'ls'],
        restricted,
      );
    }
    const unknown = changedKubeconfig(world, admin, ({ clusters }) => {
      for (const { cluster } of clusters) delete cluster['certificate-authority-data'];
    });
    await says(
      5,
      /the certificate of https:.* is of an authority that is not known here/,
      [...plain, '--', 'ls'],
      unknown,
    );
    const expired = changedKubeconfig(world, admin, ({ users }) => {
      for (const one of users) one.user = { token: 'long-gone' };
    });
    await says(5, /does not accept the login of/, [...plain, '--', 'ls'], expired);
    const away = changedKubeconfig(world, admin, ({ clusters }) => {
      for (const { cluster } of clusters) cluster['server'] = 'https://127.0.0.1:9';
    });
    await says(5, /did not answer/, [...plain, '--', 'ls'], away);
  });

  test('least rights are enough to submit, look and delete', async (t) => {
    const world = openWorld(t);
    const kube = openKube(t, world);
    if (kube === undefined) return;
    const { restricted } = kube;
    if (restricted === undefined) {
      t.skip('this cluster has no restricted.kubeconfig beside its own');
      return;
    }
    const name = `least-${kube.namespace.slice(-8)}`;
    const ask = (...words: readonly string[]): Promise<Ended> => asker(world, kube)(words, restricted);
    const followed = await ask('submit', '-i', 'alpine', '-r', small, '-j', name, '--follow', '--', 'echo', 'hello');
    assert.equal(followed.code, 0, followed.stderr);
    assert.match(followed.stdout, /as system:serviceaccount:[^ ]+\.\nhello\n$/);
    assert.match((await ask('details', '-j', name)).stdout, /succeeded/);
    assert.equal((await ask('delete', '-j', name)).code, 0);
  });
});
