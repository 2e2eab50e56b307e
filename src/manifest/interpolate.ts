import { jobIdPlaceholder, nodeNamePlaceholder } from '../core/model/spec.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { reportProblem, type Path } from '../schema/kinds.ts';
import { formatPath, type SourcePosition, type Report, parsePath } from '../schema/problems.ts';
import {
  childOf,
  isMissing,
  isNull,
  treeAt,
  type Entry,
  type Mapping,
  type Scalar,
  type Tree,
  type Unknown,
} from '../schema/tree.ts';
import { kindAt, siblingKeys, usedName } from './keys.ts';
import { isTemplate, parseTemplate, type Arg, type Part } from './template.ts';
import { parseValue } from './yaml.ts';

interface ValueSite {
  readonly path: Path;
  readonly position: SourcePosition;
}

interface Interpolation {
  readonly tree: Mapping;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly defaultName: string;
  readonly resolve: (path: Path, raw: Tree) => Tree;
  /** Reports the mistake. The value is unknown from then on and causes no further reports. */
  readonly reportMistake: (site: ValueSite, message: string, suggestion?: string) => Unknown;
  /** Totals of the results so far: interpolation can multiply text, just as aliases can multiply a tree. */
  readonly totals: { characters: number; values: number; suggestions: number };
  /** Number of values in each container and everything below it; references to containers can double it repeatedly. */
  readonly sizes: WeakMap<Tree, number>;
}

const maxCharacters = 4 * 1024 * 1024;
const maxValuesPerContainer = 20_000;
/** Limit for suggestions, because each one compares the unknown name with every key. */
const maxSuggestions = 100;
const maxChainLength = 200;

/** Returns a function from a section's name to its resolved values. Unresolvable values are `unknown` and reported. */
export function createInterpolator(
  tree: Mapping,
  env: Interpolation['env'],
  defaultName: string,
): (name: string, report: Report) => Tree | undefined {
  const done = new Map<string, Tree>();
  /** Paths being resolved, outermost first. A path that appears twice is a cycle. */
  const inProgress = new Map<string, string>();
  const cycles = new Set<string>();
  const totals = { characters: 0, values: 0, suggestions: 0 };
  const isTooLarge = (): boolean => totals.characters > maxCharacters || totals.values > maxValuesPerContainer;
  let hasReportedSize = false;
  let report: Report | undefined;

  const reportMistake: Interpolation['reportMistake'] = (site, message, suggestion) => {
    if (report !== undefined) reportProblem(site, site.path, report, message, suggestion);
    return unknown(site.position);
  };

  const resolve = (path: Path, raw: Tree): Tree => {
    // A key may contain a dot, so the formatted path is not unique.
    const id = JSON.stringify(path);
    const finished = done.get(id);
    if (finished !== undefined) return finished;
    const site: ValueSite = { path, position: raw.position };
    if (inProgress.has(id)) {
      const chain = [...inProgress.values(), formatPath(path)].slice([...inProgress.keys()].indexOf(id));
      const members = JSON.stringify([...new Set(chain)].toSorted());
      if (cycles.has(members)) return unknown(raw.position);
      cycles.add(members);
      return reportMistake(site, `refers to itself: ${chain.join(' -> ')}`);
    }
    if (inProgress.size > maxChainLength)
      return reportMistake(site, `is a chain of more than ${maxChainLength} references`);
    if (isTooLarge()) return unknown(raw.position);
    inProgress.set(id, formatPath(path));
    let value = resolveTree(raw, site, run);
    if (isTooLarge()) {
      value = unknown(raw.position);
      if (!hasReportedSize)
        reportMistake(site, 'the references make this manifest too large; one value repeats itself');
      hasReportedSize = true;
    }
    inProgress.delete(id);
    done.set(id, value);
    return value;
  };

  const run: Interpolation = { tree, env, defaultName, resolve, reportMistake, totals, sizes: new WeakMap() };
  return (name, reportTo) => {
    report = reportTo;
    const entry = tree.entries.get(name);
    return entry === undefined ? undefined : resolve([name], entry.value);
  };
}

