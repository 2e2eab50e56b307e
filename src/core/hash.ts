// Hash: chance without chance. The core may not roll dice, so what must differ between jobs (the moment at which a
// thousand of them ask again) is derived from what they are called.

/** A number in [0, 1) that depends on nothing but these words: FNV-1a over their characters, then mixed. */
export function fraction(...words: readonly (string | number)[]): number {
  let hash = 0x811c9dc5;
  for (const character of words.join('/')) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  }
  // FNV leaves the high bits of short, similar words alike; this spreads them.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 0x1_0000_0000;
}
