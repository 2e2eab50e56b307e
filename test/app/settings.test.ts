import assert from 'node:assert/strict';
import { loadSettings } from '../support/settings.ts';
import { mkdirSync, writeFileSync, existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { JobmanError } from '../../src/app/errors.ts';
import { hostsOf } from '../../src/app/hosts.ts';
import { defaultSettings, settingKeys, settingsWarnings } from '../../src/app/settings.ts';
import { openWorld } from '../support/world.ts';
import { addToSetting, setSetting, unsetSetting } from '../../src/files/change-settings.ts';

function settingsIn(t: TestContext, text?: string) {
  const { home } = openWorld(t);
  mkdirSync(home);
  if (text !== undefined) writeFileSync(join(home, 'settings.json'), text);
  return (env: Readonly<Record<string, string>> = {}) => loadSettings({ home, env, cores: 4 });
}

async function refusal(loading: Promise<unknown>): Promise<JobmanError> {
  const error = await loading.then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof JobmanError, String(error));
  return error;
}

test('without a file the defaults apply, with a slot for each core', async (t) => {
  const settings = await settingsIn(t)();
  assert.deepEqual(settings, defaultSettings(4));
  assert.equal(settings.local.slots, 4);
  assert.equal(settings.tpu.project, null);
});

test('the file overrides the defaults, and the environment the file', async (t) => {
  const load = settingsIn(t, '{ "tpu": { "project": "lab", "sshPort": 2222, "endpoint": "http://127.0.0.1:1" } }');
  const { tpu, local } = await load();
  assert.deepEqual(tpu, {
    project: 'lab',
    sshPort: 2222,
    endpoint: 'http://127.0.0.1:1',
    tokenCommand: null,
    forgottenProjects: [],
  });
  assert.equal(local.slots, 4);
  const over = await load({ JOBMAN_TPU_ENDPOINT: 'http://127.0.0.1:8080', JOBMAN_TPU_SSH_PORT: '2200' });
  assert.deepEqual(over.tpu, { ...tpu, sshPort: 2200, endpoint: 'http://127.0.0.1:8080' });
  assert.deepEqual((await load({ JOBMAN_TPU_ENDPOINT: '' })).tpu, tpu);
});

/** The problems of a file, without the file's name. */
async function problemsOf(t: TestContext, text: string): Promise<readonly string[]> {
  const error = await refusal(settingsIn(t, text)());
  assert.equal(error.code, 2);
  return error.lines.map((line) => line.replace(/^.*settings\.json:/, ''));
}

test('all problems of the file are reported at once, with line, column and suggestion', async (t) => {
  const text = `{
  "tpu": {
    "projcet": "lab",
    "sshPort": "22", "sshPort": 23
  },
  "locale": { "slots": 2 },
  "local": { "slots": 0 }, "slots": 3,
  "terminal": 7,
  "grants": [{ "zone": "us-east5-b", "acelerator": "v4-8" }, { "accelerator": "v5e-16", "chips": "8" }, 3,
    { "until": "tomorrow", "pricing": "cheap" }, { "until": "2026-02-30" }, { "zone": "us-cental2-b" }],
  "prices": [{ "zone": "us-central2", "accelerator": "v4", "usdPerHour": 1 }],
  "two\\nlines\\u001b[2J": 1
}
`;
  assert.deepEqual(await problemsOf(t, text), [
    '3:5: Unknown setting "tpu.projcet" (did you mean "tpu.project"?)',
    '4:16 tpu.sshPort: must be a port from 1 to 65535, not "22"',
    '4:22 tpu.sshPort: appears twice in this map; remove one of them',
    '6:3: Unknown setting "locale" (did you mean "local"?)',
    '7:23 local.slots: must be a whole number of at least 1, not 0',
    '7:28: Unknown setting "slots" (did you mean "local.slots"?)',
    '8:15 terminal: must be a section, as in { "terminal": { ... } }',
    '9:38 grants[0]: has an unknown key "acelerator" (did you mean "accelerator"?)',
    '9:79 grants[1].accelerator: must be a type like "v4-16", a generation like "v5e", or a pattern like "v4-*", not "v5e-16" (did you mean "v5litepod-16"?)',
    '9:98 grants[1].chips: must be a whole number of at least 1, not "8"',
    '9:105 grants[2]: must be an object like { "accelerator": "v4-16", "chips": 16 }',
    '10:16 grants[3].until: must be a day like "2026-12-31" or a time like "2026-12-31T18:00:00Z", not "tomorrow"',
    '10:39 grants[3].pricing: must be "spot", "ondemand" or "preemptible", not "cheap"',
    '10:61 grants[4].until: must be a day like "2026-12-31" or a time like "2026-12-31T18:00:00Z", not "2026-02-30"',
    '10:87 grants[5].zone: must be a zone like "us-east5-b" or "us-*", not "us-cental2-b" (did you mean "us-central2-b"?)',
    '11:24 prices[0].zone: must be a zone like "us-east5-b" or "us-*", not "us-central2" (did you mean "us-central2-b"?)',
    '12:3: Unknown setting "two lines\\x1b[2J"',
  ]);
});

