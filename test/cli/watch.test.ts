import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import type { JobView, ListQuery } from '../../src/app/client.ts';
import type { ClusterOptions } from '../../src/app/cluster/cluster.ts';
import type { ClusterJob, ClusterPod } from '../../src/app/cluster/objects.ts';
import { exitCode, JobmanError } from '../../src/app/errors.ts';
import type { Stream } from '../../src/app/services.ts';
import { createPainter } from '../../src/cli/block.ts';
import { run } from '../support/output-schema.ts';
import { keyLines, listFrame, leaveHint, statusLine, textFrame } from '../../src/cli/watch/frame.ts';
import { parseKeys } from '../../src/cli/watch/live.ts';
import { aClusterJob, aClusterPod } from '../support/cluster-builders.ts';
import { createTerminalScreen, type TerminalScreen } from './support/terminal-screen.ts';
import { fakeCluster, now, createCliHarness, type CliHarnessOptions, jobView, fakeLog } from './support/harness.ts';
import { watched, type Watched } from './support/watched.ts';
import { eventually } from '../support/eventually.ts';
import { openWorld } from '../support/world.ts';

function watch(t: TestContext, options: CliHarnessOptions, flags: readonly string[] = []): Watched {
  const world = createCliHarness(options);
  const shown = createTerminalScreen();
  return watched(t, world, ['list', '--watch', ...flags], () => {
    shown.write(world.out().slice(shown.writtenLength()));
    return shown.rows();
  });
}

