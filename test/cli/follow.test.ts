import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import type { AttemptView, JobView } from '../../src/app/client.ts';
import { run } from '../support/output-schema.ts';
import type { Event } from '../../src/core/model/event.ts';
import { eventually } from '../support/eventually.ts';
import { openWorld } from '../support/world.ts';
import {
  now,
  createCliHarness,
  jobView,
  type CliHarness,
  type CliHarnessOptions,
  attemptView,
  fakeLog,
  type FakeLog,
} from './support/harness.ts';

const manifest = 'job:\n  name: iris\nlocal: {}\ncommand:\n  run: "true"\n';
const attempt = attemptView({ workers: [0, 1], startedAt: now });
const queued = jobView({
  id: '000001',
  name: 'iris',
  phase: 'queued',
  phaseStartedAt: now,
  createdAt: now - 65_000,
  attempt: 0,
});
const running = jobView({
  ...queued,
  phase: 'running',
  attempts: [attempt],
  attempt: 1,
  stage: 0,
});
const succeeded = jobView({ ...queued, phase: 'succeeded', phaseStartedAt: now });
const created: Event = { at: now, kind: 'created', by: 'alice' };

interface Followed {
  readonly world: CliHarness;
  readonly ended: Promise<number>;
  /** Writes to the log of that worker in that attempt, and lists the files. */
  readonly log: (worker: number, text: string, attempt?: number) => readonly FakeLog[];
  readonly waitForText: (stream: 'out' | 'err', text: string | RegExp) => Promise<void>;
}

function follow(t: TestContext, argv: readonly string[], options: CliHarnessOptions = {}): Followed {
  const { folder } = openWorld(t);
  writeFileSync(join(folder, 'iris.yaml'), manifest);
  const files: FakeLog[] = [];
  // The clock of the test runs like the real one, from a time that its texts can name.
  const began = performance.now();
  const clock = () => now + Math.floor(performance.now() - began);
  const world = createCliHarness({
    jobs: [queued],
    events: { '000001': [created] },
    cwd: folder,
    now: clock,
    ...options,
  });
  const ended = run(argv, world.services);
  return {
    world,
    ended,
    log(worker, text, number = 1) {
      const path = join(folder, `attempt_${number}`, `command_worker_${worker}.log`);
      mkdirSync(join(folder, `attempt_${number}`), { recursive: true });
      appendFileSync(path, text);
      if (!files.some((file) => file.path === path)) files.push(fakeLog(path, worker, number, '000001'));
      return [...files];
    },
    async waitForText(stream, text) {
      const printed = () => (stream === 'out' ? world.out() : world.err());
      const found = await eventually(() =>
        typeof text === 'string' ? printed().includes(text) : text.test(printed()),
      );
      assert.ok(found, `It did not say ${String(text)} but:\n${world.out()}\n---\n${world.err()}`);
    },
  };
}

