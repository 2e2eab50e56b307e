// One line of a log as text.

import type { WorkerId } from '../../core/spec.ts';
import { inert } from '../render/inert.ts';
import { sizeText } from '../render/size.ts';
import { workersLabel } from './fold.ts';
import type { Piece } from './split.ts';

export interface LineRules {
  /** `terminal`: cut, collapsed. `pipe`: every line whole. `raw`: the bytes. `json`: an object a line. */
  readonly form: 'terminal' | 'pipe' | 'raw' | 'json';
  /** The worker's number in front of each line. */
  readonly numbered: boolean;
  /** Equal lines of several workers once. */
  readonly fold: boolean;
  /** Keep the program's own colours. */
  readonly colour: boolean;
}

/**
 * `[0] `, `[0-3] `: who said it; nothing for a log that is no worker's. On a terminal as wide as the widest of `all` can
 * be, so that texts stand below each other.
 */
export function frontText(workers: readonly WorkerId[], all: readonly WorkerId[], rules: LineRules): string {
  if (workers.length === 0) return '';
  const label = `[${workersLabel(workers)}]`;
  if (rules.form !== 'terminal') return `${label} `;
  const folded = rules.fold && all.length > 1;
  const widest = folded ? workersLabel(all).length : Math.max(0, ...all.map((one) => String(one).length));
  return `${label.padEnd(widest + 2)} `;
}

/** The text, with the end of the line where it has come. */
export function bodyText(piece: Piece, rules: LineRules): string {
  if (rules.form === 'terminal') return forTerminal(piece, rules.colour);
  const text = piece.isInert ? piece.text : forPipe(piece.text);
  return piece.ends ? `${text}\n` : text;
}

function forTerminal({ text, left, isInert }: Piece, colour: boolean): string {
  const shown = isInert ? text : inert(text, colour);
  // A colour that a program leaves on must not run into the next worker's line.
  const reset = !isInert && shown.includes('\u001b[') ? '\u001b[0m' : '';
  return `${shown}${reset}${left === 0 ? '' : ` ~ ${sizeText(left)} more`}\n`;
}

/** Carriage returns do no harm in a file, and progress bars are made of them. */
function forPipe(text: string): string {
  if (!text.includes('\r')) return inert(text);
  return text
    .split('\r')
    .map((part) => inert(part))
    .join('\r');
}

/** One object for one line; the parts of a very long one say that they are parts. */
export function jsonText(
  from: { readonly attempt: number | null; readonly worker: WorkerId | null },
  piece: Piece,
): string {
  const part = piece.starts && piece.ends ? {} : { part: piece.ends ? 'last' : 'more' };
  return `${JSON.stringify({ ...from, text: piece.text, ...part })}\n`;
}
