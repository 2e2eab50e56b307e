/** The region check, with buckets of an emulator that runs, is stopped, or is locked. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { openJobWorld } from '../support/jobs.ts';

test("a bucket in another region is refused by validate and by create, whatever the emulator's state", async (t) => {
  const world = openJobWorld(t);
  const run = (...argv: readonly string[]) => world.jobman(argv);
  const manifest = join(world.folder, 'job.yaml');
  const mount = (bucket: string, more = ''): void =>
    writeFileSync(
      manifest,
      `job: {name: near}\ntpu: {project: emulator, accelerator: v4-8, zone: us-central2-b, pricing: ondemand}\n` +
        `gcsfuse: {bucket_name: ${bucket}, mount_path: ~/b${more}}\ncommand: {run: "true"}\n`,
    );
  /** The exit code and output for a manifest with that bucket. */
  const check = async (
    command: 'validate' | 'create',
    bucket: string,
    more = '',
  ): Promise<readonly [number, string]> => {
    mount(bucket, more);
    const { code, stdout, stderr } = await run(command, manifest);
    return [code ?? -1, stdout + stderr];
  };
  const noJob = async (): Promise<void> => assert.match((await run('list')).stderr, /No jobs/i);

  assert.equal((await run('emulator', 'start')).code, 0);
  for (const [name, location] of Object.entries({ far: 'europe-west4', near: 'us-central2' }))
    assert.equal((await run('emulator', 'bucket', `bucket-${name}`, '--location', location)).code, 0);

  for (const command of ['validate', 'create'] as const) {
    const [code, output] = await check(command, 'bucket-far');
    assert.equal(code, 2, output);
    assert.match(
      output,
      /bucket-far is in europe-west4, and the job may run in us-central2-b; name a bucket in us-central2/,
    );
    await noJob();
  }
  // A bucket without a location is created at its first use; the other buckets are where the job runs.
  for (const bucket of ['bucket-near', 'bucket-new', '{us-central2: bucket-near, europe-west4: bucket-far}'])
    assert.deepEqual((await check('validate', bucket))[0], 0, bucket);
  assert.equal((await check('validate', 'bucket-far', ', allow_other_region: true'))[0], 0);

  // Without an answer of the emulator, validate says so and refuses nothing.
  assert.equal((await run('emulator', 'permission', 'login')).code, 0);
  const [locked, lockedOutput] = await check('validate', 'bucket-far');
  assert.equal(locked, 0, lockedOutput);
  assert.match(
    lockedOutput,
    /Could not check the location of the bucket bucket-far: .*gcloud auth application-default login/,
  );
  assert.equal((await run('emulator', 'clear')).code, 0);

  assert.equal((await run('emulator', 'stop')).code, 0);
  const [asleep, asleepOutput] = await check('validate', 'bucket-far');
  assert.equal(asleep, 0, asleepOutput);
  assert.match(asleepOutput, /Could not check the location of the .*: the TPU emulator is not running/);
  // Creating a job starts the emulator, which then answers.
  const [refused, why] = await check('create', 'bucket-far');
  assert.equal(refused, 2, why);
  assert.match(why, /^Started the TPU emulator at /m);
  assert.match(why, /bucket-far is in europe-west4/);
  await noJob();
});
