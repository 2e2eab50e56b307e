// The notifier over a real store, on a timeline that the test moves, with a sender that the test controls.

import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import { createTimeline } from '../../sim/timeline.ts';
import type { Message, NotificationStore, SendResult } from '../../src/app/notifications/outbox.ts';
import type { NotifySettings } from '../../src/app/notifications/settings.ts';
import { StoreError } from '../../src/app/errors.ts';
import type { Clock } from '../../src/app/ports.ts';
import { defaultSettings } from '../../src/app/settings.ts';
import { createNotifier, type Notifier } from '../../src/controller/notifier.ts';
import { day, hour, minute, second } from '../../src/core/model/time.ts';
import { openStore } from '../../src/store/store.ts';
import { localSpec, noon } from '../support/builders.ts';

type Send = (message: Message, signal: AbortSignal) => SendResult | Promise<SendResult>;

const sent: SendResult = { kind: 'sent', detail: 'ok' };
const failed = (more: Partial<Extract<SendResult, { kind: 'failed' }>> = {}): SendResult => ({
  kind: 'failed',
  error: 'HTTP 500',
  ...more,
});

interface Given {
  readonly settings?: Partial<NotifySettings>;
  readonly store?: (real: NotificationStore) => NotificationStore;
}

async function open(t: TestContext, answer: Send, given: Given = {}) {
  const timeline = createTimeline();
  let offset = noon;
  const clock: Clock = { now: () => offset + timeline.now, at: (at, call) => timeline.at(at - offset, call) };
  const store = openStore({ file: ':memory:', installation: 'abc123' });
  t.after(() => store.close());
  const tries: { readonly key: string; readonly to: string; readonly at: number; readonly events: number }[] = [];
  const lines: string[] = [];
  const settings = { ...defaultSettings(1).notify, to: ['slack'], ...given.settings };
  let starts = 0;
  const start = (send = answer): Notifier => {
    starts += 1;
    const own = starts;
    // A killed controller does nothing more.
    const mortal: Clock = { ...clock, at: (at, call) => clock.at(at, () => (own === starts ? call() : undefined)) };
    return createNotifier({
      store: given.store?.(store.notifications) ?? store.notifications,
      settings,
      clock: mortal,
      report: (line) => lines.push(line),
      async send(message, signal) {
        tries.push({ key: message.key, to: message.recipient, at: timeline.now, events: message.notices.length });
        return send(message, signal);
      },
    });
  };
  let notifier = start();
  return {
    tries,
    lines,
    outbox: store.notifications,
    get notifier() {
      return notifier;
    },
    /** A job that has just succeeded. */
    finishJob: async (owner = 'ada'): Promise<void> => {
      const { job, revision } = await store.insert({ owner, spec: localSpec(), manifest: '', at: clock.now() });
      const event = { kind: 'finished', at: clock.now(), verdict: 'succeeded', reason: 'succeeded' } as const;
      await store.commit({ job, revision, events: [event], foldedOutcomes: [], wakeAt: null, epoch: null });
      notifier.poll();
    },
    run: (length: number) => timeline.run(timeline.now + length, () => false),
    moveClock: (length: number): void => void (offset += length),
    /** The controller is killed and another one begins. */
    restart(send?: Send) {
      notifier = start(send);
      notifier.poll();
    },
  };
}

test('an event is sent once and recorded', async (t) => {
  const { finishJob, run, tries, outbox, notifier } = await open(t, () => sent);
  await finishJob();
  await run(second);
  notifier.poll();
  await run(day);
  assert.equal(tries.length, 1);
  assert.equal((await outbox.messages(5, null))[0]?.state, 'sent');
  assert.equal(notifier.isBusy, false);
});

test('nothing is sent and nothing is kept without a recipient', async (t) => {
  const { finishJob, run, tries, outbox, notifier } = await open(t, () => sent, { settings: { to: [] } });
  await finishJob();
  await run(second);
  assert.deepEqual([tries, await outbox.unaddressed(noon + day), notifier.isBusy], [[], [], false]);
});

test('nothing is sent when the events are dropped before they are in a message', async (t) => {
  const store = (real: NotificationStore): NotificationStore => ({
    ...real,
    async createMessage(...given) {
      await real.drop('slack', { at: noon, error: 'dropped' }, null);
      return real.createMessage(...given);
    },
  });
  const { finishJob, run, tries, outbox, notifier } = await open(t, () => sent, { store });
  await finishJob();
  await run(minute);
  assert.deepEqual([tries, (await outbox.messages(5, null)).map(({ state }) => state)], [[], ['given_up']]);
  assert.equal(notifier.isBusy, false);
});