suite('list --watch', () => {
  test('on a terminal draws the table in place until Ctrl-C, and leaves the last frame', async (t) => {
    const { world, ended, glass, shows } = watch(t, { jobs: [jobView()], terminal: { columns: 80, rows: 24 } });
    await shows(/1 running {3}↑↓ select · enter open · w why · l logs · \? help · q quit$/m);
    assert.match(glass()[1] ?? '', /^> 000042/);
    world.setJobs([jobView({ phase: 'failed', message: 'exit 1' })]);
    await shows(/1 failed/);
    assert.match(world.out(), /\]2;1 running/, 'The window is named after what is in the list.');
    const before = glass();
    world.typeKeys('\u0003');
    assert.equal(await ended, 130);
    assert.deepEqual(glass(), before, 'Nothing is cleared at the end.');
    assert.ok(world.out().endsWith('\u001b[23;2t'));
    assert.equal(world.typeKeys('j'), false, 'Keys are no longer read.');
    assert.equal(world.terminate(), false);
  });

  test('q leaves, and so does a signal', async (t) => {
    const one = watch(t, { jobs: [jobView()], terminal: { columns: 80, rows: 24 } });
    await one.shows(/000042/);
    one.world.typeKeys('q');
    assert.equal(await one.ended, 0);
    const other = watch(t, { jobs: [], terminal: { columns: 80, rows: 24 } });
    await other.shows(/no jobs/);
    // Nothing to be about: a key that needs a job does nothing.
    other.world.typeKeys('wl\rjk');
    await other.shows(/no jobs/);
    other.world.signal();
    assert.equal(await other.ended, 130);
  });

  test('a key leads to the job that is marked, and back', async (t) => {
    const jobs = [
      jobView({ id: '000043', name: 'bert' }),
      jobView({ why: { ...jobView().why, message: '000042 is well.' } }),
    ];
    const { world, ended, glass, shows } = watch(t, { jobs, terminal: { columns: 80, rows: 24 } });
    await shows(/^> 000043/m);
    world.typeKeys('j');
    await shows(/^> 000042/m);
    world.typeKeys('w');
    await shows(/^000042 is well\.$/m);
    assert.ok(!glass().join('\n').includes('000043'), 'It replaces the table.');
    world.typeKeys('\u001b');
    await shows(/^> 000042/m);
    world.typeKeys('\r');
    await shows(/^000042 vit-l16-3e4 \(alice\)/m);
    await shows(/q list {3}l logs {3}\? help$/m);
    world.typeKeys('q');
    await shows(/^> 000042/m);
    world.typeKeys('?');
    await shows(/explain the phase of the job/);
    world.typeKeys('?');
    await shows(/^> 000042/m);
    world.typeKeys('\u001b[A\u001b[A');
    await shows(/^> 000043/m);
    world.typeKeys('q');
    assert.equal(await ended, 0);
  });

  test('l opens the log, and q returns from it', async (t) => {
    const { folder } = openWorld(t);
    const path = join(folder, 'log');
    writeFileSync(path, Array.from({ length: 99 }, (_, index) => `step ${index}\n`).join(''));
    const logs = [fakeLog(path, 0, 3)];
    const { world, ended, shows } = watch(t, { jobs: [jobView()], logs, terminal: { columns: 80, rows: 24 } });
    await shows(/^> 000042/m);
    world.typeKeys('l');
    await shows(/^\[0\] step 98$/m);
    assert.ok(!world.out().includes('step 78\n'), 'The last twenty lines are enough to come in.');
    assert.ok(await eventually(() => world.err().includes('q returns to the list')));
    world.typeKeys('q');
    await shows(/^> 000042.*\n.*1 running {3}↑↓ select · enter open · w why · l logs · \? help · q quit$/m);
    world.typeKeys('q');
    assert.equal(await ended, 0);
  });

  test('l on a job whose log cannot be read says so and returns to the list', async (t) => {
    const client = await createCliHarness({ jobs: [jobView()] }).services.client();
    const logs = async (): Promise<never> => {
      throw new JobmanError('The cluster of lab did not answer.', exitCode.unreachable);
    };
    const services = { client: async () => ({ ...client, logs }) };
    const { world, ended, shows } = watch(t, { terminal: { columns: 80, rows: 24 }, services });
    await shows(/^> 000042/m);
    world.typeKeys('l');
    assert.ok(await eventually(() => world.err().includes('The cluster of lab did not answer.')));
    await shows(/^> 000042.*\n.*1 running/m);
    world.typeKeys('q');
    assert.equal(await ended, 0);
  });

  test('a row that changed is bold for five seconds, and has a star where there are no styles', async (t) => {
    let clock = now;
    const jobs = [jobView({ id: '000043', phase: 'queued' }), jobView({ phase: 'queued' })];
    const next = [jobs[0], jobView({ phase: 'setup' })].filter((job) => job !== undefined);
    const options = { jobs, terminal: { columns: 80, rows: 24 }, now: () => clock };
    const plain = watch(t, options, ['--color=never']);
    await plain.shows(/^> 000043/m);
    plain.world.setJobs(next);
    await plain.shows(/^ \*000042/m);
    assert.ok(!plain.glass().some((line) => line.includes('*000043')));
    clock += 5_000;
    await plain.shows(/^ {2}000042/m);
    plain.world.typeKeys('q');
    await plain.ended;

    const bold = watch(t, options);
    await bold.shows(/^> 000043/m);
    assert.ok(!bold.world.out().includes('\u001b[1m'));
    bold.world.setJobs(next);
    assert.ok(await eventually(() => bold.world.out().includes('\u001b[1m000042\u001b[22m')));
    assert.ok(!bold.world.out().includes('\u001b[1m000043'));
    bold.world.typeKeys('q');
    await bold.ended;
  });

  test('a check that fails keeps the rows, with their age', async (t) => {
    const inner = createCliHarness({ jobs: [jobView()] });
    const client = await inner.services.client();
    let fails = false;
    const services = {
      client: async () => ({
        ...client,
        async *changesSince() {
          for (;;) {
            yield { kind: 'jobs' as const, cursor: '' };
            await new Promise((resolve) => setTimeout(resolve, 20).unref());
          }
        },
        list: async (query: ListQuery) => {
          if (fails) throw new JobmanError('The record of jobs is locked.', exitCode.unreachable);
          return client.list(query);
        },
      }),
    };
    const { world, ended, glass, shows } = watch(t, { terminal: { columns: 100, rows: 24 }, services });
    await shows(/000042/);
    fails = true;
    await shows(/1 running {3}not updated since 08:20:14: The record of jobs is locked\./);
    assert.ok(glass().some((line) => line.includes('000042')));
    fails = false;
    await shows(/1 running {3}↑↓ select/);
    world.typeKeys('q');
    assert.equal(await ended, 0);
  });

  test('elsewhere prints every row, and then each that changed', async () => {
    const world = createCliHarness({ jobs: [jobView(), jobView({ id: '000043' })] });
    const ended = run(['list', '--watch', '--json'], world.services);
    const ids = () =>
      world
        .out()
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line || '{}') as { id?: string }).id);
    assert.ok(await eventually(() => ids().length === 2));
    world.setJobs([jobView(), jobView({ id: '000043', phase: 'recovering' })]);
    assert.ok(await eventually(() => ids().length === 3));
    world.setJobs([
      jobView({ message: 'running for 2h, 2 preemptions' }),
      jobView({ id: '000043', phase: 'recovering' }),
    ]);
    world.signal();
    assert.equal(await ended, 130);
    assert.deepEqual(ids(), ['000042', '000043', '000043'], 'A phrase that only grew older is not a change.');
  });

  for (const [where, env] of [
    ['a dumb terminal', { TERM: 'dumb' }],
    ['a screen that is read aloud', { ACCESSIBLE: '1' }],
  ] as const) {
    test(`on ${where} nothing is redrawn, and the heading is printed once`, async (t) => {
      const { world, ended } = watch(t, { jobs: [jobView()], terminal: { columns: 80, rows: 24 }, env }, [
        '--color=never',
      ]);
      assert.ok(await eventually(() => world.out().includes('000042')));
      world.setJobs([jobView({ phase: 'failed' })]);
      assert.ok(await eventually(() => world.out().includes('failed')));
      world.signal();
      assert.equal(await ended, 130);
      assert.equal(world.out().match(/JOB ID/g)?.length, 1);
      assert.ok(!world.out().includes('\u001b'));
    });
  }

  test('ends quietly when its reader exits', async () => {
    const world = createCliHarness({ jobs: [jobView()] });
    const ended = run(['list', '--watch'], world.services);
    assert.ok(await eventually(() => world.out().includes('000042')));
    world.closeOutput();
    assert.equal(await ended, 0);
    assert.equal(world.err(), '');
  });
});

