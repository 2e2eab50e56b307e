// Log seconds: how many lines of the newest two seconds of a log are out. A cluster goes on from a whole second only, so as many lines are
// passed over when it tells them again.

import { second } from '../../core/time.ts';

/** `2026-11-22T00:37:53` of `2026-11-22T00:37:53.681796213Z`. */
export const secondLength = 19;

/** The lines of one second that are out. */
interface Second {
  /** Its text, 19 bytes. */
  readonly text: Buffer;
  /** The moment of its first line, and the number of that line among all that are out. */
  first: string;
  at: number;
  count: number;
}

/** Counts the lines that are out, by their moments. */
export interface SecondCounter {
  count(moment: Buffer): void;
  /** The second from which the counted lines are told again, with the node's time zone; undefined before the first line. */
  firstSecond(): string | undefined;
  /** The moment of the line that is told first then. */
  firstMoment(): string | undefined;
  /** How many lines that are out are told again then. */
  lines(): number;
}

/** A counter of no lines. */
export function createSecondCounter(): SecondCounter {
  let now: Second | undefined;
  let before: Second | undefined;
  let out = 0;
  const isIn = (moment: Buffer, { text }: Second): number => moment.compare(text, 0, secondLength, 0, secondLength);
  return {
    count(moment) {
      out += 1;
      const order = now === undefined ? 1 : isIn(moment, now);
      if (now === undefined || order > 0) {
        const text = Buffer.from(moment.subarray(0, secondLength));
        const earlier = Buffer.from(secondBefore(text.toString('latin1')).slice(0, secondLength));
        before = now?.text.equals(earlier) === true ? now : { text: earlier, first: '', at: 0, count: 0 };
        now = { text, first: moment.toString('latin1'), at: out, count: 1 };
      } else if (order === 0) now.count += 1;
      else if (before !== undefined && isIn(moment, before) === 0) {
        if (before.count === 0) Object.assign(before, { first: moment.toString('latin1'), at: out });
        before.count += 1;
      }
    },
    firstSecond() {
      if (now === undefined || before === undefined) return undefined;
      return before.text.toString('latin1') + zoneOf(now.first);
    },
    firstMoment() {
      const [one, other] = [before, now].filter((each) => each !== undefined && each.count > 0);
      return other !== undefined && one !== undefined && other.at < one.at ? other.first : one?.first;
    },
    lines: () => (before?.count ?? 0) + (now?.count ?? 0),
  };
}

/** `2026-11-22T00:37:52Z` of `2026-11-22T00:37:53.681796213Z`. A text that is no time stays as it is. */
export function secondBefore(moment: string): string {
  const text = moment.slice(0, secondLength);
  const at = Date.parse(`${text}Z`) - second;
  return (Number.isNaN(at) ? text : new Date(at).toISOString().slice(0, secondLength)) + zoneOf(moment);
}

/** The node's own time zone, which stands behind the fraction. */
function zoneOf(moment: string): string {
  return /(?:Z|[+-]\d\d:\d\d)$/.exec(moment)?.[0] ?? 'Z';
}
