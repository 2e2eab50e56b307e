// Recipients, digests and the texts of messages.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import {
  heldEvents,
  heldPhrase,
  maxNoticesPerMessage,
  nextMessage,
  planMessage,
} from '../../../src/app/notifications/digest.ts';
import {
  commandEnvironment,
  mailSubject,
  mailText,
  messageJson,
  slackBody,
} from '../../../src/app/notifications/message-text.ts';
import type { Notice } from '../../../src/app/notifications/notice.ts';
import { configuredRecipients, parseNotifySpec, recipientsOf } from '../../../src/app/notifications/recipients.ts';
import { defaultSettings } from '../../../src/app/settings.ts';
import { isMailAddress, notifyEventNames, readRecipient } from '../../../src/core/model/notify.ts';
import { minute } from '../../../src/core/model/time.ts';
import { aMessage, aNotice, noon } from '../../notify/messages.ts';
import { root } from '../../support/root.ts';

const { notify: defaults } = defaultSettings(1);

suite('the recipients of an event', () => {
  const settings = {
    ...defaults,
    to: ['slack'],
    on: ['failed' as const, 'orphans' as const],
    users: { ada: { to: ['mail:ada@example.com'] }, bob: { on: ['preempted' as const] } },
  };
  const of = (owner: string | null, event: 'failed' | 'preempted' | 'orphans', notify = {}) =>
    recipientsOf({ owner, event, notify }, settings);

  test('are those of its job, else those of its owner, else those for all', () => {
    assert.deepEqual(of('ada', 'failed', { to: ['pager', 'pager'] }), ['pager']);
    assert.deepEqual(of('ada', 'failed'), ['mail:ada@example.com']);
    assert.deepEqual(of('eve', 'failed'), ['slack']);
  });

  test('are chosen independently of the events', () => {
    assert.deepEqual(of('bob', 'preempted'), ['slack']);
    assert.deepEqual(of('bob', 'failed'), []);
    assert.deepEqual(of('ada', 'preempted', { on: ['preempted'] }), ['mail:ada@example.com']);
    assert.deepEqual(of('ada', 'failed', { on: [] }), []);
  });

  test('of another owner never include an owner’s own address', () => {
    for (const owner of ['bob', 'eve', null, 'constructor', '__proto__'])
      assert.ok(!of(owner, 'failed').includes('mail:ada@example.com'), String(owner));
    assert.deepEqual(of(null, 'orphans'), ['slack']);
  });

  test('that `notify test` reaches are all of the settings', () => {
    const channels = { pager: { type: 'command', command: 'x' } } as const;
    assert.deepEqual(configuredRecipients({ ...settings, channels }), ['pager', 'slack', 'mail:ada@example.com']);
  });

  test('of an annotation are read without its invalid parts', () => {
    const text = JSON.stringify({
      on: ['failed', 'nonsense'],
      to: ['slack', 7, 'mail:a@b\nBcc: eve@c', 'ada@example.com'],
    });
    assert.deepEqual(parseNotifySpec(text), { on: ['failed'], to: ['slack', 'mail:ada@example.com'] });
    for (const wrong of ['', '[', '"x"', 'null', undefined]) assert.equal(parseNotifySpec(wrong), undefined);
  });
});

test('an address is one address', () => {
  for (const valid of [
    'a@b',
    'alice@example.com',
    'al.ice+tag@mail.example.com',
    'älice@exämple.com',
    "o'neil@example.com",
  ])
    assert.equal(isMailAddress(valid), true, valid);
  for (const wrong of [
    '',
    'a',
    '@b',
    'a@',
    'a@b@c',
    'a b@c',
    'a@b,c@d',
    'a@b\n',
    '<a@b>',
    'a@b\u0000',
    'a@b;c',
    '"a b"@c',
    'a\u202e@b',
    `${'x'.repeat(65)}@b`,
  ])
    assert.equal(isMailAddress(wrong), false, JSON.stringify(wrong));
  assert.deepEqual(readRecipient('alice@example.com'), { recipient: 'mail:alice@example.com' });
  assert.deepEqual(readRecipient('mail:alice@example.com'), { recipient: 'mail:alice@example.com' });
  assert.deepEqual(readRecipient('slack'), { recipient: 'slack' });
  for (const wrong of ['Slack', 'mail:', 'https://hooks.example.com/x', '7', 'mail:a@b,c@d'])
    assert.ok('problem' in readRecipient(wrong), wrong);
});