suite('a picture of the list', () => {
  const picture = (jobs: readonly JobView[], columns: number, rows: number, selected = jobs[0]?.id ?? null) =>
    listFrame({
      columns,
      rows,
      selected,
      styler: (_style, text) => text,
      colour: true,
      unicode: true,
      now,
      jobs: { rows: jobs, more: 0, notes: [] },
      changed: new Set(),
      footer: 'last',
    });
  const many = Array.from({ length: 1_000 }, (_, index) =>
    jobView({ id: String(1_000 - index).padStart(6, '0'), name: `a-rather-long-name-of-a-family-of-jobs-${index}` }),
  );

  test('is never wider or taller than the screen, and the marked job is always in it', () => {
    for (const columns of [20, 40, 60, 80, 120, 200]) {
      for (const rows of [2, 3, 4, 5, 6, 24, 50]) {
        for (const selected of [0, 3, 500, 999]) {
          const id = many[selected]?.id ?? '';
          const lines = picture(many, columns, rows, id);
          assert.ok(lines.length < rows, `${lines.length} lines on ${rows} rows`);
          for (const line of lines) assert.ok(line.length <= columns, line);
          const perJob = columns < 62 ? 2 : 1;
          if (rows >= 2 + perJob)
            assert.ok(
              lines.some((line) => line.startsWith(`> ${id}`)),
              lines.join('\n'),
            );
        }
      }
    }
  });

  test('counts what is above and below', () => {
    assert.deepEqual(picture(many, 80, 6).slice(-2), ['998 more', 'last']);
    assert.deepEqual(picture(many, 80, 6, '000500').slice(-2), ['499 above, 499 below', 'last']);
    assert.deepEqual(picture(many, 80, 6, '000001').slice(-2), ['998 above', 'last']);
    assert.deepEqual(picture([], 80, 24), ['last']);
  });

  test('a text that is taller than the screen is scrolled, and not beyond its end', () => {
    const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
    const at = (scrolled: number) => textFrame(lines, scrolled, { columns: 80, rows: 12, now });
    assert.equal(at(0).frame.length, 11);
    assert.match(at(0).frame.at(-1) ?? '', /20 more, j\/k scroll {3}q list {3}l logs {3}\? help$/);
    assert.deepEqual(at(999).scrolled, 20);
    assert.equal(at(999).frame[9], 'line 29');
    for (const columns of [20, 40, 60]) {
      for (const line of [
        ...(columns < 40 ? [] : keyLines(columns)),
        ...textFrame(lines, 3, { columns, rows: 12, now }).frame,
      ])
        assert.ok(line.length <= columns, line);
    }
  });
});

test('what was typed is taken apart into keys', () => {
  assert.deepEqual(parseKeys('jk\u001b[A\u001bOB\r\u001b'), ['j', 'k', 'up', 'down', 'enter', 'escape']);
  assert.deepEqual(parseKeys(''), ['resumed']);
  assert.deepEqual(parseKeys('\u001b[1;5Cq\u0003'), ['q', 'interrupt'], 'An unknown key types nothing.');
});

