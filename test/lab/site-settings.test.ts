/** The facts of a site, from its settings. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { defaultSettings, settingsIn } from '../../src/app/settings.ts';
import { root } from '../support/root.ts';
import { siteOf } from '../../src/lab/site.ts';

const places = { home: '/srv/lab', userHome: '/home/alice' };
const { lab } = defaultSettings(4);

test('a site without settings has no zones, no shares and its bookings here', () => {
  const site = siteOf(lab, places);
  assert.deepEqual(
    [site.zones, site.shares, site.spreadsheet, site.wandbKeyFile, site.stageLimit],
    [[], [], null, null, 10],
  );
});

test('paths of this machine are made whole, and what a share leaves out is filled in', () => {
  const site = siteOf(
    {
      ...lab,
      zones: ['us-central2-b', 'us-central2-b'],
      shares: [{ source: '10.0.0.2:/home', target: '/home-nfs/' }],
      wandbKeyFile: '~/.wandb',
      privateKey: '/keys/id',
      spreadsheet: { id: '1', credentials: 'secret.json' },
    },
    places,
  );
  assert.deepEqual(site.zones, ['us-central2-b']);
  assert.deepEqual(site.shares, [{ source: '10.0.0.2:/home', target: '/home-nfs', zones: [], options: 'vers=3' }]);
  assert.deepEqual([site.wandbKeyFile, site.privateKey], ['/home/alice/.wandb', '/keys/id']);
  assert.deepEqual(site.spreadsheet, { id: '1', tab: null, credentials: '/srv/lab/secret.json', endpoint: null });
});

test('the template of a lab’s settings is what the manual shows, says every key and holds', async () => {
  const template = readFileSync(join(root, 'configs/lab-settings.json'), 'utf8');
  assert.ok(readFileSync(join(root, 'docs/settings.md'), 'utf8').includes(template));
  assert.deepEqual(
    [...(await settingsIn(template, 'lab-settings.json')).keys()].toSorted(),
    Object.keys(lab)
      .map((key) => `lab.${key}`)
      .toSorted(),
  );
});
