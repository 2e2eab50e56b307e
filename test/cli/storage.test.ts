/** `jobman storage` against a server that answers as Google's documentation shows, and against the TPU emulator. */
import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { defaultSettings } from '../../src/app/settings.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { openStore } from '../../src/store/store.ts';
import { createLocalClients } from '../../src/wiring/client.ts';
import {
  monitoringRefusal,
  openStorageServer,
  storageRefusal,
  type FakeBucket,
  type FakeStorage,
} from '../google/storage-server.ts';
import { readDocument } from '../docs/documents.ts';
import { tpuSpec } from '../support/builders.ts';
import { eventually } from '../support/eventually.ts';
import { run } from '../support/output-schema.ts';
import { openWorld } from '../support/world.ts';
import { createCliHarness, jsonLines, now, type CliHarness, type CliHarnessOptions } from './support/harness.ts';

const GiB = 1024 ** 3;

/** The same value on each of so many days. */
const steady = (value: number, days = 31): readonly number[] => Array.from({ length: days }, () => value);

const lab: Readonly<Record<string, FakeBucket>> = {
  'small-data': { location: 'US-CENTRAL2', bytes: steady(5 * GiB), objectCount: steady(40) },
  'lab-runs': {
    location: 'EU',
    locationType: 'multi-region',
    storageClass: 'NEARLINE',
    // 1 GiB more each day.
    bytes: Array.from({ length: 31 }, (_, age) => (2048 - age) * GiB),
    objectCount: steady(1_200_000),
  },
  'fresh-bucket': { location: 'US-CENTRAL2', timeCreated: '2026-11-21T08:00:00.000Z' },
};

interface Opened {
  readonly world: CliHarness;
  readonly requests: readonly string[];
  readonly jobman: (...argv: readonly string[]) => Promise<{ code: number; out: string; err: string }>;
}

async function open(
  t: TestContext,
  storage: FakeStorage,
  { specs = [], ...options }: CliHarnessOptions & { readonly specs?: readonly JobSpec[] } = {},
): Promise<Opened> {
  const { home } = openWorld(t);
  const { url, requests } = await openStorageServer(t, storage);
  const settings = defaultSettings(
    4,
    new Map<string, unknown>([
      ['tpu.project', 'lab'],
      ['google.endpoints', { storage: url, monitoring: url }],
    ]),
  );
  const store = openStore({ file: `${home}/state.db` });
  for (const spec of specs) await store.insert({ owner: 'alice', spec, manifest: '', at: now });
  await store.close();
  const world: CliHarness = createCliHarness({
    ...options,
    services: {
      home,
      settings: async () => settings,
      client: async () => createLocalClients({ ...world.services, home, settings: async () => settings })(null),
    },
  });
  return {
    world,
    requests,
    async jobman(...argv) {
      const code = await run(argv, world.services);
      return { code, out: world.out(), err: world.err() };
    },
  };
}

