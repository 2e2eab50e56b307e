// The end of a command on each worker, and the summary.

import type { SessionEnd } from '../../app/by-hand.ts';
import { exitCode } from '../../app/errors.ts';
import { countText } from '../../app/figures.ts';
import { workersLabel } from '../logs/fold.ts';

export interface WorkerOutcome {
  readonly worker: number;
  readonly end: SessionEnd;
  /** It was still running when its time was over. */
  readonly timedOut: boolean;
  /** Equal for workers that printed the same bytes on both streams. */
  readonly printed: string;
}

/**
 * Gathers what one worker prints into `WorkerOutcome.printed`, without keeping any of it. Nobody prints in order to be
 * taken for somebody else, so a sum is enough; Node's hashes would be half of what a short command loads.
 */
export function createPrint(): { add(chunk: Uint8Array, stream: 'stdout' | 'stderr'): void; digest(): string } {
  const sums = { stdout: createSum(), stderr: createSum() };
  return {
    add: (chunk, stream) => sums[stream].add(chunk),
    digest: () => `${sums.stdout.text()} ${sums.stderr.text()}`,
  };
}

/**
 * A sum of bytes in 64 bits, and their number. Each half is multiplied by an odd number after each byte, which loses
 * nothing, and turned, so that every byte reaches every bit.
 */
function createSum(): { add(chunk: Uint8Array): void; text(): string } {
  let length = 0;
  let one = 0x811c_9dc5;
  let other = 0x9e37_79b9;
  return {
    add(chunk) {
      length += chunk.length;
      // By its index: to step through bytes in the other way takes five times as long.
      for (let at = 0; at < chunk.length; at += 1) {
        const byte = chunk[at] ?? 0;
        one = Math.imul(one ^ byte, 0x0100_0193);
        other = (Math.imul((other << 13) | (other >>> 19), 5) + (0xe654_6b64 ^ byte)) | 0;
      }
    },
    text: () => `${length}.${one >>> 0}.${other >>> 0}`,
  };
}

/** timeout(1) of coreutils ends with this. */
const timedOutCode = 124;
/** ssh(1) ends with this when it could not connect. */
const unreachableCode = 255;

/** As a shell tells it: 128 and the number for a signal; 255 when there was no answer, 124 when its time was over. */
export function codeOf({ end, timedOut }: Pick<WorkerOutcome, 'end' | 'timedOut'>): number {
  if (timedOut) return timedOutCode;
  if (end.kind === 'no_answer') return unreachableCode;
  return end.exitCode ?? 128 + (signalNumbers[end.signal ?? ''] ?? 0);
}

/** signal(7), those that are the same on all of Linux's architectures that workers have. */
const signalNumbers: Readonly<Record<string, number>> = {
  HUP: 1,
  INT: 2,
  QUIT: 3,
  ILL: 4,
  TRAP: 5,
  ABRT: 6,
  BUS: 7,
  FPE: 8,
  KILL: 9,
  USR1: 10,
  SEGV: 11,
  USR2: 12,
  PIPE: 13,
  ALRM: 14,
  TERM: 15,
};

/** 0 when it is 0 everywhere, else the greatest. */
export function worstCode(outcomes: readonly WorkerOutcome[]): number {
  return Math.max(exitCode.ok, ...outcomes.map(codeOf));
}

/**
 * What is to be said at the end about several workers, best first: whether they printed the same, how it ended where it did
 * not end well, and who did not answer. `agreement` is null where nothing can be compared.
 */
export function outcomeLines(outcomes: readonly WorkerOutcome[]): {
  readonly agreement: string | null;
  readonly troubles: readonly string[];
} {
  const count = outcomes.length;
  const answered = outcomes.filter(({ end, timedOut }) => end.kind === 'ended' && !timedOut);
  const troubles: string[] = [];
  const byEnd = groups(answered, (outcome) => endText(outcome.end));
  const isAllWell = answered.every((outcome) => codeOf(outcome) === 0);
  if (!isAllWell) troubles.push(byEnd.map(([text, of]) => `${text} on ${whichText(of, count)}`).join('; '));
  const late = outcomes.filter(({ timedOut }) => timedOut);
  if (late.length > 0) troubles.push(`${whichText(late, count)}: its time was over, and it was ended`);
  const silent = outcomes.filter(({ end, timedOut }) => end.kind === 'no_answer' && !timedOut);
  const why = groups(silent, ({ end }) => (end.kind === 'no_answer' ? silenceText(end) : ''));
  for (const [text, of] of why) troubles.push(`${whichText(of, count)}: ${text}`);
  if (answered.length < 2) return { agreement: null, troubles };

  const [largest, ...others] = groups(answered, (outcome) => `${outcome.printed} ${codeOf(outcome)}`).map(
    ([, of]) => of,
  );
  if (largest === undefined) return { agreement: null, troubles };
  if (others.length === 0) return { agreement: `same on ${largest.length}/${count}`, troubles };
  const agreement =
    largest.length === 1
      ? `different on each of ${countText(answered.length, 'worker')}`
      : `same on ${largest.length}/${count}; different on ${others.map((of) => label(of)).join(', ')}`;
  return { agreement, troubles };
}

function endText(end: SessionEnd): string {
  if (end.kind === 'no_answer') return 'no answer';
  return end.signal === null ? `exit code ${end.exitCode}` : `ended by SIG${end.signal}`;
}

function silenceText({ reason, sent }: SessionEnd & { readonly kind: 'no_answer' }): string {
  return sent ? `the line broke while it ran: ${reason}` : `not reached: ${reason}`;
}

/** Each key with its members, the largest group first. */
function groups(
  outcomes: readonly WorkerOutcome[],
  keyOf: (outcome: WorkerOutcome) => string,
): readonly (readonly [string, readonly WorkerOutcome[]])[] {
  const found = new Map<string, WorkerOutcome[]>();
  for (const outcome of outcomes) {
    const key = keyOf(outcome);
    found.set(key, [...(found.get(key) ?? []), outcome]);
  }
  return [...found].toSorted(([, one], [, other]) => other.length - one.length);
}

function label(outcomes: readonly WorkerOutcome[]): string {
  return `[${workersLabel(outcomes.map(({ worker }) => worker))}]`;
}

/** Most of them by their number, a few by their names. */
function whichText(of: readonly WorkerOutcome[], count: number): string {
  return of.length * 2 > count ? `${of.length}/${count}` : label(of);
}
