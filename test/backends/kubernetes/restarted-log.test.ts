/** The log of a container that is restarted in its pod is followed into its next run. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openServer, type Reply } from './support/server.ts';

const logPath = '/api/v1/namespaces/vision/pods/train/log';

const ended = (exitCode: number): object => ({ terminated: { exitCode } });

function pod(phase: string, state: object, restartPolicy = 'OnFailure'): Reply {
  const containerStatuses = [{ name: 'main', state }];
  return { json: { spec: { restartPolicy, containers: [{ name: 'main' }] }, status: { phase, containerStatuses } } };
}

async function followed(
  t: { after(fn: () => Promise<void>): void },
  states: readonly Reply[],
  runs: readonly string[],
) {
  let look = 0;
  let run = 0;
  const server = await openServer(t, ({ path }) => {
    if (path !== logPath) return states[Math.min(look++, states.length - 1)] ?? { drop: true };
    return { parts: [runs[Math.min(run++, runs.length - 1)] ?? ''] };
  });
  let text = '';
  for await (const piece of server.cluster().logs('train', 'main', { follow: true }))
    text += Buffer.from(piece).toString('utf8');
  return text;
}

const first = '2026-11-22T00:00:01.000000001Z one\n';
const second = '2026-11-22T00:00:09.000000001Z two\n';

test('a container that failed and is restarted goes on, and one that is not ends', { timeout: 30_000 }, async (t) => {
  const running = { running: { startedAt: '2026-11-22T00:00:00Z' } };
  const states = [pod('Running', running), pod('Running', ended(3)), pod('Running', running), pod('Running', ended(0))];
  assert.equal(await followed(t, states, [first, first, second]), 'one\ntwo\n');
  // Succeeded, or in a pod that restarts nothing.
  assert.equal(await followed(t, [pod('Running', running), pod('Running', ended(0))], [first]), 'one\n');
  assert.equal(await followed(t, [pod('Running', running), pod('Running', ended(3), 'Never')], [first]), 'one\n');
});
