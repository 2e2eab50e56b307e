import { phaseGlyphs } from '../app/format.ts';
import type { Phase } from '../core/decide/phase.ts';
import type { Instant } from '../core/model/time.ts';
import type { Io, Stream } from '../app/services.ts';

/** Returns the text unchanged without colour. */
export type Styler = (style: Style, text: string) => string;

/** By name only, and never grey: bright black is invisible on many themes. */
type Style = 'bold' | 'magenta' | 'red' | 'green' | 'blue';

export interface Screen {
  /** Separate, because one stream may be redirected while the other is a terminal. */
  readonly styleOut: Styler;
  readonly styleErr: Styler;
  /** Without colour, the output of programs loses its colours. */
  readonly colour: boolean;
  readonly unicode: boolean;
  /** `auto` redraws on a terminal and writes plain lines elsewhere; `none` prints nothing while it waits. */
  readonly progress: 'redraw' | 'plain' | 'none';
  /** Results on standard output may be redrawn in place and controlled by keys. */
  readonly live: boolean;
  /** A screen reader reads the screen aloud: long states are repeated instead of redrawn. */
  readonly hasScreenReader: boolean;
}

export interface ScreenFlags {
  readonly color?: 'auto' | 'always' | 'never' | undefined;
  readonly progress?: 'auto' | 'plain' | 'none' | undefined;
  readonly quiet?: boolean | undefined;
}

export function screenFor(io: Io, flags: ScreenFlags): Screen {
  const colour = hasColour(io, io.stdout.isTerminal, flags);
  return {
    styleOut: colour ? styled : plain,
    colour,
    styleErr: hasColour(io, io.stderr.isTerminal, flags) ? styled : plain,
    unicode: isUtf8(io.env),
    progress: progressFor(io, flags),
    live: canRedraw(io, io.stdout.isTerminal, flags) && flags.quiet !== true,
    hasScreenReader: io.stderr.isTerminal && Boolean(io.env['ACCESSIBLE']),
  };
}

/** Null for a stream that is not a terminal. */
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
  // A screen reader reads every redraw aloud, so ACCESSIBLE needs lines that stay.
  return isTerminal && io.env['TERM'] !== 'dumb' && progress === 'auto' && !io.env['ACCESSIBLE'];
}

/** The first of these three that is set decides the character set (POSIX, Environment Variables, LC_ALL). */
function isUtf8(env: Io['env']): boolean {
  const locale = env['LC_ALL'] || env['LC_CTYPE'] || env['LANG'] || '';
  return /utf-?8/i.test(locale);
}

/** On and off codes (ECMA-48 8.3.117). Each style has its own off code, so that styles nest. */
const codes: Readonly<Record<Style, readonly [number, number]>> = {
  bold: [1, 22],
  magenta: [35, 39],
  red: [31, 39],
  green: [32, 39],
  blue: [34, 39],
};

/** Outputs let only these control sequences pass. */
export const ownStyles: ReadonlySet<string> = new Set(
  Object.values(codes).flatMap(([on, off]) => [`\u001b[${on}m`, `\u001b[${off}m`]),
);

export const resetStyles = '\u001b[22m\u001b[39m';

function styled(style: Style, text: string): string {
  const [on, off] = codes[style];
  return `\u001b[${on}m${text}\u001b[${off}m`;
}

function plain(_style: Style, text: string): string {
  return text;
}

export function glyph(screen: Pick<Screen, 'unicode'>, phase: Phase): string {
  return phaseGlyphs[phase][screen.unicode ? 0 : 1];
}

export function stylePhase(styler: Styler, phase: Phase, text: string): string {
  if (phase === 'running') return styler('blue', text);
  if (phase === 'succeeded') return styler('green', text);
  // Yellow is invisible on a white terminal.
  if (phase === 'recovering') return styler('bold', styler('magenta', text));
  if (phase === 'failed') return styler('bold', styler('red', text));
  return text;
}

/** The form of a text for a person. */
export interface Layout {
  /** Null without a terminal: then nothing is cut or wrapped, and no column is dropped. */
  readonly columns: number | null;
  readonly styler: Styler;
  readonly unicode: boolean;
  readonly now: Instant;
}

/** For standard output. */
export function layoutOf({ io, screen }: { readonly io: Io; readonly screen: Screen }): Layout {
  return { columns: columnsOf(io.stdout), styler: screen.styleOut, unicode: screen.unicode, now: io.now() };
}
