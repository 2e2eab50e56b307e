// Events between two steps of the controller that once did harm: a clock that is set during an observation, a resource
// that disappears during an orphan collection, a clock that jumped and was corrected before the logs were copied. The
// simulator found each.

import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { printedBytes, requestMachine, newMachine } from '../../sim/world.ts';
import type { MachinePort, Clock, LogFiles, Store } from '../../src/app/ports.ts';
import { createController } from '../../src/controller/controller.ts';
import { fileLease } from '../../src/controller/lease.ts';
import type { Job } from '../../src/core/model/job.ts';
import { known, unknown } from '../../src/core/model/observation.ts';
import { day, hour, minute, second } from '../../src/core/model/time.ts';
import { openStore } from '../../src/store/store.ts';
import { openSimulatedJob, type SimulatedJob } from './simulated-job.ts';

test('a program that is starting is not ended when the clock jumps a day during its observation', async (t) => {
  let leaps = 0;
  const life = await runningIn(t, {
    faultRates: { startSlow: 1 },
    machines: (real, inLife) => ({
      ...real,
      async observe(refs) {
        const facts = await real.observe(refs);
        const isStarting = facts.some(
          (fact) => fact.kind === 'known' && fact.value.runs.some(({ state }) => state === 'starting'),
        );
        if (isStarting && leaps === 0) {
          leaps += 1;
          inLife().moveClock(day);
        }
        return facts;
      },
    }),
  });
  assert.equal(leaps, 1, 'it was never observed while it was starting');
  assert.deepEqual(
    (await life.job()).attempts.map(({ ordinal, ending }) => [ordinal, ending]),
    [[1, null]],
  );
});

test('a local job stops within seconds even if the wake-up of the controller was lost', async (t) => {
  const life = await runningIn(t, {
    spec: { capacity: { kind: 'hosts', ownership: 'persistent', hosts: ['localhost'] } },
  });
  // Longer than its interval, so that passes without a change have happened.
  assert.equal(await life.runUntil(() => false, 4 * hour), false);
  await life.command('stop', { isWakeLost: true });
  assert.ok(await life.runUntil(({ finish }) => finish !== null, minute));
});

test('a command without an effect does not cause further observations', async (t) => {
  let observations = 0;
  const life = await lifeIn(t, {
    spec: {
      capacity: { kind: 'hosts', ownership: 'persistent', hosts: ['localhost'] },
      limits: { maxRuntimeMs: 6 * hour, silenceTimeoutMs: null, capacityWaitMs: null, setupTries: 3 },
    },
    machines: (real) => ({
      ...real,
      observe(refs) {
        observations += 1;
        return real.observe(refs);
      },
    }),
  });
  assert.equal(await life.runUntil(() => false, 4 * hour), false);
  observations = 0;
  await life.command('disable-recovery');
  assert.equal(await life.runUntil(() => false, hour), false);
  assert.equal((await life.job()).attempts.at(-1)?.ending, null);
  assert.ok(observations > 0 && observations < 5, `${observations} observations in an hour`);
});

test('what is known about the workers is dropped when their TPU is gone', async (t) => {
  const dropped: boolean[] = [];
  const life = await runningIn(t, {
    machines: (real) => ({
      ...real,
      disconnect: ({ allocation }) => void dropped.push(allocation.goneAt !== null && allocation.releasedAt !== null),
    }),
  });
  await life.command('cancel');
  assert.ok(await life.runUntil(({ allocations }) => allocations.every(({ goneAt }) => goneAt !== null), hour));
  assert.deepEqual(dropped, [false, true]);
});

test('a worker is not given up because of the time in which the database was unreadable', async (t) => {
  let isSilent = false;
  let isFull = false;
  const life = await runningIn(t, {
    machines: (real) => ({
      ...real,
      async observe(refs) {
        const facts = await real.observe(refs);
        return isSilent ? facts.map(() => unknown('no answer', 0)) : facts;
      },
    }),
    store: (real) => ({
      ...real,
      load: (id) => (isFull ? Promise.reject(new Error('the disk is full')) : real.load(id)),
    }),
  });
  isSilent = true;
  assert.ok(await life.runUntil((job) => job.allocations[0]?.unreachableAt !== null, minute));
  isSilent = false;
  isFull = true;
  await life.runUntil(() => false, 30 * second);
  isSilent = true;
  isFull = false;
  assert.equal(await life.runUntil((job) => job.attempts[0]?.ending !== null, 165 * second), false);
  assert.ok(await life.runUntil((job) => job.attempts[0]?.ending?.reason === 'unreachable', 2 * minute));
});

