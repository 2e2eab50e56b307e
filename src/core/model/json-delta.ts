// JSON delta: what turns one JSON value into another, so that a series of similar values is stored compactly.

export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json;
}

/** `[]` removes the value, `[value]` replaces it, an object changes the named fields of an object or list. */
export type Delta = readonly [] | readonly [Json] | { readonly [key: string]: Delta };

/** Undefined if they are equal. The order of fields does not count. */
export function deltaOf(from: Json, to: Json): Delta | undefined {
  if (Object.is(from, to)) return undefined;
  if (!isStructure(from) || !isStructure(to) || Array.isArray(from) !== Array.isArray(to)) return [to];
  const [before, after] = [new Map(Object.entries(from)), new Map(Object.entries(to))];
  const changes: [string, Delta][] = [];
  for (const [key, value] of before) {
    const next = after.get(key);
    const change = next === undefined ? ([] as const) : deltaOf(value, next);
    if (change !== undefined) changes.push([key, change]);
  }
  for (const [key, value] of after) if (!before.has(key)) changes.push([key, [value]]);
  return changes.length === 0 ? undefined : Object.fromEntries(changes);
}

/** Undefined if the delta removes the value. Throws if the delta does not fit. */
export function applyDelta(value: Json | undefined, delta: Delta): Json | undefined {
  if (isLeaf(delta)) return delta[0];
  if (value === undefined || !isStructure(value)) throw new Error('a delta changes fields of a value that has none');
  const fields = new Map(Object.entries(value));
  for (const [key, change] of Object.entries(delta)) {
    const next = applyDelta(fields.get(key), change);
    if (next === undefined) fields.delete(key);
    else fields.set(key, next);
  }
  return Array.isArray(value) ? [...fields.values()] : Object.fromEntries(fields);
}

function isStructure(value: Json): value is readonly Json[] | JsonObject {
  return typeof value === 'object' && value !== null;
}

export function isLeaf(delta: Delta): delta is readonly [] | readonly [Json] {
  return Array.isArray(delta);
}
