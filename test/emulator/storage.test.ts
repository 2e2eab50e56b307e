// Cloud Storage over HTTP and the folders of the buckets: the same files.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { request, type IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import { crc32c } from '../../src/emulator/http/storage/downloads.ts';
import { type EmulatorFixture, type Reply, startTestEmulator } from './test-emulator.ts';
import { temporaryFolder } from '../support/folder.ts';

interface Shop {
  readonly cloud: EmulatorFixture;
  /** A path in the bucket `things` on disk. */
  readonly disk: (path: string) => string;
  /** A request by absolute path; the body unchanged. */
  readonly ask: (
    method: string,
    path: string,
    body?: string | Uint8Array,
    headers?: Record<string, string>,
  ) => Promise<Response>;
  /** The same with JSON in both directions. */
  readonly json: (method: string, path: string, body?: object) => Promise<Reply>;
  readonly put: (name: string, text: string, query?: string) => Promise<Reply>;
  readonly names: (query?: string) => Promise<readonly string[]>;
}

async function openShop(t: TestContext): Promise<Shop> {
  const cloud = await startTestEmulator(t);
  const shop: Shop = {
    cloud,
    disk: (path) => join(cloud.stateDir, 'buckets/things', path),
    ask: (method, path, body, headers = {}) =>
      fetch(`${cloud.emulator.url}${path}`, {
        method,
        headers,
        redirect: 'manual',
        ...(body === undefined ? {} : { body }),
      }),
    async json(method, path, body) {
      const reply = await shop.ask(method, path, body === undefined ? undefined : JSON.stringify(body));
      const text = await reply.text();
      return text === '' ? { status: reply.status } : (JSON.parse(text) as Reply);
    },
    async put(name, text, query = '') {
      const reply = await shop.ask(
        'POST',
        `/upload/storage/v1/b/things/o?uploadType=media&name=${encodeURIComponent(name)}${query}`,
        text,
      );
      return (await reply.json()) as Reply;
    },
    async names(query = '') {
      const { items = [], prefixes = [] } = await shop.json('GET', `/storage/v1/b/things/o?${query}`);
      return [...prefixes, ...items.map((item: Reply) => item.name)];
    },
  };
  return shop;
}

test('a file uploaded over HTTP is in the folder, and a file of the folder is an object', async (t) => {
  const { put, json, ask, disk } = await openShop(t);
  const made = await put('run/one.txt', 'one\n');
  assert.equal(made.size, '4');
  assert.equal(made.md5Hash, createHash('md5').update('one\n').digest('base64'));
  assert.equal(readFileSync(disk('run/one.txt'), 'utf8'), 'one\n');
  writeFileSync(disk('run/two.bin'), Buffer.from([0, 255, 10]));
  const two = await json('GET', '/storage/v1/b/things/o/run%2Ftwo.bin');
  assert.deepEqual([two.name, two.size], ['run/two.bin', '3']);
  for (const path of ['/download/storage/v1/b/things/o/run%2Ftwo.bin?alt=media', '/things/run/two.bin']) {
    const reply = await ask('GET', path);
    assert.deepEqual([...new Uint8Array(await reply.arrayBuffer())], [0, 255, 10]);
    assert.equal(reply.headers.get('x-goog-generation'), two.generation);
  }
  // A worker's change creates another generation.
  writeFileSync(disk('run/one.txt'), 'more than one\n');
  const changed = await json('GET', '/storage/v1/b/things/o/run%2Fone.txt');
  assert.ok(BigInt(changed.generation) > BigInt(made.generation));
  assert.equal(changed.md5Hash, undefined, 'the checksum of the old bytes is not reported for the new ones');
  // A folder that exists only for an object is removed with it. A worker's folder stays.
  mkdirSync(disk('kept'));
  for (const name of ['run%2Fone.txt', 'run%2Ftwo.bin']) await json('DELETE', `/storage/v1/b/things/o/${name}`);
  assert.deepEqual(readdirSync(disk('')), ['kept']);
});

