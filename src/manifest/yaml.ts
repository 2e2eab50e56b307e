import { Document, isMap, isScalar, LineCounter } from 'yaml';
import { reportProblem } from '../schema/kinds.ts';
import { newFindings, type SourcePosition, type Report } from '../schema/problems.ts';
import { applySets, valueNode, type SetArgument } from './overrides.ts';
import { maxDepth, type Mapping, type Scalar, type Tree } from '../schema/tree.ts';
import { parseYaml, treeOf } from '../schema/yaml.ts';

interface ParsedText {
  /** Undefined when the text is empty or is no YAML map; the problem is then reported. */
  readonly tree: Mapping | undefined;
  readonly linePos: (offset: number) => { line: number; col: number };
}

/** Parses a manifest's text, applies the sets and reports every YAML error. Never throws because of the text. */
export function parseText(text: string, sets: readonly SetArgument[], report: Report): ParsedText {
  const lines = new LineCounter();
  const linePos = (offset: number) => lines.linePos(offset);
  const start: SourcePosition = { in: 'file', offset: 0 };
  const document = parseYaml(text, lines);
  const failed = { tree: undefined, linePos };
  const refuse = (message: string): ParsedText => {
    reportProblem({ position: start }, [], report, message);
    return failed;
  };
  if (document === undefined) return refuse(`is nested deeper than ${maxDepth} levels`);

  const seen = new Set<number>();
  for (const error of document.errors) {
    // One mistake often causes several errors on one line; the first describes it best.
    if (seen.has(linePos(error.pos[0]).line)) continue;
    seen.add(linePos(error.pos[0]).line);
    reportProblem({ position: { in: 'file', offset: error.pos[0] } }, [], report, yamlMessage(error));
  }
  for (const warning of document.warnings) {
    const message = `YAML: ${firstLine(warning.message)}`;
    reportProblem({ position: { in: 'file', offset: warning.pos[0] } }, [], report, message);
  }
  const { contents, errors } = document;
  if (errors.length > 0) return failed;
  if (contents === null || (isScalar(contents) && contents.value === null)) return refuse('the manifest is empty');
  const positions = isMap(contents) ? applySets(document, sets, report) : undefined;
  const tree = treeOf(document, (offset) => ({ in: 'file', offset }), report, positions);
  if (tree !== undefined && tree.kind !== 'map') {
    const is = tree.kind === 'list' ? 'a list' : 'a single value';
    reportProblem(tree, [], report, `a manifest is a map of sections (job:, tpu:, command:), not ${is}`);
    return failed;
  }
  return { tree, linePos };
}

/** A text as the value of `--set` has it. */
export function parseValue(text: string, set: string): Tree {
  const document = new Document();
  document.contents = valueNode(document, text);
  const position: SourcePosition = { in: 'set', set };
  const plain: Scalar = { kind: 'scalar', value: text, source: text, position };
  return treeOf(document, () => position, newFindings()) ?? plain;
}

/** The YAML parser describes the grammar; these messages say what to change. */
const yamlMessages: Readonly<Record<string, string>> = {
  TAB_AS_INDENT: 'this line is indented with a tab; YAML requires spaces',
  MULTIPLE_DOCS: 'a second YAML document begins here (---); the file may contain only one',
  BLOCK_AS_IMPLICIT_KEY: 'this value contains a second `key:`; put the key on its own line, or the value in quotes',
  MULTILINE_IMPLICIT_KEY: 'this key spans several lines; the line before needs a colon, or a quote is not closed',
  BAD_INDENT: 'the indentation of this line does not match the lines around it',
};

function yamlMessage({ code, message }: { readonly code: string; readonly message: string }): string {
  if (message.includes('call stack')) return `is nested deeper than ${maxDepth} levels`;
  if (code === 'MISSING_CHAR' && message.startsWith('Implicit map keys'))
    return 'this key has no colon; write `key: value`';
  if (code === 'MISSING_CHAR' && message.startsWith('Missing closing')) return 'a quote is not closed';
  return yamlMessages[code] ?? `YAML: ${firstLine(message)}`;
}

function firstLine(text: string): string {
  const [line = ''] = text.split('\n', 1);
  return line.replace(/[.:]$/, '');
}
