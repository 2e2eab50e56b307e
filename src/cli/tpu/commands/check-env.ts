// check-env: whether the Python of a TPU's workers sees its devices.

import { exitCode } from '../../../app/errors.ts';
import type { EnvironmentClass } from '../../../lab/environment.ts';
import { askPython } from '../../../lab/gather.ts';
import { inertWord } from '../../render/inert.ts';
import { atDesk } from '../at-desk.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { tpuOf, type Words } from '../words.ts';

export async function checkEnv(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  return atDesk(cli, async ({ tpus, site, signal }) => {
    const environment = await askPython(tpus, tpu, site, signal);
    if (cli.json) cli.print(JSON.stringify({ tpu: tpu.name, ...environment }));
    else {
      cli.print(environment.class);
      cli.note(`worker ${environment.worker}: ${inertWord(environment.says)}`);
      const hint = hints[environment.class];
      if (hint !== null) cli.note(hint.replace('TPU', tpu.name));
    }
    return environment.class === 'success' ? exitCode.ok : exitCode.failed;
  });
}

const hints: Readonly<Record<EnvironmentClass, string | null>> = {
  success: null,
  'file error': '`tpu mount-disk TPU` mounts the shares that it may be on; `tpu solve TPU` looks further.',
  occupied: '`tpu describe TPU` says who uses it.',
  timeout: '`tpu solve TPU` looks for the reason.',
  unknown: '`tpu solve TPU` looks for the reason.',
};
