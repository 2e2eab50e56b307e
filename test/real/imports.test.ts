/** `jobman import` and `tpu import`: a dry run, the import, a second import; and an imported job, resumed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { documentedSample, malformedData } from '../lab/old-data.ts';
import { jsonLines, openJobWorld, type JobWorld } from '../support/jobs.ts';

/** Runs a command in the folder of that world. */
async function run(world: JobWorld, ...args: readonly string[]) {
  const { code, stdout, stderr } = await world.jobman(args);
  return { code, out: stdout, err: stderr };
}

const config = (name: string): string => `
job: { name: ${name}, env_type: null, loop: false }
tpu: { allocation_mode: tpu-vm, accelerator: v4-8, name: ${name}, zone: us-central2-b, version: tpu-ubuntu2204-base,
  pricing: spot, project: emulator }
command: { cmd: echo resumed }
`;

test('the job folders of the older TPU manager are imported and can be resumed', async (t) => {
  const world = openJobWorld(t);
  const file = (path: string, text: string): void => {
    const whole = join(world.folder, path);
    mkdirSync(join(whole, '..'), { recursive: true });
    writeFileSync(whole, text);
  };
  const me = userInfo().username;
  file('jobs/.jobman/meta.json', JSON.stringify({ '000007': { job_id: '000007', user: me, status: 'FAILED' } }));
  file(`jobs/${me}/000007/config.yaml`, config('pretrain'));
  file(`jobs/${me}/000007/logs/command_worker_0.log`, 'the old output\n');
  file(`jobs/${me}/000007/logs/job.log`, 'Main command failed\n');
  file(`jobs/${me}/000008/config.yaml`, 'job: {}\n');
  file('older/.state/next_job_id.txt', '2');
  file('older/000001/config.yaml', config('older'));
  file('older/000001/status.txt', 'CANCELLED');
  file('data.json', '{}');

  assert.equal((await run(world, 'import', 'nowhere')).code, 3);
  assert.match((await run(world, 'import', 'data.json')).err, /tpu import .*data\.json/);
  assert.equal((await run(world, 'import', join(world.folder, 'user'))).code, 2);
  const dry = await run(world, 'import', 'jobs');
  assert.match(dry.out, /^\+ job 000007 of \S+: pretrain, failed, 2 logs$/m, dry.err);
  assert.match(dry.out, /^- job 000008 of \S+: its manifest cannot be read: config\.yaml:/m);
  assert.equal(existsSync(join(world.home, 'state.db')), false);

  const done = await run(world, 'import', 'jobs', '--apply');
  assert.equal(done.code, 0, done.err);
  assert.match(done.out, /^! job 000007 of \S+: it is job 000001 here$/m);
  assert.match((await run(world, 'logs', '1')).out, /the old output/);
  const folder = join(world.home, 'jobs', me, '000001');
  assert.equal(readFileSync(join(folder, 'config.yaml'), 'utf8'), config('pretrain'));
  assert.equal(statSync(join(folder, 'logs', 'job.log')).mode & 0o777, 0o600);
  assert.match((await run(world, 'import', 'jobs', '--apply')).out, /^Imported \(\+\): 0/m);
  assert.match((await run(world, 'import', 'older', '--apply')).out, /^\+ job 000001: older, cancelled, 0 logs$/m);
  assert.match((await run(world, 'list', '--all')).out, /000002 .*older.*cancelled/);

  const resumed = await run(world, 'resume', '1');
  assert.equal(resumed.code, 0, resumed.err);
  const waited = await run(world, 'wait', '1');
  assert.equal(waited.code, 0, waited.err + (await run(world, 'why', '1')).out);
  assert.match((await run(world, 'logs', '1')).out, /resumed/);
});

