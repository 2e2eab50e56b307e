// Form: whether the answer of a server has the types that its fields are read with. A server that is not what it should be may answer
// with anything, and a value of another type would end a command, or a controller's look, as a mistake of our own.

/** A JSON type, a list of a form, or an object by its fields; `*` is every field that is not named. Other fields may be anything. */
export type Form = 'string' | 'number' | 'boolean' | readonly [Form] | { readonly [field: string]: Form };

/** By these fields a thing is known, so that none may be missing. */
const needed = ['name', 'digest'];

/** True if the value has that form. A field of an object may be missing, except `name` and `digest`; with `nulls` it may be null as well. */
export function fits(value: unknown, form: Form, nulls = false): boolean {
  if (typeof form === 'string') return typeof value === form;
  if (isList(form)) return Array.isArray(value) && value.every((one) => fits(one, form[0], nulls));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  if (needed.some((field) => form[field] !== undefined && !Object.hasOwn(value, field))) return false;
  return Object.entries(value).every(([field, part]) => {
    const wanted = Object.hasOwn(form, field) ? form[field] : form['*'];
    const isMissing = wanted === undefined || (nulls && part === null && !needed.includes(field));
    return isMissing || fits(part, wanted, nulls);
  });
}

function isList(form: Exclude<Form, string>): form is readonly [Form] {
  return Array.isArray(form);
}
