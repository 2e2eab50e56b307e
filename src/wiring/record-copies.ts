// The copy of the record that there is to go back to: made while a controller runs, so that no command waits for it.

import type { Clock } from '../app/ports.ts';
import { hour, second, type Duration } from '../core/time.ts';
import { backUp } from '../store/backup.ts';

/** First the jobs that wait for this controller, then the copy. */
const afterBegin: Duration = second;
/** How often it is asked whether the copy has grown old; `backUp` says how old that is. */
const askEvery: Duration = hour;

/** Keeps a copy of that record between `begin` and `end`. What goes wrong is said and tried again an hour later. */
export function keepCopies(parts: {
  readonly file: string;
  readonly clock: Clock;
  readonly warn: (line: string) => void;
}): { readonly begin: () => void; readonly end: () => void } {
  const { file, clock, warn } = parts;
  let callOff: (() => void) | null = null;

  const plan = (wait: Duration): void => {
    callOff?.();
    callOff = clock.at(clock.now() + wait, () => void copy());
  };
  const copy = async (): Promise<void> => {
    try {
      await backUp(file, clock.now());
    } catch (error) {
      warn(`no copy of the record was made: ${error instanceof Error ? error.message : String(error)}`);
    }
    if (callOff !== null) plan(askEvery);
  };

  return {
    begin: () => plan(afterBegin),
    end() {
      callOff?.();
      callOff = null;
    },
  };
}
