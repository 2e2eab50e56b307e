// Evaluate: the value of a text with `${…}` in it.

import type { Path } from '../../schema/kind.ts';
import type { Place } from '../../schema/problems.ts';
import { isMissing, type Tree } from '../../schema/tree.ts';
import type { Arg, Part } from '../template.ts';
import { parseValue } from '../yaml.ts';
import type { Limits } from './limits.ts';
import { absolute, lookUp, scalar, type LookUpInput } from './look-up.ts';
import { unknown, type Messages, type Site } from './messages.ts';

export interface EvaluateInput extends LookUpInput {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** True where a text is a shell script, whose own `${NAME}` stay. */
  readonly isScript: (path: Path) => boolean;
  /** True for a key that the manifest may have but need not. */
  readonly isKnown: (path: Path) => boolean;
  /** The name of the path that was most likely meant. */
  readonly meant: (path: Path) => string | undefined;
}

/** One interpolation of a manifest, from its beginning to its end. */
export interface Run {
  readonly input: EvaluateInput;
  readonly limits: Limits;
  readonly messages: Messages;
  /** The value at a path, from what is written there. */
  readonly resolve: (path: Path, raw: Tree) => Tree;
}

type Reference = Exclude<Part, { kind: 'text' }>;
type Of<K extends Part['kind']> = Extract<Part, { kind: K }>;

export function evaluate(parts: readonly Part[], site: Site, run: Run): Tree {
  const [only] = parts;
  // A value that is one interpolation keeps its type; put into a longer text it becomes text.
  if (parts.length === 1 && only !== undefined && only.kind !== 'text') {
    return moved(valueOf(only, site, run), site.place);
  }
  // All of them are looked at, also after one is wrong: every problem is said at once.
  const pieces = parts.map((part) => (part.kind === 'text' ? part.text : pieceOf(part, site, run)));
  if (pieces.includes(undefined)) return unknown(site.place);
  const text = pieces.join('');
  run.limits.addText(text.length);
  return scalar(text, site.place);
}

function pieceOf(part: Reference, site: Site, run: Run): string | undefined {
  const value = valueOf(part, site, run);
  if (value.kind === 'unknown') return undefined;
  if (value.kind === 'scalar') return value.value === null ? 'null' : value.source;
  const is = value.kind === 'list' ? 'a list' : 'a section';
  run.messages.mistake(site, `${part.written} is ${is}, which cannot stand inside a text`);
  return undefined;
}

function valueOf(part: Reference, site: Site, run: Run): Tree {
  switch (part.kind) {
    case 'mistake':
      return run.messages.mistake(site, part.message);
    case 'name':
      return named(part, site, run);
    case 'resolver':
      return resolver(part, site, run);
  }
}

function named(part: Of<'name'>, site: Site, run: Run): Tree {
  const { input } = run;
  const { mistake } = run.messages;
  const name = textOf(part.name, site, run);
  if (name === undefined) return unknown(site.place);
  const path = absolute(name, site);
  if (path === undefined) return mistake(site, `${part.written} leads out of the manifest`);
  const found = lookUp(path, site, input, run.resolve);
  if (found !== undefined) {
    return isMissing(found) ? mistake(site, `${part.written} needs a value, which is still ??? there`) : found;
  }
  if (part.mayBeShell) return scalar(`\${${name}}`, site.place);
  if (input.isKnown(path)) return mistake(site, `${part.written} is not given in this manifest`);
  const message = `${part.written} is no key of this manifest`;
  const meant = run.limits.mayGuess() ? input.meant(path) : undefined;
  if (meant !== undefined) return mistake(site, message, `\${${meant}}`);
  const mayBeShell = path.length === 1 || input.isScript(site.path);
  return mistake(site, mayBeShell ? `${message}; write \\${part.written} when it is not jobman's` : message);
}

function resolver(part: Of<'resolver'>, site: Site, run: Run): Tree {
  const { mistake } = run.messages;
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
      const found = path === undefined ? undefined : lookUp(path, site, run.input, run.resolve);
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
  if (value.kind !== 'unknown') run.messages.mistake(site, 'a list or a section cannot be part of a name');
  return undefined;
}

/** A value put somewhere else: what is wrong with it is said where it is asked for. */
function moved(tree: Tree, place: Place): Tree {
  return tree.kind === 'scalar' || tree.kind === 'unknown' ? { ...tree, place } : tree;
}
