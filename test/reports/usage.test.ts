import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { AllocationFields, Attempt, Ending, Job } from '../../src/core/model/job.ts';
import type { JobSpec, TpuSpec } from '../../src/core/model/spec.ts';
import { minute } from '../../src/core/model/time.ts';
import { usageOf } from '../../src/reports/usage.ts';
import { aJob, allocationOf, attemptOf, localSpec, noon, tpuSpec, withAttempts } from '../support/builders.ts';

const at = (minutes: number): number => noon + minutes * minute;

function ended(reason: Ending['reason'], minutes: number): Partial<Attempt> {
  const ending = {
    reason,
    evidence: { message: '' },
    startedAt: at(minutes),
    stopRequestedAt: null,
    stopConfirmedBy: [],
  };
  return { ending, endedAt: at(minutes) };
}

const finished = (minutes: number, verdict: 'failed' | 'succeeded' | 'stopped' = 'succeeded'): Partial<Job> => ({
  finish: { at: at(minutes), verdict, reason: verdict === 'failed' ? 'preempted' : verdict },
});

const ready = (from: number, until: number | null = null, more: object = {}): Partial<AllocationFields> => ({
  readyAt: at(from),
  readyPeriods: [{ from: at(from), until: until === null ? null : at(until), ...more }],
});

const gone = (minutes: number): Partial<AllocationFields> => ({ releasedAt: at(minutes), goneAt: at(minutes) });

const runs = (from: number, more: Partial<Attempt> = {}): Partial<Attempt> => ({
  startedAt: at(from),
  runningAt: at(from),
  ...more,
});

/** `1 useful/2 10-50 $4`: allocation, use and attempt, minutes, price. */
function ledgerOf(
  allocations: readonly Partial<AllocationFields>[],
  attempts: readonly Partial<Attempt>[],
  changes: Partial<Job> = {},
  spec: JobSpec = tpuSpec(),
): readonly string[] {
  const job = { ...withAttempts(aJob(spec), allocations, attempts), ...changes };
  return usageOf(job).map(({ allocation, use, attempt, from, until, pricePerHourUsd }) => {
    const minutes = `${(from - noon) / minute}-${until === null ? '' : (until - noon) / minute}`;
    const price = pricePerHourUsd === null ? 'not priced' : `$${pricePerHourUsd}`;
    return `${allocation} ${use}${attempt === null ? '' : `/${attempt}`} ${minutes} ${price}`;
  });
}

test('waiting, setup, useful, and kept after the end', () => {
  assert.deepEqual(ledgerOf([{}], [{}]), ['1 waiting 0- $0']);
  assert.deepEqual(ledgerOf([ready(5)], [{}]), ['1 waiting 0-5 $0', '1 setup/1 5- $4']);
  assert.deepEqual(ledgerOf([ready(5)], [runs(10)]), ['1 waiting 0-5 $0', '1 setup/1 5-10 $4', '1 useful/1 10- $4']);
  assert.deepEqual(ledgerOf([ready(5)], [runs(10, ended('succeeded', 50))], finished(50)).slice(2), [
    '1 useful/1 10-50 $4',
    '1 kept 50- $4',
  ]);
  assert.deepEqual(
    ledgerOf([{ ...ready(5, 55), ...gone(52) }], [runs(10, ended('succeeded', 50))], finished(50)).slice(3),
    ['1 kept 50-52 $4', '1 idle 52-55 $4'],
  );
});

test('after a clock that was set back for a time, usage that has ended begins with its job', () => {
  const early = { ...ready(-60), requestedAt: at(-60) };
  assert.deepEqual(ledgerOf([early], [runs(-60, { createdAt: at(-60), notBeforeAt: at(-60) })]), [
    '1 useful/1 -60- $4',
  ]);
  const over = [{ ...ready(-60, 5), requestedAt: at(-60), ...gone(5) }];
  const attempts = [runs(-60, { createdAt: at(-60), notBeforeAt: at(-60), ...ended('succeeded', 5) })];
  assert.deepEqual(ledgerOf(over, attempts, finished(5)), ['1 useful/1 0-5 $4']);
  // Until the clock reaches the creation again, time is counted as it passes.
  const short = [{ ...ready(-60, -50), requestedAt: at(-60), ...gone(-50) }];
  const brief = [runs(-60, { createdAt: at(-60), notBeforeAt: at(-60), ...ended('succeeded', -50) })];
  assert.deepEqual(ledgerOf(short, brief, finished(-50)), ['1 useful/1 -60--50 $4']);
});

test('nothing is charged before the first readiness, during a repair and after the last', () => {
  const periods = [
    { from: at(5), until: at(20) },
    { from: at(30), until: null },
  ];
  assert.deepEqual(ledgerOf([{ readyAt: at(5), readyPeriods: periods }], [runs(10)]), [
    '1 waiting 0-5 $0',
    '1 setup/1 5-10 $4',
    '1 useful/1 10-20 $4',
    '1 waiting 20-30 $0',
    '1 useful/1 30- $4',
  ]);
  assert.deepEqual(ledgerOf([{ ...ready(5, 8, { free: true }), ...gone(9) }], [ended('preempted', 8)]), [
    '1 waiting 0-5 $0',
    '1 setup/1 5-8 $0',
  ]);
  const refused = { waitingSince: noon, requestedAt: null };
  assert.deepEqual(ledgerOf([refused], [{}]), ['1 waiting 0- $0'], 'the wait in the alternatives before counts');
});

