// Colour, glyphs and motion of a terminal. Decided once for each command from the flags, the streams and the
// environment; everything that renders takes the answer as a value.

import type { Phase } from '../core/phase.ts';
import type { Io, Stream } from '../app/services.ts';

/** Puts a text into one of the styles below, or leaves it as it is where colour is off. */
export type Ink = (style: Style, text: string) => string;

/** The 16 ANSI colours by name only, and never grey: bright black vanishes on many themes. */
type Style = 'bold' | 'magenta' | 'red' | 'blue';

export interface Screen {
  /** Styles for results and for diagnostics: one of them may be redirected while the other is a terminal. */
  readonly out: Ink;
  readonly err: Ink;
  /** Colour may reach standard output; otherwise output of programs loses its own. */
  readonly colour: boolean;
  readonly unicode: boolean;
  /** `auto` redraws on a terminal and writes plain lines elsewhere; `none` says nothing while it waits. */
  readonly progress: 'redraw' | 'plain' | 'none';
  /** Results on standard output may be redrawn in place and controlled by keys. */
  readonly live: boolean;
  /** Somebody has the screen read aloud: what lasts is told again and again instead of being drawn. */
  readonly aloud: boolean;
}

export interface ScreenFlags {
  readonly color?: 'auto' | 'always' | 'never' | undefined;
  readonly progress?: 'auto' | 'plain' | 'none' | undefined;
  readonly quiet?: boolean | undefined;
}

/** Reads no more than what is handed in: the same flags, streams and environment give the same screen. */
export function screenFor(io: Io, flags: ScreenFlags): Screen {
  const colour = hasColour(io, io.stdout.isTerminal, flags);
  return {
    out: colour ? styled : plain,
    colour,
    err: hasColour(io, io.stderr.isTerminal, flags) ? styled : plain,
    unicode: isUtf8(io.env),
    progress: progressFor(io, flags),
    live: canRedraw(io, io.stdout.isTerminal, flags) && flags.quiet !== true,
    aloud: io.stderr.isTerminal && Boolean(io.env['ACCESSIBLE']),
  };
}

/** The columns of a terminal; null for any other stream. */
export function columnsOf(stream: Stream): number | null {
  return stream.isTerminal ? stream.size().columns : null;
}

function hasColour(io: Io, isTerminal: boolean, flags: ScreenFlags): boolean {
  if (flags.color === 'always') return true;
  if (flags.color === 'never') return false;
  // https://no-color.org: any value but the empty one.
  return isTerminal && !io.env['NO_COLOR'] && io.env['TERM'] !== 'dumb';
}

function progressFor(io: Io, flags: ScreenFlags): Screen['progress'] {
  if (flags.quiet === true || flags.progress === 'none') return 'none';
  return canRedraw(io, io.stderr.isTerminal, flags) ? 'redraw' : 'plain';
}

function canRedraw(io: Io, isTerminal: boolean, { progress = 'auto' }: ScreenFlags): boolean {
  // A screen reader reads every repaint aloud, so ACCESSIBLE asks for lines that stay.
  return isTerminal && io.env['TERM'] !== 'dumb' && progress === 'auto' && !io.env['ACCESSIBLE'];
}

/** The first of these three that is set decides the character set (POSIX, Environment Variables, LC_ALL). */
function isUtf8(env: Io['env']): boolean {
  const locale = env['LC_ALL'] || env['LC_CTYPE'] || env['LANG'] || '';
  return /utf-?8/i.test(locale);
}

/** On and off codes (ECMA-48 8.3.117); each is switched off by its own code, so that styles nest. */
const codes: Readonly<Record<Style, readonly [number, number]>> = {
  bold: [1, 22],
  magenta: [35, 39],
  red: [31, 39],
  blue: [34, 39],
};

/** Every control sequence that styles a text of ours; an output lets these pass and no others. */
export const ownStyles: ReadonlySet<string> = new Set(
  Object.values(codes).flatMap(([on, off]) => [`\u001b[${on}m`, `\u001b[${off}m`]),
);

export const stylesOff = '\u001b[22m\u001b[39m';

function styled(style: Style, text: string): string {
  const [on, off] = codes[style];
  return `\u001b[${on}m${text}\u001b[${off}m`;
}

function plain(_style: Style, text: string): string {
  return text;
}

/**
 * One glyph before each phase, so that it is told without its colour. All are of neutral East Asian width: one cell in
 * every terminal. The second is for locales that are not UTF-8.
 */
const glyphs: Readonly<Record<Phase, readonly [string, string]>> = {
  queued: ['◌', '.'],
  provisioning: ['◔', ':'],
  setup: ['∙', '+'],
  running: ['▸', '>'],
  recovering: ['↻', '~'],
  stopping: ['▪', '-'],
  succeeded: ['✓', '='],
  failed: ['✗', 'x'],
  stopped: ['▫', '_'],
  cancelled: ['▫', '_'],
};

export function glyph(screen: Pick<Screen, 'unicode'>, phase: Phase): string {
  return glyphs[phase][screen.unicode ? 0 : 1];
}

/** The word of a phase in its style: what needs somebody stands out, what rests is plain. */
export function inPhaseStyle(ink: Ink, phase: Phase, text: string): string {
  if (phase === 'running') return ink('bold', text);
  // Yellow vanishes on a white terminal.
  if (phase === 'recovering') return ink('bold', ink('magenta', text));
  if (phase === 'failed') return ink('bold', ink('red', text));
  return text;
}
