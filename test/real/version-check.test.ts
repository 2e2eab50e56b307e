/** A command searches for a newer version in the background, and the next command reports it. */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { VersionNotes } from '../../src/app/version-check.ts';
import { eventually } from '../support/eventually.ts';
import { jobman } from '../support/jobman.ts';
import { hasTerminal, runInTerminal } from '../support/run-in-terminal.ts';
import { openWorld, type World } from '../support/world.ts';

function settings(world: World, newVersion: object): void {
  mkdirSync(world.home, { recursive: true });
  writeFileSync(join(world.home, 'settings.json'), JSON.stringify({ newVersion }));
}

const notesOf = (world: World) => {
  const file = join(world.home, 'last_update_check.json');
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as VersionNotes) : undefined;
};

test('found by the first command, reported by the second', async (t) => {
  const world = openWorld(t);
  if (!hasTerminal(t)) return;
  writeFileSync(join(world.folder, 'package.json'), '{"version":"99.1.0"}');
  settings(world, { repository: world.folder, customMessage: 'Ask Eve.' });

  // Scripts get no report, and start no search.
  assert.equal((await jobman(world, ['list'])).code, 0);
  assert.equal(notesOf(world), undefined);

  const first = await runInTerminal(world, 100, ['list']);
  assert.equal(first.code, 0);
  assert.doesNotMatch(first.screen, /99\.1\.0/);
  await eventually(() => notesOf(world)?.remoteVersion === '99.1.0');
  const second = await runInTerminal(world, 100, ['why', '7']);
  assert.equal(second.code, 3);
  assert.match(second.screen, /jobman 99\.1\.0 is available; this is [\d.]+\. Ask Eve\.\r\n$/);
});

test('a server that never answers delays no command, and is not contacted again by the next', async (t) => {
  const world = openWorld(t);
  if (!hasTerminal(t)) return;
  const asked: Socket[] = [];
  const server = createServer((socket) => void asked.push(socket.on('error', () => undefined)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  world.atEnd(async () => {
    // The search ends with its connection.
    for (const socket of asked) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
    await eventually(() => notesOf(world)?.lastError !== null);
  });
  settings(world, { repository: `http://127.0.0.1:${(server.address() as AddressInfo).port}/jobman.tar.gz` });
  assert.equal((await runInTerminal(world, 100, ['list'])).code, 0);
  await eventually(() => asked.length === 1);
  assert.equal((await runInTerminal(world, 100, ['list'])).code, 0);
  assert.equal((await runInTerminal(world, 100, [])).code, 0);
  assert.equal(asked.length, 1, 'one search runs at a time');
});
