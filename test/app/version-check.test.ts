/** The order of versions, the time of the next check, and the version at the configured source. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import {
  compareVersions,
  isCheckDue,
  parseVersionNotes,
  versionNotice,
  type VersionNotes,
} from '../../src/app/version-check.ts';
import { remoteVersion } from '../../src/files/version-source.ts';
import { download } from '../../src/wiring/version-check.ts';
import { openWorld, type World } from '../support/world.ts';

const now = Date.UTC(2026, 10, 22, 1, 0, 0);
const hour = 3_600_000;
const notes: VersionNotes = {
  lastCheck: now,
  remoteVersion: '1.10.0',
  intervalMs: hour,
  message: null,
  lastError: null,
  repository: null,
};

suite('versions', () => {
  // The line of semver.org (section 11), and pairs that a comparison of digits gets wrong: 1.10.0 is 1100, 2.0.0 is 200.
  const inOrder = [
    '0.0.9',
    '1.0.0-alpha',
    '1.0.0-alpha.1',
    '1.0.0-alpha.beta',
    '1.0.0-beta',
    '1.0.0-beta.2',
    '1.0.0-beta.11',
    '1.0.0-rc.1',
    '1.0.0',
    '1.3.14',
    '1.10.2',
    '2.0.0',
    '10.0.0',
    '99999999999999999998.0.0',
    '99999999999999999999.0.0',
  ];
  test('are in the order of semver.org', () => {
    for (const [index, one] of inOrder.entries()) {
      for (const [at, other] of inOrder.entries()) {
        assert.equal(compareVersions(one, other), Math.sign(index - at), `${one} and ${other}`);
      }
    }
  });
  test('have no order by build metadata, and may begin with v', () => {
    assert.equal(compareVersions('1.0.0+a', '1.0.0+b'), 0);
    assert.equal(compareVersions('v1.2.3', '1.2.3'), 0);
  });
  test('that are invalid have no order', () => {
    for (const none of ['', '1', '1.2', '01.2.3', '1.2.3-', 'latest', '1.2.3 \u001b[2J']) {
      assert.equal(compareVersions(none, '1.0.0'), undefined, none);
      assert.equal(versionNotice({ ...notes, remoteVersion: none }, '0.1.0'), null);
    }
  });
});

suite('the notes', () => {
  test('give the time of the next check, also after the clock was set back', () => {
    assert.deepEqual(
      [0, hour - 1, hour, -2 * hour].map((later) => isCheckDue(notes, now + later)),
      [false, false, true, true],
    );
    assert.equal(isCheckDue({ ...notes, intervalMs: 1 }, now + 59_999), false, 'no interval is shorter than a minute');
  });
  test('whose time is not a number do not delay the next check', () => {
    const isDue = (text: string) => isCheckDue(parseVersionNotes(text, null), now);
    for (const lastCheck of ['2026-11-22T01:00:00.000Z', null, { at: now }])
      assert.equal(isDue(JSON.stringify({ ...notes, lastCheck })), true, JSON.stringify(lastCheck));
    assert.equal(isDue(JSON.stringify(notes)), false);
  });
  test('give a message if the other version is newer', () => {
    assert.equal(versionNotice(notes, '1.9.0'), 'jobman 1.10.0 is available; this is 1.9.0.');
    assert.equal(
      versionNotice({ ...notes, message: 'Run ./update.sh.' }, '1.9.0'),
      'jobman 1.10.0 is available; this is 1.9.0. Run ./update.sh.',
    );
    for (const own of ['1.10.0', '1.11.0', '2.0.0-rc.1']) assert.equal(versionNotice(notes, own), null, own);
    assert.equal(versionNotice({ ...notes, remoteVersion: null }, '1.0.0'), null);
  });
});

/** A release as the recipe packs it: libraries with their own package.json, listed before ours. */
function release(world: World, name: string, version: string, ...how: readonly string[]): string {
  const folder = join(world.folder, name);
  const deep = `jobman/node_modules/${'a-long-name/'.repeat(12)}package.json`;
  const files: Readonly<Record<string, string>> = {
    'jobman/node_modules/other/package.json': '{"version":"99.0.0"}',
    [deep]: '{"version":"98.0.0"}',
    'jobman/big': 'x'.repeat(300_000),
    'jobman/package.json': JSON.stringify({ name: 'jobman', version }),
  };
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  const archive = join(world.folder, `${name}.tar.gz`);
  execFileSync('tar', ['-czf', archive, ...how, '-C', folder, ...Object.keys(files)]);
  return archive;
}

