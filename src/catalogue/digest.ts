// Digest: the name of a blob, which is the same on every machine.

import { createHash } from 'node:crypto';

/**
 * `sha256:` and the SHA-256 of a content in 64 hexadecimal digits.
 * @pattern ^sha256:[0-9a-f]{64}$
 */
export type Digest = `sha256:${string}`;

/** False for another text that a client has sent. */
export function isDigest(text: string): boolean {
  return /^sha256:[0-9a-f]{64}$/.test(text);
}

export function digestOf(content: Uint8Array): Digest {
  return `sha256:${createHash('sha256').update(content).digest('hex')}`;
}
