/** A controller starts again with new settings, whenever they change. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { readSettings } from '../../src/wiring/controller-process.ts';
import { loadSettings } from '../support/settings.ts';
import { openWorld } from '../support/world.ts';

test('a change after the read of the settings is not overlooked, even before the controller has started', async (t) => {
  const world = openWorld(t);
  mkdirSync(world.home);
  const file = join(world.home, 'settings.json');
  const write = (sshPort: number) => writeFileSync(file, JSON.stringify({ tpu: { sshPort } }));
  write(22);
  let reads = 0;
  const { settings, createOutdatedCheck } = await readSettings({
    settingsFiles: () => [file],
    async freshSettings() {
      const read = await loadSettings({ home: world.home, env: {}, cores: 1 });
      reads += 1;
      if (reads === 1) write(2_222);
      return read;
    },
  });
  assert.equal(settings.tpu.sshPort, 22);
  const isOutdated = createOutdatedCheck(assert.fail);
  assert.equal(await isOutdated(), true);
});
