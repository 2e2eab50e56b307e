// Finds and runs the command of a line.

import { exitCode, JobmanError, reworded, usageError } from '../../app/errors.ts';
import { formatServer, localRemedies, thisMachine } from '../../app/server-in-use.ts';
import type { LabServices } from '../../lab/lab.ts';
import type { SharedLabStore } from '../../lab/lab-store.ts';
import { createCli, noteServer, refuseJson, reportError, wantsJson } from '../context.ts';
import { commandHelp, programHelp } from '../help.ts';
import { helpColumns } from '../find-command.ts';
import { inColumns } from '../render/aligned.ts';
import { wrap } from '../render/cell.ts';
import { escapeLine } from '../../app/format.ts';
import type { KnownNames, TpuCli, TpuCommand } from './command.ts';

import { refuseTokens } from '../scan.ts';
import { acceptedKeys, findCommand, parseArguments } from './parse-arguments.ts';
import { clientNaming, requestedInEnv } from './resolve-user.ts';
import { replacementHint, removedCommands, splitGlobals, table, type TpuGlobals, tpuProgram } from './table.ts';

/** Returns the exit code. Throws only for bugs in jobman. */
export async function dispatch(argv: readonly string[], services: LabServices): Promise<number> {
  const { io } = services;
  const columns = helpColumns(io);
  const print = (lines: readonly string[]): number => {
    io.stdout.write(lines.map((line) => `${line}\n`).join(''));
    return exitCode.ok;
  };
  let flags: TpuGlobals = { json: wantsJson(argv) };
  try {
    refuseTokens(argv);
    const [first = '', ...others] = argv;
    if (first === '__complete') {
      const { propose } = await import('./completion.ts');
      return await propose(others, services);
    }
    if (['--version', '-v', '-V', 'version'].includes(first)) {
      return print([flags.json === true ? JSON.stringify({ version: io.version }) : `jobman ${io.version}`]);
    }
    const isRaw = table.some(({ names, takes }) => takes.raw === true && names.includes(first));
    const { flags: globals, rest } = isRaw ? { flags: {}, rest: argv } : splitGlobals(argv);
    flags = globals;
    const wantsHelp =
      globals.help === true || rest[0] === 'help' || (isRaw && others.some((arg) => arg === '-h' || arg === '--help'));
    if (wantsHelp || rest.length === 0) refuseJson(flags.json, 'Help');
    if (wantsHelp) {
      const topic = rest[0] === 'help' ? rest.slice(1) : rest;
      return print(
        topic.length === 0 ? programHelp(tpuProgram, columns) : commandHelp(tpuProgram, commandFor(topic).row, columns),
      );
    }
    if (rest.length === 0) return print(gettingStarted(io.version, columns));
    return await runCommand(rest, globals, services);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return reportError(escapeError(error), createCli(services, { ...flags, settings: undefined }), { program: 'tpu' });
  }
}

/** Messages quote typed text, so control characters are made visible. */
function escapeError(error: JobmanError): JobmanError {
  const message = error.message.split('\n').map(escapeLine).join('\n');
  return reworded(error, { message, lines: error.lines.map(escapeLine) });
}

async function runCommand(typed: readonly string[], flags: TpuGlobals, services: LabServices): Promise<number> {
  const { row, verb, rest } = commandFor(typed);
  const ownCli = createCli(services, flags);
  // A script and its hooks run on the machine of their controller, whatever server its login uses.
  services.useServer({
    named: row.takes.raw === true ? thisMachine : flags.server,
    beforeChange: noteServer(ownCli),
    onWait: ownCli.note,
  });
  const tokenUser = await userOfServer(row, flags, services);
  const lab = await services.lab();
  try {
    const args = parseArguments(row, verb, rest, await readKnownNames(lab.store, row));
    const cli: TpuCli = {
      ...ownCli,
      services,
      lab,
      requestedUser: flags.user ?? requestedInEnv(services.io),
      tokenUser,
      reserved: {
        verbs: new Set([...table.flatMap(({ names }) => names), ...removedCommands, 'help']),
        keys: new Set(table.flatMap(acceptedKeys)),
      },
      ownKeys: acceptedKeys(row),
    };
    const command = await row.load(tpuProgram);
    // Hooks of scripts change only jobs, which the store checks.
    if (row.changes && row.takes.raw !== true) {
      // Only the owner of the home can do `init-lab`, and another login may not read its database before.
      if (row.names[0] !== 'init-lab') {
        const client = await clientNaming(cli, args.user);
        await client.checkLabCommand(row.names[0]);
      }
      // The store detects a copied home only when it is written, and not every change writes to it.
      await lab.assertOriginalHome();
    }
    return await command(cli, args);
  } finally {
    await lab.close();
  }
}

/** Null without a server. Throws JobmanError (2) for what does not work through one. */
async function userOfServer(
  { names: [name], needsLoginMachine }: TpuCommand,
  flags: TpuGlobals,
  services: LabServices,
): Promise<string | null> {
  const server = await services.server();
  if (server === null) return null;
  if (needsLoginMachine)
    throw usageError(
      `\`tpu ${name}\` needs the login machine of the lab. The server in use is ${formatServer(server)}. Nothing was changed.`,
      localRemedies(server.chosenBy),
    );
  if (flags.user !== undefined)
    throw usageError('Through a server, the token decides which user you are: leave out --user.');
  return (await (await services.client()).whoAmI()).user;
}

function commandFor(typed: readonly string[]): ReturnType<typeof findCommand<TpuCommand>> {
  const former = replacementHint(typed[0] ?? '');
  if (former !== undefined) throw new JobmanError(`There is no \`tpu ${typed[0]}\`. ${former}`, exitCode.usage);
  return findCommand(table, typed);
}

async function readKnownNames(store: SharedLabStore, { takes }: TpuCommand): Promise<KnownNames> {
  const [users, tpus, tpuAliases] = await Promise.all([
    takes.user === undefined ? [] : store.users(),
    takes.tpu === undefined ? [] : store.tpus(),
    takes.tpu === undefined ? new Map<string, string>() : store.tpuAliases(),
  ]);
  return { users, tpus, tpuAliases };
}

function gettingStarted(version: string, columns: number): readonly string[] {
  return [
    `tpu (jobman ${version}): run jobs on your lab's TPUs`,
    '',
    'First steps',
    ...inColumns(
      [
        ['tpu add-user', 'add yourself as a user'],
        ['tpu set-cur 1 NAME', 'make this folder your working directory 1'],
        ['tpu list', "list the lab's TPUs"],
        ['tpu run v2-32-6 NAME', 'run your working directory on a TPU'],
        ['tpu monitor NAME', 'watch your jobs'],
      ],
      columns,
    ),
    '',
    ...wrap('`tpu tldr` shows the most common commands, `tpu help` all commands, `tpu help run` one command.', columns),
  ];
}
