import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deferSession, type Session } from '../../src/app/worker-access.ts';

test('input that is given before a session has begun arrives in order, its end last', async () => {
  const calls: string[] = [];
  const coming = Promise.withResolvers<Session>();
  const session = deferSession(coming.promise);
  void session.write(Buffer.from('one'));
  void session.write(Buffer.from('two'));
  session.end();
  coming.resolve({
    write: (bytes) => Promise.resolve(void calls.push(Buffer.from(bytes).toString())),
    end: () => void calls.push('end'),
    resize: () => undefined,
    stop: () => undefined,
    ended: Promise.resolve({ kind: 'unreachable', reason: '', mayHaveRun: false }),
  });
  await session.ended;
  assert.deepEqual(calls, ['one', 'two', 'end']);
});

test('a session that fails by a bug ends, and neither its end nor a write rejects', async () => {
  const failing: Session = {
    write: () => Promise.reject(new Error('a bug')),
    end: () => undefined,
    resize: () => undefined,
    stop: () => undefined,
    ended: Promise.reject(new Error('a bug')),
  };
  const session = deferSession(Promise.resolve(failing));
  await session.write(Buffer.from('input'));
  assert.deepEqual(await session.ended, { kind: 'unreachable', reason: 'a bug', mayHaveRun: true });
});
