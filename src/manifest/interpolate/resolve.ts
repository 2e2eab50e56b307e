// Resolve: puts the values of other keys, and of this machine's environment, where `${…}` asks for them.

import type { Path } from '../../schema/kind.ts';
import { pathText, type Report } from '../../schema/problems.ts';
import type { Entry, Tree } from '../../schema/tree.ts';
import { isTemplate, parseTemplate } from '../template.ts';
import { evaluate, type EvaluateInput, type Run } from './evaluate.ts';
import { chainMost, newLimits } from './limits.ts';
import { newMessages, unknown, type Site } from './messages.ts';

export interface Interpolation {
  /** The section with all its values put in. What could not be made out is `unknown`, and reported here the first time it is met. */
  section(name: string, report: Report): Tree | undefined;
}

export function interpolation(input: EvaluateInput): Interpolation {
  const done = new Map<string, Tree>();
  /** The paths in work, outermost first; meeting one of them again is a cycle. */
  const open = new Map<string, string>();
  const messages = newMessages();
  const limits = newLimits();

  const resolve = (path: Path, raw: Tree): Tree => {
    // A key may hold a dot, so the text of a path is for people only.
    const id = JSON.stringify(path);
    const finished = done.get(id);
    if (finished !== undefined) return finished;
    const site: Site = { path, place: raw.place };
    if (open.has(id)) {
      const names = [...open.values(), pathText(path)];
      return messages.cycle(site, names.slice([...open.keys()].indexOf(id)));
    }
    if (open.size > chainMost) return messages.mistake(site, `is reached through more than ${chainMost} names`);
    if (limits.isReached()) return unknown(raw.place);
    open.set(id, pathText(path));
    const inner = valueOf(raw, site, run);
    const value = limits.isReached() ? messages.tooMuch(site) : inner;
    open.delete(id);
    done.set(id, value);
    return value;
  };

  const run: Run = { input, limits, messages, resolve };
  return {
    section(name, report) {
      messages.to(report);
      const entry = input.tree.entries.get(name);
      return entry === undefined ? undefined : resolve([name], entry.value);
    },
  };
}

function valueOf(raw: Tree, site: Site, run: Run): Tree {
  const { path, place } = site;
  if (raw.kind === 'map') {
    const entries = new Map<string, Entry>();
    for (const [key, entry] of raw.entries) {
      entries.set(key, { place: entry.place, value: run.resolve([...path, key], entry.value) });
    }
    const tree: Tree = { kind: 'map', entries, place, owner: raw.owner };
    run.limits.addContainer(
      tree,
      [...entries.values()].map(({ value }) => value),
    );
    return tree;
  }
  if (raw.kind === 'list') {
    const items = raw.items.map((item, index) => run.resolve([...path, index], item));
    const tree: Tree = { kind: 'list', items, place };
    run.limits.addContainer(tree, items);
    return tree;
  }
  if (raw.kind === 'unknown' || typeof raw.value !== 'string' || !isTemplate(raw.value)) return raw;
  return evaluate(parseTemplate(raw.value, run.input.isScript(path)), site, run);
}
