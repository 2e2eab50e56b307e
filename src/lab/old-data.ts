// Values in the files of earlier programs. A value of another form than expected counts as absent.

export type Json = Readonly<Record<string, unknown>>;

/** Undefined for a list, null, or any other value. */
export function asObject(value: unknown): Json | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined;
}

export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asText(value: unknown): string | null {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value.trim() !== '' ? value.trim() : null;
}

/** A whole number from 0, also as a text. */
export function asInteger(value: unknown): number | null {
  const text = asText(value);
  return text !== null && /^\d{1,9}$/.test(text) ? Number(text) : null;
}

export function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined || value === '') return true;
  return typeof value === 'object' && Object.keys(value).length === 0;
}
