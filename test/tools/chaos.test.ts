/** The invariants of a chaos test accept a correct run, and each of them can fail. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { violationsOf, type JobAtEnd, type EndState } from '../../tools/chaos/invariants.ts';
import { drawPlan, faultKinds } from '../../tools/chaos/plan.ts';
import type { ReportLine } from '../../tools/chaos/program-reports.ts';

const line = (number: number, step: number, attempt: number): string =>
  `${number}: step ${step} of 12, attempt ${attempt}, worker 0\n`;
const lines = (attempt: number, from: number, to: number): string =>
  Array.from({ length: to - from }, (_, index) => line(index + 1, from + index + 1, attempt)).join('');

/** The first attempt lost its host after seven steps; the second continued from the checkpoint of the fifth. */
const reportLines: readonly ReportLine[] = [
  { kind: 'start', attempt: 1, worker: '0', from: 0 },
  { kind: 'saved', attempt: 1, step: 5 },
  { kind: 'start', attempt: 2, worker: '0', from: 5 },
  { kind: 'saved', attempt: 2, step: 10 },
  { kind: 'end', attempt: 2, worker: '0', outcome: 'done' },
];
const printed = new Map([
  ['1-0', lines(1, 0, 7)],
  ['2-0', lines(2, 5, 12)],
]);
const time = '2026-11-21T18:00:00.000Z';
const well: JobAtEnd = {
  id: '000001',
  phase: 'succeeded',
  attempts: [
    { attempt: 1, startMode: 'fresh', startedAt: time, endedAt: time, reason: 'unreachable' },
    { attempt: 2, startMode: 'resume', startedAt: time, endedAt: time, reason: 'succeeded' },
  ],
  workers: ['0'],
  reports: { lines: reportLines, printed },
  alive: [],
  // The end of the log was lost with the host.
  logCopies: new Map([...printed, ['1-0', lines(1, 0, 6)]]),
  replay: null,
  faultCount: 1,
  steps: 12,
};

const world: EndState = {
  storedJobs: ['000001'],
  remainingResources: [],
  jobsWithTwoTpus: [],
  faultsWithoutTarget: [],
};

suite('the invariants of a chaos test', () => {
  test('accept a correct run', () => {
    assert.deepEqual(violationsOf([well], world), []);
  });

  const reporting = (...more: readonly ReportLine[]): Partial<JobAtEnd> => ({
    reports: { lines: [...reportLines, ...more], printed },
  });
  const withLogCopy = (text: string): Partial<JobAtEnd> => ({ logCopies: new Map([...well.logCopies, ['2-0', text]]) });
  const wrong: readonly (readonly [string, Partial<JobAtEnd>, RegExp])[] = [
    ['a job that failed', { phase: 'failed' }, /it is failed/],
    ['a job that succeeded too early', { reports: { lines: reportLines.slice(0, -1), printed } }, /never completed/],
    ['a program that left out the last step', { steps: 13 }, /without step 13/],
    [
      'a command that was started twice',
      reporting({ kind: 'start', attempt: 2, worker: '0', from: 10 }),
      /2-0 .* was started 2 times/,
    ],
    [
      'a command without a recorded start',
      reporting({ kind: 'start', attempt: 3, worker: '0', from: 10 }),
      /3-0 .* ran without a recorded start/,
    ],
    [
      'a success that never began',
      { reports: { lines: reportLines.filter(({ kind }) => kind !== 'start'), printed } },
      /never began/,
    ],
    [
      'a program that printed nothing and had steps to count',
      {
        reports: { lines: reportLines, printed: new Map([...printed, ['2-0', '']]) },
        logCopies: new Map(well.logCopies).set('2-0', ''),
      },
      /without step 12/,
    ],
    ['a program that is still alive', { alive: ['1-0'] }, /1-0 .* is alive, although the job has finished/],
    [
      'two programs at once',
      reporting({ kind: 'collision', who: '2-0', with: '1-0' }),
      /2-0 .* began while 1-0 was alive/,
    ],
    [
      'an attempt that was lost without a fault',
      { faultCount: 0 },
      /1 attempts were lost \(1 unreachable\), and 0 faults/,
    ],
    [
      'a checkpoint that was skipped',
      reporting({ kind: 'start', attempt: 2, worker: '0', from: 5 }),
      /continued from step 5 .* 10 was saved/,
    ],
    [
      'a log that lost a line in the middle',
      withLogCopy(lines(2, 5, 8) + lines(2, 9, 12)),
      /differs from the printed lines: line 4/,
    ],
    ['a log with a line twice', withLogCopy(line(1, 6, 2) + lines(2, 5, 12)), /differs from the printed lines: line 2/],
    ['a pass that is decided differently', { replay: 'today' }, /its passes cannot be replayed: today/],
    ['a log that ends too early', withLogCopy(lines(2, 5, 11)), /ends after 6 of 7 lines/],
  ];
  for (const [what, change, message] of wrong) {
    test(`notices ${what}`, () => {
      const problems = violationsOf([{ ...well, ...change }], world);
      assert.ok(
        problems.some((problem) => message.test(problem)),
        problems.join('\n') || 'no violation',
      );
    });
  }

  const endStates: readonly (readonly [string, Partial<EndState>, string])[] = [
    [
      'a TPU that is left in the cloud',
      { remainingResources: ['chaos-01-000001-1 (READY)'] },
      'chaos-01-000001-1 (READY) is left in the cloud',
    ],
    ['a job too many', { storedJobs: ['000001', '000002'] }, 'job 000002: no command reported its creation'],
    ['a job that is gone', { storedJobs: [] }, 'job 000001: the database has lost it'],
    ['two TPUs of one job', { jobsWithTwoTpus: ['000001: a, b'] }, 'two TPUs at once for job 000001: a, b'],
    [
      'a fault that hit no job',
      { faultsWithoutTarget: ['ssh'] },
      'no fault of the kind ssh hit a job, so nothing is proven about it',
    ],
  ];
  for (const [what, change, message] of endStates) {
    test(`notices ${what}`, () => assert.deepEqual(violationsOf([well], { ...world, ...change }), [message]));
  }

  test('a seed determines the faults, and another seed gives others', () => {
    const plan = (seed: number): unknown => drawPlan({ seed, kinds: faultKinds, jobs: 20 });
    assert.deepEqual(plan(7), plan(7));
    assert.notDeepEqual(plan(7), plan(8));
  });
});
