/** Writes that are gathered: all that one piece of code writes is one write below, in order, and nothing waits longer. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Writable } from 'node:stream';
import { test } from 'node:test';
import { gatherWrites } from '../../src/remote/ssh-connection.ts';

/** A stream that writes down in which portions it was written to. */
function openStream(): { readonly stream: Writable; readonly portions: string[] } {
  const portions: string[] = [];
  const stream = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, done) {
      portions.push(String(chunk));
      done();
    },
    writev(chunks, done) {
      portions.push(chunks.map(({ chunk }) => String(chunk)).join('|'));
      done();
    },
  });
  gatherWrites(stream);
  return { stream, portions };
}

test('what is written in one go is one portion, and what comes later is another', async () => {
  const { stream, portions } = openStream();
  for (const word of ['a', 'b', 'c']) stream.write(word);
  assert.deepEqual(portions, []);
  await Promise.resolve();
  assert.deepEqual(portions, ['a|b|c']);
  stream.write('d');
  await Promise.resolve();
  assert.deepEqual(portions, ['a|b|c', 'd']);
});

test('an end in the same breath loses nothing, and whoever waits for a write is told', async () => {
  const { stream, portions } = openStream();
  const written = new Promise<void>((resolve) => stream.write('a', () => resolve()));
  stream.end('b');
  await Promise.all([written, once(stream, 'finish')]);
  assert.equal(portions.join('|'), 'a|b');
});
