/** The address of a request's sender: a header counts only from a proxy that is trusted. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { createSenderReader } from '../../src/server/sender.ts';

const incoming = (remoteAddress: string, headers: Readonly<Record<string, string>>) =>
  ({ socket: { remoteAddress, encrypted: false }, headers }) as unknown as IncomingMessage;

test('without trusted proxies no header counts', () => {
  const senderOf = createSenderReader([]);
  const headers = { 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https' };
  assert.deepEqual(senderOf(incoming('::ffff:192.0.2.1', headers)), { address: '192.0.2.1', isSecure: false });
});

test('of the entries of trusted proxies the last one counts that no trusted proxy has', () => {
  const senderOf = createSenderReader(['10.0.0.0/24', '192.0.2.7', 'fd00::/8']);
  const https = { 'x-forwarded-proto': 'https' };
  const cases: readonly (readonly [peer: string, forwarded: string | null, address: string])[] = [
    ['10.0.0.5', '203.0.113.9', '203.0.113.9'],
    // The sender wrote the first entry, and may have wanted to be a proxy or another user.
    ['10.0.0.5', '198.51.100.1, 203.0.113.9', '203.0.113.9'],
    ['10.0.0.5', '10.0.0.8,203.0.113.9,192.0.2.7', '203.0.113.9'],
    ['::ffff:10.0.0.5', '203.0.113.9:4711', '203.0.113.9'],
    ['fd00::1', '[2001:db8::9]:4711', '2001:db8::9'],
    // Every entry is a proxy, so the farthest one sent it.
    ['10.0.0.5', '10.0.0.8, 10.0.0.9', '10.0.0.8'],
    ['10.0.0.5', null, '10.0.0.5'],
    ['10.0.0.5', ' , ', '10.0.0.5'],
  ];
  for (const [peer, forwarded, address] of cases) {
    const headers = forwarded === null ? https : { ...https, 'x-forwarded-for': forwarded };
    assert.deepEqual(senderOf(incoming(peer, headers)), { address, isSecure: true }, `${peer} ${forwarded}`);
  }
  const refused: readonly (readonly [peer: string, headers: Readonly<Record<string, string>>, message: RegExp])[] = [
    ['10.0.1.5', { ...https, 'x-forwarded-for': '10.0.0.5' }, /only from its proxy, and not from 10\.0\.1\.5/],
    ['fe80::1', https, /only from its proxy/],
    ['', https, /only from its proxy/],
    ['10.0.0.5', {}, /does not report in X-Forwarded-Proto/],
    ['10.0.0.5', { 'x-forwarded-proto': 'http' }, /without TLS/],
    ['10.0.0.5', { 'x-forwarded-proto': 'https, http' }, /without TLS/],
    ['10.0.0.5', { ...https, 'x-forwarded-for': 'unknown' }, /an entry that is not an address/],
    ['10.0.0.5', { ...https, 'x-forwarded-for': '203.0.113.9, ../..' }, /an entry that is not an address/],
  ];
  for (const [peer, headers, message] of refused) assert.throws(() => senderOf(incoming(peer, headers)), { message });
});