suite('storage', () => {
  test('lists the buckets, largest first, with growth and total, in one round trip', async (t) => {
    let waiting = 0;
    const all = Promise.withResolvers<void>();
    const beforeAnswer = (): Promise<void> => {
      waiting += 1;
      if (waiting === 3) all.resolve();
      return all.promise;
    };
    const specs = [tpuSpec({}, { project: 'lab', zone: 'us-central2-b' })];
    const { jobman, requests } = await open(t, { projects: { lab }, beforeAnswer }, { specs });
    const { code, out, err } = await jobman('storage');
    assert.equal(code, 0);
    const documented = readDocument('docs/quota-and-storage.md').blocks.map(({ text }) => text);
    const printed = `$ jobman storage\n${out}${err}`;
    assert.ok(documented.includes(printed), printed);
    assert.equal(requests.length, 3);
    const [series = ''] = requests.filter((path) => path.includes('total_bytes'));
    const query = new URL(series, 'http://x').searchParams;
    assert.deepEqual(
      ['aggregation.alignmentPeriod', 'aggregation.perSeriesAligner', 'aggregation.crossSeriesReducer'].map((name) =>
        query.get(name),
      ),
      ['86400s', 'ALIGN_NEXT_OLDER', 'REDUCE_SUM'],
    );
    assert.match(query.get('filter') ?? '', /resource\.labels\.project_id = "lab"/);
  });

  test('with --json has bytes and a total, and null for what is not measured', async (t) => {
    const { jobman } = await open(t, { projects: { lab } });
    const lines = jsonLines<Record<string, unknown>>((await jobman('storage', '--json')).out);
    assert.deepEqual(
      lines.map(({ kind, bucket, bytes, objects, growth7dBytes, source }) => [
        kind,
        bucket,
        bytes,
        objects,
        growth7dBytes,
        source,
      ]),
      [
        ['bucket', 'lab-runs', 2048 * GiB, 1_200_000, 7 * GiB, 'metric'],
        ['bucket', 'small-data', 5 * GiB, 40, 0, 'metric'],
        ['bucket', 'fresh-bucket', null, null, null, null],
        ['total', undefined, 2053 * GiB, 1_200_040, 7 * GiB, undefined],
      ],
    );
  });

  test('with --csv has a header and one line for each bucket', async (t) => {
    const { jobman } = await open(t, { projects: { lab } });
    const { out } = await jobman('storage', '--csv');
    const lines = out.trim().split('\n');
    assert.equal(lines.length, 4);
    assert.match(lines[1] ?? '', /^lab,lab-runs,eu,NEARLINE,2199023255552,1200000,7516192768,\d+,metric,2026-11-21T/);
    assert.match(lines[3] ?? '', /^lab,fresh-bucket,us-central2,STANDARD,,,,,,,false,$/);
    assert.equal((await jobman('storage', '--csv', '--json')).code, 2);
  });

  test('reads lists and points in pages, also if a page ends within a project', async (t) => {
    const many = Object.fromEntries(
      Array.from({ length: 7 }, (_, index) => [`bucket-${index}`, { location: 'US', bytes: steady(index) }]),
    );
    const { jobman } = await open(t, { projects: { lab: many }, pageSize: 3 });
    const lines = jsonLines<{ bucket?: string; bytes: number }>((await jobman('storage', '--json')).out);
    assert.deepEqual(
      lines.slice(0, 7).map(({ bytes }) => bytes),
      [6, 5, 4, 3, 2, 1, 0],
    );
  });

  test('shows an old point with its age, and a growth only between points that exist', async (t) => {
    const stale: FakeBucket = { location: 'US', bytes: [null, null, null, ...steady(GiB, 3)], objectCount: [] };
    const recent: FakeBucket = { location: 'US', bytes: [GiB], timeCreated: '2026-11-18T00:00:00.000Z' };
    const { jobman } = await open(t, { projects: { lab: { stale, recent } } });
    const { out } = await jobman('storage');
    assert.match(out, /^stale .* 1\.0 GiB +- +- +- +<4d$/m);
    assert.match(out, /^recent .* 1\.0 GiB +- +\+1\.0 GiB +\+1\.0 GiB +<1d$/m, 'it grew from nothing');
  });

  test('shows the other projects if one may not be listed, and names the permission', async (t) => {
    const message = 'alice@example.com does not have storage.buckets.list access to the Google Cloud project.';
    const refusals = {
      'project=other': storageRefusal(403, 'forbidden', message),
      'projects/other/timeSeries': monitoringRefusal(403, 'PERMISSION_DENIED', 'Permission denied.', 'IAM'),
    };
    const specs = [tpuSpec({}, { project: 'other' })];
    const { jobman } = await open(t, { projects: { lab }, refusals }, { specs });
    const { code, out, err } = await jobman('storage');
    assert.equal(code, 0);
    assert.match(out, /^lab\/lab-runs /m);
    assert.match(
      err,
      /project other could not be read: your login has no permission storage\.buckets\.list\.\n.*alice@example\.com/,
    );
    const alone = await jobman('storage', '--project', 'other');
    assert.equal(alone.code, 1);
  });

  test('shows the buckets that the metric names if they may not be listed', async (t) => {
    const refusals = { '/storage/v1/b?': storageRefusal(403, 'forbidden', 'No access.') };
    const { jobman } = await open(t, { projects: { lab }, refusals });
    const { code, out, err } = await jobman('storage');
    assert.equal(code, 0);
    assert.match(out, /^lab-runs +eu +\? +2\.0 TiB/m);
    assert.match(err, /no permission storage\.buckets\.list/);
  });

  test('names the permission to use the project if that one is missing', async (t) => {
    const message = 'Caller does not have required permission to use project lab: serviceusage.services.use.';
    const refusals = { timeSeries: monitoringRefusal(403, 'PERMISSION_DENIED', message, 'USER_PROJECT_DENIED') };
    const { jobman } = await open(t, { projects: { lab }, refusals });
    assert.match((await jobman('storage')).err, /no permission serviceusage\.services\.use, so sizes are missing/);
  });

  test('says how to enable the monitoring API, and offers to count', async (t) => {
    const message =
      'Cloud Monitoring API has not been used in project 123 before or it is disabled. Enable it by visiting https://example.com then retry.';
    const refusals = { timeSeries: monitoringRefusal(403, 'PERMISSION_DENIED', message, 'SERVICE_DISABLED') };
    const { jobman } = await open(t, { projects: { lab }, refusals });
    const { code, out, err } = await jobman('storage');
    assert.equal(code, 1, 'no size could be read');
    assert.match(out, /^small-data +us-central2 +standard +\? /m);
    assert.match(err, /the API monitoring\.googleapis\.com is disabled in lab/);
    assert.match(err, /gcloud services enable monitoring\.googleapis\.com --project lab/);
    assert.match(err, /jobman storage --exact/);
    assert.doesNotMatch(err, /once a day/);
  });

  test('names a bucket whose entry or points have an unexpected form, and shows the others', async (t) => {
    const corrupt = (entry: { name?: string; resource?: { labels: { bucket_name: string } } }): unknown => {
      if (entry.name === 'fresh-bucket') return { ...entry, location: 5 };
      return entry.resource?.labels.bucket_name === 'small-data' ? { ...entry, points: 'none' } : entry;
    };
    const { jobman } = await open(t, { projects: { lab }, corrupt });
    const { code, out, err } = await jobman('storage');
    assert.equal(code, 0);
    assert.match(out, /^lab-runs .* 2\.0 TiB/m);
    assert.match(out, /^small-data +us-central2 +standard +\? /m);
    assert.doesNotMatch(out, /fresh-bucket/);
    assert.match(
      err,
      /bucket fresh-bucket of project lab could not be read: its entry in the list of buckets has an unexpected form\./,
    );
    assert.match(err, /some sizes may be missing: the answer for small-data has an unexpected form/);
  });

  test('of a server that does not answer ends with 5', async (t) => {
    const { jobman } = await open(t, { projects: { lab } });
    const settings = defaultSettings(
      4,
      new Map<string, unknown>([
        ['tpu.project', 'lab'],
        ['google.endpoints', { storage: 'http://127.0.0.1:9', monitoring: 'http://127.0.0.1:9' }],
      ]),
    );
    const { home } = openWorld(t);
    const world: CliHarness = createCliHarness({
      services: {
        client: async () => createLocalClients({ ...world.services, home, settings: async () => settings })(null),
      },
    });
    assert.equal(await run(['storage'], world.services), 5);
    assert.match(world.err(), /project lab could not be read: 127\.0\.0\.1:9 did not answer/);
    assert.equal(world.err().match(/could not be read/g)?.length, 1, 'the project is reported once');
    assert.equal((await jobman('storage', '--project', 'none')).code, 1);
  });
});