const latestVersion = (repository: string, packageJsonPath = 'package.json', signal = AbortSignal.timeout(20_000)) =>
  remoteVersion({
    repository,
    packageJsonPath,
    fetch: (address, bytes) => download({ env: {} }, address, bytes, signal),
    signal,
  });

suite('the newest version', () => {
  for (const format of ['gnu', 'pax', 'ustar']) {
    test(`is that of a release and not of a library in it (${format})`, async (t) => {
      const world = openWorld(t);
      const archive = release(world, 'new', '1.2.3', `--format=${format}`);
      assert.equal(await latestVersion(archive), '1.2.3');
      assert.equal(await latestVersion(archive, 'jobman/package.json'), '1.2.3');
      assert.equal(await latestVersion(archive, 'other/package.json'), '99.0.0');
      await assert.rejects(latestVersion(archive, 'none/package.json'), /new\.tar\.gz has no none\/package\.json/);
    });
  }

  test('is that of a checkout, or of the newest archive in a folder', async (t) => {
    const world = openWorld(t);
    const folder = join(world.folder, 'releases');
    mkdirSync(folder);
    await assert.rejects(latestVersion(folder), /has neither package\.json nor a \.tar\.gz/);
    for (const [version, at] of [
      ['1.10.0', 2],
      ['1.9.0', 1],
    ] as const) {
      const archive = release(world, `releases/jobman-${version}`, version);
      utimesSync(archive, at, at);
    }
    assert.equal(await latestVersion(folder), '1.10.0');
    writeFileSync(join(folder, 'package.json'), '{"version":"3.0.0"}');
    assert.equal(await latestVersion(folder), '3.0.0');
  });

  test('is downloaded, and every failure has a message', async (t) => {
    const world = openWorld(t);
    const replies: Readonly<Record<string, () => string | Buffer | undefined>> = {
      '/package.json': () => '{"version":"1.4.0"}',
      '/none': () => '{"name":"x"}',
      '/html': () => '<html>',
      '/large': () => 'x'.repeat(2_000_000),
      '/cut.tar.gz': () => Buffer.from([0x1f, 0x8b, 8, 0, 0]),
    };
    const server = createServer((request, reply) => {
      const body = replies[request.url ?? '']?.();
      const location = { '/moved': '/package.json', '/circle': '/circle' }[request.url ?? ''];
      if (location !== undefined) reply.writeHead(302, { location }).end();
      else reply.writeHead(body === undefined ? 404 : 200).end(body);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    world.atEnd(async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    assert.equal(await latestVersion(`${url}/package.json`), '1.4.0');
    await assert.rejects(latestVersion(`${url}/none`), /has no version/);
    await assert.rejects(latestVersion(`${url}/html`), /has no version/);
    await assert.rejects(latestVersion(`${url}/large`), /longer than 1 MiB/);
    assert.equal(await latestVersion(`${url}/moved`), '1.4.0');
    await assert.rejects(latestVersion(`${url}/circle`), /redirects too often/);
    await assert.rejects(latestVersion(`${url}/cut.tar.gz`));
    await assert.rejects(latestVersion(`${url}/gone`), /answered 404/);
    await assert.rejects(latestVersion(join(world.folder, 'nothing')), /ENOENT/);
    await assert.rejects(latestVersion(`${url}/package.json`, 'package.json', AbortSignal.abort()));
  });
});
