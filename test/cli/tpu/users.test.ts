// Users, their directories, config aliases and settings: command lines with a real store in memory.

import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { defaultAliases } from '../../../src/lab/names.ts';
import { defaultUserSettings } from '../../../src/lab/user-settings.ts';
import { aUser } from '../../support/lab-builders.ts';
import { labs, openSampleLab, jsonLines } from './lab-world.ts';
import { onBoth } from './serve-lab.ts';

const terminal = { columns: 100, rows: 30 };
let folder = '';

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'jobman-users-'));
  writeFileSync(join(folder, 'staging.sh'), '');
});
after(() => rmSync(folder, { recursive: true, force: true }));

onBoth('add-user', labs, ({ openLabWorld, openSampleLab }) => {
  test('asks for each value on a terminal and proposes defaults', async () => {
    const { labStore, tpu } = openLabWorld();
    const { code, out, err } = await tpu(['add-user'], { terminal, input: ['xibo', '', 'Xi', '', 'cn', folder, ''] });
    assert.equal(code, 0, err);
    assert.match(out, /Added user xibo \(id 0, tmux session xibo\)\./);
    const [user] = await labStore.users();
    assert.deepEqual(
      { ...user, createdAt: 0 },
      {
        name: 'xibo',
        id: 0,
        role: 'member',
        session: 'xibo',
        sheetName: 'Xi',
        logins: [],
        directories: { 1: folder },
        aliases: defaultAliases,
        settings: { ...defaultUserSettings, time_zone: 'cn' },
        nextWindow: 1,
        createdAt: 0,
        newsSeen: 0,
      },
    );
  });

  test('the name in the booking sheet is unique', async () => {
    const { tpu } = await openSampleLab();
    const { code, err } = await tpu(['add-user', 'ada', 'sheet=xibo']);
    assert.equal(code, 4);
    assert.match(err, /The name in the booking sheet xibo belongs to xibo\. Choose another\./);
  });

  test('asks again after an invalid answer', async () => {
    const { labStore, tpu } = await openSampleLab();
    const input = 'xibo,run,ada,xibo,ada-windows,,1,2,moon,Europe/Berlin,/nowhere,-,-'.split(',');
    const { code, err } = await tpu(['add-user'], { terminal, input });
    assert.equal(code, 0, err);
    const asks = [
      /a user has this name/,
      /it is a command/,
      /session xibo belongs to xibo/,
      /id 1 belongs to lyy/,
      /not a time zone/,
    ];
    for (const part of asks) assert.match(err, part);
    const ada = (await labStore.users()).find(({ name }) => name === 'ada');
    assert.deepEqual([ada?.session, ada?.id, ada?.settings.time_zone], ['ada-windows', 2, 'Europe/Berlin']);
  });

  test('writes nothing before the last answer: the end of the input leaves no user', async () => {
    const { labStore, tpu } = openLabWorld();
    const { code } = await tpu(['add-user'], { terminal, input: ['xibo', 'x'] });
    assert.equal(code, 130);
    assert.deepEqual(await labStore.users(), []);
  });

  test('without a terminal it asks no questions', async () => {
    const { labStore, tpu } = openLabWorld();
    const line = `name=小明 session=ming sheet=Ming id=7 tz=us dir=${folder} login=m1,m2`;
    assert.equal((await tpu(['add-user', ...line.split(' ')])).code, 0);
    const [user] = await labStore.users();
    assert.deepEqual([user?.name, user?.id, user?.session, user?.logins], ['小明', 7, 'ming', ['m1', 'm2']]);
  });

  test('in a shared home, the login with the name of the user is registered, and a user without one is reported', async () => {
    const home = mkdtempSync(join(folder, 'home-'));
    chmodSync(home, 0o2770);
    const { labStore, tpu } = openLabWorld({}, home);
    assert.match((await tpu(['add-user', 'root'])).out, /Added user root \(id 0, tmux session root, login root\)/);
    const { err } = await tpu(['add-user', 'no-login-of-this-machine']);
    assert.match(err, /has no login: .* tpu set-logins no-login-of-this-machine login=LOGIN/);
    assert.doesNotMatch((await tpu(['add-user', 'lyy', 'login=lyy1'])).err, /has no login/);
    assert.deepEqual(
      (await labStore.users()).map(({ logins }) => logins),
      [['root'], [], ['lyy1']],
    );
  });

  const refused: readonly (readonly [line: readonly string[], sentence: RegExp, code: number])[] = [
    [['add-user'], /give the name: tpu add-user name=ada/, 2],
    [['add-user', 'run'], /it is a command/, 2],
    [['add-user', 'ada', 'id=0'], /id 0 belongs to xibo/, 4],
    [['add-user', 'ada', 'session=lyy'], /session lyy belongs to lyy/, 4],
    [['add-user', 'ada', 'tz=moon'], /not a time zone/, 2],
    [['add-user', 'ada', 'dir=/nowhere'], /There is no folder \/nowhere/, 3],
  ];
  for (const [line, expected, code] of refused) {
    test(`refuses ${line.join(' ')}`, async () => {
      const { labStore, tpu } = await openSampleLab();
      const result = await tpu(line);
      assert.match(result.err, expected);
      assert.equal(result.code, code);
      assert.equal((await labStore.users()).length, 2);
    });
  }
});

