// Messages of a failed setup step: the cause before the command.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatStepFailure } from '../../src/backends/machines.ts';

test('a failed step is reported by the last line with a meaning, and by its command only where that is short', () => {
  const long = `sudo -n env HOME=/home/zephyr PATH=${'/a/long/folder:'.repeat(20)} docker info`;
  const rows: readonly (readonly [string, string | undefined, string, string])[] = [
    ['4', 'ls /x', 'It is not there.\n', 'It is not there (exit code 4 of `ls /x`)'],
    ['1', long, 'pulling\nno dockerd\n', 'no dockerd (exit code 1 of `docker info`)'],
    ['1', 'x'.repeat(300), 'no room\n', 'no room (exit code 1)'],
    ['1', undefined, 'ERROR: no such package\n[notice] a new pip\n\n', 'ERROR: no such package (exit code 1)'],
    ['1', undefined, ' 10%\r 50%\rbroken pipe', 'broken pipe (exit code 1)'],
    ['1', 'case $1 in', 'no right to do that\n', 'no right to do that (exit code 1)'],
    ['2', 'false', '', 'exit code 2 of `false`, no output'],
    ['2', 'x'.repeat(300), '', 'exit code 2, no output'],
  ];
  for (const [code, command, printed, text] of rows) assert.equal(formatStepFailure(code, command, printed), text);
});