suite('a digest', () => {
  const limits = { digestAfter: 3, digestWindowMs: 10 * minute };

  test('begins after as many messages as the window allows', () => {
    assert.deepEqual(planMessage(1, [], noon, limits), { at: noon, notices: 1 });
    assert.deepEqual(planMessage(3, [], noon, limits), { at: noon, notices: 1 });
    assert.deepEqual(planMessage(4, [], noon, limits), { at: noon, notices: 4 });
    assert.deepEqual(planMessage(1, [noon - 1, noon - 2], noon, limits), { at: noon, notices: 1 });
    assert.deepEqual(planMessage(2, [noon - 1, noon - 2], noon, limits), { at: noon, notices: 2 });
    const sentAt = [noon - 5 * minute, noon - minute, noon - 9 * minute];
    assert.deepEqual(planMessage(1, sentAt, noon, limits), { at: noon + minute, notices: 1 });
    assert.deepEqual(planMessage(9, sentAt, noon, limits), { at: noon + minute, notices: 9 });
    assert.deepEqual(planMessage(9, sentAt, noon + minute, limits), { at: noon + minute, notices: 9 });
  });

  test('with an urgent event does not wait for the window, at most once a minute', () => {
    const full = [noon - 3_000, noon - 2_000, noon - 1_000];
    assert.deepEqual(planMessage(2, full, noon, limits, true), { at: noon, notices: 2 });
    const early = [...full, noon];
    assert.deepEqual(planMessage(1, early, noon + 10_000, limits, true), { at: noon + minute, notices: 1 });
    assert.equal(planMessage(1, early, noon + 10_000, limits).at, noon - 2_000 + limits.digestWindowMs);
    const almostOver = [noon - limits.digestWindowMs + 5_000, noon - 2_000, noon - 1_000];
    assert.equal(planMessage(1, [...almostOver, noon - 500], noon, { ...limits, digestAfter: 4 }, true).at, noon);
    assert.equal(planMessage(1, almostOver, noon, limits).at, noon + 5_000);
  });

  test('never leaves an urgent event to a later message', () => {
    const noticesWith = (event: Notice['event']) =>
      Array.from({ length: 300 }, (_, id) => ({ ...aNotice({ event: id === 299 ? event : 'succeeded' }), id }));
    const notices = noticesWith('succeeded');
    const waiting = { recipient: 'slack', notices, sentAt: [noon - 3_000, noon - 2_000, noon - 1_000] };
    for (const event of ['failed', 'budget_warning', 'budget_used', 'budget_released'] as const) {
      const next = nextMessage({ ...waiting, notices: noticesWith(event) }, noon, limits);
      assert.deepEqual([next.at, next.notices.length, next.notices[0]], [noon, maxNoticesPerMessage, 299], event);
    }
    const calm = { ...waiting, notices: notices.slice(0, 2) };
    const [held] = heldEvents([calm], [], noon, limits, null);
    assert.deepEqual([held?.events, held?.nextAt], [2, noon - 3_000 + limits.digestWindowMs]);
    assert.ok(held !== undefined);
    assert.equal(
      heldPhrase(held, noon),
      '2 events for slack are held by the digest window for another 9m57s (notify.digestWindowMs)',
    );
  });

  test('has a line for each event in the environment of a command, within a limit', () => {
    const message = { id: 1, key: 'k', recipient: 'hook', createdAt: noon };
    const few = commandEnvironment({ ...message, notices: [aNotice(), aNotice()] })['JOBMAN_NOTIFY_MESSAGE'] ?? '';
    assert.equal(few.split('\n').length, 2);
    const long = aNotice({ message: 'x'.repeat(5_000) });
    const many = commandEnvironment({ ...message, notices: Array.from({ length: 200 }, () => long) });
    assert.equal(many['JOBMAN_NOTIFY_MESSAGE']?.length, 8_000);
  });

  test('never lets more messages begin in any window', () => {
    const sentAt: number[] = [];
    let waiting = 0;
    for (let now = noon; now < noon + 60 * minute; now += 10_000) {
      waiting += 1;
      const plan = planMessage(waiting, sentAt, now, limits);
      if (plan.at > now) continue;
      sentAt.push(now);
      waiting -= plan.notices;
    }
    for (const at of sentAt) {
      const inWindow = sentAt.filter((other) => other > at - limits.digestWindowMs && other <= at);
      assert.ok(inWindow.length <= limits.digestAfter, `${inWindow.length} messages in a window`);
    }
    assert.ok(waiting < 60);
  });

  test('is bounded, and times from a clock that was ahead do not delay it', () => {
    assert.equal(planMessage(5_000, [], noon, limits).notices, maxNoticesPerMessage);
    const ahead = [noon + 90 * minute, noon + 91 * minute, noon + 92 * minute];
    assert.equal(planMessage(1, ahead, noon, limits).at, noon);
  });

  test('counts its events in the subject and lists them', () => {
    const notices = [
      aNotice(),
      aNotice({ job: '000043', name: 'vit' }),
      aNotice({ event: 'failed', message: 'exit code 1' }),
    ];
    assert.equal(mailSubject({ notices }), '[jobman] 3 events: 2 preempted and 1 failed');
    const lines = mailText(aMessage(notices)).split('\n');
    assert.equal(lines[3], '2026-11-22T12:00:00Z  000043 vit was preempted: ending attempt 2: preempted');
    const many = Array.from({ length: 60 }, () => aNotice());
    assert.match(mailText(aMessage(many)), /^and 10 more$/m);
    assert.match((JSON.parse(slackBody(aMessage(many))) as { text: string }).text, /\nand 10 more$/);
    assert.equal((JSON.parse(messageJson(aMessage(many))) as { events: unknown[] }).events.length, 60);
  });
});

test('a long line of a program is cut, and its control characters are visible', () => {
  const text = mailText(aMessage([aNotice({ message: `\u001b[31m${'x'.repeat(5_000)}\u2028end` })]));
  assert.ok(text.length < 1_500);
  assert.doesNotMatch(text, /\p{Cc}(?<!\n)|\u2028/u);
});

test('the choice of a manifest is not part of the message', () => {
  const json = messageJson(aMessage([aNotice({ notify: { to: ['mail:secret@example.com'] } })]));
  assert.doesNotMatch(json, /secret@example\.com/);
});

test('the page of notifications explains every event and names the default ones', () => {
  const text = readFileSync(join(root, 'docs/notifications.md'), 'utf8');
  const [, table = ''] = /## Events\n(.*?)\n## /s.exec(text) ?? [];
  const rows = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, name]) => name);
  assert.deepEqual(rows, notifyEventNames);
  const [, sentence = ''] = /By default jobman reports (.*?);/.exec(table) ?? [];
  assert.deepEqual(
    [...sentence.matchAll(/`(\w+)`/g)].map(([, name]) => name),
    defaults.on,
  );
});
