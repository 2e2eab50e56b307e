/** Names that a cluster chooses are cells and marks of one line: they control no terminal and look like no other row. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createLogText } from '../../src/cli/cluster/log-text.ts';
import type { Cli } from '../../src/cli/context.ts';
import { aligned } from '../../src/cli/render/aligned.ts';
import { listLines } from '../../src/cli/render/list.ts';
import { view } from './support/pretend.ts';

const evil = 'x\u001b]0;PWN\u0007\n000009  ada';

test('the mark in front of a log line is one word, also where the container has another name', async () => {
  for (const isTerminal of [true, false]) {
    let text = '';
    const stdout = { isTerminal, closed: false, write: (part: string | Uint8Array) => (text += String(part)) };
    const cli = { io: { stdout }, screen: { colour: true }, json: false } as unknown as Cli;
    const flags = { allContainers: true } as Parameters<typeof createLogText>[1];
    await createLogText(cli, flags, true).write({ name: `train-${evil}`, index: null }, evil, Buffer.from('one\n'));
    // oxlint-disable-next-line no-control-regex
    assert.match(text, /^\[[^\u0000-\u001f]*\] one\n$/);
  }
});

test('a line end in a cell begins no row', () => {
  assert.equal(
    aligned(
      [
        ['POD', 'NODE'],
        [evil, 'a\nb'],
      ],
      ['left', 'left'],
      null,
    ).length,
    2,
  );
  for (const columns of [null, 200, 50]) {
    const lines = listLines([view({ id: evil })], {
      columns,
      ink: (_, part) => part,
      unicode: false,
      now: 0,
    });
    assert.ok(lines.every((line) => !line.includes('\n')));
  }
});
