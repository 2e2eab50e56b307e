// The options of a verb: `--for 10m`, `{"p": 0.2}`, `factor: 5`. Whoever says them, they are read here.

import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { hour, minute, second, type Duration } from '../../core/time.ts';
import { EmulatorRefusal } from '../contract.ts';
import type { World } from './world.ts';

/** The kinds of values of an option. */
export type OptionKind = 'duration' | 'number' | 'count' | 'share' | 'flag' | 'text' | 'pricing';

/** Options that were read. Durations are milliseconds. */
export type Options = Readonly<Record<string, string | number | boolean>>;

/** All options. */
export interface OptionRule {
  readonly options: Readonly<Record<string, OptionKind>>;
  /** Options without which the verb says nothing. */
  readonly needs?: readonly string[];
}

/** ` Did you mean X?`, or nothing. */
export function suggestion(word: string, candidates: readonly string[]): string {
  const guess = didYouMean(word, candidates);
  return guess === undefined ? '' : ` Did you mean ${guess}?`;
}

/** Reads what was said into values. Throws EmulatorRefusal with a sentence. */
export function readOptions(verb: string, rule: OptionRule, given: Readonly<Record<string, unknown>>): Options {
  const options: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(given)) {
    const kind = Object.hasOwn(rule.options, name) ? rule.options[name] : undefined;
    if (kind === undefined) {
      const names = Object.keys(rule.options);
      throw new EmulatorRefusal(
        400,
        `${verb} has no option ${JSON.stringify(name)}.${suggestion(name, names)} ` +
          (names.length === 0 ? 'It has none.' : `It has: ${names.join(', ')}.`),
      );
    }
    const read = readOption(kind, value);
    if (read === undefined) {
      throw new EmulatorRefusal(400, `${verb} ${name}=${String(value)}: ${optionHelp[kind]}.`);
    }
    options[name] = read;
  }
  for (const name of rule.needs ?? []) {
    if (options[name] === undefined && options['clear'] !== true) {
      throw new EmulatorRefusal(400, `${verb} needs ${name}=….`);
    }
  }
  return options;
}

/** How an option is to be written. */
export const optionHelp: Readonly<Record<OptionKind, string>> = {
  duration: 'write a length of time such as 30s, 10m or 2h',
  number: 'write a number',
  count: 'write a whole number',
  share: 'write a number from 0 to 1',
  flag: 'write true or false',
  text: 'write a text',
  pricing: 'write spot, ondemand or reserved',
};

function readOption(kind: OptionKind, value: unknown): string | number | boolean | undefined {
  const text = String(value);
  const number = text === '' ? Number.NaN : Number(text);
  switch (kind) {
    case 'duration':
      return readDuration(text);
    case 'number':
      return Number.isFinite(number) && number >= 0 ? number : undefined;
    case 'count':
      return /^\d+$/.test(text) ? number : undefined;
    case 'share':
      return number >= 0 && number <= 1 ? number : undefined;
    case 'flag':
      return text === 'true' || text === '' ? true : text === 'false' ? false : undefined;
    case 'text':
      return text;
    case 'pricing':
      return ['spot', 'ondemand', 'reserved'].includes(text) ? text : undefined;
  }
}

/** `1500ms`, `30s`, `10m`, `2h`; a bare number counts seconds. It is time here, not divided by the speed. */
export function readDuration(text: string): Duration | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  if (match === null) return undefined;
  const unit = { ms: 1, s: second, m: minute, h: hour }[match[2] ?? 's'] ?? second;
  return Math.round(Number(match[1]) * unit);
}

/** The same in words: `90s` is said as `90s`, 60 minutes as `1h`. */
export function say(length: Duration): string {
  if (length % hour === 0 && length > 0) return `${String(length / hour)}h`;
  if (length % minute === 0 && length > 0) return `${String(length / minute)}m`;
  return length % second === 0 ? `${String(length / second)}s` : `${String(length)}ms`;
}

const times = {
  create: [80_000, 120_000],
  stockout: [20_000, 60_000],
  remove: [30_000, 60_000],
  update: [2_000, 6_000],
  stop: [30_000, 60_000],
  reset: [200_000, 280_000],
  maintenance: [120_000, 240_000],
  // No source tells it for a TPU VM: what a virtual machine there takes from its own `reboot` until sshd answers.
  reboot: [30_000, 60_000],
  preemptibleAge: [24 * 3_600_000, 24 * 3_600_000],
  'queued-accept': [4_000, 8_000],
  'queued-wait': [15_000, 40_000],
  'queued-suspend': [60_000, 90_000],
  'queued-refuse': [1_500, 2_000],
  'queued-remove': [60_000, 120_000],
} as const satisfies Record<string, readonly [atLeast: Duration, atMost: Duration]>;

/** A length of that kind here and now: between the two, and divided by the speed. */
export function takes(world: World, what: keyof typeof times): Duration {
  const [atLeast, atMost] = times[what];
  return world.pace(atLeast, atMost);
}