test('a failure counts once if the database stores it, but its answer is lost', async (t) => {
  let starts = 0;
  let hasLost = false;
  const life: SimulatedJob = await lifeIn(t, {
    machines: (real) => ({
      ...real,
      async start(ref, launch) {
        starts += 1;
        return starts === 1 ? { kind: 'failed', evidence: { message: 'no process left' } } : real.start(ref, launch);
      },
    }),
    store: (real) => ({
      ...real,
      async addOutcome(id, outcome) {
        await real.addOutcome(id, outcome);
        if (outcome.subject.kind !== 'start' || hasLost) return;
        hasLost = true;
        // A pass before the outcome is written again.
        life.controller.wake(id);
        throw new Error('the connection was lost');
      },
    }),
  });
  assert.ok(await life.runUntil(isRunning, 5 * minute));
  assert.ok(hasLost);
  assert.deepEqual(
    (await life.job()).attempts[0]?.failures.map(({ tries }) => tries),
    [1],
  );
});

for (const [named, reason, isOut] of [
  ['by the error', 'ssh to worker 0: spawn /usr/bin/ssh EMFILE', false],
  ['by the attempt to open a file', 'getaddrinfo EAI_AGAIN worker-0', true],
] as const) {
  test(`a worker that could not be checked for lack of file descriptors, detected ${named}, is not given up`, async (t) => {
    let isShort = false;
    const warnings: string[] = [];
    const life = await lifeIn(t, {
      machines: (real) => ({
        ...real,
        async observe(refs) {
          const facts = await real.observe(refs);
          return isShort ? facts.map(() => unknown(reason, 0)) : facts;
        },
      }),
      isOutOfDescriptors: () => isShort && isOut,
      warn: (line) => warnings.push(line),
    });
    assert.ok(await life.runUntil(isRunning, 5 * minute));
    isShort = true;
    assert.equal(await life.runUntil((job) => job.attempts[0]?.ending !== null, hour), false);
    const lines = warnings.filter((line) => line.includes('no file descriptor left (EMFILE)'));
    assert.ok(lines.length > 10 && lines.length <= 61, `${lines.length} lines in an hour`);
    assert.match(lines[0] ?? '', new RegExp(reason, 'u'));
    assert.notEqual(
      (await life.job()).allocations[0]?.unreachableAt,
      null,
      'the job reports that its worker did not answer',
    );
    isShort = false;
    assert.ok(await life.runUntil((job) => job.allocations[0]?.unreachableAt === null, 2 * minute), 'it recovers');
    assert.equal((await life.job()).attempts.length, 1);
  });
}

test('a start that failed here for lack of file descriptors is not a failure of the job', async (t) => {
  let starts = 0;
  const life = await lifeIn(t, {
    machines: (real) => ({
      ...real,
      start(ref, launch) {
        starts += 1;
        const message = 'this machine could not start the command: spawn /bin/sh EMFILE';
        return starts <= 5
          ? Promise.resolve({ kind: 'failed', evidence: { message, worker: 0 } })
          : real.start(ref, launch);
      },
    }),
  });
  assert.ok(await life.runUntil((job) => (job.attempts.at(-1)?.runningAt ?? null) !== null, hour));
  assert.equal((await life.job()).attempts.length, 1);
  assert.equal(starts, 6);
});

test('before the controller exits, orphan collection checks an allocation that was deleted meanwhile', async (t) => {
  const answer = Promise.withResolvers<void>();
  let isHeld = false;
  let isReleased = false;
  const life = await runningIn(t, {
    capacity: (real) => ({
      ...real,
      release(ref) {
        isReleased = true;
        return real.release(ref);
      },
      async observe(refs) {
        const facts = await real.observe(refs);
        // Its deletion takes until the collection after the release has begun.
        const going = { state: 'releasing', detail: 'DELETING' } as const;
        return facts.map((fact) =>
          isReleased && !isHeld && fact.kind === 'known' ? known(going, fact.observedAt) : fact,
        );
      },
      async listLabelled(refs) {
        const found = await real.listLabelled(refs);
        if (!isReleased || isHeld) return found;
        isHeld = true;
        await answer.promise;
        return found;
      },
    }),
  });
  await life.command('cancel');
  assert.ok(await life.runUntil((job) => job.allocations.every(({ goneAt }) => goneAt !== null), 10 * minute));
  assert.ok(isHeld, 'no collection was active');
  answer.resolve();
  await life.runUntil(() => false, minute);
  // The request arrives again, long after its sender had given up.
  const { timeline, world } = life;
  const [first] = world.machines.filter(({ labels }) => labels !== null);
  assert.ok(first !== undefined);
  const { name, labels, zone } = first;
  requestMachine(world, newMachine({ name, labels, isPersistent: false, workers: 1, at: timeline.now, zone }));
  assert.ok(
    await life.runUntil(() => world.machines.every((one) => one.isPersistent || one.state === 'gone'), 10 * minute),
  );
});

