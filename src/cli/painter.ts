// A block of lines that is redrawn in place at the end of a terminal's text. It stays on the main screen, so that the
// last frame and all that was printed above it remain when the command ends.

import type { Stream } from '../app/services.ts';
import { exactly, harmlessText } from './output.ts';
import { width } from './render/cell.ts';

export interface Painter {
  /** Shows these lines instead of the last ones. They are to be no wider than the terminal and to leave it one row. */
  draw(lines: readonly string[]): void;
  /** Takes the block away, so that other text can be written where it stood; the next `draw` puts it below that text. */
  erase(): void;
  /** Leaves the last frame where it is; the next `draw` begins a new block below. */
  leave(): void;
}

/** Writes only the lines that changed, in one synchronised update, so that nothing flickers and little is sent. */
export function createPainter(stream: Stream): Painter {
  let shown: readonly string[] = [];
  let columnsThen = 0;

  /** The rows of the block: a terminal that became narrower has broken longer lines. */
  function rowsNow(columns: number): number {
    if (columns >= columnsThen) return shown.length;
    return shown.reduce((rows, line) => rows + Math.max(1, Math.ceil(width(line) / columns)), 0);
  }

  return {
    draw(all) {
      const lines = all.map(harmlessText);
      const { columns } = stream.size();
      let text: string;
      if (columns !== columnsThen || shown.length === 0) {
        text = toTop(rowsNow(columns)) + lines.map((line) => `${line}\n`).join('');
      } else {
        text = changes(shown, lines);
      }
      if (text !== '') stream.write(exactly(`${beginUpdate}${text}${endUpdate}`));
      shown = lines;
      columnsThen = columns;
    },
    erase() {
      if (shown.length > 0) stream.write(exactly(toTop(rowsNow(stream.size().columns))));
      shown = [];
    },
    leave() {
      shown = [];
    },
  };
}

/** The cursor rests at the start of the row below the block; each change is reached from there and left to there. */
function changes(before: readonly string[], after: readonly string[]): string {
  if (after.length < before.length) {
    // The rows that are too many go first, so that the rest is the case below.
    return toTop(before.length - after.length) + changes(before.slice(0, after.length), after);
  }
  let text = '';
  for (const [index, line] of before.entries()) {
    const next = after[index] ?? '';
    if (next === line) continue;
    const up = before.length - index;
    text += `${csi}${up}A${next}${csi}K\r${csi}${up}B`;
  }
  return (
    text +
    after
      .slice(before.length)
      .map((line) => `${line}\n`)
      .join('')
  );
}

/** To the start of the row so many rows above, with everything from there on cleared. */
function toTop(rows: number): string {
  return rows === 0 ? '' : `\r${csi}${rows}A${csi}J`;
}

const csi = '\u001b[';
/** Mode 2026, synchronised output; terminals that do not know it ignore it. */
const beginUpdate = `${csi}?2026h`;
const endUpdate = `${csi}?2026l`;
