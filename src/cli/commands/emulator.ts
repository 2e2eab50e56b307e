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
    cli.tell(
      `The built-in cloud runs at ${now.url ?? '?'} (process ${now.pid ?? '?'}), ${now.cloud.speed} times as fast as Google's.`,
    );
    cli.printAll(cloudLines(now.cloud, columnsOf(cli.io.stdout), cli.io.now()));
  }
  return now.running ? exitCode.ok : exitCode.failed;
}

export async function start(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const answer = await emulator.start();
  cli.answer(answer, `The built-in cloud ${answer.started ? 'was started' : 'runs already'}: ${answer.url}`);
  return exitCode.ok;
}

export async function stop(cli: Cli): Promise<number> {
  const emulator = await cli.services.emulator();
  const answer = await emulator.stop();
  const sentence = answer.stopped ? 'was stopped; its state stays on disk.' : 'did not run.';
  cli.answer(answer, `The built-in cloud ${sentence}`);
  return exitCode.ok;
}
