/** The log of a pod that is over, and of a container that is restarted in its pod. */

import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import type { ClusterLogQuery } from '../../../src/app/cluster/cluster.ts';
import { openServer, type FakeServer, type Reply, status } from './support/server.ts';

const over: Reply = { json: { status: { phase: 'Succeeded' } } };
const logPath = '/api/v1/namespaces/vision/pods/train/log';

/** All pieces of the log, and what was said of lost lines. */
async function read(
  server: FakeServer,
  query: ClusterLogQuery = {},
): Promise<{ readonly pieces: readonly string[]; readonly notices: readonly string[] }> {
  const pieces: string[] = [];
  const notices: string[] = [];
  const onLost = (why: string | null): void => void notices.push(why === null ? 'again' : 'lost');
  const onCut = (): void => void notices.push('cut');
  for await (const piece of server.cluster().logs('train', 'main', { ...query, onLost, onTruncated: onCut }))
    pieces.push(Buffer.from(piece).toString('utf8'));
  return { pieces, notices };
}

suite('the log of a pod that is over', () => {
  test('is requested again from the last line after a lost connection', async (t) => {
    let isCut = true;
    const server = await openServer(t, ({ path }) => {
      if (path !== logPath) return over;
      const reply = { parts: ['2026-11-22T00:00:00.000000001Z one\n'] };
      if (!isCut) return reply;
      isCut = false;
      return { ...reply, cut: true };
    });
    await read(server, { tail: 7, since: Date.UTC(2026, 10, 22) });
    const queries = (): readonly string[] =>
      server.requests.filter(({ path }) => path === logPath).map(({ query }) => decodeURIComponent(query.toString()));
    assert.deepEqual(queries(), [
      'container=main&timestamps=true&tailLines=7&sinceTime=2026-11-22T00:00:00.000Z',
      'container=main&timestamps=true&sinceTime=2026-11-21T23:59:59Z',
    ]);
  });

  test('that the node no longer has is empty, even if the node reports it as text of the log', async (t) => {
    let text = `unable to retrieve container logs for containerd://${'0b48476e'.repeat(8)}`;
    const server = await openServer(t, ({ path }) => (path === logPath ? { parts: [text] } : over));
    assert.deepEqual((await read(server)).pieces, []);
    text = `${text}\n`;
    assert.deepEqual((await read(server)).pieces, [text]);
  });

  test('that is removed while it is read ends there, and one that cannot be read is an error', async (t) => {
    let tries = 0;
    const server = await openServer(t, ({ path }) => {
      if (path !== logPath) return over;
      tries += 1;
      if (tries === 1) return { parts: [`${first}2026-11-22T00:00:09.000000001Z two`], cut: true };
      return status(404, 'NotFound', 'pods "train" not found', { kind: 'pods', name: 'train' });
    });
    assert.deepEqual(await read(server), { pieces: ['one\n', 'two'], notices: ['lost', 'cut'] });
    await assert.rejects(read(server), { name: 'ClusterRefusal' });
  });

  test('that a node has removed with its container is empty and reported as truncated', async (t) => {
    const gone = status(400, 'BadRequest', 'container "main" in pod "train" is terminated');
    const server = await openServer(t, ({ path }) => (path === logPath ? gone : over));
    for (const query of [{}, { follow: true }, { stamped: true, follow: true }]) {
      assert.deepEqual(await read(server, query), { pieces: [], notices: ['cut'] }, JSON.stringify(query));
    }
    const other = await openServer(t, ({ path }) =>
      path === logPath
        ? status(400, 'BadRequest', 'previous terminated container "main" in pod "train" not found')
        : over,
    );
    await assert.rejects(read(other, { previous: true }), /Could not read the log of train/);
  });
});

const ended = (exitCode: number): object => ({ terminated: { exitCode } });

function pod(phase: string, state: object, restartPolicy = 'OnFailure'): Reply {
  const containerStatuses = [{ name: 'main', state }];
  return { json: { spec: { restartPolicy, containers: [{ name: 'main' }] }, status: { phase, containerStatuses } } };
}

async function followed(t: TestContext, states: readonly Reply[], runs: readonly string[]): Promise<string> {
  let checks = 0;
  let run = 0;
  const server = await openServer(t, ({ path }) => {
    if (path !== logPath) return states[Math.min(checks++, states.length - 1)] ?? { drop: true };
    return { parts: [runs[Math.min(run++, runs.length - 1)] ?? ''] };
  });
  return (await read(server, { follow: true })).pieces.join('');
}

const first = '2026-11-22T00:00:01.000000001Z one\n';
const second = '2026-11-22T00:00:09.000000001Z two\n';

test(
  'a container that failed and is restarted continues, and one that is not restarted ends',
  { timeout: 30_000 },
  async (t) => {
    const running = { running: { startedAt: '2026-11-22T00:00:00Z' } };
    const states = [
      pod('Running', running),
      pod('Running', ended(3)),
      pod('Running', running),
      pod('Running', ended(0)),
    ];
    assert.equal(await followed(t, states, [first, first, second]), 'one\ntwo\n');
    // Succeeded, or in a pod that restarts nothing.
    assert.equal(await followed(t, [pod('Running', running), pod('Running', ended(0))], [first]), 'one\n');
    assert.equal(await followed(t, [pod('Running', running), pod('Running', ended(3), 'Never')], [first]), 'one\n');
  },
);
