// Interpolate: puts the values of other keys, and of this machine's environment, where `${…}` asks for them.

import { jobIdMark, nodeNameMark } from '../core/spec.ts';
import { refuse, type Path } from '../schema/kinds.ts';
import { pathText, type Place, type Report, parsePath } from '../schema/problems.ts';
import {
  childOf,
  isMissing,
  isNull,
  type Entry,
  type Mapping,
  type Scalar,
  type Tree,
  type Unknown,
} from '../schema/tree.ts';
import { isTemplate, parseTemplate, type Arg, type Part } from './template.ts';
import { parseValue } from './yaml.ts';

interface Input {
  readonly tree: Mapping;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly defaultName: string;
  /** True where a text is a shell script, whose own `${NAME}` stay. */
  readonly isScript: (path: Path) => boolean;
  /** Other names under which the same key may stand: `cmd` for `command.run`. */
  readonly aliases: (path: Path) => readonly string[];
  /** True for a key that the manifest may have but need not. */
  readonly isKnown: (path: Path) => boolean;
  /** The name of the path that was most likely meant. */
  readonly meant: (path: Path) => string | undefined;
}

interface Site {
  readonly path: Path;
  readonly place: Place;
}

interface Run {
  readonly input: Input;
  readonly resolve: (path: Path, raw: Tree) => Tree;
  /** Reports what is wrong; the value is unknown from then on, and silent. */
  readonly mistake: (site: Site, message: string, suggestion?: string) => Unknown;
  /** Counts what was made so far: interpolation can multiply a text as aliases can multiply a tree. */
  readonly made: { characters: number; values: number; guesses: number };
  /** The number of values in each container, with all below it, which references to containers can double again and again. */
  readonly sizes: WeakMap<Tree, number>;
}

const charactersMost = 4 * 1024 * 1024;
/** In one container. */
const valuesMost = 20_000;
/** The number of unknown names that get a suggestion. Finding one compares the name with every key. */
const guessesMost = 100;
const chainMost = 200;

/** Answers sections by their names, with all values put in. What could not be made out is `unknown` and reported. */
export function interpolation(input: Input): (name: string, report: Report) => Tree | undefined {
  const done = new Map<string, Tree>();
  /** The paths in work, outermost first; meeting one of them again is a cycle. */
  const open = new Map<string, string>();
  /** One cycle is met from each of its keys, and told once. */
  const cycles = new Set<string>();
  const made = { characters: 0, values: 0, guesses: 0 };
  const isTooMuch = (): boolean => made.characters > charactersMost || made.values > valuesMost;
  let isToldTooMuch = false;
  let report: Report | undefined;

  const mistake: Run['mistake'] = (site, message, suggestion) => {
    if (report !== undefined) refuse(site, site.path, report, message, suggestion);
    return unknown(site.place);
  };

  const resolve = (path: Path, raw: Tree): Tree => {
    // A key may hold a dot, so the text of a path is for people only.
    const id = JSON.stringify(path);
    const finished = done.get(id);
    if (finished !== undefined) return finished;
    const site: Site = { path, place: raw.place };
    if (open.has(id)) {
      const chain = [...open.values(), pathText(path)].slice([...open.keys()].indexOf(id));
      const members = JSON.stringify([...new Set(chain)].toSorted());
      if (cycles.has(members)) return unknown(raw.place);
      cycles.add(members);
      return mistake(site, `refers to itself: ${chain.join(' -> ')}`);
    }
    if (open.size > chainMost) return mistake(site, `is reached through more than ${chainMost} names`);
    if (isTooMuch()) return unknown(raw.place);
    open.set(id, pathText(path));
    let value = valueOf(raw, site, run);
    if (isTooMuch()) {
      value = unknown(raw.place);
      if (!isToldTooMuch)
        mistake(site, 'interpolation makes this manifest far larger than it is; something doubles itself');
      isToldTooMuch = true;
    }
    open.delete(id);
    done.set(id, value);
    return value;
  };

  const run: Run = { input, resolve, mistake, made, sizes: new WeakMap() };
  return (name, to) => {
    report = to;
    const entry = input.tree.entries.get(name);
    return entry === undefined ? undefined : resolve([name], entry.value);
  };
}

