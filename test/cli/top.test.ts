import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import type { JobActivity } from '../../src/app/activity.ts';
import { archivedLogPath, archiveFolder, createArchivedLogs } from '../../src/files/archived-logs.ts';
import type { PodUsage } from '../../src/app/cluster/cluster.ts';
import type { ClusterJob, ClusterPod } from '../../src/app/cluster/objects.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import { topRows, workerKey, type TopRow } from '../../src/app/top.ts';
import type { FiguresAnswer, FiguresTarget, WorkerFigures } from '../../src/app/worker-figures.ts';
import { createPainter } from '../../src/cli/block.ts';
import { jobLines, lineKey, topLines, zoneLines } from '../../src/cli/render/top.ts';
import { pressKey, topFrame, type TopState } from '../../src/cli/top/screen.ts';
import { width } from '../../src/cli/render/cell.ts';
import { aClusterJob, aClusterPod, anArchivedJob } from '../support/cluster-builders.ts';
import { eventually } from '../support/eventually.ts';
import { openWorld } from '../support/world.ts';
import { run } from '../support/output-schema.ts';
import { jobActivity, measuredWorker } from '../support/top-builders.ts';
import {
  createCliHarness,
  fakeCluster,
  jobman,
  jsonLines,
  now,
  tpuRow,
  type CliHarnessOptions,
} from './support/harness.ts';
import { watched, type Watched } from './support/watched.ts';
import { createTerminalScreen } from './support/terminal-screen.ts';

const figures = measuredWorker().figures!;

/** Services whose workers answer as the test says; by default at once. */
function withWorkers(
  answer: (target: FiguresTarget, job: string) => FiguresAnswer | Promise<FiguresAnswer> = () => ({
    kind: 'known',
    at: now,
    figures,
  }),
  client: CliHarnessOptions['client'] = {},
  others: CliHarnessOptions['services'] = {},
): CliHarnessOptions {
  return {
    client: {
      workerFigures: async (job, target) => answer(target, job),
      tpus: async () => {
        throw new JobmanError('No project.', exitCode.usage);
      },
      ...client,
    },
    services: others,
  };
}

const known = (changes: Partial<WorkerFigures> = {}): FiguresAnswer => ({
  kind: 'known',
  at: now,
  figures: { ...figures, ...changes },
});

const otherScreen = '\u001b[?1049h\u001b[H';
const firstScreen = '\u001b[?1049l';

function watch(t: TestContext, options: CliHarnessOptions, argv: readonly string[] = []): Watched {
  const world = createCliHarness({ terminal: { columns: 170, rows: 24 }, ...options });
  return watched(t, world, ['top', ...argv], () => {
    const shown = createTerminalScreen();
    // The screen of the tests has no second one: what follows the last switch is on it alone.
    shown.write(
      world
        .out()
        .split(otherScreen)
        .flatMap((part) => part.split(firstScreen))
        .at(-1) ?? '',
    );
    return shown.rows();
  });
}

