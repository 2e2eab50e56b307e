/** `jobman report`: a job and its files in; a page, or an archive without secrets out. */
import { readArchivedLog } from '../../src/files/archived-logs.ts';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import { exitCode } from '../../src/app/errors.ts';
import { escapeLine } from '../../src/app/format.ts';
import { hour, minute } from '../../src/core/model/time.ts';
import { aClusterJob, aClusterPod, anArchivedJob, noon as clusterNoon } from '../support/cluster-builders.ts';
import { localSpec, usageRow } from '../support/builders.ts';
import { openWorld } from '../support/world.ts';
import {
  attemptView,
  aWhy,
  fakeCluster,
  jobman,
  jobView,
  now,
  type CliHarnessOptions,
  fakeLog,
} from './support/harness.ts';

/** A job with files in a folder of the test. */
function openJob(t: TestContext, more: Partial<Parameters<typeof jobView>[0]> = {}) {
  const world = openWorld(t);
  const cwd = join(world.folder, 'out');
  const userHome = join(world.folder, 'user');
  const folder = join(world.home, 'jobs/alice/000042');
  const write = (path: string, text: string): string => {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return path;
  };
  mkdirSync(cwd);
  write(join(folder, 'config.yaml'), 'job: { name: vit }\n');
  const log = write(
    join(folder, 'logs/attempt_1/command_worker_0.log'),
    'step 1 <b>loss</b> 0.5\r\nbar 10%\rbar 99%\n',
  );
  const view = jobView({
    folder: { host: hostname(), path: folder },
    name: 'vit',
    phase: 'failed',
    attempt: 1,
    why: aWhy({ message: 'Job 000042 failed.', evidence: 'exit code 1' }),
    attempts: [
      attemptView({
        createdAt: now - hour,
        startedAt: now - 50 * minute,
        endedAt: now - minute,
        reason: 'command_failed',
        evidence: { message: 'exit code 1 on worker 0' },
      }),
    ],
    ...more,
  });
  const options: CliHarnessOptions = {
    jobs: [view],
    events: { '000042': [{ kind: 'allocation_gone', at: now - minute, allocation: 1 }] },
    logs: [fakeLog(log)],
    usage: [usageRow({ job: '000042', from: now - hour, until: now - minute })],
    cwd,
    userHome,
  };
  return { world, cwd, userHome, folder, write, options };
}

/** The texts of an archive by their names, which are below one folder. */
function unpack(cwd: string, file: string): ReadonlyMap<string, string> {
  const folder = join(cwd, 'unpacked');
  mkdirSync(folder);
  execFileSync('tar', ['-xzf', join(cwd, file), '-C', folder]);
  const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return new Map(
    names.map((entry) => {
      const path = join(entry.parentPath, entry.name);
      return [path.slice(folder.length + 1), readFileSync(path, 'utf8')];
    }),
  );
}

test('the page has the attempts, the cost, the log and the manifest', async (t) => {
  const { cwd, options } = openJob(t);
  const { code, out, err } = await jobman(['report', '42'], options);
  assert.equal(code, 0, err);
  const file = join(cwd, 'jobman-report-000042.html');
  assert.equal(out, `Wrote ${file}.\n`);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const page = readFileSync(file, 'utf8').replaceAll(/\s*\n\s*(?=<)|(?<=>)\s*\n\s*/g, '');
  for (const text of [
    '<h1>000042 vit <span class="phase bad">failed</span></h1>',
    'Job 000042 failed.',
    'command failed',
    'exit code 1 on worker 0',
    'useful: 2026-11-21 07:20:14 to 2026-11-21 08:19:14 UTC, attempt 1, us-west4-a',
    '<td>useful</td><td class="number">59m</td><td class="number">$7.87</td>',
    'step 1 &lt;b&gt;loss&lt;/b&gt; 0.5\nbar 99%</pre>',
    'allocation 1 deleted',
    'job: { name: vit }',
  ])
    assert.ok(page.includes(text), text);
});

