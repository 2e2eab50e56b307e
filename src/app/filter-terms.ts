// Filter terms: the filters of `jobman list` as one line of text, for the box above a list. `phase:failed lr` means jobs that
// have failed and have `lr` in their id, name or message.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import { quote } from '../catalogue/shell.ts';
import { phases, type Phase } from '../core/decide/phase.ts';
import type { Instant } from '../core/model/time.ts';
import type { JobRow, ListQuery } from './client.ts';
import { messageOf } from './errors.ts';
import { matchesQuery } from './list-query.ts';
import { parsePeriodBorder } from './period-border.ts';

/** The filters that have the name of a flag of `jobman list`. */
export const termNames = ['phase', 'user', 'name', 'tag', 'zone', 'accelerator', 'since'] as const;

type TermName = (typeof termNames)[number];

export interface FilterTerms {
  readonly query: Pick<ListQuery, 'phases' | 'user' | 'name' | 'tag' | 'zone' | 'accelerator' | 'createdSince'>;
  /** The terms that have a name, in their order. */
  readonly named: readonly { readonly name: TermName; readonly value: string }[];
  /** Each must be in the id, the name, a tag or the message. In lower case. */
  readonly texts: readonly string[];
  /** A message for each term that has no meaning. Such a term is ignored. */
  readonly problems: readonly string[];
}

/** A term is `name:value`, with quotes around spaces: `name:"my job"`. Of a repeated name, except a phase, the last counts. */
export function parseTerms(text: string, now: Instant): FilterTerms {
  const query: { -readonly [Key in keyof FilterTerms['query']]: FilterTerms['query'][Key] } = {};
  const named = new Map<TermName, string>();
  const [texts, problems] = [new Array<string>(), new Array<string>()];
  for (const { name, value } of splitTerms(text).map(readTerm)) {
    if (value === '') continue;
    if (name === null) texts.push(value.toLowerCase());
    else named.set(name, name === 'phase' ? [named.get(name) ?? [], value].flat().join(',') : value);
  }
  for (const [name, value] of named) {
    if (name === 'phase') {
      const { known, unknown } = readPhases(value);
      if (known.length > 0) query.phases = known;
      problems.push(...unknown.map((one) => `There is no phase ${one}.${suggestion(didYouMean(one, phases))}`));
    } else if (name === 'since') {
      try {
        query.createdSince = parsePeriodBorder(value)(now).from;
      } catch (error) {
        problems.push(`${value}: ${messageOf(error)}.`);
      }
    } else query[name] = value;
  }
  return { query, named: [...named].map(([name, value]) => ({ name, value })), texts, problems };
}

function readPhases(value: string): { readonly known: readonly Phase[]; readonly unknown: readonly string[] } {
  const texts = [...new Set(value.toLowerCase().split(','))].filter((one) => one !== '');
  const phaseOf = (text: string): Phase | undefined => phases.find((one) => one === text);
  return {
    known: texts.flatMap((one) => phaseOf(one) ?? []),
    unknown: texts.filter((one) => phaseOf(one) === undefined),
  };
}

function suggestion(text: string | undefined): string {
  return text === undefined ? '' : ` Did you mean ${text}?`;
}

/** True for a row that passes every filter. */
export function matchesTerms(row: JobRow, { query, texts }: FilterTerms): boolean {
  if (!matchesQuery(row, query)) return false;
  if (texts.length === 0) return true;
  const searched = [row.id, row.name, row.message, ...row.tags].join('\n').toLowerCase();
  return texts.every((text) => searched.includes(text));
}

/** The text with these phases as its last term. They replace its own phases; its other terms do not change. */
export function withPhases(text: string, wanted: readonly Phase[]): string {
  const others = splitTerms(text).filter((term) => readTerm(term).name !== 'phase');
  return [...others, ...(wanted.length === 0 ? [] : [`phase:${wanted.join(',')}`])].join(' ');
}

/** The flags of `jobman list` that show the same. A text has no flag. */
export function flagsOf({ query: { phases: wanted = [] }, named }: FilterTerms): readonly string[] {
  return [
    ...wanted.map((phase) => `--phase ${phase}`),
    ...named.flatMap(({ name, value }) => (name === 'phase' ? [] : [`--${name} ${quote(value)}`])),
  ];
}

/** Completions of the last term, as whole texts, at most 8. The values are those of the rows. */
export function proposeTerms(text: string, rows: Iterable<JobRow>): readonly string[] {
  const [last = ''] = text.match(/(?:[^\s"]|"[^"]*"?)*$/) ?? [];
  const before = text.slice(0, text.length - last.length);
  const { name, value } = readTerm(last);
  if (last === '') return [];
  if (name === null) {
    const found = termNames.filter((one) => one.startsWith(last.toLowerCase()));
    return found.map((one) => `${before}${one}:`);
  }
  const known = new Set<string>();
  if (name === 'since') return [];
  if (name === 'phase') for (const phase of phases) known.add(phase);
  else for (const row of rows) for (const one of valuesOf(row, name)) if (known.size < maxKnown) known.add(one);
  const typed = value.toLowerCase();
  return [...known]
    .filter((one) => one.toLowerCase().startsWith(typed) && one.toLowerCase() !== typed)
    .toSorted()
    .slice(0, maxProposals)
    .map((one) => `${before}${name}:${/[\s"]/.test(one) ? `"${one.replaceAll('"', '')}"` : one} `);
}

const maxProposals = 8;
const maxKnown = 1000;

function valuesOf(row: JobRow, name: Exclude<TermName, 'phase' | 'since'>): readonly string[] {
  switch (name) {
    case 'user':
      return row.owner === null ? [] : [row.owner];
    case 'name':
      return [row.name];
    case 'tag':
      return row.tags;
    case 'zone':
      return row.zone === null ? [] : [row.zone];
    case 'accelerator':
      return row.accelerator === null ? [] : [row.accelerator];
  }
}

/** The terms of the text, with their quotes. */
function splitTerms(text: string): readonly string[] {
  return text.match(/(?:[^\s"]|"[^"]*"?)+/g) ?? [];
}

/** `name` is null for a term without a known name, such as `error:`. */
function readTerm(term: string): { readonly name: TermName | null; readonly value: string } {
  const [, before = '', after = ''] = /^([a-z]+):(.*)$/is.exec(term) ?? [];
  const name = termNames.find((one) => one === before.toLowerCase()) ?? null;
  return { name, value: (name === null ? term : after).replaceAll('"', '') };
}