suite('lost since the last checkpoint', () => {
  const taken = { ...ready(0, 60), ...gone(61) };
  const second = { requestedAt: at(60), ...ready(70) };
  const next = (more: Partial<Attempt> = {}): Partial<Attempt> => ({ createdAt: at(60), ...more });
  const workOf = (
    attempts: readonly Partial<Attempt>[],
    changes: Partial<Job> = {},
    allocations: readonly Partial<AllocationFields>[] = [taken, second],
  ): readonly string[] =>
    ledgerOf(allocations, attempts, changes)
      .filter((line) => /useful|lost/.test(line))
      .map((line) => line.replace(/ \$4$/, ''));

  test('the checkpoint that a later attempt resumed from divides the work', () => {
    const resumed = next(runs(75, { resumedFrom: { entry: 'step_40', savedAt: at(40) } }));
    assert.deepEqual(workOf([runs(0, ended('preempted', 60)), resumed]), [
      '1 useful/1 0-40',
      '1 lost/1 40-60',
      '2 useful/2 75-',
    ]);
  });

  test('an attempt that saved nothing loses all its work, and the next resume may go further back', () => {
    const second = { requestedAt: at(60), ...ready(60, 90), ...gone(90) };
    const third = { requestedAt: at(90), ...ready(90) };
    const from = { resumedFrom: { entry: 'step_40', savedAt: at(40) } };
    assert.deepEqual(
      workOf(
        [
          runs(0, ended('preempted', 60)),
          { createdAt: at(60), ...runs(60, { ...from, ...ended('preempted', 90) }) },
          { createdAt: at(90), ...runs(90, from) },
        ],
        {},
        [taken, second, third],
      ),
      ['1 useful/1 0-40', '1 lost/1 40-60', '2 lost/2 60-90', '3 useful/3 90-'],
    );
  });

  test('a resume without a checkpoint loses everything', () => {
    const resumed = next(runs(75, { resumedFrom: { entry: null, savedAt: null } }));
    assert.deepEqual(workOf([runs(0, ended('preempted', 60)), resumed]), ['1 lost/1 0-60', '2 useful/2 75-']);
  });

  test('a resume from an unknown checkpoint loses nothing, as far as jobman knows', () => {
    assert.deepEqual(workOf([runs(0, ended('preempted', 60)), next(runs(75))]), ['1 useful/1 0-60', '2 useful/2 75-']);
  });

  test('a job that may still resume has lost nothing yet; a failed one has', () => {
    const first = runs(0, ended('preempted', 60));
    assert.deepEqual(workOf([first, next()]), ['1 useful/1 0-60']);
    assert.deepEqual(workOf([first], finished(60, 'failed'), [taken]), ['1 lost/1 0-60']);
  });

  test('a start from the beginning loses the work before, unless it succeeded or was stopped', () => {
    const again = next(runs(75, { startMode: 'rerun', stage: 0 }));
    assert.deepEqual(workOf([runs(0, ended('command_failed', 60)), again])[0], '1 lost/1 0-60');
    assert.deepEqual(workOf([runs(0, ended('succeeded', 60)), again])[0], '1 useful/1 0-60');
    assert.deepEqual(workOf([runs(0, ended('stopped', 60)), again])[0], '1 useful/1 0-60');
  });
});

test('backoff and ending are idle; time before the next start of the owner is kept', () => {
  const sameTpu = { allocation: 1 };
  const ending = { ...ended('command_failed', 20), endedAt: at(21) };
  const rule = { ...sameTpu, createdAt: at(21), notBeforeAt: at(25) };
  assert.deepEqual(ledgerOf([ready(0)], [runs(0, ending), rule]), [
    '1 useful/1 0-20 $4',
    '1 idle 20-25 $4',
    '1 setup/2 25- $4',
  ]);
  const owner = { ...rule, startedByOwner: true, createdAt: at(40), notBeforeAt: at(40) };
  assert.deepEqual(ledgerOf([ready(0)], [runs(0, { ...ended('stopped', 20), endedAt: at(21) }), owner]), [
    '1 useful/1 0-20 $4',
    '1 idle 20-21 $4',
    '1 kept 21-40 $4',
    '1 setup/2 40- $4',
  ]);
});

test('a kept allocation that the next attempt gave up is charged until it is deleted', () => {
  const kept = { ...ready(0, 34), releasedAt: at(32), goneAt: at(34) };
  const moved = { createdAt: at(30), movedAt: at(32), startedByOwner: true, allocation: 2, notBeforeAt: at(32) };
  assert.deepEqual(ledgerOf([kept, { requestedAt: at(32) }], [runs(0, ended('stopped', 20)), moved]), [
    '1 useful/1 0-20 $4',
    '1 kept 20-30 $4',
    '1 idle 30-34 $4',
    '2 waiting 32- $0',
  ]);
});

