// The controller's one timer, when the clock is set back in the middle of a round: the moments that the timer is set by were
// worked out before, and would lie as far ahead as the clock went back.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { Clock, LogFiles, Store } from '../../src/app/ports.ts';
import { createController } from '../../src/controller/controller.ts';
import { leasePace } from '../../src/controller/lease.ts';
import { day, second } from '../../src/core/time.ts';
import { openStore } from '../../src/store/store.ts';

const none = (): never => assert.fail('without a job nothing is asked of it');

test('a clock that is set back while the lease is renewed leaves no timer longer than until the next renewal', async () => {
  let now = Date.UTC(2026, 0, 1);
  let setBack = 0;
  const waits: number[] = [];
  let fire: (() => void) | undefined;
  const clock: Clock = {
    now: () => now,
    at(at, call) {
      waits.push(at - now);
      fire = call;
      return () => undefined;
    },
  };
  const real = openStore({ file: ':memory:', installation: 'aaaaaa' });
  const store: Store = {
    ...real,
    async takeLease(...given) {
      const taken = await real.takeLease(...given);
      now -= setBack;
      setBack = 0;
      return taken;
    },
  };
  const logFiles: LogFiles = { length: none, append: none, step: none, last: none, note: none, mirror: none };
  const controller = createController({
    store,
    backendOf: none,
    clock,
    logFiles,
    log: { info: () => undefined, warn: () => undefined },
    holder: 'one',
    version: '0.0.0',
    certain: true,
    slots: 1,
    idleExitMs: null,
  });
  controller.start();
  await rounds();
  setBack = day;
  now += 10 * second;
  fire?.();
  await rounds();
  assert.equal(setBack, 0, 'the lease was not renewed');
  assert.ok((waits.at(-1) ?? Infinity) <= leasePace, `the next round is in ${waits.at(-1)} ms`);
  await controller.stop();
  await real.close();
});

/** Lets everything that waits for nothing outside come to its end. */
async function rounds(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await setImmediate();
}
