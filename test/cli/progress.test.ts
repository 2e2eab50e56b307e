/** The progress block of a terminal while a job is followed: each state, at several widths. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { AllocationView, AttemptView, JobView } from '../../src/app/client.ts';
import type { Cli } from '../../src/cli/context.ts';
import { createProgress, statusLines } from '../../src/cli/follow/progress.ts';
import { aWhy, now, jobView, allocationView, attemptView } from './support/harness.ts';

const second = 1_000;
const unicode = { unicode: true };

const allocation = (number: number, different: Partial<AllocationView>): AllocationView =>
  allocationView({ allocation: number, name: `iris-000042-${number}`, requestedAt: now - 20 * second, ...different });

const attempt = (number: number, different: Partial<AttemptView>): AttemptView =>
  attemptView({
    attempt: number,
    workers: [0, 1],
    createdAt: now - 20 * second,
    notBeforeAt: now - 20 * second,
    ...different,
  });

const why = aWhy({ evidence: 'the cloud took it', next: 'it continues' });
const spec = { ...jobView().spec, steps: [{ name: 'files' }, { name: 'gcsfuse' }] } as unknown as JobView['spec'];

const queued = jobView({
  phase: 'queued',
  message: 'waits for capacity, 8s',
  phaseStartedAt: now - 8 * second,
  attempts: [attempt(1, { createdAt: now - 8 * second })],
  allocations: [allocation(1, { message: 'CREATING for 8s' })],
  why,
  spec,
});
const reported = {
  state: 'releasing' as const,
  releasedAt: now - 8 * second,
  message: 'DELETING, not deleted yet',
};
const preempted = jobView({
  ...queued,
  phase: 'recovering',
  message: 'preempted, 8s ago',
  attempts: [attempt(1, { startedAt: now - 15 * second, reason: 'preempted' })],
  allocations: [allocation(1, { ...reported, readyAt: now - 18 * second })],
});
const next = attempt(2, { createdAt: now - 4 * second });
const replaced = jobView({
  ...preempted,
  attempts: [attempt(1, { startedAt: now - 15 * second, reason: 'preempted', endedAt: now - 4 * second }), next],
  allocations: [
    allocation(1, { goneAt: now - 4 * second }),
    allocation(2, { message: 'There is no more capacity in the zone us-west4-a, 4s ago; 12 failed requests' }),
  ],
});
const setUp = jobView({
  ...replaced,
  allocations: [allocation(1, { goneAt: now - 4 * second }), allocation(2, { readyAt: now - second, state: 'ready' })],
});
const running = jobView({
  ...setUp,
  phase: 'running',
  message: 'running for 8s, 1 preemption',
  attempt: 2,
});

suite('at 100 columns', () => {
  const shown = (job: JobView) => statusLines(job, now, unicode, 100);
  const leave = ' Ctrl-C detaches · attach again: jobman logs 42 -f';

  test('a job that waits for capacity says what the cloud says, and each age once', () => {
    assert.deepEqual(shown(queued), [
      ' 000042 ◌ queued 8s',
      '   capacity  8s     v5litepod-16 spot us-west4-a: CREATING for 8s',
      '   next             it continues',
      leave,
    ]);
  });

  test('a preempted job reports that its old TPU is being deleted, not that it is ready', () => {
    assert.deepEqual(shown(preempted), [
      ' 000042 ↻ recovering 8s: preempted',
      '   release   8s     iris-000042-1: DELETING, not deleted yet',
      '   next             it continues',
      leave,
    ]);
  });

  test('then the new request, and once it is ready, the checkpoint of the next attempt', () => {
    assert.deepEqual(shown(replaced).slice(1, -2), [
      '   capacity  4s     v5litepod-16 spot us-west4-a: There is no more capacity in the zone us-west4-a,',
      '                    4s ago; 12 failed requests',
    ]);
    assert.deepEqual(shown(setUp).slice(1, -1), [
      '   capacity  3s     v5litepod-16 spot us-west4-a: ready',
      '   setup     1s     files, gcsfuse',
      '   command          on all workers, from the last checkpoint',
    ]);
  });

  test('a step that fails is named next to the setup', () => {
    const failing = jobView({ ...setUp, message: 'docker failed, 2 times' });
    assert.ok(shown(failing).includes('   setup     1s     files, gcsfuse; docker failed, 2 times'));
  });

  test('one that runs takes a line, with what is not as it should be', () => {
    assert.deepEqual(shown(running), [` 000042 ▸ running 8s, attempt 2, 2 workers  ${leave}`]);
    const silent = jobView({ ...running, message: 'no answer for 2m' });
    assert.equal(shown(silent)[0]?.slice(0, 60), ' 000042 ▸ running 8s, attempt 2, 2 workers: no answer for 2m');
  });
});

suite('on a narrow terminal', () => {
  for (const columns of [80, 60, 50, 40]) {
    test(`nothing is wider than ${columns} columns, and no text is lost`, () => {
      for (const job of [queued, preempted, replaced, setUp, running]) {
        const lines = statusLines(job, now, unicode, columns);
        for (const line of lines) assert.ok(line.length <= columns, line);
        const text = lines.join(' ').replaceAll(/\s+/g, ' ');
        for (const { message, goneAt } of job.allocations)
          if (goneAt === null && message !== null) assert.ok(text.includes(message), text);
        assert.match(text, /jobman logs 42 -f$/);
      }
    });
  }

  test('a part is below its label', () => {
    assert.deepEqual(statusLines(replaced, now, unicode, 40).slice(1, 4), [
      '   capacity  4s',
      '     v5litepod-16 spot us-west4-a: There',
      '     is no more capacity in the zone',
    ]);
  });
});

test('plain lines are in the order of their times, even if a phase began before its event', () => {
  const lines: string[] = [];
  const cli = {
    io: { now: () => now },
    screen: { progress: 'plain', hasScreenReader: false },
    note: (line: string) => void lines.push(line),
  } as unknown as Cli;
  const window = { ring() {}, close() {} } as never;
  const progress = createProgress(cli, { logs: null, reportsPhases: true, foldsLines: false, window });
  progress.changed({ ...queued, phaseStartedAt: now - 9 * second }, [], true);
  const news = [
    { kind: 'unreachable', at: now - 5 * second, allocation: 1, message: 'no answer' },
    { kind: 'reachable', at: now - 2 * second, allocation: 1 },
  ] as const;
  progress.changed({ ...queued, phase: 'setup', phaseStartedAt: now - 4 * second }, news, false);
  progress.changed({ ...queued, phase: 'running', phaseStartedAt: now - 3 * second }, [], false);
  const times = lines.map((line) => line.split(' ')[0] ?? '');
  assert.equal(lines.length, 5, lines.join('\n'));
  assert.deepEqual(times, times.toSorted(), lines.join('\n'));
  assert.match(lines[2] ?? '', / setup/, 'between the two events');
});
