// Require permission: the refusal of an actor as an error.

import type { Actor, UserName } from '../core/model/user.ts';
import {
  checkPermission,
  permittedOwners,
  type GeneralOperation,
  type JobOperation,
} from '../core/policy/permissions.ts';
import { exitCode, JobmanError } from './errors.ts';
import { capitalize } from './format.ts';

/** Checks the role alone, whatever the state of the job. Throws JobmanError (4, `forbidden`). */
export function requirePermission(
  job: Parameters<typeof checkPermission>[0],
  operation: JobOperation,
  actor: Actor,
  onBehalfOf?: UserName,
): void {
  const check = checkPermission(job, operation, actor, onBehalfOf);
  if (check.answer !== 'allow') throw forbiddenError(check.message, job.owner);
}

/** `what` completes the sentence of the refusal. Throws JobmanError (4, `forbidden`). */
export function requireGeneral(actor: Actor, operation: GeneralOperation, what: string): void {
  if (permittedOwners(actor, operation) === null) return;
  throw forbiddenError(`your role is ${actor.role}, which may not ${what}`);
}

/** The message is a sentence without its full stop, as in `ActionAnswer`. */
export function forbiddenError(message: string, refusedFor?: UserName): JobmanError {
  const details = { errorCode: 'forbidden', ...(refusedFor === undefined ? {} : { refusedFor }) } as const;
  return new JobmanError(`${capitalize(message)}.`, exitCode.conflict, [], details);
}
