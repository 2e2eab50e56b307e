// Reads the end of a program in a container, from the status channel or from the program's own report.

import type { SessionEnd } from '../../app/worker-access.ts';
import { matchesShape, type Shape, type ShapeValue } from '../../app/json.ts';

const form = {
  status: 'string',
  reason: 'string',
  message: 'string',
  details: { causes: [{ reason: 'string', message: 'string' }] },
} as const satisfies Shape;

export type ExecStatus = ShapeValue<typeof form>;

/** A status of another shape becomes the message of the result. */
export function readExecStatus(bytes: Uint8Array): ExecStatus {
  const written = Buffer.from(bytes).toString('utf8');
  try {
    const value: unknown = JSON.parse(written);
    if (matchesShape(value, form)) return value as ExecStatus;
  } catch {
    // Not JSON.
  }
  return { message: written };
}

/** The end of a program that did start. */
export function sessionEndOf({ status, reason, message, details }: ExecStatus): SessionEnd {
  if (status === 'Success') return { kind: 'ended', exitCode: 0, signal: null };
  const cause = details?.causes?.find((one) => one.reason === 'ExitCode');
  const code = Number(cause?.message ?? Number.NaN);
  return reason === 'NonZeroExitCode' && Number.isInteger(code)
    ? { kind: 'ended', exitCode: code, signal: null }
    : { kind: 'unreachable', reason: message ?? 'the cluster reported its end without a reason', mayHaveRun: true };
}

export const notFoundExitCode = 127;
const notRunnableExitCode = 126;

/** The reason why a program did not start; undefined for a program that did. The patterns match runc and crun. */
export function startFailure({
  reason,
  message = '',
}: ExecStatus): { readonly code: number; readonly message: string } | undefined {
  if (reason !== 'InternalError') return undefined;
  if (/executable file (?:`[^`]*` )?not found|no such file or directory/i.test(message)) {
    return { code: notFoundExitCode, message: 'the image has no such program' };
  }
  return /permission denied|exec format error/i.test(message)
    ? { code: notRunnableExitCode, message: 'the image has the program, but it cannot run' }
    : undefined;
}

// The input of a program may block the API server's connection to the node, so that its end is not reported. A shell in
// the container therefore writes the exit code as the last line of stderr, after a random text.

/** Script for `sh -c`: `$0` is the text, the arguments are the program. */
const reportScript = 'env "$@"; code=$?; echo "$0$code" >&2; exit "$code"';

/** The command that runs `argv` and reports its exit code after `text`. The container needs `sh` and `env`. */
export function withExitReport(argv: readonly string[], text: string): readonly string[] {
  return ['sh', '-c', reportScript, text, ...argv];
}

/** Length of a report after the text: up to three digits (exit codes end at 255) and a line end. */
const maxReportLength = 4;

/** Separates the report from stderr. `text` is the one of `withExitReport`. Holds back bytes that may be a report. */
export function createReportReader(text: string) {
  const marker = Buffer.from(text);
  let heldBack: Buffer = Buffer.alloc(0);
  let code: number | undefined;
  return {
    take(bytes: Uint8Array): Buffer {
      const all = Buffer.concat([heldBack, bytes]);
      let at = all.indexOf(marker);
      for (; at >= 0; at = all.indexOf(marker, at + 1)) {
        const following = all.toString('latin1', at + marker.length, at + marker.length + maxReportLength);
        const [report, digits] = /^(\d{1,3})\n/.exec(following) ?? [];
        if (report !== undefined) {
          code = Number(digits);
          heldBack = Buffer.alloc(0);
          return Buffer.concat([all.subarray(0, at), all.subarray(at + marker.length + report.length)]);
        }
        // The program can read the text in its environment and print it, with anything after it.
        if (following.length < maxReportLength && /^\d*$/.test(following)) break;
      }
      let from = at;
      for (let length = Math.min(marker.length - 1, all.length); from < 0 && length > 0; length -= 1) {
        if (marker.subarray(0, length).equals(all.subarray(all.length - length))) from = all.length - length;
      }
      heldBack = from < 0 ? Buffer.alloc(0) : all.subarray(from);
      return from < 0 ? all : all.subarray(0, from);
    },
    rest() {
      const bytes = heldBack;
      heldBack = Buffer.alloc(0);
      return bytes;
    },
    code: () => code,
  };
}
