import type { EmulatorClock } from './contract.ts';

/** The machine's own time. A waiting timer keeps the process alive: a cloud with something due is not at rest. */
export const wallClock: EmulatorClock = {
  now: () => Date.now(),
  after(length, call) {
    // setTimeout counts in 31 bits; whoever waits longer is woken early and looks again.
    const timer = setTimeout(call, Math.min(Math.max(0, length), 2 ** 31 - 1));
    return () => clearTimeout(timer);
  },
};