test('a name and a tag cannot change the direction of the text', async (t) => {
  const { cwd, options } = openJob(t, { name: 'vit\u202egnp', tags: ['\u2066a'] });
  await jobman(['report', '42', '-o', 'page.html'], options);
  const page = readFileSync(join(cwd, 'page.html'), 'utf8');
  assert.match(page, /vit\\u202egnp[^]*\\u2066a/);
  assert.doesNotMatch(page, /[\u202a-\u202e\u2066-\u2069]/);
});

test('metrics are drawn: the loss first, each attempt for itself', async (t) => {
  const { cwd, options } = openJob(t);
  const point = (attempt: number, step: number, value: number | 'NaN') => ({ attempt, step, at: null, value });
  const points = [point(1, 1, 5), point(1, 2, 4), point(2, 2, 4.5), point(2, 3, 'NaN'), point(2, 4, 3)];
  const series = {
    unit: null,
    points,
    count: 5,
    last: point(2, 4, 3),
    min: 3,
    max: 5,
    nonFinite: 1,
    firstNonFinite: point(2, 3, 'NaN'),
  };
  const metrics = {
    id: '000042',
    name: 'vit',
    attempts: [],
    names: ['lr', 'train_loss'],
    series: [
      { ...series, name: 'lr' },
      { ...series, name: 'train_loss' },
    ],
    throughput: null,
    slowWorker: null,
    leftOut: null,
    dashboards: { wandb: null, tensorboard: null },
  };
  assert.equal((await jobman(['report', '42', '--output', 'm.html'], { ...options, metrics })).code, 0);
  const page = readFileSync(join(cwd, 'm.html'), 'utf8');
  const titles = [...page.matchAll(/aria-label="([^"]*)"/g)].map(([, label]) => label);
  const summary = 'last 3 at step 4, lowest 3, highest 5, 5 points, NaN at step 3';
  assert.deepEqual(titles.slice(1), [`train_loss: ${summary}`, `lr: ${summary}`]);
  assert.equal(page.match(/<polyline/g)?.length, 2, 'one line of each metric; single points are circles');
  assert.equal(page.match(/<circle/g)?.length, 4);
  assert.match(page, /<title>attempt 2<\/title>/);
});

test('a file is replaced only on request; other names and JSON', async (t) => {
  const { cwd, options } = openJob(t);
  assert.equal((await jobman(['report', '42', '--output', 'a.html'], options)).code, 0);
  const again = await jobman(['report', '42', '--output=a.html'], options);
  assert.equal(again.code, exitCode.conflict);
  assert.match(again.err, /a\.html exists\.\n.*--replace/);
  const file = join(cwd, 'a.html');
  chmodSync(file, 0o644);
  const { code, out } = await jobman(['report', '42', '-o', 'a.html', '--replace', '--json'], options);
  assert.equal(code, 0);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(JSON.parse(out), { id: '000042', file, message: `Wrote ${file}.` });
  const format = await jobman(['report', '42', '--output', 'json'], options);
  assert.equal((JSON.parse(format.out) as { file: string }).file, join(cwd, 'jobman-report-000042.html'));
  assert.equal((await jobman(['report'], options)).code, exitCode.usage);
  assert.equal((await jobman(['report', '7'], options)).code, exitCode.notFound);
  assert.equal((await jobman(['report', '42', '--output', 'no/such/a.html'], options)).code, exitCode.failed);
});

test('a bug report has the job, its logs, the settings and the versions', async (t) => {
  const { cwd, options } = openJob(t);
  const { code, out } = await jobman(['report', '42', '--bundle'], options);
  assert.equal(code, 0);
  assert.match(out, /jobman-report-000042\.tar\.gz\. Secrets that jobman knows are removed; read the files/);
  assert.equal(statSync(join(cwd, 'jobman-report-000042.tar.gz')).mode & 0o777, 0o600);
  const files = unpack(cwd, 'jobman-report-000042.tar.gz');
  assert.deepEqual([...files.keys()].map((name) => name.replace('jobman-report-000042/', '')).toSorted(), [
    'README.txt',
    'controller.log',
    'events.jsonl',
    'job.json',
    'logs/attempt_1/command_worker_0.log',
    'manifest.yaml',
    'passes.jsonl',
    'report.html',
    'settings.json',
    'usage.jsonl',
    'versions.json',
  ]);
  const job = JSON.parse(files.get('jobman-report-000042/job.json') ?? '') as { id: string };
  assert.equal(job.id, '000042');
  const alone = await jobman(['report', '--bundle', '--output', 'alone.tgz'], options);
  assert.equal(alone.code, 0);
  execFileSync('rm', ['-r', join(cwd, 'unpacked')]);
  assert.deepEqual(
    [...unpack(cwd, 'alone.tgz').keys()].toSorted(),
    ['README.txt', 'controller.log', 'settings.json', 'versions.json'].map((name) => `alone/${name}`),
  );
});

