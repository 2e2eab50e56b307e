/** `submit -it --rm`: the Job is deleted however the session ends, and its exit code is that of the program. */

import assert from 'node:assert/strict';
import { openJobs } from '../../src/app/jobs.ts';
import type { Cluster } from '../../src/app/cluster/cluster.ts';
import type { Services } from '../../src/app/services.ts';
import { suite, test } from 'node:test';
import type { SessionEnd } from '../../src/app/worker-access.ts';
import type { ClusterContainer, ClusterJob, ClusterPod } from '../../src/app/cluster/objects.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { runInteractive } from '../../src/cli/cluster/interactive.ts';
import { callAfter } from '../../src/cli/interrupt.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';
import { fakeCluster, createCliHarness } from './support/harness.ts';

const train = aClusterJob({ active: 1, ready: 1 });
const ended = (exit: number): Partial<ClusterContainer> => ({ state: 'terminated', exitCode: exit });

interface FakeSession {
  readonly job?: () => Promise<ClusterJob | null>;
  readonly pods?: (isAttached: boolean) => ClusterPod;
  readonly end?: SessionEnd;
  readonly attach?: () => never;
  readonly remove?: (signal: AbortSignal) => Promise<'gone'>;
}

/** One session over this cluster; `removed` are the names of Jobs that were deleted. */
async function session({ job, pods, end, attach, remove }: FakeSession, leaveAt?: (signal: () => void) => void) {
  const removed: string[] = [];
  let isAttached = false;
  const world = createCliHarness({ terminal: { columns: 80, rows: 24 } });
  const cluster = fakeCluster({
    job: job ?? (async () => train),
    async *pods() {
      yield [pods?.(isAttached) ?? aClusterPod({}, isAttached ? ended(0) : {})];
    },
    attach() {
      attach?.();
      isAttached = true;
      const happened: SessionEnd = end ?? { kind: 'ended', exitCode: 0, signal: null };
      return {
        ended: Promise.resolve(happened),
        write: async () => undefined,
        end: () => undefined,
        stop: () => undefined,
        resize: () => undefined,
      };
    },
    async remove({ name }: ClusterJob, { signal }: { readonly signal: AbortSignal }) {
      removed.push(name);
      return remove === undefined ? 'gone' : remove(signal);
    },
  });
  let code: number | undefined;
  let failed: unknown;
  const { services } = world;
  const cli = {
    io: services.io,
    services,
    json: false,
    note: (text: string) => services.io.stderr.write(`${text}\n`),
    printStderr: (text: string) => services.io.stderr.write(`${text}\n`),
    screen: { styleErr: (_: string, text: string) => text, styleOut: (_: string, text: string) => text, colour: false },
  } as object as Parameters<typeof runInteractive>[0];
  const left = new AbortController();
  leaveAt?.(() => world.signal());
  try {
    code = await runInteractive(cli, cluster, train, {
      jobs: jobsOf(services, cluster),
      leave: { signal: left.signal, release: () => undefined },
      remove: true,
      isTerminal: true,
    });
  } catch (error) {
    failed = error;
  }
  return { code, failed, removed, err: world.err() };
}

function jobsOf(services: Services, cluster: Cluster) {
  return openJobs({ ...services, cluster: async () => cluster }, { namespace: 'lab' });
}

suite('an interactive session with --rm', () => {
  test('ends with the exit code of its program, and without its Job', async () => {
    const { code, removed, err } = await session({
      pods: (isAttached) => aClusterPod({}, isAttached ? ended(7) : {}),
    });
    assert.deepEqual([code, removed], [7, ['train']]);
    assert.match(err, /train is deleted\./);
  });

  test('deletes the Job when the line breaks', async () => {
    const { code, removed, err } = await session({ end: { kind: 'unreachable', reason: 'cut', mayHaveRun: true } });
    assert.deepEqual([code, removed], [255, ['train']]);
    assert.match(err, /cut/);
  });

  test('deletes the Job when the cluster is away for a while', async () => {
    const { code, removed } = await session({
      job: () => Promise.reject(new JobmanError('No answer.', exitCode.unreachable)),
    });
    assert.deepEqual([code, removed], [5, ['train']]);
  });

  test('deletes the Job also where this program has a defect', async () => {
    const { failed, removed } = await session({
      attach() {
        throw new TypeError('a defect');
      },
    });
    assert.ok(failed instanceof TypeError);
    assert.deepEqual(removed, ['train']);
  });

  test('says which Job may still be there when it is left during the deletion', { timeout: 20_000 }, async () => {
    let leave = (): void => undefined;
    const { code, removed, err } = await session(
      {
        remove: (signal) =>
          new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(signal.reason as Error));
            leave();
          }),
      },
      (signal) => void (leave = signal),
    );
    assert.deepEqual([code, removed], [5, ['train']]);
    assert.match(err, /train may still be in the cluster \(you left\): jobman delete train/);
  });

  test('ends only after the deletion, even if Ctrl-C interrupts the request for its exit code', async () => {
    let leave = (): void => undefined;
    const { code, removed } = await session(
      {
        pods(isAttached) {
          if (isAttached) setImmediate(leave);
          return aClusterPod();
        },
      },
      (signal) => void (leave = signal),
    );
    assert.deepEqual([code, removed], [130, ['train']]);
  });
});

