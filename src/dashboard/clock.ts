// The current time, for ages on the page. It is the time of the server, because events have the time of the server.

import { signal } from '@preact/signals';
import { second, type Instant } from '../core/model/time.ts';
import { serverNow } from './live.ts';

export const now = signal<Instant>(Date.now());

/** Moves `now` every second while the page is visible. */
export function startClock(): void {
  const tick = (): void => {
    if (document.visibilityState === 'visible') now.value = serverNow();
  };
  setInterval(tick, second);
  document.addEventListener('visibilitychange', tick);
  tick();
}