function resolveTree(raw: Tree, site: ValueSite, run: Interpolation): Tree {
  const { path, position } = site;
  if (raw.kind === 'map') {
    const entries = new Map<string, Entry>();
    for (const [key, entry] of raw.entries) {
      entries.set(key, { position: entry.position, value: run.resolve([...path, key], entry.value) });
    }
    const children = [...entries.values()].map(({ value }) => value);
    return withSize({ kind: 'map', entries, position, keyPosition: raw.keyPosition }, children, run);
  }
  if (raw.kind === 'list') {
    const items = raw.items.map((item, index) => run.resolve([...path, index], item));
    return withSize({ kind: 'list', items, position }, items, run);
  }
  if (raw.kind === 'unknown' || typeof raw.value !== 'string' || !isTemplate(raw.value)) return raw;
  return evaluate(parseTemplate(raw.value, isScript(path)), site, run);
}

function withSize(tree: Tree, children: readonly Tree[], { sizes, totals }: Interpolation): Tree {
  const size = children.reduce((sum, child) => sum + (sizes.get(child) ?? 1), 1);
  sizes.set(tree, size);
  totals.values = Math.max(totals.values, size);
  return tree;
}

type Reference = Exclude<Part, { kind: 'text' }>;
type PartOf<K extends Part['kind']> = Extract<Part, { kind: K }>;

function evaluate(parts: readonly Part[], site: ValueSite, run: Interpolation): Tree {
  const [only] = parts;
  // A value that consists of one interpolation keeps its type; inside a longer text it becomes text.
  if (parts.length === 1 && only !== undefined && only.kind !== 'text') {
    return withPosition(resolveReference(only, site, run), site.position);
  }
  // Resolve all parts, even after a mistake, so that every problem is reported at once.
  const pieces = parts.map((part) => (part.kind === 'text' ? part.text : textOfReference(part, site, run)));
  if (pieces.includes(undefined)) return unknown(site.position);
  const text = pieces.join('');
  run.totals.characters += text.length;
  return scalar(text, site.position);
}

function textOfReference(part: Reference, site: ValueSite, run: Interpolation): string | undefined {
  const value = resolveReference(part, site, run);
  if (value.kind === 'unknown') return undefined;
  if (value.kind === 'scalar') return value.value === null ? 'null' : value.source;
  const is = value.kind === 'list' ? 'a list' : 'a section';
  run.reportMistake(site, `${part.written} is ${is}, which cannot be part of a text`);
  return undefined;
}

function resolveReference(part: Reference, site: ValueSite, run: Interpolation): Tree {
  switch (part.kind) {
    case 'mistake':
      return run.reportMistake(site, part.message);
    case 'name':
      return resolveName(part, site, run);
    case 'resolver':
      return callResolver(part, site, run);
  }
}

function resolveName(part: PartOf<'name'>, site: ValueSite, run: Interpolation): Tree {
  const { reportMistake } = run;
  const name = evaluateText(part.name, site, run);
  if (name === undefined) return unknown(site.position);
  const path = absolutePath(name, site);
  if (path === undefined) return reportMistake(site, `${part.written} points outside the manifest`);
  const found = findValue(path, site, run);
  if (found !== undefined) {
    return isMissing(found) ? reportMistake(site, `${part.written} has no value yet (???)`) : found;
  }
  if (part.mayBeShell) return scalar(`\${${name}}`, site.position);
  if (kindAt(path) !== undefined && !isCustomKey(path))
    return reportMistake(site, `${part.written} has no value in this manifest`);
  const message = `${part.written} is not a key of this manifest`;
  run.totals.suggestions += 1;
  const suggestion = run.totals.suggestions <= maxSuggestions ? suggestReference(path, run.tree) : undefined;
  if (suggestion !== undefined) return reportMistake(site, message, `\${${suggestion}}`);
  const mayBeShell = path.length === 1 || isScript(site.path);
  return reportMistake(site, mayBeShell ? `${message}; write \\${part.written} if it is a shell variable` : message);
}

function callResolver(part: PartOf<'resolver'>, site: ValueSite, run: Interpolation): Tree {
  const { reportMistake } = run;
  const [first, second] = part.args;
  const fallback = () => (second === undefined ? undefined : resolveArgument(second, site, run));
  const argument = first === undefined ? undefined : evaluateText(first.parts, site, run);
  if (first !== undefined && argument === undefined) return unknown(site.position);
  if (argument === undefined || part.args.length > 2) {
    return reportMistake(site, `${part.written} takes one value and an optional default after a comma`);
  }
  switch (part.name) {
    case 'oc.env': {
      const value = run.env[argument];
      if (value !== undefined) return scalar(value, site.position);
      const defaultTree = fallback();
      if (defaultTree === undefined) {
        return reportMistake(site, `the environment variable ${argument} is not set; write a default after a comma`);
      }
      // An environment variable is text, so its default is too, except null.
      return defaultTree.kind === 'scalar' && defaultTree.value !== null
        ? scalar(defaultTree.source, site.position)
        : defaultTree;
    }
    case 'oc.select': {
      const path = absolutePath(argument, site);
      const found = path === undefined ? undefined : findValue(path, site, run);
      if (found !== undefined && !isMissing(found)) return found;
      return fallback() ?? { kind: 'scalar', value: null, source: 'null', position: site.position };
    }
    case 'oc.decode':
      return withPosition(parseValue(argument, part.written), site.position);
    default:
      return reportMistake(
        site,
        `${part.written} uses ${part.name}; jobman supports only oc.env, oc.select and oc.decode`,
      );
  }
}

