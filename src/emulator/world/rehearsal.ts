/**
 * A rehearsal: verbs that are done at moments written down beforehand, as people say them at the other doors. What is
 * left to chance (a moment between two, a share of the times, `any` node) is drawn from the seed, so that the same file
 * and the same seed give the same course of things.
 */
import { createHash } from 'node:crypto';
import type { Duration } from '../../core/time.ts';
import { EmulatorRefusal } from '../contract.ts';
import { type Chance, createChance } from './chance.ts';
import { optionHelp, readDuration, readOptions, suggestion } from './options.ts';
import type { Happening } from './records.ts';
import { act, verbRule, verbs } from './verbs.ts';
import type { World } from './world.ts';
import { isMap, isScalar, LineCounter, parseDocument } from 'yaml';

type Span = readonly [atLeast: Duration, atMost: Duration];

/** One line of a rehearsal file. */
export interface RehearsalLine {
  /** How long after the beginning; null for a line that only has `every`. */
  readonly at: Span | null;
  readonly every: Span | null;
  readonly chance: number;
  readonly verb: string;
  readonly given: Readonly<Record<string, string | number | boolean>>;
}

/** Words of a line that say when, and not what. */
const whenWords = ['at', 'every', 'chance'];

/**
 * Reads a rehearsal file: a list, each line with a verb as the key of its target, when (`at`, `every`), how likely
 * (`chance`), and the verb's own options. Throws EmulatorRefusal with every mistake in it and the line that it is in.
 */
export function readRehearsal(text: string, file: string): RehearsalLine[] {
  const counter = new LineCounter();
  const document = parseDocument(text, { lineCounter: counter });
  const place = (offset: number): string => `${file}:${String(counter.linePos(offset).line)}`;
  const mistakes = document.errors.map((error) => `${place(error.pos[0])}: ${error.message.split('\n')[0] ?? ''}`);
  const items: unknown = document.toJS();
  const nodes = (document.contents as { items?: unknown[] } | null)?.items ?? [];
  if (mistakes.length === 0 && items !== null && !Array.isArray(items)) {
    mistakes.push(`${file}: a rehearsal is a list, each line with \`at\` or \`every\` and a verb.`);
  }
  const lines: RehearsalLine[] = [];
  for (const [index, item] of (mistakes.length === 0 ? ((items ?? []) as unknown[]) : []).entries()) {
    const node = nodes[index];
    const offset = isMap(node) || isScalar(node) ? (node.range?.[0] ?? 0) : 0;
    try {
      lines.push(readLine(item));
    } catch (error) {
      if (!(error instanceof EmulatorRefusal)) throw error;
      mistakes.push(`${place(offset)}: ${error.message}`);
    }
  }
  if (mistakes.length > 0) throw new EmulatorRefusal(400, mistakes.join('\n'));
  return lines;
}

function readLine(item: unknown): RehearsalLine {
  if (item === null || typeof item !== 'object' || Array.isArray(item)) {
    throw new EmulatorRefusal(400, 'a line says when and what: { at: 2m, preempt: any }.');
  }
  const said = item as Readonly<Record<string, unknown>>;
  // A verb may have an option of another verb's name; what is first in the line is meant.
  const verb = Object.keys(said).find((word) => Object.hasOwn(verbs, word));
  if (verb === undefined) {
    const odd = Object.keys(said).find((word) => !whenWords.includes(word));
    throw new EmulatorRefusal(
      400,
      odd === undefined ? 'there is no verb in it.' : `${odd} is no verb.${suggestion(odd, Object.keys(verbs))}`,
    );
  }
  const { at, every, chance = 1, [verb]: target, ...options } = said;
  const rule = verbRule(verb);
  readOptions(verb, rule, options);
  const line = {
    at: at === undefined ? null : readSpan('at', at),
    every: every === undefined ? null : readSpan('every', every),
    chance: Number(chance),
  };
  if (line.at === null && line.every === null) throw new EmulatorRefusal(400, `${verb} needs \`at\` or \`every\`.`);
  if (line.every !== null && line.every[0] <= 0) throw new EmulatorRefusal(400, 'every: must be more than nothing.');
  if (!(line.chance >= 0 && line.chance <= 1)) throw new EmulatorRefusal(400, `chance: ${optionHelp.share}.`);
  const given: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(options)) given[name] = plain(value);
  if (target !== null && target !== undefined) given['target'] = String(plain(target));
  return { ...line, verb, given };
}

/** A job's id is written as a number in YAML, and said as a text. */
function plain(value: unknown): string | number | boolean {
  return typeof value === 'number' || typeof value === 'boolean' ? value : String(value);
}

/** `90s`, or `1m..3m` for a moment between the two. */
function readSpan(name: string, value: unknown): Span {
  const [first = '', second = first, ...more] = String(value).split('..');
  const span = [readDuration(first.trim()), readDuration(second.trim())] as const;
  const [atLeast, atMost] = span;
  if (atLeast === undefined || atMost === undefined || atMost < atLeast || more.length > 0) {
    throw new EmulatorRefusal(400, `${name}: ${String(value)}: ${optionHelp.duration}, or two of them: 1m..3m.`);
  }
  return [atLeast, atMost];
}

/**
 * Puts a rehearsal on the agenda. One that is on it already goes on where it was, as after a kill -9; another one, or
 * none, takes its place.
 */
export function beginRehearsal(world: World, lines: readonly RehearsalLine[], text: string | undefined): void {
  const hash = text === undefined ? '' : createHash('sha256').update(text).digest('hex');
  if (hash === (world.general().rehearsal ?? '')) return;
  for (const what of world.agenda.values()) if (what.kind === 'rehearsal') world.agenda.remove(what.key);
  world.setGeneral({ rehearsal: hash });
  for (const line of lines) {
    const { at, every, ...rest } = line;
    const own = createChance(streamFrom(world.chance));
    world.later(draw(own, at ?? every ?? [0, 0]), { kind: 'rehearsal', every, ...rest, stream: streamFrom(own) });
  }
}

/**
 * Each line has chance of its own: what clients ask meanwhile draws from the common one, in an order that no seed decides, and
 * would move the moments of a rehearsal.
 */
function streamFrom(chance: Chance): number {
  return chance.between(0, 2 ** 32 - 1);
}

/** A span in milliseconds here, whatever the speed: a person said it. */
function draw(chance: Chance, [atLeast, atMost]: Span): Duration {
  return atLeast === atMost ? atLeast : chance.between(atLeast, atMost);
}

/** The moment of a line has come. What cannot be done now is told, and nothing else follows from it. */
export function rehearse(world: World, what: Happening & { readonly kind: 'rehearsal' }): void {
  const { verb, given, every, chance } = what;
  const own = createChance(what.stream ?? streamFrom(world.chance));
  if (every !== null) {
    world.later(draw(own, every), { kind: 'rehearsal', verb, given, every, chance, stream: streamFrom(own) });
  }
  if (chance < 1 && own.next() >= chance) return;
  try {
    world.log(`rehearsal: ${act({ ...world, chance: own }, verb, given).message}`);
  } catch (error) {
    if (!(error instanceof EmulatorRefusal)) throw error;
    world.log(`rehearsal: ${verb} was not possible: ${error.message}`);
  }
}
