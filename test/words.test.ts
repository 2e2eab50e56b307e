/**
 * The words of this project (docs/glossary.md). Comments, messages, documents and names that use a replaced word are
 * failures, with file and line. They are searched in the whole repository.
 *
 *     WORDS=src/app,test/app node --test test/words.test.ts    shows every hit in two folders
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { parseSync } from 'vite';
import { root } from './support/root.ts';

/** Files that quote the words, and lines whose text another program decides: at most ten. */
const exceptions: readonly RegExp[] = [
  /^test\/words\.test\.ts:/u,
  /^docs\/glossary\.md:/u,
  /^test\/lab\/scripts\/staging\.sh:/u,
  // `words` is a variable of zsh.
  /^src\/cli\/commands\/help\.ts:\d+ words /u,
  // The type of a problem document is `about:blank`.
  /^python\/jobman\/_api\.py:\d+ blank /u,
  // An option of a ReadableStream.
  /^\S+:\d+ name highWaterMark$/u,
  // The command `jobman mark`.
  /^(?:docs\/(?:commands|metrics)\.md|python\/jobman\/\w+\.py|(?:src|test)\/(?:remote|cli|real)\/\S+):\d+ (?:file name |name )?mark/u,
];

interface Row {
  /** Alternatives of a regular expression, as whole words. */
  readonly find: string;
  readonly instead: string;
  /** Other meanings of the words, removed before the search. */
  readonly unless?: string;
  /** Sentences with the word, in its usual forms. */
  readonly bad: readonly string[];
  /** Sentences with another meaning of the word. */
  readonly good?: readonly string[];
}

