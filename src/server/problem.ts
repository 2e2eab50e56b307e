// The problem document of an error (RFC 9457).

import { STATUS_CODES } from 'node:http';
import type { Problem } from '../api/problem.ts';
import { exitCode, type ErrorCode, type JobmanError } from '../app/errors.ts';

const statuses: Readonly<Record<number, number>> = {
  [exitCode.usage]: 400,
  [exitCode.notFound]: 404,
  [exitCode.conflict]: 409,
  [exitCode.unreachable]: 503,
};

const codeStatuses: Partial<Readonly<Record<ErrorCode, number>>> = {
  forbidden: 403,
  unauthenticated: 401,
  changed: 412,
};

/** `status` replaces the one that follows from the exit code. */
export function toProblem(error: JobmanError, status?: number): Problem {
  const { message, code, errorCode, lines, problems, reasons, refusedFor, retryAfter } = error;
  const ownStatus = status ?? codeStatuses[errorCode] ?? statuses[code] ?? 500;
  return {
    type: 'about:blank',
    title: STATUS_CODES[ownStatus] ?? '',
    status: ownStatus,
    detail: message,
    code: errorCode,
    exitCode: code,
    lines,
    problems,
    reasons,
    refusedFor,
    retryAfter,
  };
}
