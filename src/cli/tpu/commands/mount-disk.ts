// mount-disk: the site's shares on every worker, and the login to W&B; set-wandb: that login alone.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { wandbVariable } from '../../../lab/mount-step.ts';
import { hasWorkers } from '../../../lab/solve.ts';
import { wandbKey } from '../../../lab/wandb-key.ts';
import { applyRemedy, atDesk, rememberZone, siteRemedies, unknownState, wandbOf } from '../at-desk.ts';
import type { AtDesk, SiteRemedy } from '../at-desk.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { tpuOf, type Words } from '../words.ts';

export async function mountDisk(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  return atDesk(cli, async (at) => {
    const zone = await zoneOf(at, tpu);
    await rememberZone(cli, tpu, zone);
    const remedies = await siteRemedies(at, zone);
    if (remedies.length === 0) {
      throw new JobmanError(`The settings name no share for ${zone}, and no key for W&B.`, exitCode.usage, [
        `jobman settings set lab.shares '[{"source": "10.0.0.2:/home", "target": "/home-nfs"}]'`,
        'docs/settings.md#a-lab tells more.',
      ]);
    }
    const has = (name: string): boolean => remedies.some((remedy) => remedy.name === name);
    const what = has('shares') ? (has('W&B') ? 'mounted and logged in to W&B' : 'mounted') : 'logged in to W&B';
    const code = await applyAll(at, tpu, remedies, what);
    if (!has('shares')) cli.note(`The settings name no share for ${zone}, so nothing was mounted (lab.shares).`);
    return code;
  });
}

export async function setWandb(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  return atDesk(cli, async (at) => {
    const key = await wandbKey(at.site, cli.io.env);
    if (key === null) {
      throw new JobmanError('There is no key for W&B.', exitCode.usage, [
        `jobman settings set lab.wandbKeyFile ~/.wandb-key    names a file that holds it; or set ${wandbVariable}`,
      ]);
    }
    await zoneOf(at, tpu);
    return applyAll(at, tpu, [wandbOf(key)], 'logged in to W&B');
  });
}

/** Throws JobmanError if the TPU has no workers. */
async function zoneOf({ tpus }: AtDesk, tpu: LabTpu): Promise<string> {
  const state = await tpus.describe(tpu);
  if (state.kind === 'unknown') throw unknownState(tpu, state.says);
  if (hasWorkers(state)) return state.zone;
  throw new JobmanError(`${tpu.name} is ${state.state}, so there are no workers to prepare.`, exitCode.conflict, [
    `tpu ${state.state === 'absent' ? 'apply' : 'reapply'} ${tpu.name}    makes it and prepares them`,
  ]);
}

async function applyAll(at: AtDesk, tpu: LabTpu, remedies: readonly SiteRemedy[], what: string): Promise<number> {
  let isWell = true;
  for (const remedy of remedies) isWell = (await applyRemedy(at, tpu, remedy)) && isWell;
  if (isWell) at.cli.tell(`${tpu.name}: all workers are ${what}.`);
  return isWell ? exitCode.ok : exitCode.failed;
}
