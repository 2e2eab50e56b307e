// Interpolate: puts the values of other keys, and of this machine's environment, where `${…}` asks for them.

import { jobIdMark, nodeNameMark } from '../core/spec.ts';
import { parsePath } from './paths.ts';
import { pathText } from '../schema/problems.ts';
import type { Place, Report } from '../schema/problems.ts';
import { isTemplate, parseTemplate } from './template.ts';
import type { Arg, Part } from './template.ts';
import { childOf, isMissing, isNull } from '../schema/tree.ts';
import { parseValue } from './yaml.ts';
import type { Entry, Mapping, Scalar, Tree } from '../schema/tree.ts';
import type { Path } from '../schema/kind.ts';

export interface InterpolationInput {
  readonly tree: Mapping;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The job's name where `job.name` gives none. */
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

export interface Interpolation {
  /** The section with all its values put in. What could not be made out is `unknown`, and reported here the first time it is met. */
  section(name: string, report: Report): Tree | undefined;
}

/** Interpolation can multiply a text as aliases can multiply a tree; this is where it stops. */
const charactersMost = 4 * 1024 * 1024;
const valuesMost = 20_000;
/** How many unknown names get a suggestion. */
const guessesMost = 100;
/** How many names may lead from one to the next. */
const chainMost = 200;

export function interpolation(input: InterpolationInput): Interpolation {
  const done = new Map<string, Tree>();
  /** What is being resolved right now, outermost first; meeting one of them again is a cycle. */
  const open = new Map<string, string>();
  const cycles = new Set<string>();
  const sizes = new WeakMap<Tree, number>();
  let characters = 0;
  let tooMuch = false;
  let guesses = 0;
  let report: Report;

  const unknown = (place: Place): Tree => ({ kind: 'unknown', place });

  const resolve = (path: Path, raw: Tree): Tree => {
    // A key may hold a dot, so the text of a path is for people only.
    const id = JSON.stringify(path);
    const finished = done.get(id);
    if (finished !== undefined) return finished;
    if (open.has(id)) {
      const names = [...open.values(), pathText(path)];
      sayCycle(names.slice([...open.keys()].indexOf(id)), raw.place, path);
      return unknown(raw.place);
    }
    if (open.size > chainMost)
      return mistake({ path, place: raw.place }, `is reached through more than ${chainMost} names`);
    open.set(id, pathText(path));
    const value = resolveInside(path, raw);
    open.delete(id);
    done.set(id, value);
    return value;
  };

  const resolveInside = (path: Path, raw: Tree): Tree => {
    if (tooMuch) return unknown(raw.place);
    if (raw.kind === 'map') {
      const entries = new Map<string, Entry>();
      for (const [key, entry] of raw.entries) {
        entries.set(key, { place: entry.place, value: resolve([...path, key], entry.value) });
      }
      return counted(
        { kind: 'map', entries, place: raw.place, owner: raw.owner },
        [...entries.values()].map((entry) => entry.value),
        path,
      );
    }
    if (raw.kind === 'list') {
      const items = raw.items.map((item, index) => resolve([...path, index], item));
      return counted({ kind: 'list', items, place: raw.place }, items, path);
    }
    if (raw.kind === 'unknown' || typeof raw.value !== 'string' || !isTemplate(raw.value)) return raw;
    return evaluate(parseTemplate(raw.value, input.isScript(path)), { path, place: raw.place });
  };

  /** A container with the number of values below it, which references to containers can double again and again. */
  const counted = (tree: Tree, children: readonly Tree[], path: Path): Tree => {
    const size = children.reduce((sum, child) => sum + (sizes.get(child) ?? 1), 1);
    sizes.set(tree, size);
    return size > valuesMost ? sayTooMuch({ path, place: tree.place }) : tree;
  };

  interface Site {
    readonly path: Path;
    readonly place: Place;
  }

  const evaluate = (parts: readonly Part[], site: Site): Tree => {
    const [only] = parts;
    // A value that is one interpolation keeps its type; put into a longer text it becomes text.
    if (parts.length === 1 && only !== undefined && only.kind !== 'text') return moved(valueOf(only, site), site.place);
    // All of them are looked at, also after one is wrong: every problem is said at once.
    const pieces = parts.map((part) => (part.kind === 'text' ? part.text : pieceOf(part, site)));
    if (pieces.includes(undefined)) return unknown(site.place);
    const text = pieces.join('');
    characters += text.length;
    if (characters > charactersMost) return sayTooMuch(site);
    return { kind: 'scalar', value: text, source: text, place: site.place };
  };

  const pieceOf = (part: Exclude<Part, { kind: 'text' }>, site: Site): string | undefined => {
    const value = valueOf(part, site);
    if (value.kind === 'unknown') return undefined;
    if (value.kind === 'scalar') return value.value === null ? 'null' : value.source;
    const is = value.kind === 'list' ? 'a list' : 'a section';
    mistake(site, `${part.written} is ${is}, which cannot stand inside a text`);
    return undefined;
  };

  const valueOf = (part: Exclude<Part, { kind: 'text' }>, site: Site): Tree => {
    switch (part.kind) {
      case 'mistake':
        return mistake(site, part.message);
      case 'name':
        return named(part, site);
      case 'resolver':
        return resolver(part, site);
    }
  };

  const named = (part: Extract<Part, { kind: 'name' }>, site: Site): Tree => {
    const name = textOf(part.name, site);
    if (name === undefined) return unknown(site.place);
    const path = absolute(name, site);
    if (path === undefined) return mistake(site, `${part.written} leads out of the manifest`);
    const found = lookUp(path, site);
    if (found !== undefined) {
      return isMissing(found) ? mistake(site, `${part.written} needs a value, which is still ??? there`) : found;
    }
    if (part.mayBeShell) return scalar(`\${${name}}`, site.place);
    if (input.isKnown(path)) return mistake(site, `${part.written} is not given in this manifest`);
    // Finding a suggestion compares the name with every key, so only the first mistakes get one.
    guesses += 1;
    const meant = guesses > guessesMost ? undefined : input.meant(path);
    const shell =
      path.length === 1 || input.isScript(site.path) ? `; write \\${part.written} when it is not jobman's` : '';
    return mistake(
      site,
      `${part.written} is no key of this manifest${meant === undefined ? shell : ''}`,
      meant === undefined ? undefined : `\${${meant}}`,
    );
  };

  const absolute = (name: string, site: Site): Path | undefined => {
    const dots = /^\.*/.exec(name)?.[0].length ?? 0;
    const path = parsePath(name.slice(dots));
    if (path === undefined || dots > site.path.length) return undefined;
    return dots === 0 ? path : [...site.path.slice(0, site.path.length - dots), ...path];
  };

  /** The value at a path; a key may stand under another of its names, and an index may be written after a dot. */
  const lookUp = (path: Path, site: Site): Tree | undefined => {
    // The name that the cloud sees is known only when the node is asked for. What is asked of the cloud itself (the section
    // tpu) is read before that, with the name as written.
    const isOutside = site.path[0] !== 'tpu' && input.tree.entries.has('tpu');
    if (isOutside && pathText(path) === 'tpu.name') return scalar(nodeNameMark, site.place);

    // The id is known only once the job exists. A job of a cluster has none.
    const name = pathText(path);
    if (name === 'job.id' && !input.tree.entries.has('kubernetes')) return scalar(jobIdMark, site.place);
    if (name === 'job.name' && isNull(nameGiven())) return scalar(input.defaultName, site.place);

    let at: Tree = input.tree;
    let walked: Path = [];
    for (const [index, part] of path.entries()) {
      if (at.kind === 'scalar' && typeof at.value === 'string' && isTemplate(at.value)) {
        // A section that is itself an interpolation: what stands below it is final already.
        return below(resolve(walked, at), path.slice(index));
      }
      const name = nameIn(at, part, walked);
      const next: Tree | undefined = name === undefined ? undefined : childOf(at, name);
      if (name === undefined || next === undefined) return undefined;
      walked = [...walked, name];
      at = next;
    }
    return resolve(walked, at);
  };

  const nameGiven = (): Tree | undefined => {
    const job = input.tree.entries.get('job')?.value;
    return job?.kind === 'map' ? job.entries.get('name')?.value : undefined;
  };

  /** The name under which a container holds a part of a path, among all names of that key. */
  const nameIn = (tree: Tree, part: string | number, walked: Path): string | number | undefined => {
    if (tree.kind === 'list') return /^\d+$/.test(String(part)) ? Number(part) : undefined;
    if (tree.kind !== 'map') return undefined;
    return [String(part), ...input.aliases([...walked, part])].find((name) => tree.entries.has(name));
  };

  const resolver = (part: Extract<Part, { kind: 'resolver' }>, site: Site): Tree => {
    const [first, second] = part.args;
    const fallback = () => (second === undefined ? undefined : argValue(second, site));
    const argument = first === undefined ? undefined : textOf(first.parts, site);
    if (first !== undefined && argument === undefined) return unknown(site.place);
    if (argument === undefined || part.args.length > 2) {
      return mistake(site, `${part.written} wants one value, and may have a default after a comma`);
    }
    switch (part.name) {
      case 'oc.env': {
        const value = input.env[argument] ?? undefined;
        if (value !== undefined) return scalar(value, site.place);
        const given = fallback();
        if (given === undefined) {
          return mistake(site, `the environment variable ${argument} is not set; a default may follow a comma`);
        }
        // What comes from an environment is text; only null stays what it is.
        return given.kind === 'scalar' && given.value !== null ? scalar(given.source, site.place) : given;
      }
      case 'oc.select': {
        const path = absolute(argument, site);
        const found = path === undefined ? undefined : lookUp(path, site);
        if (found !== undefined && !isMissing(found)) return found;
        return fallback() ?? { kind: 'scalar', value: null, source: 'null', place: site.place };
      }
      case 'oc.decode':
        return moved(parseValue(argument, part.written), site.place);
      default:
        return mistake(site, `${part.written} asks for ${part.name}; jobman knows oc.env, oc.select and oc.decode`);
    }
  };

  const argValue = (arg: Arg, site: Site): Tree => {
    const value = evaluate(arg.parts, site);
    // A default is read as YAML reads it, `5` as a number, unless it is in quotes or came from another key.
    const plain = arg.parts.every((part) => part.kind === 'text');
    if (arg.quoted || !plain || value.kind !== 'scalar') return value;
    return moved(parseValue(value.source, value.source), site.place);
  };

  const textOf = (parts: readonly Part[], site: Site): string | undefined => {
    const value = evaluate(parts, site);
    if (value.kind === 'scalar') return value.source;
    if (value.kind !== 'unknown') mistake(site, 'a list or a section cannot be part of a name');
    return undefined;
  };

  const mistake = (site: Site, message: string, suggestion?: string): Tree => {
    report.problem({ place: site.place, path: pathText(site.path), message, suggestion });
    return unknown(site.place);
  };

  const sayCycle = (chain: readonly string[], place: Place, path: Path): void => {
    // One cycle is met from each of its keys; it is one problem.
    const members = JSON.stringify([...new Set(chain)].toSorted());
    if (!cycles.has(members)) {
      report.problem({ place, path: pathText(path), message: `refers to itself: ${chain.join(' -> ')}` });
    }
    cycles.add(members);
  };

  const sayTooMuch = (site: Site): Tree => {
    if (!tooMuch) mistake(site, 'interpolation makes this manifest far larger than it is; something doubles itself');
    tooMuch = true;
    return unknown(site.place);
  };

  return {
    section(name, to) {
      report = to;
      const entry = input.tree.entries.get(name);
      return entry === undefined ? undefined : resolve([name], entry.value);
    },
  };
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

/** A value put somewhere else: what is wrong with it is said where it is asked for. */
function moved(tree: Tree, place: Place): Tree {
  return tree.kind === 'scalar' || tree.kind === 'unknown' ? { ...tree, place } : tree;
}
