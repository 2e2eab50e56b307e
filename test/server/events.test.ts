// The streams of the API.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { JobmanError, exitCode } from '../../src/app/errors.ts';
import { eventStream, startReading } from '../../src/server/events.ts';

test('values that are ready at once leave turns to the requests of others', async () => {
  let isAsked = false;
  async function* values() {
    for (let at = 0; at < 50; at += 1) yield 'x'.repeat(100_000);
  }
  const expected = () => new JobmanError('', exitCode.failed);
  const { body } = eventStream(await startReading(values()), { heartbeatMs: 1_000, expected });
  const reader = body.getReader();
  await reader.read();
  setImmediate(() => (isAsked = true));
  for (let at = 0; at < 5; at += 1) await reader.read();
  assert.ok(isAsked);
  await reader.cancel();
});
