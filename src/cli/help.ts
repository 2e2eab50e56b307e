// The help of `jobman` and of `tpu`: of everything, of commands that share their first word, and of one command. Made from the
// tables alone.

import type { Command, Example, Program } from './command.ts';
import { flagName, type Flags } from './flags.ts';
import { filled, width } from './render/cell.ts';
import { fitted, inColumns } from './render/aligned.ts';

export function wholeHelp(program: Program, columns: number | null): readonly string[] {
  const [heading, globals] = program.globals;
  const lists = program.groups.map((group) => [group, rowsOf(program, group)] as const);
  return [
    `Usage: ${program.name} ${program.usage}`,
    ...listed(program.isListingGlobals ? [...lists, [heading, flagRows(globals)] as const] : lists, columns),
    '',
    ...program.closing.flatMap((sentence) => fitted(sentence, columns)),
  ];
}

export function familyHelp(program: Program, family: string, columns: number | null): readonly string[] {
  const commands = program.commands.filter(({ names }) => names[0].startsWith(`${family} `));
  const rows = commands.map(
    ({ names, usage, summary, hidden }) =>
      [hidden === true ? usage : names[0].slice(family.length + 1), summary] as const,
  );
  return [
    `Usage: ${program.name} ${family} <command>`,
    '',
    ...fitted(program.families[family] ?? '', columns),
    '',
    ...inColumns(rows, columns),
    ...listed(
      commands.flatMap(({ list }) => (list === undefined ? [] : [list])),
      columns,
    ),
  ];
}

export function commandHelp<C extends Command>(
  program: Program<C>,
  command: C,
  columns: number | null,
): readonly string[] {
  const [name, ...others] = command.names;
  const typed = command.hidden === true && name.includes(' ') ? name.split(' ').slice(0, -1).join(' ') : name;
  const [heading, globals] = program.globals;
  return [
    ...usageLines(`Usage: ${program.name} ${typed}`, command.usage, columns),
    '',
    ...fitted(`${command.summary}.`, columns),
    ...(others.length === 0 ? [] : fitted(`Other name${others.length > 1 ? 's' : ''}: ${others.join(', ')}.`, columns)),
    ...(command.about === undefined ? [] : fitted(command.about, columns)),
    ...listed(
      [
        ...(command.list === undefined ? [] : [command.list]),
        program.taken(command),
        [heading, flagRows(globals)],
        ['Examples', command.examples],
        ['Exit codes', Object.entries(command.exits ?? {})],
      ],
      columns,
    ),
  ];
}

export function flagRows(flags: Flags): readonly Example[] {
  return Object.entries(flags).map(([name, { summary, also = [], value }]) => {
    const letter = also.find((form) => form.length === 1);
    return [
      `${letter === undefined ? '   ' : `-${letter},`} ${flagName(name)}${value === undefined ? '' : ` ${value}`}`,
      summary,
    ];
  });
}

/** One row a command; commands that share their first word share a row, and have their own in the help of that word. */
function rowsOf({ commands, families }: Program, group: string): readonly Example[] {
  const rows = new Map<string, string>();
  for (const { names, summary } of commands.filter((one) => one.group === group && one.hidden !== true)) {
    const [first = '', second] = names[0].split(' ');
    if (second === undefined) rows.set(names.join(', '), summary);
    else rows.set(`${first} ...`, families[first] ?? '');
  }
  return [...rows];
}

function listed(
  lists: readonly (readonly [heading: string, rows: readonly Example[]])[],
  columns: number | null,
): readonly string[] {
  return lists.flatMap(([heading, rows]) => (rows.length === 0 ? [] : ['', heading, ...inColumns(rows, columns)]));
}

function usageLines(front: string, usage: string, columns: number | null): readonly string[] {
  const line = `${front} ${usage}`.trimEnd();
  if (columns === null || width(line) <= columns) return [line];
  // Words in brackets are one part: `[--set key=value]...`.
  const parts = usage.match(/\[[^\]]*\]\S*|\S+/g) ?? [];
  const indent = width(front) + 1;
  return filled(parts, ' ', columns - indent).map((part, at) => (at === 0 ? `${front} ` : ' '.repeat(indent)) + part);
}
