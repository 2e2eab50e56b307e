/** All chance of the emulator: a stream of numbers that its seed alone decides. */
export interface Chance {
  /** At least 0, less than 1. */
  next(): number;
  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number;
  /** That many lower-case hexadecimal digits. */
  hex(digits: number): string;
  /** Kept with the state, so that the stream goes on after a restart instead of repeating itself. */
  readonly position: number;
}

/** The generator is mulberry32: 32 bits of state, which is also the position that `position` gives. */
export function createChance(position: number): Chance {
  let state = position >>> 0;
  const chance: Chance = {
    next() {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    },
    between: (low, high) => low + Math.floor(chance.next() * (high - low + 1)),
    hex(digits) {
      let text = '';
      while (text.length < digits) text += Math.floor(chance.next() * 16).toString(16);
      return text;
    },
    get position() {
      return state;
    },
  };
  return chance;
}
