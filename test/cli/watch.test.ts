import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { run } from '../../src/cli/run.ts';
import { eventually } from '../support/eventually.ts';
import { stateLine, withinScreen } from '../../src/cli/watch.ts';
import { now, pretend, view } from './support/pretend.ts';

suite('list --watch', () => {
  test('on a terminal draws the table in place until Ctrl-C, and leaves the last frame', async () => {
    const world = pretend({ jobs: [view()], terminal: { columns: 80, rows: 24 } });
    const ended = run(['list', '--watch', '--color=never'], world.services);
    assert.ok(await eventually(() => world.out().includes('1 running   Ctrl-C leaves')));
    world.set([view({ phase: 'failed', status: 'failed', reason: 'exit 1' })]);
    assert.ok(await eventually(() => world.out().includes('1 failed')));
    world.signal();
    assert.equal(await ended, 130);
    assert.ok(world.out().endsWith('\u001b[?2026l'), 'Nothing is cleared at the end.');
  });

  test('elsewhere prints every row, and then each that changed', async () => {
    const world = pretend({ jobs: [view(), view({ id: '000043' })] });
    const ended = run(['list', '--watch', '--json'], world.services);
    const ids = () =>
      world
        .out()
        .trim()
        .split('\n')
        .map((line) => (JSON.parse(line || '{}') as { id?: string }).id);
    assert.ok(await eventually(() => ids().length === 2));
    world.set([view(), view({ id: '000043', phase: 'recovering', status: 'recovering' })]);
    assert.ok(await eventually(() => ids().length === 3));
    world.set([
      view({ reason: '2h06m, 2 preemptions' }),
      view({ id: '000043', phase: 'recovering', status: 'recovering' }),
    ]);
    world.signal();
    assert.equal(await ended, 130);
    assert.deepEqual(ids(), ['000042', '000043', '000043'], 'A phrase that only grew older is no change.');
  });

  test('ends quietly when nobody reads it any more', async () => {
    const world = pretend({ jobs: [view()] });
    const ended = run(['list', '--watch'], world.services);
    assert.ok(await eventually(() => world.out().includes('000042')));
    world.closeOutput();
    assert.equal(await ended, 0);
    assert.equal(world.err(), '');
  });
});

suite('a list that is taller than the screen', () => {
  const last = 'the last line';

  test('counts the jobs that it does not show', () => {
    const lines = ['heading', ...Array.from({ length: 20 }, (_, index) => `job ${index}`)];
    const shown = withinScreen(lines, last, 12, 1);
    assert.deepEqual(shown.slice(-3), ['job 7', '12 more', last]);
    assert.equal(shown.length, 11);
    assert.deepEqual(withinScreen(lines.slice(0, 3), last, 12, 1), ['heading', 'job 0', 'job 1', last]);
  });

  test('breaks no job in two where a job takes two lines', () => {
    const lines = Array.from({ length: 20 }, (_, job) => [`job ${job}`, '  running']).flat();
    assert.deepEqual(withinScreen(lines, last, 12, 2).slice(-4), ['job 3', '  running', '16 more', last]);
  });

  test('says its state in fewer words where there is little room', () => {
    const jobs = { rows: [view(), view({ phase: 'failed' })], more: 8, notes: [] };
    const at = (columns: number) => stateLine(jobs, now, columns).slice('08:20:14  '.length);
    assert.equal(at(80), '1 running, 1 failed, 8 settled before (--all)   Ctrl-C leaves');
    assert.equal(at(60), '1 running, 1 failed   Ctrl-C leaves');
    assert.equal(at(30), '1 running, 1 failed');
    assert.equal(at(20), '1 running~');
  });
});
