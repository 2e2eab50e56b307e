// Checks of bucket regions, with manifests as users write them and simulated answers of Cloud Storage.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkBucketLocations, observeInTime, type BucketFindings } from '../../src/app/buckets.ts';
import type { BucketStatus } from '../../src/app/ports.ts';
import { formatProblems } from '../../src/schema/problems.ts';
import { parse } from '../manifest/fake-files.ts';

const there = (location: string, kind: string, parts: readonly string[] = []): BucketStatus => ({
  kind: 'present',
  location: { location, kind, parts },
});

const answers: Readonly<Record<string, BucketStatus>> = {
  'in-central2': there('us-central2', 'region'),
  'in-us': there('us', 'multi-region'),
  'in-eu': there('eu', 'multi-region'),
  'in-zone': there('us-central2', 'zone', ['us-central2-a']),
  'not-there': { kind: 'absent' },
  fresh: { kind: 'unlocated' },
  closed: { kind: 'unknown', reason: 'PERMISSION_DENIED: no' },
};

/** The findings for a job in us-central2-b (and those alternatives) with these mounts, and the requested buckets. */
async function check(
  gcsfuse: string,
  alternatives = '',
): Promise<{ lines: readonly string[]; asked: readonly string[]; found: BucketFindings }> {
  const result = parse(
    `tpu: {project: my-project, accelerator: v4-8, zone: us-central2-b${alternatives}}\ngcsfuse: ${gcsfuse}\ncommand: {run: ls}\n`,
  );
  assert.ok('buckets' in result, JSON.stringify(result));
  const asked: string[] = [];
  const found = await checkBucketLocations(result.buckets, async (names) => {
    asked.push(...names);
    return names.map((bucket) => answers[bucket] ?? { kind: 'unknown', reason: 'unheard of.' });
  });
  return { lines: formatProblems('j.yaml', [...found.problems, ...found.warnings]), asked, found };
}

test('a bucket in the region of the TPU is not reported', async () => {
  for (const name of ['in-central2', 'in-us', 'fresh', 'gs://in-central2/']) {
    const { lines, found } = await check(`{bucket_name: ${name}, mount_path: ~/b}`);
    assert.deepEqual([lines, found.unchecked], [[], null]);
  }
});

test('a bucket elsewhere is a problem at its key, with its location and a remedy', async () => {
  const { lines } = await check('{bucket_name: in-eu, mount_path: ~/b}');
  assert.deepEqual(lines, [
    'j.yaml:2:24 gcsfuse.bucket_name: in-eu is in the multi-region EU, and the job may run in us-central2-b; name a bucket in us-central2 (or one for each region), choose another zone, or set allow_other_region: true',
  ]);
});

test('every alternative of the job counts, with the bucket that is mounted there', async () => {
  const v5e = ', alternatives: [{accelerator: v5litepod-8, zone: europe-west4-b}]';
  const one = await check('{bucket_name: in-central2, mount_path: ~/b}', v5e);
  assert.match(one.lines.join(), /in-central2 is in us-central2, and the job may run in europe-west4-b; /);
  const each = await check('{bucket_name: {us-central2: in-central2, europe-west4: in-eu}, mount_path: ~/b}', v5e);
  assert.deepEqual(each.lines, []);
  const swapped = await check('{bucket_name: {us-central2: in-eu, europe-west4: in-central2}, mount_path: ~/b}', v5e);
  assert.match(
    swapped.lines.join('\n'),
    /gcsfuse\.bucket_name\.us-central2: in-eu is in .*\n.*europe-west4: in-central2 is in/,
  );
});

test('each mount is checked, and each bucket requested once', async () => {
  const { lines, asked } = await check(
    '{bucket_name: in-us, mount_path: ~/b, extra_mounts: [{mount_path: ~/c}, {bucket_name: in-us, mount_path: ~/d}, {bucket_name: not-there, mount_path: ~/e}]}',
  );
  assert.deepEqual(asked, ['in-us', 'not-there']);
  assert.match(
    lines.join(),
    /gcsfuse\.extra_mounts\[2\]\.bucket_name: there is no bucket not-there; create it in us-central2/,
  );
});

test('a bucket that may be in another region must still exist', async () => {
  const { lines } = await check('{bucket_name: in-eu, mount_path: ~/b, allow_other_region: true}');
  assert.deepEqual(lines, []);
  const gone = await check('{bucket_name: not-there, mount_path: ~/b, allow_other_region: true}');
  assert.match(gone.lines.join(), /there is no bucket/);
});

test('a zone of the same region is a warning', async () => {
  const { found, lines } = await check('{bucket_name: in-zone, mount_path: ~/b}');
  assert.deepEqual(found.problems, []);
  assert.match(lines.join(), /in-zone is only in zone us-central2-a, and the job may run in us-central2-b/);
});

test('a bucket that could not be checked refuses nothing and is one line of output', async () => {
  const { found } = await check(
    '{bucket_name: closed, mount_path: ~/b, extra_mounts: [{bucket_name: other, mount_path: ~/c}]}',
  );
  assert.deepEqual(found, {
    problems: [],
    warnings: [],
    unchecked: 'Could not check the location of the buckets closed and other: unheard of',
  });
});

test('the check does not wait for a server that never answers', async () => {
  const result = parse(
    'tpu: {project: my-project, accelerator: v4-8, zone: us-central2-b}\ngcsfuse: {bucket_name: abc, mount_path: ~/b}\ncommand: {run: ls}\n',
  );
  assert.ok('buckets' in result);
  const silent = { observe: () => new Promise<BucketStatus>(() => {}) };
  const { unchecked } = await checkBucketLocations(result.buckets, (names) =>
    Promise.all(names.map((name) => observeInTime(silent, name, 20))),
  );
  assert.match(unchecked ?? '', /Could not check .*: no answer within/);
});

test('a local job needs no request', () => {
  const result = parse('local: {}\ngcsfuse: {bucket_name: abc, mount_path: ~/b}\ncommand: {run: ls}\n');
  assert.ok('buckets' in result);
  assert.deepEqual(result.buckets, []);
});
