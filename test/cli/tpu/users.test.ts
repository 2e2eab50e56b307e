// Users, their directories, words and settings: through the command line, against the real record in memory.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { defaultAliases } from '../../../src/lab/names.ts';
import { defaultUserSettings } from '../../../src/lab/user-settings.ts';
import { openLabWorld, openSampleLab, jsonLines } from './lab-world.ts';

const terminal = { columns: 100, rows: 30 };
let folder = '';

before(() => {
  folder = mkdtempSync(join(tmpdir(), 'jobman-people-'));
  writeFileSync(join(folder, 'staging.sh'), '');
});
after(() => rmSync(folder, { recursive: true, force: true }));

suite('add-user', () => {
  test('asks for everything on a terminal, and proposes', async () => {
    const { record, tpu } = openLabWorld();
    const { code, out, err } = await tpu(['add-user'], { terminal, input: ['xibo', '', 'Xi', '', 'cn', folder, ''] });
    assert.equal(code, 0, err);
    assert.match(out, /xibo is user 0; windows are in the tmux session xibo/);
    const [user] = await record.users();
    assert.deepEqual(
      { ...user, createdAt: 0 },
      {
        name: 'xibo',
        id: 0,
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

  test('is not called in the booking sheet as somebody else is', async () => {
    const { tpu } = await openSampleLab();
    const { code, err } = await tpu(['add-user', 'ada', 'sheet=xibo']);
    assert.equal(code, 4);
    assert.match(err, /The name in the booking sheet xibo is xibo's\. Choose another\./);
  });

  test('what is answered wrongly is asked again', async () => {
    const { record, tpu } = await openSampleLab();
    const input = 'xibo,run,ada,xibo,ada-windows,,1,2,moon,Europe/Berlin,/nowhere,-,-'.split(',');
    const { code, err } = await tpu(['add-user'], { terminal, input });
    assert.equal(code, 0, err);
    const asks = [
      /a user is called that/,
      /it is a command/,
      /session xibo is xibo's/,
      /id 1 is lyy's/,
      /no time zone/,
    ];
    for (const part of asks) assert.match(err, part);
    const ada = (await record.users()).find(({ name }) => name === 'ada');
    assert.deepEqual([ada?.session, ada?.id, ada?.settings.time_zone], ['ada-windows', 2, 'Europe/Berlin']);
  });

  test('nothing is written before all is asked: the end of the input leaves no user', async () => {
    const { record, tpu } = openLabWorld();
    const { code } = await tpu(['add-user'], { terminal, input: ['xibo', 'x'] });
    assert.equal(code, 130);
    assert.deepEqual(await record.users(), []);
  });

  test('by flags alone it asks nobody', async () => {
    const { record, tpu } = openLabWorld();
    const line = `name=小明 session=ming sheet=Ming id=7 tz=us dir=${folder} login=m1,m2`;
    assert.equal((await tpu(['add-user', ...line.split(' ')])).code, 0);
    const [user] = await record.users();
    assert.deepEqual([user?.name, user?.id, user?.session, user?.logins], ['小明', 7, 'ming', ['m1', 'm2']]);
  });

  const refused: readonly (readonly [line: readonly string[], sentence: RegExp, code: number])[] = [
    [['add-user'], /it has to be said: tpu add-user name=ada/, 2],
    [['add-user', 'run'], /it is a command/, 2],
    [['add-user', 'ada', 'id=0'], /id 0 is xibo's/, 4],
    [['add-user', 'ada', 'session=lyy'], /session lyy is lyy's/, 4],
    [['add-user', 'ada', 'tz=moon'], /no time zone/, 2],
    [['add-user', 'ada', 'dir=/nowhere'], /There is no folder \/nowhere/, 3],
  ];
  for (const [line, sentence, code] of refused) {
    test(`is refused: ${line.join(' ')}`, async () => {
      const { record, tpu } = await openSampleLab();
      const result = await tpu(line);
      assert.match(result.err, sentence);
      assert.equal(result.code, code);
      assert.equal((await record.users()).length, 2);
    });
  }
});

suite('del-user and list-users', () => {
  test('a user goes after a yes, and not without', async () => {
    const { record, tpu } = await openSampleLab();
    assert.equal((await tpu(['del-user', 'lyy'])).code, 2);
    assert.match((await tpu(['del-user', 'lyy'])).err, /--yes/);
    assert.equal((await tpu(['del-user', 'lyy'], { terminal, input: ['n'] })).code, 1);
    assert.equal((await record.users()).length, 2);
    assert.equal((await tpu(['del-user', 'lyy', '-y'])).code, 0);
    assert.deepEqual(
      (await record.users()).map(({ name }) => name),
      ['xibo'],
    );
  });
  test('the list has a line for each, and an object for programs', async () => {
    const { tpu } = await openSampleLab();
    assert.match((await tpu(['list-users'])).out, /^ID  USER.*\n 0  xibo .*\n 1  lyy /);
    const { out } = await tpu(['--json', '-lu']);
    assert.deepEqual(
      jsonLines<{ name: string }>(out).map(({ name }) => name),
      ['xibo', 'lyy'],
    );
  });
});

suite('working directories', () => {
  test('are set, listed, swapped, told and forgotten', async () => {
    const { record, tpu } = await openSampleLab();
    const here = { cwd: folder };
    assert.match(
      (await tpu(['set-cur', '1', 'xibo'], here)).out,
      new RegExp(`Working directory 1 of xibo is ${folder}\\.`),
    );
    assert.equal((await tpu(['set-dir', '/', '7', 'xibo'], here)).code, 0);
    assert.match((await tpu(['ls', 'xibo'])).out, new RegExp(`DIR  PATH\n +1  ${folder} +default\n +7  /\n`));
    assert.equal((await tpu(['swap-dir', '1', '7', 'xibo'])).code, 0);
    assert.equal((await tpu(['get-dir', '1', 'xibo'])).out, '/\n');
    const refused = await tpu(['swap-dir', '1', '9', 'xibo']);
    assert.equal(refused.code, 3);
    assert.match(refused.err, /xibo has no working directory 9/);
    assert.equal((await tpu(['get-dir', '1', 'xibo'])).out, '/\n', 'the default stays where it was');
    assert.equal((await tpu(['del-dir', '1', 'xibo'])).code, 0);
    assert.deepEqual((await record.users())[0]?.directories, { 7: folder });
  });
  test('what is not there is said', async () => {
    const { tpu } = await openSampleLab();
    assert.equal((await tpu(['get-dir', '1', 'xibo'])).code, 3);
    assert.equal((await tpu(['del-dir', '1', 'xibo'])).code, 3);
    assert.equal((await tpu(['swap-dir', '1', '2', 'xibo'])).code, 3);
    assert.equal((await tpu(['set-dir', '/nowhere', '1', 'xibo'])).code, 3);
    assert.equal((await tpu(['set-cur', '101', 'xibo'])).code, 2);
    assert.equal((await tpu(['set-cur', '0', 'xibo'])).code, 2);
    assert.match((await tpu(['set-cur', 'xibo'], { cwd: '/' })).err, /no staging\.sh/);
  });
  test('one that is gone is marked', async () => {
    const { record, tpu } = await openSampleLab();
    await record.changeUser('xibo', (user) => ({ ...user, directories: { 2: '/nowhere' } }));
    assert.match((await tpu(['ls', 'xibo'])).out, /2 {2}\/nowhere {2}is gone/);
  });
});

suite('config aliases', () => {
  test('are added in either order, changed, listed, taken away', async () => {
    const { record, tpu } = await openSampleLab();
    assert.match(
      (await tpu(['-a', 'mom', 'config.opt.momentum', 'xibo'])).out,
      /mom is config\.opt\.momentum for xibo/,
    );
    assert.match((await tpu(['-alias', 'config.x', 'mom', 'xibo'])).out, /It was config\.opt\.momentum/);
    assert.match((await tpu(['-sa', 'xibo'])).out, /\nmom {4}config\.x\n/);
    assert.match((await tpu(['del-config-alias', 'mom', 'xibo'])).out, /it was config\.x/);
    assert.deepEqual((await record.users())[0]?.aliases, defaultAliases);
  });
  test('the names of other things are refused', async () => {
    const { tpu } = await openSampleLab();
    for (const alias of ['tag', 'dir', 'xibo', 'true', 'config.a']) {
      assert.equal((await tpu(['-a', `alias=${alias}`, 'key=config.x', 'lyy'])).code, 2, alias);
    }
    assert.match((await tpu(['-a', 'x', 'training.x', 'xibo'])).err, /should begin with "config\."/);
    assert.match((await tpu(['del-config-alias', 'lrr', 'xibo'])).err, /Did you mean lr\?/);
  });
});

suite('settings', () => {
  test('are set, told, put back', async () => {
    const { record, tpu } = await openSampleLab();
    assert.match(
      (await tpu(['set-settings', 'time_zone', 'cn', 'xibo'])).out,
      /time_zone of xibo is cn now; it was us/,
    );
    assert.equal((await tpu(['set-settings', 'monitor_after_run', 'False', 'xibo'])).code, 0);
    assert.equal((await tpu(['get-settings', 'time_zone', 'xibo'])).out, 'cn\n');
    assert.match((await tpu(['get-settings', 'xibo'])).out, /^monitor_after_run {2}False /);
    assert.match((await tpu(['reset-settings', 'time_zone', 'xibo'])).out, /time_zone of xibo is local now; it was cn/);
    assert.match(
      (await tpu(['reset-settings', 'xibo'])).out,
      /^monitor_after_run of xibo is True now; it was False\.\n$/,
    );
    assert.deepEqual((await record.users())[0]?.settings, defaultUserSettings);
  });
  test('what nobody here knows is kept', async () => {
    const { record, tpu } = await openSampleLab();
    await record.changeUser('xibo', (user) => ({
      ...user,
      settings: { ...user.settings, extra_settings: { beep: true } },
    }));
    await tpu(['reset-settings', 'xibo']);
    assert.match((await tpu(['get-settings', 'xibo'])).out, /\{"beep":true\}/);
  });
  test('unknown keys and values are refused', async () => {
    const { tpu } = await openSampleLab();
    assert.match((await tpu(['set-settings', 'monitor_upd_tim', '9', 'xibo'])).err, /Did you mean "monitor_upd_time"/);
    assert.equal((await tpu(['set-settings', 'monitor_dir', 'perhaps', 'xibo'])).code, 2);
    assert.equal((await tpu(['reset-settings', 'what_is_this', 'xibo'])).code, 2);
  });
  test('windows are counted from a number on, past those that are taken', async () => {
    const { record, job, tpu } = await openSampleLab();
    await job('xibo');
    await record.openWindow('000001', 2, 0);
    assert.match((await tpu(['reset-window-num', '1', 'xibo'])).out, /The next window of xibo is 3\. 1 to 2 is taken/);
    assert.equal((await record.openWindow('000001', 3, 0)).window.window, 3);
    assert.equal((await tpu(['reset-window-num', '0', 'xibo'])).code, 2);
  });
});

suite('for whom a command acts', () => {
  test('without a name, for whoever types', async () => {
    const { record, tpu } = await openSampleLab();
    // The pretended login is alice.
    await record.changeUser('lyy', (user) => ({ ...user, logins: ['alice'] }));
    assert.equal((await tpu(['set-settings', 'time_zone', 'cn'])).code, 0);
    assert.equal((await tpu(['get-settings', 'time_zone', 'lyy'])).out, 'cn\n');
    assert.equal((await tpu(['get-settings', 'time_zone'], { env: { TPU_USER: 'xibo' } })).out, 'us\n');
    assert.equal((await tpu(['--user', 'xibo', 'get-settings', 'time_zone'])).out, 'us\n');
  });
  test('for another after a yes, and not without', async () => {
    const { tpu } = await openSampleLab();
    const env = { TPU_USER: 'lyy' };
    const line = ['set-settings', 'time_zone', 'cn', 'xibo'];
    const refused = await tpu(line, { env });
    assert.equal(refused.code, 2);
    assert.match(refused.err, /You are lyy, and this would change the setting time_zone for xibo\. Say --yes/);
    assert.equal((await tpu(line, { env, terminal, input: ['n'] })).code, 1);
    assert.equal((await tpu(['get-settings', 'time_zone', 'xibo'])).out, 'us\n');
    assert.equal((await tpu(line, { env, terminal, input: ['y'] })).code, 0);
    assert.equal((await tpu([...line, '--yes'], { env })).code, 0);
    assert.equal((await tpu(['get-settings', 'xibo'], { env })).code, 0, 'looking is free');
  });
  test('where nothing tells, a terminal is asked, and nobody else', async () => {
    const { tpu } = await openSampleLab();
    const { code, err } = await tpu(['get-settings']);
    assert.equal(code, 2);
    assert.match(
      err,
      /Which user\? Say a name on the line, or who you are with --user or TPU_USER\. There are xibo, lyy/,
    );
    const asked = await tpu(['get-settings', 'time_zone'], { terminal, input: ['nobody', '1'] });
    assert.equal(asked.out, 'us\n');
    assert.match(asked.err, /There is no user nobody/);
    assert.equal((await tpu(['check-rules'], { env: { TPU_USER: 'nobody' } })).code, 0);
    assert.equal((await tpu(['get-settings'], { env: { TPU_USER: 'nobody' } })).code, 3);
    await tpu(['del-user', 'lyy', '--yes']);
    const alone = await tpu(['get-settings']);
    assert.match(alone.err, /TPU_USER\. The only one is xibo\.$/m);
  });
});