/** Replaced words in text that people read: comments, messages, documents. */
// prettier-ignore
const rows: readonly Row[] = [
  { find: 'whoever|whomever', instead: 'the user, the client, the process', bad: ['Whoever asks, and whomever they ask.'] },
  { find: "somebody(?:['’]s)?", instead: 'a user, another process', bad: ['Somebody cancels it.', "Somebody's job."] },
  { find: 'nobody', unless: '(?:user[= ]|as |u )nobody', instead: 'no user, no process, nothing', bad: ['Nobody asks.'], good: ['The user nobody.', 'Runs as nobody.'] },
  { find: "(?:any|every)body(?:['’]s)?", instead: 'every user, others', bad: ["It is anybody's.", 'Everybody may read it.'] },
  { find: 'anew', instead: 'again', bad: ['It begins anew.'] },
  { find: 'beside', instead: 'next to, in addition to', bad: ['A file beside the database.'] },
  { find: 'let(?:s|ting)?(?: \\S+){0,3} go', instead: 'release', bad: ['The TPU is let go.', 'The controller lets its old TPU go.', 'Letting it go.'] },
  { find: 'c(?:ame|ome|omes|oming) of', unless: 'come of age', instead: 'result', bad: ['What came of it, and what may come of it.', 'It comes of a typo.', 'Coming of it.'], good: ['Once they come of age.'] },
  { find: 'at hand', instead: 'available', bad: ['No gcloud is at hand.'] },
  { find: 'in vain', instead: 'without success', bad: ['It tries in vain.'] },
  { find: 'told|tells?|telling', unless: '(?:told|tells?|telling) (?:apart|(?:\\S+ ){1,2}apart|(?:\\S+ ){1,2}from)', instead: 'report, print, ask, notify', bad: ['It is told once.', 'It tells why.', 'They tell it.', 'Telling it.'], good: ['They can be told apart.', 'Tell them apart.', 'It tells one from another.'] },
  { find: 'words?', unless: '(?:in other|whole|key|two|three) words?|words? (?:boundar\\w+|wrap\\w*|split\\w*|break\\w*|for word)', instead: 'message, argument, name, value', bad: ['The next word is a job.', 'Its words.'], good: ['In other words.', 'Whole words only.', 'A key word.', 'A value of two words.', 'A word boundary.'] },
  { find: 'look(?:s|ed|ing)?', unless: 'look(?:s|ed|ing)? (?:like|up|ahead|behind|alike|the same)|look-\\w+', instead: 'observe, check, read, find', bad: ['The controller looks again.', 'A look that failed.', 'It looked.', 'Looking for it.'], good: ['It looks like a zone.', 'A look-up.'] },
  { find: 'sights?|glances?', unless: 'first (?:sight|glance)', instead: 'observation', bad: ['The last sight of it.', 'A glance.'], good: ['At first glance.'] },
  { find: 'marks?', unless: '(?:question|quotation|quote|exclamation|order|water) marks?|marks? (?:it|them|all|one|each|an? \\S+|the \\S+) as', instead: 'label, marker', bad: ['The mark of this database.', 'It has marks.'], good: ['A question mark.', 'The high-water mark.', 'Mark a TPU as free.'] },
  { find: 'moments?', unless: '(?:at the|at this|for the|for a|in a|after a|within a|needs? a|last) moment|moments? (?:ago|later|before|after|longer)', instead: 'time, timestamp', bad: ['The moment of its end.', 'All moments.'], good: ['For a moment.', 'A moment ago.'] },
  { find: 'lies|lay|lying', unless: '(?:lies|lying) (?:to|about)', instead: 'is', bad: ['The file lies in the home.', 'It lay there.', 'A file lying there.'], good: ['A server that lies about its size.'] },
  { find: 'stands?|stood', unless: 'stands? (?:for|in for|still|out|up|down|by)', instead: 'is', bad: ['Its name stands in the list.', 'They stand there.', 'It stood there.'], good: ['It stands for a zone.'] },
  { find: 'blanks?', unless: 'blank (?:lines?|rows?|pages?|screens?|cells?|fields?)', instead: 'space', bad: ['A name with a blank.', 'Two blanks.'], good: ['A blank line.'] },
  { find: '(?:at)?tend(?:s|ed|ing)?', unless: 'tend(?:s|ed)? to', instead: 'watch, serve', bad: ['It tends a namespace.', 'It attended to it.', 'Tending jobs.'], good: ['They tend to be long.'] },
  { find: 'beget\\w*|begot\\w*|graves?|bur(?:y|ied|ies)|forsak\\w+', unless: 'graves? accents?', instead: 'spawn, presumed dead, abandoned', bad: ['It begets one, begotten here.', 'The grave of a job.', 'It is buried.', 'It was forsaken.'], good: ['A grave accent.'] },
  { find: 'plant(?:s|ed|ing)?', instead: 'mutant, create', bad: ['A planted bug.', 'It plants one.', 'Planting it.'] },
  { find: 'weather|sky|skies', instead: 'fault rates, cloud model', bad: ['The weather of the sky.', 'Skies.'] },
  { find: 'pretend(?:s|ed|ing)?', instead: 'simulate, fake', bad: ['Its TPUs are pretended.', 'It pretends to.', 'Pretending.'] },
  { find: 'in so many words', instead: 'exactly', bad: ['It says so in so many words.'] },
  { find: 'by hand', instead: 'manually', bad: ['Started by hand.'] },
  { find: 'whose (?:it|they|this|that) (?:is|are|was|were)', instead: 'its owner', bad: ['It shows whose it is.'] },
  { find: 'as of', unless: 'same as of|as of (?:v?\\d\\S*|version|today|now|this (?:release|version))', instead: 'from, at', bad: ['As of the first check.'], good: ['The same as of the other.', 'As of today.'] },
  { find: 'all the same', instead: 'anyway', bad: ['It runs all the same.'] },
  { find: 'places?', unless: '(?:in|into|decimal|first) places?|t(?:ake|akes|aking|ook) place|places? (?:orders?|an order|it|them)', instead: 'alternative, location, position, folder', bad: ['The next place of the list.', 'All places.'], good: ['It is changed in place.', 'It takes place there.', 'Three decimal places.', 'It places an order.'] },
  { find: 'in (?:the|its|their|his|whose|that) places?', instead: 'instead of it', bad: ['A new one in its place.'] },
  { find: 'wish(?:es|ed)?', instead: 'start request, option', bad: ['The wish of its owner.', 'It wishes.', 'As wished.'] },
  { find: 'settle[sd]?', unless: 'promises? (?:has |have |is |are )?settle[sd]?', instead: 'finished', bad: ['The job has settled.', 'Until they settle.'], good: ['Once the promise has settled.'] },
  { find: '(?:standing|owned) (?:TPUs?|allocations?|nodes?|capacity|ones?|resources?)', instead: 'persistent, ephemeral', bad: ['A standing TPU.', 'Owned capacity.'] },
  { find: 'strays?', instead: 'orphan', bad: ['A stray node.', 'Two strays.'] },
  { find: 'sweep(?:er|ers|ing)|swept|(?:a|the|each|every|next|last) sweep (?:of the|for|through)', instead: 'orphan collection', bad: ['The sweeper is due.', 'Sweeping a zone.', 'All zones are swept.', 'The last sweep of the zones.'] },
  { find: 'laws?', instead: 'invariant', bad: ['The third law holds.', 'All laws.'] },
  { find: 'keepers?', instead: 'archive', bad: ['The keeper has it.', 'Two keepers.'] },
  { find: 'desks?', instead: 'lab, cli', bad: ['The desk of the lab.', 'Two desks.'] },
  { find: 'doors?', instead: 'interface, client, routes', bad: ['The door to the cloud.', 'Two doors.'] },
  { find: 'built-in cloud|clouds? in a box', instead: 'TPU emulator', bad: ['The built-in cloud.', 'A cloud in a box.'] },
  { find: "(?:its|their|whose|one'?s|a|next(?: one's)?) turns?", instead: 'position', bad: ['When it is its turn.', 'The job waits for a turn.'] },
  { find: 'pass(?:ed|ing) over', instead: 'skip', bad: ['It is passed over.', 'Passing over it.'] },
  { find: 'strangers?', instead: 'other user, unrelated process', bad: ['A stranger asks.', 'Strangers.'] },
  { find: 'usual waits?', instead: 'typical wait', bad: ['The usual wait of a zone.'] },
  { find: 'str(?:ike|ikes|uck|iking)|tempers?|happenings?', instead: 'fault, event', bad: ['A fault strikes, and may strike again.', 'It is struck.', 'Striking.', 'Its temper.', 'A happening.'] },
  { find: '(?:go|goes|going|went|gone) on', instead: 'continue, keep running', bad: ['The job goes on.', 'They go on.', 'It is going on.', 'It went on.', 'It has gone on.'] },
  { find: 'seen gone|told to go', instead: 'deleted, deletion requested', bad: ['The node was seen gone.', 'It was told to go.'] },
  { find: '(?:program|one) before (?:it|this|us)|the program before', instead: 'the older TPU manager', bad: ['As the program before did.', 'The one before this.'] },
];

