/** The check for a newer version: a command reads a file, and starts at most one check per interval. */

import { loadClusterSettings } from '../support/settings.ts';
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { Services } from '../../src/app/services.ts';
import type { VersionNotes } from '../../src/app/version-check.ts';
import { checkVersion, newerVersion } from '../../src/wiring/version-check.ts';
import { eventually } from '../support/eventually.ts';
import { openWorld, type World } from '../support/world.ts';

const now = Date.UTC(2026, 10, 22, 1, 0, 0);
const day = 86_400_000;

/** A home with those settings, and a program that replaces jobman and records how it was started. */
function homeWith(world: World, newVersion: object | null, home = world.home) {
  mkdirSync(world.home, { recursive: true });
  if (newVersion !== null) writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ newVersion }));
  const starts = join(world.folder, 'starts');
  let time = now;
  const services = {
    io: {
      env: world.env,
      pid: process.pid,
      version: '1.0.0',
      userHome: world.folder,
      launcher: ['/bin/sh', '-c', `echo "$0 $*" >>${starts}`],
      now: () => time,
    },
    home,
    settingsFiles: () => ({ home, template: null }),
    clusterSettings: () => loadClusterSettings({ home, template: null, userHome: world.folder }),
  } as object as Services;
  return {
    services,
    file: join(home, 'last_update_check.json'),
    later: (ms: number) => void (time += ms),
    /** Number of started checks, once it is `expected` and no more come. */
    started: async (expected: number): Promise<number> => {
      const count = (): number =>
        existsSync(starts) ? readFileSync(starts, 'utf8').trim().split('\n').filter(Boolean).length : 0;
      await eventually(() => count() >= expected);
      return count();
    },
    notes: () => JSON.parse(readFileSync(join(home, 'last_update_check.json'), 'utf8')) as VersionNotes,
  };
}

suite('a command', () => {
  test('starts at most one check per interval, and none without a repository', async (t) => {
    const world = openWorld(t);
    const { services, file, later, started } = homeWith(world, { repository: '/releases' });
    for (let turn = 0; turn < 5; turn += 1) assert.equal(newerVersion(services), null);
    assert.equal(await started(1), 1);
    later(day - 1);
    newerVersion(services);
    later(1);
    newerVersion(services);
    newerVersion(services);
    assert.equal(await started(2), 2);

    writeFileSync(join(world.home, 'settings.json'), '{"newVersion":{"repository":null},"harbor":{"url":"x"}}');
    writeFileSync(file, 'nonsense');
    newerVersion(services);
    assert.equal(readFileSync(file, 'utf8'), 'nonsense');
    assert.equal(await started(2), 2);
  });

  test('reports the last result, and works without one', (t) => {
    const world = openWorld(t);
    const { services, file } = homeWith(world, { repository: '/releases' });
    const seen = { lastCheck: now, remoteVersion: '1.1.0', message: 'Ask Eve.', repository: '/releases' };
    writeFileSync(file, JSON.stringify(seen));
    assert.equal(newerVersion(services), 'jobman 1.1.0 is available; this is 1.0.0. Ask Eve.');
    // Also if no check can start because its notes cannot be written.
    const { services: stuck, later } = homeWith(world, { repository: '/releases' });
    mkdirSync(`${file}.${process.pid}`);
    later(2 * day);
    assert.match(newerVersion(stuck) ?? '', /1\.1\.0 is available/);
    // A home that cannot exist, because its path is a file.
    const nowhere = homeWith(world, { repository: '/releases' }, join(file, 'home'));
    assert.equal(newerVersion(nowhere.services), null);
  });
});

suite('notes about another repository', () => {
  const seen = { lastCheck: now, remoteVersion: '1.1.0', repository: '/releases' };

  test('are not reported if the settings name another one, or none', async (t) => {
    const world = openWorld(t);
    const { services, file, started, notes } = homeWith(world, { repository: '/releases' });
    writeFileSync(file, JSON.stringify(seen));
    const named = join(world.folder, 'named.json');
    const noticeFor = (newVersion: object | null): string | null => {
      writeFileSync(named, JSON.stringify(newVersion === null ? {} : { newVersion }));
      const files = { ...services.settingsFiles(), explicit: named };
      return newerVersion({ ...services, settingsFiles: () => files });
    };
    assert.match(noticeFor(null) ?? '', /1\.1\.0 is available/);
    assert.match(noticeFor({ check: '2h' }) ?? '', /1\.1\.0 is available/);
    assert.match(noticeFor({ repository: '/releases' }) ?? '', /1\.1\.0 is available/);
    assert.equal(noticeFor({ repository: null }), null);
    assert.equal(noticeFor({ repository: '/elsewhere' }), null);
    assert.equal(await started(1), 1);
    assert.deepEqual([notes().repository, notes().remoteVersion], ['/elsewhere', null]);
    assert.equal(newerVersion(services), null);
  });
});

suite('a check', () => {
  test('records the version, the time of the next check and the message', async (t) => {
    const world = openWorld(t);
    writeFileSync(join(world.folder, 'package.json'), '{"version":"1.1.0"}');
    const { services, notes } = homeWith(world, { repository: '~/', check: '2h', customMessage: 'Ask Eve.' });
    await checkVersion(services);
    assert.deepEqual(notes(), {
      lastCheck: now,
      remoteVersion: '1.1.0',
      intervalMs: 7_200_000,
      message: 'Ask Eve.',
      lastError: null,
      repository: '~/',
    });
    assert.equal(newerVersion(services), 'jobman 1.1.0 is available; this is 1.0.0. Ask Eve.');
  });

  test('without a result keeps the last version and the error; a disabled check deletes them', async (t) => {
    const world = openWorld(t);
    const repository = join(world.folder, 'nothing');
    const { services, file, notes } = homeWith(world, { repository });
    writeFileSync(file, JSON.stringify({ lastCheck: now, remoteVersion: '1.1.0', repository }));
    await checkVersion(services);
    assert.equal(notes().remoteVersion, '1.1.0');
    assert.match(notes().lastError ?? '', /ENOENT/);
    writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ newVersion: { repository, check: 'soon' } }));
    await checkVersion(services);
    assert.equal(notes().remoteVersion, '1.1.0');
    assert.notEqual(notes().lastError, null);
    writeFileSync(join(world.home, 'settings.json'), '{}');
    await checkVersion(services);
    assert.deepEqual([notes().remoteVersion, notes().lastError], [null, null]);
  });
});