suite('create --follow without a terminal', () => {
  test('prints each change and the numbered logs, and returns the verdict', async (t) => {
    const { world, ended, log, waitForText } = follow(t, ['create', 'iris.yaml', '--follow']);
    await waitForText('err', '2026-11-21T08:20:14Z 000001 queued: v5litepod-16 spot us-west4-a\n');
    log(0, 'hello\n');
    world.setJobs([running], {}, log(1, 'hallo\n'));
    await waitForText('out', '[1] hallo\n');
    world.setJobs([succeeded]);
    assert.equal(await ended, 0);
    assert.equal(world.out(), '[0] hello\n[1] hallo\n');
    assert.match(world.err(), /^Created job 000001 \(iris\)\. It runs in the background\.\n/);
    assert.match(world.err(), /Z 000001 running: attempt 1, stage 0, 2 workers\n/);
    assert.match(world.err(), /Z Job 000001 \(iris\) succeeded after 1m05s\.\n$/);
    assert.ok(!world.err().includes('\u001b'), 'Nothing is drawn.');
    assert.deepEqual(world.commands, ['create iris for alice', 'wake']);
  });

  test('shows a preemption and the next attempt, and continues with its logs', async (t) => {
    const { world, ended, log, waitForText } = follow(t, ['create', '--config=iris.yaml', '-f']);
    world.setJobs([running], {}, log(0, 'step 1\n'));
    await waitForText('out', '[0] step 1\n');
    const events: Event[] = [
      created,
      { at: now, kind: 'attempt_ended', attempt: 1, reason: 'preempted', evidence: { message: 'node PREEMPTED' } },
      {
        at: now,
        kind: 'attempt_created',
        attempt: 2,
        stage: 1,
        startMode: 'resume',
        startedByOwner: false,
        allocation: 2,
        notBeforeAt: now,
      },
    ];
    world.setJobs([jobView({ ...running, phase: 'recovering' })], { '000001': events });
    await waitForText('err', '000001 preempted; node PREEMPTED\n');
    await waitForText('err', '000001 attempt 2 (stage 1) on allocation 2\n');
    world.setJobs([running], { '000001': events }, log(0, 'step 2\n', 2));
    await waitForText('out', '[0] step 2\n');
    world.setJobs([succeeded]);
    assert.equal(await ended, 0);
    assert.equal(world.out(), '[0] step 1\n[0] step 2\n');
  });

  test('also prints the output of attempts that started and ended between two checks', async (t) => {
    const { world, ended, log, waitForText } = follow(t, ['create', 'iris.yaml', '--follow']);
    await waitForText('err', 'queued');
    log(0, 'first\n', 1);
    log(0, 'second\n', 2);
    world.setJobs([running], {}, log(0, 'third\n', 3));
    await waitForText('out', 'third');
    log(0, 'fourth\n', 4);
    log(0, 'fifth\n', 5);
    const last: AttemptView = { ...attempt, attempt: 7, endedAt: now };
    world.setJobs([jobView({ ...succeeded, attempts: [last] })], {}, log(0, 'sixth\n', 6));
    assert.equal(await ended, 0);
    assert.equal(world.out(), '[0] first\n[0] second\n[0] third\n[0] fourth\n[0] fifth\n[0] sixth\n');
  });

  test('ends with 1 and the evidence when the job failed', async (t) => {
    const { world, ended, waitForText } = follow(t, ['create', 'iris.yaml', '--follow']);
    await waitForText('err', 'queued');
    const evidence = { message: 'exit 3 on worker 1', exitCode: 3, line: 'ValueError: no' };
    world.setJobs([
      jobView({
        ...succeeded,
        phase: 'failed',
        attempts: [{ ...attempt, endedAt: now, reason: 'command_failed', evidence }],
      }),
    ]);
    assert.equal(await ended, 1);
    assert.match(
      world.err(),
      /failed after 1m05s: exit code 3; its log says "ValueError: no"\. Explain: jobman why 1\n/,
    );
  });

  test('Ctrl-C leaves, says how to come back, and stops nothing', async (t) => {
    const { world, ended, waitForText } = follow(t, ['create', 'iris.yaml', '--follow']);
    await waitForText('err', 'queued');
    world.signal();
    assert.equal(await ended, 130);
    assert.match(world.err(), /Detached\. Job 000001 keeps running\. Attach again: jobman logs 1 -f\n$/);
    assert.deepEqual(world.commands, ['create iris for alice', 'wake']);
  });

  test('is quiet when asked, and still returns the verdict', async (t) => {
    const { world, ended, log, waitForText } = follow(t, ['create', 'iris.yaml', '-f', '-q']);
    world.setJobs([running], {}, log(0, 'hello\n'));
    await waitForText('out', 'hello');
    world.setJobs([succeeded]);
    assert.equal(await ended, 0);
    assert.equal(world.err(), '');
  });
});