test('the settings of notifications are read, and a secret in them is refused without showing it', async (t) => {
  const load = settingsIn(
    t,
    `{ "notify": { "to": ["ada@example.com", "slack"], "users": { "bob": { "on": ["failed"] } }, "digestAfter": 3,
      "channels": { "slack": { "type": "slack", "url": "env:SLACK_URL" } },
      "smtp": { "host": "smtp.example.com", "from": "jobman@example.com", "user": "u", "password": "~/p" } } }`,
  );
  const { notify } = await load();
  assert.deepEqual(notify.to, ['mail:ada@example.com', 'slack']);
  assert.deepEqual(notify.channels, { slack: { type: 'slack', url: 'env:SLACK_URL' } });
  assert.deepEqual([notify.digestAfter, notify.on.includes('failed'), notify.waitingAfterMs], [3, true, 3_600_000]);

  const text = `{ "notify": {
    "to": ["Slack", "mail:a@b\\nBcc: c@d"],
    "on": ["failure"],
    "users": { "ada": { "too": [] } },
    "channels": {
      "Slack": { "type": "slack", "url": "https://hooks.example.com/hunter2" },
      "hook": { "type": "webhok", "url": "~/url" },
      "other": { "url": "~/url" },
      "pager": { "type": "webhook", "url": "~/url", "secret": "hunter2" },
      "script": { "type": "command", "command": " " }
    },
    "smtp": { "host": "smtp.example.com", "from": "a@b\\nTo: c@d", "password": "hunter2", "port": 0 },
    "digestAfter": 0
  } }
`;
  const lines = await problemsOf(t, text);
  assert.doesNotMatch(lines.join(), /hunter2/);
  assert.deepEqual(
    lines.map((line) => line.replace(/^(\d+:\d+[^:]*: .{0,60}).*$/s, '$1')),
    [
      '2:12 notify.to[0]: "Slack" is neither mail:ADDRESS nor the name of a channel (l',
      '2:21 notify.to[1]: "mail:a@b\\nBcc: c@d" is not one mail address like mail:alice',
      '3:12 notify.on[0]: must be one of started, recovered, succeeded, failed, stoppe',
      '4:25 notify.users.ada: has an unknown key "too" (did you mean "to"?)',
      '6:7 notify.channels: "Slack" is not a name for a channel; use lower-case letters,',
      '6:42 notify.channels.Slack.url: must be the path of a file that contains the secret, as in "',
      '7:25 notify.channels.hook.type: must be "slack", "webhook" or "command" (did you mean "webho',
      '8:16 notify.channels.other: requires "type": "slack", "webhook" or "command"',
      '9:63 notify.channels.pager.secret: must be the path of a file that contains the secret, as in "',
      '10:49 notify.channels.script.command: must be a command for the shell, not " "',
      '12:51 notify.smtp.from: must be one mail address, not "a@b\\nTo: c@d"',
      '12:79 notify.smtp.password: must be the path of a file that contains the secret, as in "',
      '12:98 notify.smtp.port: must be a port from 1 to 65535, not 0',
      '13:20 notify.digestAfter: must be a whole number from 1 to 1000, not 0',
    ],
  );
  assert.deepEqual(
    await problemsOf(
      t,
      '{ "notify": { "smtp": { "host": "h", "from": "a@b", "user": "u", "password": "~/p", "security": "none" } } }',
    ),
    ['1:23 notify.smtp: would send the password without encryption; use "security": "starttls" or "tls"'],
  );
});

