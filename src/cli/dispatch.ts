import { JobmanError, reworded } from '../app/errors.ts';
import { notOnServerError } from '../app/server-in-use.ts';
import type { Services } from '../app/services.ts';
import type { JobmanCommand } from './command.ts';
import { createCli, noteServer, refuseJson, reportError, wantsJson, type GlobalFlags } from './context.ts';
import { findCommand, printHelp } from './find-command.ts';
import { globalFlags } from './flags.ts';
import { refuseTokens, scan } from './scan.ts';
import { jobmanProgram as program } from './table.ts';

export async function dispatch(argv: readonly string[], services: Services): Promise<number> {
  const { io } = services;
  let cli = createCli(services, { json: wantsJson(argv) });
  try {
    refuseTokens(argv);
    const found = wantsHelp(argv) ? null : findCommand(program, argv);
    if (found === null || !('command' in found)) {
      refuseJson(cli.json, 'Help');
      return printHelp(io, program, argv);
    }
    const { flags, args, argsAfterDash } = scanArguments(found.command, found.args);
    const given = flags as unknown as GlobalFlags;
    cli = createCli(services, given, argsAfterDash);
    services.useServer({
      named: given.server,
      ignoresCurrent: found.command.usesHome === 'always',
      beforeChange: noteServer(cli),
      onWait: cli.note,
    });
    await requireThisMachine(found.command, services);
    const body = await found.command.load(program);
    const code = await body(cli, given, ...args);
    const mistake = await services.unreadMistake();
    if (mistake !== null)
      cli.note(`warning: ${mistake}. No controller can start until the settings are repaired: jobman doctor`);
    return code;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return reportError(error, cli);
  }
}

async function requireThisMachine({ usesHome, names, hidden }: JobmanCommand, services: Services): Promise<void> {
  const server = usesHome === undefined ? null : await services.server();
  // Like `emulator act`, which stands for all verbs of the emulator.
  const name = hidden === true ? names[0]?.split(' ')[0] : names[0];
  if (server !== null) throw notOnServerError(`\`jobman ${name}\``, server);
}

function scanArguments(command: JobmanCommand, args: readonly string[]): ReturnType<typeof scan> {
  try {
    return scan({ ...globalFlags, ...command.flags }, command.args, args);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    const hint = `\`jobman ${command.names[0]} --help\` shows its flags and examples.`;
    throw reworded(error, { lines: [...error.lines, hint] });
  }
}

function wantsHelp(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? undefined : end).some((arg) => arg === '--help' || arg === '-h');
}
