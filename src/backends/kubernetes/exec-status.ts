// Exec status: how a program in a container ended, by the channel of status or by its own report.

import type { SessionEnd } from '../../app/by-hand.ts';
import { fits, type Form } from '../../app/json.ts';

/** How the program ended, on the channel of status. */
export interface ExecStatus {
  readonly status?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly reason?: string; readonly message?: string }[] };
}

const text = 'string' as const;
const form: Form = {
  status: text,
  reason: text,
  message: text,
  details: { causes: [{ reason: text, message: text }] },
};

/** A status that cannot be read, or whose values are of other kinds, is told as it came. */
export function readExecStatus(bytes: Uint8Array): ExecStatus {
  const written = Buffer.from(bytes).toString('utf8');
  try {
    const value: unknown = JSON.parse(written);
    if (fits(value, form)) return value as ExecStatus;
  } catch {
    // Told as it came, too.
  }
  return { message: written };
}

/** The end of a program that has begun. */
export function endOf({ status, reason, message, details }: ExecStatus): SessionEnd {
  if (status === 'Success') return { kind: 'ended', exitCode: 0, signal: null };
  const cause = details?.causes?.find((one) => one.reason === 'ExitCode');
  const code = Number(cause?.message ?? Number.NaN);
  return reason === 'NonZeroExitCode' && Number.isInteger(code)
    ? { kind: 'ended', exitCode: code, signal: null }
    : { kind: 'no_answer', reason: message ?? 'its end was told without a word', sent: true };
}

/** As a shell says it. */
export const notFoundCode = 127;
const notRunnableCode = 126;

/** Undefined for a program that has begun. The words are those of the container runtimes runc and crun. */
export function whyNotBegun({
  reason,
  message = '',
}: ExecStatus): { readonly code: number; readonly says: string } | undefined {
  if (reason !== 'InternalError') return undefined;
  if (/executable file (?:`[^`]*` )?not found|no such file or directory/i.test(message)) {
    return { code: notFoundCode, says: 'the image has no such program' };
  }
  return /permission denied|exec format error/i.test(message)
    ? { code: notRunnableCode, says: 'it is there and cannot be run' }
    : undefined;
}

// A cluster does not report the end of a program while its input waits to be read: the API server's connection to the node is blocked
// by that input. So a shell in the container writes the exit code as the last line of stderr, behind a text that nobody else knows.

/** Behind `sh -c`: `$0` is the text, the arguments are the program. */
const reporter = 'env "$@"; code=$?; echo "$0$code" >&2; exit "$code"';

/** The words that run `argv` and report its exit code behind `text`. The container needs `sh` and `env`. */
export function reporting(argv: readonly string[], text: string): readonly string[] {
  return ['sh', '-c', reporter, text, ...argv];
}

/** As many bytes as the number of a report and its end have: no shell has an exit code above 255. */
const reportMost = 4;

/** `text` is that of `reporting`. Bytes that may begin the report are held back until more is known. */
export function createReportReader(text: string) {
  const mark = Buffer.from(text);
  let held: Buffer = Buffer.alloc(0);
  let code: number | undefined;
  return {
    /** The program's own output in these bytes and in those held back before. */
    take(bytes: Uint8Array): Buffer {
      const all = Buffer.concat([held, bytes]);
      let at = all.indexOf(mark);
      for (; at >= 0; at = all.indexOf(mark, at + 1)) {
        const told = all.toString('latin1', at + mark.length, at + mark.length + reportMost);
        const [report, digits] = /^(\d{1,3})\n/.exec(told) ?? [];
        if (report !== undefined) {
          code = Number(digits);
          held = Buffer.alloc(0);
          return Buffer.concat([all.subarray(0, at), all.subarray(at + mark.length + report.length)]);
        }
        // The program knows the text from its environment: what it prints behind it need not be a number, or ever end.
        if (told.length < reportMost && /^\d*$/.test(told)) break;
      }
      let from = at;
      for (let length = Math.min(mark.length - 1, all.length); from < 0 && length > 0; length -= 1) {
        if (mark.subarray(0, length).equals(all.subarray(all.length - length))) from = all.length - length;
      }
      held = from < 0 ? Buffer.alloc(0) : all.subarray(from);
      return from < 0 ? all : all.subarray(0, from);
    },
    /** The bytes that were held back and are no report. */
    rest() {
      const bytes = held;
      held = Buffer.alloc(0);
      return bytes;
    },
    code: () => code,
  };
}
