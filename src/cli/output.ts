// Output: every text that any command prints goes through here. Names, messages and answers come from clouds, clusters, kubeconfigs,
// manifests and other people, so the only control sequences that pass are the styles of the program itself.
//
// A string is text and is made harmless. Bytes are written unchanged: raw output of a program on a worker, log lines that were
// made harmless one by one, and movements of the cursor.

import { hexDigits } from '../app/figures.ts';
import type { Io, Stream } from '../app/services.ts';
import { ownStyles, stylesOff } from './screen.ts';

type LeavingSignal = Parameters<Parameters<Io['onSignal']>[0]>[0];

/**
 * The same services, whose outputs neutralise text. Streams are opened when they are first used, as before. `onLeave` is called
 * with each signal that a command handles.
 */
export function withHarmlessOutput<T extends { readonly io: Io }>(
  services: T,
  onLeave: (signal: LeavingSignal) => void = () => undefined,
): T {
  const { io } = services;
  let stdout: Stream | undefined;
  let stderr: Stream | undefined;
  return derived(services, {
    io: {
      value: derived(io, {
        stdout: { get: () => (stdout ??= harmlessStream(io.stdout)) },
        stderr: { get: () => (stderr ??= harmlessStream(io.stderr)) },
        onSignal: {
          value: (call: (signal: LeavingSignal) => void) =>
            io.onSignal((signal) => {
              onLeave(signal);
              call(signal);
            }),
        },
      }),
    },
  });
}

/** For an output: exactly this text, with whatever control characters it has. */
export function exactly(text: string): Uint8Array {
  return Buffer.from(text);
}

function harmlessStream(stream: Stream): Stream {
  return derived(stream, {
    write: { value: (text: string | Uint8Array) => stream.write(typeof text === 'string' ? harmlessText(text) : text) },
  });
}

/** An object that has all of the other's properties and these instead of some; getters of the other stay unread. */
function derived<T extends object>(from: T, properties: PropertyDescriptorMap): T {
  const made: unknown = Object.create(from, properties);
  return made as T;
}

/** True when `inert` would change nothing in any line of this text. Asked of a block, it spares the question for each line. */
export function isInert(block: string): boolean {
  return !hasControlInLines.test(block);
}

/**
 * A text that the program prints, with every control character made visible except line ends, tabs and the graphic
 * renditions of the program's own styles. A style that is still on at the end of a line is switched off there. Characters
 * above 0x7e become `\u009b`, which JSON reads as the character itself, so that an object in JSON stays the same object.
 */
export function harmlessText(text: string): string {
  if (plainLines.test(text) || isInert(text)) return text;
  return text.split('\n').map(harmlessLine).join('\n');
}

function harmlessLine(line: string): string {
  if (isInert(line)) return line;
  let last = '';
  const shown = line.replace(control, (found: string) => {
    if (found === '\t') return found;
    if (ownStyles.has(found)) {
      last = found;
      return found;
    }
    const code = found.codePointAt(0) ?? 0;
    const first = code < 0x20 ? `\\x${hexDigits(code, 2)}` : `\\u${hexDigits(code, 4)}`;
    return first + found.slice(1);
  });
  return last === '' || offCode.test(last) ? shown : shown + stylesOff;
}

/** Nearly every text. The tests of what may be wrong with the others are slow to prepare. */
const plainLines = /^[\n -~]*$/;
/** Codes 22 to 29 and 39 end a rendition (ECMA-48 8.3.117). */
const offCode = /^.\[(2\d|39)m$/u;
const hasControlInLines = /[^\P{Cc}\t\n]|[\u202a-\u202e\u2066-\u2069]/u;
const control = /\p{Cc}(\[[0-9;:]*m)?|[\u202a-\u202e\u2066-\u2069]/gu;