test('a superseded allocation that becomes ready is charged until it is deleted', () => {
  const superseded = { releasedAt: at(20), superseded: { at: at(20), answer: 'waiting' as const } };
  const moved = { createdAt: noon, movedAt: at(20), allocation: 2, notBeforeAt: at(20) };
  const second = { requestedAt: at(20) };
  assert.deepEqual(ledgerOf([superseded, second], [moved]), ['1 waiting 0-20 $0', '2 waiting 20- $0']);
  assert.deepEqual(ledgerOf([{ ...superseded, readyPeriods: [{ from: at(22), until: at(23) }] }, second], [moved]), [
    '1 waiting 0-22 $0',
    '1 idle 22-23 $4',
    '2 waiting 20- $0',
  ]);
});

test('a job that is removed by force leaves an orphan, which is idle until it is seen deleted', () => {
  const removed = { removed: true, desired: 'deleted', desiredAt: at(30) } as const;
  assert.deepEqual(ledgerOf([ready(0)], [runs(0)], removed), ['1 useful/1 0-30 $4', '1 idle 30- $4']);
  assert.deepEqual(ledgerOf([ready(0, 50)], [runs(0)], removed).at(-1), '1 idle 30-50 $4');
  assert.deepEqual(ledgerOf([{}], [{}], removed), ['1 waiting 0-30 $0']);
});

test('persistent capacity counts only while the job uses it', () => {
  const spec = tpuSpec({}, { ownership: 'persistent' });
  const again = { allocation: 1, createdAt: at(90), notBeforeAt: at(90), startedByOwner: true };
  const lines = ledgerOf([ready(0)], [runs(5, ended('stopped', 60)), { ...again, ...runs(95) }], {}, spec);
  assert.deepEqual(lines, ['1 setup/1 0-5 $4', '1 useful/1 5-60 $4', '1 setup/2 90-95 $4', '1 useful/2 95- $4']);
});

test('each alternative has its own price; a price that is unknown stays unknown', () => {
  const other = { zone: 'us-east1-c', accelerator: 'v6e-8', pricing: 'ondemand', runtimeVersion: 'b' } as const;
  const spec = tpuSpec({}, { alternatives: [{ ...other, pricePerHourUsd: 21.6, pricesOf: 'settings' }] });
  const job = withAttempts(aJob(spec), [{ ...ready(0), alternative: 1 }], [runs(0)]);
  const [row] = usageOf(job);
  assert.deepEqual(
    [row?.location, row?.accelerator, row?.pricing, row?.chips, row?.pricePerHourUsd, row?.pricesOf],
    ['us-east1-c', 'v6e-8', 'ondemand', 8, 21.6, 'settings'],
  );
  const unpriced = tpuSpec({}, { pricePerHourUsd: null });
  assert.deepEqual(ledgerOf([ready(5)], [runs(5)], {}, unpriced), ['1 waiting 0-5 $0', '1 useful/1 5- not priced']);
});

test('each slice of a multislice is charged from its own readiness', () => {
  const capacity: Partial<TpuSpec> = { nodeCount: 2, pricePerHourUsd: 8 };
  const readyPeriods = [
    { from: at(5), until: at(60) },
    { slice: 1, from: at(8), until: at(60) },
  ];
  const lines = ledgerOf([{ readyAt: at(8), readyPeriods, ...gone(60) }], [runs(10)], {}, tpuSpec({}, capacity));
  assert.deepEqual(lines, ['1 waiting 0-5 $0', '1 setup/1 5-8 $4', '1 setup/1 8-10 $8', '1 useful/1 10-60 $8']);
});

test('this machine has hours, and a price only by the settings', () => {
  const allocation = { ...ready(0), requestedAt: noon };
  assert.deepEqual(ledgerOf([allocation], [runs(0)], {}, localSpec()), ['1 useful/1 0- not priced']);
  const priced = localSpec({
    capacity: { ...localSpec().capacity, pricePerHourUsd: 2, pricesOf: 'settings' } as never,
  });
  assert.deepEqual(ledgerOf([allocation], [runs(0)], {}, priced), ['1 useful/1 0- $2']);
});

test('a record of an earlier version has one ready period', () => {
  const job = aJob();
  const allocation = allocationOf(job, 1, { readyAt: at(5), lastObserved: { state: 'lost', detail: '', at: at(50) } });
  const old = {
    ...job,
    allocations: [{ ...allocation, ...gone(55) }],
    attempts: [attemptOf(1, runs(10, ended('preempted', 50)))],
  };
  const rows = usageOf({ ...old, ...finished(50, 'failed') });
  assert.deepEqual(
    rows.map(({ use, from, until }) => [use, from - noon, (until ?? 0) - noon]),
    [
      ['waiting', 0, 5 * minute],
      ['setup', 5 * minute, 10 * minute],
      ['lost', 10 * minute, 50 * minute],
    ],
  );
});
