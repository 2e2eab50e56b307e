// Parts of the wire format that the tests of the API do not reach.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { queryEmulator } from '../../src/emulator/admin.ts';
import { answersInTime, mountPoints, findExcludedMounts } from '../../src/emulator/hosts/disk.ts';
import { authorizedKeys } from '../../src/emulator/hosts/keys.ts';
import { socketOwner } from '../../src/emulator/http/peer-access.ts';
import { durationMs, formatTimestamp } from '../../src/emulator/wire/json.ts';
import { paginate, type SortKeys } from '../../src/emulator/wire/lists.ts';
import { createRandomStream } from '../../src/emulator/world/random.ts';

test('a page continues after its last name, whatever was added or removed meanwhile', () => {
  const list = (names: string, pageToken?: string): ReturnType<typeof paginate<string>> =>
    paginate(names.split(''), byName, 'list', { pageSize: '2', pageToken });
  const byName = (value: string): SortKeys => [{ value, descends: false }];
  const first = list('acegi');
  assert.deepEqual(first.items, ['a', 'c']);
  assert.deepEqual(list('abdegi', first.nextPageToken).items, ['d', 'e']);
  assert.equal(list('ac', first.nextPageToken).nextPageToken, undefined);
  assert.throws(() => paginate(['a'], byName, 'another', { pageToken: first.nextPageToken }), /not valid/);
  assert.throws(() => paginate(['a'], byName, 'list', { pageSize: '-1' }), /page_size/);
});

test('times are RFC 3339 with nine decimals, durations are seconds', () => {
  assert.match(formatTimestamp(Date.UTC(2026, 4, 1, 12, 0, 0, 123)), /^2026-05-01T12:00:00\.123\d{6}Z$/);
  assert.equal(durationMs('1.5s'), 1500);
});

test('the seed and the position determine the random numbers', () => {
  const one = createRandomStream(7);
  const first = [one.next(), one.next()];
  const again = createRandomStream(7);
  assert.deepEqual([again.next(), again.next()], first);
  assert.equal(createRandomStream(one.position).next(), one.next());
  assert.notEqual(createRandomStream(8).next(), first[0]);
});

test('invalid ssh-keys lines are skipped', () => {
  assert.deepEqual(authorizedKeys('ada:ssh-rsa AAAA ada@home\n\nnonsense\n# a:b c\nbob:ssh-ed25519 BBBB'), [
    { user: 'ada', type: 'ssh-rsa', blob: 'AAAA' },
    { user: 'bob', type: 'ssh-ed25519', blob: 'BBBB' },
  ]);
});

test("a host shows the machine's file systems, not those of the kernel or of other systems", async () => {
  const mountinfo = [
    '27 1 254:0 / / rw - ext4 /dev/vda rw',
    '22 27 0:21 / /proc rw - proc proc rw',
    '30 27 8:1 / /home rw - ext4 /dev/sdb rw',
    '31 30 0:40 / /home/ada\\040b/nfs rw - nfs4 server:/x rw',
    '32 27 0:41 / /var/lib/docker/overlay2/x rw - overlay overlay rw',
    '33 27 0:42 / /tmp/state/hosts/x rw - tmpfs tmpfs rw',
    '34 27 0:43 / /etc/hosts rw - ext4 /dev/vda rw',
    // A hanging mount would block the emulator forever.
    '35 27 0:44 / /home/ada/bucket rw - fuse.gcsfuse my-bucket rw',
    '36 27 8:2 / /home/ada/disk rw - fuseblk /dev/sdc rw',
  ].join('\n');
  assert.deepEqual(mountPoints(mountinfo, '/tmp/state'), ['/etc/hosts', '/home/ada b/nfs', '/home/ada/disk']);
  // A mount of another machine is shown while it answers; a mount of a program is never accessed.
  const asked: string[] = [];
  const answer = (isThere: boolean) => async (path: string) => {
    asked.push(path);
    return isThere;
  };
  assert.deepEqual([...(await findExcludedMounts(mountinfo, answer(true)))], ['/home/ada/bucket']);
  assert.deepEqual([...(await findExcludedMounts(mountinfo, answer(false)))], ['/home/ada/bucket', '/home/ada b/nfs']);
  assert.deepEqual(asked, ['/home/ada b/nfs', '/home/ada b/nfs']);
});

test('a child process checks whether a mount answers, and may be abandoned', async () => {
  assert.equal(await answersInTime('/'), true);
  assert.equal(await answersInTime('/no/such/place'), false);
  assert.equal(await answersInTime('3600', 10, 'sleep'), false);
});

test("the owner of a connection is read from the peer's row, not from ours", () => {
  const table = [
    '  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode',
    '   0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 1 1',
    '   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 2 1',
    '   2: 0A00000A:C351 0100000A:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 3 1',
  ].join('\n');
  assert.deepEqual(socketOwner(table, 50_000, 8080), { uid: 1000, state: '01' });
  assert.equal(socketOwner(table, 50_001, 8080), undefined);
});

test('an emulator that hangs is a time-out for its admin client, and not one that does not run', async (t) => {
  const server = createServer(() => undefined);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  await assert.rejects(queryEmulator(`http://127.0.0.1:${port}`, 'info', 50), { status: 504 });
  await assert.rejects(queryEmulator('http://127.0.0.1:1', 'info', 50), { status: 0 });
});
