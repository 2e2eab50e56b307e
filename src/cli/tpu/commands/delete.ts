// delete: a TPU is deleted in the cloud and not made again. The registry keeps its name, so that `tpu apply` can make it later.

import { exitCode } from '../../../app/errors.ts';
import { hasWorkers } from '../../../lab/solve.ts';
import { confirm } from '../../prompt.ts';
import { inertWord } from '../../render/inert.ts';
import { atDesk, concernsOf, unknownState } from '../at-desk.ts';
import { bookExistence } from '../book-attempt.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { tpuOf, type Words } from '../words.ts';

export async function deleteTpu(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  return atDesk(cli, async (at) => {
    const state = await at.tpus.describe(tpu);
    if (state.kind === 'unknown') throw unknownState(tpu, state.says);
    const noteGone = (): Promise<void> => bookExistence(cli, tpu.name, 'gone', at.say);
    if (state.state === 'absent') {
      await noteGone();
      if (cli.json) cli.print(JSON.stringify({ tpu: tpu.name, deleted: false }));
      else cli.tell(`${tpu.name} does not exist; there is nothing to delete.`);
      return exitCode.ok;
    }
    const concerns = await concernsOf(at, tpu, hasWorkers(state));
    const uses = concerns.length === 0 ? '' : `${inertWord(concerns.join('; '))}. `;
    const what = `${tpu.name} (${tpu.accelerator}, ${state.state}, in ${state.zone})`;
    const isMeant = await confirm(
      cli,
      `${uses}Delete ${what} with its disks, for everybody?`,
      `${uses}${what} was not deleted; its disks would be lost, for everybody.`,
    );
    if (!isMeant) return exitCode.failed;
    const isDeleted = await at.tpus.delete(
      tpu,
      at.say,
      at.signal,
      state.made === undefined ? {} : { made: state.made },
    );
    await noteGone();
    if (cli.json) cli.print(JSON.stringify({ tpu: tpu.name, zone: state.zone, deleted: isDeleted }));
    else
      cli.tell(
        `${tpu.name} is deleted. To make it again: tpu apply ${tpu.name}. To forget it: tpu unregister ${tpu.name}.`,
      );
    return exitCode.ok;
  });
}
