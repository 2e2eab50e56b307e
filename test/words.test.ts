/**
 * The words of this project (docs/glossary.md): replaced words in comments, messages, documents and names are failures,
 * with file and line. `finished` lists the folders that are clean; add a folder when it is.
 *
 *     WORDS=src/app node --test test/words.test.ts    shows every hit in a folder
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseSync } from 'vite';
import { root } from './support/root.ts';

/** Folders and files without a replaced word. */
const finished: readonly string[] = [];

/** Files that quote the words, and lines that another program decides: at most ten. */
const exceptions: readonly RegExp[] = [/^test\/words\.test\.ts:/u, /^docs\/glossary\.md:/u];

interface Row {
  readonly word: string;
  readonly find: RegExp;
  readonly instead?: string;
}

/** Replaced words in text that people read: comments, messages, documents. */
// prettier-ignore
const prose: readonly Row[] = [
  { word: 'whoever', find: /\bwho(?:m)?ever\b/giu, instead: 'the user, the client, the process' },
  { word: 'somebody', find: /\bsomebody\b/giu, instead: 'a user, another process' },
  { word: 'nobody', find: /(?<!user )(?<!as )\bnobody\b/giu, instead: 'no user, no process, nothing' },
  { word: "anybody's", find: /\banybody[’']s\b/giu },
  { word: 'anew', find: /\banew\b/giu, instead: 'again' },
  { word: 'beside', find: /\bbeside\b/giu, instead: 'next to, in addition to' },
  { word: 'let go', find: /\blet(?:s|ting)?(?: (?:it|them|him|one|all|(?:the|its|their|that|this|what|a) \w+))? go\b/giu, instead: 'release' },
  { word: 'came of', find: /\bc(?:ome|omes|ame|oming) of (?!age\b)/giu, instead: 'resulted in, the result' },
  { word: 'at hand', find: /\bat hand\b/giu, instead: 'available' },
  { word: 'in vain', find: /\bin vain\b/giu, instead: 'without success' },
  { word: 'told', find: /\b(?:told|tells?|telling)\b(?! (?:apart\b|(?:\S+ ){1,3}from\b))/giu, instead: 'report, print, ask, notify' },
  { word: 'word', find: /(?<!other )(?<!whole )(?<!key )\bwords?\b(?! (?:boundar|wrap|split|break|for word))/giu, instead: 'message, argument, name, value' },
  { word: 'look', find: /\blook(?:s|ed|ing)?\b(?!-)(?! (?:like|up|ahead|behind|alike|the same)\b)/giu, instead: 'observe, check, read, find' },
  { word: 'sight, glance', find: /(?<!first )\b(?:sights?|glances?)\b/giu },
  { word: 'mark', find: /(?<!question )(?<!quotation )(?<!quote )(?<!exclamation )(?<!order )\bmarks?\b(?! (?:\S+ ){1,5}as\b)/giu, instead: 'label, marker' },
  { word: 'moment', find: /(?<!at the )(?<!for the )(?<!for a )(?<!in a )(?<!after a )(?<!within a )(?<!at any )(?<!at every )(?<!last )\bmoments?\b(?! (?:ago|later|before|after|longer)\b)/giu, instead: 'time, timestamp' },
  { word: 'lies', find: /\b(?:lies|lay|lying)\b(?! (?:to|about)\b)/giu, instead: 'is' },
  { word: 'stands', find: /\bstands?\b(?! (?:for|in for|still|out|up|down|by)\b)/giu, instead: 'is' },
  { word: 'blank', find: /\bblanks?\b(?! (?:lines?|rows?|pages?|screens?|cells?|fields?)\b)/giu, instead: 'space' },
  { word: 'tend', find: /\b(?:at)?tend(?:s|ed|ing)?\b(?! to\b)/giu },
  { word: 'beget, grave, bury, forsake', find: /\b(?:beget\w*|begot\w*|graves?(?! accent)|bur(?:y|ied|ies)|forsak\w+)\b/giu },
  { word: 'plant', find: /\bplant(?:s|ed|ing)?\b/giu },
  { word: 'weather, sky', find: /\b(?:weather|sky|skies)\b/giu },
  { word: 'pretend', find: /\bpretend(?:s|ed|ing)?\b/giu, instead: 'simulate, fake' },
  { word: 'in so many words', find: /\bin so many words\b/giu },
  { word: 'by hand', find: /\bby hand\b/giu, instead: 'manually' },
  { word: 'whose it is', find: /\bwhose (?:it|they) (?:is|are|was|were)\b/giu },
  { word: 'as of', find: /(?<!\bsame )\bas of\b(?! (?:v?\d|version|today|now|this (?:release|version)))/giu },
  { word: 'all the same', find: /\ball the same\b/giu },
  { word: 'place', find: /(?<!in )(?<!into )(?<!takes )(?<!take )(?<!took )(?<!taking )(?<!decimal )(?<!first )\bplaces?\b(?! (?:orders?|an order|it|them)\b)/giu, instead: 'alternative, location, position, folder' },
  { word: 'in its place', find: /\bin (?:the|its|their|his|whose|that) place\b/giu },
  { word: 'wish', find: /\bwish(?:es|ed)?\b/giu, instead: 'start request, option' },
  { word: 'settled', find: /(?<!promise )(?<!promises )\bsettle[sd]?\b(?! (?:on|for)\b)/giu, instead: 'finished' },
  { word: 'standing, owned (capacity)', find: /\bstanding (?:TPU|allocation|node|capacity|one|resource)s?\b|\bowned (?:TPU|allocation|node|capacity|one|resource)s?\b/giu },
  { word: 'stray', find: /\bstrays?\b/giu, instead: 'orphan' },
  { word: 'sweep', find: /(?<!parameter )(?<!grid )\bsweep(?:er|ers|s|ing)?\b(?! (?:over|file|config|spec)\b)/giu, instead: 'orphan collection' },
  { word: 'law', find: /\blaws?\b/giu, instead: 'invariant' },
  { word: 'keeper', find: /\bkeepers?\b/giu, instead: 'archive' },
  { word: 'desk', find: /\bdesks?\b/giu, instead: 'lab, cli' },
  { word: 'door', find: /\bdoors?\b/giu, instead: 'by subject' },
  { word: 'built-in cloud, cloud in a box', find: /\bbuilt-in cloud\b|\bclouds? in a box\b/giu },
  { word: 'turn (in a queue)', find: /\b(?:its|their|whose|one'?s|a|next(?: one's)?) turns?\b(?! (?:of|to|in)\b)/giu, instead: 'position' },
  { word: 'pass over', find: /\bpass(?:ed|ing) over\b/giu, instead: 'skip' },
  { word: 'stranger', find: /\bstrangers?\b/giu },
  { word: 'usual wait', find: /\busual (?:wait|waits)\b/giu },
  { word: 'strike, temper, happening', find: /\b(?:str(?:ike|ikes|uck|iking)|tempers?|happenings?)\b/giu },
  { word: "the owner's word", find: /\bowner'?s words?\b/giu },];

/** Replaced words as a part of an identifier: `lookAgain`, `placesOf`. */
const nameParts = new Set(
  `anew asker beside beyond desk door doors fate fates glance hearsay keeper lack law laws look mark moment nobody place places plant
  plants pretend pretended said say says settled sight sky somebody standing stranger strangers stray strays sweep sweeper
  tale tell told vain weather whoever whose wish word words`.split(/\s+/u),
);

/** A name for a subject says more than a clause about it; a question may begin like this. */
const relativeClause = /^(?:What|Whatever|Whether|Where|Wherever|Whose|Which|Who|Whoever|Whom|How|Why)\b(?![^.?!]*\?)/u;

interface Piece {
  readonly kind: 'prose' | 'comment' | 'name';
  readonly text: string;
  /** Offset of the text in its file. */
  readonly start: number;
}

const asked = process.env['WORDS'];
const folders = asked === undefined || asked === '' ? finished : asked.split(',');

test('no replaced word', { skip: folders.length === 0 }, () => {
  const all = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', ...folders], {
    cwd: root,
    encoding: 'utf8',
  });
  const files = all.split('\0').filter((path) => /\.(?:ts|md)$/u.test(path) && existsSync(join(root, path)));
  const hits = files.flatMap(hitsIn).filter((hit) => !exceptions.some((one) => one.test(hit)));
  assert.equal(hits.length, 0, `${hits.length} hits; docs/glossary.md has the words\n${hits.join('\n')}`);
});

function hitsIn(path: string): readonly string[] {
  const text = readFileSync(join(root, path), 'utf8');
  const pieces = path.endsWith('.md') ? markdownPieces(text) : codePieces(path, text);
  const lineAt = (offset: number): number => text.slice(0, offset).split('\n').length;
  return pieces.flatMap((piece) =>
    problemsOf(piece).map(([offset, problem]) => `${path}:${lineAt(piece.start + offset)} ${problem}`),
  );
}

function problemsOf({ kind, text }: Piece): readonly (readonly [offset: number, problem: string])[] {
  if (kind === 'name') {
    const part = text.split(/(?<=[a-z0-9])(?=[A-Z])|_/u).find((one) => nameParts.has(one.toLowerCase()));
    return part === undefined || /^(?:lookUp|lookAhead|lookBehind)/u.test(text) ? [] : [[0, `name ${text}`]];
  }
  // The same length, so that offsets stay right.
  const plain = text.replaceAll(/`[^`]*`|https?:\/\/\S+|\{@link [^}]*\}/gu, (code) => ' '.repeat(code.length));
  const found = prose.flatMap(({ word, find, instead }) =>
    [...plain.matchAll(find)].map((hit): readonly [number, string] => [
      hit.index,
      `${word}${instead === undefined ? '' : ` -> ${instead}`}: ${around(plain, hit.index)}`,
    ]),
  );
  const opening = plain.trimStart();
  const opens = kind === 'comment' && relativeClause.test(opening);
  return opens
    ? [[plain.length - opening.length, `opens with a relative clause: ${opening.slice(0, 50)}`], ...found]
    : found;
}

function around(text: string, offset: number): string {
  return text.slice(Math.max(0, offset - 25), offset + 35).replaceAll(/\s+/gu, ' ');
}

function codePieces(path: string, text: string): readonly Piece[] {
  const { program, comments } = parseSync(path, text);
  const pieces: Piece[] = [];
  let last: { start: number; end: number; text: string } | undefined;
  for (const comment of comments) {
    const body = text
      .slice(comment.start, comment.end)
      .replaceAll(/^\/\*+|\*\/$|^\/\/|(?<=\n)\s*\*(?!\/)/gu, (sign) => ' '.repeat(sign.length));
    if (last !== undefined && comment.type === 'Line' && text.slice(last.end, comment.start).trim() === '') {
      last.text += ' '.repeat(comment.start - last.end) + body;
      last.end = comment.end;
      continue;
    }
    if (last !== undefined) pieces.push({ kind: 'comment', text: last.text, start: last.start });
    last = { start: comment.start, end: comment.end, text: body };
  }
  if (last !== undefined) pieces.push({ kind: 'comment', text: last.text, start: last.start });
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(visit);
    if (typeof value !== 'object' || value === null || value instanceof RegExp) return;
    const node = value as Readonly<Record<string, unknown>> & { readonly start: number; readonly end: number };
    const { type } = node;
    if (type === 'ImportDeclaration') return;
    if (type === 'Identifier' && typeof node['name'] === 'string')
      pieces.push({ kind: 'name', text: node['name'], start: node.start });
    const isText = (type === 'Literal' && typeof node['value'] === 'string') || type === 'TemplateElement';
    const written = isText ? text.slice(node.start, node.end) : '';
    if (written.trim().includes(' ')) pieces.push({ kind: 'prose', text: written, start: node.start });
    for (const [key, child] of Object.entries(node)) if (key !== 'regex') visit(child);
  };
  visit(program);
  return pieces;
}

/** Paragraphs; link targets are no text. */
function markdownPieces(text: string): readonly Piece[] {
  const plain = text.replaceAll(/\]\([^)]*\)/gu, (link) => ' '.repeat(link.length));
  return [...plain.matchAll(/(?:[^\n]+\n?)+/gu)].map((part) => ({ kind: 'prose', text: part[0], start: part.index }));
}