test('each recipient is a mail address or a channel, also of a file below', async (t) => {
  const text = `{ "notify": {
    "channels": { "slack": { "type": "slack", "url": "~/url" } },
    "to": ["slak", "mail:a@example.com", "slack"],
    "users": { "bob": { "to": ["pager"] } } } }`;
  assert.deepEqual(await problemsOf(t, text), [
    '3:12 notify.to[0]: "slak" is not a channel: notify.channels has slack (did you mean "slack"?)',
    '4:32 notify.users.bob.to[0]: "pager" is not a channel: notify.channels has slack',
  ]);
  const { home } = openWorld(t);
  mkdirSync(home);
  writeFileSync(join(home, 'settings.json'), text.replace('"slak"', '"slack"').replace('"pager"', '"slack"'));
  const explicit = join(home, 'other.json');
  writeFileSync(explicit, '{ "notify": { "to": ["slack"] } }');
  assert.deepEqual((await loadSettings({ home, explicit, env: {}, cores: 4 })).notify.to, ['slack']);
});

test('a zone that Google may have added is a warning with its position, a known one is none', async (t) => {
  const path = join(openWorld(t).home, 'settings.json');
  const zones = ['us-central2-b', 'us-central3-b', 'europe-*', 'africa-*'];
  const text = JSON.stringify({ grants: zones.map((zone) => ({ zone })) });
  assert.deepEqual(
    (await settingsWarnings({ path, name: 'settings.json', text, isOwn: true })).map((line) => line.replace(path, '')),
    [
      ':1:45 grants[1].zone: "us-central3-b" matches no zone with TPUs that jobman knows (did you mean "us-central1-b"?)',
      ':1:90 grants[3].zone: "africa-*" matches no zone with TPUs that jobman knows',
    ],
  );
});

test('invalid JSON is reported with its position', async (t) => {
  const cases: readonly (readonly [string, string])[] = [
    ['{ "tpu": ', '1:10: Unexpected end of JSON input'],
    ['{\n  "local": { "slots": 2, }\n}', '2:26: Expected double-quoted property name'],
    ['{ "local": { "slots": 2 } // two\n}', `1:27: Expected ',' or '}' after property value`],
    ['// mine\n{}', `1:1: Unexpected token '/'`],
    ["{ 'local': {} }", `1:3: Expected property name or '}'`],
    ['{ local: {} }', `1:3: Expected property name or '}'`],
    ['{ "local" {} }', `1:11: Expected ':' after property name`],
    ['{ "tpu": { "project": "lab\n" } }', '1:27: Bad control character in string literal'],
    ['{} {}', '1:4: Unexpected non-whitespace character after JSON'],
    ['{ "local": { "slots": True } }', `1:23: Unexpected token 'T'`],
  ];
  for (const [text, message] of cases) assert.deepEqual(await problemsOf(t, text), [message], text);
});

test('a file that is not an object is refused', async (t) => {
  assert.match((await refusal(settingsIn(t, '[]')())).message, /should contain one object/);
  assert.deepEqual(await problemsOf(t, '{ "tpu": 3 }'), ['1:10 tpu: must be a section, as in { "tpu": { ... } }']);
});

