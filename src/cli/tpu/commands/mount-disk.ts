// mount-disk: the site's shares on every worker, and the login to W&B; set-wandb: that login alone.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { wandbVariable } from '../../../lab/mount-step.ts';
import { hasWorkers } from '../../../lab/solve.ts';
import { wandbKey } from '../../../lab/wandb-key.ts';
import { applyRemedies, atDesk, rememberZone, siteRemedies, stateNow, wandbOf } from '../at-desk.ts';
import type { AtDesk, SiteRemedy } from '../at-desk.ts';
import type { TpuBody } from '../tpu-cli.ts';

export const mountDisk: TpuBody = (cli, words) =>
  atDesk(cli, words, async (at) => {
    const zone = await zoneOf(at);
    await rememberZone(at, zone);
    const remedies = await siteRemedies(at, zone);
    if (remedies.length === 0) {
      throw new JobmanError(`The settings name no share for ${zone}, and no key for W&B.`, exitCode.usage, [
        `jobman settings set lab.shares '[{"source": "10.0.0.2:/home", "target": "/home-nfs"}]'`,
        'docs/settings.md#a-lab tells more.',
      ]);
    }
    const has = (name: string): boolean => remedies.some((remedy) => remedy.name === name);
    const what = has('shares') ? (has('W&B') ? 'mounted and logged in to W&B' : 'mounted') : 'logged in to W&B';
    const code = await applyAll(at, remedies, what);
    if (!has('shares')) cli.note(`The settings name no share for ${zone}, so nothing was mounted (lab.shares).`);
    return code;
  });

export const setWandb: TpuBody = (cli, words) =>
  atDesk(cli, words, async (at) => {
    const key = await wandbKey(at.site, cli.io.env);
    if (key === null) {
      throw new JobmanError('There is no key for W&B.', exitCode.usage, [
        `jobman settings set lab.wandbKeyFile ~/.wandb-key    names a file that holds it; or set ${wandbVariable}`,
      ]);
    }
    await zoneOf(at);
    return applyAll(at, [wandbOf(key)], 'logged in to W&B');
  });

/** Where it is. Throws JobmanError where it has no workers. */
async function zoneOf(at: AtDesk): Promise<string> {
  const state = await stateNow(at);
  if (hasWorkers(state)) return state.zone;
  const { name } = at.tpu;
  throw new JobmanError(`${name} is ${state.state}, so there are no workers to prepare.`, exitCode.conflict, [
    `tpu ${state.state === 'absent' ? 'apply' : 'reapply'} ${name}    makes it and prepares them`,
  ]);
}

async function applyAll(at: AtDesk, remedies: readonly SiteRemedy[], what: string): Promise<number> {
  const isWell = await applyRemedies(at, remedies);
  if (isWell) at.cli.tell(`${at.tpu.name}: all workers are ${what}.`);
  return isWell ? exitCode.ok : exitCode.failed;
}
