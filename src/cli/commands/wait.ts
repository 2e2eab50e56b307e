// wait: until jobs have settled. One line for each, and the worst verdict as exit code.

import type { JobView } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { lengthText } from '../../app/figures.ts';
import type { Duration } from '../../core/time.ts';
import { complainAbout, refsOf, type Cli, type GlobalFlags } from '../context.ts';
import { controllerEvery, keepController } from '../controller.ts';
import { leaveOnSignal, pause } from '../follow/loop.ts';
import { verdictLine } from '../follow/verdict.ts';
import { rowJson } from '../json.ts';
import { isSettled, verdictCode } from '../settled.ts';

export interface WaitFlags {
  readonly timeout: Duration | undefined;
  readonly jobName: string | undefined;
}

const lookEvery: Duration = 250;

export async function wait(cli: Cli, flags: WaitFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { io } = cli;
  const client = await cli.services.client();
  const open = new Set<string>();
  let worst: number = exitCode.ok;
  for (const ref of await refsOf(client, args, flags.jobName)) {
    try {
      open.add((await client.show(ref)).id);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      worst = Math.max(worst, complainAbout(error, cli));
    }
  }

  const say = (view: JobView) => {
    if (cli.json) cli.print(JSON.stringify(rowJson(view)));
    else cli.tell(verdictLine(view));
    worst = Math.max(worst, verdictCode(view));
  };
  const began = io.now();
  const { signal, release } = leaveOnSignal(cli);
  try {
    let changes = -1;
    // At once, and then every few seconds: whoever waits expects that somebody works.
    let controllerAt = began - controllerEvery;
    for (;;) {
      const seen = await client.changes();
      if (seen !== changes) {
        changes = seen;
        for (const id of open) {
          const view = await client.show(id);
          if (!isSettled(view)) continue;
          open.delete(id);
          say(view);
        }
      }
      if (open.size === 0) return worst;
      if (signal.aborted) {
        cli.complain(`Left; ${[...open].join(', ')} ${open.size === 1 ? 'goes' : 'go'} on.`);
        return exitCode.interrupted;
      }
      if (flags.timeout !== undefined && io.now() - began >= flags.timeout) {
        cli.complain(
          `Not settled after ${lengthText(flags.timeout)}: ${[...open].join(', ')}. The wait is over; the jobs go on.`,
        );
        return Math.max(worst, exitCode.failed);
      }
      if (io.now() - controllerAt >= controllerEvery) {
        controllerAt = io.now();
        await keepController(cli, client);
      }
      await pause(lookEvery, signal);
    }
  } finally {
    release();
  }
}
