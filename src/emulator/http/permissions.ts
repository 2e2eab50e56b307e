/**
 * `testIamPermissions` of a project: every permission but those that the verb `permission` denies.
 * Reference: https://docs.cloud.google.com/resource-manager/reference/rest/v1/projects/testIamPermissions
 */
import { conditionsOf } from '../world/faults.ts';
import type { ParsedCall } from './tpu/parse-call.ts';

/** Undefined for another call. The path begins with the version. */
export function parsePermissionsCall(method: string, path: readonly string[], body: unknown): ParsedCall | undefined {
  const [version, projects, target = '', ...rest] = path;
  const [project = '', verb] = target.split(':');
  if (method !== 'POST' || version !== 'v1' || projects !== 'projects' || verb !== 'testIamPermissions')
    return undefined;
  if (rest.length > 0) return undefined;
  const { permissions = [] } = (body ?? {}) as { readonly permissions?: readonly unknown[] };
  return {
    project,
    zone: undefined,
    collection: 'projects',
    verb,
    permission: '',
    changes: false,
    resource: `projects/${project}`,
    answer(world) {
      const denied = new Set(conditionsOf(world, 'permission').map((condition) => condition.target));
      const held = permissions.filter((one) => !denied.has(String(one)));
      return held.length === 0 ? {} : { permissions: held };
    },
  };
}
