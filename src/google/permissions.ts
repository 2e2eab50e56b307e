// The permissions that a login has in a project.
// Reference: https://docs.cloud.google.com/resource-manager/reference/rest/v1/projects/testIamPermissions

import { exitCode, JobmanError } from '../app/errors.ts';
import type { GoogleApi } from '../app/google.ts';
import { matchesShape } from '../app/json.ts';
import { explainRefusal } from '../app/refusal.ts';

/** Those of `permissions` that the login lacks. Needs no permission itself. Throws JobmanError without an answer. */
export async function missingPermissions(
  api: GoogleApi,
  project: string,
  permissions: readonly string[],
): Promise<readonly string[]> {
  const path = `v1/projects/${encodeURIComponent(project)}:testIamPermissions`;
  const answer = await api.call<{ readonly permissions?: readonly string[] }>('POST', path, { permissions });
  if (!answer.ok) {
    const { message, fix } = explainRefusal(answer.error, {
      project,
      service: 'cloudresourcemanager.googleapis.com',
      needed: null,
    });
    throw new JobmanError(`${project}: ${message}`, exitCode.unreachable, fix === null ? [] : [fix]);
  }
  if (!matchesShape(answer.value, { permissions: ['string'] }))
    throw new JobmanError(`${project}: the answer has an unexpected form`, exitCode.unreachable);
  const { permissions: held = [] } = answer.value;
  return permissions.filter((one) => !held.includes(one));
}
