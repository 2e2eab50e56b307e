// Chart: a curve in a terminal. Braille cells have two columns and four rows of dots; without UTF-8 each cell is one
// dot, drawn as `*`.

/** A part of a curve; its points are joined. */
export interface ChartLine {
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface ChartLayout {
  /** Of the drawing alone, without its axes. */
  readonly columns: number;
  readonly rows: number;
  readonly unicode: boolean;
  readonly x: readonly [from: number, to: number];
  readonly y: readonly [from: number, to: number];
}

/** `rows` lines of at most `columns` characters, the greatest y first. Values outside of the range are at its edge. */
export function drawChart(lines: readonly ChartLine[], layout: ChartLayout): readonly string[] {
  const { columns, rows, unicode } = layout;
  const [dotsPerColumn, dotsPerRow] = unicode ? [2, 4] : [1, 1];
  const [width, height] = [columns * dotsPerColumn, rows * dotsPerRow];
  const dots = new Uint8Array(width * height);
  const toColumn = scaleTo(layout.x, width - 1);
  const toRow = scaleTo(layout.y, height - 1);
  const set = (column: number, row: number): void => {
    dots[(height - 1 - row) * width + column] = 1;
  };
  for (const { points } of lines) {
    let previous: readonly [number, number] | undefined;
    for (const [x, y] of points) {
      const [column, row] = [toColumn(x), toRow(y)];
      if (previous === undefined) set(column, row);
      else join(previous, [column, row], set);
      previous = [column, row];
    }
  }
  return Array.from({ length: rows }, (_, row) =>
    Array.from({ length: columns }, (_unused, column) => {
      if (!unicode) return dots[row * width + column] === 1 ? '*' : ' ';
      const bits = brailleBits.reduce((all, bit, index) => {
        const isSet = dots[(row * 4 + (index >> 1)) * width + column * 2 + (index & 1)] === 1;
        return isSet ? all | bit : all;
      }, 0);
      return bits === 0 ? ' ' : String.fromCharCode(0x2800 + bits);
    })
      .join('')
      .trimEnd(),
  );
}

/** The bits of a Braille pattern (Unicode, U+2800), row by row, the left dot first. */
const brailleBits = [0x01, 0x08, 0x02, 0x10, 0x04, 0x20, 0x40, 0x80] as const;

function scaleTo([from, to]: readonly [number, number], last: number): (value: number) => number {
  // A single value is in the middle.
  if (to <= from) return () => Math.floor(last / 2);
  return (value) => Math.round(((Math.min(to, Math.max(from, value)) - from) / (to - from)) * last);
}

/** A straight line: in each column the dots between the two heights of the line there. */
function join(
  [fromColumn, fromRow]: readonly [number, number],
  [toColumn, toRow]: readonly [number, number],
  set: (column: number, row: number) => void,
): void {
  const steps = Math.max(Math.abs(toColumn - fromColumn), Math.abs(toRow - fromRow), 1);
  for (let step = 0; step <= steps; step += 1) {
    const share = step / steps;
    set(Math.round(fromColumn + (toColumn - fromColumn) * share), Math.round(fromRow + (toRow - fromRow) * share));
  }
}
