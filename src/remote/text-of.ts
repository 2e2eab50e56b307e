// A thrown value in words; apart from what starts processes, which a short command need not load.

/** A thrown value in words. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
