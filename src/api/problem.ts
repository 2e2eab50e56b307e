// Problem documents (RFC 9457): a JobmanError as the body of a response. The server writes them: src/server/problem.ts.

import { JobmanError, type ErrorCode, type ManifestProblem } from '../app/errors.ts';

export const problemType = 'application/problem+json';

export interface Problem {
  readonly type: 'about:blank';
  /** The reason phrase of the status. */
  readonly title: string;
  readonly status: number;
  /** The message of the error. The members below are its other fields. */
  readonly detail: string;
  readonly code: ErrorCode;
  readonly exitCode: number;
  readonly lines: readonly string[];
  readonly problems: readonly ManifestProblem[];
  readonly reasons: readonly string[];
  readonly refusedFor: string | null;
  /** After this number of seconds the same request may succeed. Set if the server, a database or a cloud was not available. */
  readonly retryAfter: number | null;
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
