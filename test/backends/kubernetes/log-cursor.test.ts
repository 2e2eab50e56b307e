/** The law of logs: whatever is cut, and wherever, every line is out once and in order. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { createLogCursor } from '../../../src/backends/kubernetes/log-cursor.ts';

interface Line {
  readonly ns: number;
  readonly text: string;
}

const momentOf = (ns: number, zone: string): string => {
  const whole = new Date(Math.floor(ns / 1e9) * 1000).toISOString().slice(0, 19);
  return `${whole}.${String(ns % 1e9).padStart(9, '0')}${zone}`;
};
const written = ({ ns, text }: Line, zone: string): string => `${momentOf(ns, zone)} ${text}\n`;

/** What a kubelet tells from a moment on: each line that is not older, in the file's order. */
function told(lines: readonly Line[], since: string | number | undefined, zone: string): Buffer {
  const from = since === undefined ? 0 : Date.parse(`${since}`.replace(/(Z|[+-]\d\d:\d\d)$/, 'Z')) * 1e6;
  return Buffer.from(
    lines
      .filter(({ ns }) => ns >= from)
      .map((line) => written(line, zone))
      .join(''),
  );
}

/** Steps of time in nanoseconds: many lines in one second, some just before the next, some later, two streams out of turn. */
const step = fc.oneof(
  fc.integer({ min: -2_000, max: 5_000 }),
  fc.integer({ min: 0, max: 2_500_000_000 }),
  fc.constant('edge'),
);
const file = fc.array(fc.record({ step, text: fc.string() }), { maxLength: 40 }).map((steps) => {
  let ns = 5_000_000_000;
  return steps.map(({ step: by, text }): Line => {
    ns = by === 'edge' ? Math.ceil((ns + 1_000) / 1e9) * 1e9 - 500 : ns + Number(by);
    return { ns, text: text.replaceAll('\n', ' ') };
  });
});

suite('a log that is read over lost connections', () => {
  test('has every line once, in order', () => {
    const replies = fc.array(
      fc.record({ share: fc.double({ min: 0, max: 1, noNaN: true }), piece: fc.integer({ min: 1, max: 60 }) }),
      { maxLength: 6 },
    );
    fc.assert(
      fc.property(file, replies, fc.constantFrom('Z', '+08:00'), (lines, cuts, zone) => {
        const cursor = createLogCursor();
        let out = '';
        const hear = (bytes: Buffer, size: number): void => {
          for (let at = 0; at < bytes.length; at += size)
            out += cursor.take(bytes.subarray(at, at + size)).toString('utf8');
        };
        for (const { share, piece } of cuts) {
          const reply = told(lines, cursor.from({})['sinceTime'], zone);
          hear(reply.subarray(0, Math.floor(reply.length * share)), piece);
          cursor.again();
        }
        hear(told(lines, cursor.from({})['sinceTime'], zone), 17);
        assert.equal(out, lines.map(({ text }) => `${text}\n`).join(''));
      }),
      { numRuns: 1_000 },
    );
  });

  const first = Date.UTC(2026, 0, 1) * 1e6;
  const lines: readonly Line[] = Array.from({ length: 6 }, (_, index) => ({
    ns: first + index * 1_000,
    text: `line ${index}`,
  }));

  test('begun with its last lines only, is not begun again with those before', () => {
    const cursor = createLogCursor();
    assert.deepEqual(cursor.from({ tail: 2 }), { tailLines: 2, sinceTime: undefined });
    assert.equal(cursor.take(told(lines.slice(4), undefined, 'Z')).toString(), 'line 4\nline 5\n');
    cursor.again();
    const more = [...lines, { ns: first + 9_000, text: 'line 6' }];
    assert.equal(cursor.take(told(more, cursor.from({ tail: 2 })['sinceTime'], 'Z')).toString(), 'line 6\n');
  });

  test('whose file was begun anew goes on with what is newer', () => {
    const cursor = createLogCursor();
    cursor.take(told(lines, undefined, 'Z'));
    cursor.again();
    // The node has put the first lines away.
    const rotated = [...lines.slice(3), { ns: first + 9_000, text: 'line 6' }];
    assert.equal(cursor.take(told(rotated, undefined, 'Z')).toString(), 'line 6\n');
  });

  suite('a line whose file was put away in its middle', () => {
    const begun = { ns: first + 9_000, text: 'the quick ' };
    const rest = { ns: first + 2e9, text: 'brown fox' };
    const next = { ns: first + 2e9 + 5, text: 'next' };
    const after = (told_: readonly Line[], isWhole: boolean, stamped = false): string => {
      const cursor = createLogCursor({ stamped });
      cursor.take(Buffer.from(told(lines, undefined, 'Z') + written(begun, 'Z').trimEnd() + ' '));
      cursor.again(isWhole);
      return cursor.take(told(told_, undefined, 'Z')).toString() + cursor.rest().toString();
    };

    test('is whole where all of its beginning was told', () => {
      assert.equal(after([rest, next], true), 'the quick brown fox\nnext\n');
      assert.equal(after([rest], true, true), `${momentOf(rest.ns, 'Z')} the quick brown fox\n`);
      // Of a reply that broke off nobody knows how much is missing.
      assert.equal(after([rest, next], false), 'brown fox\nnext\n');
    });

    test('is not begun twice where it is told again', () => {
      const told_ = [...lines, { ...begun, text: 'the quick brown fox' }, next];
      assert.equal(after(told_, true), 'the quick brown fox\nnext\n');
    });

    test('is told at the end where nothing goes on with it', () => {
      assert.equal(after([], true), 'the quick ');
    });

    test('is whole where it has no end either', () => {
      const cursor = createLogCursor();
      cursor.take(Buffer.from(told(lines, undefined, 'Z') + written(begun, 'Z').trimEnd() + ' '));
      cursor.again(true);
      // A second reply that brings nothing takes nothing away.
      cursor.again();
      cursor.take(Buffer.from(written(rest, 'Z').trimEnd()));
      assert.equal(cursor.rest().toString(), 'the quick brown fox');
      assert.equal(cursor.rest().toString(), '');
    });
  });

  test('a last line without an end comes at the end, and one that was cut is told again', () => {
    const cursor = createLogCursor();
    const whole = written(lines[0] as Line, 'Z') + written(lines[1] as Line, 'Z').trimEnd();
    assert.equal(cursor.take(Buffer.from(whole)).toString(), 'line 0\n');
    cursor.again();
    assert.equal(cursor.take(Buffer.from(whole)).toString(), '');
    assert.equal(cursor.rest().toString(), 'line 1');
  });
});