suite('a failed message', () => {
  test('is repeated with the same key after growing pauses, and given up after a day', async (t) => {
    const { finishJob, run, tries, outbox, notifier, lines } = await open(t, () => failed());
    await finishJob();
    await run(day);
    assert.equal(new Set(tries.map(({ key }) => key)).size, 1);
    assert.deepEqual(
      tries.slice(0, 4).map(({ at }) => at),
      [0, 5_000, 15_000, 35_000],
    );
    const pauses = tries.slice(1).map(({ at }, index) => at - (tries[index]?.at ?? 0));
    assert.equal(Math.max(...pauses), 15 * minute);
    assert.equal(notifier.isBusy, true);
    await run(hour);
    const [view] = await outbox.messages(1, null);
    assert.deepEqual([view?.state, view?.error, view?.tries], ['given_up', 'HTTP 500', tries.length]);
    assert.equal(notifier.isBusy, false);
    assert.equal(lines.length, 2);
    assert.match(lines[1] ?? '', /^gave up the message jobman-abc123-1 to slack after try \d+: HTTP 500$/);
  });

  test('is given up at once if another try cannot succeed', async (t) => {
    const { finishJob, run, tries, outbox } = await open(t, () => failed({ isFinal: true }));
    await finishJob();
    await run(hour);
    assert.equal(tries.length, 1);
    assert.equal((await outbox.messages(1, null))[0]?.state, 'given_up');
  });

  test('is not repeated before the server allows it, within limits', async (t) => {
    const pauses = [40 * second, 3 * hour];
    const { finishJob, run, tries } = await open(t, () => {
      const retryAfter = pauses.shift();
      return retryAfter === undefined ? sent : failed({ retryAfter });
    });
    await finishJob();
    await run(day);
    assert.deepEqual(
      tries.map(({ at }) => at),
      [0, 40 * second, 40 * second + 15 * minute],
    );
  });

  test('is followed by one digest of the events that came meanwhile', async (t) => {
    let isUp = false;
    const { finishJob, run, tries } = await open(t, () => (isUp ? sent : failed()));
    await finishJob();
    await run(second);
    for (let count = 0; count < 8; count += 1) await finishJob();
    await run(minute);
    isUp = true;
    await run(hour);
    assert.deepEqual(
      tries.slice(-2).map(({ events }) => events),
      [1, 8],
    );
  });
});

suite('a controller that is killed', () => {
  test('between the delivery and its record sends the message again, with the same key', async (t) => {
    const dead = new Promise<never>(() => undefined);
    const world = await open(t, () => sent, { store: (real) => ({ ...real, recordEnd: () => dead }) });
    await world.finishJob();
    await world.run(second);
    assert.equal(world.tries.length, 1);
    world.restart();
    await world.run(second);
    assert.deepEqual(new Set(world.tries.map(({ key }) => key)), new Set(['jobman-abc123-1']));
    assert.equal(world.tries.length, 2);
  });

  test('before its first round loses no event, and long after the event one try is made', async (t) => {
    const world = await open(t, () => sent, {
      store: (real) => ({ ...real, unaddressed: () => new Promise(() => undefined) }),
    });
    await world.finishJob();
    await world.run(3 * day);
    assert.equal(world.tries.length, 0);
    const next = createNotifier({
      store: world.outbox,
      settings: { ...defaultSettings(1).notify, to: ['slack'] },
      clock: { now: () => noon + 3 * day, at: () => () => undefined },
      report: () => undefined,
      send: async () => sent,
    });
    next.poll();
    await world.run(second);
    assert.equal((await world.outbox.messages(1, null))[0]?.state, 'sent');
  });

  test('leaves the time of the next try to its successor', async (t) => {
    const world = await open(t, () => failed());
    await world.finishJob();
    await world.run(20 * second);
    const before = world.tries.length;
    world.restart(() => sent);
    await world.run(second);
    assert.equal(world.tries.length, before);
    await world.run(minute);
    assert.equal((await world.outbox.messages(1, null))[0]?.state, 'sent');
  });
});

