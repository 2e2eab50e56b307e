// `jobman notify`: recipients, messages, and test messages.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { MessageView, TestAnswer } from '../../src/app/client.ts';
import type { NotifySettings } from '../../src/app/notifications/settings.ts';
import { defaultSettings } from '../../src/app/settings.ts';
import { jobman, jsonLines, now } from './support/harness.ts';

const settings: Partial<NotifySettings> = {
  to: ['slack', 'gone'],
  users: { ada: { to: ['mail:ada@example.com'] } },
  channels: { slack: { type: 'slack', url: '~/slack-url' }, script: { type: 'command', command: '~/bin/x' } },
};

function withSettings(changes: Partial<NotifySettings>) {
  const all = defaultSettings(4);
  return { settings: async () => ({ ...all, notify: { ...all.notify, ...changes } }) };
}

const message = (changes: Partial<MessageView> = {}): MessageView => ({
  key: 'jobman-abc123-1',
  recipient: 'slack',
  state: 'sent',
  tries: 1,
  createdAt: now - 120_000,
  endedAt: now - 60_000,
  nextAt: null,
  error: null,
  notices: [{ event: 'failed', job: '000042', name: 'llama', owner: 'ada', at: now - 180_000, message: 'exit code 1' }],
  ...changes,
});

suite('notify list', () => {
  const messages = [
    message({ state: 'pending', tries: 0, endedAt: null, nextAt: now }),
    message({ state: 'pending', tries: 3, endedAt: null, nextAt: now + 40_000, error: 'HTTP 500: \u001b[31moops' }),
    message({ state: 'given_up', tries: 90, error: 'HTTP 404' }),
    message({ notices: Array.from({ length: 7 }, () => message().notices).flat() }),
  ];

  test('shows recipients with their problems, and messages with their failures', async () => {
    const { out, code } = await jobman(['notify'], { services: withSettings(settings), messages });
    assert.equal(code, 0);
    assert.equal(
      out,
      `RECIPIENT             CHANNEL  JOBS                     PROBLEM
slack                 slack    all except those of ada  -
script                command  those that name it       -
gone                  -        all except those of ada  no such channel is set (notify.channels)
mail:ada@example.com  mail     of ada                   no mail server is set (notify.smtp)

AGE  TO     STATE         TRIES  MESSAGE
2m   slack  pending           0  000042 failed
2m   slack  retry in 40s      3  000042 failed: HTTP 500: oops
2m   slack  given up         90  000042 failed: HTTP 404
2m   slack  sent              1  7 events
`,
    );
  });

  test('shows the events that wait for their message', async () => {
    const heldEvents = [{ recipient: 'slack', events: 3, oldestAt: now - 60_000, nextAt: now + 90_000 }];
    const services = withSettings(settings);
    const { out } = await jobman(['notify'], { services, messages, heldEvents });
    assert.match(out, /^3 events for slack are held by the digest window for another 1m30s/m);
    const client = { isControllerRunning: async () => false };
    const stopped = await jobman(['notify'], { services, client, messages, heldEvents });
    assert.match(stopped.err, /^No controller runs, so nothing is sent until you start one: jobman controller start$/m);
    const { out: json } = await jobman(['notify', '--json'], { services, heldEvents });
    assert.deepEqual(jsonLines(json).at(-1), {
      kind: 'held',
      recipient: 'slack',
      events: 3,
      oldestAt: '2026-11-21T08:19:14.000Z',
      nextAt: '2026-11-21T08:21:44.000Z',
    });
  });

  test('with --json has an object for each', async () => {
    const { out } = await jobman(['notify', 'list', '--json'], { services: withSettings(settings), messages });
    const lines = jsonLines(out) as { kind: string; recipient: string; state?: string; endedAt?: string }[];
    assert.deepEqual(
      lines.map(({ kind }) => kind),
      [...Array.from({ length: 4 }, () => 'recipient'), ...Array.from({ length: 4 }, () => 'message')],
    );
    assert.equal(lines.at(-1)?.endedAt, '2026-11-21T08:19:14.000Z');
  });

  test('says what to read if nothing is set', async () => {
    const { out, err, code } = await jobman(['notify'], { services: withSettings({}) });
    assert.deepEqual([out, code], ['', 0]);
    assert.match(err, /docs\/notifications\.md/);
  });

  test('fits a narrow terminal', async () => {
    const { out } = await jobman(['notify'], {
      services: withSettings(settings),
      messages,
      terminal: { columns: 40, rows: 24 },
    });
    for (const line of out.split('\n')) assert.ok(line.length <= 40, line);
  });
});

