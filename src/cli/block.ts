// A block of lines that lasts while a command goes on: drawn in place at the end of a terminal's text, under a title of its window.

import type { Io, Stream } from '../app/services.ts';
import type { Duration, Instant } from '../core/time.ts';
import type { Cli } from './context.ts';
import { createPainter } from './painter.ts';
import type { Window } from './window.ts';

/** Terminals tell every step of a resize; drawing waits until it has come to rest. */
const resizeRest: Duration = 100;

export interface Block {
  /** The picture is no longer true. */
  stale(): void;
  /** True if the picture is stale, or `every` old, and the terminal is not being resized. */
  isDue(every?: Duration): boolean;
  /** See Painter. */
  draw(title: string, lines: readonly string[]): void;
  /** Takes the block away, so that other text can be written where it was. */
  readonly clear: () => void;
  /** Leaves the block where it is; the next one begins below. */
  leave(): void;
  /** Gives the window its title back. The block stays. */
  close(): void;
}

export function createBlock(io: Io, stream: Stream, window: Window): Block {
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
    isDue: (every = Number.POSITIVE_INFINITY) => io.now() >= restsAt && io.now() - drawnAt >= every,
    draw(title, lines) {
      window.title(title);
      painter.draw(lines);
      drawnAt = io.now();
    },
    clear() {
      painter.erase();
      stale();
    },
    leave() {
      painter.leave();
      stale();
    },
    close() {
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
