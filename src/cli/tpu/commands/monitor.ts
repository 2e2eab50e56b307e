// `tpu monitor`: the jobs of a user, as they change.

import type { LabUser } from '../../../lab/people.ts';
import { createLooker } from '../../../lab/looking.ts';
import { userOf } from '../people.ts';
import { watchWindows } from '../screen/monitor.ts';
import type { TpuBody, TpuCli } from '../tpu-cli.ts';

export const monitor: TpuBody = async (desk, words) => monitorOf(desk, await userOf(desk, words), words.letters);

/** The monitor of that user, for `tpu run` too; the columns that they have chosen where no letters say others. */
export async function monitorOf(desk: TpuCli, user: LabUser, letters = ''): Promise<number> {
  const { lab, services } = desk;
  const { namePrefix } = await lab.site();
  const looker = createLooker({ record: lab.record, home: services.home, user, namePrefix });
  return watchWindows(desk, { user, letters, looker });
}