test('grants are read unchanged', async (t) => {
  const grants = [{ zone: 'us-*', accelerator: 'v5e', pricing: 'spot', chips: 32, until: '2026-12-31' }, {}];
  assert.deepEqual((await settingsIn(t, JSON.stringify({ grants }))()).grants, grants);
});

test('a malformed export table is refused with its position', async (t) => {
  const table = 'lab-1234.costs.gcp_billing_export_v1_010101_F0FFF0_10X10X';
  const settings = await settingsIn(t, `{ "billing": { "exportTable": "${table}" } }`)();
  assert.equal(settings.billing.exportTable, table);
  for (const wrong of ['lab-1234:costs.table', 'costs.table', 'lab-1234.costs.t`; DROP TABLE x', '']) {
    const text = `{\n  "billing": { "exportTable": ${JSON.stringify(wrong)} } }`;
    await assert.rejects(settingsIn(t, text), (error: JobmanError) =>
      /settings\.json:2:31 billing\.exportTable: must be a table like "my-project\./.test(error.lines.join('\n')),
    );
  }
});

test('own prices are read unchanged, and each mistake has its position', async (t) => {
  const prices = [
    { accelerator: 'v5e', zone: 'us-*', pricing: 'spot', usdPerChipHour: 0.5, since: '2026-09-01' },
    { flavor: 'a100', usdPerHour: 2 },
    { host: 'gpu1', usdPerHour: 0 },
  ];
  assert.deepEqual((await settingsIn(t, JSON.stringify({ prices }))()).prices, prices);
  const text = `{ "prices": [
    { "usdPerHour": 1 },
    { "accelerator": "v5e-16", "usdPerHour": 1 },
    { "accelerator": "v5e", "host": "gpu1", "usdPerHour": 1 },
    { "accelerator": "v5e" },
    { "host": "gpu1", "usdPerChipHour": 1 },
    { "flavor": "a100", "zone": "us-*", "usdPerHour": 1 },
    { "flavor": "a100", "usdPerHour": -1, "since": "2026-02-30" }
  ] }`;
  assert.deepEqual(await problemsOf(t, text), [
    '2:5 prices[0]: requires exactly one of "accelerator", "flavor" and "host"',
    '3:22 prices[1].accelerator: must be a type like "v4-16", a generation like "v5e", or a pattern like "v4-*", not "v5e-16" (did you mean "v5litepod-16"?)',
    '4:5 prices[2]: requires exactly one of "accelerator", "flavor" and "host"',
    '5:5 prices[3]: requires exactly one of "usdPerHour" and "usdPerChipHour"',
    '6:5 prices[4]: requires "usdPerHour" with "host"',
    '7:5 prices[5]: allows "zone" and "pricing" only with "accelerator"',
    '8:39 prices[6].usdPerHour: must be US dollars like 1.25, at least 0, not -1',
    '8:52 prices[6].since: must be a day like "2026-12-31" or a time like "2026-12-31T18:00:00Z", not "2026-02-30"',
  ]);
});

