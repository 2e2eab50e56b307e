// The monitor after a run.

import { exitCode } from '../../app/errors.ts';
import type { LabUser } from '../../lab/people.ts';
import type { TpuCli } from './tpu-cli.ts';
import type { Words } from './words.ts';

/** Goes on as `tpu monitor` on a terminal, as the user's settings say; -q and --json want nothing more. */
export async function goOnWatching(desk: TpuCli, words: Words, user: LabUser): Promise<number> {
  const { io, quiet, json } = desk;
  if (!io.stdout.isTerminal || quiet || json || words.flags.has('q') || !user.settings.monitor_after_run)
    return exitCode.ok;
  const { monitorOf } = await import('./commands/monitor.ts');
  return monitorOf(desk, user);
}
