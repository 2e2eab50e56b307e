/** Programs of this machine: how they end comes back as data. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runProcess } from '../../src/remote/process.ts';
import { createLocalTransport } from '../support/local-transport.ts';
import { createLimiter, mapConcurrent } from '../../src/app/concurrency.ts';
import { openWorld } from '../support/world.ts';

const limits = { timeoutMs: 20_000, maxOutputBytes: 10_000 };
const sh = (script: string): readonly string[] => ['/bin/sh', '-c', script];
const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

test('an exit code, a signal and a program that is not there have one shape', async (t) => {
  const { env } = openWorld(t);
  const failed = await runProcess({ ...limits, env, argv: sh('echo out; echo err >&2; exit 3') });
  assert.deepEqual(
    [failed.exitCode, failed.signal, text(failed.stdout), text(failed.stderr)],
    [3, null, 'out\n', 'err\n'],
  );
  const killed = await runProcess({ ...limits, env, argv: sh('kill -s USR1 $$') });
  assert.deepEqual([killed.exitCode, killed.signal, killed.error], [null, 'SIGUSR1', null]);
  const missing = await runProcess({ ...limits, env, argv: ['/no/such/program'] });
  assert.equal(missing.exitCode, null);
  assert.match(missing.error ?? '', /ENOENT/u);
});

test('input arrives whole, and a program may leave it unread', async (t) => {
  const { env } = openWorld(t);
  const stdin = 'x'.repeat(1_000_000);
  const counted = await runProcess({ ...limits, env, argv: ['wc', '-c'], stdin });
  assert.equal(text(counted.stdout).trim(), '1000000');
  const unread = await runProcess({ ...limits, env, argv: ['true'], stdin });
  assert.equal(unread.exitCode, 0);
});

test('the time limit ends a program with its children', async (t) => {
  const { env } = openWorld(t);
  const result = await runProcess({ ...limits, env, timeoutMs: 100, argv: sh('sleep 60 & echo begun; sleep 60') });
  assert.equal(result.timedOut, true);
  assert.equal(text(result.stdout), 'begun\n');
});

test('output is kept up to the limit and seen whole', async (t) => {
  const { env } = openWorld(t);
  let length = 0;
  const result = await runProcess({
    ...limits,
    env,
    argv: sh('head -c 300000 /dev/zero'),
    onOutput: async (chunk) => {
      length += chunk.length;
    },
  });
  assert.deepEqual([result.stdout.length, result.truncated, length], [10_000, true, 300_000]);
});

test('a script that is cut on its way runs nothing', async (t) => {
  const { env, folder } = openWorld(t);
  const result = await runProcess({
    ...limits,
    env,
    cwd: folder,
    argv: ['/bin/sh', '-s'],
    stdin: '{\necho ran\necho never ended',
  });
  assert.equal(text(result.stdout), '');
  const transport = createLocalTransport({ env, cwd: folder });
  const whole = await transport.run({ ...limits, script: 'echo ran; cat; pwd' });
  assert.ok(whole.kind === 'ended');
  assert.equal(text(whole.stdout), `ran\n${folder}\n`);
});

test('a script on this machine that takes too long is not an answer', async (t) => {
  const { env, folder } = openWorld(t);
  const result = await createLocalTransport({ env, cwd: folder }).run({
    ...limits,
    timeoutMs: 100,
    script: 'sleep 60',
  });
  assert.ok(result.kind === 'no_answer' && result.sent && result.timedOut);
});

test('fan-out answers in order and does no more at once than it may', async () => {
  let inside = 0;
  let most = 0;
  const answers = await mapConcurrent([5, 1, 4, 2, 3], 2, async (item) => {
    inside += 1;
    most = Math.max(most, inside);
    await new Promise((resolve) => {
      setTimeout(resolve, item);
    });
    inside -= 1;
    return item * 2;
  });
  assert.deepEqual(answers, [10, 2, 8, 4, 6]);
  assert.equal(most, 2);
  assert.deepEqual(await mapConcurrent([], 3, async () => 1), []);
});

test('after a failure fan-out begins nothing more, and waits for what is under way', async () => {
  const [begun, ended]: [number[], number[]] = [[], []];
  const work = async (item: number): Promise<void> => {
    begun.push(item);
    if (item === 1) throw new Error('one');
    await new Promise((resolve) => {
      setTimeout(resolve, 5);
    });
    ended.push(item);
  };
  await assert.rejects(mapConcurrent([1, 2, 3, 4], 2, work), /one/);
  assert.deepEqual([begun, ended], [[1, 2], [2]]);
});

test('a gate lets the next in when one has left, also by an error', async () => {
  const gate = createLimiter(1);
  const order: number[] = [];
  const results = await Promise.allSettled(
    [1, 2, 3].map((item) =>
      gate(async () => {
        order.push(item);
        await Promise.resolve();
        order.push(-item);
        if (item === 2) throw new Error('two');
      }),
    ),
  );
  assert.deepEqual(order, [1, -1, 2, -2, 3, -3]);
  assert.deepEqual(
    results.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
});