test('logs are not given up after the clock was a day ahead and is correct again', async (t) => {
  const line = { isDown: false };
  const life = await runningIn(t, {
    plan: { duration: 3 * minute },
    spec: { finish: { capacity: 'keep', keepForMs: null } },
    machines: (real) => withLine(real, line),
  });
  life.moveClock(day);
  await life.runUntil(() => false, 30 * second);
  line.isDown = true;
  life.moveClock(-day);
  assert.ok(await life.runUntil((job) => job.finish !== null, 10 * minute));
  await life.runUntil(() => false, minute);
  line.isDown = false;
  await expectRestIsCopied(life, 4 * minute);
});

test('logs are not given up after the clock was a day ahead, if the lease could not be renewed since', async (t) => {
  const line = { isDown: false };
  let isDiskFull = false;
  const life = await runningIn(t, {
    spec: { capacity: localCapacity },
    machines: (real) => withLine(real, line),
    store: (real) => ({
      ...real,
      takeLease: (...given) => (isDiskFull ? Promise.reject(new Error('the disk is full')) : real.takeLease(...given)),
    }),
  });
  life.moveClock(day);
  await life.runUntil(() => false, 30 * second);
  line.isDown = true;
  isDiskFull = true;
  life.moveClock(-day);
  await life.runUntil(() => false, 10 * second);
  await life.command('stop');
  assert.ok(await life.runUntil((job) => job.finish !== null, 10 * minute));
  await life.runUntil(() => false, minute);
  line.isDown = false;
  isDiskFull = false;
  await expectRestIsCopied(life, 2 * minute);
});

test('the logs are complete even if no controller ran for an hour, or the next one died soon', async (t) => {
  const line = { isDown: false };
  const life = await runningIn(t, {
    plan: { duration: 3 * minute },
    spec: { finish: { capacity: 'keep', keepForMs: null } },
    machines: (real) => withLine(real, line),
  });
  line.isDown = true;
  assert.ok(await life.runUntil((job) => job.finish !== null, 10 * minute));
  await life.runUntil(() => false, minute);
  await life.restartAfter(hour);
  await life.runUntil(() => false, minute);
  await life.restartAfter(30 * second);
  await life.runUntil(() => false, 10 * second);
  line.isDown = false;
  await expectRestIsCopied(life, minute);
});

const localCapacity = { kind: 'hosts', ownership: 'persistent', hosts: ['localhost'] } as const;

for (const { when, isEnded } of [
  { when: 'that still ran', isEnded: false },
  { when: 'that had ended', isEnded: true },
]) {
  test(`the output of a job ${when} is copied completely after a normal delete`, async (t) => {
    const line = { isDown: false };
    const life = await lifeIn(t, {
      spec: { capacity: localCapacity },
      machines: (real) => withLine(real, line),
    });
    assert.ok(await life.runUntil(isRunning, 5 * minute));
    line.isDown = true;
    if (isEnded) {
      await life.command('stop');
      assert.ok(await life.runUntil((job) => job.finish !== null, minute));
    }
    await life.command('delete');
    assert.ok(await life.runUntil((job) => job.removed, minute));
    // Longer than the pass that sees the end, and than the next try of the connection.
    await life.runUntil(() => false, minute);
    line.isDown = false;
    await expectRestIsCopied(life, minute);
    assert.ok(await leaves(life, 2 * minute), 'the controller does not exit although everything is copied');
  });
}

test('a removed job with unreadable output is given up after five minutes', async (t) => {
  const line = { isDown: false };
  const life = await runningIn(t, { spec: { capacity: localCapacity }, machines: (real) => withLine(real, line) });
  line.isDown = true;
  await life.command('delete');
  assert.ok(await life.runUntil((job) => job.removed, minute));
  assert.equal(await leaves(life, 4 * minute), false);
  assert.ok(await leaves(life, 3 * minute), 'the controller retries without end');
  const { whole, copied } = outputOf(life);
  assert.ok(copied() < whole, 'the connection was never cut');
});