suite('create --follow on a terminal', () => {
  const terminal = { columns: 100, rows: 24 };

  test('shows what it waits for until the logs begin, and leaves only final lines', async (t) => {
    const { world, ended, log, waitForText } = follow(t, ['create', 'iris.yaml', '--follow', '--color=never'], {
      terminal,
    });
    await waitForText('err', 'Ctrl-C detaches · attach again: jobman logs 1 -f');
    // The numbers have the room of both workers from the first line on, although one is late.
    world.setJobs([running], {}, log(0, 'hello\n'));
    await waitForText('out', '[0]   hello\n');
    world.setJobs([running], {}, log(1, 'hello\n'));
    await waitForText('out', '[1]   hello\n');
    log(0, 'step 1\n');
    log(1, 'step 1\n');
    await waitForText('out', '[0-1] step 1\n');
    log(0, 'only me\n 10%\r 20%');
    await waitForText('out', '[0]   only me\n');
    await waitForText('err', '[0]  20%');
    log(0, '\n');
    world.setJobs([succeeded]);
    assert.equal(await ended, 0);
    assert.equal(world.out(), '[0]   hello\n[1]   hello\n[0-1] step 1\n[0]   only me\n[0]    20%\n');
    assert.ok(world.err().includes('\u001b[?2026h'), 'Redraws are one synchronised update each.');
    assert.ok(world.err().includes('\u001b[JJob 000001 (iris) succeeded after 1m05s.\n'));
    assert.match(world.err(), /\[22;2t.\]2;1 queued \d+s/, 'The window is named after the wait.');
    assert.ok(world.err().endsWith('\u0007\u001b]2;\u0007\u001b[23;2t'), 'It rings, and the window has its name back.');
    assert.equal(world.terminate(), false, 'Nothing is left to put right.');
  });
});

suite('continue', () => {
  test('prints what the try says that it began, and nothing of the ones before', async (t) => {
    const over = jobView({ ...succeeded, attempts: [{ ...attempt, endedAt: now, reason: 'succeeded' }] });
    const begun = jobView({ ...running, attempts: [...over.attempts, { ...attempt, attempt: 2 }] });
    const followed: Followed = follow(t, ['continue', '1'], {
      jobs: [over],
      answerCommand(id) {
        followed.world.setJobs([begun], {}, followed.log(0, 'of the first try\n', 1));
        return { id, ok: true, message: `Job ${id} is started.`, exitCode: 0 };
      },
    });
    const { world, ended, log, waitForText } = followed;
    await waitForText('err', 'is started');
    world.setJobs([begun], {}, log(0, 'of the second try\n', 2));
    await waitForText('out', 'of the second try');
    world.setJobs([succeeded]);
    assert.equal(await ended, 0);
    assert.equal(world.out(), '[0] of the second try\n');
  });

  test('speaks of setup only where there is one', async (t) => {
    for (const commandOnly of [false, true]) {
      const steps = [{ name: 'gcsfuse' }] as unknown as JobView['spec']['steps'];
      const spec = { ...queued.spec, steps };
      const over = jobView({ ...succeeded, spec, attempts: [{ ...attempt, endedAt: now, reason: 'succeeded' }] });
      const second = { ...attempt, attempt: 2, commandOnly, startedAt: null };
      const setup = jobView({
        ...running,
        spec,
        phase: 'setup',
        attempts: [...over.attempts, second],
      });
      const argv = ['continue', '1', ...(commandOnly ? ['--cmd-only'] : [])];
      const { world, ended, waitForText } = follow(t, argv, { jobs: [over] });
      world.setJobs([setup]);
      await waitForText('err', '000001 setup');
      world.setJobs([{ ...succeeded, spec }]);
      assert.equal(await ended, 0);
      assert.equal(/Z 000001 setup: gcsfuse$/m.test(world.err()), !commandOnly, world.err());
    }
  });
});

suite('a verdict', () => {
  test("counts from the owner's last start, and not from a rule", async (t) => {
    const resumed = { ...attempt, attempt: 3, createdAt: now - 20_000, startedBy: 'owner' } as const;
    const byRule = { ...attempt, attempt: 4, createdAt: now - 5_000, startedBy: 'rule' } as const;
    const { world, ended } = follow(t, ['wait', '1']);
    world.setJobs([jobView({ ...succeeded, attempts: [attempt, { ...attempt, attempt: 2 }, resumed, byRule] })]);
    assert.equal(await ended, 0);
    assert.match(world.out(), /^Job 000001 \(iris\) succeeded after 20s\.\n$/);
  });
});

