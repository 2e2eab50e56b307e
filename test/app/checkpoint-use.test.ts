// Jobs that use one checkpoint folder, and the job from whose checkpoint another one begins.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { checkpointsInUse, sharedCheckpoints, withResumeFrom } from '../../src/app/checkpoint-use.ts';
import { planOf } from '../../src/app/plan.ts';
import { newestSaved } from '../../src/app/saved.ts';
import type { Store } from '../../src/app/ports.ts';
import type { Job } from '../../src/core/job.ts';
import { jobIdMark } from '../../src/core/spec.ts';
import type { CommandSpec, JobSpec } from '../../src/core/spec.ts';
import { openWorld } from '../support/world.ts';
import { aJob, living, localSpec, noon, ready, running, tpuSpec } from '../support/builders.ts';

function withCommand(spec: JobSpec, command: Partial<CommandSpec>): JobSpec {
  return { ...spec, command: { ...spec.command, ...command } };
}

const named = { checkpointDir: '~/b/vit', checkpoints: 'named', checkpointStorage: 'gs://b/vit' } as const;
const holding = (jobs: readonly Job[]) => ({ list: () => Promise.resolve({ jobs, more: 0 }) });

test('a folder that another unfinished job uses is asked about, with its name', async () => {
  const spec = withCommand(tpuSpec(), named);
  const other = aJob(spec);
  const asked = await checkpointsInUse(holding([other]), spec, null);
  assert.equal(
    asked?.sentence,
    'job 000042 (vit) of ada, which is queued, keeps its checkpoints in the same folder (~/b/vit), so each job could overwrite the checkpoints of the other',
  );
  assert.equal(await checkpointsInUse(holding([other]), spec, other), null, 'it is the job itself');
  const settled = { at: noon, verdict: 'succeeded', reason: 'succeeded' } as const;
  assert.equal(await checkpointsInUse(holding([{ ...other, settled }]), spec, null), null);
  const elsewhere = withCommand(tpuSpec(), { ...named, checkpointStorage: 'gs://c/vit' });
  assert.equal(await checkpointsInUse(holding([other]), elsewhere, null), null);
  assert.equal(await checkpointsInUse(holding([aJob()]), tpuSpec(), null), null);
});

test('a folder that is shared on purpose is warned of while another job uses it', async () => {
  const spec = withCommand(tpuSpec(), { ...named, checkpoints: 'shared' });
  assert.match(
    (await sharedCheckpoints(holding([aJob(spec)]), spec)) ?? '',
    /is also used by job 000042 \(vit\), which is queued: each job may/,
  );
  assert.equal(await sharedCheckpoints(holding([]), spec), null);
  assert.equal(await checkpointsInUse(holding([aJob(spec)]), spec, null), null);
});

test('a plan names the id that is still to come, and what becomes of a TPU without a command', () => {
  const named = { ...withCommand(tpuSpec(), { script: `echo ${jobIdMark}` }), name: `vit-${jobIdMark}` };
  assert.equal(planOf(named, null).name, 'vit-<job id>');
  assert.match(planOf(named, null).command, /echo <job id>$/);
  const bare = withCommand(tpuSpec(), { script: '', isSetupOnly: true });
  assert.equal(planOf(bare, null).command, 'none: the TPU is set up and released');
  const kept = { ...bare, finish: { capacity: 'keep', keepFor: null } } as const;
  assert.equal(planOf(kept, null).command, 'none: the TPU is set up and kept until you release it');
});

test('resume_from becomes the folder of that job', async () => {
  const source = aJob(withCommand(tpuSpec(), { checkpointDir: '~/b/000042-abc123', checkpoints: 'own' }));
  const store = (job: Job) => ({ load: () => Promise.resolve({ job, revision: 1 }) }) as unknown as Store;
  const from = (spec: JobSpec) => withCommand(spec, { resumeFrom: { kind: 'job', job: '42' } });
  const { command } = await withResumeFrom(store(source), from(tpuSpec()), 'ada', noon);
  assert.deepEqual(command.resumeFrom, { kind: 'folder', path: '~/b/000042-abc123', job: '000042' });
  await assert.rejects(
    withResumeFrom(store(aJob(tpuSpec())), from(tpuSpec()), 'ada', noon),
    /cannot begin from job 000042 \(vit\), whose manifest names no job\.checkpoint_dir/,
  );
  await assert.rejects(
    withResumeFrom(store(source), from(localSpec()), 'ada', noon),
    /its checkpoints are on TPU workers/,
  );
});

test('show names only a checkpoint that the job would resume from', async (t) => {
  const { home } = openWorld(t);
  const folder = join(home, 'checkpoints');
  mkdirSync(folder, { recursive: true });
  const spec = withCommand(localSpec(), { checkpointDir: folder, checkpoints: 'named' });
  const job = living(aJob(spec), [ready], [running]);
  const make = (name: string, at: number): void => {
    writeFileSync(join(folder, name), '');
    utimesSync(join(folder, name), at, at);
  };
  make('step_9', 9_000);
  assert.equal(await newestSaved(job), null, 'nothing says that it is its own');
  writeFileSync(join(folder, '.jobman-start.0'), 'abc123/000042/1\nstep_9\tx\n');
  utimesSync(join(folder, '.jobman-start.0'), 9_500, 9_500);
  assert.equal(await newestSaved(job), null);
  make('step_1', 1_000);
  assert.equal((await newestSaved(job))?.name, 'step_1');
  make('step_9', 9_600);
  assert.equal((await newestSaved(job))?.name, 'step_9', 'written again');
  writeFileSync(join(folder, '.jobman-start.0'), 'abc123/000043/1\n');
  assert.equal(await newestSaved(job), null);
  rmSync(join(folder, '.jobman-start.0'));
  execFileSync('mkfifo', [join(folder, '.jobman-start.0')]);
  assert.equal(await newestSaved(job), null, 'and a FIFO is not waited for');
});
