/** `tpu import` through the front door: a dry run, the import, and a second one; and the key that is in no record. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { manualSample, realMess } from '../lab/old-data.ts';
import { root } from '../support/root.ts';
import { jobman } from '../support/jobman.ts';
import { openWorld } from '../support/world.ts';

test('data.json comes along, once, and its key into a file of its own', (t) => {
  const world = openWorld(t);
  const run = (...words: readonly string[]) => {
    const argv = [join(root, 'src/main.ts'), ...words];
    const { status, stdout, stderr } = spawnSync(process.execPath, argv, {
      env: world.env,
      cwd: world.folder,
      encoding: 'utf8',
    });
    return { code: status, out: stdout, err: stderr };
  };
  writeFileSync(join(world.folder, 'data.json'), JSON.stringify(manualSample, null, 2));
  writeFileSync(join(world.folder, 'broken.json'), '{\n  "users": {,}\n}');
  writeFileSync(join(world.folder, 'other.json'), '{}');

  assert.equal(run('tpu', 'import', 'nowhere.json').code, 3);
  assert.match(run('tpu', 'import', '.').err, /is a folder.*\n.*jobman import/);
  const broken = run('tpu', 'import', 'broken.json', '--apply');
  assert.deepEqual([broken.code, /broken\.json:2:13/.test(broken.err)], [2, true], broken.err);
  assert.match(run('tpu', 'import', 'other.json').err, /no "users"/);

  const early = run('tpu', 'import', 'data.json');
  assert.match(early.out, /^- window 1 of xibo: Nothing says in which Google Cloud project/m, early.err);
  assert.equal(existsSync(join(world.home, 'state.db')), false, 'a dry run makes nothing');
  assert.equal(run('settings', 'set', 'tpu.project', 'emulator').code, 0);
  const dry = run('tpu', 'import', 'data.json', '--json');
  const lines = dry.out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { kind: string; what: string; done: boolean });
  assert.ok(lines.some(({ kind, what, done }) => kind === 'take' && what === 'window 1 of xibo' && !done));

  const done = run('tpu', 'import', 'data.json', '--apply');
  assert.equal(done.code, 0, done.err);
  assert.match(done.out, /^\+ user xibo: id 0, 1 directory, 1 alias, next window 42$/m);
  assert.match(done.out, /were taken over/);
  const key = join(world.home, 'secrets', 'wandb_api_key');
  assert.equal(readFileSync(key, 'utf8'), `${manualSample.wandb_api_key}\n`);
  assert.equal(statSync(key).mode & 0o777, 0o600);
  for (const name of readdirSync(world.home, { recursive: true, encoding: 'utf8' })) {
    const path = join(world.home, name);
    if (path === key || !statSync(path).isFile()) continue;
    assert.ok(!readFileSync(path).includes(manualSample.wandb_api_key), `${name} holds the key`);
  }
  assert.match(run('list', '--all').out, /xibo +code +v2-32 .*succeeded/);
  assert.match(run('tpu', 'list-users').out, /xibo/);

  const again = run('tpu', 'import', 'data.json', '--apply');
  assert.match(again.out, /^0 were taken over/m);
  writeFileSync(join(world.folder, 'mess.json'), JSON.stringify(realMess));
  const mess = run('tpu', 'import', 'mess.json', '--apply');
  assert.equal(mess.code, 0, mess.err);
  assert.match(mess.out, /^- user run: "run" cannot be the name of a user/m);
  assert.match(run('tpu', 'import', 'mess.json').out, /There is nothing to take over/);
});

/** A script that says what it was given, and reports as the lab's own scripts do. */
const staging = (log: string): string => `
echo "staged in $(pwd) with: $*"
window=$(tmux display-message -p -t "$TMUX_PANE" '#S:#I')
tpu upd-log $window ${log} "$(pwd)" v now
mkdir -p ${log}; echo "wandb: Run history:" > ${log}/output.log
tpu finish-job $window
`;

test('a job that came along is resumed with its frozen code, its log folder and its stage', async (t) => {
  const world = openWorld(t, { patienceMs: 20_000 });
  // A tmux of its own, where there is one: without one the scripts are answered all the same.
  const env = { TMUX_TMPDIR: world.folder };
  const ok = async (...words: string[]): Promise<string> => {
    const { code, stdout, stderr } = await jobman(world, words, { env, withinMs: 120_000 });
    assert.equal(code, 0, `${words.join(' ')}: ${stdout}${stderr}`);
    return stdout;
  };
  world.atEnd(async () => {
    await jobman(world, ['controller', 'stop'], { env });
    await jobman(world, ['emulator', 'stop'], { env });
    spawnSync('tmux', ['kill-server'], { env: { ...world.env, ...env } });
  });
  const [code, stage, log] = ['code', 'stage', 'log'].map((name) => join(world.folder, name));
  mkdirSync(code ?? '');
  mkdirSync(stage ?? '');
  writeFileSync(join(stage ?? '', 'staging.sh'), staging(join(world.folder, 'log-2')));
  const job = {
    windows_id: 12,
    job_dir: code,
    tpu: 'lab-v2-8-1',
    log_dir: log,
    staage_dir: stage,
    extra_configs: "--config.note='two words'",
    status: 'error',
    error: 'grpc',
    stage: 1,
    customized_settings: { log_stage: true },
    start_time: '20250420_011026',
  };
  const user = { id: 0, working_dir: { '1': code }, windows_offset: 13, job_data: [job] };
  const data = {
    users: { xibo: user },
    all_tpus: { 'us-central1-b': [job.tpu] },
    tpu_aliases: { 'v2-8-1': job.tpu },
  };
  writeFileSync(join(world.folder, 'data.json'), JSON.stringify(data));

  await ok('settings', 'set', 'tpu.project', 'emulator');
  await ok('tpu', 'import', 'data.json', '--apply');
  await ok('tpu', 'apply', 'v2-8-1', '-y');
  assert.match(await ok('tpu', 'resume', 'windows=12', 'xibo', '-y'), /^Window 13: job 000001 resumes window 12/m);
  await ok('wait', '1');
  const told = `staged in ${stage} with: ka=lab-v2-8-1 --config.note=two words --config.load_from=${log} --config.stage=2`;
  assert.ok((await ok('logs', '1')).includes(told), await ok('logs', '1'));
  assert.match(await ok('tpu', 'news', 'xibo'), /^window 12, 13, code, lab-v2-8-1\n.*is resumed, for the 2nd time\n/m);
  await ok('tpu', 'doctor');
});
