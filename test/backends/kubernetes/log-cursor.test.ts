/** Every line of a log is returned once and in order, wherever a reply was cut; and so in our copy. */

import assert from 'node:assert/strict';
import { suite, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { openWorld } from '../../support/world.ts';
import { createLogCursor } from '../../../src/backends/kubernetes/log-cursor.ts';
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createTailBuffer } from '../../../src/app/cluster/archived-lines.ts';
import { openArchivedLog, readArchivedLog } from '../../../src/files/archived-logs.ts';

interface Line {
  readonly ns: number;
  readonly text: string;
}

const timestampOf = (ns: number, zone = 'Z'): string => {
  const whole = new Date(Math.floor(ns / 1e9) * 1000).toISOString().slice(0, 19);
  return `${whole}.${String(ns % 1e9).padStart(9, '0')}${zone}`;
};
const written = ({ ns, text }: Line, zone: string): string => `${timestampOf(ns, zone)} ${text}\n`;

/** A kubelet's reply from a timestamp on: each line that is not older, in the order of the file. */
function replyOf(lines: readonly Line[], since: string | number | undefined, zone: string): Buffer {
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
  test('continues after the last lines of another reader, which are small for any text', () => {
    fc.assert(
      fc.property(file, fc.double({ min: 0, max: 1, noNaN: true }), (lines, share) => {
        const known = Math.floor(share * lines.length);
        const tail = createTailBuffer();
        for (const line of lines.slice(0, known)) tail.take(Buffer.from(written(line, 'Z')));
        const cursor = createLogCursor();
        cursor.take(tail.resumeAfter());
        cursor.beginReply();
        const read = cursor.take(replyOf(lines, cursor.nextQuery({}).sinceTime, 'Z')).toString('utf8');
        const rest = lines.slice(known).map(({ text }) => `${text}\n`);
        assert.equal(read, rest.join(''));
      }),
    );
    const tail = createTailBuffer();
    const long = { ns: 5_000_000_000, text: 'x'.repeat(1000) };
    for (let line = 0; line < 20_000; line += 1) tail.take(Buffer.from(written({ ...long, ns: long.ns + line }, 'Z')));
    assert.ok(tail.resumeAfter().length < 1_000_000);
  });

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
          const reply = replyOf(lines, cursor.nextQuery({})['sinceTime'], zone);
          hear(reply.subarray(0, Math.floor(reply.length * share)), piece);
          cursor.beginReply();
        }
        hear(replyOf(lines, cursor.nextQuery({})['sinceTime'], zone), 17);
        assert.equal(out, lines.map(({ text }) => `${text}\n`).join(''));
      }),
      { numRuns: 1_000 },
    );
  });

  test('has every line once, in order, whatever the node puts away behind the reader', () => {
    const steps = fc.array(
      fc.record({ by: fc.integer({ min: 2_000, max: 1_500_000_000 }), text: fc.stringMatching(/^[a-z ]{0,6}$/) }),
      { maxLength: 30 },
    );
    /** The end of a reply: inside its file, or after it with the beginning of the next file, whose first line may be a remainder. */
    const ends = fc.array(
      fc.record({
        share: fc.double({ min: 0, max: 1, noNaN: true }),
        isRotated: fc.boolean(),
        isCutLine: fc.boolean(),
        /** The number of parts of the next file in the same reply. */
        through: fc.nat(3),
      }),
      { maxLength: 6 },
    );
    fc.assert(
      fc.property(steps, ends, fc.boolean(), (all, turns, stamped) => {
        let ns = 5_000_000_000;
        const parts = all.map(({ by, text }, index) => ({ ns: (ns += by), text: `${index}:${text}`, hasEnd: true }));
        /** The parts from `from` on that a kubelet sends because they are not older: one timestamp per line. */
        const replyWith = (some: typeof parts, since: string | number | undefined, isGoingOn = false): string => {
          const from = since === undefined ? 0 : Date.parse(`${since}`) * 1e6;
          let isNewLine = !isGoingOn;
          return some
            .map((part) => {
              const front = isNewLine ? `${timestampOf(part.ns)} ` : '';
              isNewLine = part.hasEnd;
              return part.ns < from ? '' : `${front}${part.text}${part.hasEnd ? '\n' : ''}`;
            })
            .join('');
        };
        const cursor = createLogCursor({ timestamps: stamped });
        let out = '';
        let file = 0;
        /** So many parts have been seen in one file, and are not in two afterwards. */
        let seen = 0;
        const whole = parts.map(({ text }) => `${text}\n`).join('');
        for (const { share, isRotated, isCutLine, through } of turns) {
          const since = cursor.nextQuery({})['sinceTime'];
          const end = file + Math.floor((parts.length - file) * share);
          if (isRotated && end > seen) {
            const last = parts[end - 1];
            if (isCutLine && last !== undefined && last.text.length > 1) {
              const rest = { ns: last.ns + 1_000, text: last.text.slice(1), hasEnd: last.hasEnd };
              parts.splice(end - 1, 1, { ns: last.ns, text: last.text.slice(0, 1), hasEnd: false }, rest);
            }
            const isOpen = parts[end - 1]?.hasEnd === false;
            const old = replyWith(parts.slice(file, end), since);
            out += cursor
              .take(Buffer.from(old + replyWith(parts.slice(end, end + through), undefined, isOpen)))
              .toString();
            file = end;
            seen = end + through;
          } else {
            const reply = Buffer.from(replyWith(parts.slice(file), since));
            const length = Math.floor(reply.length * share);
            out += cursor.take(reply.subarray(0, length)).toString();
            while (seen < parts.length && replyWith(parts.slice(file, seen), since).length < length) seen += 1;
          }
          cursor.beginReply();
        }
        out += cursor.take(Buffer.from(replyWith(parts.slice(file), cursor.nextQuery({})['sinceTime']))).toString();
        out += cursor.unfinishedLine().toString();
        assert.equal(stamped ? out.replaceAll(/^\S+ /gm, '') : out, whole);
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
    assert.deepEqual(cursor.nextQuery({ tail: 2 }), { tailLines: 2, sinceTime: undefined });
    assert.equal(cursor.take(replyOf(lines.slice(4), undefined, 'Z')).toString(), 'line 4\nline 5\n');
    cursor.beginReply();
    const more = [...lines, { ns: first + 9_000, text: 'line 6' }];
    assert.equal(cursor.take(replyOf(more, cursor.nextQuery({ tail: 2 })['sinceTime'], 'Z')).toString(), 'line 6\n');
  });

  test('whose file was started again continues with newer lines', () => {
    const cursor = createLogCursor();
    cursor.take(replyOf(lines, undefined, 'Z'));
    cursor.beginReply();
    // The node has put the first lines away.
    const rotated = [...lines.slice(3), { ns: first + 9_000, text: 'line 6' }];
    assert.equal(cursor.take(replyOf(rotated, undefined, 'Z')).toString(), 'line 6\n');
  });

  suite('a line whose file was put away in its middle', () => {
    const begun = { ns: first + 9_000, text: 'the quick ' };
    const rest = { ns: first + 2e9, text: 'brown fox' };
    const next = { ns: first + 2e9 + 5, text: 'next' };
    const cut = (line: Line): string => written(line, 'Z').slice(0, -1);
    const after = (reply: readonly Line[], stamped = false): string => {
      const cursor = createLogCursor({ timestamps: stamped });
      cursor.take(Buffer.from(replyOf(lines, undefined, 'Z') + cut(begun)));
      cursor.beginReply();
      return cursor.take(replyOf(reply, undefined, 'Z')).toString() + cursor.unfinishedLine().toString();
    };

    test('is complete, and has the timestamp of the current file', () => {
      assert.equal(after([rest, next]), 'the quick brown fox\nnext\n');
      assert.equal(after([rest], true), `${timestampOf(rest.ns)} the quick brown fox\n`);
    });

    test('is not returned twice if a reply repeats it', () => {
      const reply = [...lines, { ...begun, text: 'the quick brown fox' }, next];
      assert.equal(after(reply), 'the quick brown fox\nnext\n');
    });

    test('is returned at the end if no later part follows', () => {
      assert.equal(after([]), 'the quick ');
      assert.equal(after(lines, true), `${timestampOf(begun.ns)} the quick `);
    });

    test('is whole where it has no end either, over replies that bring nothing', () => {
      const cursor = createLogCursor();
      cursor.take(Buffer.from(replyOf(lines, undefined, 'Z') + cut(begun)));
      cursor.beginReply();
      cursor.beginReply();
      cursor.take(Buffer.from(cut(rest)));
      assert.equal(cursor.unfinishedLine().toString(), 'the quick brown fox');
      assert.equal(cursor.unfinishedLine().toString(), '');
    });

    test('is whole where it was the first one, of few that were wanted', () => {
      const cursor = createLogCursor();
      cursor.take(Buffer.from(cut(begun)));
      cursor.beginReply();
      const since = cursor.nextQuery({ tail: 2 });
      assert.deepEqual(since, { sinceTime: '2025-12-31T23:59:59Z' });
      assert.equal(cursor.take(replyOf([...lines, begun, next], undefined, 'Z')).toString(), 'the quick \nnext\n');
    });

    test('is not continued twice if its reply went through both files', () => {
      const whole = { ...begun, text: begun.text + rest.text };
      const cursor = createLogCursor();
      assert.equal(cursor.take(replyOf([whole], undefined, 'Z')).toString(), 'the quick brown fox\n');
      cursor.beginReply();
      assert.equal(cursor.take(replyOf([rest], undefined, 'Z')).toString(), '');
      cursor.beginReply();
      assert.equal(cursor.take(replyOf([rest, next], undefined, 'Z')).toString(), 'next\n');
    });

    test('continues after several parts of it in one reply', () => {
      const part = Array.from({ length: 2_000 }, (_, index) => `${index}`).join('\r');
      const cursor = createLogCursor();
      cursor.take(Buffer.from(cut(begun) + part));
      cursor.beginReply();
      const more = { ...rest, text: `${part}\r2000` };
      assert.equal(cursor.take(replyOf([more], undefined, 'Z')).toString(), `the quick ${part}\r2000\n`);
    });
  });

  test('the rest of a line that began before the requested time is not repeated', () => {
    const cursor = createLogCursor();
    const long = 'a long line in whose middle a second ended\n';
    assert.equal(
      cursor.take(Buffer.concat([Buffer.from(long), replyOf(lines, undefined, 'Z')])).length,
      long.length + 42,
    );
    cursor.beginReply();
    assert.equal(cursor.take(Buffer.concat([Buffer.from(long), replyOf(lines, undefined, 'Z')])).toString(), '');
  });

  test('a last line without an end comes at the end, and a cut line is requested again', () => {
    const cursor = createLogCursor();
    const whole = written(lines[0] as Line, 'Z') + written(lines[1] as Line, 'Z').trimEnd();
    assert.equal(cursor.take(Buffer.from(whole)).toString(), 'line 0\n');
    cursor.beginReply();
    assert.equal(cursor.take(Buffer.from(whole)).toString(), '');
    assert.equal(cursor.unfinishedLine().toString(), 'line 1');
  });
});

test('text with an invalid timestamp is passed on unchanged', () => {
  const cursor = createLogCursor();
  assert.equal(cursor.take(Buffer.from('2026-99-99T99:99:99.9Z one\n')).toString(), 'one\n');
  cursor.beginReply();
  assert.deepEqual(cursor.nextQuery({}), { sinceTime: '2026-99-99T99:99:99Z' });
});

test(
  'a line of megabytes that repeats itself and is received twice costs no more than its length',
  { timeout: 20_000 },
  () => {
    const cursor = createLogCursor();
    const long = 'y'.repeat(1024 * 1024);
    const take = (text: string): string => cursor.take(Buffer.from(text)).toString();
    assert.equal(take(`2026-11-22T00:00:01.000000001Z ${long}${long}z`), '');
    cursor.beginReply();
    // The next file begins in the middle of the line; what of it was had is not part of this.
    assert.equal(take(`2026-11-22T00:00:01.000000002Z ${long}x\n`), `${long}${long}z${long}x\n`);
    assert.equal(take(`2026-11-22T00:00:02.000000001Z ${long}${long}`), '');
    cursor.beginReply();
    assert.equal(take(`2026-11-22T00:00:02.000000002Z ${long}x\n`), `${long}${long}x\n`);
  },
);

const copyIn = (t: TestContext): string => join(openWorld(t).folder, 'pod_main.log');

async function textOf(path: string, query = {}): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of readArchivedLog(path, query)) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

