// The site: its settings, the W&B login of workers in each shell, and the modes of a shared home. Mounts are in
// test/real/tpu-commands.test.ts.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { defaultSettings, parseSettings } from '../../src/app/settings.ts';
import { sharedMode } from '../../src/lab/lab.ts';
import { mountScript, sharesOf, siteSteps, wandbScript, wandbVariable } from '../../src/lab/site-setup.ts';
import { siteOf } from '../../src/lab/site.ts';
import { findProgram } from '../support/real.ts';
import { root } from '../support/root.ts';
import { openWorld } from '../support/world.ts';

const key = '0123456789abcdef0123456789abcdef01234567';
const entry = `machine api.wandb.ai\n  login user\n  password ${key}\n`;

function openWorker(t: TestContext, shell: readonly string[]) {
  const world = openWorld(t);
  const home = join(world.folder, 'user');
  const run = (script: string, variables: Readonly<Record<string, string>> = {}) => {
    const [program = '', ...args] = shell;
    const env = { ...world.env, HOME: home, ...variables };
    const { status, stdout, stderr } = spawnSync(program, [...args, '-s'], { input: script, env, encoding: 'utf8' });
    return { status, stdout, stderr };
  };
  return { home, netrc: join(home, '.netrc'), run };
}

const shells = [['dash'], ['bash'], ['busybox', 'sh']].filter(([program = '']) => findProgram(program) !== undefined);
for (const shell of shells) {
  test(`the W&B login is an entry of .netrc that changes with the key (${shell[0]})`, (t) => {
    const { netrc, run } = openWorker(t, shell);
    assert.equal(run(wandbScript.check).status, 1);
    assert.equal(run(wandbScript.apply).status, 1, 'without a key nothing is written');
    assert.equal(existsSync(netrc), false);
    const before = 'machine example.org login me password a macdef\n\nmacdef init\ncd /pub\n\n';
    writeFileSync(netrc, before);
    const made = run(wandbScript.apply, { [wandbVariable]: key });
    assert.deepEqual([made.status, made.stderr], [0, ''], made.stdout);
    assert.equal(readFileSync(netrc, 'utf8'), `${before}${entry}`);
    assert.equal(statSync(netrc).mode & 0o777, 0o600);
    assert.equal(run(wandbScript.check).status, 0);
    assert.equal(run(wandbScript.check, { [wandbVariable]: key }).status, 0);
    assert.equal(run(wandbScript.check, { [wandbVariable]: 'other' }).status, 1);
    run(wandbScript.apply, { [wandbVariable]: 'other' });
    run(wandbScript.apply, { [wandbVariable]: key });
    assert.equal(readFileSync(netrc, 'utf8'), `${before}${entry}`);
    const bad = run(wandbScript.apply, { [wandbVariable]: '"; touch x #' });
    assert.deepEqual([bad.status, bad.stdout], [1, 'The W&B key is invalid.\n']);
  });

  test(`the key file of a setup step is read and deleted (${shell[0]})`, (t) => {
    const { home, netrc, run } = openWorker(t, shell);
    mkdirSync(join(home, '.jobman'));
    const given = join(home, '.jobman/wandb-key');
    for (const script of [wandbScript.apply, wandbScript.check]) {
      writeFileSync(given, `${key}\n`);
      assert.equal(run(script).status, 0);
      assert.equal(existsSync(given), false);
      assert.equal(readFileSync(netrc, 'utf8'), entry);
    }
  });
}

test('a TPU mounts the shares of its zone in order; the steps of a job depend on them', () => {
  const everywhere = { source: '10.0.0.2:/home', target: '/home-nfs', zones: [], options: 'vers=3' };
  const europe = { ...everywhere, target: '/eu', zones: ['europe-*', 'us-east1-d'] };
  const site = { shares: [everywhere, europe], wandbKeyFile: null };
  assert.deepEqual(sharesOf(site, 'us-central2-b'), [everywhere]);
  assert.deepEqual(sharesOf(site, 'europe-west4-a'), [everywhere, europe]);
  assert.deepEqual(sharesOf(site, 'us-east1-d'), [everywhere, europe]);
  assert.equal(mountScript([]), null);
  assert.deepEqual(siteSteps({ shares: [], wandbKeyFile: null }, 'us-central2-b'), []);
  const [one, two] = ['us-central2-b', 'europe-west4-a'].map((zone) => siteSteps(site, zone)[0]);
  assert.notEqual(one?.key, two?.key);
  const both = siteSteps({ ...site, wandbKeyFile: '/k' }, 'us-central2-b');
  assert.deepEqual(
    both.map(({ name }) => name),
    ['wandb', 'mount-disk'],
  );
});

