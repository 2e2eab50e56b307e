/** Two runs of one manifest on this machine: each has its own checkpoints, and the database shows both. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { type JobmanResult } from '../support/jobman.ts';
import { openJobWorld } from '../support/jobs.ts';

/** Fails in its first attempt, after it has written a checkpoint unless `first` is `nothing`. */
const program = `
  run: |
    from=\${JOBMAN_RESUME_FROM:-nothing}
    echo "stage $JOBMAN_STAGE from \${from#"$HOME"}"
    [ "\${command.first}" = nothing ] || echo "\${command.first}" >"$JOBMAN_CHECKPOINT_DIR/step_\${command.first}"
    [ "$JOBMAN_STAGE" != 0 ]
`;

function openFixture(t: TestContext, manifest: string) {
  const world = openJobWorld(t);
  const file = join(world.folder, 'x.yaml');
  writeFileSync(file, manifest);
  const ask = (...argv: readonly string[]): Promise<JobmanResult> => world.jobman(argv);
  const run = async (...argv: readonly string[]): Promise<string> => (await world.runOk(argv)).stdout;
  const create = (...sets: readonly string[]): Promise<JobmanResult> =>
    ask('create', file, ...sets.flatMap((set) => ['--set', set]));
  /** The output of the attempts without the parts that differ between runs of the test. */
  const printed = async (id: string): Promise<string> => {
    await ask('wait', id);
    const logs = [
      await run('logs', id, '--worker', '0', '--attempt', '1'),
      await run('logs', id, '--worker', '0', '--attempt', '2'),
    ].join('');
    return logs.replaceAll(/from \S*\/(?=\w)/g, 'from ').replaceAll(/-[a-z0-9]{6}(?=\/|$)/gm, '');
  };
  return { world, file, ask, run, create, printed };
}

const recovery = 'recovery: {rules: [{reason: command_failed, then: resume, on: same}], delay: 100ms}\n';

test('the runs of a sweep resume from their own checkpoints and have distinct names', async (t) => {
  const own = `job: {name: vit, checkpoint_dir: runs}\nlocal: {}\n${recovery}command:\n  first: 10 # step${program}`;
  const { world, run, create, printed } = openFixture(t, own);
  await create('command.first=90', 'job.env.MY_TOKEN=hush');
  await create('command.first=nothing');
  assert.equal(await printed('1'), 'stage 0 from nothing\nstage 1 from step_90\n');
  assert.match(await printed('2'), /^stage 0 from nothing\nstage 1 from \S*000002\n$/, 'the empty folder is its own');

  await create('command.first=7', 'job.resume_from=1');
  assert.equal(
    await printed('3'),
    'stage 0 from step_90\nstage 1 from step_7\n',
    'first another job’s checkpoint, then its own',
  );
  const nothing = await create('job.resume_from=2', 'recovery=pass');
  assert.equal(nothing.code, 0);
  await run('history', '4');
  await world.waitUntil('4', ({ phase }) => phase === 'failed');
  const last = await run('logs', '4', '--worker', '0');
  assert.match(last, /^jobman: job\.resume_from found no checkpoint of job 000002 at \S+\n$/);

  for (const [id, first] of [
    ['1', '90'],
    ['2', 'nothing'],
  ] as const) {
    const view = JSON.parse(await run('show', id, '--json')) as { folder: { path: string } };
    const config = readFileSync(join(view.folder.path, 'config.yaml'), 'utf8');
    const record = readFileSync(join(view.folder.path, 'job.json'), 'utf8');
    const events = readFileSync(join(view.folder.path, 'events.jsonl'), 'utf8');
    const history = await run('history', id);
    assert.match(config, new RegExp(`first: ${first} # step; --set command\\.first=${first}\n`));
    const { overrides } = (JSON.parse(record) as { spec: { overrides: { key: string; value: string }[] } }).spec;
    assert.deepEqual(overrides[0], { key: 'command.first', value: first });
    assert.match(await run('show', id), new RegExp(`set +command\\.first=${first}`));
    assert.match(await run('show', id), new RegExp(`saves to +\\S+/runs/00000${id}-[a-z0-9]{6}\n`));
    assert.match(history, new RegExp(`created by \\S+ with --set command\\.first=${first}`));
    assert.doesNotMatch([config, record, events, history].join('\n'), /hush/);
  }
  const rows = (await run('list', '--all', '--json')).trim().split('\n');
  assert.deepEqual(
    rows.map((row) => (JSON.parse(row) as { overrides: { value: string }[] }).overrides[0]?.value).toSorted(),
    ['2', '7', '90', 'nothing'],
  );
});

test('a rerun has its own checkpoint folder, also below a folder of the manifest', async (t) => {
  const { run, ask, create, world } = openFixture(
    t,
    `job: {checkpoint_dir: runs}\nlocal: {}\n${recovery}command:${program}`,
  );
  const attempt = (number: number): Promise<string> => run('logs', '1', '--worker', '0', '--attempt', `${number}`);
  await create('command.first=90', 'job.name=vit');
  await ask('wait', '1');
  await run('rerun', '1');
  await ask('wait', '1');
  assert.equal(await attempt(3), 'stage 0 from nothing\n');
  assert.match(await attempt(4), /^stage 1 from \S+\/runs\/000001-\w{6}-3\/step_90\n$/);
  assert.match(await run('show', '1'), /saves to +\S+\/runs\/000001-\w{6}-3\n/);
  assert.equal(readdirSync(join(world.folder, 'runs')).length, 2, 'the first folder is kept');

  for (const [id, step] of [
    ['2', '90'],
    ['3', '7'],
  ] as const) {
    await create(`command.first=${step}`, 'job.name=b', 'job.checkpoint_dir=runs/${job.name}');
    await ask('wait', id);
    const log = await run('logs', id, '--worker', '0', '--attempt', '2');
    assert.match(log, new RegExp(`^stage 1 from \\S+/runs/b/step_${step}\n$`));
  }
});

test('a checkpoint folder of the manifest is not used by two jobs at once', async (t) => {
  const named = 'job: {name: vit, checkpoint_dir: "runs/${job.name}"}\nlocal: {}\ncommand: {run: sleep 60}\n';
  const { ask, run, create } = openFixture(t, named);
  assert.equal((await create()).code, 0);
  const refused = await create();
  assert.match(
    refused.stderr,
    /Nothing was created: job 000001 \(vit\) of \S+, which is [\w ]+, keeps its checkpoints in the/,
  );
  assert.notEqual(refused.code, 0);
  assert.equal((await create('job.name=other')).code, 0);
  const shared = await create('job.checkpoint_shared=true', 'job.name=vit');
  assert.match(
    shared.stderr,
    /warning: the checkpoint folder \S+\/runs\/vit is also used by job 000001 \(vit, [\w ]+\): each job may/,
  );
  await run('cancel', '1', '2', '3');
  await ask('wait', '1', '2', '3');
  assert.equal((await create('job.checkpoint_shared=false')).code, 0, 'a finished job does not block the folder');
  await run('cancel', '4');
  await ask('wait', '4');
});

test('a job without a command sets this machine up and succeeds', async (t) => {
  const { run, create, ask } = openFixture(t, 'job: {name: ready}\nlocal: {}\n');
  assert.equal((await create()).code, 0);
  assert.equal((await ask('wait', '1')).code, 0);
  assert.match(await run('list', '--all'), /succeeded.*set up; no command/);
});
