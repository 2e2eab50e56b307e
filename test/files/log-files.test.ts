// Copies of logs and job data: exact, complete, and repaired after a crash.

import assert from 'node:assert/strict';
import {
  appendFileSync,
  existsSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { asFileName } from '../../src/app/format.ts';
import { createLogFiles } from '../../src/files/log-files.ts';
import type { StoredEvent } from '../../src/app/ports.ts';
import type { Event } from '../../src/core/model/event.ts';
import { openWorld } from '../support/world.ts';
import { aJob, noon } from '../support/builders.ts';

const job = aJob();

function filesIn(t: TestContext) {
  const { home } = openWorld(t);
  const history: StoredEvent[] = [];
  const logFiles = createLogFiles({
    home,
    history: (_id, after) => Promise.resolve(history.filter(({ seq }) => seq > after)),
  });
  const happened = (detail: string) => {
    const event: Event = { kind: 'unreachable', at: noon, allocation: 1, message: detail };
    history.push({ seq: history.length + 1, event });
  };
  return { folder: join(home, 'jobs/ada/000042'), logFiles, happened };
}

const bytes = (text: string) => Buffer.from(text);

test('the length of a copy is the number of appended bytes, per attempt and worker', async (t) => {
  const { folder, logFiles } = filesIn(t);
  assert.equal(await logFiles.length(job, { attempt: 1, worker: 0, file: 'log' }), 0);
  await logFiles.append(job, { attempt: 1, worker: 0, file: 'log' }, bytes('loss 1\n'));
  await logFiles.append(job, { attempt: 1, worker: 0, file: 'log' }, Uint8Array.of(0xff, 0x00, 0x0a));
  await logFiles.append(job, { attempt: 1, worker: 'controller', file: 'log' }, bytes('x'));
  assert.equal(await logFiles.length(job, { attempt: 1, worker: 0, file: 'log' }), 10);
  assert.equal(await logFiles.length(job, { attempt: 1, worker: 'controller', file: 'log' }), 1);
  assert.equal(await logFiles.length(job, { attempt: 2, worker: 0, file: 'log' }), 0);
  assert.deepEqual(
    readFileSync(join(folder, 'logs/attempt_1/command_worker_0.log')),
    Buffer.from([...bytes('loss 1\n'), 0xff, 0x00, 0x0a]),
  );
});

test('a write at an offset that another controller has written already repeats no byte', async (t) => {
  const { folder, logFiles } = filesIn(t);
  const output = { attempt: 1, worker: 0, file: 'log' } as const;
  await logFiles.append(job, output, bytes('one\ntwo\n'), 0);
  await logFiles.append(job, output, bytes('two\n'), 4);
  await logFiles.append(job, output, bytes('three\n'), 8);
  assert.equal(readFileSync(join(folder, 'logs/attempt_1/command_worker_0.log'), 'utf8'), 'one\ntwo\nthree\n');
});

test('readEnd returns the last bytes of a copy, or all of a shorter one', async (t) => {
  const { logFiles } = filesIn(t);
  await logFiles.append(job, { attempt: 1, worker: 0, file: 'log' }, bytes('0123456789'));
  assert.deepEqual(Buffer.from(await logFiles.readEnd(job, 1, 0, 4)), bytes('6789'));
  assert.equal((await logFiles.readEnd(job, 1, 0, 400)).length, 10);
  assert.equal((await logFiles.readEnd(job, 9, 0, 400)).length, 0);
});

test('the link points to the newest attempt, also after a late line of an earlier one', async (t) => {
  const { folder, logFiles } = filesIn(t);
  const link = join(folder, 'logs/command_worker_0.log');
  await logFiles.append(job, { attempt: 1, worker: 0, file: 'log' }, bytes('one\n'));
  assert.equal(readlinkSync(link), 'attempt_1/command_worker_0.log');
  await logFiles.append(job, { attempt: 2, worker: 0, file: 'log' }, bytes('two\n'));
  await logFiles.append(job, { attempt: 1, worker: 0, file: 'log' }, bytes('late\n'));
  assert.equal(readFileSync(link, 'utf8'), 'two\n');
});

test('each note is one line and begins with its time', async (t) => {
  const { folder, logFiles } = filesIn(t);
  await logFiles.note(job, 'job', noon, 'created by ada');
  await logFiles.note(job, 'job', noon + 1_500, 'the cloud said:\n  no\n');
  await logFiles.note(job, 'tpu', noon, 'asked');
  assert.equal(
    readFileSync(join(folder, 'logs/job.log'), 'utf8'),
    '2026-11-20T12:00:00Z created by ada\n2026-11-20T12:00:01Z the cloud said: no\n',
  );
  assert.equal(existsSync(join(folder, 'logs/tpu.log')), true);
});

test("a step's output goes to its own log", async (t) => {
  const { folder, logFiles } = filesIn(t);
  await logFiles.appendStepLog(job, 'docker', 3, bytes('pulled\n'));
  assert.equal(readFileSync(join(folder, 'logs/docker_worker_3.log'), 'utf8'), 'pulled\n');
  await logFiles.appendStepLog(job, 'docker', 3, bytes(''));
  assert.equal(readFileSync(join(folder, 'logs/docker_worker_3.log'), 'utf8'), 'pulled\n');
  for (let times = 0; times < 2; times += 1) await logFiles.appendStepLog(job, 'ssh', 0, bytes(''));
  const silent = '-- step ssh is done on worker 0; it printed nothing\n';
  assert.equal(readFileSync(join(folder, 'logs/ssh_worker_0.log'), 'utf8'), silent);
});

test('folders and files are for their owner only', async (t) => {
  const { folder, logFiles, happened } = filesIn(t);
  happened('a');
  await logFiles.append(job, { attempt: 1, worker: 0, file: 'log' }, bytes('x'));
  await logFiles.mirror(job, []);
  const rights = (path: string) => (statSync(join(folder, path)).mode & 0o777).toString(8);
  assert.deepEqual(['', 'logs', 'logs/attempt_1'].map(rights), ['700', '700', '700']);
  assert.deepEqual(['logs/attempt_1/command_worker_0.log', 'job.json', 'events.jsonl'].map(rights), [
    '600',
    '600',
    '600',
  ]);
});

test('job.json has the state of the job, without its scripts', async (t) => {
  const { folder, logFiles } = filesIn(t);
  await logFiles.mirror(job, []);
  const copy = JSON.parse(readFileSync(join(folder, 'job.json'), 'utf8')) as Record<string, unknown>;
  assert.equal(copy['id'], '000042');
  assert.equal(copy['phase'], 'queued');
  assert.equal(JSON.stringify(copy).includes(job.spec.command.script), false);
});

test('the copies for scripts have times as --json has them, at any depth', async (t) => {
  const { folder, logFiles, happened } = filesIn(t);
  happened('a');
  await logFiles.mirror(job, []);
  for (const file of ['job.json', 'events.jsonl']) {
    const times = readFileSync(join(folder, file), 'utf8').match(/"(?:at|\w+At)": ?[^,}\s]+/g) ?? [];
    assert.ok(times.length > 0);
    for (const one of times) assert.match(one, /: ?(?:null|"\d{4}-\d\d-\d\dT[\d:.]+Z")$/);
  }
});