function valueOf(raw: Tree, site: Site, run: Run): Tree {
  const { path, place } = site;
  if (raw.kind === 'map') {
    const entries = new Map<string, Entry>();
    for (const [key, entry] of raw.entries) {
      entries.set(key, { place: entry.place, value: run.resolve([...path, key], entry.value) });
    }
    const children = [...entries.values()].map(({ value }) => value);
    return counted({ kind: 'map', entries, place, owner: raw.owner }, children, run);
  }
  if (raw.kind === 'list') {
    const items = raw.items.map((item, index) => run.resolve([...path, index], item));
    return counted({ kind: 'list', items, place }, items, run);
  }
  if (raw.kind === 'unknown' || typeof raw.value !== 'string' || !isTemplate(raw.value)) return raw;
  return evaluate(parseTemplate(raw.value, run.input.isScript(path)), site, run);
}

function counted(tree: Tree, children: readonly Tree[], { sizes, made }: Run): Tree {
  const size = children.reduce((sum, child) => sum + (sizes.get(child) ?? 1), 1);
  sizes.set(tree, size);
  made.values = Math.max(made.values, size);
  return tree;
}

// ------------------------------------------------------------------------------------------ evaluation of a text

type Reference = Exclude<Part, { kind: 'text' }>;
type Of<K extends Part['kind']> = Extract<Part, { kind: K }>;

function evaluate(parts: readonly Part[], site: Site, run: Run): Tree {
  const [only] = parts;
  // A value that is one interpolation keeps its type; put into a longer text it becomes text.
  if (parts.length === 1 && only !== undefined && only.kind !== 'text') {
    return moved(referred(only, site, run), site.place);
  }
  // All of them are looked at, also after one is wrong: every problem is said at once.
  const pieces = parts.map((part) => (part.kind === 'text' ? part.text : pieceOf(part, site, run)));
  if (pieces.includes(undefined)) return unknown(site.place);
  const text = pieces.join('');
  run.made.characters += text.length;
  return scalar(text, site.place);
}

function pieceOf(part: Reference, site: Site, run: Run): string | undefined {
  const value = referred(part, site, run);
  if (value.kind === 'unknown') return undefined;
  if (value.kind === 'scalar') return value.value === null ? 'null' : value.source;
  const is = value.kind === 'list' ? 'a list' : 'a section';
  run.mistake(site, `${part.written} is ${is}, which cannot stand inside a text`);
  return undefined;
}

function referred(part: Reference, site: Site, run: Run): Tree {
  switch (part.kind) {
    case 'mistake':
      return run.mistake(site, part.message);
    case 'name':
      return named(part, site, run);
    case 'resolver':
      return resolver(part, site, run);
  }
}

function named(part: Of<'name'>, site: Site, run: Run): Tree {
  const { input, mistake } = run;
  const name = textOf(part.name, site, run);
  if (name === undefined) return unknown(site.place);
  const path = absolute(name, site);
  if (path === undefined) return mistake(site, `${part.written} leads out of the manifest`);
  const found = lookUp(path, site, run);
  if (found !== undefined) {
    return isMissing(found) ? mistake(site, `${part.written} needs a value, which is still ??? there`) : found;
  }
  if (part.mayBeShell) return scalar(`\${${name}}`, site.place);
  if (input.isKnown(path)) return mistake(site, `${part.written} is not given in this manifest`);
  const message = `${part.written} is no key of this manifest`;
  run.made.guesses += 1;
  const meant = run.made.guesses <= guessesMost ? input.meant(path) : undefined;
  if (meant !== undefined) return mistake(site, message, `\${${meant}}`);
  const mayBeShell = path.length === 1 || input.isScript(site.path);
  return mistake(site, mayBeShell ? `${message}; write \\${part.written} when it is not jobman's` : message);
}

