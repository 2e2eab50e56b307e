// Options of a verb: `--for 10m`, `{"p": 0.2}`, `factor: 5`. One parser for all callers.

import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { hour, minute, second, type Duration } from '../../core/model/time.ts';
import { EmulatorError } from '../contract.ts';
import type { World } from './world.ts';

export type OptionKind = 'duration' | 'number' | 'count' | 'share' | 'flag' | 'text' | 'pricing';

/** Durations are milliseconds. */
export type Options = Readonly<Record<string, string | number | boolean>>;

export interface OptionRule {
  readonly options: Readonly<Record<string, OptionKind>>;
  readonly required?: readonly string[];
  /** The unit of a number, which the message about a missing or wrong one names. */
  readonly units?: Readonly<Record<string, string>>;
}

export function suggestion(input: string, candidates: readonly string[]): string {
  const guess = didYouMean(input, candidates);
  return guess === undefined ? '' : ` Did you mean ${guess}?`;
}

export function parseOptions(verb: string, rule: OptionRule, given: Readonly<Record<string, unknown>>): Options {
  const options: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(given)) {
    const kind = Object.hasOwn(rule.options, name) ? rule.options[name] : undefined;
    if (kind === undefined) {
      const names = Object.keys(rule.options);
      throw new EmulatorError(
        400,
        `${verb} has no option ${JSON.stringify(name)}.${suggestion(name, names)} ` +
          (names.length === 0 ? 'It has no options.' : `Its options: ${names.join(', ')}.`),
      );
    }
    const read = parseOption(kind, value);
    if (read === undefined) {
      throw new EmulatorError(400, `${verb} ${name}=${String(value)}: ${helpOn(rule, name)}.`);
    }
    options[name] = read;
  }
  for (const name of rule.required ?? []) {
    if (options[name] === undefined && options['clear'] !== true) {
      throw new EmulatorError(400, `${verb} needs the option ${name}: ${helpOn(rule, name)}.`);
    }
  }
  return options;
}

function helpOn({ options, units = {} }: OptionRule, name: string): string {
  const help = optionHelp[options[name] ?? 'text'];
  return units[name] === undefined ? help : `${help} of ${units[name]}`;
}

export const optionHelp: Readonly<Record<OptionKind, string>> = {
  duration: 'write a duration such as 30s, 10m or 2h',
  number: 'write a number',
  count: 'write a whole number',
  share: 'write a number from 0 to 1',
  flag: 'write true or false',
  text: 'write a string',
  pricing: 'write spot, ondemand or reserved',
};

function parseOption(kind: OptionKind, value: unknown): string | number | boolean | undefined {
  const text = String(value);
  const number = text === '' ? Number.NaN : Number(text);
  switch (kind) {
    case 'duration':
      return parseDuration(text);
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

/** Parses `1500ms`, `30s`, `10m`, `2h`; a bare number is seconds. Not divided by the speed. */
export function parseDuration(text: string): Duration | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  if (match === null) return undefined;
  const unit = { ms: 1, s: second, m: minute, h: hour }[match[2] ?? 's'] ?? second;
  return Math.round(Number(match[1]) * unit);
}

export function formatDuration(length: Duration): string {
  if (length % hour === 0 && length > 0) return `${String(length / hour)}h`;
  if (length % minute === 0 && length > 0) return `${String(length / minute)}m`;
  return length % second === 0 ? `${String(length / second)}s` : `${String(length)}ms`;
}

const durations = {
  create: [80_000, 120_000],
  stockout: [20_000, 60_000],
  remove: [30_000, 60_000],
  update: [2_000, 6_000],
  stop: [30_000, 60_000],
  reset: [200_000, 280_000],
  maintenance: [120_000, 240_000],
  // An assumption without a source: the time of a Google VM from `reboot` until sshd answers.
  reboot: [30_000, 60_000],
  preemptibleAge: [24 * 3_600_000, 24 * 3_600_000],
  'queued-accept': [4_000, 8_000],
  'queued-wait': [15_000, 40_000],
  'queued-suspend': [60_000, 90_000],
  'queued-refuse': [1_500, 2_000],
  'queued-remove': [60_000, 120_000],
} as const satisfies Record<string, readonly [atLeast: Duration, atMost: Duration]>;

export function durationOf(world: World, what: keyof typeof durations): Duration {
  const [atLeast, atMost] = durations[what];
  return world.drawDuration(atLeast, atMost);
}
