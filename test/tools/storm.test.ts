/** The judge of storms: of a life in which all is well it has nothing to say, and of each thing that can go wrong it says so. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { judge, type JobAtEnd, type WorldAtEnd } from '../../tools/storm/judge.ts';
import { drawPlan, faultKinds } from '../../tools/storm/plan.ts';
import type { Told } from '../../tools/storm/witness.ts';

const line = (number: number, step: number, attempt: number): string =>
  `${number}: step ${step} of 12, attempt ${attempt}, worker 0\n`;
const lines = (attempt: number, from: number, to: number): string =>
  Array.from({ length: to - from }, (_, index) => line(index + 1, from + index + 1, attempt)).join('');

/** A host died under the first attempt after seven steps; the second went on from the checkpoint of the fifth. */
const story: readonly Told[] = [
  { kind: 'start', attempt: 1, worker: '0', from: 0 },
  { kind: 'saved', attempt: 1, step: 5 },
  { kind: 'start', attempt: 2, worker: '0', from: 5 },
  { kind: 'saved', attempt: 2, step: 10 },
  { kind: 'end', attempt: 2, worker: '0', how: 'done' },
];
const printed = new Map([
  ['1-0', lines(1, 0, 7)],
  ['2-0', lines(2, 5, 12)],
]);
const moment = '2026-11-21T18:00:00.000Z';
const well: JobAtEnd = {
  id: '000001',
  phase: 'succeeded',
  attempts: [
    { attempt: 1, how: 'fresh', started: moment, ended: moment, reason: 'unreachable' },
    { attempt: 2, how: 'resume', started: moment, ended: moment, reason: 'succeeded' },
  ],
  places: ['0'],
  testimony: { story, printed },
  alive: [],
  // The host took the end of its log with it.
  mirrored: new Map([...printed, ['1-0', lines(1, 0, 6)]]),
  struck: 1,
  steps: 12,
};

const world: WorldAtEnd = { inRecord: ['000001'], inCloud: [], twoAtOnce: [], missed: [] };

suite('the judge of storms', () => {
  test('has nothing to say when all is well', () => {
    assert.deepEqual(judge([well], world), []);
  });

  const told = (...more: readonly Told[]): Partial<JobAtEnd> => ({
    testimony: { story: [...story, ...more], printed },
  });
  const mirrored = (text: string): Partial<JobAtEnd> => ({ mirrored: new Map([...well.mirrored, ['2-0', text]]) });
  const wrong: readonly (readonly [string, Partial<JobAtEnd>, RegExp])[] = [
    ['a job that failed', { phase: 'failed' }, /it is failed/],
    [
      'a job that is called succeeded too soon',
      { testimony: { story: story.slice(0, -1), printed } },
      /never came to its end/,
    ],
    ['a program that left the last step out', { steps: 13 }, /without step 13/],
    [
      'a command that was started twice',
      told({ kind: 'start', attempt: 2, worker: '0', from: 10 }),
      /2-0 .* was started 2 times/,
    ],
    [
      'a command that nobody knows of',
      told({ kind: 'start', attempt: 3, worker: '0', from: 10 }),
      /3-0 .* the record says nothing/,
    ],
    [
      'a success that never began',
      { testimony: { story: story.filter(({ kind }) => kind !== 'start'), printed } },
      /never began/,
    ],
    [
      'a program that printed nothing and had steps to count',
      {
        testimony: { story, printed: new Map([...printed, ['2-0', '']]) },
        mirrored: new Map(well.mirrored).set('2-0', ''),
      },
      /without step 12/,
    ],
    ['a program that lives on', { alive: ['1-0'] }, /1-0 .* is alive, although the job is over/],
    ['two programs at once', told({ kind: 'collision', who: '2-0', with: '1-0' }), /2-0 .* began while 1-0 was alive/],
    ['an attempt that was lost for nothing', { struck: 0 }, /1 attempts were lost \(1 unreachable\), and 0 faults/],
    [
      'a checkpoint that was passed over',
      told({ kind: 'start', attempt: 2, worker: '0', from: 5 }),
      /went on from step 5 .* 10 was saved/,
    ],
    [
      'a log that lost a line in the middle',
      mirrored(lines(2, 5, 8) + lines(2, 9, 12)),
      /is not what was printed: line 4/,
    ],
    ['a log with a line twice', mirrored(line(1, 6, 2) + lines(2, 5, 12)), /is not what was printed: line 2/],
    ['a log that ends too soon', mirrored(lines(2, 5, 11)), /ends after 6 of 7 lines/],
  ];
  for (const [what, change, says] of wrong) {
    test(`notices ${what}`, () => {
      const problems = judge([{ ...well, ...change }], world);
      assert.ok(
        problems.some((problem) => says.test(problem)),
        problems.join('\n') || 'it said nothing',
      );
    });
  }

  const around: readonly (readonly [string, Partial<WorldAtEnd>, string])[] = [
    [
      'what is left in the cloud',
      { inCloud: ['storm-01-000001-1 (READY)'] },
      'storm-01-000001-1 (READY) is left in the cloud',
    ],
    ['a job too many', { inRecord: ['000001', '000002'] }, 'job 000002: nobody was told that it was created'],
    ['a job that is gone', { inRecord: [] }, 'job 000001: the record has lost it'],
    ['two TPUs of one job', { twoAtOnce: ['000001: a, b'] }, 'two TPUs at once for job 000001: a, b'],
    [
      'a fault that met nobody',
      { missed: ['ssh'] },
      'no fault of the kind ssh met anybody, so nothing is proven about it',
    ],
  ];
  for (const [what, change, says] of around) {
    test(`notices ${what}`, () => assert.deepEqual(judge([well], { ...world, ...change }), [says]));
  }

  test('hands out the same faults for the same seed, and others for another', () => {
    const plan = (seed: number): unknown => drawPlan({ seed, kinds: faultKinds, jobs: 20 });
    assert.deepEqual(plan(7), plan(7));
    assert.notDeepEqual(plan(7), plan(8));
  });
});