test('set-logins moves a login', async () => {
  const { labStore, tpu } = await openSampleLab();
  assert.equal((await tpu(['set-logins', 'xibo', 'login=xb,shared', '--yes'])).code, 0);
  const taken = await tpu(['set-logins', 'lyy', 'login=shared', '--yes']);
  assert.equal(taken.code, 4);
  assert.match(taken.err, /The login "shared" belongs to xibo\. .*\n.*tpu set-logins xibo login=xb\b/);
  assert.match((await tpu(['set-logins', 'xibo', 'login=xb', '--yes'])).out, /xibo: xb\. Before: shared, xb\./);
  assert.equal((await tpu(['set-logins', 'lyy', 'login=shared', '--yes'])).code, 0);
  assert.match((await tpu(['set-logins', 'xibo', 'login=-', '--yes'])).out, /xibo: none\. Before: xb\./);
  assert.deepEqual(
    (await labStore.users()).map(({ logins }) => logins),
    [[], ['shared']],
  );
});

onBoth('del-user and list-users', labs, ({ openSampleLab }) => {
  test('del-user needs a confirmation', async () => {
    const { labStore, tpu } = await openSampleLab();
    assert.equal((await tpu(['del-user', 'lyy'])).code, 4);
    assert.match((await tpu(['del-user', 'lyy'])).err, /--yes/);
    assert.equal((await tpu(['del-user', 'lyy'], { terminal, input: ['n'] })).code, 1);
    assert.equal((await labStore.users()).length, 2);
    assert.equal((await tpu(['del-user', 'lyy', '-y'])).code, 0);
    assert.deepEqual(
      (await labStore.users()).map(({ name }) => name),
      ['xibo'],
    );
  });
  test('list-users prints a line or an object for each user', async () => {
    const { tpu } = await openSampleLab();
    assert.match((await tpu(['list-users'])).out, /^ID  USER.*\n 0  xibo .*\n 1  lyy /);
    const { out } = await tpu(['--json', '-lu']);
    assert.deepEqual(
      jsonLines<{ name: string }>(out).map(({ name }) => name),
      ['xibo', 'lyy'],
    );
  });
});

onBoth('working directories', labs, ({ openSampleLab }) => {
  test('set, list, swap, print and remove', async () => {
    const { labStore, tpu } = await openSampleLab();
    const here = { cwd: folder };
    assert.match(
      (await tpu(['set-cur', '1', 'xibo'], here)).out,
      new RegExp(`Working directory 1 of xibo is ${folder}\\.`),
    );
    assert.equal((await tpu(['set-dir', '/', '7', 'xibo'], here)).code, 0);
    assert.match((await tpu(['ls', 'xibo'])).out, new RegExp(`DIR  PATH\n +1  ${folder} +default\n +7  /\n`));
    assert.equal((await tpu(['swap-dir', '1', '7', 'xibo'])).code, 0);
    assert.equal((await tpu(['get-dir', '1', 'xibo'])).out, '/\n');
    const { out } = await tpu(['get-dir', '1', 'xibo', '--json']);
    assert.deepEqual(JSON.parse(out), { user: 'xibo', dir: 1, path: '/', gone: false });
    const refused = await tpu(['swap-dir', '1', '9', 'xibo']);
    assert.equal(refused.code, 3);
    assert.match(refused.err, /xibo has no working directory 9/);
    assert.equal((await tpu(['get-dir', '1', 'xibo'])).out, '/\n', 'the default is unchanged');
    assert.equal((await tpu(['del-dir', '1', 'xibo'])).code, 0);
    assert.deepEqual((await labStore.users())[0]?.directories, { 7: folder });
  });
  test('missing directories and folders are errors', async () => {
    const { tpu } = await openSampleLab();
    assert.equal((await tpu(['get-dir', '1', 'xibo'])).code, 3);
    assert.equal((await tpu(['del-dir', '1', 'xibo'])).code, 3);
    assert.equal((await tpu(['swap-dir', '1', '2', 'xibo'])).code, 3);
    assert.equal((await tpu(['set-dir', '/nowhere', '1', 'xibo'])).code, 3);
    assert.equal((await tpu(['set-cur', '101', 'xibo'])).code, 2);
    assert.equal((await tpu(['set-cur', '0', 'xibo'])).code, 2);
    assert.match((await tpu(['set-cur', 'xibo'], { cwd: '/' })).err, /no staging\.sh/);
  });
  test('ls shows a missing folder', async () => {
    const { labStore, tpu } = await openSampleLab();
    await labStore.changeUser('xibo', { kind: 'set_directory', number: 2, folder: '/nowhere' });
    assert.match((await tpu(['ls', 'xibo'])).out, /2 {2}\/nowhere {2}does not exist/);
  });
});