suite('logs -f', () => {
  test('ends with 0 when the job has finished, whatever its result', async (t) => {
    const failed = jobView({ ...succeeded, phase: 'failed', message: 'exit 1' });
    const { world, ended, log, waitForText } = follow(t, ['logs', '1', '-f']);
    world.setJobs([running], {}, log(0, 'hello'));
    await eventually(() => false, { withinMs: 100 });
    log(0, ' world\n');
    await waitForText('out', '[0] hello world\n');
    world.setJobs([failed]);
    assert.equal(await ended, 0);
    assert.match(world.err(), /Z Job 000001 \(iris\) failed after 1m05s: exit 1/);
  });

  for (const [what, offset] of [
    ['behind', 300_000],
    ['ahead of', -300_000],
  ] as const)
    test(`waits for the last lines, and then ends, with a clock five minutes ${what} that of the server`, async (t) => {
      const { world, ended, log, waitForText } = follow(t, ['logs', '1', '-f']);
      world.setJobs([running], {}, log(0, 'step 1\n'));
      await waitForText('out', '[0] step 1\n');
      world.setJobs([jobView({ ...succeeded, phaseStartedAt: now + offset })]);
      await eventually(() => false, { withinMs: 100 });
      log(0, 'step 2\n');
      let code: number | undefined;
      void ended.then((value) => (code = value));
      assert.ok(await eventually(() => code !== undefined));
      assert.equal(world.out(), '[0] step 1\n[0] step 2\n');
    });

  test('separates no rows by dashes in a pipe, where each line begins with its time', async (t) => {
    const first = {
      ...attempt,
      endingAt: now,
      endedAt: now,
      reason: 'preempted',
      evidence: { message: 'taken' },
    } as const;
    const again = jobView({ ...running, attempts: [first, { ...attempt, attempt: 2, stage: 1, startMode: 'resume' }] });
    const { world, ended, log, waitForText } = follow(t, ['logs', '1', '-f'], { jobs: [again] });
    world.setJobs([again], {}, log(0, 'hello\n', 2));
    await waitForText('err', 'following');
    world.setJobs([succeeded]);
    assert.equal(await ended, 0);
    assert.match(world.err(), /^\S+Z 000001 attempt 1 ran 0s until .*: preempted; taken$/m);
    for (const line of world.err().trimEnd().split('\n')) assert.match(line, /^2026-11-21T[\d:]+Z (Job )?000001 /);
  });

  test('follows one job at a time', async (t) => {
    const { world, ended } = follow(t, ['logs', '1', '2', '-f']);
    assert.equal(await ended, 2);
    assert.match(world.err(), /Follow one job at a time/);
  });
});

suite('wait', () => {
  test('prints one line for each job and returns the worst verdict', async (t) => {
    const other = jobView({
      id: '000002',
      name: 'other',
      phase: 'stopped',
      message: 'by its owner',
    });
    const { world, ended, waitForText } = follow(t, ['wait', '1', '2']);
    world.setJobs([running, other]);
    await waitForText('out', 'Job 000002 (other) was stopped');
    world.setJobs([succeeded, other]);
    assert.equal(await ended, 1);
    assert.equal(world.out().split('\n').length, 3);
    assert.match(world.out(), /Job 000001 \(iris\) succeeded after 1m05s\.\n$/);
  });

  test('shows the capacity that a job holds now, not at its end', async (t) => {
    const { world, ended } = follow(t, ['wait', '1']);
    world.setJobs([{ ...succeeded, heldCapacity: 'v4-16' }]);
    assert.equal(await ended, 0);
    assert.match(world.out(), /^Job 000001 \(iris\) succeeded after 1m05s and holds v4-16\.\n$/);
  });

  test('gives up after --timeout, and on a job that is not there', async (t) => {
    let clock = now;
    const { world, ended } = follow(t, ['wait', '1', '7', '--timeout', '1s'], { now: () => (clock += 400) });
    assert.equal(await ended, 3);
    assert.match(world.err(), /There is no job 0*7\./);
    assert.match(world.err(), /Not finished after 1s: 000001/);
  });
});
