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

  test('a last line without an end comes at the end, and one that was cut is told again', () => {
    const cursor = createLogCursor();
    const whole = written(lines[0] as Line, 'Z') + written(lines[1] as Line, 'Z').trimEnd();
    assert.equal(cursor.take(Buffer.from(whole)).toString(), 'line 0\n');
    cursor.again();
    assert.equal(cursor.take(Buffer.from(whole)).toString(), '');
    assert.equal(cursor.rest().toString(), 'line 1');
  });
});
