// Given: fields that are there only when something was said. With exactOptionalPropertyTypes a field that is undefined is not
// the same as one that is absent, and spread over another it would wipe that out.

/** The fields that hold something: those that are undefined are left out. */
export function given<T extends object>(fields: T): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