test('hosts: an SSH address that is not an option, and slots that share the GPUs evenly', async (t) => {
  const hosts = {
    gpu1: { ssh: 'gpu1.lab', gpus: 4 },
    gpu2: { ssh: 'ada@[::1]:2222', slots: 2, gpus: 8 },
    cpu: { ssh: 'cpu' },
  };
  const settings = await settingsIn(t, JSON.stringify({ hosts }))();
  assert.deepEqual(settings.hosts, hosts);
  assert.deepEqual(
    hostsOf(settings).map(({ name, slots, gpus }) => [name, slots, gpus]),
    [
      ['localhost', 4, null],
      ['gpu1', 4, 4],
      ['gpu2', 2, 8],
      ['cpu', 1, null],
    ],
  );
  const text = `{ "hosts": {
    "GPU1": { "ssh": "gpu1" },
    "localhost": { "ssh": "gpu1" },
    "a": { "ssh": "-oProxyCommand=x" },
    "b": { "ssh": "b:70000", "slots": 0 },
    "c": { "ssh": "c", "slots": 2, "gpus": 3 },
    "d": { "slots": 1, "gpu": 1 }
  } }`;
  const name = 'use lower-case letters, digits and -, beginning with a letter (localhost is this machine)';
  const address = 'must be an SSH address like "gpu1.lab" or "ada@example.com:2222", not';
  assert.deepEqual(await problemsOf(t, text), [
    `2:5 hosts: "GPU1" is not a name for a host; ${name}`,
    `3:5 hosts: "localhost" is not a name for a host; ${name}`,
    `4:19 hosts.a.ssh: ${address} "-oProxyCommand=x"`,
    `5:19 hosts.b.ssh: ${address} "b:70000"`,
    '5:39 hosts.b.slots: must be a whole number of at least 1, not 0',
    '6:10 hosts.c: has 3 GPUs, which 2 slots cannot share evenly; each slot gets the same number of GPUs',
    '7:10 hosts.d: requires "ssh": an SSH address like "gpu1.lab" or "ada@example.com:2222"',
    '7:24 hosts.d: has an unknown key "gpu" (did you mean "gpus"?)',
  ]);
});

test('all invalid variables are reported at once', async (t) => {
  const error = await refusal(settingsIn(t)({ JOBMAN_TPU_SSH_PORT: '0', JOBMAN_TPU_ENDPOINT: 'here' }));
  assert.match(error.message, /^JOBMAN_TPU_ENDPOINT should be an address .*"here"/);
  assert.deepEqual(error.lines, ['JOBMAN_TPU_SSH_PORT should be a port from 1 to 65535, not "0".']);
});

test('a file with every key at its default is valid and complete', async (t) => {
  const text = JSON.stringify(defaultSettings(4));
  for (const { key } of settingKeys) assert.ok(text.includes(`"${key.split('.').at(-1) ?? ''}"`), key);
  assert.deepEqual(await settingsIn(t, text)(), defaultSettings(4));
});

test('each key of the identity provider is checked, with its position', async (t) => {
  const oidc = (keys: string) => problemsOf(t, `{ "server": { "oidc": { ${keys} } } }`);
  const own = '"issuer": "https://login.example", "client_id": "jobman"';
  assert.deepEqual(await oidc('"issuer": "http://login.example", "token_days": 0, "clientId": "a"'), [
    '1:23 server.oidc: requires "client_id": text',
    '1:35 server.oidc.issuer: must be an address like "https://login.example", not "http://login.example"',
    '1:73 server.oidc.token_days: must be a whole number from 1 to 366, not 0',
    '1:76 server.oidc: has an unknown key "clientId" (did you mean "client_id"?)',
  ]);
  for (const [keys, problem] of [
    ['"scopes": ["email"]', 'requires "openid" in "scopes"'],
    ['"new_users": "member"', 'requires "allowed_domains" with "new_users"'],
  ] as const)
    assert.deepEqual(await oidc(`${own}, ${keys}`), [`1:23 server.oidc: ${problem}`]);
  await settingsIn(
    t,
    `{ "server": { "oidc": { ${own.replace('https', 'http').replace('login.example', '127.0.0.1:80')} } } }`,
  )();
});

