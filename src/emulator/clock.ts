import type { EmulatorClock } from './contract.ts';

/** The machine's own time. A waiting timer keeps the process alive, because the emulator still has an event to run. */
export const wallClock: EmulatorClock = {
  now: () => Date.now(),
  after(length, call) {
    // setTimeout takes 31 bits. A longer wait ends early, and the caller checks the time again.
    const timer = setTimeout(call, Math.min(Math.max(0, length), 2 ** 31 - 1));
    return () => clearTimeout(timer);
  },
};
