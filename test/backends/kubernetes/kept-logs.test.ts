/** The law of kept logs: the copy is its own bookmark. Whoever writes it may be killed in the middle of a write, and go on. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import { openKept, readKept } from '../../../src/app/cluster/kept-logs.ts';
import { createLogCursor } from '../../../src/backends/kubernetes/log-cursor.ts';

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'jobman-kept-'));
  t.after(() => rmSync(folder, { recursive: true }));
  return folder;
}

async function textOf(path: string, query = {}): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of readKept(path, query)) parts.push(part);
  return Buffer.concat(parts).toString('utf8');
}

const stamp = (ns: number): string =>
  `${new Date(Math.floor(ns / 1e9) * 1000).toISOString().slice(0, 19)}.${String(ns % 1e9).padStart(9, '0')}Z`;

suite('a kept log', () => {
  test('is whole and has nothing twice, wherever its writer is killed', async (t) => {
    const path = join(folderOf(t), 'pod_main.log');
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
        const told = (since: string | number | undefined): Buffer => {
          const from = since === undefined ? 0 : Date.parse(`${since}`) * 1e6;
          const text = lines.filter((line) => line.ns >= from).map((line) => `${stamp(line.ns)} ${line.text}\n`);
          return Buffer.from(hasEnd ? text.join('') : text.join('').slice(0, -1));
        };
        const copy = (share: number, piece: number, isLast: boolean): number => {
          const kept = openKept(path);
          let last = 0;
          const add = (bytes: Uint8Array): void => {
            if (bytes.length > 0) kept.append(bytes);
            if (bytes.length > 0) last = bytes.length;
          };
          const cursor = createLogCursor({ stamped: true });
          cursor.take(Buffer.from(kept.tail));
          cursor.again();
          const reply = told(cursor.from({})['sinceTime']);
          const end = Math.floor(reply.length * share);
          for (let at = 0; at < end; at += piece) add(cursor.take(reply.subarray(at, Math.min(end, at + piece))));
          if (isLast) add(cursor.rest());
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
    const path = join(folderOf(t), 'pod_main.log');
    const lines = [1, 2, 3, 4].map((at) => `${stamp(at * 60e9)} line ${at}\n`);
    writeFileSync(path, lines.join(''));
    assert.equal(await textOf(path, { tail: 2 }), 'line 3\nline 4\n');
    assert.equal(await textOf(path, { tail: 9 }), 'line 1\nline 2\nline 3\nline 4\n');
    assert.equal(await textOf(path, { since: 180_000 }), 'line 3\nline 4\n');
    writeFileSync(path, `${lines.join('')}${stamp(300e9)} no end`);
    assert.equal(await textOf(path, { tail: 2 }), 'line 4\nno end');
    assert.equal(await textOf(join(path, '../none')), '');
  });

  test('of two busy seconds is gone on with by its end alone', (t) => {
    const path = join(folderOf(t), 'pod_main.log');
    const line = (second: number, index: number): string => `${stamp(second * 1e9 + index)} ${'x'.repeat(90)}\n`;
    const old = Array.from({ length: 5_000 }, (_, index) => line(100, index)).join('');
    const now = [200, 201].flatMap((at) => Array.from({ length: 2_000 }, (_, index) => line(at, index))).join('');
    writeFileSync(path, `${old}${now}`);
    const kept = openKept(path);
    kept.close();
    const tail = Buffer.from(kept.tail).toString('latin1');
    assert.ok(tail.endsWith(now), 'the last two seconds are in it');
    assert.ok(tail.length < old.length + now.length, 'and not all of the file');
  });
});
