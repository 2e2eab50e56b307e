import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import type { AttemptView } from '../../src/app/client.ts';
import type { WorkerId } from '../../src/core/model/spec.ts';
import { openWorld } from '../support/world.ts';
import { jsonLines, jobman, jobView, type CliHarnessOptions, fakeLog, type FakeLog } from './support/harness.ts';

const terminal = { columns: 80, rows: 24 };

/** Files with these contents, as the logs of workers 0, 1, … of the first try. */
function logFiles(t: TestContext, ...contents: readonly (string | Uint8Array)[]): FakeLog[] {
  const { folder } = openWorld(t);
  mkdirSync(join(folder, 'logs'));
  return contents.map((content, worker) => {
    const path = join(folder, 'logs', `command_worker_${worker}.log`);
    writeFileSync(path, content);
    return fakeLog(path, worker);
  });
}

async function printed(
  argv: readonly string[],
  logs: readonly FakeLog[],
  more: CliHarnessOptions = {},
): Promise<string> {
  const { code, out, err } = await jobman(['logs', '42', ...argv], { jobs: [jobView()], logs, ...more });
  assert.equal(code, 0, err);
  return out;
}

suite('logs to a pipe', () => {
  test('have the number of the worker in front of each line', async (t) => {
    const logs = logFiles(t, 'one\ntwo\n', 'eins\nzwei\n');
    assert.equal(await printed([], logs), '[0] one\n[1] eins\n[0] two\n[1] zwei\n');
  });

  test('of one worker that is named have none, and may not end with a newline', async (t) => {
    const logs = logFiles(t, 'one\ntwo', 'eins\n');
    assert.equal(await printed(['-w', '0'], logs), 'one\ntwo\n');
  });

  test('show equal lines each', async (t) => {
    const logs = logFiles(t, 'step 1\n', 'step 1\n');
    assert.equal(await printed([], logs), '[0] step 1\n[1] step 1\n');
  });

  test('show control characters and invalid bytes, and keep colours, tabs and carriage returns', async (t) => {
    const bytes = Buffer.concat([
      Buffer.from('\u001b[31mred\u001b[0m\ttab \u001b[2J bell\u0007 ünï\r\n'),
      Buffer.from([0xff, 0x00, 0x41, 0xc3, 0x0a]),
    ]);
    assert.equal(
      await printed(['-w', '0'], logFiles(t, bytes)),
      '\u001b[31mred\u001b[0m\ttab \\x1b[2J bell\\x07 ünï\r\n\\xff\\x00A\\xc3\n',
    );
  });

  test('are the very bytes with --raw', async (t) => {
    const bytes = Buffer.from([0xff, 0x00, 0x1b, 0x41, 0x0d, 0x0a, 0x42]);
    const { folder } = openWorld(t);
    const path = join(folder, 'log');
    writeFileSync(path, bytes);
    const written: Uint8Array[] = [];
    const world = await import('./support/harness.ts');
    const { services } = world.createCliHarness({
      jobs: [jobView()],
      logs: [fakeLog(path)],
    });
    const io = {
      ...services.io,
      stdout: { ...services.io.stdout, write: (part: string | Uint8Array) => written.push(Buffer.from(part)) },
    };
    const { run } = await import('../support/output-schema.ts');
    assert.equal(await run(['logs', '42', '--raw'], { ...services, io: io as never }), 0);
    assert.deepEqual(Buffer.concat(written), bytes);
  });

  test('are unchanged, however they are split into blocks', async (t) => {
    const lines = Array.from({ length: 3_000 }, (_, index) => `${'é€😀x'.repeat(index % 97)}${index}`);
    const odd = lines.map((line, index) => (index % 500 === 0 ? `${line}\u0007` : line));
    const out = await printed([], logFiles(t, `${odd.join('\n')}\n`));
    assert.ok(
      out === odd.map((line) => `[0] ${line.replace('\u0007', '\\x07')}\n`).join(''),
      'No line is lost or changed.',
    );
  });

  test('print a line of 10 MB whole', async (t) => {
    const line = 'x'.repeat(10_000_000);
    const out = await printed([], logFiles(t, `before\n${line}\nafter\n`));
    assert.ok(out === `[0] before\n[0] ${line}\n[0] after\n`, 'The line came out as it went in.');
  });

  test('keep the lines of one worker together where a long one meets another worker', async (t) => {
    const line = 'x'.repeat(3_000_000);
    const out = await printed([], logFiles(t, `${line}\nlast\n`, 'eins\nzwei\n'));
    assert.deepEqual(
      out.split('\n').map((each) => each.slice(0, 8)),
      ['[0] xxxx', '[1] eins', '[0] last', '[1] zwei', ''],
    );
    assert.equal(out.split('\n')[0]?.length, 3_000_004);
  });

  test('--tail counts from the end, each worker for itself', async (t) => {
    const logs = logFiles(t, 'a\nb\nc\n', 'd\ne');
    assert.equal(await printed(['--tail', '1'], logs), '[0] c\n[1] e\n');
    const none = await jobman(['logs', '42', '--tail', '0'], { jobs: [jobView()], logs });
    assert.deepEqual([none.out, none.err], ['', ''], 'The program has printed something.');
    assert.equal(await printed(['--tail', '99'], logs), '[0] a\n[1] d\n[0] b\n[1] e\n[0] c\n');
  });

  test('--tail reads a large file from its end', async (t) => {
    const lines = Array.from({ length: 200_000 }, (_, index) => `line ${index}`);
    const out = await printed(['-w', '0', '--tail=3'], logFiles(t, `${lines.join('\n')}\n`));
    assert.equal(out, 'line 199997\nline 199998\nline 199999\n');
  });

  test('--grep finds lines, and with --tail the last that it found', async (t) => {
    const logs = logFiles(t, 'loss 1\nnoise\nloss 2\nloss 3\nnoise\n');
    assert.equal(await printed(['--grep', '^loss'], logs), '[0] loss 1\n[0] loss 2\n[0] loss 3\n');
    assert.equal(await printed(['--grep', '^loss', '--tail', '2'], logs), '[0] loss 2\n[0] loss 3\n');
    const finished = { jobs: [jobView({ phase: 'succeeded', phaseStartedAt: 0 })] };
    assert.equal(await printed(['--grep', '^loss', '--tail', '2', '-f'], logs, finished), '[0] loss 2\n[0] loss 3\n');
    assert.equal(await printed(['--grep', '1$', '--raw'], logs), 'loss 1\n');
  });

  test('--json prints an object a line', async (t) => {
    const out = await printed(['--json'], logFiles(t, 'one\n"two"\n'));
    assert.deepEqual(jsonLines<object>(out), [
      { job: '000042', attempt: 1, worker: 0, text: 'one', continues: false },
      { job: '000042', attempt: 1, worker: 0, text: '"two"', continues: false },
    ]);
  });

  test('that are empty are explained on standard error', async (t) => {
    const { out, err } = await jobman(['logs', '42'], { jobs: [jobView()], logs: logFiles(t, '') });
    assert.equal(out, '');
    assert.match(err, /No output yet\. 4 of 4 workers alive/);
  });

  test('stop quietly when their reader exits', async (t) => {
    const logs = logFiles(t, 'x\n'.repeat(1_000_000));
    const { createCliHarness } = await import('./support/harness.ts');
    const { run } = await import('../support/output-schema.ts');
    const world = createCliHarness({ jobs: [jobView()], logs });
    world.closeOutput();
    assert.equal(await run(['logs', '42'], world.services), 0);
    assert.ok(world.out().length < 2_000_000, 'It stopped long before the end.');
    assert.equal(world.err(), '');
  });
});

