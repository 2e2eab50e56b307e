// Job numbers: an id as the number that its rows have, and back.

/** `42` of `000042`; undefined for what is no id. */
export function numberOf(id: string): number | undefined {
  return /^\d{6,}$/.test(id) ? Number(id) : undefined;
}

/** `000042` of 42. */
export function idOf(number: number): string {
  return String(number).padStart(6, '0');
}