suite('top on a terminal', () => {
  test('draws on the other screen until q, and leaves the last picture on the first one', async (t) => {
    const { world, ended, glass, shows } = watch(t, { activity: [jobActivity()], ...withWorkers() });
    await shows(
      /^> 000042 {2}vit-l16-3e4 {2}alice {2}v5litepod-16 {2}us-west4-a {2}▸ running 2\/2 {3}8s {4}31 {4}44 {5}20 {4}3\.0M {4}93/m,
    );
    assert.ok(world.out().includes('\u001b[?1049h'));
    assert.ok(!world.out().includes('No active jobs'), 'The first picture has the jobs.');
    const before = glass();
    world.typeKeys('q');
    assert.equal(await ended, 0);
    assert.ok(world.out().includes('\u001b[?1049l'));
    assert.deepEqual(glass(), before, 'The last picture stays.');
    assert.equal(world.terminate(), false, 'Nothing is left to restore.');
    assert.equal(world.typeKeys('j'), false);
  });

  test('Ctrl-C leaves with 130, and a crash restores the screen', async (t) => {
    const one = watch(t, { activity: [jobActivity()], ...withWorkers() });
    await one.shows(/000042/);
    one.world.typeKeys('\u0003');
    assert.equal(await one.ended, 130);
    const other = watch(t, { activity: [jobActivity()], ...withWorkers() });
    await other.shows(/000042/);
    assert.equal(other.world.terminate(), true);
    assert.ok(other.world.out().includes('\u001b[?1049l'));
  });

  test('Ctrl-Z returns to the first screen before it suspends, and the next picture is on the other one', async (t) => {
    const { world, shows } = watch(t, { activity: [jobActivity()], ...withWorkers() });
    await shows(/000042/);
    world.typeKeys('\u001a');
    assert.match(world.out().split(firstScreen).at(-1) ?? '', /000042/);
    const length = world.out().length;
    world.typeKeys('');
    assert.ok(await eventually(() => world.out().slice(length).includes('\u001b[?1049h')));
    await shows(/^> 000042/m);
  });

  test('Enter shows the workers of the selected job, and hides them', async (t) => {
    const jobs = [
      jobActivity({
        id: '000043',
        name: 'bert',
        workers: [],
        isRunning: false,
        phase: 'queued',
        message: 'no capacity for 9m',
        tpus: [],
      }),
      jobActivity(),
    ];
    const { world, shows } = watch(t, { activity: jobs, ...withWorkers() });
    await shows(/^> 000042 [^]*\n {2}000043 .* ◌ queued .* no capacity for 9m$/m);
    world.typeKeys('\r');
    await shows(/^> 000042 .*\n {10}worker 0 .* running .* step 40210 loss 2\.114\n {10}worker 1 /m);
    world.typeKeys('jj');
    await shows(/^> {9}worker 1 /m);
    world.typeKeys('\r');
    await shows(/^> 000042 /m);
    await shows(/^(?![^]*worker 1)/);
  });

  test('sorts, and shows only your jobs or one zone', async (t) => {
    const bob = jobActivity({ id: '000043', owner: 'bob', zone: 'us-east5-b', attempt: 1 });
    const measured = withWorkers((_, job) => known({ cpuPercent: job === '000042' ? 90 : 10 }));
    const { world, shows } = watch(t, { activity: [bob, jobActivity()], ...measured });
    await shows(/000043 .*\n.*000042 /);
    world.typeKeys('s');
    await shows(/by newest[^]*000043 .*\n.*000042 /);
    world.typeKeys('s');
    await shows(/by cpu[^]*000042 .*\n.*000043 /);
    world.typeKeys('u');
    await shows(/of alice[^]*^(?![^]*000043)/m);
    world.typeKeys('u');
    await shows(/000043/);
    world.typeKeys('Gz');
    await shows(/in us-east5-b/);
    await shows(/^(?![^]*000042)/);
    world.typeKeys('z?');
    await shows(/sort by activity, age, cpu/);
    world.typeKeys('q');
    await shows(/000042/);
  });

  test('keeps the figures of a worker that stops to answer, with how long it has been silent and why', async (t) => {
    let clock = now;
    let answers = true;
    const measured = withWorkers(({ worker }) =>
      worker === 0 || answers
        ? { kind: 'known', at: clock, figures: { ...figures, cpuPercent: worker === 0 ? 31 : 57 } }
        : { kind: 'unknown', reason: 'no answer within 10 s' },
    );
    const { world, shows } = watch(t, { activity: [jobActivity()], ...measured, now: () => clock }, ['42']);
    await shows(/worker 1 .* running .* 57 /);
    answers = false;
    clock += 65_000;
    await shows(/\? running 1\/2 .* worker 1 silent: no answer within 10 s/);
    await shows(/worker 1 .* \? silent 1m .* 57 .* no answer within 10 s, figures of 1m ago/);
    answers = true;
    clock += 65_000;
    await shows(/▸ running 2\/2/);
    world.typeKeys('q');
  });

  test('keeps the jobs if the store cannot be read, with their time', async (t) => {
    let clock = now;
    const inner = createCliHarness({ activity: [jobActivity()] });
    const client = await inner.services.client();
    let fails = false;
    const activity = async (): Promise<readonly JobActivity[]> => {
      if (fails) throw new JobmanError('The record of jobs is locked.', exitCode.unreachable);
      return client.activity();
    };
    const measured = withWorkers();
    const { shows } = watch(t, { ...measured, client: { ...measured.client, activity }, now: () => clock });
    await shows(/000042/);
    fails = true;
    clock += 6_000;
    await shows(/jobs not updated since 08:20:14: The record of jobs is locked\./);
    await shows(/000042/);
    fails = false;
    clock += 6_000;
    await shows(/^(?![^]*locked)/);
  });

  test('keeps the TPUs of the clouds if these stop to answer', async (t) => {
    let clock = now;
    let fails = false;
    const tpus = async () => {
      if (fails) throw new JobmanError('the login has expired', exitCode.unreachable);
      const idle = tpuRow({ name: 'carol-1', job: null, owner: { kind: 'user', name: 'carol' } });
      return { rows: [idle], unchecked: [], anyAnswered: true, forgettable: [], projects: ['lab'], suggestion: null };
    };
    const { shows } = watch(t, { activity: [], ...withWorkers(undefined, { tpus }), now: () => clock });
    await shows(/us-west4-a {2}v5e .* 16 .* 3h .* carol 16/);
    await shows(/- +carol-1 .* READY .* 3h {2}no job, v5litepod-16, \$7\.68\/h/);
    fails = true;
    clock += 61_000;
    await shows(/TPUs not updated since 08:20:14: the login has expired/);
    await shows(/carol-1/);
  });

  test('measures each worker once in an interval, and never twice at once', async (t) => {
    let clock = now;
    let running = 0;
    let most = 0;
    const counts = new Map<number, number>();
    const workers = Array.from({ length: 64 }, (_, worker) => ({ ...jobActivity().workers[0]!, worker }));
    const measured = withWorkers(async ({ worker }) => {
      counts.set(Number(worker), (counts.get(Number(worker)) ?? 0) + 1);
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 20));
      running -= 1;
      return { kind: 'known', at: clock, figures };
    });
    const { shows } = watch(t, { activity: [jobActivity({ workers })], ...measured, now: () => clock });
    await shows(/running/);
    assert.ok(
      await eventually(() => {
        // Less than an interval in all.
        clock = Math.min(clock + 50, now + 4_900);
        return counts.size === 64;
      }),
    );
    assert.deepEqual([...new Set(counts.values())], [1]);
    assert.ok(most <= 16, `${most} at once`);
  });

  test('shows control characters of a log as text', async (t) => {
    const workers = [{ ...jobActivity().workers[0]!, lastLine: 'a\u001b[2Jb\u0007', logAt: now }];
    const { world, shows } = watch(t, { activity: [jobActivity({ workers })], ...withWorkers() });
    await shows(/a\\x1b\[2Jb\\x07/);
    assert.ok(!world.out().includes('\u0007b'));
  });

  test('of one job that is not active says what it is', async () => {
    const result = await jobman(['top', '7'], { activity: [], ...withWorkers() });
    assert.equal(result.code, exitCode.notFound);
  });
});

