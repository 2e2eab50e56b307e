/** Verbs that run at times that a file gives. All random parts come from the seed, so a run can be repeated. */
import { createHash } from 'node:crypto';
import type { Duration } from '../../core/model/time.ts';
import { EmulatorError } from '../contract.ts';
import { type RandomStream, createRandomStream } from './random.ts';
import { optionHelp, parseDuration, parseOptions, suggestion } from './options.ts';
import type { ScheduledEvent } from './records.ts';
import { runVerb, findVerb, verbs } from './verbs.ts';
import type { World } from './world.ts';
import { isMap, isScalar, LineCounter, parseDocument } from 'yaml';

type DurationRange = readonly [atLeast: Duration, atMost: Duration];

export interface FaultScheduleEntry {
  /** The time since the start; null for an entry with only `every`. */
  readonly at: DurationRange | null;
  readonly every: DurationRange | null;
  readonly probability: number;
  readonly verb: string;
  readonly given: Readonly<Record<string, string | number | boolean>>;
}

/** Keys of an entry that are not options of its verb. */
const timingKeys = ['at', 'every', 'chance'];

/** Parses a list of entries; docs/emulator.md has the format. Throws EmulatorError with every mistake and its line. */
export function parseFaultSchedule(text: string, file: string): FaultScheduleEntry[] {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter });
  const position = (offset: number): string => `${file}:${String(counter.linePos(offset).line)}`;
  const mistakes = document.errors.map((error) => `${position(error.pos[0])}: ${error.message.split('\n')[0] ?? ''}`);
  const items: unknown = document.toJS();
  const nodes = (document.contents as { items?: unknown[] } | null)?.items ?? [];
  if (mistakes.length === 0 && items !== null && !Array.isArray(items)) {
    mistakes.push(`${file}: a fault schedule is a list; each entry has \`at\` or \`every\`, and a verb.`);
  }
  const lines: FaultScheduleEntry[] = [];
  for (const [index, item] of (mistakes.length === 0 ? ((items ?? []) as unknown[]) : []).entries()) {
    const node = nodes[index];
    const offset = isMap(node) || isScalar(node) ? (node.range?.[0] ?? 0) : 0;
    try {
      lines.push(parseEntry(item));
    } catch (error) {
      if (!(error instanceof EmulatorError)) throw error;
      mistakes.push(`${position(offset)}: ${error.message}`);
    }
  }
  if (mistakes.length > 0) throw new EmulatorError(400, mistakes.join('\n'));
  return lines;
}

function parseEntry(item: unknown): FaultScheduleEntry {
  if (item === null || typeof item !== 'object' || Array.isArray(item)) {
    throw new EmulatorError(400, 'an entry needs a time and a verb: { at: 2m, preempt: any }.');
  }
  const entry = item as Readonly<Record<string, unknown>>;
  // An option may have the name of a verb, so the first verb of the entry counts.
  const verb = Object.keys(entry).find((key) => Object.hasOwn(verbs, key));
  if (verb === undefined) {
    const unknownKey = Object.keys(entry).find((key) => !timingKeys.includes(key));
    throw new EmulatorError(
      400,
      unknownKey === undefined
        ? 'it has no verb.'
        : `${unknownKey} is not a verb.${suggestion(unknownKey, Object.keys(verbs))}`,
    );
  }
  const { at, every, chance = 1, [verb]: target, ...options } = entry;
  const rule = findVerb(verb);
  parseOptions(verb, rule, options);
  const line = {
    at: at === undefined ? null : parseDurationRange('at', at),
    every: every === undefined ? null : parseDurationRange('every', every),
    probability: Number(chance),
  };
  if (line.at === null && line.every === null) throw new EmulatorError(400, `${verb} needs \`at\` or \`every\`.`);
  if (line.every !== null && line.every[0] <= 0) throw new EmulatorError(400, 'every: must be greater than 0.');
  if (!(line.probability >= 0 && line.probability <= 1)) throw new EmulatorError(400, `chance: ${optionHelp.share}.`);
  const given: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(options)) given[name] = toScalar(value);
  if (target !== null && target !== undefined) given['target'] = String(toScalar(target));
  return { ...line, verb, given };
}

/** A job id is a number in YAML, but a text in a target. */
function toScalar(value: unknown): string | number | boolean {
  return typeof value === 'number' || typeof value === 'boolean' ? value : String(value);
}

/** `90s`, or `1m..3m` for a random time between the two. */
function parseDurationRange(name: string, value: unknown): DurationRange {
  const [first = '', second = first, ...more] = String(value).split('..');
  const span = [parseDuration(first.trim()), parseDuration(second.trim())] as const;
  const [atLeast, atMost] = span;
  if (atLeast === undefined || atMost === undefined || atMost < atLeast || more.length > 0) {
    throw new EmulatorError(400, `${name}: ${String(value)}: ${optionHelp.duration}, or a range: 1m..3m.`);
  }
  return [atLeast, atMost];
}

/** Adds the entries to the events. The same schedule continues after a kill -9; another one replaces it. */
export function startFaultSchedule(world: World, lines: readonly FaultScheduleEntry[], text: string | undefined): void {
  const hash = text === undefined ? '' : createHash('sha256').update(text).digest('hex');
  if (hash === (world.globals().scheduleHash ?? '')) return;
  for (const event of world.events.values()) if (event.kind === 'scheduled-fault') world.events.remove(event.key);
  world.setGlobals({ scheduleHash: hash });
  for (const line of lines) {
    const { at, every, ...rest } = line;
    const random = createRandomStream(newRandomState(world.random));
    world.schedule(draw(random, at ?? every ?? [0, 0]), {
      kind: 'scheduled-fault',
      every,
      ...rest,
      randomState: newRandomState(random),
    });
  }
}

/** Each entry has its own stream: requests of clients draw from the common one in an unpredictable order. */
function newRandomState(random: RandomStream): number {
  return random.between(0, 2 ** 32 - 1);
}

/** Not divided by the speed, because a person chose it. */
function draw(random: RandomStream, [atLeast, atMost]: DurationRange): Duration {
  return atLeast === atMost ? atLeast : random.between(atLeast, atMost);
}

/** Runs a due entry. An impossible verb is only logged. */
export function runScheduledFault(world: World, event: ScheduledEvent & { readonly kind: 'scheduled-fault' }): void {
  const { verb, given, every, probability } = event;
  const random = createRandomStream(event.randomState ?? newRandomState(world.random));
  if (every !== null) {
    world.schedule(draw(random, every), {
      kind: 'scheduled-fault',
      verb,
      given,
      every,
      probability,
      randomState: newRandomState(random),
    });
  }
  if (probability < 1 && random.next() >= probability) return;
  try {
    world.log(`fault schedule: ${runVerb({ ...world, random }, verb, given).message}`);
  } catch (error) {
    if (!(error instanceof EmulatorError)) throw error;
    world.log(`fault schedule: ${verb} failed: ${error.message}`);
  }
}