suite('notify test', () => {
  const slackOnly = async (recipient: string): Promise<TestAnswer> =>
    recipient === 'slack' ? { isSent: true, message: 'HTTP 200 ok' } : { isSent: false, message: 'no way\u001b[2J' };

  test('sends to everyone in the settings and fails if one fails', async () => {
    const { out, code } = await jobman(['notify', 'test'], {
      services: withSettings(settings),
      client: { testRecipient: slackOnly },
    });
    assert.equal(code, 1);
    assert.deepEqual(out.trimEnd().split('\n').toSorted(), [
      'gone: failed (no way\\x1b[2J)',
      'mail:ada@example.com: failed (no way\\x1b[2J)',
      'script: failed (no way\\x1b[2J)',
      'slack: sent (HTTP 200 ok)',
    ]);
  });

  test('sends to the named channels and addresses only', async () => {
    const recipients: string[] = [];
    const client = {
      async testRecipient(recipient: string) {
        recipients.push(recipient);
        return { isSent: true, message: 'ok' };
      },
    };
    const services = withSettings(settings);
    const { out, code } = await jobman(['notify', 'test', 'slack', 'bob@example.com', '--json'], { services, client });
    assert.equal(code, 0);
    assert.deepEqual(recipients, ['slack', 'mail:bob@example.com']);
    assert.deepEqual(jsonLines(out)[0], { kind: 'test', recipient: 'slack', ok: true, message: 'ok' });
  });

  test('warns of a secret that other users may read', async () => {
    const client = {
      testRecipient: slackOnly,
      openSecrets: async () => [{ host: 'login', path: '/home/ada/slack url' }],
    };
    const { err } = await jobman(['notify', 'test', 'slack'], { services: withSettings(settings), client });
    assert.equal(
      err,
      `warning: other users may read the secret in /home/ada/slack url: chmod 600 '/home/ada/slack url'\n`,
    );
  });

  test('drops the events of a recipient, and names those that have some', async () => {
    const recipientsInUse = [{ recipient: 'teams', jobs: [], events: 3 }];
    const { out, code } = await jobman(['notify', 'drop', 'teams'], { recipientsInUse });
    assert.deepEqual([out, code], ['Dropped 3 events for teams.\n', 0]);
    const absent = await jobman(['notify', 'drop', 'slack'], { recipientsInUse });
    assert.deepEqual([absent.code, absent.err], [3, 'jobman: No event waits for "slack". Events wait for teams.\n']);
  });

  for (const [argv, expected] of [
    [['test', 'slcak'], /The settings have no channel "slcak" \(notify\.channels\)\. There are: slack, script\./],
    [['test', 'a@b, c@d'], /is not one mail address/],
    [['send'], /Unexpected arguments: jobman notify send/],
  ] as const) {
    test(`refuses ${argv.join(' ')}`, async () => {
      const { err, code } = await jobman(['notify', ...argv], { services: withSettings(settings) });
      assert.equal(code, 2);
      assert.match(err, expected);
    });
  }

  test('without a recipient says how to name one', async () => {
    const { err, code } = await jobman(['notify', 'test'], { services: withSettings({}) });
    assert.equal(code, 2);
    assert.match(err, /jobman notify test mail:alice@example\.com/);
  });
});
