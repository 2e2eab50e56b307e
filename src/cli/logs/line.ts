// How one line of a log is written.

import type { WorkerId } from '../../core/spec.ts';
import { inert } from '../render/inert.ts';
import { workersLabel } from './fold.ts';
import type { Piece } from './split.ts';

export interface LineRules {
  /** `terminal`: cut, collapsed. `pipe`: every line whole. `raw`: the bytes. `json`: an object a line. */
  readonly form: 'terminal' | 'pipe' | 'raw' | 'json';
  /** The worker's number in front of each line. */
  readonly numbered: boolean;
  /** Equal lines of several workers once. */
  readonly fold: boolean;
  /** Whether the program's own colours may stay. */
  readonly colour: boolean;
}

export interface Line {
  readonly attempt: number | null;
  /** Who said it; empty for a log that is no worker's. */
  readonly workers: readonly WorkerId[];
  readonly piece: Piece;
  /** True when the beginning of this line was the last thing that was written. */
  readonly continues: boolean;
}

/** The line with its end. `all` are the workers that may say something, for a column of numbers that keeps its width. */
export function lineText(line: Line, all: readonly WorkerId[], rules: LineRules): string {
  if (rules.form === 'json') return json(line);
  const front = rules.numbered && !line.continues && line.workers.length > 0 ? number(line.workers, all, rules) : '';
  const { text, ends } = line.piece;
  if (rules.form === 'terminal') return `${front}${forTerminal(line.piece, rules.colour)}\n`;
  return front + forPipe(text) + (ends ? '\n' : '');
}

/** `[0] `, `[0-3] `; on a terminal as wide as the widest can be, so that texts stand below each other. */
function number(workers: readonly WorkerId[], all: readonly WorkerId[], rules: LineRules): string {
  const label = `[${workersLabel(workers)}]`;
  if (rules.form !== 'terminal') return `${label} `;
  const widest =
    rules.fold && all.length > 1 ? workersLabel(all).length : Math.max(0, ...all.map((one) => String(one).length));
  return `${label.padEnd(widest + 2)} `;
}

function forTerminal({ text, left }: Piece, colour: boolean): string {
  const shown = inert(text, colour);
  // A colour that a program leaves on must not run into the next worker's line.
  const reset = shown.includes('\u001b[') ? '\u001b[0m' : '';
  return shown + reset + (left === 0 ? '' : ` ~ ${bytesText(left)} more`);
}

/** Carriage returns do no harm in a file, and progress bars are made of them. */
function forPipe(text: string): string {
  if (!text.includes('\r')) return inert(text);
  return text
    .split('\r')
    .map((part) => inert(part))
    .join('\r');
}

/** `9.5 MB`. */
export function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`;
  if (bytes < 1_000_000_000) return `${(bytes / 1_000_000).toFixed(1)} MB`;
  return `${(bytes / 1_000_000_000).toFixed(1)} GB`;
}

function json({ attempt, workers, piece }: Line): string {
  const part = piece.starts && piece.ends ? {} : { part: piece.ends ? 'last' : 'more' };
  return `${JSON.stringify({ attempt, worker: workers[0] ?? null, text: piece.text, ...part })}\n`;
}
