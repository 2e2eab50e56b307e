// Following the log of one job, for `logs -f` and for the key `l` of a list that is watched.

import type { Client, LogQuery } from '../../app/client.ts';
import type { Cli } from '../context.ts';
import { createLogStream, type LogRules } from '../logs/stream.ts';
import { openWindow } from '../window.ts';
import { followJob, type FollowEnd } from './loop.ts';
import { createProgress, type Ways } from './progress.ts';
import { verdictLine } from './verdict.ts';

/**
 * Prints what the workers say until the job has settled, or until `leave` is aborted, and between the lines what happens
 * to the job meanwhile. Throws JobmanError when the job is not there (any more).
 */
export async function followLog(
  cli: Cli,
  client: Client,
  id: string,
  what: { readonly query: LogQuery; readonly rules: LogRules; readonly leave: AbortSignal; readonly ways?: Ways },
): Promise<FollowEnd> {
  const { io, screen } = cli;
  const { query, rules, leave, ways } = what;
  const logs = createLogStream(io.stdout, rules);
  const window = await openWindow(cli, io.stderr, screen.progress === 'redraw');
  const progress = createProgress(cli, {
    logs,
    tellsPhases: false,
    folds: rules.fold,
    window,
    ...(ways === undefined ? {} : { ways }),
  });
  try {
    const end = await followJob({ cli, client, id, follower: progress, logs, query, leave });
    if (end.kind === 'settled') progress.end(verdictLine(end.view), io.now());
    return end;
  } finally {
    progress.close();
  }
}
