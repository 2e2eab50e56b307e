import type { Command, Example, Program } from './command.ts';
import { flagName, type Flags } from './flags.ts';
import { fillLines, width, wrap } from './render/cell.ts';
import { inColumns } from './render/aligned.ts';

export function programHelp(program: Program, columns: number): readonly string[] {
  const [heading, globals] = program.globals;
  const lists = program.groups.map((group) => [group, commandRows(program, group)] as const);
  return [
    `Usage: ${program.name} ${program.usage}`,
    ...sectionLines(program.listsGlobalFlags ? [...lists, [heading, flagRows(globals)] as const] : lists, columns),
    '',
    ...program.footer.flatMap((sentence) => wrap(sentence, columns)),
  ];
}

export function familyHelp(program: Program, family: string, columns: number): readonly string[] {
  const commands = program.commands.filter(({ names }) => names[0].startsWith(`${family} `));
  const rows = commands.map(
    ({ names, usage, summary, hidden }) =>
      [hidden === true ? usage : names[0].slice(family.length + 1), summary] as const,
  );
  return [
    `Usage: ${program.name} ${family} <command>`,
    '',
    ...wrap(program.families[family] ?? '', columns),
    '',
    ...inColumns(rows, columns),
    ...sectionLines(
      commands.flatMap(({ extraRows }) => (extraRows === undefined ? [] : [extraRows])),
      columns,
    ),
  ];
}

export function commandHelp<C extends Command>(program: Program<C>, command: C, columns: number): readonly string[] {
  const [name, ...others] = command.names;
  const typed = command.hidden === true && name.includes(' ') ? name.split(' ').slice(0, -1).join(' ') : name;
  const [heading, globals] = program.globals;
  return [
    ...usageLines(`Usage: ${program.name} ${typed}`, command.usage, columns),
    '',
    ...wrap(`${command.summary}.`, columns),
    ...(others.length === 0 ? [] : wrap(`Other name${others.length > 1 ? 's' : ''}: ${others.join(', ')}.`, columns)),
    ...(command.about?.split('\n\n') ?? []).flatMap((paragraph) => ['', ...wrap(paragraph, columns)]),
    ...sectionLines(
      [
        ...(command.extraRows === undefined ? [] : [command.extraRows]),
        program.inputRows(command),
        [heading, flagRows(globals)],
        ['Examples', command.examples],
        ['Exit codes', Object.entries(command.exitCodes ?? {})],
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

/** A family of commands has one row here, and its own rows in the family's help. */
function commandRows({ commands, families }: Program, group: string): readonly Example[] {
  const rows = new Map<string, string>();
  for (const { names, summary } of commands.filter((one) => one.group === group && one.hidden !== true)) {
    const [first = '', second] = names[0].split(' ');
    const family = second === undefined ? undefined : families[first];
    if (family === undefined) rows.set(names.join(', '), summary);
    else rows.set(`${first} ...`, family);
  }
  return [...rows];
}

function sectionLines(
  lists: readonly (readonly [heading: string, rows: readonly Example[]])[],
  columns: number,
): readonly string[] {
  return lists.flatMap(([heading, rows]) => (rows.length === 0 ? [] : ['', heading, ...inColumns(rows, columns)]));
}

function usageLines(prefix: string, usage: string, columns: number): readonly string[] {
  const line = `${prefix} ${usage}`.trimEnd();
  if (width(line) <= columns) return [line];
  // A bracketed group is one part: `[--set key=value]...`.
  const parts = usage.match(/\[[^\]]*\]\S*|\S+/g) ?? [];
  const indent = width(prefix) + 1;
  return fillLines(parts, ' ', columns - indent).map(
    (part, at) => (at === 0 ? `${prefix} ` : ' '.repeat(indent)) + part,
  );
}
