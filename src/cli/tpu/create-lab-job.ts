// Shared parts of the commands that start a job of the lab, or that create or delete its TPU.

import type { Client } from '../../app/client.ts';
import { escapeLine, formatList } from '../../app/format.ts';
import { type RunRequest, scriptEnvironment, persistentTpuSpec } from '../../lab/run-spec.ts';
import { withOperation } from '../../lab/operation.ts';
import { siteSteps } from '../../lab/site-setup.ts';
import type { StartedRun } from '../../lab/start-run.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import { wakeController } from '../controller.ts';
import type { TpuClaim } from './claim-tpu.ts';
import type { TpuCli } from './command.ts';

/** Starts the controller, and prints the answer and the notes about the start. */
export async function reportStart(
  cli: TpuCli,
  client: Client,
  started: StartedRun,
  { creates }: Pick<TpuClaim, 'creates'>,
  action: string,
): Promise<void> {
  const { id, window, replaces, late } = started;
  for (const { message } of late) cli.note(escapeLine(message));
  await wakeController(cli, client);
  if (replaces.length > 0) cli.note(`It starts once ${formatJobs(replaces)} ended.`);
  if (creates !== null) cli.note(`It creates its TPU first: jobman why ${Number(id)}`);
  if (cli.json) cli.printJson({ window, job: id });
  else cli.printSentence(`Window ${window}: job ${id} ${action}`);
}

function formatJobs(ids: readonly string[]): string {
  return ids.length === 1 ? `job ${ids[0]} has` : `jobs ${formatList(ids)} have`;
}

type TpuSpecContext = Pick<RunRequest, 'capacity' | 'steps' | 'stageLimit' | 'hangGraceMs' | 'env'>;

/** For a job that creates its TPU if the claim requires it. Throws as `persistentTpuSpec` does. */
export async function tpuSpecContext({
  io,
  lab,
}: TpuCli): Promise<(tpu: LabTpu, claim: Pick<TpuClaim, 'zone' | 'creates'>) => TpuSpecContext> {
  const [site, project] = await Promise.all([lab.site(), lab.project()]);
  const { stageLimit, hangGraceMs } = site;
  // On a server the script has the environment of its controller.
  const env = lab.isOnServer ? {} : scriptEnvironment(io.env);
  return (tpu, { zone, creates }) => {
    const ready = persistentTpuSpec(tpu, site, { project, foundZone: zone });
    const spreadsheet = site.spreadsheet !== null;
    const { work, owner } = creates ?? {};
    const capacity = work === undefined ? ready : withOperation(ready, work, { spreadsheet, owner });
    return { capacity, steps: siteSteps(site, capacity.zone), stageLimit, hangGraceMs, env };
  };
}