test('the copies for scripts have no terminal control characters, and the same values', async (t) => {
  const { folder, logFiles, happened } = filesIn(t);
  const evil = 'a\u001b\u007f\u0085\u009b\u202e\u2066z';
  happened(evil);
  await logFiles.mirror({ ...job, spec: { ...job.spec, tags: [evil] } }, []);
  for (const file of ['job.json', 'events.jsonl']) {
    const text = readFileSync(join(folder, file), 'utf8');
    assert.match(text, /a\\u001b\\u007f\\u0085\\u009b\\u202e\\u2066z/);
    assert.doesNotMatch(text, /[^\P{Cc}\n]|[\u202a-\u202e\u2066-\u2069]/u);
    assert.ok(JSON.stringify(JSON.parse(text)).includes(JSON.stringify(evil).slice(1, -1)));
  }
});

test('events.jsonl has every event once, also after a truncated line, a lost line or a lost file', async (t) => {
  const { folder, logFiles, happened } = filesIn(t);
  const path = join(folder, 'events.jsonl');
  const shownLines = () =>
    readFileSync(path, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => {
        const { seq, kind, message } = JSON.parse(line) as Record<string, unknown>;
        assert.equal(kind, 'unreachable');
        return `${String(seq)}${String(message)}`;
      });
  happened('a');
  await logFiles.mirror(job, []);
  await logFiles.mirror(job, []);
  assert.deepEqual(shownLines(), ['1a']);
  // The controller was killed before it wrote b; the write of c adds it.
  happened('b');
  happened('c');
  await logFiles.mirror(job, []);
  assert.deepEqual(shownLines(), ['1a', '2b', '3c']);
  truncateSync(path, statSync(path).size - 5);
  await logFiles.mirror(job, []);
  assert.deepEqual(shownLines(), ['1a', '2b', '3c']);
  appendFileSync(path, 'rubbish\n');
  happened('d');
  await logFiles.mirror(job, []);
  assert.deepEqual(shownLines(), ['1a', '2b', '3c', '4d']);
  rmSync(path);
  await logFiles.mirror(job, []);
  assert.equal(shownLines().length, 4);
  writeFileSync(path, '');
  await logFiles.mirror(job, []);
  assert.equal(shownLines().length, 4);
});

test('names of users cannot escape the folder', () => {
  assert.equal(asFileName('ada'), 'ada');
  assert.equal(asFileName('ada.l@lab-2_x'), 'ada.l@lab-2_x');
  assert.equal(asFileName('LAB\\ada lovelace'), 'LAB_ada_lovelace');
  assert.equal(asFileName('../../etc'), '__.._etc');
  assert.equal(asFileName('..'), '_');
  assert.equal(asFileName(''), '_');
});