const folders = { home: '/srv/lab', userHome: '/home/alice' };
const { lab } = defaultSettings(4);

test('a site without settings has no zones, no shares and no spreadsheet', () => {
  const site = siteOf(lab, folders);
  assert.deepEqual(
    [site.zones, site.shares, site.spreadsheet, site.wandbKeyFile, site.stageLimit],
    [[], [], null, null, 10],
  );
});

test('local paths become absolute, and shares get defaults', () => {
  const site = siteOf(
    {
      ...lab,
      zones: ['us-central2-b', 'us-central2-b'],
      shares: [{ source: '10.0.0.2:/home', target: '/home-nfs/' }],
      wandbKeyFile: '~/.wandb',
      privateKey: '/keys/id',
      spreadsheet: { id: '1', credentials: 'secret.json' },
    },
    folders,
  );
  assert.deepEqual(site.zones, ['us-central2-b']);
  assert.deepEqual(site.shares, [{ source: '10.0.0.2:/home', target: '/home-nfs', zones: [], options: 'vers=3' }]);
  assert.deepEqual([site.wandbKeyFile, site.privateKey], ['/home/alice/.wandb', '/keys/id']);
  assert.deepEqual(site.spreadsheet, { id: '1', tab: null, credentials: '/srv/lab/secret.json', endpoint: null });
});

test('the settings template equals the example of the documentation and has every key', async () => {
  const template = readFileSync(join(root, 'configs/lab-settings.json'), 'utf8');
  assert.ok(readFileSync(join(root, 'docs/settings.md'), 'utf8').includes(template));
  assert.deepEqual(
    [...(await parseSettings(template, 'lab-settings.json')).keys()].toSorted(),
    Object.keys(lab)
      .map((key) => `lab.${key}`)
      .toSorted(),
  );
});

const modeOf = (path: string, mode: number, isFolder = false): number | null =>
  sharedMode({ path: path.split('/'), isFolder, mode });

test('folders and files belong to the group, and executables stay executable', () => {
  assert.equal(modeOf('jobs', 0o700, true), 0o2770);
  assert.equal(modeOf('jobs/xibo/000001/logs', 0o755, true), 0o2770);
  assert.equal(modeOf('state.db', 0o600), 0o660);
  assert.equal(modeOf('jobs/xibo/000001/config.yaml', 0o644), 0o660);
  assert.equal(modeOf('jobs/xibo/000001/tool', 0o700), 0o770);
  assert.equal(modeOf('runs/000001/here', 0o700, true), 0o2770);
  assert.equal(modeOf('ssh', 0o700, true), 0o2770);
  assert.equal(modeOf('ssh/id_ed25519.pub', 0o644), 0o660);
  assert.equal(modeOf('ssh/relay.sock', 0o755), 0o770);
  assert.equal(modeOf('ssh/known_hosts/000001-1-0', 0o600), 0o660);
});

test('secrets, keys, runs, copies of working directories and the TPU emulator are not shared', () => {
  for (const path of [
    'ssh/id_ed25519',
    'secrets',
    'secrets/wandb_api_key',
    'emulator',
    'emulator/endpoint.json',
    'jobs/xibo/000001/secrets',
    'jobs/xibo/000001/secrets/TOKEN',
    'jobs/xibo/000001/workdir/1/files/train.py',
    'runs/000001/here/attempt_1',
  ]) {
    assert.equal(modeOf(path, 0o600), null, path);
  }
  assert.equal(modeOf('jobs/xibo/000001/workdir/1/about.json', 0o600), 0o660);
});