onBoth('config aliases', labs, ({ openSampleLab }) => {
  test('add in either order, change, list, remove', async () => {
    const { labStore, tpu } = await openSampleLab();
    assert.match(
      (await tpu(['-a', 'mom', 'config.opt.momentum', 'xibo'])).out,
      /Added the config alias mom of xibo for config\.opt\.momentum\./,
    );
    assert.match((await tpu(['-alias', 'config.x', 'mom', 'xibo'])).out, /instead of config\.opt\.momentum/);
    assert.match((await tpu(['-sa', 'xibo'])).out, /\nmom {4}config\.x\n/);
    assert.match(
      (await tpu(['del-config-alias', 'mom', 'xibo'])).out,
      /Removed the config alias mom of xibo for config\.x\./,
    );
    assert.deepEqual((await labStore.users())[0]?.aliases, defaultAliases);
  });
  test('ambiguous names are refused', async () => {
    const { tpu } = await openSampleLab();
    for (const alias of ['tag', 'dir', 'xibo', 'true', 'config.a']) {
      assert.equal((await tpu(['-a', `alias=${alias}`, 'key=config.x', 'lyy'])).code, 2, alias);
    }
    assert.match((await tpu(['-a', 'x', 'training.x', 'xibo'])).err, /begin with "config\."/);
    assert.match((await tpu(['del-config-alias', 'lrr', 'xibo'])).err, /Did you mean lr\?/);
  });
});

onBoth('settings', labs, ({ openSampleLab }) => {
  test('set, show, reset', async () => {
    const { labStore, tpu } = await openSampleLab();
    assert.match(
      (await tpu(['set-settings', 'time_zone', 'cn', 'xibo'])).out,
      /Changed time_zone of xibo from us to cn\./,
    );
    assert.equal((await tpu(['set-settings', 'monitor_after_run', 'False', 'xibo'])).code, 0);
    assert.equal((await tpu(['get-settings', 'time_zone', 'xibo'])).out, 'cn\n');
    assert.match((await tpu(['get-settings', 'xibo'])).out, /^ {2}monitor_after_run {2}False /);
    assert.match(
      (await tpu(['reset-settings', 'time_zone', 'xibo'])).out,
      /Changed time_zone of xibo from cn to local\./,
    );
    assert.match(
      (await tpu(['reset-settings', 'xibo'])).out,
      /^Changed monitor_after_run of xibo from False to True\.\n$/,
    );
    assert.deepEqual((await labStore.users())[0]?.settings, defaultUserSettings);
  });
  test('unknown imported settings are kept', async () => {
    const { labStore, tpu } = await openSampleLab();
    const settings = { ...defaultUserSettings, extra_settings: { beep: true } };
    await labStore.addUser(aUser('old', { settings }));
    await tpu(['reset-settings', 'old']);
    assert.match((await tpu(['get-settings', 'old'])).out, /\{"beep":true\}/);
  });
  test('unknown keys and values are refused', async () => {
    const { tpu } = await openSampleLab();
    assert.match((await tpu(['set-settings', 'monitor_upd_tim', '9', 'xibo'])).err, /Did you mean "monitor_upd_time"/);
    assert.equal((await tpu(['set-settings', 'monitor_dir', 'perhaps', 'xibo'])).code, 2);
    assert.equal((await tpu(['reset-settings', 'what_is_this', 'xibo'])).code, 2);
  });
  test('reset-window-num skips numbers in use', async () => {
    const { labStore, job, tpu } = await openSampleLab();
    await job('xibo');
    await labStore.openWindow('000001', 2, 0);
    assert.match((await tpu(['reset-window-num', '1', 'xibo'])).out, /The next window of xibo is 3\. In use: 1 to 2\./);
    assert.equal((await labStore.openWindow('000001', 3, 0)).window.window, 3);
    assert.equal((await tpu(['reset-window-num', '0', 'xibo'])).code, 2);
  });
});

