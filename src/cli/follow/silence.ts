// Silences between the lines of a log: a worker from which nothing comes while the others go on, or all of them.

import type { WorkerView } from '../../app/client.ts';
import { lengthText, workerText } from '../../app/figures.ts';
import { minute, second, type Duration } from '../../core/time.ts';
import { workersLabel } from '../logs/fold.ts';

/** Says what is worth a row now, given how old each worker's newest line is; nothing for what it has said already. */
export type Silences = (workers: readonly WorkerView[]) => readonly string[];

/** A worker is unlike the others when nothing came from it for this long, and for so many times as long as from them. */
const oddAfter: Duration = 45 * second;
const oddTimes = 3;
/** All of them may think for a while. */
const allAfter: Duration = 5 * minute;

interface Silence {
  readonly who: string;
  readonly isOfAll: boolean;
  length: Duration;
}

/** Remembers who is silent. A worker that never printed anything is none of it: it may have nothing to say. */
export function createSilences(): Silences {
  let told: Silence | undefined;
  /** A silence that was over once is how this program works: only a much longer one is news. */
  const patience = { odd: oddAfter, all: allAfter };

  function end(): readonly string[] {
    if (told === undefined) return [];
    const { who, isOfAll, length } = told;
    told = undefined;
    patience[isOfAll ? 'all' : 'odd'] = Math.max(patience[isOfAll ? 'all' : 'odd'], 2 * length);
    return [`${who} printed again after ${lengthText(length)}`];
  }

  return (workers) => {
    const heard = workers.flatMap(({ worker, logAgeMs }) => (logAgeMs === null ? [] : [{ worker, age: logAgeMs }]));
    const youngest = Math.min(...heard.map(({ age }) => age));
    const isOfAll = heard.length > 0 && youngest >= patience.all;
    const silent = heard.filter(({ age }) => isOfAll || (age >= patience.odd && age >= oddTimes * youngest));
    const [first] = silent;
    if (first === undefined) return end();

    const length = Math.min(...silent.map(({ age }) => age));
    const who =
      silent.length === 1 ? workerText(first.worker) : `workers ${workersLabel(silent.map(({ worker }) => worker))}`;
    if (told?.who === who && told.isOfAll === isOfAll) {
      told.length = length;
      return [];
    }
    told = { who, isOfAll, length };
    const others = heard.filter((one) => !silent.includes(one)).map(({ age }) => age);
    return [`nothing from ${who} for ${lengthText(length)}${othersText(others)}`];
  };
}

/** `, from the others 4s to 12s ago`. */
function othersText(ages: readonly Duration[]): string {
  if (ages.length === 0) return '';
  const [least, most] = [lengthText(Math.min(...ages)), lengthText(Math.max(...ages))];
  return `, from the others ${least === most ? least : `${least} to ${most}`} ago`;
}
