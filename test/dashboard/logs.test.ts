/** The log viewer without its page: lines by offset, rows of several logs, the window, and finding. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LogPart, LogRef } from '../../src/app/client.ts';
import { errors, findLine, lineStart, matcherOf, timeAt, type Search } from '../../src/app/find-line.ts';
import { perform } from '../../src/dashboard/logs/expression-task.ts';
import { edgesOf, expressionOf, isValidExpression } from '../../src/dashboard/logs/find.ts';
import { linesAfter, linesBefore, maxLineBytes, splitLines } from '../../src/dashboard/logs/lines.ts';
import { rowText, type Row } from '../../src/dashboard/logs/rows.ts';
import { spansOf } from '../../src/dashboard/logs/spans.ts';
import { createLogWindow, maxLines, type LogWindow } from '../../src/dashboard/logs/window.ts';

/** A log in memory that may grow. */
function createLog(worker: number, content: string | Uint8Array) {
  let bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
  return {
    reads: 0,
    get ref(): LogRef {
      const { length: size } = bytes;
      return { job: '000001', id: `${worker}`, worker, attempt: 1, step: null, size, changedAt: 0, isComplete: false };
    },
    async read(from: number, maxBytes: number): Promise<LogPart> {
      assert.ok(from >= 0 && maxBytes >= 0 && Number.isSafeInteger(from) && Number.isSafeInteger(maxBytes));
      this.reads += 1;
      return {
        bytes: bytes.subarray(from, from + Math.min(maxBytes, 1024 * 1024)),
        from,
        end: bytes.length,
        isComplete: false,
      };
    },
    add(text: string): void {
      bytes = Buffer.concat([bytes, Buffer.from(text)]);
    },
    truncate(): void {
      bytes = bytes.subarray(0, 1);
    },
  };
}

type Log = ReturnType<typeof createLog>;

let clock = 0;

function openWindow(logs: readonly Log[], fold = true): LogWindow {
  return createLogWindow(
    logs.map((log) => ({ ref: log.ref, read: (...part) => log.read(...part) })),
    fold,
    () => (clock += 1),
  );
}

/** `[0-1] text`. */
const shown = (rows: readonly Row[]): readonly string[] =>
  rows.map(
    (row) =>
      `[${row.entries
        .map(({ log }) => log)
        .toSorted((one, other) => one - other)
        .join()}] ${rowText(row)}`,
  );

const numbered = (count: number, text: (line: number) => string): string =>
  Array.from({ length: count }, (_, line) => `${text(line)}\n`).join('');

test('lines have their offsets, their last state, and at most 4 KB', async () => {
  const content = 'one\r\n10%\r50%\r100%\n\ntwo é\nunfinished';
  const lines = splitLines(new TextEncoder().encode(content), 100);
  assert.deepEqual(
    lines.map(({ text, from, to, ends }) => [text, from, to, ends]),
    [
      ['one', 100, 105, true],
      ['100%', 105, 118, true],
      ['', 118, 119, true],
      ['two é', 119, 126, true],
      ['unfinished', 126, 136, false],
    ],
  );
  const long = createLog(0, `before\n${'é'.repeat(500_000)}\nafter\n`);
  const { lines: read } = await linesAfter((...part) => long.read(...part), 0, 4096);
  assert.equal(read[0]?.text, 'before');
  const { lines: next } = await linesAfter((...part) => long.read(...part), 7, 4096);
  assert.equal(next[0]?.text, 'é'.repeat(maxLineBytes / 2));
  assert.equal(next[0]?.omittedBytes, 1_000_000 - maxLineBytes);
  assert.equal(await lineStart((...part) => long.read(...part), 500_000), 7);
  const { lines: back } = await linesBefore((...part) => long.read(...part), long.ref.size, 4096);
  assert.deepEqual(
    back.map(({ text }) => text),
    ['after'],
  );
  const { lines: above } = await linesBefore((...part) => long.read(...part), 7 + 1_000_001, 4096);
  assert.deepEqual(above.at(-1)?.from, 7);
});

