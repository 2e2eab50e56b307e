// Kinds of values in a manifest. The table of keys (keys.ts) consists of kinds, so that parser, schema and
// documentation agree.

import { didYouMean } from '../catalogue/did-you-mean.ts';
import { jobIdPlaceholder } from '../core/model/spec.ts';
import { omitUndefined } from '../core/model/omit-undefined.ts';
import { day, type Duration } from '../core/model/time.ts';
import { parseDollars, suggestDollars } from './dollars.ts';
import { suggestDuration, maxDuration, formatExactDuration, parseDuration } from './durations.ts';
import {
  notGiven,
  formatDefault,
  key,
  readIfGiven,
  refined,
  reportProblem,
  type JobKind,
  type Key,
  type Keys,
  type Kind,
  type Path,
  type Retired,
  type Schema,
  type SectionValue,
} from '../schema/kinds.ts';
import { formatPath, type Report } from '../schema/problems.ts';
import { isNull, toPlainValue, type Mapping, type Scalar, type Tree } from '../schema/tree.ts';

type Fail = (message: string, suggestion?: string) => undefined;

/** A kind of one value. `parse` returns undefined after a `fail`. */
function scalar<T>(
  description: string,
  schema: Schema,
  expected: string,
  parse: (tree: Scalar, fail: Fail) => T | undefined,
): Kind<T> {
  return {
    description,
    schema,
    read: (tree, path, report) =>
      tree.kind === 'scalar'
        ? parse(tree, (message, suggestion) => reportProblem(tree, path, report, message, suggestion))
        : reportProblem(tree, path, report, wrongKind(expected, tree)),
  };
}

export interface TextOptions {
  readonly pattern?: RegExp;
  /** For tables and messages, after "must be". */
  readonly description?: string;
  /** Message after the value as written. */
  readonly rule?: string;
  /** A guess at the intended text; offered only when it matches `pattern`. */
  readonly suggest?: (written: string) => string | undefined;
  readonly examples?: readonly string[];
}

export function text(options: TextOptions = {}): Kind<string> {
  const { description = 'text', pattern, rule = `is not a valid ${description}`, suggest, examples } = options;
  const schema = { type: ['string', 'number', 'boolean'], ...omitUndefined({ examples }) };
  return scalar(description, schema, 'a single value', (tree, fail) => {
    // Numbers and booleans keep their text: version 3.10 is not 3.1, and a name may be `on`.
    const value = typeof tree.value === 'string' ? tree.value : tree.source;
    if (value.includes('\0')) return fail('contains a NUL byte');
    // The placeholder of ${job.id} is valid wherever six digits are.
    if (pattern === undefined || pattern.test(value.replaceAll(jobIdPlaceholder, '000000'))) return value;
    const suggestion = suggest?.(value);
    const isValid = suggestion !== undefined && pattern.test(suggestion);
    return fail(`${quoteValue(value)} ${rule}`, isValid ? suggestion : undefined);
  });
}

/** A text of one line, for values that go into command lines and settings files. */
export function line(options: TextOptions = {}): Kind<string> {
  return refined(text(options), (value, fail) => {
    const trimmed = value.trim();
    if (trimmed === '') return fail('is empty');
    if (/[\p{Cc}\u202a-\u202e\u2066-\u2069]/u.test(trimmed)) return fail('must be one line without control characters');
    return trimmed;
  });
}

/** A path. An unquoted number or boolean is refused: it is usually a value that belongs to another key. */
export function path(options: TextOptions = {}): Kind<string> {
  const { description = 'path' } = options;
  const inner = line({ ...options, description });
  return {
    ...inner,
    schema: { ...inner.schema, type: 'string' },
    read: (tree, at, report) =>
      tree.kind === 'scalar' && tree.value !== null && typeof tree.value !== 'string'
        ? reportProblem(tree, at, report, `${wrongKind(`a ${description}`, tree)}; put it in quotes if it is one`)
        : inner.read(tree, at, report),
  };
}

export const script: Kind<string> = {
  ...text({ description: 'shell script' }),
  schema: { type: 'string' },
  isScript: true,
};

export function bool(): Kind<boolean> {
  const description = 'true or false';
  return scalar(description, orTemplate({ type: 'boolean' }), description, (tree, fail) => {
    if (typeof tree.value === 'boolean') return tree.value;
    // YAML 1.1, which the older jobman read, has these for true and false.
    if (/^(yes|on|true)$/i.test(tree.source)) return true;
    if (/^(no|off|false)$/i.test(tree.source)) return false;
    return fail(wrongKind(description, tree), didYouMean(tree.source.trim().toLowerCase(), ['true', 'false']));
  });
}

