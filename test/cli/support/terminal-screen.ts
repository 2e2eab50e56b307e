/**
 * A terminal's glass: what a person sees after all that was written. It knows the few movements that the painter makes
 * and fails on any other, so that a new one is noticed.
 */
import assert from 'node:assert/strict';

export interface TerminalScreen {
  write(text: string): void;
  /** All rows ever written, without trailing spaces. */
  rows(): readonly string[];
  /** A narrower terminal breaks the rows that are longer. */
  setColumns(columns: number): void;
  readonly writtenLength: () => number;
}

const bell = '\u0007';

export function createTerminalScreen(): TerminalScreen {
  let rows: string[] = [''];
  let row = 0;
  let column = 0;
  let bytes = 0;

  function putCharacter(character: string): void {
    if (character === '\n') {
      // A terminal in its usual mode returns to the first column as well.
      row += 1;
      column = 0;
      rows[row] ??= '';
    } else if (character === '\r') column = 0;
    else if (character === bell) return;
    else {
      const line = (rows[row] ?? '').padEnd(column);
      rows[row] = line.slice(0, column) + character + line.slice(column + 1);
      column += 1;
    }
  }

  function applySequence(parameters: string, final: string): void {
    const count = Number(parameters || '1');
    if (final === 'A') row = Math.max(0, row - count);
    else if (final === 'B') row += count;
    else if (final === 'K') rows[row] = (rows[row] ?? '').slice(0, column);
    else if (final === 'J') rows = [...rows.slice(0, row), (rows[row] ?? '').slice(0, column)];
    else if (!(final === 'm' || parameters === '?2026' || (final === 't' && /^2[23];2$/.test(parameters))))
      assert.fail(`the glass does not know CSI ${parameters}${final}`);
  }

  return {
    write(text) {
      bytes += text.length;
      for (let at = 0; at < text.length; at += 1) {
        if (text[at] !== '\u001b') {
          putCharacter(text.charAt(at));
          continue;
        }
        // A title is not on the glass.
        if (text.startsWith(']2;', at + 1)) {
          at = text.indexOf(bell, at);
          continue;
        }
        const [found = '', parameters = '', final = ''] = /^.\[([?\d;]*)([A-Za-z])/.exec(text.slice(at)) ?? [];
        assert.notEqual(found, '', 'an escape sequence is a CSI sequence');
        applySequence(parameters, final);
        at += found.length - 1;
      }
    },
    rows: () => rows.map((line) => line.trimEnd()),
    setColumns(columns) {
      const broken: string[] = [];
      let cursor = 0;
      for (const [index, line] of rows.entries()) {
        if (index === row) cursor = broken.length;
        for (let from = 0; from === 0 || from < line.length; from += columns)
          broken.push(line.slice(from, from + columns));
      }
      rows = broken;
      row = cursor;
    },
    writtenLength: () => bytes,
  };
}
