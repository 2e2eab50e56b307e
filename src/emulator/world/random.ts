export interface RandomStream {
  /** At least 0, less than 1. */
  next(): number;
  between(low: number, high: number): number;
  hex(digits: number): string;
  /** Stored with the state, so that a restart continues the stream. */
  readonly position: number;
}

/** The generator is mulberry32; `position` is its 32-bit state. */
export function createRandomStream(position: number): RandomStream {
  let state = position >>> 0;
  const random: RandomStream = {
    next() {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    },
    between: (low, high) => low + Math.floor(random.next() * (high - low + 1)),
    hex(digits) {
      let text = '';
      while (text.length < digits) text += Math.floor(random.next() * 16).toString(16);
      return text;
    },
    get position() {
      return state;
    },
  };
  return random;
}