suite('top elsewhere', () => {
  test('prints once, with all workers, and nothing is cut', async () => {
    const name = 'a-name-that-is-longer-than-any-column-of-a-terminal-would-be';
    const { code, out } = await jobman(['top'], { activity: [jobActivity({ name })], ...withWorkers() });
    assert.equal(code, 0);
    assert.ok(!out.includes('\u001b'));
    const lines = out.trimEnd().split('\n');
    assert.match(lines[0] ?? '', /^ZONE +GENERATION +LIMIT +HELD +BUSY +IDLE +IDLE FOR +WAIT +AGE +BY$/);
    assert.match(lines[1] ?? '', /^us-west4-a +v5e +- +16 +16 +0 +- +0 +- +alice 16 \(not checked yet\)$/);
    assert.match(
      lines[3] ?? '',
      /^JOB +NAME +USER +ACCELERATOR +ZONE +STATUS +LOG +CPU% +MEM% +DISK% +NET +DUTY +STEP\/S +STEP +IDLE +DETAIL$/,
    );
    assert.match(
      lines[4] ?? '',
      new RegExp(
        `^000042 +${name} +alice +v5litepod-16 +us-west4-a +▸ running 2/2 .* 1\\.16 +40,209 +- +step 40209 loss 2\\.114$`,
      ),
    );
    assert.equal(lines.length, 7);
  });

  test('has what Google has taken and still counts, in a column of its own', async () => {
    const rows = [
      tpuRow({ name: 'dead', owner: { kind: 'none' }, job: null, state: 'PREEMPTED', nodeState: 'PREEMPTED' }),
    ];
    const list = { rows, unchecked: [], anyAnswered: true, forgettable: [], projects: ['lab'], suggestion: null };
    const client = { tpus: async () => list };
    const { out } = await jobman(['top'], { activity: [], ...withWorkers(undefined, client) });
    assert.match(out, /IDLE FOR +WAIT +ENDED +AGE +BY\nus-west4-a +v5e +- +0 +0 +0 +- +0 +16 +\d+s +-$/m);
  });

  test('with --json prints one object for each zone, job and worker', async () => {
    const { out } = await jobman(['sinfo', '--json'], { activity: [jobActivity()], ...withWorkers() });
    const objects = jsonLines<TopRow>(out);
    assert.deepEqual(
      objects.map(({ kind }) => kind),
      ['zone', 'job', 'worker', 'worker'],
    );
    const [, job, worker] = objects as [TopRow, TopRow & { kind: 'job' }, TopRow & { kind: 'worker' }];
    assert.deepEqual(
      [job.cpuPercent, job.memoryPercent, worker.cpuPercent, worker.memoryUsedBytes],
      [31, 44, 31, 44e9],
    );
    assert.equal(job.measuredAt as unknown, '2026-11-21T08:20:14.000Z');
  });

  test('with --interval prints again until its reader exits', async () => {
    const world = createCliHarness({ activity: [jobActivity()], ...withWorkers() });
    const ended = run(['top', '--json', '--interval', '1s'], world.services);
    assert.ok(await eventually(() => jsonLines(world.out() || '{}').length >= 8));
    world.closeOutput();
    assert.equal(await ended, 0);
  });

  test('without anything to show says so, and refuses an interval that would load the workers', async () => {
    const { code, out, err } = await jobman(['top'], { activity: [], ...withWorkers() });
    assert.deepEqual([code, out], [0, '']);
    assert.match(err, /No active jobs\./);
    const refused = await jobman(['top', '--interval', '0'], { activity: [], ...withWorkers() });
    assert.equal(refused.code, exitCode.usage);
  });
});

