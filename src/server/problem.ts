// The problem document of an error (RFC 9457).

import { STATUS_CODES } from 'node:http';
import { basename } from 'node:path';
import type { Problem } from '../api/problem.ts';
import { exitCode, reworded, type ErrorCode, type JobmanError } from '../app/errors.ts';

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

/** For users who are no admins: a file below the folders has its name only, and a next step with such a path is for an admin. */
export function withoutPaths(error: JobmanError, folders: readonly string[]): JobmanError {
  if (folders.length === 0) return error;
  const path = new RegExp(`(?:${folders.map((one) => RegExp.escape(one)).join('|')})(?![\\w-])[^\\s'",;:()]*`, 'g');
  const hide = (text: string): string => text.replaceAll(path, (found) => basename(found));
  const message = hide(error.message);
  const lines = error.lines.filter((line) => line === hide(line));
  if (message === error.message && lines.length === error.lines.length) return error;
  return reworded(error, {
    message,
    lines: [...lines, 'An admin of the server finds the cause: jobman doctor, on its machine'],
  });
}

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
