// Wake-ups of the database's kind: `Store.notify` and `Store.listen`. A database in memory has no other process.

import { dirname } from 'node:path';
import type { Store } from '../app/ports.ts';
import { inMemory } from './sqlite.ts';

/** Loads the wake folder on first use, because reading commands need none. */
export function wakeUpsOf(file: string): Pick<Store, 'notify' | 'listen'> {
  const home = dirname(file);
  return {
    async notify(wakeUp) {
      if (file !== inMemory) (await import('./wake-folder.ts')).notify(home, wakeUp);
    },
    listen: async (receive) => (await import('./wake-folder.ts')).listen(home, receive),
  };
}