function resolveArgument(arg: Arg, site: ValueSite, run: Interpolation): Tree {
  const value = evaluate(arg.parts, site, run);
  // A default is parsed as YAML (`5` is a number), unless it is quoted or comes from another key.
  const isPlain = arg.parts.every((part) => part.kind === 'text');
  if (arg.isQuoted || !isPlain || value.kind !== 'scalar') return value;
  return withPosition(parseValue(value.source, value.source), site.position);
}

function evaluateText(parts: readonly Part[], site: ValueSite, run: Interpolation): string | undefined {
  const value = evaluate(parts, site, run);
  if (value.kind === 'scalar') return value.source;
  if (value.kind !== 'unknown') run.reportMistake(site, 'a list or a section cannot be part of a name');
  return undefined;
}

/** A copied value gets the position of the reference, so that its problems are reported there. */
function withPosition(tree: Tree, position: SourcePosition): Tree {
  return tree.kind === 'scalar' || tree.kind === 'unknown' ? { ...tree, position } : tree;
}

function absolutePath(name: string, site: ValueSite): Path | undefined {
  const dots = /^\.*/.exec(name)?.[0].length ?? 0;
  const path = parsePath(name.slice(dots));
  if (path === undefined || dots > site.path.length) return undefined;
  return dots === 0 ? path : [...site.path.slice(0, site.path.length - dots), ...path];
}

function findValue(path: Path, site: ValueSite, { tree, defaultName, resolve }: Interpolation): Tree | undefined {
  const { entries } = tree;
  const written = formatPath(path);
  // The node's full name exists only from its request on. The section tpu is read before, with the name as written.
  if (written === 'tpu.name' && site.path[0] !== 'tpu' && entries.has('tpu'))
    return scalar(nodeNamePlaceholder, site.position);
  // The id exists only after the job is created. A job in a cluster has no id.
  if (written === 'job.id' && !entries.has('kubernetes')) return scalar(jobIdPlaceholder, site.position);
  if (written === 'job.name' && isNull(treeAt(tree, path))) return scalar(defaultName, site.position);

  let at: Tree = tree;
  let walked: Path = [];
  for (const [index, part] of path.entries()) {
    if (at.kind === 'scalar' && typeof at.value === 'string' && isTemplate(at.value)) {
      // The section itself is an interpolation, so the values below it are already resolved.
      return treeAt(resolve(walked, at), path.slice(index));
    }
    const name = usedName(at, [...walked, part]);
    const next = childOf(at, name);
    if (next === undefined) return undefined;
    walked = [...walked, name];
    at = next;
  }
  return resolve(walked, at);
}

function scalar(value: string, position: SourcePosition): Scalar {
  return { kind: 'scalar', value, source: value, position };
}

function unknown(position: SourcePosition): Unknown {
  return { kind: 'unknown', position };
}

function isScript(path: Path): boolean {
  return kindAt(path)?.isScript === true;
}

/** Keys of the user are not in the table, so they are known only by being present. */
function isCustomKey(path: Path): boolean {
  const keys = siblingKeys(path);
  return path[0] === 'vars' || keys === undefined || !Object.hasOwn(keys, String(path.at(-1)));
}

function suggestReference(path: Path, tree: Mapping): string | undefined {
  const parents = path.slice(0, -1);
  const node = treeAt(tree, parents);
  const presentNames = node?.kind === 'map' ? [...node.entries.keys()] : [];
  const last = didYouMean(String(path.at(-1)), [...presentNames, ...Object.keys(siblingKeys(path) ?? {})]);
  if (last !== undefined) return formatPath([...parents, last]);
  // The mistake may be in the section: `${comand.lr}`.
  const section = didYouMean(String(path[0]), [...tree.entries.keys()]);
  return section === undefined || section === path[0] ? undefined : formatPath([section, ...path.slice(1)]);
}
