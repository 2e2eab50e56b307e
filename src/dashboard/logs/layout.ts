// The height of each line, in rows of the font.

import { rowText, type Entry, type Row } from './rows.ts';
import { plainText, shownText } from './spans.ts';

export interface Item {
  readonly row: Row;
  /** Of the row. */
  readonly index: number;
  /** One line of an open row; null for the row itself. */
  readonly entry: Entry | null;
}

export interface Layout {
  readonly items: readonly Item[];
  /** Of each item, and of the end. */
  readonly tops: Float64Array;
  readonly height: number;
}

/** Lines are wrapped after `columns` characters; null: they are not wrapped. */
export function layOut(rows: readonly Row[], columns: number | null, showsTimes: boolean): Layout {
  const items: Item[] = [];
  rows.forEach((row, index) => {
    items.push({ row, index, entry: null });
    if (row.isOpen && row.entries.length > 1) for (const entry of row.entries) items.push({ row, index, entry });
  });
  const tops = new Float64Array(items.length + 1);
  let top = 0;
  items.forEach(({ row, entry }, index) => {
    tops[index] = top;
    top += columns === null ? 1 : wrappedHeight(entry?.line.text ?? rowText(row), columns, showsTimes);
  });
  tops[items.length] = top;
  return { items, tops, height: top };
}

/** Asian characters and emoji have two cells. */
const wide = /[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\u{1F300}-\u{1FAFF}]/gu;

function wrappedHeight(text: string, columns: number, showsTimes: boolean): number {
  if (text.length <= columns / 8) return 1;
  const shown = plainText(shownText(text, showsTimes));
  const cells = shown.length + (shown.match(wide)?.length ?? 0);
  return Math.max(1, Math.ceil(cells / columns));
}
