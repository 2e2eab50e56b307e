import { exitCode } from '../../app/errors.ts';
import { formatDuration, toRfc3339 } from '../../app/format.ts';
import type { Cli } from '../context.ts';
import type { Duration } from '../../core/model/time.ts';

export async function status(cli: Cli): Promise<number> {
  const controller = await cli.services.controller();
  const now = await controller.status();
  const age = now.startedAt === null ? '' : ` for ${formatDuration(cli.io.now() - now.startedAt)}`;
  const sentence = now.running
    ? `The controller runs${age}: process ${now.pid ?? '?'}, version ${now.version ?? '?'}.`
    : 'The controller does not run; a command that needs it starts it.';
  cli.printResult({ ...now, startedAt: toRfc3339(now.startedAt) }, `${sentence} Its log: ${now.logFile}`);
  return now.running ? exitCode.ok : exitCode.failed;
}

export async function start(cli: Cli): Promise<number> {
  // Report an unusable database here, not only at the end of the controller's log.
  await (await cli.services.client()).changeCount();
  const controller = await cli.services.controller();
  const answer = await controller.start();
  cli.printResult(answer, `The controller ${answer.started ? 'was started' : 'runs already'}: process ${answer.pid}.`);
  return exitCode.ok;
}

export async function stop(cli: Cli): Promise<number> {
  const controller = await cli.services.controller();
  const answer = await controller.stop();
  const stopped = 'The controller was stopped. Programs on workers run on; nobody looks after them now.';
  cli.printResult(answer, answer.stopped ? stopped : 'The controller did not run.');
  return exitCode.ok;
}

export async function restart(cli: Cli): Promise<number> {
  // Report an unusable database before stopping the running controller.
  await (await cli.services.client()).changeCount();
  const controller = await cli.services.controller();
  const { stopped } = await controller.stop();
  const { pid } = await controller.start();
  cli.printResult({ stopped, pid }, `The controller was ${stopped ? 'restarted' : 'started'}: process ${pid}.`);
  return exitCode.ok;
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