test('lists have prefixes, delimiters, offsets and pages, in the order of names', async (t) => {
  const { put, names, json, disk } = await openShop(t);
  for (const name of ['a', 'b/1', 'b/2', 'b/c/3', 'b-', 'b0', 'z']) await put(name, name);
  mkdirSync(disk('made/by a user'), { recursive: true });
  assert.deepEqual(await names(), ['a', 'b-', 'b/1', 'b/2', 'b/c/3', 'b0', 'made/', 'made/by a user/', 'z']);
  assert.deepEqual(await names('delimiter=/'), ['b/', 'made/', 'a', 'b-', 'b0', 'z']);
  assert.deepEqual(await names('delimiter=/&prefix=b/'), ['b/c/', 'b/1', 'b/2']);
  // The real gcsfuse lists a folder that holds only objects too.
  assert.deepEqual(await names('matchGlob=&startOffset=&endOffset=&pageToken=&prefix=b'), [
    'b-',
    'b/1',
    'b/2',
    'b/c/3',
    'b0',
  ]);
  assert.deepEqual(await names('startOffset=b/2&endOffset=made/'), ['b/2', 'b/c/3', 'b0']);
  assert.deepEqual(await names('delimiter=/&includeTrailingDelimiter=true'), [
    'b/',
    'made/',
    'a',
    'b-',
    'b0',
    'made/',
    'z',
  ]);
  for (const query of ['', 'delimiter=/&']) {
    const whole = await names(query);
    const paged: string[] = [];
    let token = '';
    do {
      const page = await json('GET', `/storage/v1/b/things/o?${query}maxResults=2&pageToken=${token}`);
      assert.ok((page.items ?? []).length + (page.prefixes ?? []).length <= 2);
      paged.push(...(page.prefixes ?? []), ...(page.items ?? []).map((item: Reply) => item.name));
      token = page.nextPageToken ?? '';
    } while (token !== '');
    assert.deepEqual(paged.toSorted(), [...whole].toSorted());
  }
});

test('preconditions apply to the current object', async (t) => {
  const { put, json, disk } = await openShop(t);
  const first = await put('a', '1', '&ifGenerationMatch=0');
  assert.equal((await put('a', '2', '&ifGenerationMatch=0')).error.code, 412);
  assert.equal(readFileSync(disk('a'), 'utf8'), '1');
  const second = await put('a', '2', `&ifGenerationMatch=${first.generation}`);
  assert.ok(BigInt(second.generation) > BigInt(first.generation));
  assert.equal((await put('a', '3', `&ifGenerationMatch=${first.generation}`)).error.code, 412);
  const path = '/storage/v1/b/things/o/a';
  assert.equal((await json('DELETE', `${path}?ifGenerationMatch=${first.generation}`)).error.code, 412);
  assert.equal((await json('GET', `${path}?generation=${first.generation}`)).error.code, 404);
  const described = await json('PATCH', path, { metadata: { step: '7', gone: 'x' }, contentType: 'text/x' });
  assert.deepEqual([described.metageneration, described.generation], ['2', second.generation]);
  const again = await json('PATCH', `${path}?ifMetagenerationMatch=2`, { metadata: { gone: null } });
  assert.deepEqual([again.metadata, again.contentType, again.metageneration], [{ step: '7' }, 'text/x', '3']);
  assert.equal((await json('PATCH', `${path}?ifMetagenerationMatch=2`, {})).error.code, 412);
  assert.deepEqual(readdirSync(join(disk('..'), '..', 'storage/uploads')), [], 'a refused upload leaves nothing');
});

