// Blocks of lines that are redrawn at the end of a terminal's text; the last frame and all text above it remain.

import type { Io, Stream } from '../app/services.ts';
import type { Cli } from './context.ts';
import { rawBytes, sanitizeText } from './output.ts';
import { width } from './render/cell.ts';
import { escapeLine } from '../app/format.ts';
import type { Duration, Instant } from '../core/model/time.ts';

/** A terminal reports every step of a resize; drawing waits until no report has come for this long. */
const resizeSettleTime: Duration = 100;

/** `clear` removes the block, `leave` keeps it, `close` restores the window's title. */
export function createBlock(io: Io, stream: Stream, window: TerminalWindow) {
  const painter = createPainter(stream);
  let drawnAt: Instant = Number.NEGATIVE_INFINITY;
  let settlesAt: Instant = Number.NEGATIVE_INFINITY;
  const stale = (): void => {
    drawnAt = Number.NEGATIVE_INFINITY;
  };
  const stopListening = stream.onResize(() => {
    settlesAt = io.now() + resizeSettleTime;
    stale();
  });
  return {
    stale,
    isDue: (every: Duration = Number.POSITIVE_INFINITY): boolean =>
      io.now() >= settlesAt && io.now() - drawnAt >= every,
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

/** A block on the terminal's alternate screen. `close` returns to the other screen and writes the last frame there. */
export function createFullScreen(io: Io, stream: Stream, window: TerminalWindow): ReturnType<typeof createBlock> {
  const block = createBlock(io, stream, window);
  let last: readonly string[] = [];
  let isOpen = false;
  const cancelAtExit = io.atExit(leave);

  function enter(): void {
    if (isOpen) return;
    isOpen = true;
    stream.write(rawBytes(enterAlternateScreen));
  }

  function leave(): void {
    if (!isOpen) return;
    isOpen = false;
    const lines = last.map((line) => `${sanitizeText(line)}\n`).join('');
    stream.write(rawBytes(`${leaveAlternateScreen}${lines}`));
    // The next picture begins on an empty screen.
    block.leave();
  }

  return {
    ...block,
    draw(title, lines) {
      enter();
      block.draw(title, lines);
      last = lines;
    },
    leave,
    close() {
      cancelAtExit();
      leave();
      block.close();
    },
  };
}

/** Mode 1049 of xterm's ctlseqs: saves the cursor and clears the other screen, where the cursor then begins. */
const enterAlternateScreen = '\u001b[?1049h\u001b[H';
const leaveAlternateScreen = '\u001b[?1049l';

/** A line below the output, redrawn after each `every`. Null keeps the line; without redrawing nothing is written. */
export function drawStatusLine(
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

/** Writes only the lines that changed, in one synchronized update: nothing flickers, and little is sent. */
export function createPainter(stream: Stream) {
  let shown: readonly string[] = [];
  let columnsThen = 0;

  /** A terminal that became narrower breaks longer lines. */
  function rowsNow(columns: number): number {
    if (columns >= columnsThen) return shown.length;
    return shown.reduce((rows, line) => rows + Math.max(1, Math.ceil(width(line) / columns)), 0);
  }

  return {
    draw(all: readonly string[]): void {
      const lines = all.map(sanitizeText);
      const { columns } = stream.size();
      let text: string;
      if (columns !== columnsThen || shown.length === 0) {
        text = moveToTop(rowsNow(columns)) + lines.map((line) => `${line}\n`).join('');
      } else {
        text = changeSequence(shown, lines);
      }
      if (text !== '') stream.write(rawBytes(`${beginUpdate}${text}${endUpdate}`));
      shown = lines;
      columnsThen = columns;
    },
    /** Removes the block; the next `draw` begins below any text written meanwhile. */
    erase(): void {
      if (shown.length > 0) stream.write(rawBytes(moveToTop(rowsNow(stream.size().columns))));
      shown = [];
    },
    /** Keeps the last frame; the next `draw` begins a new block below it. */
    leave(): void {
      shown = [];
    },
  };
}

/** The cursor is at the start of the row below the block, before and after each change. */
function changeSequence(before: readonly string[], after: readonly string[]): string {
  if (after.length < before.length) {
    return moveToTop(before.length - after.length) + changeSequence(before.slice(0, after.length), after);
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

function moveToTop(rows: number): string {
  return rows === 0 ? '' : `\r${csi}${rows}A${csi}J`;
}

const csi = '\u001b[';
/** Mode 2026, synchronized output. Terminals that do not know it ignore it. */
const beginUpdate = `${csi}?2026h`;
const endUpdate = `${csi}?2026l`;

export interface TerminalWindow {
  title(text: string): void;
  ring(): void;
  /** The end of the program restores the title too. */
  close(): void;
}

/** Writes nothing without a terminal or redrawing, or if the settings say so. Throws the errors of reading them. */
export async function openWindow(cli: Cli, stream: Stream, isLive: boolean): Promise<TerminalWindow> {
  const { io, screen } = cli;
  const settings = (await cli.services.settings()).terminal;
  // The Linux console has no title. A terminal with an empty or `dumb` TERM may print the sequence as text.
  const hasTitle = settings.title && isLive && !/^(|dumb|linux)$/.test(io.env['TERM'] ?? '');
  const hasBell = settings.bell && stream.isTerminal && screen.progress !== 'none';
  let shown: string | undefined;
  let hasRung = false;
  let cancelAtExit: (() => void) | undefined;

  function restoreTitle(): void {
    if (shown === undefined) return;
    shown = undefined;
    // Without a stack of titles, most terminals show their own title for an empty one.
    stream.write(rawBytes(`${setTitle('')}${popTitle}`));
  }

  return {
    title(text) {
      if (!hasTitle || text === shown) return;
      if (shown === undefined) {
        stream.write(rawBytes(pushTitle));
        cancelAtExit = io.atExit(restoreTitle);
      }
      shown = text;
      stream.write(rawBytes(setTitle(escapeLine(text))));
    },
    ring() {
      if (!hasBell || hasRung) return;
      hasRung = true;
      stream.write(rawBytes('\u0007'));
    },
    close() {
      cancelAtExit?.();
      cancelAtExit = undefined;
      restoreTitle();
    },
  };
}

/** Operating system command 2, ended by BEL: every terminal with titles accepts it (xterm's ctlseqs). */
function setTitle(text: string): string {
  return `\u001b]2;${text}\u0007`;
}

/** XTWINOPS 22 and 23 of xterm's ctlseqs push the title on a stack and pop it. */
const pushTitle = '\u001b[22;2t';
const popTitle = '\u001b[23;2t';