function resolver(part: Of<'resolver'>, site: Site, run: Run): Tree {
  const { mistake } = run;
  const [first, second] = part.args;
  const fallback = () => (second === undefined ? undefined : argValue(second, site, run));
  const argument = first === undefined ? undefined : textOf(first.parts, site, run);
  if (first !== undefined && argument === undefined) return unknown(site.place);
  if (argument === undefined || part.args.length > 2) {
    return mistake(site, `${part.written} wants one value, and may have a default after a comma`);
  }
  switch (part.name) {
    case 'oc.env': {
      const value = run.input.env[argument];
      if (value !== undefined) return scalar(value, site.place);
      const given = fallback();
      if (given === undefined) {
        return mistake(site, `the environment variable ${argument} is not set; a default may follow a comma`);
      }
      // A variable is text, and so is its default; only null stays null.
      return given.kind === 'scalar' && given.value !== null ? scalar(given.source, site.place) : given;
    }
    case 'oc.select': {
      const path = absolute(argument, site);
      const found = path === undefined ? undefined : lookUp(path, site, run);
      if (found !== undefined && !isMissing(found)) return found;
      return fallback() ?? { kind: 'scalar', value: null, source: 'null', place: site.place };
    }
    case 'oc.decode':
      return moved(parseValue(argument, part.written), site.place);
    default:
      return mistake(site, `${part.written} asks for ${part.name}; jobman knows oc.env, oc.select and oc.decode`);
  }
}

function argValue(arg: Arg, site: Site, run: Run): Tree {
  const value = evaluate(arg.parts, site, run);
  // A default is read as YAML reads it, `5` as a number, unless it is in quotes or came from another key.
  const isPlain = arg.parts.every((part) => part.kind === 'text');
  if (arg.quoted || !isPlain || value.kind !== 'scalar') return value;
  return moved(parseValue(value.source, value.source), site.place);
}

function textOf(parts: readonly Part[], site: Site, run: Run): string | undefined {
  const value = evaluate(parts, site, run);
  if (value.kind === 'scalar') return value.source;
  if (value.kind !== 'unknown') run.mistake(site, 'a list or a section cannot be part of a name');
  return undefined;
}

/** A value put somewhere else: what is wrong with it is said where it is asked for. */
function moved(tree: Tree, place: Place): Tree {
  return tree.kind === 'scalar' || tree.kind === 'unknown' ? { ...tree, place } : tree;
}

// ------------------------------------------------------------------------------------------ the value of a name

function absolute(name: string, site: Site): Path | undefined {
  const dots = /^\.*/.exec(name)?.[0].length ?? 0;
  const path = parsePath(name.slice(dots));
  if (path === undefined || dots > site.path.length) return undefined;
  return dots === 0 ? path : [...site.path.slice(0, site.path.length - dots), ...path];
}

/** Undefined when nothing is there. A key may be under another of its names, and an index after a dot. */
function lookUp(path: Path, site: Site, { input, resolve }: Run): Tree | undefined {
  const { entries } = input.tree;
  const name = pathText(path);
  // The name that the cloud sees is known only when the node is asked for. What is asked of the cloud itself (the section
  // tpu) is read before that, with the name as written.
  if (name === 'tpu.name' && site.path[0] !== 'tpu' && entries.has('tpu')) return scalar(nodeNameMark, site.place);
  // The id is known only once the job exists. A job of a cluster has none.
  if (name === 'job.id' && !entries.has('kubernetes')) return scalar(jobIdMark, site.place);
  const job = entries.get('job')?.value;
  if (name === 'job.name' && isNull(job?.kind === 'map' ? childOf(job, 'name') : undefined)) {
    return scalar(input.defaultName, site.place);
  }

  let at: Tree = input.tree;
  let walked: Path = [];
  for (const [index, part] of path.entries()) {
    if (at.kind === 'scalar' && typeof at.value === 'string' && isTemplate(at.value)) {
      // A section that is itself an interpolation: what stands below it is final already.
      return below(resolve(walked, at), path.slice(index));
    }
    const own = nameIn(at, part, walked, input);
    const next: Tree | undefined = own === undefined ? undefined : childOf(at, own);
    if (own === undefined || next === undefined) return undefined;
    walked = [...walked, own];
    at = next;
  }
  return resolve(walked, at);
}

function nameIn(tree: Tree, part: string | number, walked: Path, input: Input): string | number | undefined {
  if (tree.kind === 'list') return /^\d+$/.test(String(part)) ? Number(part) : undefined;
  if (tree.kind !== 'map') return undefined;
  return [String(part), ...input.aliases([...walked, part])].find((name) => tree.entries.has(name));
}

function below(tree: Tree, path: Path): Tree | undefined {
  let at: Tree | undefined = tree;
  for (const part of path) {
    if (at === undefined || at.kind === 'unknown') return at;
    at = childOf(at, part);
  }
  return at;
}

function scalar(value: string, place: Place): Scalar {
  return { kind: 'scalar', value, source: value, place };
}

function unknown(place: Place): Unknown {
  return { kind: 'unknown', place };
}
