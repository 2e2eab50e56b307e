// What was thrown, in words; apart from what starts processes, which a short command need not load.

/** What was thrown, as words. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
