/** The documents of this repository as data: their blocks, their code in lines, their links and headings. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../support/root.ts';

/** A fenced block. */
export interface CodeBlock {
  readonly document: string;
  /** Line of the fence, from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
  /** The reason in a comment `<!-- not run: why -->` on the line before the fence; null if the block is run. */
  readonly skipReason: string | null;
}

/** A document, with its path from the top of the repository. */
export interface Document {
  readonly path: string;
  readonly text: string;
  /** The text without its fenced blocks, line for line. */
  readonly prose: string;
  readonly blocks: readonly CodeBlock[];
}

/** Every Markdown file that is part of the repository, or is about to become one. */
export function readDocuments(): readonly Document[] {
  const list = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '*.md'], {
    cwd: root,
    encoding: 'utf8',
  });
  const paths = [...new Set(list.split('\0').filter((path) => path !== '' && existsSync(join(root, path))))];
  return paths.toSorted().map(readDocument);
}

/** One document by its path. */
export function readDocument(path: string): Document {
  return parseDocument(path, readFileSync(join(root, path), 'utf8'));
}

/** Reads a document's text. A fence inside a list is indented; its text then loses that much of every line. */
export function parseDocument(path: string, text: string): Document {
  const blocks: CodeBlock[] = [];
  const prose: string[] = [];
  const lines = text.split('\n');
  let open: { line: number; indent: string; language: string; skipReason: string | null; lines: string[] } | undefined;
  for (const [index, line] of lines.entries()) {
    const fence = /^( *)```(\w*)/.exec(line);
    if (open === undefined && fence !== null) {
      const [, indent = '', language = ''] = fence;
      const skipReason = /<!-- not run: (.*) -->/.exec(lines[index - 1] ?? '')?.[1] ?? null;
      open = { line: index + 1, indent, language, skipReason, lines: [] };
    } else if (open !== undefined && line.trim() === '```') {
      const { line: at, language, skipReason, lines: inside } = open;
      blocks.push({ document: path, line: at, language, skipReason, text: inside.map((one) => `${one}\n`).join('') });
      open = undefined;
    } else if (open !== undefined) {
      open.lines.push(line.startsWith(open.indent) ? line.slice(open.indent.length) : line.trimStart());
    }
    prose.push(open === undefined && fence === null ? line : '');
  }
  if (open !== undefined) throw new Error(`${path}:${open.line}: the block has no end`);
  return { path, text, prose: prose.join('\n'), blocks };
}

/** A command line that a document shows, and where. */
export interface ShownCommand {
  readonly position: string;
  /** The text after the program's name. */
  readonly argsText: string;
}

/**
 * Every command line of that program that a document shows: in blocks, where a shell would take its name for a command, and as
 * code within a sentence. What other programs print, and manifests, are not ours to read.
 */
export function shownCommands({ path, prose, blocks }: Document, program = 'jobman'): readonly ShownCommand[] {
  const found: ShownCommand[] = [];
  const inShell = new RegExp(String.raw`(?:^|[;|&(])\s*(?:bin/)?${program} ((?:"[^"]*"|'[^']*'|[^|&;)#])*)`, 'g');
  const inSentence = new RegExp(`\`((?:bin/)?${program} [^\`]*)\``, 'g');
  const addCommands = (line: number, text: string): void => {
    for (const [, command = ''] of text.matchAll(inShell)) {
      found.push({ position: `${path}:${line}`, argsText: command.replace(/ >>? .*/, '').trim() });
    }
  };
  for (const { language, text, line } of blocks) {
    if (language === 'yaml' || language === 'json' || language === 'ts') continue;
    for (const [index, one] of text.split('\n').entries()) {
      if (language !== 'console') addCommands(line + 1 + index, one.replace(/ {2,}# .*$/, ''));
      else if (one.startsWith('$ ')) addCommands(line + 1 + index, one.slice(2));
    }
  }
  for (const [index, one] of prose.split('\n').entries()) {
    for (const [, code = ''] of one.matchAll(inSentence)) addCommands(index + 1, code);
  }
  return found;
}

/** The arguments of a command line, as a shell would pass them; enough of a shell for documents. */
export function splitShellArgs(line: string): readonly string[] {
  return [...line.matchAll(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g)].map(([match]) =>
    match.replaceAll(/"([^"]*)"|'([^']*)'/g, (_, double?: string, single?: string) => double ?? single ?? ''),
  );
}

/** The anchors of all headings, as sites that show Markdown make them: lower case, hyphens for spaces, no other signs. */
export function anchorsOf({ prose }: Pick<Document, 'prose'>): readonly string[] {
  const seen = new Map<string, number>();
  return [...prose.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => {
    const plain = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1');
    const slug = plain
      .trim()
      .toLowerCase()
      .replaceAll(/[^\p{Letter}\p{Number}\s_-]/gu, '')
      .replaceAll(/\s/g, '-');
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    return count === 0 ? slug : `${slug}-${count}`;
  });
}

/** The first block of a language in a page, after that text. */
export function blockOf(page: string, language: string, after = ''): string {
  const text = readFileSync(join(root, page), 'utf8');
  const [, block] = text.slice(text.indexOf(after)).match(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\``, 'm')) ?? [];
  assert.ok(block !== undefined, `${page} has no block of ${language} after "${after}"`);
  return block;
}