test('uploads: multipart, and resumable in pieces', async (t) => {
  const { ask, json, disk } = await openShop(t);
  const bytes = Buffer.from('--x\r\nnot a boundary\r\n\0\n');
  const body = Buffer.concat([
    Buffer.from(
      '--==b==\r\ncontent-type: application/json\r\n\r\n{"name": "m/1", "metadata": {"k": "v"}}\r\n--==b==\r\nContent-Type: text/plain\r\n\r\n',
    ),
    bytes,
    Buffer.from('\r\n--==b==--'),
  ]);
  const type = { 'content-type': 'multipart/related; boundary="==b=="' };
  const made = (await (
    await ask('POST', '/upload/storage/v1/b/things/o?uploadType=multipart', body, type)
  ).json()) as Reply;
  assert.deepEqual([made.name, made.contentType, made.metadata], ['m/1', 'text/plain', { k: 'v' }]);
  assert.deepEqual(readFileSync(disk('m/1')), bytes);

  const begun = await ask('POST', '/upload/storage/v1/b/things/o?uploadType=resumable&name=big', '{}');
  const { pathname, search } = new URL(begun.headers.get('location') ?? '');
  const session = pathname + search;
  const part = (range: string, text?: string) => ask('PUT', session, text, { 'content-range': range });
  assert.deepEqual(((reply) => [reply.status, reply.headers.get('range')])(await part('bytes 0-3/*', 'abcd')), [
    308,
    'bytes=0-3',
  ]);
  // Query the progress. A repeated part counts once, and a part after a gap does not count.
  assert.equal((await part('bytes */8')).headers.get('range'), 'bytes=0-3');
  assert.equal((await part('bytes 2-5/*', 'cdef')).headers.get('range'), 'bytes=0-5');
  assert.equal((await part('bytes 7-7/8', 'h')).headers.get('range'), 'bytes=0-5');
  assert.equal(existsSync(disk('big')), false, 'an incomplete upload is not an object');
  const whole = (await (await part('bytes 6-7/8', 'gh')).json()) as Reply;
  assert.equal(whole.size, '8');
  assert.equal(readFileSync(disk('big'), 'utf8'), 'abcdefgh');
  assert.equal((await part('bytes */8')).status, 404, 'the upload has ended');
  const broken = await json('POST', '/upload/storage/v1/b/things/o?uploadType=multipart');
  assert.equal(broken.error.code, 400);
});

test('ranges of an object', async (t) => {
  const { put, ask } = await openShop(t);
  await put('a', '0123456789');
  const read = async (range: string) => {
    const reply = await ask('GET', '/storage/v1/b/things/o/a?alt=media', undefined, { range });
    return [reply.status, reply.status === 416 ? '' : await reply.text(), reply.headers.get('content-range')];
  };
  assert.deepEqual(await read('bytes=2-4'), [206, '234', 'bytes 2-4/10']);
  assert.deepEqual(await read('bytes=7-'), [206, '789', 'bytes 7-9/10']);
  assert.deepEqual(await read('bytes=-2'), [206, '89', 'bytes 8-9/10']);
  assert.deepEqual(await read('bytes=8-99'), [206, '89', 'bytes 8-9/10']);
  assert.equal((await read('bytes=10-'))[0], 416);
});

test('copies, moves and compositions', async (t) => {
  const { put, json, disk } = await openShop(t);
  await put('a', 'A');
  await put('b', 'B');
  const o = '/storage/v1/b/things/o';
  await json('POST', `${o}/a/copyTo/b/things/o/copies%2Fa`);
  const rewritten = await json('POST', `${o}/a/rewriteTo/b/others/o/a`);
  assert.deepEqual([rewritten.done, rewritten.resource.bucket], [true, 'others']);
  await json('POST', `${o}/b/moveTo/o/moved`);
  const sourceObjects = [{ name: 'a' }, { name: 'moved' }, { name: 'copies/a' }];
  const composed = await json('POST', `${o}/all/compose`, {
    sourceObjects,
    destination: { contentType: 'text/plain' },
  });
  assert.deepEqual([composed.componentCount, composed.contentType], [3, 'text/plain']);
  assert.equal(readFileSync(disk('all'), 'utf8'), 'ABA');
  assert.equal(existsSync(disk('b')), false);
  assert.equal((await json('POST', `${o}/nothing/copyTo/b/things/o/x`)).error.code, 404);
});