/** A key that is false by default. */
export function flag(description: string, jobs?: readonly JobKind[]): Key<boolean> {
  return key(bool(), description, { defaultText: 'false', example: 'true', ...omitUndefined({ jobs }) });
}

export function int(min: number, max?: number): Kind<number> {
  const schema = orTemplate({ type: 'integer', minimum: min, ...omitUndefined({ maximum: max }) });
  return scalar('whole number', schema, 'a whole number', (tree, fail) => {
    const value = asNumber(tree);
    if (value === undefined || !Number.isInteger(value)) return fail(wrongKind('a whole number', tree));
    if (value < min) return fail(`must be at least ${min}, not ${value}`);
    return value > (max ?? Number.MAX_SAFE_INTEGER) ? fail(`must be at most ${max}, not ${value}`) : value;
  });
}

export function duration(min: Duration = 0): Kind<Duration> {
  const schema = { type: ['string', 'integer', 'null'], examples: ['30s', '5m', '2h', '1d'] };
  const expected = 'a duration such as 30s, 5m, 2h or 1d';
  return scalar('duration', schema, expected, (tree, fail) => {
    const { source } = tree;
    if (typeof tree.value === 'boolean') return fail(wrongKind(expected, tree));
    const value = parseDuration(source);
    if (value === undefined) {
      const message = `${quoteValue(source)} is not a duration; write 30s, 5m, 2h, 1d or a number of seconds (at most ${maxDuration / day}d)`;
      return fail(message, suggestDuration(source));
    }
    if (value >= min) return value;
    return fail(`${quoteValue(source)} is too short; the minimum is ${formatExactDuration(min)}`);
  });
}

const amount = 'an amount such as 50 USD';

/** US dollars, as `50 USD`. */
export const dollars: Kind<number> = scalar(
  'US dollars',
  { type: ['string', 'null'], examples: ['50 USD'] },
  amount,
  (tree, fail) => {
    const written = tree.source.trim();
    if (typeof tree.value === 'boolean') return fail(wrongKind(amount, tree));
    const value = parseDollars(written);
    if (value !== undefined) return value;
    const [, currency = 'USD'] = /^[\d.]+ ?([A-Z]{3})$/i.exec(written) ?? [];
    const message =
      currency.toUpperCase() === 'USD'
        ? `${quoteValue(written)} is not an amount; write for example 50 USD or 0.50 USD: more than 0, at most 9 digits and 2 decimals`
        : `is in ${currency}; write US dollars (USD), in which jobman has prices`;
    return fail(message, suggestDollars(written));
  },
);

/** One of several values. `suggest` knows other names for them; typing mistakes are handled without it. */
export function oneOf<const W extends string>(
  values: readonly W[],
  suggest: (written: string) => string | undefined = () => undefined,
): Kind<W> {
  const expected = `one of ${values.join(', ')}`;
  return scalar(values.join(' | '), orTemplate({ enum: values }), expected, ({ source }, fail) => {
    const found = values.find((value) => value === source);
    return found ?? fail(`${quoteValue(source)} is not ${expected}`, suggest(source) ?? didYouMean(source, values));
  });
}

/** One of so many names that the manual lists them elsewhere. */
export function nameOf<W extends string>(noun: string, names: readonly W[]): Kind<W> {
  return refined(line({ description: `name of a ${noun}`, examples: names }), (written, fail) => {
    const message = `"${written}" is not a ${noun}; the ${noun}s are ${names.join(', ')}`;
    return names.find((name) => name === written) ?? fail(message, didYouMean(written, names));
  });
}

const emptyValue = 'is empty; remove it or give it a value';

/** A list; a single value counts as a list of one. */
export function listOf<T>(element: Kind<T>, description = `list of ${element.description}`): Kind<readonly T[]> {
  return {
    description,
    schema: { anyOf: [{ type: 'array', items: element.schema }, element.schema] },
    element,
    read(tree, path, report) {
      if (tree.kind === 'map' && element.keys === undefined)
        return reportProblem(tree, path, report, wrongKind(`a ${description}`, tree));
      const items = tree.kind === 'list' ? tree.items : [tree];
      return items.flatMap((item, index) => {
        const at = tree.kind === 'list' ? [...path, index] : path;
        const value = readIfGiven(item, element, at, report);
        if (value === notGiven) reportProblem(item, at, report, emptyValue);
        return value === undefined || value === notGiven ? [] : [value];
      });
    },
  };
}

