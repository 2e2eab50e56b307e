// apply and reapply: a TPU is created, or deleted and created anew, and its workers are made ready for the lab's programs.

import { exitCode } from '../../../app/errors.ts';
import { hasWorkers } from '../../../lab/solve.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { atDesk, confirmUse, prepare, rememberZone, unknownState } from '../at-desk.ts';
import type { AtDesk } from '../at-desk.ts';
import { bookExistence } from '../book-attempt.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { tpuOf, type Words } from '../words.ts';

export async function apply(cli: TpuCli, words: Words): Promise<number> {
  const tpu = wanted(words);
  return atDesk(cli, async (at) => {
    const state = await at.tpus.describe(tpu);
    if (state.kind === 'unknown') throw unknownState(tpu, state.says);
    if (state.state === 'ready') at.say(`${tpu.name} is ready already; what is made ready are its workers`);
    else await at.tpus.apply(tpu, at.say, at.signal);
    return finish(at, words, tpu);
  });
}

export async function reapply(cli: TpuCli, words: Words): Promise<number> {
  const tpu = wanted(words);
  return atDesk(cli, async (at) => {
    const state = await at.tpus.describe(tpu);
    if (state.kind === 'unknown') throw unknownState(tpu, state.says);
    if (!(await confirmUse(at, tpu, hasWorkers(state), `Delete ${tpu.name} and make it anew`))) return exitCode.failed;
    const { made } = state;
    const options = { anyPricing: isNormal(words), ...(made === undefined ? {} : { made }) };
    await at.tpus.reapply(tpu, at.say, at.signal, options);
    return finish(at, words, tpu);
  });
}

/** With -norm it is on demand, and the registry says so from then on. */
function wanted(words: Words): LabTpu {
  const tpu = tpuOf(words);
  return isNormal(words) ? { ...tpu, pricing: 'ondemand' } : tpu;
}

function isNormal({ verb, flags }: Words): boolean {
  return flags.has('norm') || verb.endsWith('-norm');
}

async function finish(at: AtDesk, words: Words, tpu: LabTpu): Promise<number> {
  const { cli } = at;
  if (isNormal(words)) {
    await cli.lab.record.changeTpu(tpu.name, (now) => (now === null ? null : { ...now, pricing: 'ondemand' }));
  }
  await bookExistence(cli, tpu.name, 'free', at.say);
  const state = await at.tpus.describe(tpu);
  const zone = state.kind === 'known' ? state.zone : (tpu.zone ?? '');
  await rememberZone(cli, tpu, zone);
  const code = await prepare(at, tpu, zone);
  if (cli.json) cli.print(JSON.stringify({ tpu: tpu.name, zone, prepared: code === exitCode.ok }));
  else if (code === exitCode.ok) cli.tell(`${tpu.name} is ready.`);
  else cli.tell(`${tpu.name} is ready; \`tpu mount-disk ${tpu.name}\` tries again what failed on its workers.`);
  return code;
}
