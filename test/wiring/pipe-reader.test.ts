/** Whether a program that writes nothing notices that the reader of its pipe has gone. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';

const watches = `
  const { watchPipeReader } = await import(${JSON.stringify(new URL('../../src/wiring/processes.ts', import.meta.url).href)});
  const late = setTimeout(() => { unwatch(); console.error('still read'); }, Number(process.argv[1]));
  const unwatch = watchPipeReader(process.pid, 1, () => { clearTimeout(late); console.error('gone'); });
`;

function into(reader: string, withinMs: number): string {
  const line = `"$NODE" --input-type=module -e "$PROGRAM" ${withinMs} | ${reader}`;
  const env = { ...process.env, NODE: process.execPath, PROGRAM: watches };
  return spawnSync('bash', ['-c', line], { env, encoding: 'utf8' }).stderr;
}

test('the end of a reader is noticed although nothing is written, and a reader that waits is no end', () => {
  assert.equal(into('true', 20_000), 'gone\n');
  assert.equal(into('cat', 1_500), 'still read\n');
});