suite('the last line', () => {
  test('shows its state in a shorter form on a narrow terminal', () => {
    const jobs = { rows: [jobView(), jobView({ phase: 'failed' })], more: 8, notes: [] };
    const at = (columns: number) =>
      statusLine(jobs, { now, notes: [], keys: leaveHint }, columns).slice('08:20:14  '.length);
    assert.equal(at(80), '1 running, 1 failed, 8 older (--all)   Ctrl-C quits');
    assert.equal(at(60), '1 running, 1 failed   Ctrl-C quits');
    assert.equal(at(30), '1 running, 1 failed');
    assert.equal(at(20), '1 running~');
  });
});

suite("a cluster's jobs in the watched list", () => {
  const job = aClusterJob({ name: 'train', active: 1, createdAt: now - 60_000 });
  /** A cluster whose jobs the test controls; `null` stands for a namespace that does not exist. */
  function pollableCluster(pods: readonly ClusterPod[] = []) {
    let jobs: readonly ClusterJob[] | null = [];
    const cluster = fakeCluster({
      async *pods() {
        yield jobs?.some(({ ready }) => ready > 0) === true ? [] : pods;
      },
      async *jobs() {
        if (jobs === null) throw new JobmanError('There is no namespace visoin in lab.', exitCode.notFound);
        yield jobs;
      },
      job: async (name: string) => jobs?.find((one) => one.name === name) ?? null,
    });
    const services: CliHarnessOptions['services'] = {
      isClusterConfigured: async () => true,
      cluster: async () => cluster,
    };
    const setJobs = (...next: readonly ClusterJob[]): void => void (jobs = next);
    return { services, setJobs, removeNamespace: () => void (jobs = null) };
  }

  test('change with the cluster, next to those of the database', async (t) => {
    const { services, setJobs } = pollableCluster();
    const { shows, world, ended } = watch(t, {
      jobs: [jobView()],
      terminal: { columns: 100, rows: 24 },
      services,
    });
    await shows(/1 running /);
    setJobs(job);
    await shows(/train .* queued/);
    setJobs({ ...job, ready: 1, startedAt: now - 30_000 });
    await shows(/train .* running/);
    await shows(/2 running /);
    setJobs();
    await shows(/1 running /);
    world.typeKeys('q');
    assert.equal(await ended, 0);
  });

  test('of a namespace that does not exist are not just none', async (t) => {
    const { services, setJobs, removeNamespace } = pollableCluster();
    removeNamespace();
    const { shows, world, ended } = watch(t, {
      jobs: [],
      terminal: { columns: 120, rows: 24 },
      services,
    });
    await shows(/no jobs {3}The cluster of lab is not shown: There is no namespace visoin in lab\. {3}\? help/);
    // Created meanwhile.
    setJobs(job);
    await shows(/train .* queued/);
    await shows(/^(?![^]*no namespace)/);
    world.typeKeys('q');
    assert.equal(await ended, 0);
  });

  test('appear once the cluster can be opened', async (t) => {
    const { services, setJobs } = pollableCluster();
    const opened: ClusterOptions[] = [];
    let hasKubeconfig = false;
    const openLater: CliHarnessOptions['services'] = {
      ...services,
      async cluster(options) {
        opened.push(options);
        if (!hasKubeconfig) throw new JobmanError('The kubeconfig /none does not exist.', exitCode.usage);
        return services!.cluster!(options);
      },
    };
    setJobs(job);
    const { shows, world, ended } = watch(t, {
      jobs: [],
      terminal: { columns: 120, rows: 24 },
      services: openLater,
    });
    await shows(/The cluster is not shown: The kubeconfig \/none does not exist\./);
    hasKubeconfig = true;
    await shows(/train .* queued/);
    await shows(/^(?![^]*not shown)/);
    assert.ok(
      opened.every(({ quiet }) => quiet === true),
      'A sentence about a slow cluster would break the screen.',
    );
    world.typeKeys('q');
    assert.equal(await ended, 0);
  });

  test('stay while it does not answer, with the time of its last answer', async (t) => {
    let clock = now;
    let answers = true;
    const cluster = fakeCluster({
      async *pods() {
        yield [];
      },
      async *jobs() {
        if (!answers) throw new JobmanError('The cluster of lab did not answer.', exitCode.unreachable);
        yield [job];
      },
    });
    const { shows, glass, world, ended } = watch(t, {
      jobs: [],
      terminal: { columns: 140, rows: 24 },
      now: () => clock,
      services: { isClusterConfigured: async () => true, cluster: async () => cluster },
    });
    await shows(/train .* queued/);
    answers = false;
    clock += 60_000;
    await shows(/The cluster of lab is not updated since 08:20:14: The cluster of lab did not answer\./);
    assert.match(glass().join('\n'), /train .* queued/);
    assert.ok(!glass().join('\n').includes('not shown'));
    answers = true;
    clock += 60_000;
    await shows(/^(?![^]*not updated)/);
    world.typeKeys('q');
    assert.equal(await ended, 0);
  });

  test('say why a pod does not run, which only the pod knows', async (t) => {
    const image = { state: 'waiting', reason: 'ErrImagePull', image: 'lab/x', startedAt: null } as const;
    const { services, setJobs } = pollableCluster([aClusterPod({ phase: 'Pending' }, image)]);
    const { shows, world, ended } = watch(t, {
      jobs: [],
      terminal: { columns: 120, rows: 24 },
      services,
    });
    setJobs(job);
    await shows(/train .* setup .* cannot pull its image lab\/x/);
    setJobs({ ...job, ready: 1, startedAt: now - 30_000 });
    await shows(/train .* running/);
    world.typeKeys('q');
    assert.equal(await ended, 0);
  });

  test('are reported under the same keys', async (t) => {
    const { services, setJobs } = pollableCluster();
    const { shows, world, ended } = watch(t, {
      jobs: [],
      terminal: { columns: 100, rows: 24 },
      services,
    });
    setJobs({ ...job, suspended: true, active: 0 });
    await shows(/train .* stopped/);
    world.typeKeys('w');
    await shows(/train is suspended/);
    world.typeKeys('q');
    await shows(/train .* stopped/);
    world.typeKeys('q');
    assert.equal(await ended, 0);
  });
});

