/** The facts of a site, from its settings. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { defaultSettings } from '../../src/app/settings.ts';
import { siteOf } from '../../src/lab/site-settings.ts';

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