test('binary output is recognised, and invalid bytes are visible', () => {
  const [binary] = splitLines(
    Uint8Array.from({ length: 200 }, (_, index) => (index * 7) % 256).filter((one) => one !== 10 && one !== 13),
    0,
  );
  assert.equal(binary?.isBinary, true);
  const [latin] = splitLines(Buffer.from('caf\xe9 au lait', 'latin1'), 0);
  assert.equal(latin?.isBinary, false);
  assert.equal(latin?.text, 'caf\\xe9 au lait');
  assert.equal(splitLines(Buffer.from('日本語 ✓'), 0)[0]?.isBinary, false);
});

test('colours become class names, and everything else has no effect', () => {
  const spans = spansOf('a \u001B[1;31mred\u001B[0m \u001B]0;title\u0007 \u202Etxt <b>&amp;</b>\u001B[2J', null);
  assert.deepEqual(
    spans.map(({ text, style }) => [text, style]),
    [
      ['a ', ''],
      ['red', 'ansi-1 ansi-bold'],
      [String.raw` \x1b]0;title\x07 \u202etxt <b>&amp;</b>\x1b[2J`, ''],
    ],
  );
  assert.deepEqual(
    spansOf('\u001B[38;5;196mred\u001B[48;2;0;0;250mon blue\u001B[39;49mplain', null).map(({ style }) => style),
    ['ansi-1', 'ansi-1 ansi-back-4', ''],
  );
  assert.deepEqual(
    spansOf('x \u001B[32mloss\u001B[0m=3', (line) => edgesOf(/ss=/g, line)).map(({ text, isHit }) => [text, isHit]),
    [
      ['x ', false],
      ['lo', false],
      ['ss', true],
      ['=', true],
      ['3', false],
    ],
  );
});

test('hits next to each other are all marked, also across colours', () => {
  const spans = spansOf('aab\u001B[32maa', (line) => edgesOf(/a/g, line));
  assert.deepEqual(
    spans.filter(({ text }) => text !== '').map(({ text, isHit }) => [text, isHit]),
    [
      ['a', true],
      ['a', true],
      ['b', false],
      ['a', true],
      ['a', true],
    ],
  );
});

test('a window opens at the end, reads both ways, and gives every line once', async () => {
  const log = createLog(
    0,
    numbered(60_000, (line) => `line ${line}`),
  );
  const window = openWindow([log]);
  await window.openEnd();
  assert.equal(shown(window.rows()).at(-1), '[0] line 59999');
  assert.equal(log.reads < 5, true);
  while (await window.up()) window.trim('bottom');
  assert.equal(shown(window.rows())[0], '[0] line 0');
  assert.equal(window.rows().length <= maxLines, true);
  assert.equal(window.isAtStart(), true);
  assert.equal(window.isAtEnd(), false);
  const seen = new Set(shown(window.rows()));
  for (;;) {
    const isMore = await window.down();
    for (const text of shown(window.rows())) seen.add(text);
    window.trim('top');
    if (!isMore) break;
  }
  assert.equal(seen.size, 60_000);
  await window.openAt({ log: 0, offset: 300_000 });
  assert.notEqual(window.rowOf({ log: 0, offset: 300_000 }), -1);
  const numbers = window.rows().map((row) => Number(rowText(row).slice(5)));
  assert.deepEqual(
    numbers,
    numbers.map((_, index) => (numbers[0] ?? 0) + index),
  );
});

test('equal lines of all workers are one row, also if their times differ, and a line of one has its own', async () => {
  const logs = [0, 1, 2, 3].map((worker) =>
    createLog(
      worker,
      numbered(100, (step) => {
        const odd = worker === 3 && step === 50 ? `08:20:${step % 60} only here\n` : '';
        return `${odd}08:20:${String(step % 60).padStart(2, '0')} step ${step} loss ${(2 + worker / 100).toFixed(2)}`;
      }),
    ),
  );
  const window = openWindow(logs);
  await window.openEnd();
  const rows = shown(window.rows());
  assert.equal(rows.length, 101);
  assert.equal(rows.at(-1), '[0,1,2,3] 08:20:39 step 99 loss 2.00..2.03');
  assert.equal(rows.filter((row) => row.startsWith('[3]')).length, 1);
  const apart = openWindow(logs, false);
  await apart.openEnd();
  assert.equal(apart.rows().length, 401);
});