test('a secret is not left in part where the archive or the page cuts a log', async (t) => {
  const { cwd, folder, write, options } = openJob(t);
  write(
    join(folder, 'logs/attempt_1/command_worker_0.log'),
    `hf_hiddenBeforePartOfSecret${'b'.repeat(256 * 1024 - 12)}`,
  );
  write(
    join(folder, 'logs/attempt_1/command_worker_1.log'),
    `hf_hiddenBeforePartOfSecret\n${'b\n'.repeat(128 * 1024 - 6)}`,
  );
  write(join(folder, 'config.yaml'), `# ${'x'.repeat(199_978)} hf_hiddenBeforePartOfSecret`);
  assert.equal((await jobman(['report', '42', '--bundle', '--output', 'x.tgz'], options)).code, 0);
  const files = unpack(cwd, 'x.tgz');
  for (const [name, text] of files) assert.doesNotMatch(text, /OfSecret|hf_hidden/, name);
  assert.equal(files.get('x/logs/attempt_1/command_worker_1.log'), 'b\n'.repeat(128 * 1024 - 6));
});

suite('no secret is in the page or the archive', () => {
  const wandb = 'feedbeef0123456789abcdef0123456789abcdef';
  const pem = '-----BEGIN PRIVATE KEY-----\nhiddenPemBody0123456789\n-----END PRIVATE KEY-----';
  /** By the file or variable in which a user could have it. */
  const hidden = {
    variable: 'hidden-variable-1',
    storedSecret: 'hidden-stored-secret',
    named: 'hidden-named-secret',
    secretFile: 'hidden-secret-file',
    jobEnv: 'hidden-job-env',
    flag: 'hidden-flag',
    manifest: 'hidden-manifest',
    header: 'hidden-header',
    url: 'hidden-url-password',
    json: 'hidden-json',
    settings: 'hidden-settings-password',
    tokenCommand: 'hidden-token-command',
    netrc: 'hidden-netrc',
    docker: 'hidden-docker',
    kubeconfig: 'hidden-kubeconfig',
    credentials: 'hidden-adc-refresh',
    diff: 'hidden-diff',
    event: 'hidden-event',
    override: 'hidden-override',
    wandbFile: 'hidden-wandb-file',
    slackUrl: 'hidden-slack-url',
    ownCommand: 'hidden-own-command',
    smtp: 'hidden-smtp-password',
    proxy: 'hidden-proxy',
    wandb,
    pem: 'hiddenPemBody0123456789',
    /** Parts that remain whether the control characters are raw, escaped or gone. */
    control: 'bell-part',
    wandbUrl: 'hidden-wandb-url-token-0123',
    remote: 'hidden-remote-password',
    coloured: 'hidden-coloured',
  };
  const control = `before\u001b[1m\u0007${hidden.control}\u009b\u202eafter`;

  async function makeReport(t: TestContext, argv: readonly string[]) {
    const base = localSpec();
    const { world, cwd, userHome, folder, write, options } = openJob(t, {
      spec: localSpec({
        command: {
          ...base.command,
          script: `python train.py --api-key ${hidden.flag}`,
          env: { DB_PASSWORD: hidden.jobEnv, CONTROL_TOKEN: control, PLAIN: `it is ${control}` },
        },
      }),
      overrides: [{ key: 'job.env.TOKEN', value: hidden.override }],
      message: `Authorization: Bearer ${hidden.header}, ${control}`,
      why: aWhy({ message: `Job 000042 failed: ${control}.`, evidence: `exit code 1, ${control}` }),
      name: `vit ${control}`,
      dashboards: { wandb: `https://wandb.ai/lab/vit?apiKey=${hidden.wandbUrl}`, tensorboard: null },
    });
    write(join(folder, 'secrets/HF_TOKEN'), `${hidden.storedSecret}\n`);
    write(join(world.home, 'secrets/alice/hf'), `${hidden.named}\n`);
    const secretFile = write(join(userHome, 'a-file'), `${hidden.secretFile}\n`);
    const wandbFile = write(join(userHome, 'wandb-key'), `${hidden.wandbFile}\n`);
    write(join(world.home, 'slack-url'), `${hidden.slackUrl}\n`);
    write(join(userHome, '.netrc'), `machine api.wandb.ai\n  login user\n  password ${hidden.netrc}\n`);
    const auth = Buffer.from(`ann:${hidden.docker}`).toString('base64');
    write(join(userHome, '.docker/config.json'), JSON.stringify({ auths: { 'reg.lab': { auth } } }));
    write(join(userHome, '.kube/config'), `users:\n- name: ann\n  user:\n    token: ${hidden.kubeconfig}\n`);
    const adc = { type: 'authorized_user', client_secret: 'xyz-secret-xyz', refresh_token: hidden.credentials };
    write(join(userHome, '.config/gcloud/application_default_credentials.json'), JSON.stringify(adc));
    const settings = {
      harbor: { accessCredentials: { type: 'direct', username: 'ann', password: hidden.settings } },
      tpu: { tokenCommand: `echo ya29.${hidden.tokenCommand}` },
      lab: { wandbKeyFile: wandbFile },
      notify: {
        channels: {
          slack: { type: 'slack', url: './slack-url' },
          hook: { type: 'webhook', url: 'env:HOOK' },
          own: { type: 'command', command: `curl -H 'X-Own: ${hidden.ownCommand}' https://h` },
        },
      },
    };
    write(join(world.home, 'settings.json'), JSON.stringify(settings));
    write(
      join(folder, 'config.yaml'),
      `job:\n  env:\n    API_KEY: "${hidden.manifest}"\n  # password: ${hidden.manifest}\n    PLAIN: "it is before\\e[1m\\a${hidden.control}\\x9B\\u202eafter"\n`,
    );
    // No pattern finds these: only the files and variables above reveal them.
    const known = [
      hidden.variable,
      hidden.storedSecret,
      hidden.named,
      hidden.secretFile,
      hidden.jobEnv,
      hidden.settings,
      hidden.netrc,
      hidden.docker,
      hidden.kubeconfig,
      hidden.credentials,
      hidden.wandbFile,
      hidden.slackUrl,
      hidden.smtp,
      hidden.proxy,
    ];
    const log = write(
      join(folder, 'logs/attempt_1/command_worker_0.log'),
      [
        ...known.map((value) => `it is ${value}, in the middle of a line`),
        `it is ${control}`,
        `${control.replace('\u0007', '\r')} overwritten`,
        `\u001b[1mpassword\u001b[0m=${hidden.coloured}`,
        `wandb: View run at https://${hidden.wandbUrl}@wandb.ai/lab/vit/runs/a`,
        `{'Authorization': 'Bearer ${hidden.header}'}`,
        `git clone https://ann:${hidden.url}@github.com/lab/code`,
        `{"access_token": "${hidden.json}"}`,
        `wandb login ${wandb}`,
        pem,
        Buffer.from(hidden.docker).toString('base64'),
      ].join('\n'),
    );
    write(join(folder, 'logs/docker_worker_0.log'), `docker login -p ${hidden.docker}\n`);
    write(join(folder, 'logs/tpu.log'), `Authorization: Bearer ${hidden.header}\nit is ${escapeLine(control)}\n`);
    write(
      join(folder, 'workdir/1/about.json'),
      JSON.stringify({ git: { remote: `https://ann:${hidden.remote}@github.com/lab/code` } }),
    );
    write(join(folder, 'workdir/1/changes.diff'), `+SECRET_KEY = '${hidden.diff}'\n`);
    const view = options.jobs?.[0];
    assert.ok(view);
    const command = {
      ...view.spec.command,
      secrets: {
        HF_TOKEN: { kind: 'job', secret: 'HF_TOKEN', variable: 'MY_VALUE' } as const,
        FROM_FILE: { kind: 'localFile', path: secretFile } as const,
      },
    };
    const copy = {
      copy: 1,
      folder: { host: hostname(), path: join(folder, 'workdir/1') },
      from: '/x',
      copiedAt: now,
      files: 1,
      bytes: 1,
      git: null,
    };
    const result = await jobman([...argv], {
      ...options,
      jobs: [{ ...view, spec: { ...view.spec, command }, workdirCopies: [copy] }],
      logs: [fakeLog(log)],
      events: {
        '000042': [
          {
            kind: 'allocation_released',
            at: now,
            allocation: 1,
            message: `failed with password=${hidden.event}, ${control}`,
          },
        ],
      },
      env: {
        SOME_API_KEY: hidden.variable,
        MY_VALUE: hidden.storedSecret,
        HOOK: hidden.smtp,
        HTTPS_PROXY: `http://ann:${hidden.proxy}@proxy:8080`,
      },
      services: { home: world.home, settingsFiles: () => ({ home: world.home }) },
    });
    assert.equal(result.code, 0, result.err);
    return cwd;
  }

  function expectNone(name: string, text: string): void {
    for (const [origin, secret] of Object.entries(hidden)) {
      for (const form of [secret, Buffer.from(secret).toString('base64'), encodeURIComponent(secret)])
        assert.ok(!text.includes(form), `${name} has the secret of ${origin}: ${form}`);
    }
  }

  test('the archive', async (t) => {
    const cwd = await makeReport(t, ['report', '42', '--bundle', '--output', 'x.tar.gz']);
    const files = unpack(cwd, 'x.tar.gz');
    assert.ok(files.size >= 12);
    for (const [name, text] of files) expectNone(name, text);
    assert.match(files.get('x/logs/attempt_1/command_worker_0.log') ?? '', /it is \*\*\*, in the middle of a line/);
    assert.match(files.get('x/workdir/1/changes.diff') ?? '', /\+SECRET_KEY = '\*\*\*'/);
  });

  test('the page', async (t) => {
    const cwd = await makeReport(t, ['report', '42', '--output', 'x.html']);
    const page = readFileSync(join(cwd, 'x.html'), 'utf8');
    expectNone('the page', page);
    assert.match(page, /it is \*\*\*, in the middle of a line/);
    assert.match(page, /<h1>000042 vit \*\*\* /);
  });
});

