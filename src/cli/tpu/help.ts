// The help of `tpu`: of everything, and of one command. Made from the table alone.

import { capital } from '../../app/reason-words.ts';
import { inColumns, fitted } from '../render/in-columns.ts';
import { userSettings } from '../../lab/user-settings.ts';
import { globalRows } from './globals.ts';
import { sections, type Row } from './row.ts';
import { table } from './table.ts';

/** What `tpu` alone says. */
export function firstPage(version: string, columns: number | null): readonly string[] {
  return [
    `tpu, of jobman ${version}`,
    '',
    'The first time',
    ...inColumns(
      [
        ['tpu add-user', 'who you are, and where your code is'],
        ['tpu set-cur 1 NAME', 'this folder is your working directory 1'],
        ['tpu run v2-32-6 NAME', 'run it on that TPU'],
        ['tpu monitor NAME', 'watch your jobs'],
      ],
      columns,
    ),
    '',
    ...fitted('`tpu tldr` shows the commands of a usual day, `tpu help` all of them, `tpu help run` one.', columns),
  ];
}

/** Every command, under its heading. */
export function wholeHelp(columns: number | null): readonly string[] {
  const lines = ['Usage: tpu <command> [words in any order]', ''];
  for (const section of sections) {
    const rows = table.filter((row) => row.section === section && !row.hidden);
    lines.push(
      section,
      ...inColumns(
        rows.map((row) => [row.words.join(', '), row.brief] as const),
        columns,
      ),
      '',
    );
  }
  lines.push('With every command', ...inColumns(globalRows, columns), '');
  const sentences = [
    '`tpu help <command>` tells which words it takes and shows examples.',
    'A user is a name, `user=` or `id=`; without one it is you. A TPU is an alias or a full name; a window is a number or `w=`.',
    'A word that could mean two things is refused with both; nothing is guessed.',
    '',
    'Exit codes: 0 done, 1 it failed, 2 wrong usage, 3 not found, 4 conflict, 5 unreachable, 130 interrupted.',
  ];
  return [...lines, ...sentences.flatMap((sentence) => fitted(sentence, columns))];
}

/** One command: its words, what it takes, examples. */
export function commandHelp(row: Row, columns: number | null): readonly string[] {
  const [first, ...others] = row.words;
  const lines = [`Usage: tpu ${first} ${row.usage}`.trimEnd()];
  if (others.length > 0) lines.push(`Also:  ${others.map((word) => `tpu ${word}`).join(', ')}`);
  lines.push('', ...fitted(`${row.brief}.`, columns));
  if (row.about !== '') lines.push(...fitted(row.about, columns));
  const taken = wordRows(row);
  if (taken.length > 0) lines.push('', 'Words, in any order', ...inColumns(taken, columns));
  lines.push('', 'With every command', ...inColumns(globalRows, columns));
  if (row.examples.length > 0) lines.push('', 'Examples', ...inColumns(row.examples, columns));
  if (row.takes.texts?.some(({ of }) => of === 'settings') === true) {
    lines.push(
      '',
      'Settings',
      ...inColumns(
        userSettings.map(({ key, form, meaning }) => [key, `${plain(meaning)} ${capital(form)}.`]),
        columns,
      ),
    );
  }
  const exits = Object.entries(row.exits);
  if (exits.length > 0) lines.push('', 'Exit codes', ...inColumns(exits, columns));
  return lines;
}

/** Everything that the command takes, each with its meaning. */
function wordRows({ takes }: Row): readonly (readonly [string, string])[] {
  const rows: (readonly [string, string])[] = [];
  if (takes.user !== undefined) rows.push(['name, user=, id=', 'The user; without one, you']);
  if (takes.tpu !== undefined) rows.push(['alias, full name, tpu=', 'The TPU']);
  if (takes.types === 'accelerators') rows.push(['v2-32', 'Any free TPU of this type']);
  if (takes.types === 'families') rows.push(['v2, v234, v*, v2-32', 'Types of TPUs']);
  if (takes.windows !== undefined) rows.push(['101, w=101, -w 101', 'The window']);
  for (const { name, brief } of takes.numbers ?? []) rows.push([`N, ${name}=N`, capital(brief)]);
  for (const { name, brief } of takes.texts ?? []) rows.push([`${name}, ${name}=`, `The ${brief}`]);
  for (const [name, { brief, value, values, flags = [] }] of Object.entries(takes.keys ?? {})) {
    const forms = [`${name}=${values?.join('|') ?? value}`, ...flags.map((flag) => `${flag} ${value}`)];
    rows.push([forms.join(', '), brief]);
  }
  if (takes.configs === true) rows.push(['lr=0.01, config.a.b=v', 'A config of the program']);
  for (const [name, { brief, also = [] }] of Object.entries(takes.flags ?? {})) {
    rows.push([[name, ...also].map((one) => (one.includes('-') ? `--${one}` : `-${one}`)).join(', '), brief]);
  }
  if (takes.letters !== undefined) rows.push([`-${takes.letters}`, 'What is shown: any of these letters']);
  return rows;
}

function plain(text: string): string {
  return text.replaceAll('`', '');
}
