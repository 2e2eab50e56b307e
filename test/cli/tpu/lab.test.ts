// The registry of TPUs, rules, ack, news, help, completion, and invalid import files.

import type { RuleOutput } from '../../../src/cli/outputs.ts';
import type { RuleAnswer } from '../../../src/core/model/spec.ts';
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { symlinkSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { exitCode, JobmanError } from '../../../src/app/errors.ts';
import { defaultSettings } from '../../../src/app/settings.ts';
import { table } from '../../../src/cli/tpu/table.ts';
import { siteOf } from '../../../src/lab/site.ts';
import { aUser } from '../../support/lab-builders.ts';
import { openWorld } from '../../support/world.ts';
import { jobView } from '../support/harness.ts';
import { aTpu, openLabWorld, openSampleLab, jsonLines } from './lab-world.ts';

const terminal = { columns: 60, rows: 30 };

suite('the registry of TPUs', () => {
  test('an alias registers a TPU with the type and pricing of its name', async () => {
    const { labStore, tpu } = openLabWorld();
    const { code, out, err } = await tpu(['-ta', 'v2-32-p1', 'kmh-tpuvm-v2-32-preemptible-1', 'zone=europe-west4-a']);
    assert.equal(code, 0, err);
    assert.match(out, /^Registered kmh-tpuvm-v2-32-preemptible-1 \(v2-32, preemptible, in europe-west4-a\)\.$/m);
    assert.deepEqual(await labStore.tpus(), [
      {
        name: 'kmh-tpuvm-v2-32-preemptible-1',
        project: null,
        zone: 'europe-west4-a',
        accelerator: 'v2-32',
        pricing: 'preemptible',
        runtimeVersion: null,
      },
    ]);
    assert.match(
      (await tpu(['-lta'])).out,
      /v2-32-p1 {2}kmh-tpuvm-v2-32-preemptible-1 {2}v2-32 {2}europe-west4-a {2}preemptible/,
    );
  });
  test('register keeps values that are not given', async () => {
    const { labStore, tpu } = await openSampleLab();
    await tpu(['register', 'kmh-tpuvm-v2-32-6', 'version=tpu-vm-base']);
    await tpu(['register', 'kmh-tpuvm-v2-32-6', 'pricing=spot']);
    const found = (await labStore.tpus()).find(({ name }) => name === 'kmh-tpuvm-v2-32-6');
    assert.deepEqual([found?.zone, found?.pricing, found?.runtimeVersion], ['europe-west4-a', 'spot', 'tpu-vm-base']);
  });
  test('changing an alias needs a confirmation', async () => {
    const { labStore, tpu } = await openSampleLab();
    const line = ['-ta', 'v2-32-6', 'kmh-tpuvm-v2-32-7'];
    assert.equal((await tpu(line)).code, 4);
    assert.equal((await labStore.tpuAliases()).get('v2-32-6'), 'kmh-tpuvm-v2-32-6');
    assert.equal((await tpu([...line, '--yes'])).code, 0);
    assert.equal((await labStore.tpuAliases()).get('v2-32-6'), 'kmh-tpuvm-v2-32-7');
  });
  const refused: readonly (readonly [line: readonly string[], sentence: RegExp])[] = [
    [['-ta', 'xibo', 'kmh-tpuvm-v2-32-7'], /a user has this name/],
    [['-ta', 'abc', 'kmh-x'], /does not contain the type/],
    [['-ta', 'new', 'v2-32-6'], /Use the full name: tpu add-tpu-alias new kmh-tpuvm-v2-32-6/],
    [['register', 'kmh-x'], /Add it: type=v2-32/],
    [['register', 'Kmh_X', 'type=v2-32'], /lower-case letters, digits and dashes/],
    [['register', 'kmh-x', 'type=v2-33'], /not a TPU type/],
    [['register', 'kmh-x', 'type=v2-32', 'zone=here'], /not a zone/],
  ];
  for (const [line, expected] of refused) {
    test(`refuses ${line.join(' ')}`, async () => {
      const { labStore, tpu } = await openSampleLab();
      const { code, err } = await tpu(line);
      assert.match(err, expected);
      assert.equal(code, 2);
      assert.equal((await labStore.tpus()).length, 2);
      assert.equal((await labStore.tpuAliases()).size, 2);
    });
  }
  test('remove aliases and TPUs', async () => {
    const { labStore, tpu } = await openSampleLab();
    assert.match((await tpu(['del-tpu-alias', 'v2-32-66'])).err, /Did you mean v2-32-6\?/);
    assert.equal((await tpu(['del-tpu-alias', 'v2-32-6'])).code, 0);
    assert.equal((await tpu(['unregister', 'v2-32-p1'])).code, 4);
    assert.equal((await tpu(['unregister', 'v2-32-p1', '-y'])).code, 0);
    assert.equal((await labStore.tpuAliases()).size, 0);
    assert.deepEqual(
      (await labStore.tpus()).map(({ name }) => name),
      ['kmh-tpuvm-v2-32-6'],
    );
  });
});

suite('check-rules', () => {
  test('shows the presets', async () => {
    const { out } = await openLabWorld().tpu(['check-rules', '--json']);
    const rows = jsonLines<RuleOutput>(out);
    const text = ({ then, on }: RuleAnswer): string => `${then} on ${on}`;
    assert.deepEqual(
      rows.map(({ rule, ...answers }) => [rule, text(answers.preempted), text(answers.grpc), answers.failed.then]),
      [
        ['pre', 'resume on new', 'resume on same', 'fail'],
        ['pass', 'fail on same', 'fail on same', 'fail'],
        ['reapply', 'resume on new', 'resume on new', 'fail'],
        ['rerun', 'resume on new', 'rerun on same', 'fail'],
        ['resume', 'fail on same', 'resume on same', 'fail'],
      ],
    );
  });
});

test('in a copied home every command that changes something is refused', async () => {
  const refusal = 'copy is a copy of home, which still exists.';
  // The rest of the program is missing, which would be another message.
  const world = openLabWorld({
    assertOriginalHome: () => Promise.reject(new JobmanError(refusal, exitCode.unreachable)),
  });
  await world.labStore.addUser(aUser('xibo'));
  await world.labStore.changeTpu('lab-1', { kind: 'add', tpu: aTpu('lab-1') });
  await world.labStore.changeTpu('lab-2', { kind: 'add', tpu: aTpu('lab-2') });
  for (const verb of ['solve', 'reapply', 'apply', 'restart', 'delete', 'mount-disk', 'kill', 'release', 'book']) {
    const { code, err } = await world.tpu([verb, 'lab-1', ...(verb === 'kill' ? ['xibo'] : []), '--yes']);
    assert.deepEqual([code, err.includes(refusal)], [exitCode.unreachable, true], `${verb}: ${err}`);
  }
  assert.match((await world.tpu(['ack', 'xibo'])).err, new RegExp(refusal));
  assert.equal((await world.tpu(['-lta'])).code, 0);
});

suite('ack', () => {
  test("checks the user's unfinished jobs only", async () => {
    const { checkedJobs, job, tpu } = await openSampleLab();
    for (const user of ['xibo', 'xibo', 'lyy']) await job(user);
    const jobs = [
      jobView({ id: '000001', owner: 'xibo' }),
      jobView({ id: '000002', owner: 'xibo', phase: 'succeeded' }),
      jobView({ id: '000003', owner: 'lyy' }),
    ];
    const answer = (id: string) => ({ id, ok: false, message: '', exitCode: 4 });
    const { code, out, commands } = await tpu(['ack', 'xibo'], { jobs, answerCommand: answer });
    assert.equal(code, 0);
    assert.deepEqual(commands, ['accept-exit 000001']);
    assert.doesNotMatch(out, /applied now/);
    assert.match(
      (await tpu(['ack', 'xibo'], { jobs })).out,
      /^Window 1: its program has ended; its rule is applied now/m,
    );
    checkedJobs.splice(1);
    assert.match(out, /Checking 1 job of xibo now: window 1\./);
    assert.deepEqual(checkedJobs, ['000001']);
    assert.match((await tpu(['ack', 'xibo'], { jobs: [] })).out, /^xibo has no unfinished jobs/);
  });
  test('prints an object for each job with --json', async () => {
    const { job, tpu } = await openSampleLab();
    await job('xibo');
    const jobs = [jobView({ id: '000001', owner: 'xibo' })];
    const { out } = await tpu(['ack', 'xibo', '--json'], { jobs });
    const expected = { window: 1, job: '000001', user: 'xibo', judged: true, trouble: null, hangsAt: null };
    assert.deepEqual(JSON.parse(out), expected);
    assert.equal((await tpu(['ack', 'xibo', '--json'], { jobs: [] })).out, '');
  });

  test('without a user it checks the jobs of all users', async () => {
    const { checkedJobs, job, tpu } = await openSampleLab();
    for (const user of ['xibo', 'lyy']) await job(user);
    const jobs = [jobView({ id: '000001', owner: 'xibo' }), jobView({ id: '000002', owner: 'lyy' })];
    const { code, out } = await tpu(['ack'], { jobs });
    assert.equal(code, 0);
    assert.match(out, /^Checking 1 job of xibo now: window 1\.$[^]*^Checking 1 job of lyy now: window 1\.$/m);
    assert.deepEqual(checkedJobs, ['000001', '000002']);
    assert.match((await tpu(['ack'], { jobs: [] })).out, /^The lab has no unfinished jobs/);
  });
});

suite('help', () => {
  test('first steps, all commands, and each command', async () => {
    const { tpu } = openLabWorld();
    assert.match((await tpu([])).out, /tpu add-user/);
    assert.equal((await tpu(['--quiet', '-y'])).out, (await tpu([])).out);
    const whole = await tpu(['help']);
    assert.equal(whole.out, (await tpu(['-h'])).out);
    assert.equal(whole.out, (await tpu(['--help'])).out);
    for (const { names, hidden, summary } of table) {
      assert.equal(whole.out.replaceAll(/\s+/g, ' ').includes(summary), !hidden, names[0]);
      for (const name of names) {
        const { code, out } = await tpu(['-h', name]);
        assert.equal(code, 0);
        assert.ok(out.startsWith(`Usage: tpu ${names[0]}`), name);
        assert.equal(out, (await tpu(['help', name])).out);
        assert.equal(out, (await tpu([name, '-h'])).out);
        assert.equal(out, (await tpu([name, '--help'])).out);
      }
    }
  });
  test('has no JSON output', async () => {
    const { tpu } = openLabWorld();
    for (const line of [
      [],
      ['help'],
      ['help', 'run'],
      ['run', '--help'],
      ['tldr'],
      ['completion', 'bash'],
      ['attach'],
    ]) {
      const { code, out, err } = await tpu([...line, '--json']);
      assert.deepEqual([code, out], [2, ''], line.join(' '));
      assert.match(err, /has no JSON output/);
    }
    assert.equal((await tpu(['--version', '--json'])).out, '{"version":"1.2.3"}\n');
  });
  test('fits a narrow terminal', async () => {
    const { tpu } = openLabWorld();
    for (const line of [['help'], [], ['tldr'], ['check-rules'], ...table.map(({ names }) => ['help', names[0]])]) {
      const { out } = await tpu(line, { terminal });
      // Usage lines and examples are not wrapped.
      const long = out
        .split('\n')
        .filter((one) => one.length > 60 && !/^(Usage|Also| {2}(tpu|cd|source|-|\[))/.test(one));
      assert.deepEqual(long, [], line.join(' '));
    }
  });
  test('for an unknown or removed command', async () => {
    const { tpu } = openLabWorld();
    assert.equal((await tpu(['help', 'chekc'])).code, 2);
    assert.match((await tpu(['help', 'chekc'])).err, /Did you mean "check"/);
    assert.match((await tpu(['lock', 'code'])).err, /There is no `tpu lock`\. No lock is needed/);
  });
});

test('messages show control characters of arguments in escaped form', async () => {
  const { tpu } = await openSampleLab();
  for (const line of [
    ['check', '\u001b[2J'],
    ['\u001b[2J', 'x'],
    ['run', 'dir=\u0007'],
    ['check', '-\u001b]2;x\u0007'],
    ['set-settings', 'key=\u001b[2J', 'value=1', 'xibo'],
    ['del-config-alias', '\u001b[2J', 'xibo'],
    ['add-user', 'a\u001b[2J'],
  ]) {
    const { code, err } = await tpu(line);
    assert.equal(code === 2 || code === 3, true, err);
    assert.doesNotMatch(err, /[^\P{Cc}\n]/u);
  }
});

suite('completion', () => {
  const proposals = async (...args: readonly string[]): Promise<readonly string[]> => {
    const world = await openSampleLab();
    await world.job('xibo', { tag: 'baseline' });
    const { out } = await world.tpu(['__complete', ...args]);
    return out
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split('\t')[0] ?? '');
  };
  test('commands', async () => {
    assert.deepEqual(await proposals('reset-w'), ['reset-window-num', 'reset-window']);
    assert.ok((await proposals('')).length > 60);
    assert.ok(!(await proposals('__')).includes('__begin'));
  });
  test('users, TPUs, windows, aliases, settings, keys', async () => {
    assert.deepEqual(await proposals('check', 'x'), ['xibo']);
    assert.deepEqual(await proposals('describe', 'v2'), ['v2-32-6', 'v2-32-p1', 'v2-32-preemptible-1']);
    assert.ok((await proposals('kill', 'xibo', '')).includes('1'), 'the number of a window');
    assert.ok((await proposals('run', 'xibo', '')).includes('lr='));
    assert.deepEqual(await proposals('run', 'rule=re'), ['rule=reapply', 'rule=rerun', 'rule=resume']);
    assert.deepEqual(await proposals('resume', 'xibo', 'w='), ['w=1']);
    assert.deepEqual(await proposals('resume', 'tpu=v2-32-p'), ['tpu=v2-32-p1', 'tpu=v2-32-preemptible-1']);
    assert.deepEqual(await proposals('check', 'user=x'), ['user=xibo']);
    assert.deepEqual(await proposals('set-settings', 'show'), ['show_length']);
    assert.deepEqual(await proposals('del-config-alias', 'xibo', 'ck'), ['ckpt']);
    assert.deepEqual(await proposals('del-tpu-alias', 'v2-32-p'), ['v2-32-p1']);
    assert.deepEqual(await proposals('completion', 'z'), ['zsh']);
    assert.deepEqual(await proposals('nonsense', ''), []);
  });
  test('jobman tpu completes like tpu', async () => {
    const world = await openSampleLab();
    for (const args of [[''], ['reset-w'], ['check', 'x'], ['run', 'rule=re'], ['nonsense', '']]) {
      const { out } = await world.jobman(['__complete', 'tpu', ...args]);
      assert.equal(out, (await world.tpu(['__complete', ...args])).out);
    }
    assert.match((await world.jobman(['__complete', 'tp'])).out, /^tpu\t/m);
    assert.doesNotMatch((await world.jobman(['__complete', 'list', 'tp'])).out, /^tpu\t/m);
  });
  test('the completion scripts are for tpu', async () => {
    const { tpu } = openLabWorld();
    for (const shell of ['bash', 'zsh', 'fish']) {
      const { code, out } = await tpu(['completion', shell]);
      assert.equal(code, 0);
      assert.match(out, /_tpu/);
      assert.doesNotMatch(out, /jobman|PROGRAM/);
    }
  });
});

test('news appears once for its user', async () => {
  const site = siteOf({ ...defaultSettings(1).lab, namePrefix: 'kmh-tpuvm-' }, { home: '/h', userHome: '/u' });
  const world = await openSampleLab({ site: async () => site });
  await world.job('xibo', { tag: 'best', tpu: 'kmh-tpuvm-v2-32-6' });
  const peeked = await world.tpu(['news', 'xibo', '--peek']);
  assert.match(peeked.out, /^window 1, code, v2-32-6, best\n {2}20 Nov 08:00 {2}created$/m);
  // Another reader does not mark it as seen.
  assert.match((await world.tpu(['news', 'xibo', '--user', 'lyy'])).out, /created/);
  const json = await world.tpu(['--json', 'news', 'xibo', '--peek']);
  assert.deepEqual(JSON.parse(json.out).events, [{ at: '2026-11-20T12:00:00.000Z', message: 'created' }]);
  assert.match((await world.tpu(['news', 'xibo'])).out, /created/);
  assert.equal((await world.tpu(['news', 'lyy'])).out, '', 'the news of another user');
  const again = await world.tpu(['news', 'xibo']);
  assert.deepEqual([again.code, again.out], [0, '']);
  assert.match(again.err, /No news about the jobs of xibo/);
});

test('import refuses files that are not regular or too large', { timeout: 20_000 }, async (t) => {
  const { folder } = openWorld(t);
  const { tpu } = openLabWorld();
  const path = (name: string): string => join(folder, name);
  execFileSync('mkfifo', [path('fifo')]);
  symlinkSync('/dev/zero', path('zero'));
  writeFileSync(path('large'), '');
  truncateSync(path('large'), 65 * 1024 * 1024);
  for (const [name, why] of [
    ['fifo', /is not a regular file/],
    ['zero', /is not a regular file/],
    ['large', /is larger than 64 MiB/],
  ] as const) {
    const { code, err } = await tpu(['import', path(name), '--apply']);
    assert.equal(code, 2, err);
    assert.match(err, why);
    assert.match(err, /Nothing was changed/);
  }
  assert.equal((await tpu(['import', path('none')])).code, 3);
});