/** Replaced words as a part of an identifier (`lookAgain`), a file name, a column, a field or a setting (`place_id`). */
const nameParts = new Set(
  `anew asker beside beyond blank desk desks door doors fate fates glance happening happenings hearsay keeper keepers lack law laws look
  looks mark marks moment moments nobody place places plant planted plants pretend pretended said say says settled sight sky somebody
  standing stranger strangers stray strays strike struck sweeper tale tell tells temper told vain weather whoever whose wish wishes
  word words`.split(/\s+/u),
);
/** A noun for the subject says more than a clause about it. A question may begin like this. */
const relativeClause =
  /^(?:What|Whatever|Whether|Where|Wherever|Whose|Which|Whichever|Who|Whoever|Whom|How|However|Why|(?:That|Those|These|They|He|One|All|Everything|Anything|Nothing)(?: of (?:which|whom))? (?:which|that|who|whose|whom))\b(?![^.?!]*\?)/u;

interface Piece {
  readonly kind: 'prose' | 'comment' | 'name';
  readonly text: string;
  /** Offset of the text in its file. */
  readonly start: number;
}

const patterns = rows.map((row) => ({
  ...row,
  find: new RegExp(`\\b(?:${row.find})(?!\\w)`, 'giu'),
  unless: row.unless === undefined ? null : new RegExp(`\\b(?:${row.unless})(?!\\w)`, 'giu'),
}));

const asked = process.env['WORDS'] ?? '';
const searched = asked === '' ? ['.'] : asked.split(',');

test('no replaced word', () => {
  const listed = execFileSync(
    'git',
    ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', ...searched],
    {
      cwd: root,
      encoding: 'utf8',
    },
  );
  const files = listed.split('\0').filter((path) => path !== '' && existsSync(join(root, path)));
  const hits = files.flatMap(hitsIn).filter((hit) => !exceptions.some((one) => one.test(hit)));
  assert.equal(hits.length, 0, `${hits.length} hits; docs/glossary.md has the words\n${hits.join('\n')}`);
});

test('few exceptions', () => assert.ok(exceptions.length <= 10));

suite('a row', () => {
  for (const { find, unless, bad, good = [] } of rows) {
    test(`finds ${find}`, () => {
      for (const sentence of bad) assert.notDeepEqual(problemsOf(sample('prose', sentence)), [], sentence);
      for (const sentence of good) assert.deepEqual(problemsOf(sample('prose', sentence)), [], sentence);
      assert.equal(unless === undefined, good.length === 0, 'another meaning has a sample');
    });
  }
});

