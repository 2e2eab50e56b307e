// All output passes here. Names, messages and answers come from clouds, clusters, manifests and other users, so the
// only control sequences that pass are the program's own styles. Strings are sanitized. Bytes are written unchanged:
// raw output of a program, log lines that are sanitized one by one, and cursor movements.

import { hexDigits } from '../app/format.ts';
import type { Io, Stream } from '../app/services.ts';
import { ownStyles, resetStyles } from './screen.ts';

type ExitSignal = Parameters<Parameters<Io['onSignal']>[0]>[0];

/** Streams are still opened on first use. Calls `onExitSignal` with each signal that a command handles. */
export function withSanitizedOutput<T extends { readonly io: Io }>(
  services: T,
  onExitSignal: (signal: ExitSignal) => void = () => undefined,
): T {
  const { io } = services;
  let stdout: Stream | undefined;
  let stderr: Stream | undefined;
  return override(services, {
    io: {
      value: override(io, {
        stdout: { get: () => (stdout ??= sanitizedStream(io.stdout)) },
        stderr: { get: () => (stderr ??= sanitizedStream(io.stderr)) },
        onSignal: {
          value: (call: (signal: ExitSignal) => void) =>
            io.onSignal((signal) => {
              onExitSignal(signal);
              call(signal);
            }),
        },
      }),
    },
  });
}

/** Discards everything on standard error unless a terminal shows it. */
export function withoutStderr(io: Io): Io {
  let stderr: Stream | undefined;
  const get = (): Stream =>
    (stderr ??= io.stderr.isTerminal ? io.stderr : override(io.stderr, { write: { value: () => undefined } }));
  return override(io, { stderr: { get } });
}

/** Passes all control characters of the text. */
export function rawBytes(text: string): Uint8Array {
  return Buffer.from(text);
}

function sanitizedStream(stream: Stream): Stream {
  return override(stream, {
    write: { value: (text: string | Uint8Array) => stream.write(typeof text === 'string' ? sanitizeText(text) : text) },
  });
}

/** Does not call the getters of `from`. */
function override<T extends object>(from: T, properties: PropertyDescriptorMap): T {
  const made: unknown = Object.create(from, properties);
  return made as T;
}

/** True if `escapeForTerminal` would change no line. One check for a block replaces one for each line. */
export function isSanitized(block: string): boolean {
  return !hasControlInLines.test(block);
}

/**
 * Makes control characters visible, except line ends, tabs and the program's styles, which end with their line. JSON
 * reads an escape such as `\u009b` as the character itself, so JSON objects stay equal.
 */
export function sanitizeText(text: string): string {
  if (plainLines.test(text) || isSanitized(text)) return text;
  return text.split('\n').map(sanitizeLine).join('\n');
}

function sanitizeLine(line: string): string {
  if (isSanitized(line)) return line;
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
  return last === '' || offCode.test(last) ? shown : shown + resetStyles;
}

/** Fast path for nearly every text: the other expressions are slow to prepare. */
const plainLines = /^[\n -~]*$/;
/** Codes 22 to 29 and 39 end a rendition (ECMA-48 8.3.117). */
const offCode = /^.\[(2\d|39)m$/u;
const hasControlInLines = /[^\P{Cc}\t\n]|[\u202a-\u202e\u2066-\u2069]/u;
const control = /\p{Cc}(\[[0-9;:]*m)?|[\u202a-\u202e\u2066-\u2069]/gu;
