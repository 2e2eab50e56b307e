// YAML: the text as maps, lists and scalars, each with the place where it was written. Everything after this file works on
// the tree and knows nothing of YAML.

import { isScalar, LineCounter } from 'yaml';
import { refuse } from '../schema/kinds.ts';
import type { Place, Report } from '../schema/problems.ts';
import { nestedMost, type Mapping, type Scalar, type Tree } from '../schema/tree.ts';
import { parseYaml, treeOf } from '../schema/yaml.ts';

export interface ParsedText {
  /** Undefined when the text is no YAML map, or empty; the report then says so. */
  readonly tree: Mapping | undefined;
  readonly linePos: (offset: number) => { line: number; col: number };
}

/** Parses a manifest's text. Every mistake of the YAML itself is reported; never throws for what a text holds. */
export function parseText(text: string, report: Report): ParsedText {
  const lines = new LineCounter();
  const linePos = (offset: number) => lines.linePos(offset);
  const whole: Place = { in: 'file', offset: 0 };
  const document = parseYaml(text, lines);
  if (document === undefined) {
    return { tree: refuse({ place: whole }, [], report, `is nested deeper than ${nestedMost} levels`), linePos };
  }

  const seen = new Set<number>();
  for (const error of document.errors) {
    // One slip often raises several errors at one place; the first names it best.
    if (seen.has(linePos(error.pos[0]).line)) continue;
    seen.add(linePos(error.pos[0]).line);
    refuse({ place: { in: 'file', offset: error.pos[0] } }, [], report, yamlWords(error));
  }
  for (const warning of document.warnings) {
    refuse({ place: { in: 'file', offset: warning.pos[0] } }, [], report, `YAML: ${firstLine(warning.message)}`);
  }
  if (document.errors.length > 0) return { tree: undefined, linePos };
  if (document.contents === null || (isScalar(document.contents) && document.contents.value === null)) {
    return { tree: refuse({ place: whole }, [], report, 'the manifest is empty'), linePos };
  }
  const tree = treeOf(document, (offset) => ({ in: 'file', offset }), report);
  if (tree !== undefined && tree.kind !== 'map') {
    const is = tree.kind === 'list' ? 'a list' : 'a single value';
    const message = `a manifest is a map of sections (job:, tpu:, command:), this is ${is}`;
    return { tree: refuse(tree, [], report, message), linePos };
  }
  return { tree, linePos };
}

/** Parses a value of the command line (`--set a.b=VALUE`) as YAML; what is no YAML is text. */
export function parseValue(text: string, set: string): Tree {
  const place: Place = { in: 'set', set };
  const plain: Scalar = { kind: 'scalar', value: text, source: text, place };
  const document = parseYaml(text);
  if (document === undefined || document.errors.length > 0 || document.warnings.length > 0) return plain;
  // An alias in a value has nothing to stand for; such a text is taken as it is.
  let failed = false;
  const fail: Report = { problem: () => (failed = true), warning: () => {} };
  const tree = document.contents === null ? undefined : treeOf(document, () => place, fail);
  if (text === '') return { ...plain, value: '' };
  return tree === undefined || failed ? plain : tree;
}

/** The parser's own words for the frequent slips say what the grammar wanted; ours say what to do. */
function yamlWords(error: { readonly code: string; readonly message: string }): string {
  switch (error.code) {
    case 'TAB_AS_INDENT':
      return 'a tab indents this line; YAML wants spaces';
    case 'MULTIPLE_DOCS':
      return 'a manifest is one YAML document; a second one begins here (---)';
    case 'BLOCK_AS_IMPLICIT_KEY':
      return 'a value with a second `key:` in it: put it on its own line, or in quotes';
    case 'MULTILINE_IMPLICIT_KEY':
      return 'a key goes on over several lines: the line before lacks its colon, or a quote is not closed';
    case 'BAD_INDENT':
      return 'this line is indented otherwise than what it belongs to';
    case 'MISSING_CHAR':
      if (error.message.startsWith('Implicit map keys')) return 'a word without a colon; write `key: value`';
      if (error.message.startsWith('Missing closing')) return 'a quote is not closed';
      return `YAML: ${firstLine(error.message)}`;
    default:
      if (error.message.includes('call stack')) return `is nested deeper than ${nestedMost} levels`;
      return `YAML: ${firstLine(error.message)}`;
  }
}

function firstLine(text: string): string {
  const [line = ''] = text.split('\n', 1);
  return line.replace(/[.:]$/, '');
}