test('each part of the lab section is checked, with its position', async (t) => {
  const text = `{
  "lab": {
    "zones": ["us-central2-b", "europe-west4"], "stageLimit": 0, "namePrefix": 7, "wandbKey": "secret",
    "shares": [{ "source": "10.0.0.2", "target": "home" }, { "source": "10.0.0.2:/home", "options": "-o bind; true" }],
    "spreadsheet": { "id": "https://docs.example/d/1Ab/edit", "tabs": "TPUs" }
  }
}`;
  assert.deepEqual(await problemsOf(t, text), [
    '3:32 lab.zones[1]: must be a zone like "us-east5-b", not "europe-west4" (did you mean "europe-west4-a"?)',
    '3:63 lab.stageLimit: must be a whole number of at least 1, not 0',
    '3:80 lab.namePrefix: must be text, not 7',
    '3:83: Unknown setting "lab.wandbKey" (did you mean "lab.wandbKeyFile"?)',
    '4:28 lab.shares[0].source: must be an NFS export like "10.0.0.2:/home", not "10.0.0.2"',
    '4:50 lab.shares[0].target: must be an absolute path like "/home-nfs", not "home"',
    '4:60 lab.shares[1]: requires "target": an absolute path like "/home-nfs"',
    '4:101 lab.shares[1].options: must be options of mount(8) like "vers=3,hard", not "-o bind; true"',
    '5:20 lab.spreadsheet: requires "credentials": the path of the key of a service account',
    '5:28 lab.spreadsheet.id: must be the id of a spreadsheet: the part of its address after /d/, not "https://docs.example/d/1Ab/edit"',
    '5:63 lab.spreadsheet: has an unknown key "tabs" (did you mean "tab"?)',
  ]);
});

test('the lab section is read unchanged, and a variable sets the file of the W&B key', async (t) => {
  const shares = [{ source: '10.0.0.2:/home', target: '/home-nfs', zones: ['europe-*'], options: 'vers=3,hard' }];
  const spreadsheet = { id: '1Ab_-c', credentials: 'secret.json' };
  const load = settingsIn(t, JSON.stringify({ lab: { zones: ['us-central2-b'], shares, spreadsheet } }));
  const { lab } = await load({ JOBMAN_WANDB_KEY_FILE: '/etc/wandb-key' });
  assert.deepEqual(lab, {
    ...defaultSettings(4).lab,
    zones: ['us-central2-b'],
    shares,
    spreadsheet,
    wandbKeyFile: '/etc/wandb-key',
  });
});

// ------------------------------------------------------------------------------------------ by command

function openHome(t: TestContext) {
  const { home } = openWorld(t);
  const file = join(home, 'settings.json');
  return { home, file, content: () => JSON.parse(readFileSync(file, 'utf8')) as unknown };
}

test('the first key creates the folder and the file, for their owner only', async (t) => {
  const { home, file, content } = openHome(t);
  await setSetting({ home }, 'tpu.project', 'lab');
  assert.deepEqual(content(), { tpu: { project: 'lab' } });
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(home), ['settings.json']);
});

test('each kind of value is parsed, and existing settings stay', async (t) => {
  const { home, content } = openHome(t);
  await setSetting({ home }, 'local.slots', '8');
  await setSetting({ home }, 'terminal.bell', 'false');
  await setSetting({ home }, 'tpu.project', 'lab');
  await setSetting({ home }, 'tpu.tokenCommand', '42');
  await setSetting({ home }, 'tpu.endpoint', 'null');
  await setSetting({ home }, 'grants', '[{ "accelerator": "v5e", "chips": 16 }]');
  assert.deepEqual(content(), {
    local: { slots: 8 },
    terminal: { bell: false },
    tpu: { project: 'lab', tokenCommand: '42', endpoint: null },
    grants: [{ accelerator: 'v5e', chips: 16 }],
  });
  assert.equal((await unsetSetting({ home }, 'local.slots')).changed, true);
  assert.equal((await unsetSetting({ home }, 'local.slots')).changed, false);
  assert.equal((await unsetSetting({ home }, 'tpu.endpoint')).changed, true);
  assert.deepEqual(content(), {
    terminal: { bell: false },
    tpu: { project: 'lab', tokenCommand: '42' },
    grants: [{ accelerator: 'v5e', chips: 16 }],
  });
});