test('a comment that opens with a relative clause, a name, a file and a column are found', () => {
  const clauses = [
    'What the cloud answers.',
    'Whoever asks.',
    'Whether it runs.',
    'That which is kept.',
    'Those who asked.',
    'How long it waits.',
  ];
  for (const text of clauses) assert.notDeepEqual(problemsOf(sample('comment', text)), [], text);
  for (const text of ['What if it fails?', 'That file is kept.', 'Reports whether it runs.'])
    assert.deepEqual(problemsOf(sample('comment', text)), [], text);
  for (const name of ['lookAgain', 'places', 'openDoor', 'ToldOnce', 'place_id', 'next-place', 'wordsOf'])
    assert.notDeepEqual(problemsOf(sample('name', name)), [], name);
  for (const name of ['lookUp', 'replace', 'keyword', 'bookmark', 'passwords'])
    assert.deepEqual(problemsOf(sample('name', name)), [], name);
  const source =
    "const a = 'told';\nconst b = `select place_id from jobs`;\n/** What it is. */\nlet c: { readonly says: string };\n";
  assert.deepEqual(
    codePieces('a.ts', source)
      .filter((piece) => problemsOf(piece).length > 0)
      .map(({ text }) => text.trim()),
    ['What it is.', 'told', 'place_id', 'says'],
  );
});

function sample(kind: Piece['kind'], text: string): Piece {
  return { kind, text, start: 0 };
}

function hitsIn(path: string): readonly string[] {
  const text = readFileSync(join(root, path), 'utf8');
  const lineAt = (offset: number): number => text.slice(0, offset).split('\n').length;
  const names = path.split('/').flatMap((segment) => problemsOf(sample('name', segment.replace(/\..*$/u, ''))));
  return [
    ...names.map(([, problem]) => `${path}:1 file ${problem}`),
    ...piecesOf(path, text).flatMap((piece) =>
      problemsOf(piece).map(([offset, problem]) => `${path}:${lineAt(piece.start + offset)} ${problem}`),
    ),
  ];
}

function piecesOf(path: string, text: string): readonly Piece[] {
  if (/\.tsx?$/u.test(path)) return codePieces(path, text);
  if (path.endsWith('.md')) return markdownPieces(text);
  const isText = /(?:\.(?:py|sh|bash|yaml|yml|toml)|\/(?:run|up|down|Dockerfile))$/u.test(path);
  return isText ? [sample('prose', text)] : [];
}

function problemsOf({ kind, text }: Piece): readonly (readonly [offset: number, problem: string])[] {
  if (kind === 'name') {
    const part = text.split(/(?<=[a-z0-9])(?=[A-Z])|[_.-]/u).find((one) => nameParts.has(one.toLowerCase()));
    // `Promise.allSettled` is the name of the language.
    return part === undefined || /^(?:look[ -]?(?:up|ahead|behind)|allSettled$)/iu.test(text)
      ? []
      : [[0, `name ${text}`]];
  }
  // Code has names of its own. The same length keeps the offsets right.
  const plain = text.replaceAll(/`[^`\n]*`|https?:\/\/\S+|\{@link [^}]*\}/gu, hide);
  const found = patterns.flatMap(({ find, unless, instead }) => {
    const left = unless === null ? plain : plain.replaceAll(unless, hide);
    return [...left.matchAll(find)].map((hit): readonly [number, string] => [
      hit.index,
      `${hit[0].toLowerCase()} -> ${instead}: ${around(plain, hit.index)}`,
    ]);
  });
  const opening = plain.trimStart();
  const opens = kind === 'comment' && relativeClause.test(opening);
  return opens
    ? [[plain.length - opening.length, `opens with a relative clause: ${opening.slice(0, 50)}`], ...found]
    : found;
}

function hide(text: string): string {
  return text.replaceAll(/[^\n]/gu, ' ');
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
    if (isText) pieces.push(...stringPieces(text.slice(node.start, node.end), node.start));
    for (const [key, child] of Object.entries(node)) if (key !== 'regex') visit(child);
  };
  visit(program);
  return pieces;
}

/** A string is a sentence, or the name of a field, a setting or an enum value; SQL holds names of columns. */
function stringPieces(text: string, start: number): readonly Piece[] {
  const columns = [...text.matchAll(/[a-z]+(?:_[a-z]+)+/gu)];
  const names = /^['"`]?[a-z][\w.-]*['"`]?$/iu.test(text)
    ? [{ kind: 'name', text: text.replaceAll(/['"`]/gu, ''), start } as const]
    : columns.map((one): Piece => ({ kind: 'name', text: one[0], start: start + one.index }));
  return text.trim().includes(' ') ? [{ kind: 'prose', text, start }, ...names] : names;
}

/** Paragraphs; link targets are no text. */
function markdownPieces(text: string): readonly Piece[] {
  const plain = text.replaceAll(/\]\([^)]*\)/gu, hide);
  return [...plain.matchAll(/(?:[^\n]+\n?)+/gu)].map((part) => ({ kind: 'prose', text: part[0], start: part.index }));
}
