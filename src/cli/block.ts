// A block of lines that is redrawn in place at the end of a terminal's text, below a title of its window. It stays on the main
// screen, so that the last frame and everything above it remain when the command ends.

import type { Io, Stream } from '../app/services.ts';
import type { Cli } from './context.ts';
import { exactly, harmlessText } from './output.ts';
import { width } from './render/cell.ts';
import { inertWord } from '../app/figures.ts';
import type { Duration, Instant } from '../core/time.ts';

/** Terminals tell every step of a resize; drawing waits until it has come to rest. */
const resizeRest: Duration = 100;

/** The block of a whole screen. `clear` takes it away, `leave` leaves it where it is; `close` gives the window its title back. */
export function createBlock(io: Io, stream: Stream, window: Window) {
  const painter = createPainter(stream);
  let drawnAt: Instant = Number.NEGATIVE_INFINITY;
  let restsAt: Instant = Number.NEGATIVE_INFINITY;
  const stale = (): void => {
    drawnAt = Number.NEGATIVE_INFINITY;
  };
  const stopListening = stream.onResize(() => {
    restsAt = io.now() + resizeRest;
    stale();
  });
  return {
    stale,
    /** True if the picture is stale, or `every` old, and the terminal is not being resized. */
    isDue: (every: Duration = Number.POSITIVE_INFINITY): boolean => io.now() >= restsAt && io.now() - drawnAt >= every,
    draw(title: string, lines: readonly string[]): void {
      window.title(title);
      painter.draw(lines);
      drawnAt = io.now();
    },
    clear: (): void => {
      painter.erase();
      stale();
    },
    leave(): void {
      painter.leave();
      stale();
    },
    close(): void {
      stopListening();
      window.close();
    },
  };
}

/** A line below the output, drawn anew after each `every` until its end; nothing where nothing is redrawn. Null leaves it as it is. */
export function drawLine(
  { io, screen }: Pick<Cli, 'io' | 'screen'>,
  every: Duration,
  text: () => string | null,
): { readonly clear: () => void; readonly end: () => void } {
  const painter = createPainter(io.stderr);
  const clear = (): void => painter.erase();
  if (screen.progress !== 'redraw') return { clear, end: clear };
  const timer = setInterval(() => {
    const line = text();
    if (line !== null) painter.draw([line]);
  }, every);
  return {
    clear,
    end() {
      clearInterval(timer);
      clear();
    },
  };
}

/** Writes only the lines that changed, in one synchronised update, so that nothing flickers and little is sent. */
export function createPainter(stream: Stream) {
  let shown: readonly string[] = [];
  let columnsThen = 0;

  /** The rows of the block: a terminal that became narrower has broken longer lines. */
  function rowsNow(columns: number): number {
    if (columns >= columnsThen) return shown.length;
    return shown.reduce((rows, line) => rows + Math.max(1, Math.ceil(width(line) / columns)), 0);
  }

  return {
    draw(all: readonly string[]): void {
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
    /** Takes the block away, so that other text can be written where it was; the next `draw` puts it below that text. */
    erase(): void {
      if (shown.length > 0) stream.write(exactly(toTop(rowsNow(stream.size().columns))));
      shown = [];
    },
    /** Leaves the last frame where it is; the next `draw` begins a new block below. */
    leave(): void {
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
  const added = after.slice(before.length);
  return text + added.map((line) => `${line}\n`).join('');
}

function toTop(rows: number): string {
  return rows === 0 ? '' : `\r${csi}${rows}A${csi}J`;
}

const csi = '\u001b[';
/** Mode 2026, synchronised output; terminals that do not know it ignore it. */
const beginUpdate = `${csi}?2026h`;
const endUpdate = `${csi}?2026l`;

export interface Window {
  title(text: string): void;
  ring(): void;
  /** Gives the window the title back that it had. The end of the program does so too, whatever ends it. */
  close(): void;
}

/**
 * The window that a stream writes to. Where it is no terminal, where nothing is redrawn, or where the settings say no,
 * nothing is written. Throws what reading the settings throws.
 */
export async function openWindow(cli: Cli, stream: Stream, isLive: boolean): Promise<Window> {
  const { io, screen } = cli;
  const settings = (await cli.services.settings()).terminal;
  // The console of Linux has no title, and a terminal that tells nothing of itself may print the sequence.
  const hasTitle = settings.title && isLive && !/^(|dumb|linux)$/.test(io.env['TERM'] ?? '');
  const hasBell = settings.bell && stream.isTerminal && screen.progress !== 'none';
  let shown: string | undefined;
  let rang = false;
  let forget: (() => void) | undefined;

  function giveBack(): void {
    if (shown === undefined) return;
    shown = undefined;
    // Without a stack of titles, most terminals show their own for an empty one.
    stream.write(exactly(`${setTitle('')}${popTitle}`));
  }

  return {
    title(text) {
      if (!hasTitle || text === shown) return;
      if (shown === undefined) {
        stream.write(exactly(pushTitle));
        forget = io.atExit(giveBack);
      }
      shown = text;
      stream.write(exactly(setTitle(inertWord(text))));
    },
    ring() {
      if (!hasBell || rang) return;
      rang = true;
      stream.write(exactly('\u0007'));
    },
    close() {
      forget?.();
      forget = undefined;
      giveBack();
    },
  };
}

/** Operating system command 2, ended by BEL, which every terminal that has titles takes (xterm's ctlseqs). */
function setTitle(text: string): string {
  return `\u001b]2;${text}\u0007`;
}

/** XTWINOPS 22 and 23 of xterm's ctlseqs: the title is put on a stack and taken from it. */
const pushTitle = '\u001b[22;2t';
const popTitle = '\u001b[23;2t';
