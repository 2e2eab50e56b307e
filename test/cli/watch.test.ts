import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { run } from '../../src/cli/run.ts';
import { eventually } from '../support/eventually.ts';
import { pretend, view } from './support/pretend.ts';

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
