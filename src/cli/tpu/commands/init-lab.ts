// `tpu init-lab`: the home becomes one that a group of logins shares.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { TpuBody } from '../tpu-cli.ts';

export const initLab: TpuBody = async (desk, { keys }) => {
  const { group } = keys;
  if (group === undefined) {
    throw new JobmanError('Which group of the system is to share it? Say group=NAME.', exitCode.usage);
  }
  for (const sentence of await (await desk.services.labHome()).share(group)) desk.tell(sentence);
  return exitCode.ok;
};