suite('storage --exact', () => {
  const counted: Readonly<Record<string, FakeBucket>> = {
    'lab-runs': { ...lab['lab-runs'], location: 'EU', objects: { 'a/1': 100, 'a/2': 200, b: 4_000 } },
    'fresh-bucket': { location: 'US', objects: { c: 10 } },
    'empty-bucket': { location: 'US' },
  };

  test('counts the objects page by page; an empty bucket has 0 bytes', async (t) => {
    const { jobman, requests } = await open(t, { projects: { lab: counted }, pageSize: 2 });
    const lines = jsonLines<Record<string, unknown>>((await jobman('storage', '--exact', '--json')).out);
    assert.deepEqual(
      lines.map(({ bucket, bytes, objects, source, partial, growth7dBytes }) => [
        bucket,
        bytes,
        objects,
        source,
        partial,
        growth7dBytes,
      ]),
      [
        ['lab-runs', 4_300, 3, 'listing', false, 7 * GiB],
        ['fresh-bucket', 10, 1, 'listing', false, null],
        ['empty-bucket', 0, 0, 'listing', false, null],
        [undefined, 4_310, 4, undefined, false, 7 * GiB],
      ],
    );
    assert.equal(requests.filter((path) => path.includes('/b/lab-runs/o')).length, 2);
  });

  test('names the bucket and the permission that is missing, and shows the others', async (t) => {
    const refusals = { '/b/lab-runs/o': storageRefusal(403, 'forbidden', 'No access to lab-runs.') };
    const { jobman } = await open(t, { projects: { lab: counted }, refusals });
    const { code, out, err } = await jobman('storage', '--exact');
    assert.equal(code, 0);
    assert.match(out, /^fresh-bucket .* 10 B/m);
    assert.match(out, /^lab-runs .* 2\.0 TiB .*<1d$/m, 'the metric is shown instead');
    assert.match(err, /bucket lab-runs of project lab could not be read: .* no permission storage\.objects\.list/);
  });

  test('says that a bucket was deleted meanwhile', async (t) => {
    const refusals = { '/b/fresh-bucket/o': storageRefusal(404, 'notFound', 'The specified bucket does not exist.') };
    const { jobman } = await open(t, { projects: { lab: counted }, refusals });
    const { err } = await jobman('storage', '--exact');
    assert.match(err, /bucket fresh-bucket of project lab could not be read: it does not exist\./);
  });

  test('Ctrl-C shows what was counted so far, as a lower limit', async (t) => {
    const objects = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`object-${index}`, 1024]));
    let pages = 0;
    const stuck = Promise.withResolvers<void>();
    t.after(() => stuck.resolve());
    const { world, jobman } = await open(
      t,
      {
        projects: { lab: { 'lab-runs': { location: 'EU', objects } } },
        pageSize: 10,
        beforeAnswer: (path) => {
          if (!path.includes('/o?')) return undefined;
          pages += 1;
          return pages > 3 ? stuck.promise : undefined;
        },
      },
      { terminal: { columns: 100, rows: 24 } },
    );
    const ended = jobman('storage', '--exact');
    assert.ok(await eventually(() => world.err().includes('Counted 0 of 1 bucket: 30 objects')));
    world.signal();
    const { code, out, err } = await ended;
    assert.equal(code, 130);
    assert.match(out, /^lab-runs .* >= 30\.0 KiB +>= 30 /m);
    assert.match(err, /Interrupted/);
  });

  test('a terminal shows the progress, and the last line is the result', async (t) => {
    const { world, jobman } = await open(
      t,
      {
        projects: { lab: counted },
        beforeAnswer: async (path) => {
          if (path.includes('/b/fresh-bucket/o')) await eventually(() => world.err().includes('Counted'));
        },
      },
      { terminal: { columns: 100, rows: 24 } },
    );
    const { err } = await jobman('storage', '--exact');
    assert.match(err, /Counted 2 of 3 buckets: 3 objects, 4\.2 KiB/);
  });
});