suite('a job of a cluster', () => {
  const job = aClusterJob({ startedAt: clusterNoon, failed: 1 });
  const pod = aClusterPod(
    {},
    { state: 'terminated', exitCode: 137, reason: 'OOMKilled', startedAt: clusterNoon, endedAt: clusterNoon + minute },
  );
  const object = JSON.stringify({ metadata: { name: 'train' }, spec: { template: { spec: { containers: [] } } } });
  const archive = (path: string) => ({
    archivedJobs: async () => [archived],
    archivedJob: async () => archived,
    archivedEvents: async () => [
      { key: 'gone', at: clusterNoon + hour, message: 'deleted from the cluster; the archive keeps it' },
    ],
    archivedLogs: async () => [{ pod: 'train-a', container: 'main', state: 'complete' as const }],
    readArchivedLog: () => readArchivedLog(path),
  });
  const archived = anArchivedJob({ job, pods: [pod], object, goneAt: clusterNoon + hour });

  test('of which only the archive has a copy', async (t) => {
    const { cwd, write, options } = openJob(t);
    const log = write(join(cwd, 'archived.log'), '2026-11-22T12:00:01.000000000Z out of memory\n');
    const { code, err } = await jobman(['report', 'train', '--namespace', 'vision', '--output', 'k.html'], {
      ...options,
      now: () => clusterNoon + 2 * hour,
      archive: archive(log),
      services: {
        isClusterConfigured: async () => true,
        cluster: async () => fakeCluster({ job: async () => null }),
      },
    });
    assert.equal(code, 0, err);
    const page = readFileSync(join(cwd, 'k.html'), 'utf8');
    for (const text of ['exit 137 (OOMKilled)', 'out of memory', 'the archive keeps it', 'train-a', 'name: train'])
      assert.ok(page.includes(text), text);
    assert.doesNotMatch(page, /2026-11-22T12:00:01\.000000000Z/);
  });
});
