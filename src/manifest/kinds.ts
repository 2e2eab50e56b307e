// Kinds: what a value in a manifest may be. A kind reads a value of the tree, describes itself in words for people and as
// JSON Schema for editors. The table of keys (keys.ts) is built of them, so that parser, schema and documents agree.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import { jobIdMark } from '../core/spec.ts';
import type { Duration } from '../core/time.ts';
import { durationMeant, durationMost, durationText, parseDuration } from './durations.ts';
import {
  absent,
  defaultText,
  readGiven,
  refuse,
  type Key,
  type Keys,
  type Kind,
  type Path,
  type Retired,
  type Schema,
  type SectionValue,
} from '../schema/kinds.ts';
import { pathText, type Report } from '../schema/problems.ts';
import { isNull, plain, type Mapping, type Tree } from '../schema/tree.ts';

export interface TextOptions {
  readonly pattern?: RegExp;
  /** For tables and messages, after "wants". */
  readonly words?: string;
  /** Said after the text as it was written. */
  readonly rule?: string;
  /** A guess at the text that was meant; it is suggested when it fits itself. */
  readonly meant?: (written: string) => string | undefined;
  readonly examples?: readonly string[];
}

export function text(options: TextOptions = {}): Kind<string> {
  const words = options.words ?? 'text';
  return {
    words,
    schema: {
      type: ['string', 'number', 'boolean'],
      ...(options.examples === undefined ? {} : { examples: options.examples }),
    },
    read(tree, path, report) {
      if (tree.kind !== 'scalar' || tree.value === null) return wrongKind(tree, words, path, report);
      // Numbers and truths are taken as they were written: a version 3.10 is not 3.1, a name may be `on`.
      const value = typeof tree.value === 'string' ? tree.value : tree.source;
      if (value.includes('\0')) return refuse(tree, path, report, 'holds a zero byte');
      // The id that will be in place of ${job.id} fits wherever six digits do.
      if (options.pattern !== undefined && !options.pattern.test(value.replaceAll(jobIdMark, '000000'))) {
        const meant = options.meant?.(value);
        const fits = meant !== undefined && options.pattern.test(meant);
        return refuse(
          tree,
          path,
          report,
          `${quoted(value)} ${options.rule ?? `is no ${words}`}`,
          fits ? meant : undefined,
        );
      }
      return value;
    },
  };
}

/** A text of one line: names, paths, images. Whatever goes into a command line or a file of settings. */
export function line(options: TextOptions = {}): Kind<string> {
  const inner = text(options);
  return {
    ...inner,
    read(tree, path, report) {
      const value = inner.read(tree, path, report);
      if (value === undefined) return undefined;
      const trimmed = value.trim();
      if (trimmed === '') return refuse(tree, path, report, 'is empty');
      // oxlint-disable-next-line no-control-regex -- Control characters are what is refused here.
      if (/[\u0000-\u001f\u007f]/.test(trimmed)) return refuse(tree, path, report, 'must be one line of plain text');
      return trimmed;
    },
  };
}

/** A path. A number or a truth in its place is a slip, such as a value that belongs to the next key; quotes make it a name. */
export function path(options: TextOptions = {}): Kind<string> {
  const words = options.words ?? 'path';
  const inner = line({ words, ...options });
  return {
    ...inner,
    schema: { ...inner.schema, type: 'string' },
    read(tree, at, report) {
      if (tree.kind === 'scalar' && tree.value !== null && typeof tree.value !== 'string') {
        return refuse(tree, at, report, `wants a ${words}, this is ${describe(tree)}`, `"${tree.source}"`);
      }
      return inner.read(tree, at, report);
    },
  };
}

export function script(): Kind<string> {
  const inner = text({ words: 'shell script' });
  return { ...inner, schema: { type: 'string' }, isScript: true };
}

export function truth(): Kind<boolean> {
  const words = 'true or false';
  return {
    words,
    schema: orTemplate({ type: 'boolean' }),
    read(tree, path, report) {
      if (tree.kind === 'scalar') {
        if (typeof tree.value === 'boolean') return tree.value;
        // The YAML of the older jobman took these for true and false.
        if (/^(yes|on|true)$/i.test(tree.source)) return true;
        if (/^(no|off|false)$/i.test(tree.source)) return false;
      }
      return refuse(tree, path, report, `wants ${words}, this is ${describe(tree)}`, truthMeant(tree));
    },
  };
}

function truthMeant(tree: Tree): string | undefined {
  if (tree.kind !== 'scalar') return undefined;
  const word = tree.source.trim().toLowerCase();
  if (/^(y|t|1|enabled?|always)$/.test(word)) return 'true';
  if (/^(n|f|0|disabled?|none|never)$/.test(word)) return 'false';
  const near = didYouMean(word, ['true', 'false', 'yes', 'off']);
  return near === undefined ? undefined : near === 'true' || near === 'yes' ? 'true' : 'false';
}

