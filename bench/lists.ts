// Lists: how often the cloud is asked what there is in a zone, with one job that runs there and with many. The questions of
// the real controller are counted in a pretended world, so the numbers are the same on every machine.

import { minute } from '../src/core/time.ts';
import { openPretended } from './pretended.ts';
import type { Result } from './result.ts';

const counts = [1, 50, 1_000];
const minutes = 10;
/** Looks of all jobs come together on a beat of five seconds, however many there are; a few of a beginning come on top. */
const most = 15;

export async function measureLists(): Promise<readonly Result[]> {
  const results: Result[] = [];
  for (const count of counts) {
    const { timeline, looks, close } = await openPretended(count, { linesDrop: true });
    const before = looks();
    await timeline.play(timeline.now + minutes * minute, () => false);
    const each = (looks() - before) / minutes;
    await close();
    results.push({
      what: `lists of a zone in a minute, ${count.toLocaleString('en')} running jobs there`,
      measured: each.toFixed(1),
      budget: String(most),
      beside: `${minutes} pretended minutes; one by one they would be ${count * 3}`,
      isKept: each <= most,
    });
  }
  return results;
}
