// emulator: the built-in cloud, as a process.

import { exitCode } from '../../app/errors.ts';
import type { Cli } from '../context.ts';

export async function status(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const now = await emulator.status();
  cli.print(cli.json ? JSON.stringify(now) : now.text.trimEnd());
  return now.running ? exitCode.ok : exitCode.failed;
}

export async function start(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const answer = await emulator.start();
  if (cli.json) cli.print(JSON.stringify(answer));
  else cli.print(`The built-in cloud ${answer.started ? 'was started' : 'runs already'}: ${answer.url}`);
  return exitCode.ok;
}

export async function stop(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const answer = await emulator.stop();
  if (cli.json) cli.print(JSON.stringify(answer));
  else
    cli.print(
      answer.stopped ? 'The built-in cloud was stopped; its state stays on disk.' : 'The built-in cloud did not run.',
    );
  return exitCode.ok;
}
