/** The exit code that a shell in the container reports at the end of stderr. */

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { createReportReader, readExecStatus, reporting } from '../../../src/backends/kubernetes/exec-status.ts';

const text = 'JOBMAN_EXEC=0123456789abcdef: ';

function read(bytes: Buffer, size: number): { readonly own: string; readonly code: number | undefined } {
  const reader = createReportReader(text);
  const parts: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += size) parts.push(reader.take(bytes.subarray(at, at + size)));
  return { own: Buffer.concat([...parts, reader.rest()]).toString(), code: reader.code() };
}

test('is taken out of what the program has printed, however it comes', () => {
  for (const size of [1, 2, 7, 31, 1_000]) {
    assert.deepEqual(read(Buffer.from(`one\nJOBMAN_${text}7\n`), size), { own: 'one\nJOBMAN_', code: 7 });
    assert.deepEqual(read(Buffer.from(`${text}0\n`), size), { own: '', code: 0 });
    assert.deepEqual(read(Buffer.from('one JOBMAN_EXEC=01'), size), { own: 'one JOBMAN_EXEC=01', code: undefined });
  }
});

test('is what a shell writes, and its own exit code', () => {
  const ran = (...argv: readonly string[]) => {
    const [program = '', ...words] = reporting(argv, text);
    const { status, stdout, stderr } = spawnSync(program, words, { input: 'in' });
    return { status, out: String(stdout), ...read(stderr, 5) };
  };
  const both = ran('sh', '-c', 'cat; printf err >&2; exit 7');
  assert.deepEqual(both, { status: 7, out: 'in', own: 'err', code: 7 });
  assert.deepEqual(ran('printf', '%s|', 'a b', '$HOME', ''), { status: 0, out: 'a b|$HOME||', own: '', code: 0 });
  const absent = ran('no-such-program');
  assert.deepEqual([absent.status, absent.code], [127, 127]);
  assert.match(absent.own, /no-such-program/);
  assert.equal(ran('sh', '-c', 'kill -KILL $$').code, 137);
});

test('is a number of at most three digits: what a program prints in its place is its own output', () => {
  for (const size of [1, 3, 1_000]) {
    for (const own of [`${text}NaN\n`, `${text}\n`, `${text}1e3\n`, `${text}-1\n`, `${text}4000\n`])
      assert.deepEqual(read(Buffer.from(`${own}${text}3\n`), size), { own, code: 3 });
  }
  const reader = createReportReader(text);
  reader.take(Buffer.from(text));
  // None of a line without end is held back.
  assert.equal(reader.take(Buffer.alloc(1_000_000, 'x')).length, 1_000_000 + text.length);
});

test('the status of a cluster that has values of other kinds is told as it came', () => {
  for (const said of ['null', '5', '[1', '{"message":{}}', '{"details":null}', '{"details":{"causes":{}}}'])
    assert.deepEqual(readExecStatus(Buffer.from(said)), { message: said });
  for (const said of ['{"details":{"causes":[null]}}', '{"details":{"causes":[{"message":5}]}}'])
    assert.deepEqual(readExecStatus(Buffer.from(said)), { message: said });
  assert.deepEqual(readExecStatus(Buffer.from('{"status":"Success"}')), { status: 'Success' });
});
