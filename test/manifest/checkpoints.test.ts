/** The checkpoint folder of a job, and the values of `${job.id}` and `${job.name}`. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newJob } from '../../src/core/model/job.ts';
import type { JobSpec } from '../../src/core/model/spec.ts';
import { assertRefused, clusterOf, specOf, tpu } from './fake-files.ts';

const mount = 'gcsfuse: {bucket_name: a-bucket, mount_path: ~/bucket}\n';

/** The spec as the job has it once it exists. */
function created(manifest: string, id = '000007', installation = 'k3x9ab'): JobSpec {
  return newJob({ id, installation, owner: 'ada', spec: specOf(manifest).spec, at: 0 }).job.spec;
}

function checkpointsOf(keys: string): JobSpec['command'] {
  return created(tpu(`job: {${keys}}\n${mount}`)).command;
}

test('every job gets a folder of its own below checkpoint_dir, also two jobs of one manifest', () => {
  const manifest = tpu(`job: {checkpoint_dir: ~/bucket/runs}\n${mount}`);
  const { command } = created(manifest);
  assert.equal(command.checkpointDir, '~/bucket/runs/000007-k3x9ab');
  assert.equal(command.checkpoints, 'own');
  assert.equal(command.checkpointStorage, 'gs://a-bucket/runs/000007-k3x9ab');
  assert.equal(created(manifest, '000008').command.checkpointDir, '~/bucket/runs/000008-k3x9ab');
  assert.equal(created(manifest, '000007', 'zzzzzz').command.checkpointDir, '~/bucket/runs/000007-zzzzzz');
  assert.equal(checkpointsOf('checkpoint_dir: "gs://b/runs/"').checkpointDir, 'gs://b/runs/000007-k3x9ab');
});

test('a folder that names the job itself gets no further level', () => {
  const byId = checkpointsOf('checkpoint_dir: "~/bucket/x-${job.id}/c"');
  assert.equal(byId.checkpointDir, '~/bucket/x-000007/c');
  assert.equal(byId.checkpointStorage, 'gs://a-bucket/x-000007/c');
  const byName = checkpointsOf('name: vit, checkpoint_dir: "~/bucket/${job.name}"');
  assert.equal(byName.checkpointDir, '~/bucket/vit');
  assert.equal(byName.checkpointStorage, 'gs://a-bucket/vit');
  assert.equal(byName.checkpoints, 'named');
});

test('a shared folder is the folder as written', () => {
  const command = checkpointsOf('checkpoint_dir: ~/bucket/runs, checkpoint_shared: true');
  assert.equal(command.checkpointDir, '~/bucket/runs');
  assert.equal(command.checkpoints, 'shared');
  assert.equal(command.checkpointStorage, 'gs://a-bucket/runs');
  const { warnings } = specOf(tpu('job: {checkpoint_shared: true}\n'));
  assert.match(warnings.join(), /job\.checkpoint_shared: has no effect without job\.checkpoint_dir/);
});

test('the id and the name of the job are available everywhere', () => {
  const spec = created(
    tpu(
      'job: {name: "vit-${job.id}", tags: ["run-${job.id}"], env: {RUN: "${job.id}"}}\nvars: {out: "/out/${job.id}"}\n',
      'run: "train --run ${job.id} --name ${job.name} --out ${vars.out}"',
    ),
  );
  assert.equal(spec.name, 'vit-000007');
  assert.deepEqual(spec.tags, ['run-000007']);
  assert.equal(spec.command.env['RUN'], '000007');
  assert.equal(spec.command.script, 'train --run 000007 --name vit-000007 --out /out/000007');
  assert.equal(spec.capacity.kind === 'tpu' && spec.capacity.name, 'vit', 'the name of a TPU has the id already');
  assert.equal(created(tpu('', 'run: "echo ${job.name}"')).command.script, 'echo cfg', 'a job without a name has one');
  const named = created(tpu('job: {name: "vit-${job.id}"}\n').replace('tpu: {', 'tpu: {name: "${job.name}", '));
  assert.equal(named.capacity.kind === 'tpu' && named.capacity.name, 'vit-000007');
});

test('a problem shows the id as it was written, and a job in a cluster has none', () => {
  assertRefused(tpu('job: {name: "a b ${job.id}"}\n'), /"a b \$\{job\.id\}" is not a valid job name/);
  assertRefused('kubernetes: {image: i}\njob: {name: "x-${job.id}"}\n', /\$\{job\.id\} is not a key of this manifest/);
  assert.equal(clusterOf('kubernetes: {image: i}\ncommand: {run: "echo ${job.name}"}\n').cluster.name, undefined);
});

test('resume_from is a job, a checkpoint or a folder of them', () => {
  const from = (written: string): unknown => checkpointsOf(`resume_from: ${written}`).resumeFrom;
  assert.deepEqual(from('42'), { kind: 'job', job: '42' });
  assert.deepEqual(from('vit-base'), { kind: 'job', job: 'vit-base' });
  assert.deepEqual(from('~/bucket/base/step_9'), { kind: 'entry', path: '~/bucket/base/step_9' });
  assert.deepEqual(from('~/bucket/base/'), { kind: 'folder', path: '~/bucket/base' });
  assert.deepEqual(from('"gs://b/base/9"'), { kind: 'entry', path: 'gs://b/base/9' });
});
