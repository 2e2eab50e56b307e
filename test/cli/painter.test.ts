import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Stream } from '../../src/app/services.ts';
import { createPainter } from '../../src/cli/block.ts';
import { createGlass, type Glass } from './support/glass.ts';

function painted(columns = 40): {
  readonly glass: Glass;
  readonly painter: ReturnType<typeof createPainter>;
  readonly resize: (columns: number) => void;
} {
  const glass = createGlass();
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
      if (next < width) glass.narrow(next);
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
    const before = glass.written();
    painter.draw(lines);
    assert.equal(glass.written(), before, 'Nothing changed, so nothing is written.');
    painter.draw(lines.with(3, 'changed'));
    assert.ok(glass.written() - before < 60);
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
