// The outcome of an action, from the outcome of its call. "It did not happen" and "nobody knows" are separated here.

import { isPermanent } from '../../core/allocate.ts';
import type { CloudError } from '../../core/job.ts';
import type { OutcomeResult } from '../../core/observation.ts';
import type { Answer } from './call.ts';
import { classify } from './errors.ts';
import type { StatusBody } from './errors.ts';

export const done: OutcomeResult = { kind: 'done' };

/** Errors after which a change may have been made all the same: the cloud failed while it was at it, or the reply was lost. */
const mayHaveHappened = ['NO_ANSWER', 'INTERNAL', 'UNKNOWN', 'DEADLINE_EXCEEDED', 'UNAVAILABLE'];

/** Of a call that changes something. */
export function outcomeOf(answer: Answer<unknown>): OutcomeResult {
  if (answer.ok) return done;
  if (mayHaveHappened.includes(answer.status)) return couldNotTell(answer);
  return isPermanent(answer.error.kind) ? refused(answer.error) : failed(answer.error);
}

/** Of an operation that has ended with this error: the cloud itself says that it did not happen. */
export function refusedBy(body: StatusBody): OutcomeResult {
  const error = classify(body);
  return isPermanent(error.kind) ? refused(error) : failed(error);
}

export function refused(error: CloudError): OutcomeResult {
  return { kind: 'refused', evidence: evidenceOf(error), error };
}

export function failed(error: CloudError): OutcomeResult {
  return { kind: 'failed', evidence: evidenceOf(error), error };
}

/** Only a look can tell. */
export function couldNotTell({ error }: { readonly error: CloudError }): OutcomeResult {
  return { kind: 'unclear', evidence: evidenceOf(error) };
}

function evidenceOf({ message, raw }: CloudError): { readonly detail: string; readonly raw: string } {
  return { detail: message, raw };
}