test('a job that was removed by force while it holds a TPU is not read any more', async (t) => {
  const line = { isDown: false };
  let tails = 0;
  const life = await runningIn(t, {
    plan: { duration: 3 * minute },
    spec: { finish: { capacity: 'keep', keepForMs: null } },
    machines: (real) => {
      const lined = withLine(real, line);
      return {
        ...lined,
        tail(...given) {
          tails += 1;
          return lined.tail(...given);
        },
      };
    },
  });
  line.isDown = true;
  assert.ok(await life.runUntil((job) => job.finish !== null, 10 * minute));
  const { whole, copied } = outputOf(life);
  assert.ok(copied() < whole, 'the connection was never cut');
  await life.command('delete', { isForced: true });
  await life.runUntil(() => false, 5 * second);
  tails = 0;
  await life.runUntil(() => false, 2 * minute);
  assert.equal(tails, 0, 'its output is still requested');
});

type Given = Parameters<typeof openSimulatedJob>[0];

async function lifeIn(t: TestContext, given: Given): Promise<SimulatedJob> {
  const life = await openSimulatedJob(given);
  t.after(() => life.close());
  return life;
}

/** The same, once its program runs. */
async function runningIn(t: TestContext, given: Given): Promise<SimulatedJob> {
  const life = await lifeIn(t, given);
  assert.ok(await life.runUntil(isRunning, 5 * minute));
  return life;
}

function isRunning(job: Job): boolean {
  return job.attempts.length > 0 && job.attempts.at(-1)?.runningAt !== null;
}

async function leaves(life: SimulatedJob, within: number): Promise<boolean> {
  let hasLeft = false;
  void life.controller.exited.then(() => (hasLeft = true));
  return life.runUntil(() => hasLeft, within);
}

/** Some output was not copied while the connection was cut, and now everything is, within that time. */
async function expectRestIsCopied(life: SimulatedJob, within: number): Promise<void> {
  const { whole, copied } = outputOf(life);
  assert.ok(copied() < whole, 'the connection was never cut');
  assert.ok(await life.runUntil(() => copied() === whole, within), `${copied()} of ${whole} bytes were copied`);
}

/** The first program of that job: the length of its output, and of the copy. */
function outputOf({ world, logCopies: copies, timeline }: SimulatedJob): {
  readonly whole: number;
  readonly copied: () => number;
} {
  const [run] = world.runs;
  assert.ok(run !== undefined);
  return {
    whole: printedBytes(run, timeline.now),
    copied: () => copies.files.get(`${run.job}/1/${run.worker}`)?.bytes ?? 0,
  };
}

/** The same machines, but no output arrives while the connection is cut. */
function withLine(real: MachinePort, line: { readonly isDown: boolean }): MachinePort {
  return {
    ...real,
    tail(ref, request, receiver) {
      let isOff = false;
      const off = real.tail(ref, request, {
        ...receiver,
        async bytes(chunk) {
          if (!line.isDown) await receiver.bytes(chunk);
          else if (!isOff) {
            isOff = true;
            off();
            receiver.dropped('the connection broke');
          }
        },
        ended() {
          if (!isOff) receiver.ended();
        },
      });
      return off;
    },
  };
}

// The controller's one timer, when the clock is set back during a round: the times for the timer were computed before,
// and would be too far ahead.

const none = (): never => assert.fail('without a job nothing is requested');

test('a clock that is set back during a renewal leaves no timer longer than the renewal interval', async () => {
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
  const logFiles: LogFiles = {
    length: none,
    append: none,
    recordArrivals: none,
    appendStepLog: none,
    readEnd: none,
    note: none,
    store: none,
    mirror: none,
  };
  const controller = createController({
    store,
    backendOf: none,
    clock,
    logFiles,
    log: { info: () => undefined, warn: () => undefined },
    holder: 'one',
    version: '0.0.0',
    holdsLock: true,
    leaseTimes: fileLease,
    keptPasses: { days: 7, count: 2_000 },
    grants: [],
    pools: [{ name: 'localhost', slots: 1, gpus: null }],
    idleExitMs: null,
  });
  controller.start();
  await rounds();
  setBack = day;
  now += 10 * second;
  fire?.();
  await rounds();
  assert.equal(setBack, 0, 'the lease was not renewed');
  assert.ok((waits.at(-1) ?? Infinity) <= fileLease.renewal, `the next round is in ${waits.at(-1)} ms`);
  await controller.stop();
  await real.close();
});

/** Lets everything end that waits for nothing outside. */
async function rounds(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await setImmediate();
}
