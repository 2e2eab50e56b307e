// Exec status: how a program in a container ended, as the cluster reports it on the channel of status.

import type { SessionEnd } from '../../app/by-hand.ts';
import { fits, type Form } from '../../app/form.ts';

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
