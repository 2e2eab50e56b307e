// Given: fields that are there only when something was said. With exactOptionalPropertyTypes an undefined field is not the
// same as an absent one: spreading it would overwrite the value that is already there.

/** The fields that hold something: those that are undefined are left out. */
export function given<T extends object>(fields: T): { readonly [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
