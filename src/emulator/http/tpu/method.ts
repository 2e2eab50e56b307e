// The shape of an API method: from a call and its target to a reply.

import { badField, type CloudError } from '../../wire/errors.ts';
import type { Writing } from '../../wire/json.ts';
import type { ApiVersion, Data } from '../../wire/messages.ts';
import type { Asked } from '../../world/node-requests.ts';
import type { World } from '../../world/world.ts';

export interface Call {
  readonly version: ApiVersion;
  readonly method: string;
  /** The segments after the version, decoded. */
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
  /** The parsed body; undefined when there is none. */
  readonly body: unknown;
}

/** `<HTTP method> <collection>[/id][:custom verb]` to a method. */
export type Methods = Readonly<Record<string, Method>>;

export interface Method {
  readonly versions: readonly ApiVersion[];
  readonly query?: readonly string[];
  readonly changes?: true;
  answer(world: World, target: Target, call: Call, writing: Writing): Data;
}

export interface Target extends Asked {
  readonly collection: string;
  readonly id: string;
  readonly name: string;
}

export const both: readonly ApiVersion[] = ['v2', 'v2alpha1'];
export const all: readonly ApiVersion[] = ['v1', ...both];
export const alpha: readonly ApiVersion[] = ['v2alpha1'];
export const page = ['pageSize', 'pageToken'];

/** The refusal of a parameter that the method does not have. */
export function unknownParameter(name: string): CloudError {
  return badField(
    '',
    `Invalid JSON payload received. Unknown name "${name}": Cannot bind query parameter. ` +
      `Field '${name}' could not be found in request message.`,
  );
}
