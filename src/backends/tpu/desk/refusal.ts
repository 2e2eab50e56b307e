// How a refusal of the cloud is told to whoever asked for something.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { isPermanent } from '../../../core/allocate.ts';
import type { CloudError } from '../../../core/job.ts';
import type { Place, TpuApi } from '../api.ts';
import { classify } from '../errors.ts';

/** Why an operation has failed; undefined while it is under way, when it went well, and when nobody can tell. */
export async function failureOf(api: TpuApi, place: Place, operation: string): Promise<CloudError | undefined> {
  const answer = await api.getOperation(place, operation);
  if (!answer.ok || answer.value.done !== true || answer.value.error === undefined) return undefined;
  return classify(answer.value.error);
}

/** The change that was not made, in the cloud's words. */
export function refusedBy(what: string, error: CloudError): JobmanError {
  const hint = isPermanent(error.kind) ? [] : ['Later may be better; nothing waits for it.'];
  const code = error.kind === 'unreachable' ? exitCode.unreachable : exitCode.failed;
  return new JobmanError(`${what}: ${error.message}.`, code, [error.raw, ...hint]);
}
