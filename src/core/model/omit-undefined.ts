// With exactOptionalPropertyTypes an undefined field is not an absent one: spreading it overwrites the existing value.

/** The fields without those that are undefined. */
export function omitUndefined<T extends object>(fields: T): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
