import { readFile } from 'node:fs/promises';
import { formatOtherDatabase, otherDatabaseRemedy } from '../../app/database-url.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { escapeLine, formatDuration, formatSilence } from '../../app/format.ts';
import type { ControllerStatusOutput } from '../outputs.ts';
import type { Cli } from '../context.ts';
import { databaseProblem, isControllerRunning } from '../controller.ts';
import { drawStatusLine } from '../block.ts';
import type { ControllerService } from '../../app/services.ts';
import type { Duration } from '../../core/model/time.ts';

export async function status(cli: Cli): Promise<number> {
  const controller = await cli.services.controller();
  const found = await controller.status();
  const isExpected = found.running && found.otherDatabase === null;
  const now: ControllerStatusOutput = { ...found, databaseProblem: isExpected ? await databaseProblem(cli) : null };
  const age = now.startedAt === null ? '' : ` for ${formatDuration(cli.io.now() - now.startedAt)}`;
  const { otherDatabase } = now;
  const other = otherDatabase === null ? '' : ` It ${formatOtherDatabase(otherDatabase)}. ${otherDatabaseRemedy}.`;
  const unusable = now.databaseProblem === null ? '' : ` It waits for the database: ${now.databaseProblem}`;
  const silent = now.silentSinceAt === null ? '' : ` ${formatSilence(now, cli.io.now())}.`;
  const waits =
    now.waitsFor === null ? '' : ` It waits: the controller of another home, on ${now.waitsFor}, runs the jobs.`;
  const sentence = now.running
    ? `The ${now.isServer ? 'server, which is also the controller,' : 'controller'} has been running${age} (process ${now.pid ?? '?'}, version ${now.version ?? '?'}).${other}${waits}${unusable}${silent}`
    : (await isControllerRunning(cli))
      ? 'The controller of this home does not run; that of another home works for the database.'
      : 'The controller does not run; the next command that needs it starts it.';
  cli.printResult(now, `${sentence} ${now.isServer ? 'Its log is on its standard error.' : `Log: ${now.logFile}`}`);
  return now.running ? exitCode.ok : exitCode.failed;
}

export async function start(cli: Cli): Promise<number> {
  // Report an unusable database here, not only at the end of the controller's log.
  await (await cli.services.client()).whoAmI();
  const controller = await cli.services.controller();
  const answer = await controller.start();
  const sentence = answer.started
    ? `Started the controller (process ${answer.pid}). It runs in the background.`
    : `The controller already runs (process ${answer.pid}).`;
  cli.printResult(answer, sentence);
  return exitCode.ok;
}

export async function stop(cli: Cli): Promise<number> {
  const controller = await cli.services.controller();
  const answer = await stopAndWait(cli, controller);
  const stopped =
    'Stopped the controller. Programs on workers keep running; no job recovers until a controller runs again.';
  const held = await controller.held();
  const lines = held === null ? [] : [`${held.message}. Release: ${held.release.join(' · ')}`];
  cli.printResult({ ...answer, held }, [answer.stopped ? stopped : 'No controller was running.', ...lines].join('\n'));
  return exitCode.ok;
}

/** Says on a terminal what it waits for. */
async function stopAndWait(cli: Cli, controller: ControllerService): Promise<{ readonly stopped: boolean }> {
  const { pid } = await controller.status();
  const text = `Waiting for the controller (process ${pid ?? '?'}) to exit; one that hangs is killed within 30s`;
  const line = drawStatusLine(cli, 1_000, () => text);
  return controller.stop().finally(() => line.end());
}

export async function restart(cli: Cli): Promise<number> {
  // Report an unusable database and wrong settings before stopping the running controller.
  await (await cli.services.client()).whoAmI();
  await cli.services.settings();
  const controller = await cli.services.controller();
  const { isServer, pid: server } = await controller.status();
  if (isServer)
    throw new JobmanError(
      `The controller is part of a server (process ${server}), which was not stopped.`,
      exitCode.conflict,
      [
        'Stop it: jobman controller stop. Start it again as before, for example with its service manager or `jobman server`.',
      ],
    );
  const { stopped } = await stopAndWait(cli, controller);
  const { pid } = await controller.start();
  cli.printResult(
    { stopped, pid },
    `${stopped ? 'Restarted' : 'Started'} the controller (process ${pid}). It runs in the background.`,
  );
  return exitCode.ok;
}

const defaultTail = 100;

export async function logs(cli: Cli, { tail = defaultTail }: { readonly tail?: number | undefined }): Promise<number> {
  const { logFile, isServer } = await (await cli.services.controller()).status();
  // The file would be that of an earlier controller.
  if (isServer)
    throw new JobmanError('The server writes its log to its standard error, and not to a file.', exitCode.notFound, [
      'As a service of systemd: journalctl --unit jobman',
      'In Kubernetes: kubectl logs POD; in a container: docker logs CONTAINER',
    ]);
  const text = await readFile(logFile, 'utf8').catch(() => null);
  if (text === null) throw new JobmanError(`The controller has written no log yet (${logFile}).`, exitCode.notFound);
  const lines = text.trimEnd().split('\n');
  const shown = lines.slice(Math.max(0, lines.length - tail));
  if (cli.json) cli.printJsonLines(shown.map((message) => ({ message })));
  else cli.printAll(shown.map(formatLogLine));
  cli.note(`From ${logFile}`);
  return exitCode.ok;
}

const levels: Readonly<Record<number, string>> = { 30: 'info', 40: 'warn', 50: 'error', 60: 'fatal' };

/** `2026-11-28T07:14:04.624Z info controller started`. A crash also leaves lines that are not JSON. */
function formatLogLine(line: string): string {
  let entry: unknown;
  try {
    entry = JSON.parse(line);
  } catch {
    return line;
  }
  if (typeof entry !== 'object' || entry === null || !('msg' in entry)) return line;
  const { time, level, msg, ...fields } = entry as Readonly<Record<string, unknown>>;
  const pairs = Object.entries(fields).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
  return escapeLine([time, levels[Number(level)] ?? level, msg, ...pairs].join(' '));
}

export async function install(cli: Cli): Promise<number> {
  const controller = await cli.services.controller();
  return printMessage(cli, await controller.install());
}

export async function uninstall(cli: Cli): Promise<number> {
  const controller = await cli.services.controller();
  return printMessage(cli, await controller.uninstall());
}

function printMessage(cli: Cli, message: string): number {
  cli.printResult({ message }, message);
  return exitCode.ok;
}

/** Without the flag the settings decide; `never` is for a service manager. */
export async function run(cli: Cli, flags: { readonly idleExit?: Duration | 'never' | undefined }): Promise<number> {
  const controller = await cli.services.controller();
  const { idleExit } = flags;
  if (idleExit === 'never') return controller.run({ idleExitMs: null });
  return controller.run(idleExit === undefined ? {} : { idleExitMs: idleExit });
}