test('commands at the same time lose no change of each other; the lock of a killed one is named', async (t) => {
  const { home, content } = openHome(t);
  const names = Array.from({ length: 8 }, (_, index) => `mail:u${index}@example.com`);
  await Promise.all(names.map((name) => addToSetting({ home }, 'notify.to', name, [])));
  const { notify } = content() as { readonly notify: { readonly to: readonly string[] } };
  assert.deepEqual(notify.to.toSorted(), names);
  assert.deepEqual(readdirSync(home), ['settings.json']);
  writeFileSync(join(home, 'settings.json.lock'), '');
  const error = await refusal(setSetting({ home }, 'local.slots', '8'));
  assert.equal(error.code, 4);
  assert.match(error.lines.join('\n'), /rm \/.*settings\.json\.lock$/);
});

test('one entry of an object and one element of a list are changed alone, and a new value names what it leaves out', async (t) => {
  const { home, content } = openHome(t);
  const slack = { type: 'slack', url: '~/slack-url' };
  const hook = { type: 'webhook', url: '~/hook-url' };
  await setSetting({ home }, 'notify.channels.slack', JSON.stringify(slack));
  await setSetting({ home }, 'notify.channels.hook', JSON.stringify(hook));
  await addToSetting({ home }, 'notify.to', 'slack', []);
  assert.equal((await addToSetting({ home }, 'notify.to', 'slack', [])).changed, false);
  await addToSetting({ home }, 'notify.to', 'mail:a@example.com', []);
  await addToSetting({ home }, 'notify.on', 'preempted', ['failed']);
  const notify = { channels: { slack, hook }, to: ['slack', 'mail:a@example.com'], on: ['failed', 'preempted'] };
  assert.deepEqual(content(), { notify });
  await assert.rejects(unsetSetting({ home }, 'notify.channels.slack'), (error: JobmanError) => {
    const line = 'notify.to[0]: "slack" is not a channel: notify.channels has hook';
    assert.deepEqual([error.message, ...error.lines], ['notify.channels.slack was not changed.', line]);
    return true;
  });
  await assert.rejects(addToSetting({ home }, 'notify.channels', 'x', {}), /notify\.channels is not a list/);
  assert.deepEqual(content(), { notify });
  assert.deepEqual((await setSetting({ home }, 'notify.to', '["slack"]')).removed, ['"mail:a@example.com"']);
  const { removed, removedChannels } = await setSetting({ home }, 'notify.channels', JSON.stringify({ slack }));
  assert.deepEqual([removed, removedChannels], [['hook'], ['hook']]);
});

test('a wrong key or value is refused with a message, and nothing changes', async (t) => {
  const { home, file } = openHome(t);
  const refusal = async (key: string, value: string) => {
    const error = await setSetting({ home }, key, value).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof JobmanError, `${key} ${value}`);
    assert.equal(error.code, 2);
    return [error.message, ...error.lines].join(' | ');
  };
  assert.match(
    await refusal('notify', '{}'),
    /^There is no setting notify, only notify\.to, notify\.on, .* and notify\.[a-zA-Z]+\.$/,
  );
  assert.equal(await refusal('local.slot', '3'), 'There is no setting local.slot. Did you mean local.slots?');
  assert.equal(
    await refusal('local.slots', 'many'),
    'local.slots was not changed. | local.slots: must be a whole number of at least 1, not "many"',
  );
  assert.equal(
    await refusal('grants', '[{"chips":0}]'),
    'grants was not changed. | grants[0].chips: must be a whole number of at least 1, not 0',
  );
  assert.equal(existsSync(home), false);
  await setSetting({ home }, 'local.slots', '3');
  writeFileSync(file, '{ "local": { "slots": 3, } }');
  assert.match(await refusal('local.slots', '4'), /settings\.json has invalid settings.*1:26: Expected double-quoted/);
  assert.equal(readFileSync(file, 'utf8'), '{ "local": { "slots": 3, } }');
});