/** Without a kind of its values, they are texts, and a null is an empty text: the user wrote the name on purpose. */
export function mapOf(
  name: { readonly pattern: Pick<RegExp, 'test'>; readonly rule: string },
  element?: Kind<string>,
): Kind<Readonly<Record<string, string>>> {
  const value = element ?? text();
  return {
    description: 'map of text',
    schema: { type: 'object', additionalProperties: { type: ['string', 'number', 'boolean', 'null'] } },
    read(tree, path, report) {
      if (tree.kind !== 'map') return reportProblem(tree, path, report, wrongKind('a map (NAME: value)', tree));
      const values = [...tree.entries].flatMap(([key, entry]): [string, string][] => {
        const at = [...path, key];
        if (!name.pattern.test(key)) reportProblem(entry, at, report, name.rule);
        const read = name.pattern.test(key) ? readIfGiven(entry.value, value, at, report) : undefined;
        if (read !== notGiven) return read === undefined ? [] : [[key, read]];
        if (element !== undefined) reportProblem(entry, at, report, emptyValue);
        return [[key, '']];
      });
      return Object.fromEntries(values);
    },
  };
}

/** Uses `first` when `isFirst` accepts the value's form, else `second`. */
export function either<A, B>(first: Kind<A>, isFirst: (tree: Tree) => boolean, second: Kind<B>): Kind<A | B> {
  return {
    description: `${first.description}, or ${second.description}`,
    schema: { anyOf: [first.schema, second.schema] },
    ...omitUndefined({ keys: second.keys ?? first.keys }),
    read: (tree, path, report) => (isFirst(tree) ? first : second).read(tree, path, report),
  };
}

/** A section: a map of known keys, and of the user's own keys if `customKeys` is given. */
export function section<const K extends Keys>(
  keys: K,
  customKeys?: Kind<unknown>,
  retired: Retired = {},
): Kind<SectionValue<K>> {
  const kind: Kind<SectionValue<K>> = {
    description: 'section',
    schema: sectionSchema(keys, customKeys),
    keys,
    ...omitUndefined({ customKeys }),
    retired,
    read(tree, path, report) {
      if (tree.kind !== 'map') {
        const expected = `a section (${Object.keys(keys).slice(0, 3).join(', ')}, ...)`;
        return reportProblem(tree, path, report, wrongKind(expected, tree));
      }
      reportUnknownKeys(tree, kind, path, report);
      // Read the value of a misspelled key too, so that its problems are reported in the same run.
      const misspellings = misspelledKeys(tree, keys);
      const values: Record<string, unknown> = {};
      for (const [name, key] of Object.entries(keys)) {
        const presentNames = namesPresent(tree, name, key);
        reportConflictingAliases(tree, presentNames, path, report);
        const [usedName = misspellings.get(name) ?? name] = presentNames;
        const entry = tree.entries.get(usedName);
        const value = entry === undefined ? notGiven : readIfGiven(entry.value, key.kind, [...path, usedName], report);
        if (value !== notGiven && value !== undefined) values[name] = value;
        if (value !== notGiven || key.isRequired !== true) continue;
        const message = `is required${key.example === undefined ? '' : `, for example ${name}: ${key.example}`}`;
        const position = entry?.position ?? tree.keyPosition;
        report.problem({ position, path: formatPath([...path, name]), message, isMissing: true });
      }
      return values as SectionValue<K>;
    },
  };
  return kind;
}

function namesPresent(tree: Mapping, name: string, key: Key<unknown>): readonly string[] {
  const present = [name, ...(key.aliases ?? [])].filter((one) => tree.entries.has(one));
  const withValue = present.filter((one) => !isNull(tree.entries.get(one)?.value));
  return withValue.length > 0 ? withValue : present;
}

/** Maps each key to the unknown name in this map that most likely means it. */
export function misspelledKeys(tree: Mapping, keys: Keys): ReadonlyMap<string, string> {
  const names = ownNames(keys);
  const misspellings = new Map<string, string>();
  for (const written of tree.entries.keys()) {
    if (names.has(written) || sectionContaining(keys, written) !== undefined) continue;
    const own = names.get(didYouMean(written, [...names.keys()]) ?? '');
    if (own !== undefined && !misspellings.has(own)) misspellings.set(own, written);
  }
  return misspellings;
}

/** The section among these keys that has this key: `job` for `env`, which belongs one level deeper. */
function sectionContaining(keys: Keys, name: string): string | undefined {
  return Object.entries(keys).find(([, { kind }]) => findKey(kind.keys ?? {}, name) !== undefined)?.[0];
}

/** Maps every name of each key to the key's own name. */
function ownNames(keys: Keys): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const [own, { aliases = [] }] of Object.entries(keys))
    for (const name of [own, ...aliases]) names.set(name, own);
  return names;
}

