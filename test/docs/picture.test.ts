/** docs/preempt-and-resume.svg, which tools/picture.ts records from real terminals. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { root } from '../support/root.ts';

const picture = readFileSync(join(root, 'docs/preempt-and-resume.svg'), 'utf8');

test('the picture is small, and needs nothing from elsewhere', () => {
  assert.ok(picture.length < 60_000, `${picture.length} bytes; record fewer screens with npm run picture`);
  assert.doesNotMatch(picture, /<script|@import|href="(?!#)|url\(/);
});

test('the last screen, which is visible without animation, shows the whole story', () => {
  const texts = new Map([...picture.matchAll(/<text id="(\w+)"[^>]*>(.*)<\/text>/g)].map(([, id, text]) => [id, text]));
  const last = picture.split('<g>').at(-1) ?? '';
  const screen = [...last.matchAll(/href="#(\w+)"/g)].map(([, id]) => (texts.get(id) ?? '').replaceAll(/<[^>]*>/g, ''));
  for (const sign of [
    /preempted/,
    /resuming at step \d+/,
    /final loss 0\.0643610742/,
    /succeeded/,
    /emulator preempt 1/,
  ])
    assert.ok(
      screen.some((line) => sign.test(line)),
      `${String(sign)} is not in\n${screen.join('\n')}`,
    );
});
