// How long things take in Google's cloud, in milliseconds of its time: seen in public logs of launchers, and in Google's pages.

import type { Duration } from '../../core/time.ts';
import type { World } from './world.ts';

const times = {
  create: [80_000, 120_000],
  stockout: [20_000, 60_000],
  remove: [30_000, 60_000],
  update: [2_000, 6_000],
  stop: [30_000, 60_000],
  reset: [200_000, 280_000],
  maintenance: [120_000, 240_000],
  // No source tells it for a TPU VM: what a virtual machine there takes from its own `reboot` until sshd answers.
  reboot: [30_000, 60_000],
  preemptibleAge: [24 * 3_600_000, 24 * 3_600_000],
  'queued-accept': [4_000, 8_000],
  'queued-wait': [15_000, 40_000],
  'queued-suspend': [60_000, 90_000],
  'queued-refuse': [1_500, 2_000],
  'queued-remove': [60_000, 120_000],
} as const satisfies Record<string, readonly [atLeast: Duration, atMost: Duration]>;

/** A length of that kind here and now: between the two, and divided by the speed. */
export function takes(world: World, what: keyof typeof times): Duration {
  const [atLeast, atMost] = times[what];
  return world.pace(atLeast, atMost);
}