export function findKey(keys: Keys, name: string): Key<unknown> | undefined {
  return keys[ownNames(keys).get(name) ?? ''];
}

export function aliasesOf(keys: Keys, name: string): readonly string[] {
  const names = ownNames(keys);
  return [...names.keys()].filter((other) => other !== name && names.get(other) === names.get(name));
}

/** Reports keys that the table does not have, with suggestions. */
export function reportUnknownKeys(
  tree: Mapping,
  { keys = {}, customKeys, retired = {} }: Pick<Kind<unknown>, 'keys' | 'customKeys' | 'retired'>,
  path: Path,
  report: Report,
): void {
  const names = ownNames(keys);
  for (const [name, entry] of tree.entries) {
    if (names.has(name)) continue;
    const section = sectionContaining(keys, name);
    // `--set lr=3` most likely means the user's own key of the command.
    const isOwnSet = path.length === 0 && entry.position.in === 'set' && entry.value.kind === 'scalar';
    const similar = didYouMean(name, [...names.keys()]) ?? (isOwnSet ? `command.${name}` : undefined);
    const suggestion = section === undefined ? similar : formatPath([...path, section, name]);
    const at = [...path, name];
    const message = path.length === 0 ? `Unknown section "${name}"` : `Unknown key "${name}" in ${formatPath(path)}`;
    if (Object.hasOwn(retired, name)) {
      reportProblem(entry, at, report, retired[name] ?? '');
    } else if (customKeys === undefined) {
      reportProblem(entry, at, report, message, suggestion);
    } else if (suggestion !== undefined) {
      // Without this check a misspelled key would silently become a key of the user.
      reportProblem(entry, at, report, `${message}; a value of your own with this name belongs in vars`, suggestion);
    } else readIfGiven(entry.value, customKeys, at, report);
  }
}

function reportConflictingAliases(tree: Mapping, names: readonly string[], path: Path, report: Report): void {
  const [first, ...others] = names;
  if (first === undefined) return;
  for (const other of others) {
    const [one, two] = [tree.entries.get(first), tree.entries.get(other)];
    if (one === undefined || two === undefined) continue;
    if (JSON.stringify(toPlainValue(one.value)) === JSON.stringify(toPlainValue(two.value))) continue;
    const message = `${other} and ${first} are two names of the same key and have different values; remove one of them`;
    reportProblem(two, [...path, other], report, message);
  }
}

function wrongKind(expected: string, tree: Tree): string {
  return `must be ${expected}, not ${describeTree(tree)}`;
}

function describeTree(tree: Tree): string {
  if (tree.kind === 'list') return 'a list';
  if (tree.kind === 'map') return 'a map';
  if (tree.kind === 'unknown' || tree.value === null) return 'nothing';
  if (typeof tree.value === 'string') return `the text ${quoteValue(tree.value)}`;
  return typeof tree.value === 'number' ? `the number ${tree.source}` : tree.source;
}

export function quoteValue(value: string): string {
  const [first = ''] = value.split('\n', 1);
  const shown = first.length > 60 || first.length < value.length ? `${first.slice(0, 57)}...` : first;
  return `"${shown}"`;
}

/** A number, or a text of digits from an environment variable or quotes. */
export function asNumber(tree: Tree): number | undefined {
  if (tree.kind !== 'scalar') return undefined;
  if (typeof tree.value === 'number') return tree.value;
  return typeof tree.value === 'string' && /^-?\d+$/.test(tree.value) ? Number(tree.value) : undefined;
}

function sectionSchema(keys: Keys, customKeys: Kind<unknown> | undefined): Schema {
  const properties: Record<string, Schema> = {};
  for (const [name, key] of Object.entries(keys)) {
    const described = {
      ...nullable(key.kind.schema ?? {}),
      description: `${key.description} Default: ${formatDefault(key)}.`,
    };
    properties[name] = described;
    for (const alias of key.aliases ?? []) {
      properties[alias] = {
        ...described,
        description: `Another name of ${name}. ${described.description}`,
        deprecated: true,
      };
    }
  }
  return { type: 'object', properties, additionalProperties: customKeys === undefined ? false : customKeys.schema };
}

function nullable(schema: Schema): Schema {
  const { type } = schema;
  if (type === undefined) return { anyOf: [schema, { type: 'null' }] };
  return { ...schema, type: [...new Set([type, 'null'].flat())] };
}

function orTemplate(schema: Schema): Schema {
  return { anyOf: [schema, { type: 'string', pattern: '\\$\\{' }] };
}
