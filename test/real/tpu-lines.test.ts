/**
 * Every command line of the lab's manual, unchanged, in a typical order: two users, five TPUs of four workers each, the
 * manual's own scripts, the real tmux and gcloud. Other tests cover each command in more depth.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { openLab, trainingProcesses, flagValue, labSkipReason, type LabFixture } from '../support/lab.ts';
import { runInTerminal } from '../support/run-in-terminal.ts';
import { openWorld, type World } from '../support/world.ts';

const zone = 'europe-west4-a';
const tpus = [
  ['v2-32-1', 'kmh-tpuvm-v2-32-1'],
  ['v2-32-2', 'kmh-tpuvm-v2-32-2'],
  ['v2-32-6', 'kmh-tpuvm-v2-32-6'],
  ['v2-32-p1', 'kmh-tpuvm-v2-32-preemptible-1'],
  ['v2-32-p2', 'kmh-tpuvm-v2-32-preemptible-2'],
] as const;

describe("the lines of the lab's manual", { skip: labSkipReason() }, () => {
  const world: World = openWorld({ after }, { patienceMs: 20_000 });
  let lab: LabFixture;
  let code: string;

  /** Runs that line in the folder of the code. No argument contains a space. */
  async function line(typed: string, expected: RegExp, exits = 0): Promise<string> {
    const [, ...args] = typed.split(' ');
    const { code: ended, stdout, stderr } = await lab.tpu(args, { cwd: code });
    assert.equal(ended, exits, `${typed}\n${stdout}${stderr}`);
    assert.match(stdout + stderr, expected, typed);
    return stdout;
  }

  /** Runs a line that shows a screen, and types q. */
  async function watched(typed: string, expected: RegExp): Promise<void> {
    const { code: ended, screen } = await runInTerminal(world, 120, typed.split(' '), [[expected, 'q']]);
    assert.equal(ended, 0, screen);
  }

  /** Runs a line that starts a job; returns its window and job, once its script has reported its log folder. */
  async function runs(typed: string): Promise<{ window: string; id: string; args: readonly string[] }> {
    const [, window = '', id = ''] = /^Window (\d+): job (\d{6}) /m.exec(await line(typed, /^Window /m)) ?? [];
    const { attempts } = await lab.waitUntil(id, (job) => job.attempts.length > 0);
    return { window, id, args: await lab.programArgs(id, attempts.length) };
  }

  /** Waits until the next line finds the TPU free. */
  async function ends(id: string, as: 'succeed' | 'fail' = 'succeed'): Promise<void> {
    lab.setMode(as);
    await lab.waitForPhase(id, as === 'succeed' ? 'succeeded' : 'failed');
    lab.setMode('wait');
  }

  before(async () => {
    lab = await openLab(world, 'lab', zone);
    lab.setMode('wait');
    code = lab.createDirectory('code');
  });

  test('users and their directories', async () => {
    await line('tpu add-user', /give the name: tpu add-user name=/, 2);
    const answers = ['xibo', '', 'Xibo', '', '', '-', ''];
    const typed = answers.map((answer) => [/: $/, `${answer}\r`] as const);
    const asked = await runInTerminal(world, 100, ['tpu', 'add-user'], typed);
    assert.equal(asked.code, 0, asked.screen);
    await line('tpu add-user name=lyy id=7 tz=cn', /lyy/);
    await line('tpu set-cur 1 xibo', /1/);
    await line('tpu set-cur 1 user=lyy', /1/);
    await line('tpu set-cur 2 id=7', /2/);
    await line('tpu set-cur 3 lyy', /3/);
    await line('tpu ls lyy', new RegExp(`1 +${code}.*\\n +2 +${code}\\n +3 +${code}`));
    await line('tpu swap-dir 1 2 lyy', /directory 1 .*directory 2 /s);
    await line('tpu del-dir 3 lyy', /3/);
    assert.doesNotMatch(await line('tpu ls lyy', /2/), /^ +3/m);
    await line('tpu ls', /which user/i, 2);
  });

  test('the names of TPUs, and the TPUs themselves', async () => {
    for (const [alias, name] of tpus) await line(`tpu -ta ${alias} ${name}`, new RegExp(name));
    const listed = await line('tpu -lta', /v2-32-6/);
    for (const [alias, name] of tpus) assert.match(listed, new RegExp(`${alias} +${name} +v2-32`));
    await Promise.all(tpus.map(([alias]) => line(`tpu apply ${alias}`, /is ready/)));
    await line('tpu check-status v2-32-6', /^ready$/m);
    await line('tpu describe v2-32-6', /State +ready.*4 workers/s);
    // tpu-commands.test.ts tests mounts and shares; this site has none.
    await line('tpu mount-disk v2-32-6', /no share /, 2);
    await line('tpu reapply v2-32-p2', /is ready/);
    // This site has no Python, so there is nothing to check.
    await line('tpu solve v2-32-6', /kmh-tpuvm-v2-32-6/);
  });

  test('settings and aliases', async () => {
    await line('tpu set-settings monitor_after_run False xibo', /monitor_after_run/);
    await line('tpu get-settings xibo', /monitor_after_run +false/i);
    await line('tpu -a lr config.training.learning_rate xibo', /lr/);
    await line('tpu -alias warm config.training.warmup xibo', /warm/);
    await line('tpu -sa xibo', /lr +config\.training\.learning_rate[^]*warm +config\.training\.warmup/);
    await line('tpu del-config-alias warm xibo', /warm/);
    assert.doesNotMatch(await line('tpu -sa xibo', /lr/), /warm/);
    await line('tpu check-rules', /preempted.*grpc/is);
    await line('tpu tldr', /tpu run/);
    await line('tpu -h run', /--log-stage/);
    await line('tpu reset-window-num 100 xibo', /100/);
  });

  test('runs, and their ends', async () => {
    const first = await runs('tpu run v2-32-6 xibo');
    assert.equal(first.window, '100');
    await line('tpu check xibo', /100/);
    await watched('tpu monitor xibo', /100 +code +kmh-tpuvm-v2-32-6/);
    await watched('tpu monitor xibo -dsv', /DIR +STATUS/);
    await line('tpu add-tag 100 baseline xibo', /baseline/);
    await line('tpu check xibo', /baseline/);
    await line('tpu ack', /Checking 1 job of xibo now: window 100/);
    const second = await runs('tpu run v2-32-p1 lyy dir=2');
    const third = await runs('tpu run kmh-tpuvm-v2-32-1 xibo');
    assert.equal(third.window, '101');
    await line('tpu find v2-32', /v2-32-6.*v2-32-p1/s);
    await line('tpu find v2', /v2-32-6/);
    for (const none of ['v3', 'v34']) await line(`tpu find ${none} -n`, /has no such TPU: v3/);
    for (const all of ['v234', 'v*']) await line(`tpu find ${all}`, /v2-32-6/);
    assert.doesNotMatch(await line('tpu find v2-32 -n', /v2-32-6/), /v2-32-p1/);
    assert.doesNotMatch(await line('tpu find v2-32 -p', /v2-32-p1/), /v2-32-6/);
    await line('tpu kill w=101 xibo', new RegExp(`\\(job ${third.id}\\) of xibo`));
    for (const again of ['tpu kill-job -w=101 xibo', 'tpu -k window=101 xibo', 'tpu -kj 101 xibo']) {
      await line(again, /was killed already/);
    }
    assert.ok(await eventually(() => trainingProcesses(flagValue(third.args, '--workdir') ?? '?').length === 0));
    await line('tpu release v2-32-1', /free/);
    await line('tpu rel v2-32-1 xibo', /free/);
    await ends(first.id);
    await lab.waitForPhase(second.id, 'succeeded');
    await line('tpu clear-finished lyy', /1/);
  });

  test('configs, tags, notes and rules', async () => {
    const configured = await runs('tpu run v2-32-6 xibo lr=0.01');
    assert.equal(configured.args.at(-1), '--config.training.learning_rate=0.01');
    await ends(configured.id);
    const long = await runs('tpu run v2-32-6 xibo config.training.learning_rate=0.01');
    assert.equal(long.args.at(-1), '--config.training.learning_rate=0.01');
    await ends(long.id);
    lab.setMode('grpc');
    const rerun = await runs('tpu run v2-32-p2 xibo rule=rerun');
    const [, again] = (await lab.waitUntil(rerun.id, ({ attempts }) => attempts.length > 1)).attempts;
    assert.equal(again?.startMode, 'rerun');
    await ends(rerun.id);
    lab.setMode('grpc');
    const resumed = await runs('tpu run v2-32-2 xibo rule=resume');
    await lab.waitUntil(resumed.id, ({ attempts }) => attempts[1]?.startMode === 'resume');
    await ends(resumed.id);
    const tagged = await runs('tpu run v2-32-6 xibo tag=T -apply -q ssn=a_b --log-stage');
    assert.equal(tagged.args.at(-1), '--config.stage=0');
    await line('tpu check xibo', /T\b/);
    await line('tpu find v2-32', /a b/);
    await ends(tagged.id, 'fail');
    await line('tpu clear-error xibo', /\d/);
    // Only a terminal is asked for notes.
    await line('tpu run v2-32-6 xibo --set-spreadsheet-notes', /ssn=the_notes/, 2);
    const typed = 'tpu run v2-32-6 xibo -ssn'.split(' ');
    const asked = await runInTerminal({ ...world, env: lab.env }, 120, typed, [
      [/Notes for the booking sheet: $/, 'until_monday\r'],
    ]);
    assert.equal(asked.code, 0, asked.screen);
    await line('tpu find v2-32', /until_monday/);
    await ends(/job (\d{6}) /.exec(asked.screen)?.[1] ?? asked.screen);
    await line('tpu clear xibo', /\d/);
    await line('tpu clear-all xibo', /nothing/i);
  });

  test('resume and rerun by the user, on the same TPU and on another', async () => {
    const { id, window, args } = await runs('tpu run v2-32-6 xibo');
    await ends(id, 'fail');
    await line(`tpu resume windows=${window} xibo`, /^Window /m);
    await lab.waitUntil(id, ({ attempts }) => attempts.length === 2);
    assert.equal(flagValue(await lab.programArgs(id, 2), '--config.load_from'), flagValue(args, '--workdir'));
    await ends(id, 'fail');
    const resumed = Number(window) + 1;
    const child = await runs(`tpu resume windows=${resumed} tpu=v2-32-2 xibo`);
    assert.equal(flagValue(child.args, '--config.load_from'), flagValue(await lab.programArgs(id, 2), '--workdir'));
    await ends(child.id, 'fail');
    await line(`tpu rerun windows=${child.window} xibo`, /^Window /m);
    await lab.waitUntil(child.id, ({ attempts }) => attempts.length === 2);
    assert.equal(flagValue(await lab.programArgs(child.id, 2), '--config.load_from'), undefined);
    await ends(child.id, 'fail');
    const elsewhere = await runs(`tpu rerun windows=${Number(child.window) + 1} tpu=v2-32-1 xibo`);
    assert.equal(flagValue(elsewhere.args, '--config.load_from'), undefined);
    // The results of all other runs.
    await line('tpu clean xibo', /There is nothing to clear for xibo/);
    await line('tpu check xibo', new RegExp(`\\b${elsewhere.window}\\b`));
    await line(`tpu -kw ${elsewhere.window} xibo`, new RegExp(elsewhere.window));
    await lab.waitForPhase(elsewhere.id, 'cancelled');
    await line('tpu clean xibo -re', /./);
    const last = await runs('tpu run v2-32-6 xibo');
    await line(`tpu kill-window ${last.window} xibo`, new RegExp(last.window));
    await lab.waitForPhase(last.id, 'cancelled');
    await line('tpu -czw xibo', /window/i);
    await line('tpu -czj xibo', /job/i);
  });

  test('reports of scripts', async () => {
    const fields = '/logs/1 /stage/1 kmh-tpuvm-v2-32-6 20250420_011026';
    await line(`tpu upd-log xibo:999 ${fields}`, /window xibo:999/, 3);
    await line('tpu finish-job xibo:999', /window xibo:999/, 3);
    // The line that starts a job, typed by a user in a window of no job.
    writeFileSync(join(code, 'run_remote.sh'), 'printf "%s\\n" "$@"\n');
    const staged = lab.sourceScript(code, 'staging.sh', 'ka=kmh-tpuvm-v2-32-6', '--config.a=b', '--config.stage=1');
    assert.match(staged, /1st arg\(ka\): ka=kmh-tpuvm-v2-32-6[^]*\n--config\.a=b\n--config\.stage=1\n/);
  });

  test('settings are restored', async () => {
    await line('tpu reset-settings xibo', /\w/);
    await line('tpu get-settings xibo', /monitor_after_run +true/i);
  });
});