function painted(columns = 40): {
  readonly glass: TerminalScreen;
  readonly painter: ReturnType<typeof createPainter>;
  readonly resize: (columns: number) => void;
} {
  const glass = createTerminalScreen();
  let width = columns;
  const stream: Stream = {
    write: (text) => glass.write(String(text)),
    flush: async () => {},
    isTerminal: true,
    size: () => ({ columns: width, rows: 10 }),
    onResize: () => () => {},
    watchReader: () => () => {},
    closed: false,
  };
  return {
    glass,
    painter: createPainter(stream),
    resize(next) {
      if (next < width) glass.setColumns(next);
      width = next;
    },
  };
}

suite('a block that is redrawn', () => {
  test('shows the newest lines, longer, shorter, more and fewer', () => {
    const { glass, painter } = painted();
    glass.write('before\n');
    for (const lines of [
      ['one', 'two'],
      ['one', 'a longer two'],
      ['1', '2', '3', '4'],
      ['1', '2'],
      ['x', 'y', 'z'],
      [],
    ]) {
      painter.draw(lines);
      assert.deepEqual(glass.rows(), ['before', ...lines, '']);
    }
  });

  test('writes only what changed', () => {
    const { glass, painter } = painted();
    const lines = Array.from({ length: 8 }, (_, index) => `line ${index} `.repeat(4));
    painter.draw(lines);
    const before = glass.writtenLength();
    painter.draw(lines);
    assert.equal(glass.writtenLength(), before, 'Nothing changed, so nothing is written.');
    painter.draw(lines.with(3, 'changed'));
    assert.ok(glass.writtenLength() - before < 60);
  });

  test('makes way for text above it, and stays at the end', () => {
    const { glass, painter } = painted();
    painter.draw(['status 1', 'status 2']);
    painter.erase();
    glass.write('log\n');
    painter.draw(['status 1', 'status 2']);
    assert.deepEqual(glass.rows(), ['log', 'status 1', 'status 2', '']);
    painter.leave();
    glass.write('after\n');
    assert.deepEqual(glass.rows(), ['log', 'status 1', 'status 2', 'after', '']);
  });

  test('finds its beginning again when the terminal became narrower and broke its lines', () => {
    const { glass, painter, resize } = painted(40);
    glass.write('before\n');
    painter.draw(['x'.repeat(35), 'short', 'y'.repeat(25)]);
    resize(20);
    painter.draw(['x'.repeat(20), 'short', 'y'.repeat(20)]);
    assert.deepEqual(glass.rows(), ['before', 'x'.repeat(20), 'short', 'y'.repeat(20), '']);
  });
});
