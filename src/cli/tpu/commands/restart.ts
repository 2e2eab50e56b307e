// restart: the machines of a TPU begin again.

import { exitCode } from '../../../app/errors.ts';
import { hasWorkers } from '../../../lab/solve.ts';
import { atDesk, confirmUse, prepare, unknownState } from '../at-desk.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { tpuOf, type Words } from '../words.ts';

export async function restart(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  return atDesk(cli, async (at) => {
    const state = await at.tpus.describe(tpu);
    if (state.kind === 'unknown') throw unknownState(tpu, state.says);
    if (!(await confirmUse(at, tpu, hasWorkers(state), `Restart ${tpu.name}`))) return exitCode.failed;
    await at.tpus.restart(tpu, at.say, at.signal);
    // Mounts do not outlive a boot.
    const code = await prepare(at, tpu, state.zone);
    cli.tell(`${tpu.name} has restarted${code === exitCode.ok ? '' : ', and its workers are not as they should be'}.`);
    return code;
  });
}