test('requests cannot leave the bucket', async (t) => {
  const { put, json, ask, disk, cloud } = await openShop(t);
  await put('a', 'A');
  symlinkSync(cloud.stateDir, disk('way'));
  symlinkSync(join(cloud.stateDir, 'cloud.db'), disk('link'));
  const tooLong = ['x'.repeat(256), `${'long/'.repeat(205)}x`, 'nul\0', '/etc/passwd'];
  for (const name of ['../../cloud.db', 'way/cloud.db', 'link', 'x/..', './a', 'a//b', ...tooLong]) {
    const path = `/storage/v1/b/things/o/${encodeURIComponent(name)}`;
    assert.equal((await json('GET', path)).error.code, 404, name);
    const put = await ask(
      'POST',
      `/upload/storage/v1/b/things/o?uploadType=media&name=${encodeURIComponent(name)}`,
      'x',
    );
    if (name !== 'link') assert.equal(put.status, 400, name);
  }
  assert.ok(existsSync(join(cloud.stateDir, 'cloud.db')));
  assert.equal(existsSync(disk('long')), false, 'a refused name creates no folder');
  assert.equal((await put('a/b', 'below a file')).error.code, 400);
});

test('buckets are created, listed and deleted, each with its location', async (t) => {
  const { put, json, cloud } = await openShop(t);
  const made = (body: object) => json('POST', '/storage/v1/b?project=emulator', body);
  assert.deepEqual(((b) => [b.location, b.locationType])(await made({ name: 'plain' })), ['US', 'multi-region']);
  const pair = { name: 'pair', location: 'US', customPlacementConfig: { dataLocations: ['US-CENTRAL1', 'US-WEST4'] } };
  const cases: readonly [object, string, string, readonly string[] | undefined][] = [
    [{ name: 'in-region', location: 'us-central2' }, 'US-CENTRAL2', 'region', undefined],
    [{ name: 'in-nam4', location: 'nam4' }, 'NAM4', 'dual-region', undefined],
    [pair, 'US', 'dual-region', ['US-CENTRAL1', 'US-WEST4']],
    [
      { name: 'in-zone', location: 'us-west4', customPlacementConfig: { dataLocations: ['us-west4-a'] } },
      'US-WEST4',
      'zone',
      ['US-WEST4-A'],
    ],
  ];
  for (const [body, location, type, parts] of cases) {
    const { name } = await made(body);
    const layout = await json('GET', `/storage/v1/b/${name}/storageLayout`);
    assert.deepEqual(
      [layout.location, layout.locationType, layout.customPlacementConfig?.dataLocations],
      [location, type, parts],
    );
  }
  assert.equal((await made({ name: 'plain' })).error.code, 409);
  assert.equal((await made({ name: 'mars', location: 'mars' })).error.code, 400);
  // A bucket that only a worker wrote has no location until one is set.
  await put('a', 'A');
  assert.equal((await json('GET', '/storage/v1/b/things')).location, undefined);
  assert.match((await cloud.admin('bucket', 'things')).message, /has no location yet/);
  await cloud.admin('bucket', 'things', { location: 'us-central1,us-east1' });
  const placed = await json('GET', '/storage/v1/b/things');
  assert.deepEqual([placed.location, placed.customPlacementConfig.dataLocations], ['US', ['US-CENTRAL1', 'US-EAST1']]);
  const list = await json('GET', '/storage/v1/b?project=emulator&prefix=in-');
  assert.deepEqual(
    list.items.map((bucket: Reply) => bucket.name),
    ['in-nam4', 'in-region', 'in-zone'],
  );
  assert.equal((await json('DELETE', '/storage/v1/b/things')).error.code, 409);
  assert.equal((await json('DELETE', '/storage/v1/b/plain')).status, 204);
  assert.equal((await json('GET', '/storage/v1/b/plain')).error.code, 404);
  await assert.rejects(cloud.admin('bucket', 'things', { location: 'mars' }), /is not a location/);
});