/** The end of a copy shows its position: its writer may be killed during a write and continue later. */
suite('a kept log', () => {
  test('is whole and has nothing twice, wherever its writer is killed', async (t) => {
    const path = copyIn(t);
    const steps = fc.array(fc.tuple(fc.integer({ min: 0, max: 1_500_000_000 }), fc.string({ maxLength: 20 })), {
      maxLength: 30,
    });
    const deaths = fc.array(
      fc.record({
        share: fc.double({ min: 0, max: 1, noNaN: true }),
        torn: fc.nat(30),
        piece: fc.integer({ min: 1, max: 80 }),
      }),
      { maxLength: 5 },
    );
    await fc.assert(
      fc.asyncProperty(steps, deaths, fc.boolean(), async (all, kills, hasEnd) => {
        rmSync(path, { force: true });
        let ns = 7_000_000_000;
        const lines = all.map(([by, text]) => ({ ns: (ns += by), text: text.replaceAll(/[\r\n]/g, ' ') }));
        const replySince = (since: string | number | undefined): Buffer => {
          const from = since === undefined ? 0 : Date.parse(`${since}`) * 1e6;
          const text = lines.filter((line) => line.ns >= from).map((line) => `${timestampOf(line.ns)} ${line.text}\n`);
          return Buffer.from(hasEnd ? text.join('') : text.join('').slice(0, -1));
        };
        const copy = (share: number, piece: number, isLast: boolean): number => {
          const kept = openArchivedLog(path);
          let last = 0;
          const add = (bytes: Uint8Array): void => {
            if (bytes.length > 0) kept.append(bytes);
            if (bytes.length > 0) last = bytes.length;
          };
          const cursor = createLogCursor({ timestamps: true });
          cursor.take(Buffer.from(kept.tail));
          cursor.beginReply();
          const reply = replySince(cursor.nextQuery({})['sinceTime']);
          const end = Math.floor(reply.length * share);
          for (let at = 0; at < end; at += piece) add(cursor.take(reply.subarray(at, Math.min(end, at + piece))));
          if (isLast) add(cursor.unfinishedLine());
          kept.close();
          return last;
        };
        for (const { share, torn, piece } of kills) {
          const last = copy(share, piece, share === 1);
          const size = readFileSync(path).length;
          truncateSync(path, size - Math.min(torn, last));
        }
        copy(1, 1_000, true);
        const whole = lines.map(({ text }) => `${text}\n`).join('');
        assert.equal(await textOf(path), hasEnd ? whole : whole.slice(0, -1));
      }),
      { numRuns: 150 },
    );
  });

  test('of which only the last lines or minutes are wanted', async (t) => {
    const path = copyIn(t);
    const lines = [1, 2, 3, 4].map((at) => `${timestampOf(at * 60e9)} line ${at}\n`);
    writeFileSync(path, lines.join(''));
    assert.equal(await textOf(path, { tail: 2 }), 'line 3\nline 4\n');
    assert.equal(await textOf(path, { tail: 9 }), 'line 1\nline 2\nline 3\nline 4\n');
    assert.equal(await textOf(path, { since: 180_000 }), 'line 3\nline 4\n');
    writeFileSync(path, `${lines.join('')}${timestampOf(300e9)} no end`);
    assert.equal(await textOf(path, { tail: 2 }), 'line 4\nno end');
    assert.equal(await textOf(join(path, '../none')), '');
  });

  test('of two busy seconds continues from its last lines alone', (t) => {
    const path = copyIn(t);
    const line = (second: number, index: number): string => `${timestampOf(second * 1e9 + index)} ${'x'.repeat(90)}\n`;
    const old = Array.from({ length: 5_000 }, (_, index) => line(100, index)).join('');
    const now = [200, 201].flatMap((at) => Array.from({ length: 2_000 }, (_, index) => line(at, index))).join('');
    writeFileSync(path, `${old}${now}`);
    const kept = openArchivedLog(path);
    kept.close();
    const tail = Buffer.from(kept.tail).toString('latin1');
    assert.ok(tail.endsWith(now), 'the last two seconds are in it');
    assert.ok(tail.length < old.length + now.length, 'and not all of the file');
  });
});
