// From the words of a line of `jobman` to its command.

import { exitCode, JobmanError } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import type { JobmanCommand } from './command.ts';
import { complainAbout, createCli, type GlobalFlags } from './context.ts';
import { globalFlags } from './flags.ts';
import { commandHelp, familyHelp, wholeHelp } from './help.ts';
import { otherWord } from './other-words.ts';
import { globalsApart, leadingGlobals, scan } from './scan.ts';
import { columnsOf } from './screen.ts';
import { jobmanProgram as program } from './table.ts';

/** A line, as far as its command. */
type Found =
  | { readonly command: JobmanCommand; readonly words: readonly string[] }
  | { readonly family: string }
  | { readonly nothing: true };

/** Runs the command that the line names and resolves with its exit code. Throws for our own bugs only. */
export async function dispatch(argv: readonly string[], services: Services): Promise<number> {
  const { io } = services;
  let cli = createCli(services, noFlags);
  try {
    const wantsHelp = asksForHelp(argv);
    const found = wantsHelp && isOnlyFlags(argv) ? { nothing: true as const } : findCommand(argv);
    if (wantsHelp || !('command' in found)) {
      io.stdout.write(helpOf(found, columnsOf(io.stdout) ?? columnsWished(io.env)));
      return exitCode.ok;
    }
    const { command, words } = found;
    const { flags, args, behind } = scanned(command, words);
    // The flags of every command are among those that were read.
    const given = flags as unknown as GlobalFlags;
    cli = createCli(services, given, behind);
    const body = await command.load(program);
    return await body(cli, given, ...args);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return complainAbout(error, cli);
  }
}

/** The help of what a line names before `--help`, ending with a newline. */
function helpOf(found: Found, columns: number | null): string {
  const lines =
    'command' in found
      ? commandHelp(program, found.command, columns)
      : 'family' in found
        ? familyHelp(program, found.family, columns)
        : wholeHelp(program, columns);
  return `${lines.join('\n')}\n`;
}

/** The command of a line, with all its other words. Throws JobmanError (2) where there is none of that name. */
export function findCommand(argv: readonly string[]): Found {
  const start = leadingGlobals(argv);
  const before = argv.slice(0, start);
  const [first, second, ...others] = argv.slice(start);
  if (first === undefined) {
    const [flag] = before;
    if (flag === undefined) return { nothing: true };
    throw noCommand(flag);
  }
  const named = (name: string): JobmanCommand | undefined => program.commands.find(({ names }) => names.includes(name));
  if (!Object.hasOwn(program.families, first)) {
    const command = named(first);
    if (command === undefined) throw noCommand(first);
    return { command, words: [...before, ...argv.slice(start + 1)] };
  }
  if (second === undefined || second === '--help' || second === '-h') return { family: first };
  const command = named(`${first} ${second}`);
  if (command !== undefined) return { command, words: [...before, ...others] };
  const verbs = program.commands.find(({ names, hidden }) => hidden === true && names[0].startsWith(`${first} `));
  if (verbs === undefined || second.startsWith('-')) throw noCommand(second, first);
  // The options of a verb belong to the emulator; the flags of every command are ours.
  const { own, rest } = globalsApart(globalFlags, argv.slice(start + 1));
  return { command: verbs, words: [...before, ...own, '--', ...rest] };
}

function scanned(command: JobmanCommand, words: readonly string[]): ReturnType<typeof scan> {
  try {
    return scan({ ...command.flags, ...globalFlags }, command.args, words);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    const hint = `\`jobman ${command.names[0]} --help\` tells how it is used.`;
    throw new JobmanError(error.message, error.code, [...error.lines, hint]);
  }
}

function noCommand(typed: string, family?: string): JobmanError {
  const front = family === undefined ? '' : `${family} `;
  const names = program.commands
    .filter(({ hidden }) => hidden !== true)
    .flatMap((command) => command.names)
    .flatMap((name) => (name.startsWith(front) ? [name.slice(front.length).split(' ')[0] ?? ''] : []));
  // The right word of another tool comes before a word that only looks alike.
  const known = family === undefined ? otherWord(typed) : undefined;
  const near = known === undefined ? didYouMean(typed, names) : undefined;
  const guess = near === undefined ? '' : ` Did you mean \`${near}\`?`;
  const lines = [...(known === undefined ? [] : [known]), '`jobman --help` lists them.'];
  return new JobmanError(`there is no command \`${typed}\`.${guess}`, exitCode.usage, lines);
}

const noFlags: GlobalFlags = { json: undefined, yes: undefined, quiet: undefined, settings: undefined };

/** A wish for help wins over all other words before `--`. */
function asksForHelp(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? undefined : end).some((word) => word === '--help' || word === '-h');
}

function isOnlyFlags(argv: readonly string[]): boolean {
  return argv[leadingGlobals(argv)]?.startsWith('-') ?? true;
}

/** `COLUMNS` for help that goes into a pipe, such as a pager's; null where it names no width. */
function columnsWished({ COLUMNS: wished = '' }: Services['io']['env']): number | null {
  return /^\d{2,4}$/.test(wished) && Number(wished) >= 20 ? Number(wished) : null;
}
