// check-status: Google's word for the state of a TPU, in small letters.

import { exitCode } from '../../../app/errors.ts';
import { atDesk, unknownState } from '../at-desk.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { tpuOf, type Words } from '../words.ts';

export async function checkStatus(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  return atDesk(cli, async ({ tpus }) => {
    const state = await tpus.describe(tpu);
    if (state.kind === 'unknown') throw unknownState(tpu, state.says);
    if (cli.json) cli.print(JSON.stringify({ tpu: tpu.name, ...state, kind: undefined }));
    else cli.print(state.state);
    return state.state === 'absent' ? exitCode.notFound : exitCode.ok;
  });
}