test('lines that are equal but for digits are one row, and lines of one worker never are', async () => {
  const logs = [0, 1].map((worker) =>
    createLog(worker, `rank ${worker} of 2 has pid ${400 + worker}\nstep 1\nstep 2\n`),
  );
  const window = openWindow(logs);
  await window.openEnd();
  assert.deepEqual(shown(window.rows()), ['[0,1] rank 0..1 of 2 has pid 400..401', '[0,1] step 1', '[0,1] step 2']);
});

test('lines with times of all workers are in their order', async () => {
  const logs = [0, 1].map((worker) =>
    createLog(
      worker,
      numbered(50, (second) =>
        `2026-11-20T08:20:${String(second).padStart(2, '0')}.${worker}Z worker ${worker} at ${second} x`.replace(
          'x',
          'ab'[worker] ?? '',
        ),
      ),
    ),
  );
  const window = openWindow(logs, false);
  await window.openStart();
  const texts = window.rows().map(rowText);
  assert.equal(texts.length, 100);
  assert.deepEqual(texts, texts.toSorted());
});

test('an error of several lines stays together, and only equal errors of other workers join it', async () => {
  const steps = numbered(12, (second) => `08:20:${String(second + 10)} step ${second}`);
  const error = (line: number, text: string): string =>
    `Traceback (most recent call last):\n  File "train.py", line ${line}, in main\n${text}\n`;
  const logs = [
    createLog(0, `${steps}08:20:25 slow read\n${error(412, 'ValueError: shape')}08:20:26 waits for the others\n`),
    ...[1, 2].map((worker) =>
      createLog(worker, `${steps}08:20:30 peer 0 is gone\n${error(431, 'RuntimeError: gone')}`),
    ),
  ];
  const window = openWindow(logs);
  await window.openEnd();
  assert.deepEqual(shown(window.rows()).slice(-9), [
    '[0] 08:20:25 slow read',
    '[0] Traceback (most recent call last):',
    '[0]   File "train.py", line 412, in main',
    '[0] ValueError: shape',
    '[0] 08:20:26 waits for the others',
    '[1,2] 08:20:30 peer 0 is gone',
    '[1,2] Traceback (most recent call last):',
    '[1,2]   File "train.py", line 431, in main',
    '[1,2] RuntimeError: gone',
  ]);
});

test('a long error at the end hides no times: the lines of all workers keep their order', async () => {
  const error = `Traceback (most recent call last):\n${numbered(90, (line) => `  File "train.py", line ${line}, in f`)}`;
  const logs = [25, 20, 30].map((second, worker) =>
    createLog(
      worker,
      `${numbered(10, (step) => `08:20:${step + 10} step ${step}`)}08:20:${second} worker ${worker} ends\n${error}`,
    ),
  );
  const window = openWindow(logs, false);
  await window.openEnd();
  const ends = window
    .rows()
    .map(rowText)
    .filter((text) => text.endsWith('ends'));
  assert.deepEqual(ends, ['08:20:20 worker 1 ends', '08:20:25 worker 0 ends', '08:20:30 worker 2 ends']);
});

test('a followed log shows an unfinished line, continues it, and reports that it was replaced', async () => {
  const logs = [createLog(0, 'a\nhal'), createLog(1, 'a\n')];
  const window = openWindow(logs);
  await window.openEnd();
  assert.deepEqual(shown(window.rows()), ['[0,1] a', '[0] hal']);
  logs[0]?.add('f a line');
  window.setSize(0, logs[0]?.ref.size ?? 0);
  assert.equal(await window.grow(), true);
  assert.deepEqual(shown(window.rows()), ['[0,1] a', '[0] half a line']);
  logs[0]?.add('\nb\n');
  window.setSize(0, logs[0]?.ref.size ?? 0);
  await window.grow();
  logs[1]?.add('half a line\nb\n');
  window.setSize(1, logs[1]?.ref.size ?? 0);
  await window.grow();
  assert.deepEqual(shown(window.rows()), ['[0,1] a', '[0,1] half a line', '[0,1] b']);
  assert.equal(await window.grow(), false);
  logs[0]?.truncate();
  assert.equal(window.setSize(0, 1), true);
});

test('256 workers with 1,000 lines each stay within the limit of lines', async () => {
  const logs = Array.from({ length: 256 }, (_, worker) =>
    createLog(
      worker,
      numbered(1000, (line) => `worker ${worker} x${line}`),
    ),
  );
  const window = openWindow(logs);
  await window.openEnd();
  while (await window.up()) window.trim('bottom');
  const count = window.rows().reduce((sum, { entries }) => sum + entries.length, 0);
  assert.equal(count <= maxLines, true);
  assert.equal(window.isAtStart(), true);
});