export function whole(least: number, most: number = Number.MAX_SAFE_INTEGER): Kind<number> {
  const words = 'whole number';
  return {
    words,
    schema: orTemplate({
      type: 'integer',
      minimum: least,
      ...(most === Number.MAX_SAFE_INTEGER ? {} : { maximum: most }),
    }),
    read(tree, path, report) {
      const value = asNumber(tree);
      if (value === undefined || !Number.isInteger(value)) return wrongKind(tree, `a ${words}`, path, report);
      if (value < least) return refuse(tree, path, report, `is ${value}; the least is ${least}`);
      if (value > most) return refuse(tree, path, report, `is ${value}; the most is ${most}`);
      return value;
    },
  };
}

export function duration(least: Duration = 0): Kind<Duration> {
  const words = 'duration';
  return {
    words,
    schema: { type: ['string', 'integer', 'null'], examples: ['30s', '5m', '2h', '1d'] },
    read(tree, path, report) {
      const written = tree.kind === 'scalar' && typeof tree.value !== 'boolean' ? tree.source : undefined;
      if (written === undefined) return wrongKind(tree, 'a duration such as 30s, 5m, 2h or 1d', path, report);
      const value = parseDuration(written);
      if (value === undefined) {
        const message = `${quoted(written)} is no duration; write 30s, 5m, 2h, 1d or a number of seconds (at most ${durationMost / 86_400_000}d)`;
        return refuse(tree, path, report, message, durationMeant(written));
      }
      if (value < least) {
        const message = `${quoted(written)} is too short; the least is ${durationText(least)}`;
        return refuse(tree, path, report, message);
      }
      return value;
    },
  };
}

export function choice<const W extends string>(...values: readonly W[]): Kind<W> {
  return oneOf(values, () => undefined);
}

/** One of several words. `meant` knows what else people call them; slips of the finger are seen to without it. */
export function oneOf<const W extends string>(
  values: readonly W[],
  meant: (written: string) => string | undefined,
): Kind<W> {
  const words = values.join(' | ');
  return {
    words,
    schema: orTemplate({ enum: values }),
    read(tree, path, report) {
      const written = tree.kind === 'scalar' ? tree.source : undefined;
      if (written === undefined) return wrongKind(tree, `one of ${values.join(', ')}`, path, report);
      const found = values.find((value) => value === written);
      if (found !== undefined) return found;
      const message = `${quoted(written)} is none of ${values.join(', ')}`;
      return refuse(tree, path, report, message, meant(written) ?? didYouMean(written, values));
    },
  };
}

/** A list; one value alone is taken for a list of one. */
export function listOf<T>(element: Kind<T>, words = `list of ${element.words}`): Kind<readonly T[]> {
  return {
    words,
    schema: { anyOf: [{ type: 'array', items: element.schema }, element.schema] },
    element,
    read(tree, path, report) {
      const items =
        tree.kind === 'list' ? tree.items : tree.kind === 'map' && element.keys === undefined ? undefined : [tree];
      if (items === undefined) return wrongKind(tree, `a ${words}`, path, report);
      const values: T[] = [];
      for (const [index, item] of items.entries()) {
        const at = tree.kind === 'list' ? [...path, index] : path;
        const value = readGiven(item, element, at, report);
        if (value === absent) refuse(item, at, report, 'is empty; remove it or give it a value');
        else if (value !== undefined) values.push(value);
      }
      return values;
    },
  };
}

export function durationOrNone(): Kind<Duration | 'none'> {
  const inner = duration();
  return {
    ...inner,
    words: 'duration or none',
    read: (tree, path, report) =>
      tree.kind === 'scalar' && tree.value === 'none' ? 'none' : inner.read(tree, path, report),
  };
}

export function mapOf(name: {
  readonly pattern: RegExp;
  readonly rule: string;
}): Kind<Readonly<Record<string, string>>> {
  const words = 'map of text';
  const value = text();
  return {
    words,
    schema: { type: 'object', additionalProperties: { type: ['string', 'number', 'boolean', 'null'] } },
    read(tree, path, report) {
      if (tree.kind !== 'map') return wrongKind(tree, 'a map (NAME: value)', path, report);
      const values: Record<string, string> = {};
      for (const [key, entry] of tree.entries) {
        const at = [...path, key];
        if (!name.pattern.test(key)) {
          refuse(entry, at, report, name.rule);
          continue;
        }
        const read = readGiven(entry.value, value, at, report);
        // A null is an empty text here: the name was given on purpose.
        if (read === absent) values[key] = '';
        else if (read !== undefined) values[key] = read;
      }
      return values;
    },
  };
}

