/** `jobman storage checkpoints`: folders of this machine, of Cloud Storage and of the TPU emulator. */
import assert from 'node:assert/strict';
import { lutimesSync, mkdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { defaultSettings } from '../../src/app/settings.ts';
import type { Job } from '../../src/core/model/job.ts';
import type { CommandSpec, JobSpec } from '../../src/core/model/spec.ts';
import { day, hour, minute } from '../../src/core/model/time.ts';
import type { CheckpointReport } from '../../src/app/checkpoints.ts';
import type { CheckpointRow } from '../../src/reports/checkpoints.ts';
import { openStore } from '../../src/store/store.ts';
import { createLocalClients } from '../../src/wiring/client.ts';
import { readDocument } from '../docs/documents.ts';
import { startTestEmulator } from '../emulator/test-emulator.ts';
import { openStorageServer, storageRefusal } from '../google/storage-server.ts';
import {
  endedAttempt,
  localSpec,
  readyAllocation,
  runningAttempt,
  tpuSpec,
  withAttempts,
} from '../support/builders.ts';
import { run } from '../support/output-schema.ts';
import { openWorld, type World } from '../support/world.ts';
import { createCliHarness, jsonLines, now, type CliHarness } from './support/harness.ts';

type Verdict = NonNullable<Job['finish']>['verdict'];

/** A job of the spec that has run once; its checkpoint folder is the one of the command. */
interface RanJob {
  readonly spec: JobSpec;
  readonly verdict: Verdict | null;
}

async function writeJobs(world: World, jobs: readonly RanJob[]): Promise<void> {
  const store = openStore({ file: join(world.home, 'state.db') });
  for (const { spec, verdict } of jobs) {
    const { job, revision } = await store.insert({ owner: 'alice', spec, manifest: '', at: now - day });
    const ended = endedAttempt('succeeded', { message: 'exit 0' }, now);
    const attempt = { ...runningAttempt, startedAt: now - hour, ...(verdict !== null && ended) };
    const allocation = { ...readyAllocation, ...(verdict !== null && { goneAt: now }) };
    const finish = verdict === null ? null : ({ verdict, at: now, reason: 'succeeded' } as Job['finish']);
    const ran = withAttempts({ ...job, finish }, [allocation], [attempt]);
    const commit = { job: ran, revision, events: [], foldedOutcomes: [], wakeAt: null, epoch: null };
    assert.equal(await store.commit(commit), 'committed');
  }
  await store.close();
}

async function checkpoints(
  world: World,
  settings: Readonly<Record<string, unknown>>,
  ...flags: readonly string[]
): Promise<{ readonly code: number; readonly out: string; readonly err: string }> {
  const own = defaultSettings(4, new Map(Object.entries(settings)));
  const cli: CliHarness = createCliHarness({
    services: {
      client: async () => createLocalClients({ ...cli.services, home: world.home, settings: async () => own })(null),
    },
  });
  const code = await run(['storage', 'checkpoints', ...flags], cli.services);
  return { code, out: cli.out(), err: cli.err() };
}

const local = (checkpointDir: string): JobSpec =>
  localSpec({ command: { ...localSpec().command, checkpointDir, checkpoints: 'own' } });

const onTpu = (command: Partial<CommandSpec>): JobSpec =>
  tpuSpec({ command: { ...tpuSpec().command, checkpoints: 'own', ...command } }, { project: 'lab' });

test('folders of this machine are counted, and the command removes them', async (t) => {
  const world = openWorld(t);
  const [one, two, none] = ["it's/1", '2', '3'].map((name) => join(world.folder, 'runs', name)) as [
    string,
    string,
    string,
  ];
  for (const folder of [one, two]) {
    mkdirSync(join(folder, 'step_1'), { recursive: true });
    writeFileSync(join(folder, 'step_1/weights'), 'x'.repeat(2_048));
    // A link may lead to files that another folder needs.
    symlinkSync('/etc', join(folder, 'link'));
    const at = (now - 2 * hour) / 1_000;
    utimesSync(join(folder, 'step_1/weights'), at, at);
    lutimesSync(join(folder, 'link'), at, at);
  }
  await writeJobs(world, [
    { spec: local(one), verdict: 'succeeded' },
    { spec: local(two), verdict: null },
    { spec: local(none), verdict: 'succeeded' },
  ]);
  const timestamp = new Date(now - 2 * hour).toISOString();
  const rows = jsonLines<
    Record<'folder' | 'files' | 'newestAt' | 'needed' | 'removeCommand', unknown> & { jobs: string[] }
  >((await checkpoints(world, {}, '--json', '--all')).out);
  assert.deepEqual(
    rows.map(({ jobs, folder, files, newestAt, needed, removeCommand }) => [
      jobs[0],
      folder,
      files,
      newestAt,
      needed,
      removeCommand,
    ]),
    [
      ['000003', none, 0, null, false, null],
      ['000002', two, 2, timestamp, true, null],
      ['000001', one, 2, timestamp, false, `rm -r '${one.replace("'", String.raw`'\''`)}'`],
    ],
  );
  const { out } = await checkpoints(world, {});
  assert.doesNotMatch(out, /000003/, 'a folder without files is listed with --all only');
});

test('a folder that cannot be read is needed', async (t) => {
  const world = openWorld(t);
  const file = join(world.folder, 'file');
  writeFileSync(file, '');
  await writeJobs(world, [{ spec: local(file), verdict: 'succeeded' }]);
  const { out } = await checkpoints(world, {});
  assert.match(out, /assumed: it could not be read: it is not a folder/);
});

test('folders in buckets are counted; a missing permission or bucket is named once', async (t) => {
  const world = openWorld(t);
  const { url } = await openStorageServer(t, {
    projects: {
      lab: { runs: { location: 'US', objects: { 'a/000001-x/s/1': 3_000, 'a/000001-x/s/2': 96, 'a/000001-x2': 9 } } },
    },
    refusals: { '/b/closed/': storageRefusal(403, 'forbidden', 'No access.') },
  });
  await writeJobs(world, [
    {
      spec: onTpu({ checkpointDir: '~/b/a/000001-x', checkpointStorage: 'gs://runs/a/000001-x' }),
      verdict: 'succeeded',
    },
    { spec: onTpu({ checkpointDir: 'gs://closed/000002-x' }), verdict: 'succeeded' },
    { spec: onTpu({ checkpointDir: 'gs://closed/000003-x' }), verdict: 'succeeded' },
    { spec: onTpu({ checkpointDir: 'gs://missing/000004-x' }), verdict: 'succeeded' },
    { spec: onTpu({ checkpointDir: '/data/000005-x' }), verdict: 'succeeded' },
  ]);
  const { code, out, err } = await checkpoints(world, { 'google.endpoints': { storage: url, monitoring: url } });
  assert.equal(code, 0);
  assert.match(out, /^000001 .* 3\.0 KiB +\S+ +no: job 000001 succeeded +gs:\/\/runs\/a\/000001-x$/m);
  assert.match(
    out,
    /^000002 .* \? +- +assumed: it could not be read: your login has no permission storage\.objects\.list/m,
  );
  assert.match(
    out,
    new RegExp(
      `^  CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE=${url}/storage/v1/ gcloud storage rm -r gs://runs/a/000001-x$`,
      'm',
    ),
  );
  assert.equal(err.match(/bucket closed of project lab could not be read/g)?.length, 1);
  assert.match(err, /bucket missing of project lab could not be read: it does not exist/);
  assert.match(err, /^Not listed.* job 000005\.$/m);
  assert.match(err, /No job needs 1 folder with 3\.0 KiB\. Nothing was removed\. To remove it:/);
});

test('the buckets of the TPU emulator are read with the same requests', async (t) => {
  const world = openWorld(t);
  const { emulator } = await startTestEmulator(t);
  const upload = (name: string, size: number): Promise<Response> =>
    fetch(`${emulator.url}/upload/storage/v1/b/my-bucket/o?uploadType=media&name=${encodeURIComponent(name)}`, {
      method: 'POST',
      body: 'x'.repeat(size),
    });
  for (const [name, size] of [
    ['runs/000001-x/step_1', 500],
    ['runs/000001-x/step_2', 524],
    ['other', 4_096],
  ] as const)
    assert.equal((await upload(name, size)).status, 200);
  await writeJobs(world, [{ spec: onTpu({ checkpointDir: 'gs://my-bucket/runs/000001-x' }), verdict: 'failed' }]);
  const settings = { 'tpu.endpoint': emulator.url, 'tpu.project': 'lab' };
  const { out } = await checkpoints(world, settings);
  assert.match(out, /^000001 .* 1\.0 KiB .*yes: job 000001 failed and can be resumed/m);

  const own = defaultSettings(4, new Map<string, unknown>(Object.entries(settings)));
  const cli: CliHarness = createCliHarness({
    services: {
      client: async () => createLocalClients({ ...cli.services, home: world.home, settings: async () => own })(null),
    },
  });
  assert.equal(await run(['storage', '--exact'], cli.services), 0);
  assert.match(cli.out(), /^my-bucket +\S+ +standard +5\.0 KiB +3 /m);
});

function cliWith(rows: readonly CheckpointRow[]): CliHarness {
  const counted = { counted: 0, ofAll: 0, objects: 0, bytes: 0 };
  async function* checkpointReports(): AsyncIterable<CheckpointReport> {
    yield { counted, rows, problems: [], unlisted: [] };
  }
  return createCliHarness({ client: { checkpoints: checkpointReports } });
}

test('the example of the documentation', async () => {
  const row = (id: string, state: Partial<CheckpointRow>): CheckpointRow => ({
    jobs: [id],
    name: 'vit',
    owner: 'alice',
    phase: 'running',
    folder: `gs://my-bucket/checkpoints/${id}-k3x9ab`,
    bytes: 96 * 1024 ** 3,
    files: 8,
    newestAt: now - 8 * day,
    partial: false,
    needed: true,
    assumed: false,
    message: `job ${id} failed and can be resumed`,
    removeCommand: null,
    ...state,
  });
  const unneeded = {
    phase: 'succeeded',
    needed: false,
    message: 'job 000001 succeeded',
    newestAt: now - 9 * day,
    removeCommand: 'gcloud storage rm -r gs://my-bucket/checkpoints/000001-k3x9ab',
  };
  const rows = [
    row('000003', { message: 'job 000003 is running', bytes: 12 * 1024 ** 3, newestAt: now - 2 * hour - minute }),
    row('000002', { phase: 'failed' }),
    row('000001', unneeded),
  ];
  const cli = cliWith(rows);
  assert.equal(await run(['storage', 'checkpoints'], cli.services), 0);
  const [table, ...commands] = cli.out().split(/\n(?= {2}gcloud)/);
  const printed = `$ jobman storage checkpoints\n${table}\n${cli.err()}${commands.join('\n')}`;
  assert.ok(
    readDocument('docs/checkpoints.md').blocks.some(({ text }) => text === printed),
    printed,
  );
});

test('a global flag may be between the two parts of the name', async () => {
  const cli = cliWith([]);
  assert.equal(await run(['storage', '-q', 'checkpoints'], cli.services), 0);
  assert.deepEqual([cli.out(), cli.err()], ['', '']);
});
