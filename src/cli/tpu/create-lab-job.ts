// Shared parts of the commands that start a job of the lab, or that create or delete its TPU.

import type { Client } from '../../app/client.ts';
import { escapeLine, formatList } from '../../app/format.ts';
import { type RunRequest, scriptEnvironment, persistentTpuSpec } from '../../lab/run-spec.ts';
import { siteSteps } from '../../lab/site-setup.ts';
import type { StartedRun } from '../../lab/start-run.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import { wakeController } from '../controller.ts';
import type { TpuCli } from './command.ts';

/** Starts the controller, and prints the answer and the notes about the start. */
export async function reportStart(cli: TpuCli, client: Client, started: StartedRun, action: string): Promise<void> {
  const { id, window, replaces, late } = started;
  for (const { message } of late) cli.note(escapeLine(message));
  await wakeController(cli, client);
  if (replaces.length > 0) cli.note(`It starts once ${formatJobs(replaces)} ended.`);
  if (cli.json) cli.printJson({ window, job: id });
  else cli.printSentence(`Window ${window}: job ${id} ${action}`);
}

function formatJobs(ids: readonly string[]): string {
  return ids.length === 1 ? `job ${ids[0]} has` : `jobs ${formatList(ids)} have`;
}

type TpuSpecContext = Pick<RunRequest, 'capacity' | 'steps' | 'stageLimit' | 'hangGraceMs' | 'env'>;

/** `foundZone` is the zone that the cloud reports. Throws as `persistentTpuSpec` does. */
export async function tpuSpecContext({
  io,
  lab,
  services,
}: TpuCli): Promise<(tpu: LabTpu, foundZone?: string | null) => TpuSpecContext> {
  const [site, { tpu: cloud }] = await Promise.all([lab.site(), services.settings()]);
  const { stageLimit, hangGraceMs } = site;
  const env = scriptEnvironment(io.env);
  return (tpu, foundZone = null) => {
    const capacity = persistentTpuSpec(tpu, site, { project: cloud.project, foundZone });
    return { capacity, steps: siteSteps(site, capacity.zone), stageLimit, hangGraceMs, env };
  };
}
