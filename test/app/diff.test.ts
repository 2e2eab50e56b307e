/** The differences between two jobs or attempts: values, texts, files; jobs of the store and of a cluster. */
import assert from 'node:assert/strict';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { digestOf } from '../../src/catalogue/digest.ts';
import { clusterDiffSide } from '../../src/app/cluster/diff-side.ts';
import { diffSide } from '../../src/app/diff-side.ts';
import type { MetricSeriesView, MetricsView } from '../../src/app/client.ts';
import { createJobFiles } from '../../src/files/job-files.ts';
import { compareSides, withMetrics, type Difference, type DiffSide } from '../../src/app/diff.ts';
import { JobmanError } from '../../src/app/errors.ts';
import { filesByPath, readByPath, type FrozenWorkdir } from '../../src/app/workdir.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import {
  aJob,
  attemptOf,
  endedAttempt,
  noon,
  readyAllocation,
  runningAttempt,
  tpuSpec,
  withAttempts,
} from '../support/builders.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';
import { temporaryFolder } from '../support/folder.ts';

const compare = (left: DiffSide, right: DiffSide) => compareSides(left, right, () => assert.fail('no file is read'));

function side(fields: Partial<DiffSide> = {}): DiffSide {
  return { job: '000001', name: 'vit', attempt: 1, values: {}, files: null, ...fields };
}

/** `section key` of each difference. */
function keysOf(differences: readonly Difference[]): readonly string[] {
  return differences.map(({ section, key }) => `${section} ${key}`.trim());
}

suite('values', () => {
  const compareValues = (left: unknown, right: unknown) =>
    compare(side({ values: { spec: left } }), side({ values: { spec: right } }));

  test('only fields that differ are listed, also those that one side does not have', async () => {
    const differences = await compareValues(
      { same: 1, limits: { tries: 3, wait: null }, only: { a: 1 } },
      { same: 1, limits: { tries: 4, wait: null }, list: [1, 2] },
    );
    assert.deepEqual(differences, [
      { kind: 'value', section: 'spec', key: 'limits.tries', left: 3, right: 4 },
      { kind: 'value', section: 'spec', key: 'only.a', left: 1, right: null },
      { kind: 'value', section: 'spec', key: 'list', left: null, right: [1, 2] },
    ]);
    assert.deepEqual(await compareValues({ a: [1, { b: 2 }] }, { a: [1, { b: 2 }] }), []);
  });

  test('texts of several lines are compared by line', async () => {
    const [difference] = await compareValues({ script: 'a\nb\nc\n' }, { script: 'a\nB\nc\n' });
    assert.equal(
      difference?.kind === 'text' ? difference.patch : '',
      `--- a/script
+++ b/script
@@ -1,3 +1,3 @@
 a
-b
+B
 c
`,
    );
  });
});

test('texts that differ in too many lines are described by size and hash', async () => {
  const text = (letter: string) => Array.from({ length: 6_000 }, (_, line) => `${letter}${line}`).join('\n');
  const differences = await compare(
    side({ values: { workdir: { changes: text('a') } } }),
    side({ values: { workdir: { changes: text('b') } } }),
  );
  assert.match(
    JSON.stringify(differences),
    /"kind":"value","section":"workdir","key":"changes","left":"34\.9 kB, SHA-256 /,
  );
});

