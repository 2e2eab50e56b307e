// Messages: what interpolation says of a manifest. Every sentence answers an unknown value, which is silent from then on.

import type { Path } from '../../schema/kind.ts';
import { pathText, type Place, type Report } from '../../schema/problems.ts';
import type { Unknown } from '../../schema/tree.ts';

/** The place that asks for a value. */
export interface Site {
  readonly path: Path;
  readonly place: Place;
}

export interface Messages {
  /** Sends the sentences to this report from now on. */
  to(report: Report): void;
  readonly mistake: (site: Site, message: string, suggestion?: string) => Unknown;
  /** One cycle is met from each of its keys, and told once. */
  cycle(site: Site, chain: readonly string[]): Unknown;
  /** Told once: what is beyond the limit makes more beyond it. */
  tooMuch(site: Site): Unknown;
}

export function newMessages(): Messages {
  const cycles = new Set<string>();
  let report: Report | undefined;
  let isTooMuch = false;
  const mistake: Messages['mistake'] = ({ path, place }, message, suggestion) => {
    report?.problem({ place, path: pathText(path), message, suggestion });
    return unknown(place);
  };
  return {
    to(next) {
      report = next;
    },
    mistake,
    cycle(site, chain) {
      const members = JSON.stringify([...new Set(chain)].toSorted());
      if (!cycles.has(members)) mistake(site, `refers to itself: ${chain.join(' -> ')}`);
      cycles.add(members);
      return unknown(site.place);
    },
    tooMuch(site) {
      if (!isTooMuch)
        mistake(site, 'interpolation makes this manifest far larger than it is; something doubles itself');
      isTooMuch = true;
      return unknown(site.place);
    },
  };
}

export function unknown(place: Place): Unknown {
  return { kind: 'unknown', place };
}
