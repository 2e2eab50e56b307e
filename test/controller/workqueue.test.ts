import assert from 'node:assert/strict';
import test from 'node:test';
import { createWorkqueue } from '../../src/controller/schedule.ts';

/** A queue whose passes end when the test says so. */
function scripted(most: number) {
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  let quiet = 0;
  const queue = createWorkqueue({
    most,
    work(id) {
      begun.push(id);
      return new Promise((resolve) => ends.set(id, resolve));
    },
    quiet: () => {
      quiet += 1;
    },
  });
  const end = async (id: string): Promise<void> => {
    ends.get(id)?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { queue, begun, end, quietTimes: () => quiet };
}

test('one pass per job at a time, and one more when it was woken meanwhile, however often', async () => {
  const { queue, begun, end, quietTimes } = scripted(4);
  queue.add('a');
  queue.add('a');
  queue.add('a');
  assert.deepEqual(begun, ['a']);
  await end('a');
  assert.deepEqual(begun, ['a', 'a']);
  await end('a');
  assert.deepEqual(begun, ['a', 'a']);
  assert.equal(queue.size, 0);
  assert.equal(quietTimes(), 1);
});

test('no more passes at once than it may, in the order of asking', async () => {
  const { queue, begun, end } = scripted(2);
  for (const id of ['a', 'b', 'c', 'd']) queue.add(id);
  assert.deepEqual(begun, ['a', 'b']);
  await end('b');
  assert.deepEqual(begun, ['a', 'b', 'c']);
  await end('a');
  await end('c');
  await end('d');
  assert.deepEqual(begun, ['a', 'b', 'c', 'd']);
});

test('once stopped nothing begins any more, and settled waits for what runs', async () => {
  const { queue, begun, end } = scripted(1);
  queue.add('a');
  queue.add('b');
  queue.stop();
  queue.add('c');
  let isSettled = false;
  const settled = queue.settled().then(() => {
    isSettled = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isSettled, false);
  await end('a');
  await settled;
  assert.deepEqual(begun, ['a']);
});
