// From the words of a line of `jobman` to the command that it names, and to the help of that.

import { exitCode, type JobmanError, usageError } from '../app/errors.ts';
import type { Io } from '../app/services.ts';
import type { Command, Program } from './command.ts';
import { globalFlags } from './flags.ts';
import { commandHelp, familyHelp, wholeHelp } from './help.ts';
import { otherWord } from './other-words.ts';
import { globalsApart, leadingGlobals, noCommandText } from './scan.ts';
import { columnsOf } from './screen.ts';

type Found<C> =
  | { readonly command: C; readonly words: readonly string[] }
  | { readonly family: string }
  | { readonly nothing: true };

/** The command of a line, with all its other words. Throws JobmanError (2) where there is none of that name. */
export function findCommand<C extends Command>(program: Program<C>, argv: readonly string[]): Found<C> {
  const start = leadingGlobals(argv);
  const before = argv.slice(0, start);
  const [first, second, ...others] = argv.slice(start);
  if (first === undefined) {
    const [flag] = before;
    if (flag === undefined) return { nothing: true };
    throw noCommand(program, flag);
  }
  const named = (name: string): C | undefined => program.commands.find(({ names }) => names.includes(name));
  if (!Object.hasOwn(program.families, first)) {
    const command = named(first);
    if (command === undefined) throw noCommand(program, first);
    return { command, words: [...before, ...argv.slice(start + 1)] };
  }
  if (second === undefined || second === '--help' || second === '-h') return { family: first };
  const command = named(`${first} ${second}`);
  if (command !== undefined) return { command, words: [...before, ...others] };
  const verbs = program.commands.find(({ names, hidden }) => hidden === true && names[0].startsWith(`${first} `));
  if (verbs === undefined || second.startsWith('-')) throw noCommand(program, second, first);
  // The options of a verb belong to the emulator; the flags of every command are ours.
  const { own, rest } = globalsApart(globalFlags, argv.slice(start + 1));
  return { command: verbs, words: [...before, ...own, '--', ...rest] };
}

function noCommand(program: Program, typed: string, family?: string): JobmanError {
  const front = family === undefined ? '' : `${family} `;
  const names = program.commands
    .filter(({ hidden }) => hidden !== true)
    .flatMap((command) => command.names)
    .flatMap((name) => (name.startsWith(front) ? [name.slice(front.length).split(' ')[0] ?? ''] : []));
  // The right word of another tool comes before a word that only looks alike.
  const known = family === undefined ? otherWord(typed) : undefined;
  const lines = [...(known === undefined ? [] : [known]), '`jobman --help` lists them.'];
  return usageError(noCommandText(typed, known === undefined ? names : []), lines);
}

/** Prints the help of the command or family that the line names, or of everything. Throws JobmanError (2) for another name. */
export function printHelp<C extends Command>(io: Io, program: Program<C>, argv: readonly string[]): number {
  const found = argv[leadingGlobals(argv)]?.startsWith('-') === false ? findCommand(program, argv) : null;
  const columns = columnsOf(io.stdout) ?? columnsWished(io.env);
  const lines =
    found === null || 'nothing' in found
      ? wholeHelp(program, columns)
      : 'family' in found
        ? familyHelp(program, found.family, columns)
        : commandHelp(program, found.command, columns);
  io.stdout.write(`${lines.join('\n')}\n`);
  return exitCode.ok;
}

/** `COLUMNS` for help that goes into a pipe, such as a pager's; null where it names no width. */
function columnsWished({ COLUMNS: wished = '' }: Io['env']): number | null {
  return /^\d{2,4}$/.test(wished) && Number(wished) >= 20 ? Number(wished) : null;
}