test('the checksum is CRC-32C', () => {
  // The check value of CRC-32C (RFC 3720, appendix B.4): 32 bytes of zero, and of one.
  assert.equal(crc32c(new Uint8Array(32)), 0x8a9136aa);
  assert.equal(crc32c(new Uint8Array(32).fill(255)), 0x62a8ab43);
});

test('a reader with the current version gets 304 and no body', async (t) => {
  const { put, ask } = await openShop(t);
  const { generation, etag } = await put('a', 'one');
  const status = async (query: string, headers: Record<string, string> = {}): Promise<number> =>
    (await ask('GET', `/storage/v1/b/things/o/a?${query}`, undefined, headers)).status;
  for (const alt of ['', '&alt=media']) {
    assert.equal(await status(`ifGenerationNotMatch=${generation}${alt}`), 304);
    assert.equal(await status(`ifMetagenerationNotMatch=1${alt}`), 304);
    assert.equal(await status(alt, { 'if-none-match': `"${etag}"` }), 304);
    assert.equal(await status(alt, { 'if-none-match': '"another"' }), 200);
    assert.equal(await status(alt, { 'if-match': etag }), 200);
    assert.equal(await status(alt, { 'if-match': '"another"' }), 412);
    assert.equal(await status(`ifGenerationMatch=1${alt}`), 412);
    assert.equal(await status(`ifGenerationNotMatch=1${alt}`), 200);
  }
  // A writer must learn that nothing was written.
  const gone = await ask('DELETE', `/storage/v1/b/things/o/a?ifGenerationNotMatch=${generation}`);
  assert.equal(gone.status, 412);
});

test('faults affect Storage only if they name it', async (t) => {
  const { cloud, put, ask } = await openShop(t);
  await put('a', 'one');
  const status = async (method: string, path: string, body?: string): Promise<number> =>
    (await ask(method, path, body)).status;
  const read = '/storage/v1/b/things/o/a';
  const strikes = async (verb: string, target: string, options: Record<string, string> = {}): Promise<number[]> => {
    await cloud.admin(verb, target, options);
    const seen = [
      await status('GET', read),
      await status('GET', '/things/a'),
      await status('GET', '/storage/v1/b/things/o'),
      await status('POST', '/upload/storage/v1/b/things/o?uploadType=media&name=b', 'two'),
      await status('POST', `${read}/rewriteTo/b/things/o/c`, '{}'),
      await status('GET', '/storage/v1/b/things'),
      await status('GET', '/storage/v1/b'),
    ];
    await cloud.admin('clear', verb);
    return seen;
  };
  assert.deepEqual(await strikes('flaky', 'storage', { p: '1' }), Array(7).fill(503));
  assert.deepEqual(await strikes('flaky', 'storage', { p: '1', times: '1' }), [503, ...Array(6).fill(200)]);
  assert.deepEqual(await strikes('flaky', 'read', { p: '1' }), Array(7).fill(200));
  assert.deepEqual(await strikes('permission', 'login'), Array(7).fill(401));
  assert.deepEqual(await strikes('permission', 'storage.objects.get'), [403, 403, 200, 200, 200, 200, 200]);
  assert.deepEqual(await strikes('permission', 'storage.objects.create'), [200, 200, 200, 403, 403, 200, 200]);
  assert.deepEqual(await strikes('permission', 'storage.objects.list'), [200, 200, 403, 200, 200, 200, 200]);
  assert.deepEqual(await strikes('permission', 'storage.buckets.list'), [200, 200, 200, 200, 200, 200, 403]);
  assert.deepEqual(await strikes('slow', 'storage', { replies: '1ms', times: '3' }), Array(7).fill(200));
  await assert.rejects(cloud.admin('slow', 'storage', { factor: '3' }), /Storage has no actions/);
  // The Cloud TPU API is another service.
  await cloud.admin('flaky', 'storage', { p: '1' });
  await cloud.admin('slow', 'storage', { replies: '1h' });
  await cloud.ok('GET', 'nodes');
});

