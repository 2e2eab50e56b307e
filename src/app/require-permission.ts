// Require permission: the refusal of an actor as an error.

import type { Actor, UserName } from '../core/model/user.ts';
import { checkPermission, type JobOperation } from '../core/policy/permissions.ts';
import { exitCode, JobmanError } from './errors.ts';
import { capitalize } from './format.ts';

/** By the role alone, for any state of the job. Throws JobmanError (4, `forbidden`). */
export function requirePermission(
  job: Parameters<typeof checkPermission>[0],
  operation: JobOperation,
  actor: Actor,
  onBehalfOf?: UserName,
): void {
  const check = checkPermission(job, operation, actor, onBehalfOf);
  if (check.answer !== 'allow') throw forbiddenError(check.message, job.owner);
}

/** The message is a sentence without its full stop, as in `ActionAnswer`. */
export function forbiddenError(message: string, refusedFor?: UserName): JobmanError {
  const details = { errorCode: 'forbidden', ...(refusedFor === undefined ? {} : { refusedFor }) } as const;
  return new JobmanError(`${capitalize(message)}.`, exitCode.conflict, [], details);
}