export function anything(): Kind<Tree> {
  return { words: 'anything', schema: {}, read: (tree) => tree };
}

/** A single value of any type; for free keys next to known ones. */
export function freeValue(): Kind<Tree> {
  return {
    words: 'your own value',
    schema: { type: ['string', 'number', 'boolean', 'null'] },
    // It is there to be put into the command, so what looks like the shell's is the shell's.
    isScript: true,
    read(tree, path, report) {
      return tree.kind === 'scalar'
        ? tree
        : wrongKind(tree, 'a single value (lists and maps go below vars:)', path, report);
    },
  };
}

/** `first` when `fits` says so of the value's shape, else `second`. */
export function either<A, B>(first: Kind<A>, fits: (tree: Tree) => boolean, second: Kind<B>): Kind<A | B> {
  return {
    words: `${first.words}, or ${second.words}`,
    schema: { anyOf: [first.schema, second.schema] },
    ...(first.keys === undefined ? {} : { keys: first.keys }),
    ...(second.keys === undefined ? {} : { keys: second.keys }),
    read: (tree, path, report) => (fits(tree) ? first.read(tree, path, report) : second.read(tree, path, report)),
  };
}

/** A section: a map of known keys, and of free ones where `free` says so. */
export function section<const K extends Keys>(
  keys: K,
  free?: Kind<unknown>,
  retired: Retired = {},
): Kind<SectionValue<K>> {
  const kind: Kind<SectionValue<K>> = {
    words: 'section',
    schema: sectionSchema(keys, free),
    keys,
    ...(free === undefined ? {} : { free }),
    retired,
    read(tree, path, report) {
      if (tree.kind !== 'map')
        return wrongKind(tree, `a section (${Object.keys(keys).slice(0, 3).join(', ')}, ...)`, path, report);
      sayUnknownKeys(tree, kind, path, report);
      // The value of a misspelt name is read too, so that its own slips are reported in the same round.
      const slips = misspelt(tree, keys);
      const values: Record<string, unknown> = {};
      for (const [name, key] of Object.entries(keys)) {
        const given = givenNames(tree, name, key);
        sayDisagreement(tree, given, path, report);
        const [under = slips.get(name) ?? name] = given;
        const entry = tree.entries.get(under);
        const value = entry === undefined ? absent : readGiven(entry.value, key.kind, [...path, under], report);
        if (value === absent) {
          if (key.isRequired === true) {
            const place = entry?.place ?? tree.owner;
            const example = key.example === undefined ? '' : `, for example ${name}: ${key.example}`;
            report.problem({
              place,
              path: pathText([...path, name]),
              message: `must be given${example}`,
              isLack: true,
            });
          }
        } else if (value !== undefined) values[name] = value;
      }
      return values as SectionValue<K>;
    },
  };
  return kind;
}

function givenNames(tree: Mapping, name: string, key: Key<unknown>): readonly string[] {
  const present = [name, ...(key.aliases ?? [])].filter((one) => tree.entries.has(one));
  const withValue = present.filter((one) => !isNull(tree.entries.get(one)?.value));
  return withValue.length > 0 ? withValue : present;
}

/** The names in this map that are none of these keys, by the key's own name that each is most likely a slip of. */
export function misspelt(tree: Mapping, keys: Keys): ReadonlyMap<string, string> {
  const names = allNames(keys);
  const slips = new Map<string, string>();
  for (const written of tree.entries.keys()) {
    const isMisplaced = sectionWith(keys, written) !== undefined;
    const meant = keyNamed(keys, written) === undefined && !isMisplaced ? didYouMean(written, names) : undefined;
    const own = meant === undefined || Object.hasOwn(keys, meant) ? meant : otherNames(keys, meant)[0];
    if (own !== undefined && !slips.has(own)) slips.set(own, written);
  }
  return slips;
}

/** The section among these keys that has a key of exactly this name: `job` for `env`, which belongs one level further down. */
function sectionWith(keys: Keys, name: string): string | undefined {
  return Object.entries(keys).find(([, { kind }]) => keyNamed(kind.keys ?? {}, name) !== undefined)?.[0];
}

function allNames(keys: Keys): readonly string[] {
  return Object.entries(keys).flatMap(([name, key]) => [name, ...(key.aliases ?? [])]);
}

export function keyNamed(keys: Keys, name: string): Key<unknown> | undefined {
  const own = Object.hasOwn(keys, name) ? keys[name] : undefined;
  return own ?? Object.values(keys).find((key) => key.aliases?.includes(name) === true);
}

