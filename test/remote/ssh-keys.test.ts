/** jobman's own login key. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ensureOwnKey, loadSsh2 } from '../../src/remote/ssh-keys.ts';
import { openWorld } from '../support/world.ts';

test('a malformed key of the library is not stored', async (t) => {
  const { home } = openWorld(t);
  const { utils } = await loadSsh2();
  const good = utils.generateKeyPairSync('ed25519', { comment: 'jobman' });
  const body = good.private.replaceAll(/-----.*-----|\s/gu, '');
  const malformed = good.private.replaceAll(/^[^-].*\n/gmu, '').replace('\n', `\n${body.slice(0, body.length / 2)}\n`);
  assert.ok(utils.parseKey(malformed) instanceof Error);
  let generated = 0;
  t.mock.method(utils, 'generateKeyPairSync', () => {
    generated += 1;
    return { ...good, private: generated < 3 ? malformed : good.private };
  });
  const { publicKey } = await ensureOwnKey(home);
  assert.equal(generated, 3);
  assert.equal(publicKey, good.public.trim());
});

test('the buffers that a connection keeps are cut from small blocks', async () => {
  await loadSsh2();
  const block = (): number => Buffer.from('kept').buffer.byteLength;
  // The present block has Node's own size until it is used up.
  for (let made = 0; made < 64 * 1024 && block() > 4 * 1024; made += 1) block();
  assert.ok(block() <= 4 * 1024, `${block()} bytes`);
});
