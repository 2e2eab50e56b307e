// From the words of a line to its command.

import { exitCode, JobmanError } from '../../app/errors.ts';
import type { LabServices } from '../../lab/lab.ts';
import type { LabRecord } from '../../lab/record.ts';
import { complainAbout, createCli } from '../context.ts';
import { commandHelp, wholeHelp } from '../help.ts';
import { fitted, inColumns } from '../render/aligned.ts';
import { inertWord } from '../../app/figures.ts';
import { columnsOf } from '../screen.ts';
import type { Known, TpuCli, TpuCommand } from './command.ts';
import { keysOf } from './line.ts';
import { findCommand, readWords } from './read-words.ts';
import { formerWord, formerWords, splitGlobals, table, type TpuGlobals, tpuProgram } from './table.ts';

/** Runs the command that the line names and resolves with its exit code. Throws for our own bugs only. */
export async function dispatch(argv: readonly string[], services: LabServices): Promise<number> {
  const { io } = services;
  const columns = columnsOf(io.stdout);
  const print = (lines: readonly string[]): number => {
    io.stdout.write(lines.map((line) => `${line}\n`).join(''));
    return exitCode.ok;
  };
  let flags: TpuGlobals = {};
  try {
    const [first = '', ...others] = argv;
    if (first === '__complete') {
      const { propose } = await import('./completion.ts');
      return await propose(others, services);
    }
    if (first === '--version' || first === '-v') return print([`jobman ${io.version}`]);
    const isRaw = table.some(({ names, takes }) => takes.raw === true && names.includes(first));
    const { flags: said, rest } = isRaw ? { flags: {}, rest: argv } : splitGlobals(argv);
    flags = said;
    const wantsHelp =
      said.help === true || rest[0] === 'help' || (isRaw && others.some((word) => word === '-h' || word === '--help'));
    if (wantsHelp) {
      const asked = rest[0] === 'help' ? rest.slice(1) : rest;
      return print(
        asked.length === 0 ? wholeHelp(tpuProgram, columns) : commandHelp(tpuProgram, commandFor(asked).row, columns),
      );
    }
    if (rest.length === 0) return print(firstPage(io.version, columns));
    return await runCommand(rest, said, services);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return complainAbout(shown(error), createCli(services, { ...flags, settings: undefined }), 'tpu');
  }
}

/** Sentences quote typed words, whose control characters are made visible. */
function shown({ message, code, lines }: JobmanError): JobmanError {
  return new JobmanError(message.split('\n').map(inertWord).join('\n'), code, lines.map(inertWord));
}

async function runCommand(typed: readonly string[], flags: TpuGlobals, services: LabServices): Promise<number> {
  const { row, verb, rest } = commandFor(typed);
  const lab = await services.lab();
  try {
    const words = readWords(row, verb, rest, await knownOf(lab.record, row));
    const desk: TpuCli = {
      ...createCli(services, flags),
      services,
      lab,
      me: flags.user,
      reserved: {
        verbs: new Set([...table.flatMap(({ names }) => names), ...formerWords, 'help']),
        keys: new Set(table.flatMap(keysOf)),
      },
      ownKeys: keysOf(row),
    };
    const command = await row.load(tpuProgram);
    // Not every change writes to the record, which is where a copy is found out. What scripts call writes to nothing else.
    if (row.changes && row.takes.raw !== true) await lab.expectOriginal();
    return await command(desk, words);
  } finally {
    await lab.close();
  }
}

function commandFor(typed: readonly string[]): ReturnType<typeof findCommand<TpuCommand>> {
  const former = formerWord(typed[0] ?? '');
  if (former !== undefined)
    throw new JobmanError(`There is no \`tpu ${typed[0]}\` any more. ${former}`, exitCode.usage);
  return findCommand(table, typed);
}

/** Only what the words of this command need is read. */
async function knownOf(record: LabRecord, { takes }: TpuCommand): Promise<Known> {
  const [users, tpus, tpuAliases] = await Promise.all([
    takes.user === undefined ? [] : record.users(),
    takes.tpu === undefined ? [] : record.tpus(),
    takes.tpu === undefined ? new Map<string, string>() : record.tpuAliases(),
  ]);
  return { users, tpus, tpuAliases };
}

/** The first steps of a new user. */
function firstPage(version: string, columns: number | null): readonly string[] {
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