test("a worker's link instead of a bucket or a note exposes no other file of this machine", async (t) => {
  const { cloud, put, ask, json } = await openShop(t);
  await put('a', '1');
  const outside = temporaryFolder(t);
  writeFileSync(join(outside, 'secret'), 'secret');
  const inBuckets = (path: string): string => join(cloud.stateDir, 'buckets', path);
  symlinkSync(outside, inBuckets('evil'));
  symlinkSync(join(outside, 'later'), inBuckets('dangling'));
  for (const path of ['/storage/v1/b/evil', '/storage/v1/b/evil/o', '/storage/v1/b/evil/o/secret?alt=media'])
    assert.equal((await ask('GET', path)).status, 404, path);
  for (const bucket of ['evil', 'dangling'])
    assert.equal((await ask('POST', `/upload/storage/v1/b/${bucket}/o?uploadType=media&name=x`, 'x')).status, 404);
  const { items } = await json('GET', '/storage/v1/b');
  assert.deepEqual(
    items.map((item: Reply) => item.name),
    ['things'],
  );
  // A FIFO as a note does not block, and an invalid note is ignored.
  rmSync(inBuckets('.locations/things'), { force: true });
  mkdirSync(inBuckets('.locations'), { recursive: true });
  execFileSync('mkfifo', [inBuckets('.locations/things')]);
  assert.equal((await ask('GET', '/storage/v1/b/things')).status, 200);
  for (const note of ['null', '5', '[]', '{"location":5}', '{"location":"US","locationType":"x","dataLocations":7}']) {
    rmSync(inBuckets('.locations/things'));
    writeFileSync(inBuckets('.locations/things'), note);
    assert.equal((await ask('GET', '/storage/v1/b/things')).status, 200, note);
  }
  rmSync(inBuckets('.locations'), { recursive: true });
  symlinkSync(outside, inBuckets('.locations'));
  await json('POST', '/storage/v1/b?project=p', { name: 'another', location: 'US' });
  assert.deepEqual(readdirSync(outside), ['secret']);
});

for (const swapped of ['the object', 'a folder above it'] as const) {
  test(`${swapped} becomes a link during the upload of a copy: nothing outside is read`, async (t) => {
    const { cloud, put, disk } = await openShop(t);
    const outside = temporaryFolder(t);
    writeFileSync(join(outside, 'file'), 'secret');
    await put('run/file', 'plain');
    const url = `${cloud.emulator.url}/storage/v1/b/things/o/run%2Ffile/rewriteTo/b/things/o/copied`;
    const copying = request(url, { method: 'POST', headers: { 'content-length': '2' } });
    copying.write('{');
    await sleep(200);
    if (swapped === 'the object') {
      rmSync(disk('run/file'));
      symlinkSync(join(outside, 'file'), disk('run/file'));
    } else {
      renameSync(disk('run'), disk('moved'));
      symlinkSync(outside, disk('run'));
    }
    copying.end('}');
    const [reply] = (await once(copying, 'response')) as [IncomingMessage];
    reply.resume();
    assert.equal(reply.statusCode, 404);
    assert.equal(existsSync(disk('copied')), false);
  });
}

test('a list continues after a folder whose name is not UTF-8', async (t) => {
  const { put, names, disk } = await openShop(t);
  await put('b', '1');
  mkdirSync(Buffer.concat([Buffer.from(disk('a')), Buffer.from([0xff, 0xfe])]));
  assert.ok((await names()).includes('b'));
});
