/** Output during a wait: on a terminal, in a pipe, and for a screen reader. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { AttemptView, JobView } from '../../src/app/client.ts';
import {
  formatAttempt,
  formatEarlierAttempts,
  formatAttemptStart,
  createSilenceDetector,
} from '../../src/cli/follow/annotations.ts';
import { waitingLines } from '../../src/cli/commands/wait.ts';
import { run } from '../support/output-schema.ts';
import { eventually } from '../support/eventually.ts';
import { createTerminalScreen } from './support/terminal-screen.ts';
import {
  now,
  createCliHarness,
  jobView,
  type CliHarness,
  type CliHarnessOptions,
  attemptView,
} from './support/harness.ts';

const second = 1_000;
const minute = 60 * second;
const terminal = { columns: 100, rows: 24 };
const why = {
  ...jobView().why,
  evidence: 'queued resource WAITING_FOR_RESOURCES, seen 9s ago',
  typicalWait: '41m (median of 12 waits in 30 days)',
};
const attempt = attemptView({ workers: [0, 1, 2, 3] });
const queued = jobView({
  phase: 'queued',
  phaseStartedAt: now,
  message: 'waits for capacity',
  attempts: [attempt],
  why,
});
const succeeded = jobView({ ...queued, phase: 'succeeded' });

interface Waited extends CliHarness {
  readonly ended: Promise<number>;
  /** Moves the clock, and waits until that was said. */
  readonly at: (clock: number, expected: RegExp) => Promise<void>;
}

function waitFor(argv: readonly string[], options: CliHarnessOptions = {}): Waited {
  let clock = now;
  const world = createCliHarness({ jobs: [queued], now: () => clock, ...options });
  const ended = run(argv, world.services);
  return {
    ...world,
    ended,
    async at(next, expected) {
      clock = next;
      assert.ok(
        await eventually(() => expected.test(world.err())),
        `${String(expected)} was not said, but\n${world.err()}`,
      );
    },
  };
}

suite('wait without a terminal', () => {
  test('prints each change, and a reminder after 1, 5, 15 and 30 minutes and then every hour', async () => {
    const waited = waitFor(['wait', '42']);
    await waited.at(now, /^2026-11-21T08:20:14Z 000042 queued: v5litepod-16 spot us-west4-a\n$/);
    for (const [age, text] of [
      [minute, '1m'],
      [5 * minute, '5m'],
      [15 * minute, '15m'],
      [30 * minute, '30m'],
      [60 * minute, '1h00m'],
      [120 * minute, '2h00m'],
    ] as const)
      await waited.at(now + age, new RegExp(`still queued, ${text}: queued resource WAITING.*; usually 41m \\(.*\\n$`));
    assert.equal(waited.err().split('\n').length, 8, 'Nothing else was said.');
    waited.setJobs([jobView({ ...queued, phase: 'running', phaseStartedAt: now + 130 * minute })]);
    await waited.at(now + 131 * minute, /000042 running after 2h10m: attempt 3, stage 2, 4 workers\n/);
    waited.setJobs([succeeded]);
    assert.equal(await waited.ended, 0);
    assert.match(waited.out(), /^Job 000042 \(vit-l16-3e4\) succeeded after .*\n$/);
    assert.ok(!waited.err().includes('\u001b') && !waited.err().includes('\u0007'));
  });

  test('begun late says no heartbeat that was before', async () => {
    const waited = waitFor(['wait', '42'], { jobs: [jobView({ ...queued, phaseStartedAt: now - 100 * minute })] });
    await waited.at(now, /queued: v5litepod-16/);
    await waited.at(now + 20 * minute, /still queued, 2h00m:/);
    assert.equal(waited.err().split('\n').length, 3, waited.err());
    waited.signal();
    assert.equal(await waited.ended, 130);
    assert.match(waited.err(), /Stopped waiting; 000042 keeps running\. Wait again: jobman wait 42\n$/);
  });

  for (const quiet of [['--quiet'], ['--progress=none']]) {
    test(`says nothing but the verdict with ${quiet.join(' ')}`, async () => {
      const waited = waitFor(['wait', '42', ...quiet]);
      waited.setJobs([succeeded]);
      assert.equal(await waited.ended, 0);
      assert.equal(waited.err(), '');
      assert.match(waited.out(), /succeeded/);
    });
  }

  test('of a finished job shows only its result', async () => {
    const waited = waitFor(['wait', '42'], { jobs: [succeeded], terminal });
    assert.equal(await waited.ended, 0);
    assert.equal(waited.err(), '');
  });
});