suite('a server that hangs', () => {
  test('delays no other channel', async (t) => {
    const hanging = Array.from({ length: 9 }, (_, index) => `mail:user${index}@example.com`);
    const { finishJob, run, tries } = await open(
      t,
      ({ recipient }) => (recipient.startsWith('mail:') ? new Promise(() => undefined) : sent),
      { settings: { to: [...hanging, 'slack', 'pager'] } },
    );
    await finishJob();
    await run(second);
    assert.deepEqual(
      tries
        .filter(({ to }) => !to.startsWith('mail:'))
        .map(({ to }) => to)
        .toSorted(),
      ['pager', 'slack'],
    );
    assert.equal(tries.length, 2 + 4);
  });

  test('delays the exit of the controller only for seconds, and the message is sent again', async (t) => {
    const world = await open(
      t,
      (_message, signal) => new Promise((resolve) => signal.addEventListener('abort', () => resolve(failed()))),
    );
    await world.finishJob();
    await world.run(second);
    let isStopped = false;
    void world.notifier.stop().then(() => (isStopped = true));
    await world.run(4 * second);
    assert.equal(isStopped, false);
    await world.run(3 * second);
    assert.equal(isStopped, true);
    const [view] = await world.outbox.messages(1, null);
    assert.deepEqual([view?.state, view?.tries], ['pending', 0]);
    world.restart(() => sent);
    await world.run(second);
    assert.equal((await world.outbox.messages(1, null))[0]?.state, 'sent');
  });
});

test('a thousand events for a server that is down delay no other recipient', async (t) => {
  const users = { ada: { to: ['mail:ada@example.com'] } };
  const world = await open(t, ({ recipient }) => (recipient === 'slack' ? sent : failed()), { settings: { users } });
  await world.finishJob();
  await world.run(second);
  for (let count = 0; count < 1_100; count += 1) await world.finishJob();
  await world.finishJob('bob');
  await world.run(minute);
  assert.ok(world.tries.some(({ to }) => to === 'slack'));
});

test('a clock that is set back delays no message', async (t) => {
  let isUp = false;
  const world = await open(t, () => (isUp ? sent : failed()));
  await world.finishJob();
  await world.run(10 * minute);
  isUp = true;
  world.moveClock(-day);
  world.notifier.poll();
  await world.run(second);
  assert.equal((await world.outbox.messages(1, null))[0]?.state, 'sent');
});

test('a poll without an event does not keep the controller running', async (t) => {
  const { notifier, run } = await open(t, () => sent);
  notifier.poll();
  await run(second);
  notifier.poll();
  assert.equal(notifier.isBusy, false);
  notifier.onCommit();
  assert.equal(notifier.isBusy, true);
  await run(second);
  assert.equal(notifier.isBusy, false);
});

test('many events go out as one message, within the limits of the settings', async (t) => {
  const { finishJob, run, tries } = await open(t, () => sent, {
    settings: { digestAfter: 2, digestWindowMs: 10 * minute },
  });
  for (let count = 0; count < 2; count += 1) {
    await finishJob();
    await run(second);
  }
  for (let count = 0; count < 7; count += 1) await finishJob();
  await run(9 * minute);
  assert.deepEqual(
    tries.map(({ events }) => events),
    [1, 1],
  );
  await run(2 * minute);
  assert.deepEqual(
    tries.map(({ events }) => events),
    [1, 1, 7],
  );
});

test('each owner gets the events of their own jobs only', async (t) => {
  const users = { ada: { to: ['mail:ada@example.com'] }, bob: { to: ['mail:bob@example.com'] } };
  const { finishJob, run, tries } = await open(t, () => sent, { settings: { users, to: [] } });
  for (const owner of ['ada', 'bob', 'ada', 'eve']) await finishJob(owner);
  await run(hour);
  const toAda = tries.filter(({ to }) => to === 'mail:ada@example.com');
  assert.equal(
    toAda.reduce((sum, { events }) => sum + events, 0),
    2,
  );
  assert.equal(
    tries.reduce((sum, { events }) => sum + events, 0),
    3,
  );
});

test('a database that takes no writes is retried without a second delivery', async (t) => {
  let isFull = false;
  const full = () => Promise.reject(new StoreError('full', 'The disk is full.'));
  const { finishJob, run, tries, outbox, lines } = await open(
    t,
    () => {
      isFull = true;
      return sent;
    },
    { store: (real) => ({ ...real, recordEnd: (...end) => (isFull ? full() : real.recordEnd(...end)) }) },
  );
  await finishJob();
  await run(10 * minute);
  assert.equal(tries.length, 1);
  assert.equal(lines.length, 1);
  isFull = false;
  await run(2 * minute);
  assert.equal(tries.length, 1);
  assert.equal((await outbox.messages(1, null))[0]?.state, 'sent');
});
