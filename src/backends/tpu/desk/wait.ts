// Waiting for what the cloud does: looks with pauses in between, until it is so, somebody interrupts, or it takes too long.

import { setTimeout as pause } from 'node:timers/promises';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { minute } from '../../../core/time.ts';
import type { Duration } from '../../../core/time.ts';
import type { Say } from '../../../lab/tpu-desk.ts';
import type { Place, TpuNode } from '../api.ts';
import { isNotThere } from '../errors.ts';
import type { ChangeParts } from './parts.ts';

/** How long something under way is waited for. Google makes a node in five minutes, deletes one in three. */
const waitMost: Duration = 20 * minute;

interface Wait {
  /** The state that an interrupted wait leaves, and the command that continues it. */
  readonly interrupted: string;
  readonly hint: string;
  readonly late: string;
  readonly most?: Duration;
  /** Throws where it can never be so. */
  readonly isSo: () => Promise<boolean>;
}

/** Throws JobmanError: 130 when interrupted, 1 when it takes longer than any cloud does. */
export async function untilTrue(
  lookEvery: Duration,
  signal: AbortSignal,
  { interrupted, hint, late, most = waitMost, isSo }: Wait,
): Promise<void> {
  const end = performance.now() + most;
  while (performance.now() < end) {
    if (signal.aborted) throw new JobmanError(`Interrupted: ${interrupted}.`, exitCode.interrupted, [hint]);
    if (await isSo()) return;
    await pause(lookEvery, undefined, { signal }).catch(() => undefined);
  }
  throw new JobmanError(`${late}, after ${most / minute} minutes.`, exitCode.failed, [hint]);
}

/** What ends a wait for a node: each answers whether it is so, and throws where it can never be. */
interface NodeWait extends Omit<Wait, 'isSo'> {
  readonly place: Place;
  readonly name: string;
  readonly there: (node: TpuNode, state: string) => boolean | Promise<boolean>;
  readonly absent: () => boolean | Promise<boolean>;
}

/** Waits for a node, and says its state whenever that is another. Throws as `untilTrue`. */
export function untilNode(
  { apiFor, lookEvery }: Pick<ChangeParts, 'apiFor' | 'lookEvery'>,
  say: Say,
  signal: AbortSignal,
  { place, name, there, absent, ...wait }: NodeWait,
): Promise<void> {
  const told = teller(say);
  return untilTrue(lookEvery, signal, {
    ...wait,
    isSo: async () => {
      const node = await apiFor(place.project).getNode(place, name);
      if (node.ok) {
        const state = (node.value.state ?? 'STATE_UNSPECIFIED').toLowerCase();
        told(`${name} is ${state}`);
        return there(node.value, state);
      }
      if (isNotThere(node)) return absent();
      told(`the cloud does not say how it is: ${node.error.raw}`);
      return false;
    },
  });
}

/** Says what is new only. */
export function teller(say: Say): Say {
  let last = '';
  return (line) => {
    if (line !== last) say(line);
    last = line;
  };
}
