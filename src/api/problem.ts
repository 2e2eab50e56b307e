// Problem documents (RFC 9457): a JobmanError as the body of an answer, and back.

import { STATUS_CODES } from 'node:http';
import { exitCode, JobmanError, type ErrorCode, type ManifestProblem } from '../app/errors.ts';

export const problemType = 'application/problem+json';

export interface Problem {
  readonly type: 'about:blank';
  /** The phrase of the status. */
  readonly title: string;
  readonly status: number;
  /** The message of the error. The members below are its other parts. */
  readonly detail: string;
  readonly code: ErrorCode;
  readonly exitCode: number;
  readonly lines: readonly string[];
  readonly problems: readonly ManifestProblem[];
  readonly reasons: readonly string[];
  readonly refusedFor: string | null;
  /** In seconds, if a part that is needed does not answer now: the same request may succeed then. */
  readonly retryAfter: number | null;
}

const statuses: Readonly<Record<number, number>> = {
  [exitCode.usage]: 400,
  [exitCode.notFound]: 404,
  [exitCode.conflict]: 409,
  [exitCode.unreachable]: 503,
};

const codeStatuses: Partial<Readonly<Record<ErrorCode, number>>> = { forbidden: 403, changed: 412 };

/** `status`: instead of the one that follows from the exit code. */
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

/** The error of a document; undefined if the value is not such a document. */
export function fromProblem(value: unknown): JobmanError | undefined {
  const {
    detail,
    exitCode: code,
    code: errorCode,
    lines,
    problems,
    reasons,
    refusedFor,
    ...rest
  } = value as Partial<Problem>;
  if (typeof detail !== 'string' || typeof code !== 'number') return undefined;
  return new JobmanError(detail, code, lines, {
    ...(errorCode === undefined ? {} : { errorCode }),
    ...(problems === undefined ? {} : { problems }),
    ...(reasons === undefined ? {} : { reasons }),
    ...(typeof refusedFor === 'string' ? { refusedFor } : {}),
    ...(typeof rest.retryAfter === 'number' ? { retryAfter: rest.retryAfter } : {}),
  });
}
