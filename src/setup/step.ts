// Step: the common shape of the pieces of setup, and the key that their proofs carry.

import { createHash } from 'node:crypto';
import type { SetupStep, StepFile } from '../core/spec.ts';
import type { Duration } from '../core/time.ts';

/** A step whose key covers its texts and the files that travel with it. Of files that stay here until needed, only the name. */
export function step(given: {
  readonly name: string;
  readonly check: string | null;
  readonly apply: string;
  readonly files?: readonly StepFile[];
  readonly timeout: Duration;
}): SetupStep {
  const { name, check, apply, files = [], timeout } = given;
  return { name, key: keyOf([name, check, apply, files]), check, apply, files, timeout };
}

/** Sixteen hexadecimal digits that change when any of the values does. */
export function keyOf(values: unknown): string {
  return createHash('sha256').update(JSON.stringify(values)).digest('hex').slice(0, 16);
}