test('files are compared by content, links by target; binary files by size and hash', async (t) => {
  const home = temporaryFolder(t);
  const of = aJob();
  const { workdirs } = createJobFiles(home);
  const [left, right] = [1, 2].map((copy) => join(workdirs.folderOf(of, copy).path, 'files'));
  assert.ok(left !== undefined && right !== undefined);
  for (const [root, text] of [
    [left, 'lr = 0.1\n'],
    [right, 'lr = 0.2\n'],
  ] as const) {
    mkdirSync(join(root, 'src'), { recursive: true });
    writeFileSync(join(root, 'src/train.py'), text);
    writeFileSync(join(root, 'same.txt'), 'same');
    writeFileSync(join(root, 'weights.bin'), Buffer.from([0, text.length, text.charCodeAt(7)]));
    symlinkSync(text, join(root, 'link'));
  }
  writeFileSync(join(right, 'new.txt'), 'added');
  const open = async (copy: number | null) => (await workdirs.open(of, copy ?? 0)) ?? assert.fail('no copy');
  const differences = await compareSides(
    side({ files: { copy: 1, byPath: await filesByPath(await open(1)) } }),
    side({ files: { copy: 2, byPath: await filesByPath(await open(2)) } }),
    async (_side, copy, path) => (await readByPath(await open(copy), path)) ?? assert.fail(path),
  );
  assert.equal(await readByPath(await open(1), '../about.json'), undefined);
  assert.deepEqual(keysOf(differences), ['files link', 'files new.txt', 'files src/train.py', 'files weights.bin']);
  assert.match(JSON.stringify(differences[1]), /"left":null,"right":"5 bytes, SHA-256 [0-9a-f]{12}"/);
  assert.match(JSON.stringify(differences[2]), /-lr = 0\.1\\n\+lr = 0\.2/);
  assert.match(JSON.stringify(differences[3]), /"left":"3 bytes, SHA-256/);
});

test('files of setup steps: lines that differ, size of a file on one side, mode in octal', async () => {
  const contents = new Map<string, Buffer>();
  const file = (to: string, text: string, mode = 0o644) => {
    contents.set(digestOf(Buffer.from(text)), Buffer.from(text));
    return { kind: 'blob', to, mode, blob: digestOf(Buffer.from(text)) } as const;
  };
  const secret = { kind: 'named', secret: 'deploy' } as const;
  const key = { kind: 'secret', to: '~/.key', secret, mode: 0o600 } as const;
  const differences = await compareSides(
    side({ stepFiles: [file('~/train.py', 'a\nb\n'), file('~/same', 'x'), key] }),
    side({ stepFiles: [file('~/train.py', 'a\nc\n', 0o755), file('~/same', 'x'), file('~/new.py', 'x\ny\n')] }),
    async ({ stepFiles = [] }, _copy, path) => {
      const found = stepFiles.find(({ to }) => to === path);
      return (found?.kind === 'blob' ? contents.get(found.blob) : undefined) ?? assert.fail(path);
    },
  );
  assert.deepEqual(keysOf(differences), [
    'files ~/.key',
    'files ~/new.py',
    'files ~/train.py',
    'files mode of ~/train.py',
  ]);
  assert.match(JSON.stringify(differences[0]), /"left":"a secret: .*deploy.*","right":null/);
  assert.match(JSON.stringify(differences[1]), /"left":null,"right":"4 bytes, SHA-256 /);
  assert.match(JSON.stringify(differences[2]), /-b\\n\+c/);
  assert.match(JSON.stringify(differences[3]), /"left":"644","right":"755"/);
});

test('the result has the last step, the losses and the throughput of the attempt', () => {
  const series = (name: string, value: number): MetricSeriesView => {
    const last = { attempt: 1, step: 90, at: null, value };
    return { name, unit: null, points: [last], count: 9, last, min: 1, max: 2, nonFinite: 0, firstNonFinite: null };
  };
  const about = { stage: 0, startedAt: noon, endedAt: null, reason: null, worker: 0, firstStep: 1, totalSteps: null };
  const view: MetricsView = {
    id: '000001',
    name: 'vit',
    attempts: [{ ...about, attempt: 1, lastStep: 90, stepsPerSecond: 2.5 }],
    names: ['loss', 'lr', 'eval_loss'],
    series: [series('loss', 1.5), series('lr', 0.1), series('eval_loss', Number.NaN)],
    throughput: null,
    slowWorker: null,
    leftOut: null,
    dashboards: { wandb: null, tensorboard: null },
  };
  assert.deepEqual(withMetrics(side({ values: { result: { phase: 'running' } } }), view).values.result, {
    phase: 'running',
    metrics: { lastStep: 90, last: { loss: 1.5, eval_loss: 'NaN' }, stepsPerSecond: 2.5 },
  });
  assert.deepEqual(withMetrics(side(), { ...view, attempts: [], series: [] }), side());
});

suite('jobs of the store', () => {
  const spec = tpuSpec();
  const withEnv = (env: Readonly<Record<string, string>>, id: string) => ({
    ...withAttempts(
      aJob(
        {
          ...spec,
          command: {
            ...spec.command,
            env,
            checkpointDir: `/ckpt/${id}`,
            secrets: { TOKEN: { kind: 'localFile', path: '/home/ada/token' } },
          },
        },
        { id },
      ),
      [readyAllocation, { ...readyAllocation, alternative: 0 }],
      [
        {
          ...runningAttempt,
          ...endedAttempt('preempted', { message: 'node PREEMPTED' }, noon + hour),
        },
        { ...runningAttempt, allocation: 2 },
      ],
    ),
    id,
  });
  const sources = { jobFiles: createJobFiles('/nowhere'), manifest: 'job:\n  name: vit\n', now: noon + 2 * hour };

  test('differ in their environment; the own id in a path is not a difference', async () => {
    const one = await diffSide(withEnv({ LR: '0.1', SEED: '1' }, '000041'), null, sources);
    const other = await diffSide(withEnv({ LR: '0.2', SEED: '1' }, '000042'), null, {
      ...sources,
      manifest: 'job:\n  name: vit\n  tags: [a]\n',
    });
    const differences = await compare(one, other);
    assert.deepEqual(keysOf(differences), ['manifest job.tags', 'environment LR']);
    assert.equal(one.attempt, 2);
    assert.doesNotMatch(JSON.stringify(one), /000041-/);
  });

  test('attempts of one job differ in their result', async () => {
    const job = withEnv({}, '000041');
    const [one, other] = [await diffSide(job, 1, sources), await diffSide(job, 2, sources)];
    const keys = keysOf(await compare(one, other));
    for (const key of ['reason', 'evidence', 'stage', 'startMode', 'startedBy', 'ranMs'])
      assert.ok(keys.includes(`result ${key}`), `${key}: ${keys.join(', ')}`);
    assert.ok(!keys.some((key) => /^(?:manifest|spec|environment|rules)/.test(key)));
  });

  test('the cost is that of all attempts, or that of the named one; of the rules only those that differ are listed', async () => {
    const job = withEnv({}, '000041');
    const { recovery } = job.spec;
    const rules = [{ reason: 'hung', exitCodes: [1, 2], limit: 3, answer: { then: 'rerun', on: 'new' } }] as const;
    const changed = { ...job, spec: { ...job.spec, recovery: { ...recovery, rules: [...recovery.rules, ...rules] } } };
    const [one, other] = [await diffSide(job, null, sources), await diffSide(changed, 2, sources)];
    assert.deepEqual(
      [one, other].map(({ values }) =>
        [values.job, values.result].map((part) => Object.hasOwn(part as object, 'cost')),
      ),
      [
        [true, false],
        [false, true],
      ],
    );
    const [added] = (await compare(one, other)).filter(({ section }) => section === 'rules');
    assert.match(added?.kind === 'text' ? added.patch : '', /^\+hung, exit code 1 or 2: rerun on new, limit 3$/m);
  });

  test('an absent attempt is not found', async () => {
    await assert.rejects(diffSide(withEnv({}, '000041'), 7, sources), (error) => {
      assert.ok(error instanceof JobmanError && error.code === 3);
      assert.equal(error.message, 'Job 000041 has no attempt 7; it has 2 attempts.');
      return true;
    });
  });

  test('differ in commit, changes and files of their working directory', async (t) => {
    const home = temporaryFolder(t);
    const job = {
      ...withAttempts(
        aJob({ ...spec, workdir: { tree: null } }),
        [readyAllocation],
        [attemptOf(1, { workdirCopy: 1 }), attemptOf(2, { workdirCopy: 2, allocation: 1 })],
      ),
      workdirCopy: 2,
    };
    for (const copy of [1, 2]) {
      const folder = join(home, 'jobs/ada/000042/workdir', String(copy));
      mkdirSync(join(folder, 'files'), { recursive: true });
      const about: FrozenWorkdir = {
        from: '/home/ada/vit',
        copiedAt: noon + copy * minute,
        files: 1,
        bytes: 4,
        git: { commit: `c${copy}`, branch: 'main', changed: copy === 2 },
      };
      writeFileSync(join(folder, 'about.json'), JSON.stringify(about));
      if (copy === 2) writeFileSync(join(folder, 'changes.diff'), 'diff --git a/x b/x\n+1\n');
      writeFileSync(join(folder, 'files/train.py'), `#${copy}\n`);
    }
    const jobFiles = createJobFiles(home);
    const [one, other] = [
      await diffSide(job, 1, { ...sources, jobFiles }),
      await diffSide(job, 2, { ...sources, jobFiles }),
    ];
    const keys = keysOf(
      await compareSides(one, other, async (_side, copy, path) => {
        const tree = await jobFiles.workdirs.open(job, copy ?? 0);
        return (tree && (await readByPath(tree, path))) ?? assert.fail(path);
      }),
    ).filter((key) => !key.startsWith('result'));
    assert.deepEqual(keys, ['workdir commit', 'workdir changed', 'files train.py']);
  });
});

test('jobs of a cluster differ in image, environment and result, not in what the cluster adds', async () => {
  const clusterSide = (image: string, lr: string, uid: string) =>
    clusterDiffSide({
      job: aClusterJob({ uid, images: [image] }),
      pods: [aClusterPod({ node: `n${uid}` })],
      object: {
        metadata: { labels: { team: 'vision', 'controller-uid': uid }, uid },
        spec: {
          selector: { matchLabels: { 'controller-uid': uid } },
          template: {
            metadata: { labels: { 'controller-uid': uid } },
            spec: {
              restartPolicy: 'Never',
              containers: [{ name: 'main', image, command: ['python'], env: [{ name: 'LR', value: lr }] }],
            },
          },
        },
      },
      result: { phase: 'running', reasonText: '', message: 'runs', evidence: null },
    });
  const differences = await compare(clusterSide('a:1', '0.1', '1'), clusterSide('a:2', '0.2', '2'));
  assert.deepEqual(keysOf(differences), ['hosts nodes', 'environment main.LR', 'image main']);
});