suite('logs on a terminal', () => {
  const shown = (argv: readonly string[], logs: readonly FakeLog[]) => printed(argv, logs, { terminal });

  test('show equal lines of several workers once, and other lines with their worker', async (t) => {
    const logs = logFiles(t, 'step 1\nstep 2\n', 'step 1\nslow!\nstep 2\n', 'step 1\nstep 2\n');
    assert.equal(await shown([], logs), '[0-2] step 1\n[1]   slow!\n[0-2] step 2\n');
    const each = await shown(['--no-fold'], logs);
    assert.equal(each.split('\n').length, 8);
  });

  test('show lines that differ in a decimal once, with the range, and lines of different steps separately', async (t) => {
    const logs = logFiles(t, '08:20:01 step 10 loss 2.121\n', '08:20:02 step 10 loss 2.114\n', 'step 9 loss 2.2\n');
    assert.equal(await shown([], logs), '[0-1] 08:20:01 step 10 loss 2.114..2.121\n[2]   step 9 loss 2.2\n');
  });

  test('cut a long line and say how much is left out', async (t) => {
    const out = await shown([], logFiles(t, `${'x'.repeat(10_000_000)}\nshort\n`));
    assert.equal(out, `[0] ${'x'.repeat(4096)} ~ 10.0 MB more\n[0] short\n`);
  });

  test('show of a progress bar its last state only', async (t) => {
    const out = await shown([], logFiles(t, ' 10%\r 20%\r100%\ndone\r\n'));
    assert.equal(out, '[0] 100%\n[0] done\n');
  });

  test('end a colour that the program left on', async (t) => {
    assert.equal(await shown([], logFiles(t, '\u001b[32mgreen\n')), '[0] \u001b[32mgreen\u001b[0m\n');
    const plain = await printed([], logFiles(t, '\u001b[32mgreen\n'), { terminal, env: { NO_COLOR: '1' } });
    assert.equal(plain, '[0] green\n');
  });
});

