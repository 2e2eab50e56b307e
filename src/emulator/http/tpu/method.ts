import { invalidField, type CloudError } from '../../wire/errors.ts';
import type { EncodeOptions } from '../../wire/json.ts';
import type { ApiVersion, Data } from '../../wire/messages.ts';
import type { RequestScope } from '../../world/node-requests.ts';
import type { World } from '../../world/world.ts';

export interface Call {
  readonly version: ApiVersion;
  readonly method: string;
  /** The decoded segments after the version. */
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
  readonly body: unknown;
}

/** Methods by `<HTTP method> <collection>[/id][:custom verb]`. */
export type Methods = Readonly<Record<string, Method>>;

export interface Method {
  readonly versions: readonly ApiVersion[];
  readonly query?: readonly string[];
  readonly changes?: true;
  answer(world: World, target: Target, call: Call, writing: EncodeOptions): Data;
}

export interface Target extends RequestScope {
  readonly collection: string;
  readonly id: string;
  readonly name: string;
}

export const v2Versions: readonly ApiVersion[] = ['v2', 'v2alpha1'];
export const allVersions: readonly ApiVersion[] = ['v1', ...v2Versions];
export const alphaVersions: readonly ApiVersion[] = ['v2alpha1'];
export const pageParameters = ['pageSize', 'pageToken'];

export function unknownParameter(name: string): CloudError {
  return invalidField(
    '',
    `Invalid JSON payload received. Unknown name "${name}": Cannot bind query parameter. ` +
      `Field '${name}' could not be found in request message.`,
  );
}