suite("a cluster's jobs in top", () => {
  const job = aClusterJob({ name: 'train', active: 1, ready: 1, parallelism: 2, startedAt: now - 30_000 });
  const pod = aClusterPod(
    { name: 'train-a', index: 1, requests: { cpu: '2', memory: '8Gi' }, limits: { main: '4Gi' } },
    { restarts: 3 },
  );
  const usage: PodUsage = { pod: 'train-a', cpus: 1, memoryBytes: 2 * 1024 ** 3, at: now - 10_000 };

  function options(parts: {
    readonly jobs?: readonly ClusterJob[];
    readonly pods?: readonly ClusterPod[];
    readonly usage?: readonly PodUsage[] | null;
    readonly fails?: () => boolean;
  }): CliHarnessOptions {
    const cluster = fakeCluster({
      async *jobs() {
        if (parts.fails?.() === true) throw new JobmanError('The cluster lab did not answer.', exitCode.unreachable);
        yield parts.jobs ?? [job];
      },
      async *pods() {
        yield parts.pods ?? [pod];
      },
      podUsage: async () => (parts.usage === undefined ? [usage] : parts.usage),
    });
    return {
      activity: [],
      ...withWorkers(undefined, {}, { isClusterConfigured: async () => true, cluster: async () => cluster }),
    };
  }

  test('have their pods, restarts and nodes, and the usage of the metrics API', async () => {
    const { out } = await jobman(['top', '--json'], options({}));
    const [row, worker] = jsonLines<TopRow>(out) as [TopRow & { kind: 'job' }, TopRow & { kind: 'worker' }];
    assert.deepEqual([row.id, row.backend, row.zone, row.runningCount], ['train', 'kubernetes', 'lab/vision', 1]);
    assert.deepEqual(
      [worker.pod, worker.host, worker.state, worker.restarts, worker.worker],
      ['train-a', 'n1', 'Running', 3, 1],
    );
    assert.deepEqual([worker.cpuPercent, row.memoryPercent], [50, 50]);
  });

  test('without that API have no usage, and finished jobs are left out', async () => {
    const done = aClusterJob({
      name: 'done',
      uid: 'u2',
      succeeded: 1,
      conditions: [{ type: 'Complete', status: 'True', reason: null, message: null, at: now }],
    });
    const { code, out } = await jobman(['top'], options({ usage: null, jobs: [job, done] }));
    assert.equal(code, 0);
    assert.match(out, /train .* running 1\/1 .* - +- +- /);
    assert.match(out, /train-a .* Running, 3x .* n1$/m);
    assert.ok(!out.includes('done'));
  });

  test('have the newest line of the copy of their log, and its time', async (t) => {
    const { home } = openWorld(t);
    const path = archivedLogPath(archiveFolder(home, job), 'train-a', 'main');
    const write = (text: string): void => {
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, text);
    };
    const lastOf = async () => {
      const log = { pod: 'train-a', container: 'main' };
      const last = createArchivedLogs(home).lastLine(anArchivedJob({ job }), log);
      const archive = { lastArchivedLines: async () => (last === null ? [] : [{ ...log, ...last }]) };
      const { out } = await jobman(['top', '--json'], { ...options({}), archive });
      const [, worker] = jsonLines<TopRow>(out) as [TopRow, TopRow & { kind: 'worker' }];
      return [worker.lastLine, worker.logAt as unknown];
    };
    assert.deepEqual(await lastOf(), [null, null]);
    write('2026-11-21T08:19:00.5Z step 1\n2026-11-21T08:20:00.123456789Z  step 2\r step 3\n2026-11-21T08:20:01Z cut o');
    assert.deepEqual(await lastOf(), ['step 3', '2026-11-21T08:20:00.123Z']);
    write(`${'x'.repeat(9_000)}\n`);
    assert.deepEqual(await lastOf(), [null, null], 'A line without a time is not a line of the cluster.');
  });

  test('can be named, also on a terminal', async (t) => {
    const { world, shows } = watch(t, options({}), ['train']);
    await shows(/^> train .*\n.* train-a .* Running, 3x/m);
    world.typeKeys('q');
  });

  test('stay while the cluster does not answer', async (t) => {
    let fails = false;
    const { shows } = watch(t, options({ fails: () => fails }), ['--interval', '1s']);
    await shows(/train .* running 1\/1/);
    fails = true;
    await shows(/cluster not updated since 08:20:14: The cluster lab did not answer\./);
    await shows(/train .* running 1\/1/);
    fails = false;
    await shows(/^(?![^]*not updated)/);
  });
});

