// What a job of the lab gets beside what its line says: a standing TPU with what its workers go through, the limits of the site,
// and the environment of whoever types.

import { siteSteps } from '../../lab/mount-step.ts';
import { scriptEnvironment, type RunSpec } from '../../lab/run.ts';
import { standingSpec } from '../../lab/standing-spec.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import type { TpuCli } from './tpu-cli.ts';

type Surroundings = Pick<RunSpec, 'capacity' | 'steps' | 'stageLimit' | 'hangGrace' | 'launcher' | 'env'>;

/** What tells it of a TPU; `seenIn` is the zone that a look has found it in. Throws as standingSpec does. */
export async function surroundings({
  io,
  lab,
  services,
}: TpuCli): Promise<(tpu: LabTpu, seenIn?: string | null) => Surroundings> {
  const [site, { tpu: cloud }] = await Promise.all([lab.site(), services.settings()]);
  const { stageLimit, hangGrace } = site;
  const env = scriptEnvironment(io.env, services.home);
  return (tpu, seenIn = null) => {
    const capacity = standingSpec(tpu, site, { project: cloud.project, seenIn });
    return { capacity, steps: siteSteps(site, capacity.zone), stageLimit, hangGrace, launcher: io.launcher, env };
  };
}
