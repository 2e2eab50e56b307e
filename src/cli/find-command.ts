import { didYouMean } from '../catalogue/did-you-mean.ts';
import { exitCode, type JobmanError, usageError } from '../app/errors.ts';
import type { Io } from '../app/services.ts';
import type { Command, Program } from './command.ts';
import { globalFlags } from './flags.ts';
import { foreignCommandHint } from './foreign-commands.ts';
import { commandHelp, familyHelp, programHelp } from './help.ts';
import { countLeadingGlobals, formatUnknownCommand, separateGlobals, unknownFlag } from './scan.ts';

type Found<C> =
  | { readonly command: C; readonly args: readonly string[] }
  | { readonly family: string }
  | { readonly nothing: true };

/** Throws JobmanError (2) for an unknown name. */
export function findCommand<C extends Command>(program: Program<C>, argv: readonly string[]): Found<C> {
  const start = countLeadingGlobals(argv);
  const before = argv.slice(0, start);
  const first = argv[start];
  if (first === undefined) {
    if (before.length === 0) return { nothing: true };
    throw usageError('Which command?', ['`jobman --help` lists them.']);
  }
  if (first.startsWith('-')) throw unknownGlobalFlag(first);
  const named = (name: string): C | undefined => program.commands.find(({ names }) => names.includes(name));
  // `controller --json status`
  const between = countLeadingGlobals(argv.slice(start + 1));
  const [second, ...others] = argv.slice(start + 1 + between);
  const isFamily = Object.hasOwn(program.families, first);
  // `storage checkpoints` next to `storage`
  if (!isFamily && (second === undefined || named(`${first} ${second}`) === undefined)) {
    const command = named(first);
    if (command === undefined) throw unknownCommand(program, first, undefined, argv[start + 1]);
    const near =
      command.args.length > 0 || second === undefined ? undefined : nearCommand(program, `${first} ${second}`);
    if (near !== undefined) throw usageError(`Unexpected argument "${second}". Did you mean \`jobman ${near}\`?`);
    return { command, args: [...before, ...argv.slice(start + 1)] };
  }
  before.push(...argv.slice(start + 1, start + 1 + between));
  if (second === undefined || ['--help', '-h', 'help'].includes(second)) return { family: first };
  const command = named(`${first} ${second}`);
  if (command !== undefined) return { command, args: [...before, ...others] };
  const verbs = program.commands.find(({ names, hidden }) => hidden === true && names[0].startsWith(`${first} `));
  if (second.startsWith('-')) throw unknownGlobalFlag(second);
  if (verbs === undefined) throw unknownCommand(program, second, first);
  // The options of a verb belong to the emulator; the global flags are ours.
  const { own, rest } = separateGlobals(globalFlags, [second, ...others]);
  return { command: verbs, args: [...before, ...own, '--', ...rest] };
}

/** The command of two parts (`storage checkpoints`) that was probably meant. */
function nearCommand(program: Program, typed: string): string | undefined {
  const [front = ''] = typed.split(' ');
  const names = program.commands.flatMap(({ names: all }) => all.filter((name) => name.startsWith(`${front} `)));
  return didYouMean(typed, names);
}

function unknownGlobalFlag(typed: string): JobmanError {
  return unknownFlag(globalFlags, typed.split('=')[0] ?? typed);
}

/** The hint names the job that was typed. */
function unknownCommand(program: Program, typed: string, family?: string, job = ''): JobmanError {
  const front = family === undefined ? '' : `${family} `;
  const names = program.commands
    .filter(({ hidden }) => hidden !== true)
    .flatMap((command) => command.names)
    .flatMap((name) => (name.startsWith(front) ? [name.slice(front.length).split(' ')[0] ?? ''] : []));
  // A command of another tool wins over one with a similar spelling.
  const hint = foreignCommandHint(front + typed);
  const ownHint = /^\d{1,6}$/.test(job) ? hint?.replaceAll(/(`jobman [\w -]*?) 1\b/g, `$1 ${job}`) : hint;
  const lines = ownHint === undefined ? [`\`jobman ${front}--help\` lists all commands.`] : [ownHint];
  return usageError(formatUnknownCommand(typed, hint === undefined ? names : []), lines);
}

/** Longer lines are hard to read. */
const maxHelpColumns = 100;

/** Throws JobmanError (2) for an unknown name. */
export function printHelp<C extends Command>(io: Io, program: Program<C>, argv: readonly string[]): number {
  const found = argv[countLeadingGlobals(argv)]?.startsWith('-') === false ? findCommand(program, argv) : null;
  const columns = helpColumns(io);
  const lines =
    found === null || 'nothing' in found
      ? programHelp(program, columns)
      : 'family' in found
        ? familyHelp(program, found.family, columns)
        : commandHelp(program, found.command, columns);
  io.stdout.write(`${lines.join('\n')}\n`);
  return exitCode.ok;
}

export function helpColumns({ stdout, env }: Io): number {
  return Math.min(maxHelpColumns, stdout.isTerminal ? stdout.size().columns : requestedColumns(env));
}

/** COLUMNS, for help in a pipe such as a pager's. */
function requestedColumns({ COLUMNS: requested = '' }: Io['env']): number {
  return /^\d{2,4}$/.test(requested) && Number(requested) >= 20 ? Number(requested) : 80;
}
