/** The log of a pod that is over, and of a container that is restarted in its pod. */

import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import fc from 'fast-check';
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
  test('is whole, in whole lines and with nothing twice, wherever the line breaks', async (t) => {
    let text = '';
    let cuts: readonly number[] = [];
    let size = 1;
    let tries = 0;
    const server = await openServer(t, ({ path }) => {
      if (path !== logPath) return over;
      const cutAt = cuts[tries];
      tries += 1;
      const sent = cutAt === undefined ? text : text.slice(0, Math.floor(text.length * cutAt));
      const parts = sent.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? [];
      return cutAt === undefined ? { parts } : { parts, cut: true };
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.stringMatching(/^[ -~]{0,30}$/), { minLength: 1, maxLength: 12 }),
        fc.boolean(),
        // The first reply has a whole line at least, without which nothing has begun.
        fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 3 }),
        fc.integer({ min: 1, max: 40 }),
        fc.boolean(),
        async (lines, hasEnd, shares, length, follow) => {
          text = `begun\n${lines.join('\n')}${hasEnd ? '\n' : ''}`;
          cuts = shares.map((share) => Math.max(share, 6 / text.length));
          size = length;
          tries = 0;
          const { pieces, notices } = await read(server, { follow });
          assert.equal(pieces.join(''), text);
          for (const piece of pieces.slice(0, -1))
            assert.ok(piece.endsWith('\n'), 'a piece ends in the middle of a line');
          assert.equal(tries, cuts.length + 1);
          // Each loss after new output is reported once, and so is its end.
          assert.equal(notices.filter((notice) => notice === 'again').length, cuts.length);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('uses the same request each time, and requests timestamps for a running pod', async (t) => {
    let phase = 'Failed';
    let isCut = true;
    const server = await openServer(t, ({ path }) => {
      if (path !== logPath) return { json: { status: { phase } } };
      const reply = { parts: ['2026-11-22T00:00:00.000000001Z one\n'] };
      if (!isCut) return reply;
      isCut = false;
      return { ...reply, cut: true };
    });
    await read(server, { tail: 7, since: Date.UTC(2026, 10, 22) });
    const queries = (): readonly string[] =>
      server.requests.filter(({ path }) => path === logPath).map(({ query }) => decodeURIComponent(query.toString()));
    const same = 'container=main&tailLines=7&sinceTime=2026-11-22T00:00:00.000Z';
    assert.deepEqual(queries(), [same, same]);
    phase = 'Running';
    assert.deepEqual((await read(server)).pieces, ['one\n']);
    assert.equal(queries().at(-1), 'container=main&timestamps=true');
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
      if (tries === 1) return { parts: ['one\ntwo'], cut: true };
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
