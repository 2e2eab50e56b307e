// The help: of everything, of a group of commands, and of one command. Made from the table alone, so that it is quick.

import { flagName, globalFlags, globalLetters, isNamed, sections, type Entry, type Flag } from './entry.ts';
import { arrange, commandIn } from './arrange.ts';
import { filled, width } from './render/cell.ts';
import { fitted, inColumns } from './render/in-columns.ts';
import { table } from './table.ts';

/**
 * The help that a command line asks for; undefined when it asks for none, or when its words name nothing that is there.
 * A wish for help wins over whatever else is said before `--`. `columns` of the terminal; null where there is none.
 */
export function helpFor(argv: readonly string[], columns: number | null): string | undefined {
  const end = argv.indexOf('--');
  const inputs = arrange(end < 0 ? argv : argv.slice(0, end));
  if (!inputs.includes('--help') && !inputs.includes('-h')) return undefined;
  const [first = '', second = ''] = inputs;
  const isGroup = first in groups && second.startsWith('-');
  const path = commandIn(inputs) ?? (isGroup ? first : first.startsWith('-') ? '' : undefined);
  return path === undefined ? undefined : helpText(path, columns);
}

/** Ends with a newline. `path` is what was typed before `--help`: empty, `list`, `controller`, `controller run`. */
export function helpText(path: string, columns: number | null = null): string {
  const found = table.find((entry) => isNamed(entry, path));
  const lines =
    found !== undefined ? commandHelp(found, columns) : path === '' ? wholeHelp(columns) : groupHelp(path, columns);
  return `${lines.join('\n')}\n`;
}

function wholeHelp(columns: number | null): readonly string[] {
  const lines = ['Usage: jobman <command> [arguments]', ''];
  for (const section of sections) {
    lines.push(section);
    const entries = table.filter((entry) => entry.section === section && !entry.hidden);
    lines.push(...inColumns(wordsOf(entries), columns), '');
  }
  const sentences = [
    '`jobman <command> --help` tells its flags and shows examples.',
    'A job is named by its id (1 is 000001) or by its name. Several at once are fine.',
    'It is settled once it has succeeded, failed, been stopped or been cancelled.',
    '`tpu` is the command of a lab that shares its TPUs, and `jobman tpu` the same: `tpu help`.',
    '',
    'Exit codes: 0 done, 1 it failed, 2 wrong usage or manifest, 3 not found, 4 conflict, 5 unreachable, 130 interrupted.',
  ];
  return [...lines, ...sentences.flatMap((sentence) => fitted(sentence, columns))];
}

/** One row a command; commands that differ in their last word only share a row there, and have their own in the group's help. */
function wordsOf(entries: readonly Entry[]): (readonly [string, string])[] {
  const rows = new Map<string, string>();
  for (const { path, aliases, brief } of entries) {
    const [group, word] = path.split(' ');
    if (word === undefined) rows.set([path, ...aliases].join(', '), brief);
    else if (group !== undefined) rows.set(`${group} ...`, groups[group] ?? '');
  }
  return [...rows];
}

/** What a group of commands is about. */
export const groups: Readonly<Record<string, string>> = {
  controller: 'The loop that looks after jobs: start, stop, restart, status, run, install, uninstall',
  emulator: 'The built-in cloud: start, stop, status, serve, preempt and other happenings',
};

function groupHelp(group: string, columns: number | null): readonly string[] {
  const entries = table.filter((entry) => entry.path.startsWith(`${group} `));
  const rows = entries.map((entry) => {
    const word = entry.hidden ? entry.usage : entry.path.slice(group.length + 1);
    return [word, entry.brief] as const;
  });
  const about = fitted(groups[group] ?? '', columns);
  const lines = [`Usage: jobman ${group} <command>`, '', ...about, '', ...inColumns(rows, columns)];
  for (const { list } of entries) if (list !== undefined) lines.push('', list[0], ...inColumns(list[1], columns));
  return lines;
}

function commandHelp(entry: Entry, columns: number | null): readonly string[] {
  const typed = entry.hidden ? entry.path.split(' ').slice(0, -1).join(' ') : entry.path;
  const lines = [...inParts(`Usage: jobman ${typed} ${entry.usage}`.trimEnd(), columns)];
  lines.push('', ...fitted(`${entry.brief}.`, columns));
  if (entry.aliases.length > 0)
    lines.push(...fitted(`Other name${entry.aliases.length > 1 ? 's' : ''}: ${entry.aliases.join(', ')}.`, columns));
  if (entry.about !== '') lines.push(...fitted(entry.about, columns));
  if (entry.list !== undefined) lines.push('', entry.list[0], ...inColumns(entry.list[1], columns));
  if (Object.keys(entry.flags).length > 0) lines.push('', 'Flags', ...flagRows(entry.flags, entry.letters, columns));
  lines.push('', 'Flags of every command', ...flagRows(everywhere, { ...globalLetters, h: 'help' }, columns));
  lines.push('', 'Examples', ...inColumns(entry.examples, columns));
  const exits = Object.entries(entry.exits);
  if (exits.length > 0) lines.push('', 'Exit codes', ...inColumns(exits, columns));
  return lines;
}

/** A usage line, broken between its flags and below its first one. */
function inParts(line: string, columns: number | null): readonly string[] {
  if (columns === null || width(line) <= columns) return [line];
  const [, front = '', rest = ''] = /^( *(?:Usage: )?jobman [^[<]*)(.*)$/.exec(line) ?? [];
  // What stands in brackets is one part: `[--set key=value]...`.
  const parts = rest.match(/\[[^\]]*\]\S*|\S+/g) ?? [];
  return filled(parts, ' ', columns - width(front)).map(
    (part, index) => (index === 0 ? front : ' '.repeat(width(front))) + part,
  );
}

const everywhere = {
  ...(globalFlags as Readonly<Record<string, Flag>>),
  help: { kind: 'boolean', brief: 'Print this' },
};

function flagRows(
  flags: Readonly<Record<string, Flag>>,
  letters: Readonly<Record<string, string>>,
  columns: number | null,
): string[] {
  const rows = Object.entries(flags).map(([name, flag]) => {
    const letter = Object.entries(letters).find(([, target]) => target === name)?.[0];
    const value = flag.kind === 'boolean' ? '' : ` ${flag.placeholder ?? flag.values?.join('|') ?? 'value'}`;
    // The ten phases stand above the flags of `list`; a column that wide would push all briefs away.
    const shown = value.length > 40 ? ' word' : value;
    return [`${letter === undefined ? '   ' : `-${letter},`} ${flagName(name)}${shown}`, flag.brief] as const;
  });
  return inColumns(rows, columns);
}