function search(logs: readonly Log[], rest: Partial<Search>): Search {
  return {
    logs: logs.map((log) => ({ read: (...part) => log.read(...part), size: log.ref.size })),
    matcher: errors,
    direction: 'next',
    from: logs.map(() => 0),
    signal: new AbortController().signal,
    onProgress: () => undefined,
    ...rest,
  };
}

test('finding reads whole logs in both directions, and takes the nearest line of all of them', async () => {
  const lines = numbered(50_000, (line) => (line % 20_000 === 10_000 ? `NaN found é ${line}` : `line ${line}`));
  const log = createLog(0, lines);
  const matcher = matcherOf('nan FOUND é');
  const first = await findLine(search([log], { matcher }));
  assert.equal(first?.offset, lines.indexOf('NaN'));
  const next = await findLine(search([log], { matcher, from: [(first?.offset ?? 0) + 5] }));
  const offsetOf = (text: string): number => Buffer.byteLength(lines.slice(0, lines.indexOf(text)));
  assert.equal(next?.offset, offsetOf('NaN found é 30000'));
  const last = await findLine(search([log], { matcher, direction: 'previous', from: [log.ref.size] }));
  assert.equal(last?.offset, next?.offset);
  assert.equal(await findLine(search([log], { matcher: matcherOf('absent') })), null);

  const logs = [0, 1, 2].map((worker) =>
    createLog(
      worker,
      numbered(3000, (line) =>
        line === 2000 - worker * 100
          ? 'ValueError: bad'
          : `08:${String(Math.floor(line / 60)).padStart(2, '0')}:${String(line % 60).padStart(2, '0')} ok`,
      ),
    ),
  );
  assert.equal((await findLine(search(logs, {})))?.log, 2);
  const end = logs.map((one) => one.ref.size);
  assert.equal((await findLine(search(logs, { direction: 'previous', from: end })))?.log, 0);
  const errorOf = async (one: Log) => {
    const found = await findLine(search([one], {}));
    return timeAt((...part) => one.read(...part), found?.offset ?? 0);
  };
  assert.deepEqual(await Promise.all(logs.map(errorOf)), ['08:33:19', '08:31:39', '08:29:59']);
});

test('the first and the last line with an error are found among lines that only look like one', () => {
  const block = [
    'no Errors: 0',
    'error_rate 0.1',
    `${'x'.repeat(5000)} ValueError: too far in its line`,
    'F1120 08:20:01.123456 4711 check failed',
    'OSError: no space left',
    'fine',
  ].join('\n');
  assert.equal(errors.find(block, 'first'), block.indexOf('F1120'));
  assert.equal(errors.find(block, 'last'), block.indexOf('Error: no space'));
  assert.equal(errors.find('all is well\n'.repeat(100), 'first'), null);
});

test('an expression is matched line by line, and a text is never a pattern', () => {
  const inBlock = (expression: string, block: string, which: 'first' | 'last') =>
    perform({ kind: 'block', expression, block, which });
  assert.equal(expressionOf('/A+$/'), 'A+$');
  assert.equal(isValidExpression('('), false);
  assert.equal(inBlock('A+$', 'b\naa\nb', 'first'), 2);
  assert.equal(
    inBlock(
      '^line 4[0-9]$',
      numbered(50, (line) => `line ${line}`),
      'last',
    ),
    382,
  );
  assert.equal(inBlock('é', Buffer.from('a\né').toString('latin1'), 'first'), 2);
  assert.deepEqual(perform({ kind: 'lines', expression: 'a+', lines: ['baab', 'b', 'AA'] }), [[1, 3], [], [0, 2]]);
  assert.equal(matcherOf('a+').find('aaa\nA+\n', 'first'), 4);
});

test('finding ends at its signal', async () => {
  const log = createLog(
    0,
    numbered(200_000, (line) => `line ${line}`),
  );
  const over = new AbortController();
  const found = findLine(search([log], { signal: over.signal, onProgress: () => over.abort() }));
  await assert.rejects(found, { name: 'AbortError' });
});