suite('logs --first-error', () => {
  const traceback = 'Traceback (most recent call last):\n  File "main.py", line 3\nValueError: no\n';

  test('prints the earliest by the times that the lines say, with the lines around it', async (t) => {
    const logs = logFiles(
      t,
      '08:20:01 step 1\n08:20:09 step 2\nRuntimeError: a peer is gone\n',
      `08:20:01 step 1\n08:20:05 step 2\n${traceback}after\n`,
      'all is well\n',
    );
    const { code, out, err } = await jobman(['logs', '42', '--first-error'], { jobs: [jobView()], logs });
    assert.equal(code, 0);
    assert.equal(out, `08:20:01 step 1\n08:20:05 step 2\n${traceback}after\n`.replaceAll(/^(?=.)/gm, '[1] '));
    assert.equal(err, '-- first error: worker 1, line 3; later: worker 0, line 3\n');
  });

  test('without times begins with the worker that the job ended of', async (t) => {
    const logs = logFiles(t, 'ERROR: late\n', `${'x\n'.repeat(50)}${traceback}${'y\n'.repeat(50)}`);
    const attempts = [{ attempt: 1, evidence: { detail: 'exit 1', worker: 1 } }] as unknown as AttemptView[];
    const { out, err } = await jobman(['logs', '42', '--first-error'], { jobs: [jobView({ attempts })], logs });
    assert.equal(out.split('\n').length, 3 + 1 + 20 + 1);
    assert.match(err, /worker 1, line 51; later: worker 0, line 1/);
  });

  test('says so when there is none, and chooses its lines itself', async (t) => {
    const logs = logFiles(t, 'no error here\n0 errors\n');
    const { code, out, err } = await jobman(['logs', '42', '--first-error'], { jobs: [jobView()], logs });
    assert.equal(code, 3);
    assert.equal(out, '');
    assert.match(err, /No error found in 1 log\. 4 of 4 workers alive/);
    assert.equal((await jobman(['logs', '42', '--first-error', '-f'], { jobs: [jobView()], logs })).code, 2);
  });
});

test('logs name what is not there', async () => {
  const { code, err } = await jobman(['logs', 'missing'], { jobs: [jobView()] });
  assert.equal(code, 3);
  assert.match(err, /There is no job named "missing"/);
});

test('-j takes a name that looks like an id', async (t) => {
  const files = logFiles(t, 'hello\n');
  const worker: WorkerId = 0;
  const { out } = await jobman(['logs', '-j', '42', '-w', String(worker)], {
    jobs: [jobView({ id: '000007', name: '42' }), jobView({ id: '000042', name: 'other' })],
    logs: files,
  });
  assert.equal(out, 'hello\n');
});

test('-n of lines, as it was typed before, is answered with --tail', async () => {
  for (const args of [['-n', '20'], ['-n20'], ['--namespace', '20']]) {
    const { code, out, err } = await jobman(['logs', '1', ...args], { jobs: [jobView()] });
    assert.deepEqual([code, out], [2, '']);
    assert.equal(
      err,
      'jobman: -n is the namespace in a cluster, not a number of lines.\n  For the last lines: --tail 20\n',
    );
  }
});
