/** Setup steps: one that fails on one worker, run by the controller and manually, and its repair. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openJobWorld } from '../support/jobs.ts';

test('a step that fails on one worker is named, the other workers continue, and the step can be run again', async (t) => {
  const world = openJobWorld(t);
  const manifest = join(world.folder, 'job.yaml');
  writeFileSync(
    manifest,
    `job: {name: half, on_finish: keep}
setup: {tries: 1}
tpu: {project: emulator, accelerator: v4-16, zone: us-central2-b, pricing: ondemand}
gcsfuse:
  bucket_name: my-bucket
  mount_path: ~/bucket
  cache:
    prefix: |
      case $(hostname) in *-w-1) ;; *) exit 0 ;; esac
      [ -e ~/mended ] || { echo 'no room for the cache'; exit 3; }
command: {run: exec sleep 1000}
`,
  );
  assert.equal((await world.jobman(['create', manifest])).code, 0);
  const setUpWhile = await eventually(
    async () => {
      const { code, stderr } = await world.jobman(['setup', '1', 'gcsfuse']);
      return stderr.includes('is in setup')
        ? { code, stderr }
        : stderr.includes('no ready workers')
          ? undefined
          : 'late';
    },
    { withinMs: 60_000 },
  );
  // The controller may be faster than this command; if not, the command is refused.
  if (setUpWhile !== 'late') assert.equal(setUpWhile?.code, 4);
  assert.equal((await world.jobman(['wait', '1'])).code, 1);
  const why = (await world.jobman(['why', '1'])).stdout;
  assert.match(
    why,
    /step gcsfuse failed on worker 1 \(1 try\): The script gcsfuse\.cache\.prefix failed \(exit code 1/,
  );
  assert.match(why, /no room for the cache/);
  // Worker 0 continued with its own.
  assert.match(
    (await world.jobman(['logs', '1', '--step', 'gcsfuse', '--worker', '0'])).stdout,
    /my-bucket is mounted at /,
  );

  const failed = await world.jobman(['setup', '1', 'gcsfuse']);
  assert.equal(failed.code, 1);
  assert.match(failed.stdout, /^\[1\] no room for the cache$/m);
  assert.match(failed.stderr, /^jobman: worker 1, step gcsfuse: The script .* failed \(exit code 1.*\)\.?$/m);
  assert.doesNotMatch(failed.stderr, /worker 0,/);
  assert.match(failed.stderr, /It is applied on the other 1\./);
  assert.equal((await world.jobman(['exec', '1', '--workers', '1', '--', 'touch mended'])).code, 0);
  const json = await world.jobman(['setup', '1', 'gcsfuse', '--json']);
  assert.equal(json.code, 0, json.stderr);
  const workers = json.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { worker: number; message: string | null; exitCode: number; output: string })
    .toSorted((one, other) => one.worker - other.worker);
  assert.deepEqual(
    workers.map(({ worker, message, exitCode }) => [worker, message, exitCode]),
    [
      [0, null, 0],
      [1, null, 0],
    ],
  );
  assert.match(workers[1]?.output ?? '', /my-bucket is mounted at/);
  const history = (await world.jobman(['history', '1'])).stdout;
  assert.match(
    history,
    /ran setup step gcsfuse: done on 1 of 2 workers; failed on worker 1: The script .* failed \(exit code 1/,
  );
  assert.match(history, /ran setup step gcsfuse: done on 2 of 2 workers\n/);

  assert.equal((await world.jobman(['setup', '1', 'docker'])).code, 2);
  assert.match((await world.jobman(['setup', '1', 'docker'])).stderr, /has no setup step docker: it has gcsfuse\./);
  assert.equal((await world.jobman(['setup', '1'])).code, 2);
  // The command runs with the repaired step. A mounted bucket may be checked while it runs.
  assert.equal((await world.jobman(['resume', '1'])).code, 0);
  const isRunning = async () => (await world.jobman(['list', '--phase', 'running'])).stdout.includes('half');
  assert.ok(await eventually(isRunning, { withinMs: 60_000 }));
  assert.equal((await world.jobman(['setup', '1', 'gcsfuse'])).code, 0);
});