suite('wait on a terminal', () => {
  test('shows what the job waits for, since when, the last answer, the typical wait, and how to return', async () => {
    const waited = waitFor(['wait', '42', '--color=never'], { terminal });
    await waited.at(now, /Ctrl-C/);
    const glass = createTerminalScreen();
    glass.write(waited.err());
    assert.deepEqual(glass.rows(), [
      ' 000042 ◌ queued 0s',
      '   capacity  0s     v5litepod-16 spot us-west4-a',
      '   usually          41m (median of 12 waits in 30 days)',
      '   next             check in 16 s',
      ' Ctrl-C detaches · attach again: jobman wait 42',
      '',
    ]);
    waited.setJobs([succeeded]);
    assert.equal(await waited.ended, 0);
    glass.write(waited.err().slice(glass.writtenLength()));
    assert.deepEqual(glass.rows(), [''], 'Nothing of it is left next to the verdict.');
    assert.ok(waited.err().includes('\u001b[J\u0007\u001b]2;'), 'It rings, and the window has its name back.');
  });

  test('takes the title back when it is killed, and rings where the settings say so', async () => {
    const waited = waitFor(['wait', '42'], { terminal });
    await waited.at(now, /\]2;42 queued 0s/);
    assert.ok(waited.terminate());
    assert.ok(waited.err().endsWith('\u001b]2;\u0007\u001b[23;2t'));
    waited.signal();
    await waited.ended;

    const silent = createCliHarness({ jobs: [queued], terminal });
    const settings = { ...(await silent.services.settings()), terminal: { title: false, bell: false } };
    const ended = run(['wait', '42'], { ...silent.services, settings: async () => settings });
    assert.ok(await eventually(() => silent.err().includes('Ctrl-C')));
    silent.setJobs([succeeded]);
    assert.equal(await ended, 0);
    assert.ok(!silent.err().includes('\u0007'));
  });

  test('has no title and no drawing on a dumb terminal, and repeats it for a screen reader', async () => {
    const dumb = waitFor(['wait', '42'], { terminal, env: { TERM: 'dumb' } });
    await dumb.at(now, /^2026-11-21T08:20:14Z 000042 queued/);
    dumb.signal();
    await dumb.ended;
    assert.ok(!dumb.err().includes('\u001b'));

    const aloud = waitFor(['wait', '42'], { terminal, env: { ACCESSIBLE: '1' } });
    await aloud.at(now, /^2026-11-21T08:20:14Z 000042 queued/);
    await aloud.at(now + 30 * second, /still queued, 30s:/);
    await aloud.at(now + 60 * second, /still queued, 1m:/);
    aloud.setJobs([succeeded]);
    assert.equal(await aloud.ended, 0);
    assert.equal(aloud.err().replaceAll('\u0007', '').includes('\u001b'), false);
  });

  test('has a line for each of several jobs, and says each verdict above them', async () => {
    const other = jobView({ id: '000043', name: 'bert' });
    const waited = waitFor(['wait', '42', '43', '--color=never'], { terminal, jobs: [queued, other] });
    await waited.at(now, /Waiting for 2 jobs\. Ctrl-C detaches · again: jobman wait 42 43/);
    assert.match(waited.err(), / 000043 ▸ running 2h05m: 2 preemptions\n/);
    waited.setJobs([queued, jobView({ ...other, phase: 'failed' })]);
    await waited.at(now, /Waiting for 1 job/);
    assert.match(waited.out(), /^Job 000043 \(bert\) failed/);
    waited.setJobs([succeeded]);
    assert.equal(await waited.ended, 1, 'the worst verdict, and that of a job which is gone');
    assert.match(waited.out(), /Job 000042 \(vit-l16-3e4\) succeeded/);
  });

  test('never draws more lines than there are, nor wider ones', () => {
    const many = Array.from({ length: 64 }, (_, index) =>
      jobView({ id: String(index + 1).padStart(6, '0'), phaseStartedAt: now - index * minute }),
    );
    for (const columns of [40, 60, 80, 120, 200]) {
      const layout = { unicode: true, columns, rows: 12, back: `jobman wait ${many.map(({ id }) => id).join(' ')}` };
      const lines = waitingLines(many, now, layout);
      assert.equal(lines.length, 10);
      for (const line of lines) assert.ok(line.length <= columns, line);
      assert.match(lines[0] ?? '', /000064/, 'Who has waited longest comes first.');
      assert.equal(lines[8], ' 56 more');
    }
  });
});