export function otherNames(keys: Keys, name: string): readonly string[] {
  for (const [own, key] of Object.entries(keys)) {
    const all = [own, ...(key.aliases ?? [])];
    if (all.includes(name)) return all.filter((one) => one !== name);
  }
  return [];
}

/** Reports keys that the table does not have, with what was probably meant. */
export function sayUnknownKeys(
  tree: Mapping,
  { keys = {}, free, retired = {} }: Pick<Kind<unknown>, 'keys' | 'free' | 'retired'>,
  path: Path,
  report: Report,
): void {
  const names = allNames(keys);
  for (const [name, entry] of tree.entries) {
    if (keyNamed(keys, name) !== undefined) continue;
    const section = sectionWith(keys, name);
    const meant = section === undefined ? didYouMean(name, names) : pathText([...path, section, name]);
    const at = [...path, name];
    if (Object.hasOwn(retired, name)) {
      refuse(entry, at, report, retired[name] ?? '');
    } else if (free === undefined) {
      const message = path.length === 0 ? 'is no section of a manifest' : `is no key of ${pathText(path)}`;
      refuse(entry, at, report, message, meant);
    } else if (meant !== undefined && names.length > 0) {
      // A slip of the finger must not become a value of one's own that nobody reads.
      const message = `is no key of ${pathText(path)}, and too near to one for a value of your own (put it below vars:)`;
      refuse(entry, at, report, message, meant);
    } else readGiven(entry.value, free, at, report);
  }
}

function sayDisagreement(tree: Mapping, given: readonly string[], path: Path, report: Report): void {
  const [first, ...others] = given;
  if (first === undefined) return;
  for (const other of others) {
    const [one, two] = [tree.entries.get(first), tree.entries.get(other)];
    if (one === undefined || two === undefined) continue;
    if (JSON.stringify(plain(one.value)) === JSON.stringify(plain(two.value))) continue;
    const message = `${other} and ${first} are two names of one key and disagree; keep one of them`;
    refuse(two, [...path, other], report, message);
  }
}

export function wrongKind(tree: Tree, wants: string, path: Path, report: Report): undefined {
  return refuse(tree, path, report, `wants ${wants}, this is ${describe(tree)}`);
}

function describe(tree: Tree): string {
  if (tree.kind === 'list') return 'a list';
  if (tree.kind === 'map') return 'a map';
  if (tree.kind === 'unknown' || tree.value === null) return 'nothing';
  if (typeof tree.value === 'string') return `the text ${quoted(tree.value)}`;
  return typeof tree.value === 'number' ? `the number ${tree.source}` : tree.source;
}

export function quoted(value: string): string {
  const [first = ''] = value.split('\n', 1);
  const shown = first.length > 60 || first.length < value.length ? `${first.slice(0, 57)}...` : first;
  return `"${shown}"`;
}

/** A number, also when it came as text from an environment variable or from quotes. */
export function asNumber(tree: Tree): number | undefined {
  if (tree.kind !== 'scalar') return undefined;
  if (typeof tree.value === 'number') return tree.value;
  return typeof tree.value === 'string' && /^-?\d+$/.test(tree.value) ? Number(tree.value) : undefined;
}

function sectionSchema(keys: Keys, free: Kind<unknown> | undefined): Schema {
  const properties: Record<string, Schema> = {};
  for (const [name, key] of Object.entries(keys)) {
    const described = { ...nullable(key.kind.schema ?? {}), description: `${key.about} Default: ${defaultText(key)}.` };
    properties[name] = described;
    for (const alias of key.aliases ?? []) {
      properties[alias] = {
        ...described,
        description: `Another name of ${name}. ${described.description}`,
        deprecated: true,
      };
    }
  }
  return { type: 'object', properties, additionalProperties: free === undefined ? false : free.schema };
}

function nullable(schema: Schema): Schema {
  if (Object.keys(schema).length === 0) return schema;
  if (typeof schema['type'] === 'string' && schema['enum'] === undefined)
    return { ...schema, type: [schema['type'], 'null'] };
  if (Array.isArray(schema['type'])) {
    return schema['type'].includes('null') ? schema : { ...schema, type: [...(schema['type'] as unknown[]), 'null'] };
  }
  if (Array.isArray(schema['anyOf']))
    return { ...schema, anyOf: [...(schema['anyOf'] as unknown[]), { type: 'null' }] };
  return { anyOf: [schema, { type: 'null' }] };
}

/** A number or a word, or `${...}` in its place. */
function orTemplate(schema: Schema): Schema {
  return { anyOf: [schema, { type: 'string', pattern: '\\$\\{' }] };
}
