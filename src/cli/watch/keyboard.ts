// The keyboard of somebody who watches.

import type { Input } from '../../app/services.ts';
import type { Duration } from '../../core/time.ts';
import { pause } from '../leave.ts';
import { keysOf } from './keys.ts';

export interface Keyboard {
  /** Keys that were pressed since the last call. */
  take(): readonly string[];
  /** Resolves when a key was pressed. */
  pressed(): Promise<void>;
  /** Keys go elsewhere until the returned function is called. */
  divert(to: (key: string) => void): () => void;
  close(): void;
}

/** Every key is heard, unseen, until it is closed. */
export function listen(input: Pick<Input, 'keys'>): Keyboard {
  let waiting: string[] = [];
  let tell: (() => void) | undefined;
  let elsewhere: ((key: string) => void) | undefined;
  const close = input.keys((typed) => {
    for (const key of keysOf(typed)) {
      if (elsewhere === undefined) waiting.push(key);
      else elsewhere(key);
    }
    tell?.();
  });
  return {
    take() {
      const taken = waiting;
      waiting = [];
      return taken;
    },
    pressed: () =>
      new Promise((resolve) => {
        if (waiting.length > 0) resolve();
        else tell = resolve;
      }),
    divert(to) {
      elsewhere = to;
      return () => {
        elsewhere = undefined;
      };
    },
    close,
  };
}

/** Waits so long, or until a key is pressed or the user has left. */
export async function nextKeys(
  keyboard: Keyboard | undefined,
  length: Duration,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const enough = new AbortController();
  const rest = pause(length, AbortSignal.any([signal, enough.signal]));
  await (keyboard === undefined ? rest : Promise.race([rest, keyboard.pressed()]));
  enough.abort();
  return keyboard?.take() ?? [];
}