suite('a session without a terminal', () => {
  const job = aClusterJob({ active: 1, ready: 1 });
  const over = { ...job, conditions: [{ type: 'Complete', status: 'True', reason: null, message: null, at: null }] };

  async function piped(lines: readonly string[], attach: (bytes: Uint8Array | null) => void, refusal?: JobmanError) {
    const world = createCliHarness({ input: lines });
    let hasEnded = false;
    let stop = (): void => undefined;
    const closed = new Promise<SessionEnd>((resolve) => {
      stop = () => resolve({ kind: 'unreachable', reason: 'closed', mayHaveRun: true });
    });
    const read = Promise.withResolvers<void>();
    const cluster = fakeCluster({
      job: async () => (hasEnded ? over : job),
      async *pods() {
        yield [aClusterPod({ phase: hasEnded ? 'Succeeded' : 'Running' }, hasEnded ? ended(3) : {})];
      },
      attach: (_: object, request: { readonly terminal: null }) => {
        assert.equal(request.terminal, null);
        if (refusal !== undefined) {
          const end: SessionEnd = { kind: 'unreachable', reason: refusal.message, mayHaveRun: false, refusal };
          return { ended: Promise.resolve(end), write: async () => undefined, end: () => undefined, stop };
        }
        return {
          ended: closed,
          write: async (bytes: Uint8Array) => attach(bytes),
          end() {
            attach(null);
            read.resolve();
          },
          stop,
        };
      },
      async *logs() {
        yield Buffer.from('before\n');
        if (refusal === undefined) await read.promise;
        else await new Promise((resolve) => setTimeout(resolve, 300));
        hasEnded = true;
        yield Buffer.from('after\n');
      },
      async remove() {
        return 'gone';
      },
    });
    const { io } = world.services;
    const cli = {
      io,
      services: world.services,
      json: false,
      note: (text: string) => io.stderr.write(`${text}\n`),
      printStderr: (text: string) => io.stderr.write(`${text}\n`),
      screen: {
        styleErr: (_: string, text: string) => text,
        styleOut: (_: string, text: string) => text,
        colour: false,
      },
    } as object as Parameters<typeof runInteractive>[0];
    const leave = { signal: new AbortController().signal, release: () => undefined };
    const jobs = jobsOf(world.services, cluster);
    const code = await runInteractive(cli, cluster, train, { jobs, leave, remove: true, isTerminal: false });
    return { code, out: world.out(), err: world.err() };
  }

  test('gives the program our input, prints its log, and has its exit code', async () => {
    const given: (string | null)[] = [];
    const { code, out, err } = await piped(['b', 'a'], (bytes) => {
      given.push(bytes === null ? null : Buffer.from(bytes).toString());
    });
    assert.deepEqual([code, out, given], [3, 'before\nafter\n', ['b\n', 'a\n', null]], err);
    assert.match(err, /train is deleted\./);
  });

  test('ends with the right that is missing', async () => {
    const refusal = new JobmanError('ada may not create pods/attach in vision.', exitCode.failed);
    const { code, err } = await piped(['b'], () => undefined, refusal);
    assert.equal(code, 1);
    assert.match(err, /may not create pods\/attach/);
    assert.match(err, /train is deleted\./);
  });
});

test('a time that is longer than a timer of Node takes is waited for whole', (t) => {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'] });
  const day = 86_400_000;
  let calls = 0;
  callAfter(60 * day, () => (calls += 1));
  t.mock.timers.tick(1);
  assert.equal(calls, 0);
  const rest = 60 * day - 2 * (2 ** 31 - 1);
  for (const part of [2 ** 31 - 2, 2 ** 31 - 1, rest - 1]) {
    t.mock.timers.tick(part);
    assert.equal(calls, 0);
  }
  t.mock.timers.tick(1);
  assert.equal(calls, 1);
  const callOff = callAfter(40 * day, () => (calls += 1));
  t.mock.timers.tick(30 * day);
  callOff();
  t.mock.timers.tick(30 * day);
  callAfter(undefined, () => (calls += 1))();
  assert.equal(calls, 1);
});
