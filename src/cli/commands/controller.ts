// controller: the loop that looks after jobs, as a process.

import { exitCode } from '../../app/errors.ts';
import { lengthText, moment } from '../../app/figures.ts';
import type { Cli } from '../context.ts';
import type { Duration } from '../../core/time.ts';

export async function status(cli: Cli): Promise<number> {
  const controller = await cli.services.controller();
  const now = await controller.status();
  const age = now.startedAt === null ? '' : ` for ${lengthText(cli.io.now() - now.startedAt)}`;
  const sentence = now.running
    ? `The controller runs${age}: process ${now.pid ?? '?'}, version ${now.version ?? '?'}.`
    : 'The controller does not run; a command that needs it starts it.';
  cli.answer({ ...now, startedAt: moment(now.startedAt) }, `${sentence} Its log: ${now.log}`);
  return now.running ? exitCode.ok : exitCode.failed;
}

export async function start(cli: Cli): Promise<number> {
  // A record that cannot be used is said here, and not only at the end of the controller's log.
  await (await cli.services.client()).changes();
  const controller = await cli.services.controller();
  const answer = await controller.start();
  cli.answer(answer, `The controller ${answer.started ? 'was started' : 'runs already'}: process ${answer.pid}.`);
  return exitCode.ok;
}

export async function stop(cli: Cli): Promise<number> {
  const controller = await cli.services.controller();
  const answer = await controller.stop();
  const stopped = 'The controller was stopped. Programs on workers run on; nobody looks after them now.';
  cli.answer(answer, answer.stopped ? stopped : 'The controller did not run.');
  return exitCode.ok;
}

/** Also where none runs: then it only starts one. */
export async function restart(cli: Cli): Promise<number> {
  // A database that cannot be used is reported before the controller that still runs is stopped.
  await (await cli.services.client()).changes();
  const controller = await cli.services.controller();
  const { stopped } = await controller.stop();
  const { pid } = await controller.start();
  cli.answer({ stopped, pid }, `The controller was ${stopped ? 'restarted' : 'started'}: process ${pid}.`);
  return exitCode.ok;
}

export async function install(cli: Cli): Promise<number> {
  const controller = await cli.services.controller();
  return say(cli, await controller.install());
}

export async function uninstall(cli: Cli): Promise<number> {
  const controller = await cli.services.controller();
  return say(cli, await controller.uninstall());
}

function say(cli: Cli, message: string): number {
  cli.answer({ message }, message);
  return exitCode.ok;
}

/** Without the flag the settings say how long it stays when there is nothing to do; `never` is for a service manager. */
export async function run(cli: Cli, flags: { readonly idleExit?: Duration | 'never' | undefined }): Promise<number> {
  const controller = await cli.services.controller();
  const { idleExit } = flags;
  if (idleExit === 'never') return controller.run({ idleExitMs: null });
  return controller.run(idleExit === undefined ? {} : { idleExitMs: idleExit });
}