suite('a picture of top', () => {
  const many = Array.from({ length: 1_000 }, (_, index) =>
    jobActivity({
      id: String(1_000 - index).padStart(6, '0'),
      name: `a-rather-long-name-of-a-family-of-jobs-${index}`,
    }),
  );
  const workers = new Map(
    many.flatMap((job) => [0, 1].map((worker) => [workerKey(job, worker), measuredWorker()] as const)),
  );
  const tpus = { list: null, at: now, message: null };
  const rows = topRows({ jobs: many, clusterJobs: [], workers, tpus, limits: [] }, {});
  const lines = topLines(rows, 'newest', (job) => job === '000500');
  const plain = { styler: (_style: string, text: string) => text, unicode: true, now };
  const initial: TopState = {
    order: 'newest',
    onlyUser: null,
    onlyZone: null,
    selected: '000500',
    expanded: new Set(),
    showsKeys: false,
  };
  const picture = (columns: number, height: number, state: Partial<TopState> = {}, notes: readonly string[] = []) =>
    topFrame(
      { rows, lines, state: { ...initial, ...state }, clock: now, height, hasKeys: true, notes },
      { ...plain, columns },
    ).picture;

  test('is never wider or taller than the screen, and has the selected line', () => {
    for (const columns of [20, 40, 60, 61, 62, 80, 120, 200]) {
      for (const height of [2, 3, 4, 5, 6, 10, 24, 50]) {
        for (const selected of ['001000', '000500', '000500/1', '000001']) {
          const shown = picture(columns, height, { selected });
          assert.ok(shown.length < height, `${shown.length} lines on ${height} rows`);
          for (const line of shown) assert.ok(width(line) <= columns, line);
          if (height >= 8)
            assert.ok(
              shown.some((line) => line.startsWith('> ')),
              shown.join('\n'),
            );
        }
        for (const line of picture(columns, height, { showsKeys: true }))
          assert.ok(width(line) <= Math.max(columns, 40), line);
        for (const line of picture(columns, height, {}, ['a note that is far too long for the screen '.repeat(9)]))
          assert.ok(width(line) <= columns, line);
      }
    }
  });

  test('loses columns in a fixed order on a narrower terminal', () => {
    const headings = (columns: number) =>
      (jobLines(lines.slice(0, 3), lines, { ...plain, columns })[0] ?? '').trim().split(/ {2,}/);
    const always = ['JOB', 'NAME', 'STATUS', 'LOG', 'CPU%'];
    assert.deepEqual(headings(70), [...always, 'DETAIL']);
    assert.deepEqual(headings(78), [...always, 'DUTY', 'DETAIL']);
    assert.deepEqual(headings(110), [...always, 'MEM%', 'DUTY', 'STEP', 'DETAIL'], 'No job is idle.');
    assert.equal(headings(180).length, 15);
    assert.deepEqual(jobLines(lines.slice(0, 1), lines, { ...plain, columns: 40 }), [
      '001000  a-rather-long-name-of-a-family-~',
      '  ▸ running 2/2  log 8s cpu 31 mem 44 d~',
    ]);
  });

  test('without styles has the same text, and a silent worker is coloured', () => {
    const silent = new Map([
      ...workers,
      [workerKey(many[0]!, 1), measuredWorker({}, { silentSinceAt: now, message: 'x' })] as const,
    ]);
    const found = topRows({ jobs: many.slice(0, 1), clusterJobs: [], workers: silent, tpus, limits: [] }, {});
    const styler = (style: string, text: string) => `<${style}>${text}`;
    const styled = jobLines(
      topLines(found, 'newest', () => true),
      [],
      { ...plain, styler, columns: 120 },
    );
    assert.deepEqual(
      styled.map((line) => /^<\w+>/.exec(line)?.[0]),
      [undefined, '<magenta>', undefined, '<magenta>'],
    );
  });

  test('after a few changes costs few bytes', () => {
    const sizes: number[] = [];
    const stream = {
      write: (text: string | Uint8Array) => void sizes.push(Buffer.byteLength(String(text))),
      flush: async () => {},
      isTerminal: true,
      size: () => ({ columns: 160, rows: 50 }),
      onResize: () => () => {},
      watchReader: () => () => {},
      closed: false,
    };
    const painter = createPainter(stream);
    const changed = new Map(workers);
    for (const job of many.slice(500, 505))
      changed.set(workerKey(job, 0), measuredWorker({ cpuPercent: 90, dutyPercent: 12 }));
    const later = topRows({ jobs: many, clusterJobs: [], workers: changed, tpus, limits: [] }, {});
    painter.draw(picture(160, 50));
    const next = topFrame(
      {
        rows: later,
        lines: topLines(later, 'newest', () => false),
        state: initial,
        clock: now + 1_000,
        height: 50,
        hasKeys: true,
        notes: [],
      },
      { ...plain, columns: 160 },
    );
    painter.draw(next.picture);
    assert.equal(sizes.length, 2);
    assert.ok((sizes[1] ?? 0) <= 2_048, `${sizes[1]} bytes`);
  });

  test('keys move over all lines and stop at the ends', () => {
    const at = (selected: string, ...keys: readonly string[]) =>
      keys.reduce<TopState>((state, key) => pressKey(state, key, { lines, user: 'alice', page: 10 }), {
        ...initial,
        selected,
      }).selected;
    assert.equal(at('001000', 'up'), '001000');
    assert.equal(at('001000', 'down', 'j', 'k'), '000999');
    assert.equal(at('001000', 'page down'), '000990');
    assert.equal(at('001000', 'G', 'down'), '000001');
    assert.equal(at('000001', 'g'), '001000');
    assert.equal(at('000500/1', 'enter'), '000500');
    assert.equal(pressKey(initial, 'x', { lines: [], user: 'alice', page: 1 }), initial);
    assert.equal(new Set(lines.map(lineKey)).size, lines.length, 'Every line has its own key.');
  });

  test('has the zones with a part for the rest', () => {
    const zones = Array.from({ length: 60 }, (_, index) => ({ ...rows.zones[0]!, zone: `zone-${index}` }));
    const shown = topFrame(
      { rows: { ...rows, zones }, lines, state: initial, clock: now, height: 31, hasKeys: true, notes: [] },
      { ...plain, columns: 100 },
    ).picture;
    assert.ok(shown.includes('  52 more zones'), shown.join('\n'));
    const limited = zoneLines([{ ...zones[0]!, limitChips: 256, limitReadAt: now - 7_200_000 }], {
      ...plain,
      columns: null,
    });
    assert.match(limited[1] ?? '', / 256 \(2h\) /);
    // A terminal of 40 columns, with the indent: the idle chips are not cut.
    const narrow = zoneLines([{ ...zones[0]!, zone: 'us-central2-b' }], { ...plain, columns: 38 });
    assert.match(narrow[0] ?? '', /^ZONE +GENERATION +BUSY +IDLE$/);
  });
});