suite('attempts', () => {
  const ended = (number: number, different: Partial<AttemptView> = {}): AttemptView => ({
    ...attempt,
    attempt: number,
    startedAt: now - 100 * minute,
    endingAt: now - 40 * minute,
    endedAt: now - 39 * minute,
    reason: 'preempted',
    evidence: { message: 'the cloud took it' },
    exits: [],
    workdirCopy: null,
    ...different,
  });
  const third: AttemptView = { ...attempt, attempt: 3, stage: 2, startedAt: now };

  test('are shown to a user who comes back later', () => {
    const job = { id: '000042', attempts: [ended(1, { startedAt: null }), ended(2), third] };
    assert.deepEqual(formatEarlierAttempts(job, 3, now), [
      'attempt 1 did not run until 21 Nov 07:40:14 UTC: preempted; the cloud took it',
      'attempt 2 ran 1h00m until 21 Nov 07:40:14 UTC: preempted; the cloud took it',
    ]);
    const [later] = formatEarlierAttempts(job, 2, now + 60 * 24 * 60 * minute);
    assert.match(
      later ?? '',
      / until 21 Nov 2026 07:40:14 UTC: /,
      'The year is shown where it is not the present one.',
    );
    assert.equal(formatAttempt(third, third.workers), 'attempt 3, stage 2, workers 0-3');
    assert.equal(formatAttemptStart(job, third, [3]), 'attempt 3, stage 2, worker 3, 40m after attempt 2');
    assert.equal(formatAttempt({ ...third, stage: 0 }, ['controller']), 'attempt 3, on this machine');
  });

  test('that are many are counted', () => {
    const job = { id: '000042', attempts: Array.from({ length: 9 }, (_, index) => ended(index + 1)) };
    const lines = formatEarlierAttempts(job, 10, now);
    assert.equal(lines.length, 4);
    assert.equal(lines[0], '6 attempts before these: jobman history 42');
  });
});

suite('silences', () => {
  const ages = (...seconds: readonly (number | null)[]): JobView['workers'] =>
    seconds.map((age, worker) => ({
      worker,
      address: null,
      message: 'running',
      logAgeMs: age === null ? null : age * second,
      lastLine: null,
    }));

  test('of one worker are shown once, and their end', () => {
    const silences = createSilenceDetector();
    assert.deepEqual(silences(ages(4, 12, 5, 44)), []);
    assert.deepEqual(silences(ages(4, 12, 5, 46)), ['nothing from worker 3 for 46s, from the others 4s to 12s ago']);
    assert.deepEqual(silences(ages(4, 12, 5, 100)), []);
    assert.deepEqual(silences(ages(4, 12, 5, 1)), ['worker 3 printed again after 1m40s']);
    // Earlier events are the state at the start.
    assert.deepEqual(silences(ages(4, 12, 5, 150)), []);
    assert.deepEqual(silences(ages(4, 12, 5, 200)).length, 1);
  });

  test('of all are shown later, and a worker without output is skipped', () => {
    const silences = createSilenceDetector();
    assert.deepEqual(silences(ages(null, null)), []);
    assert.deepEqual(silences(ages(60, 61, null)), []);
    assert.deepEqual(silences(ages(300, 301, null)), ['nothing from workers 0-1 for 5m']);
    assert.deepEqual(silences([]), ['workers 0-1 printed again after 5m']);
  });
});
