// The offset of the last lines of a file.

import type { FileHandle } from 'node:fs/promises';

const blockSize = 64 * 1024;

/** The offset at which the last `lines` lines begin; the file's end for none. Reads from the end and no more than needed. */
export async function offsetOfLast(file: FileHandle, lines: number): Promise<number> {
  const { size } = await file.stat();
  if (lines === 0) return size;
  let found = 0;
  const block = Buffer.alloc(blockSize);
  for (let end = size; end > 0;) {
    const from = Math.max(0, end - blockSize);
    const { bytesRead } = await file.read(block, 0, end - from, from);
    for (let at = bytesRead - 1; at >= 0; at -= 1) {
      // The newline at the very end closes the last line and begins none.
      if (block[at] !== 10 || from + at === size - 1) continue;
      found += 1;
      if (found === lines) return from + at + 1;
    }
    end = from;
  }
  return 0;
}
