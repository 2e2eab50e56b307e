// The beginning of an output that may be longer than anybody wants.

export interface Kept {
  add(chunk: Uint8Array): void;
  bytes(): Uint8Array;
  /** True when more came than was kept. */
  isCut(): boolean;
}

/** Keeps the first bytes up to a limit. */
export function keepFirst(most: number): Kept {
  const chunks: Uint8Array[] = [];
  let length = 0;
  let cut = false;
  return {
    add(chunk) {
      const part = chunk.subarray(0, Math.max(0, most - length));
      cut ||= part.length < chunk.length;
      if (part.length > 0) chunks.push(part);
      length += part.length;
    },
    bytes: () => Buffer.concat(chunks),
    isCut: () => cut,
  };
}
