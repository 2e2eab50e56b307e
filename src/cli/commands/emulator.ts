// emulator: the built-in cloud, as a process.

import { exitCode } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import { cloudLines } from '../render/cloud.ts';
import { columnsOf } from '../screen.ts';

export async function status(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const now = await emulator.status();
  if (cli.json) {
    const { cloud, ...where } = now;
    cli.print(JSON.stringify({ ...where, speed: cloud?.speed ?? null, ...cloud?.raw }));
  } else if (now.cloud === null) cli.tell('The built-in cloud does not run; a job in project `emulator` starts it.');
  else {
    const columns = columnsOf(cli.io.stdout);
    cli.tell(
      `The built-in cloud runs at ${now.url ?? '?'} (process ${now.pid ?? '?'}), ${now.cloud.speed} times as fast as Google's.`,
    );
    for (const line of cloudLines(now.cloud, columns, cli.io.now())) cli.print(line);
  }
  return now.running ? exitCode.ok : exitCode.failed;
}

export async function start(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const answer = await emulator.start();
  if (cli.json) cli.print(JSON.stringify(answer));
  else cli.tell(`The built-in cloud ${answer.started ? 'was started' : 'runs already'}: ${answer.url}`);
  return exitCode.ok;
}

export async function stop(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const answer = await emulator.stop();
  if (cli.json) cli.print(JSON.stringify(answer));
  else
    cli.tell(
      answer.stopped ? 'The built-in cloud was stopped; its state stays on disk.' : 'The built-in cloud did not run.',
    );
  return exitCode.ok;
}
