// Gather writes: what is written in one go goes out in one go.

import type { Writable } from 'node:stream';

/**
 * Makes a stream hold what is written to it until the code that writes has come to its end, and send it as one. The SSH
 * library writes each of its packets by itself, and a relay each frame; on a socket every one of them is a call of the
 * kernel here and a wakeup there.
 */
export function gatherWrites(stream: Writable): void {
  const write = stream.write.bind(stream) as (...words: readonly unknown[]) => boolean;
  let isHeld = false;
  stream.write = (...words: readonly unknown[]): boolean => {
    if (!isHeld) {
      isHeld = true;
      stream.cork();
      queueMicrotask(() => {
        isHeld = false;
        stream.uncork();
      });
    }
    return write(...words);
  };
}