suite('the user of a command', () => {
  test('the default is the user who types', async () => {
    const { labStore, tpu } = await openSampleLab();
    // The login of the test harness is alice.
    await labStore.changeUser('lyy', { kind: 'set', values: { logins: ['alice'] } });
    assert.equal((await tpu(['set-settings', 'time_zone', 'cn'])).code, 0);
    assert.equal((await tpu(['get-settings', 'time_zone', 'lyy'])).out, 'cn\n');
    assert.equal((await tpu(['get-settings', 'time_zone'], { env: { TPU_USER: 'xibo' } })).out, 'us\n');
    assert.equal((await tpu(['--user', 'xibo', 'get-settings', 'time_zone'])).out, 'us\n');
  });
  test('acting for another user needs a confirmation', async () => {
    const { tpu } = await openSampleLab();
    const env = { TPU_USER: 'lyy' };
    const line = ['set-settings', 'time_zone', 'cn', 'xibo'];
    const refused = await tpu(line, { env });
    assert.equal(refused.code, 4);
    assert.match(refused.err, /You are lyy; this would change the setting time_zone for xibo\. .*--yes/);
    assert.equal((await tpu(line, { env, terminal, input: ['n'] })).code, 1);
    assert.equal((await tpu(['get-settings', 'time_zone', 'xibo'])).out, 'us\n');
    assert.equal((await tpu(line, { env, terminal, input: ['y'] })).code, 0);
    assert.equal((await tpu([...line, '--yes'], { env })).code, 0);
    assert.equal((await tpu(['get-settings', 'xibo'], { env })).code, 0, 'reading needs no confirmation');
  });
  test('TPU_USER names the user who types on a shared login only', async () => {
    const { labStore, tpu } = await openSampleLab();
    const line = ['set-settings', 'time_zone', 'cn'];
    const refusalOf = async (...argv: string[]) => (await tpu([...line, ...argv], { env: { TPU_USER: 'xibo' } })).err;
    assert.equal(await refusalOf(), '');
    assert.match(await refusalOf('lyy'), /You are xibo; .* for lyy\./);
    await labStore.changeUser('lyy', { kind: 'set', values: { logins: ['alice'] } });
    assert.match(await refusalOf(), /You are lyy; this would change the setting time_zone for xibo\. .*--yes/);
    assert.equal(await refusalOf('lyy'), '');
    await labStore.changeUser('lyy', { kind: 'set', values: { logins: ['lyy1'] } });
    assert.match((await tpu([...line, 'lyy'])).err, /You are alice; .* for lyy\./, 'a user with a login of their own');
  });
  test('a viewer changes nothing in the lab, not even for another user, and the audit log has the refusals', async () => {
    const { store, labStore, tpu } = await openSampleLab();
    await labStore.addUser(aUser('vic', { role: 'viewer' }));
    const before = [await labStore.users(), await labStore.tpus()];
    const lines = ['del-user xibo', 'set-logins xibo login=-', 'add-user eve', 'set-settings time_zone cn xibo'];
    for (const line of lines) {
      const { code, err } = await tpu(line.split(' '), { env: { TPU_USER: 'vic' } });
      assert.deepEqual(
        [code, err],
        [4, `tpu: Your role is viewer, which may not use \`tpu ${line.split(' ')[0]}\`.\n`],
      );
    }
    assert.deepEqual([await labStore.users(), await labStore.tpus()], before);
    assert.equal((await tpu(['list'], { env: { TPU_USER: 'vic' } })).code, 0);
    const rows = await store.access.audit({ actors: null, limit: 10 });
    assert.deepEqual(
      rows.map(({ actor, outcome, operation }) => [actor, outcome, operation]).toReversed(),
      lines.map((line) => ['vic', 'denied', `tpu ${line.split(' ')[0]}`]),
    );
  });
  test('an unknown user is asked for on a terminal only', async () => {
    const { tpu } = await openSampleLab();
    const { code, err } = await tpu(['get-settings']);
    assert.equal(code, 2);
    assert.match(err, /Which user\? Give a name, or set --user or TPU_USER\. There are xibo, lyy/);
    const asked = await tpu(['get-settings', 'time_zone'], { terminal, input: ['missing', '1'] });
    assert.equal(asked.out, 'us\n');
    assert.match(asked.err, /There is no user missing/);
    assert.equal((await tpu(['check-rules'], { env: { TPU_USER: 'missing' } })).code, 0);
    const missing = await tpu(['get-settings'], { env: { TPU_USER: 'xib' } });
    assert.equal(missing.code, 3);
    assert.match(missing.err, /There is no user "xib" \(from --user or TPU_USER\)\. Did you mean "xibo"\?/);
    await tpu(['del-user', 'lyy', '--yes']);
    const alone = await tpu(['get-settings']);
    assert.match(alone.err, /TPU_USER\. The only one is xibo\.$/m);
  });
});