test('data.json is imported once, and its key into a separate file', async (t) => {
  const world = openJobWorld(t);
  writeFileSync(join(world.folder, 'data.json'), JSON.stringify(documentedSample, null, 2));
  writeFileSync(join(world.folder, 'broken.json'), '{\n  "users": {,}\n}');
  writeFileSync(join(world.folder, 'other.json'), '{}');

  assert.equal((await run(world, 'tpu', 'import', 'nowhere.json')).code, 3);
  assert.match((await run(world, 'tpu', 'import', '.')).err, /is a folder.*\n.*jobman import/);
  const broken = await run(world, 'tpu', 'import', 'broken.json', '--apply');
  assert.deepEqual([broken.code, /broken\.json.*\n.*line 2 column 13/.test(broken.err)], [2, true], broken.err);
  assert.match((await run(world, 'tpu', 'import', 'other.json')).err, /no "users"/);

  const early = await run(world, 'tpu', 'import', 'data.json');
  assert.match(early.out, /^- window 1 of xibo: The Google Cloud project of/m, early.err);
  assert.equal(existsSync(join(world.home, 'state.db')), false, 'a dry run creates nothing');
  assert.equal((await run(world, 'settings', 'set', 'tpu.project', 'emulator')).code, 0);
  const dry = await run(world, 'tpu', 'import', 'data.json', '--json');
  const lines = jsonLines<{ kind: string; subject: string; done: boolean }>(dry.out);
  assert.ok(lines.some(({ kind, subject, done }) => kind === 'import' && subject === 'window 1 of xibo' && !done));

  const done = await run(world, 'tpu', 'import', 'data.json', '--apply');
  assert.equal(done.code, 0, done.err);
  assert.match(done.out, /^\+ user xibo: id 0, 1 directory, 1 alias, next window 42$/m);
  assert.match(done.out, /^Imported \(\+\): 8/m);
  const key = join(world.home, 'secrets', 'wandb_api_key');
  assert.equal(readFileSync(key, 'utf8'), `${documentedSample.wandb_api_key}\n`);
  assert.equal(statSync(key).mode & 0o777, 0o600);
  for (const name of readdirSync(world.home, { recursive: true, encoding: 'utf8' })) {
    const path = join(world.home, name);
    if (path === key || !statSync(path).isFile()) continue;
    assert.ok(!readFileSync(path).includes(documentedSample.wandb_api_key), `${name} the key file holds the key`);
  }
  assert.match((await run(world, 'list', '--all')).out, /xibo +code +v2-32 .*succeeded/);
  assert.match((await run(world, 'tpu', 'list-users')).out, /xibo/);

  const again = await run(world, 'tpu', 'import', 'data.json', '--apply');
  assert.match(again.out, /^Imported \(\+\): 0/m);
  writeFileSync(join(world.folder, 'mess.json'), JSON.stringify(malformedData));
  const mess = await run(world, 'tpu', 'import', 'mess.json', '--apply');
  assert.equal(mess.code, 0, mess.err);
  assert.match(mess.out, /^- user run: "run" is not allowed as a user name/m);
  assert.match((await run(world, 'tpu', 'import', 'mess.json')).out, /Nothing to import/);
});

/** A script that prints its arguments and reports like the lab's scripts. */
const staging = (log: string): string => `
echo "staged in $(pwd) with: $*"
window=$(tmux display-message -p -t "$TMUX_PANE" '#S:#I')
tpu upd-log $window ${log} "$(pwd)" v now
mkdir -p ${log}; echo "wandb: Run history:" > ${log}/output.log
tpu finish-job $window
`;

test('an imported job is resumed with its frozen code, its log folder and its stage', async (t) => {
  const world = openJobWorld(t);
  // Use a private tmux server, if there is tmux. Without tmux the scripts work as well.
  world.atEnd(() => void spawnSync('tmux', ['kill-server'], { env: world.env }));
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

  await world.output('settings', 'set', 'tpu.project', 'emulator');
  await world.output('tpu', 'import', 'data.json', '--apply');
  await world.output('tpu', 'apply', 'v2-8-1', '-y');
  assert.match(
    await world.output('tpu', 'resume', 'windows=12', 'xibo', '-y'),
    /^Window 13: job 000001 resumes window 12/m,
  );
  await world.output('wait', '1');
  const notice = `staged in ${stage} with: ka=lab-v2-8-1 --config.note=two words --config.load_from=${log} --config.stage=2`;
  assert.ok((await world.output('logs', '1')).includes(notice), await world.output('logs', '1'));
  assert.match(
    await world.output('tpu', 'news', 'xibo'),
    /^window 12, 13, code, lab-v2-8-1\n.*resumes from its last checkpoint, stage 2\n/m,
  );
  await world.output('tpu', 'doctor');
});
