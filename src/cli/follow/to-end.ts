// Following one job from wherever it is to its end, for `create --follow` and `run`.

import type { Client, JobView } from '../../app/client.ts';
import { exitCode } from '../../app/errors.ts';
import type { Cli } from '../context.ts';
import { createLogStream } from '../logs/stream.ts';
import { verdictCode } from '../settled.ts';
import { openWindow } from '../window.ts';
import { followJob, isGone } from './loop.ts';
import { createProgress } from './progress.ts';
import { verdictLine } from './verdict.ts';

/**
 * Shows a job until it settles, its workers' output on standard output and everything else beside it; answers the
 * verdict's exit code. Leaving ends nothing but the looking. `after`: see FollowOptions.
 */
export async function followToEnd(
  cli: Cli,
  client: Client,
  id: string,
  leave: AbortSignal,
  noFold: boolean,
  after?: number,
): Promise<number> {
  const { io } = cli;
  const form = cli.json ? 'json' : io.stdout.isTerminal ? 'terminal' : 'pipe';
  const logs = createLogStream(io.stdout, {
    form,
    numbered: true,
    fold: form === 'terminal' && !noFold,
    colour: cli.screen.colour,
    follow: true,
  });
  const window = await openWindow(cli, io.stderr, cli.screen.progress === 'redraw');
  const progress = createProgress(cli, { logs, tellsPhases: true, folds: form === 'terminal' && !noFold, window });
  try {
    const from = after === undefined ? {} : { after };
    const end = await followJob({ cli, client, id, follower: progress, logs, query: {}, leave, ...from });
    switch (end.kind) {
      case 'settled':
        progress.clear();
        await showFailedStep(cli, client, end.view);
        progress.end(verdictLine(end.view), io.now());
        return verdictCode(end.view);
      case 'left':
        progress.close();
        cli.complain(`Left; ${id} goes on. Back: jobman logs ${Number(id)} -f`);
        return exitCode.interrupted;
      case 'unread':
        return exitCode.ok;
    }
  } catch (error) {
    progress.close();
    if (!isGone(error)) throw error;
    cli.complain(`${id} was deleted meanwhile.`);
    return exitCode.failed;
  } finally {
    progress.close();
  }
}

/** A job that failed in its setup has no log of its command: the last lines of the step say what went wrong. */
async function showFailedStep(cli: Cli, client: Client, view: JobView): Promise<void> {
  if (view.attempts.at(-1)?.reason !== 'setup_failed') return;
  const events = await client.events(view.id, 0);
  const failed = events.findLast(({ event }) => event.kind === 'step_failed')?.event;
  if (failed?.kind !== 'step_failed') return;
  const stream = createLogStream(cli.io.stderr, {
    form: cli.io.stderr.isTerminal ? 'terminal' : 'pipe',
    numbered: true,
    fold: false,
    colour: cli.screen.colour,
    tail: 20,
    follow: false,
  });
  for (const file of await client.logs(view.id, { step: failed.step, worker: failed.worker }))
    await stream.add(file, true);
  cli.complain(`-- the last lines of setup step ${failed.step} on worker ${failed.worker}`);
  await stream.finish(cli.io.now());
}
