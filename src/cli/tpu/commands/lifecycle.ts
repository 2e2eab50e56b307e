// apply, reapply, delete, restart: a TPU is created, deleted or restarted, and its workers are made ready for the lab's programs.

import { exitCode } from '../../../app/errors.ts';
import { hasWorkers } from '../../../lab/solve.ts';
import { inertWord } from '../../render/inert.ts';
import { confirm } from '../../prompt.ts';
import { atDesk, concernsOf, confirmUse, prepare, rememberZone, stateNow, type AtDesk } from '../at-desk.ts';
import { bookExistence } from '../book-attempt.ts';
import type { TpuBody, TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

export const apply: TpuBody = (cli, words) =>
  atDesk(cli, words, async (desk) => {
    const at = wanted(desk, words);
    const { state } = await stateNow(at);
    if (state === 'ready') at.say(`${at.tpu.name} is ready already; what is made ready are its workers`);
    else await at.tpus.apply(at.tpu, at.say, at.signal);
    return finish(at, words);
  });

export const reapply: TpuBody = (cli, words) =>
  atDesk(cli, words, async (desk) => {
    const at = wanted(desk, words);
    const state = await stateNow(at);
    if (!(await confirmUse(at, hasWorkers(state), `Delete ${at.tpu.name} and make it anew`))) return exitCode.failed;
    await at.tpus.reapply(at.tpu, at.say, at.signal, { anyPricing: isNormal(words), made: state.made });
    return finish(at, words);
  });

/** With -norm it is on demand, and the registry says so from then on. */
function wanted(at: AtDesk, words: Words): AtDesk {
  return isNormal(words) ? { ...at, tpu: { ...at.tpu, pricing: 'ondemand' } } : at;
}

function isNormal({ verb, flags }: Words): boolean {
  return flags.has('norm') || verb.endsWith('-norm');
}

async function finish(at: AtDesk, words: Words): Promise<number> {
  const { cli, tpu } = at;
  if (isNormal(words))
    await cli.lab.record.changeTpu(tpu.name, (now) => (now === null ? null : { ...now, pricing: 'ondemand' }));
  await bookExistence(cli, tpu.name, 'free', at.say);
  const state = await at.tpus.describe(tpu);
  const zone = state.kind === 'known' ? state.zone : (tpu.zone ?? '');
  await rememberZone(at, zone);
  const code = await prepare(at, zone);
  const isPrepared = code === exitCode.ok;
  const lacks = isPrepared ? '.' : `; \`tpu mount-disk ${tpu.name}\` tries again what failed on its workers.`;
  printOrTell(cli, { tpu: tpu.name, zone, prepared: isPrepared }, `${tpu.name} is ready${lacks}`);
  return code;
}

/** It is not made again. The registry keeps its name, so that `tpu apply` can make it later. */
export const deleteTpu: TpuBody = (cli, words) =>
  atDesk(cli, words, async (at) => {
    const { tpu, tpus, say, signal } = at;
    const state = await stateNow(at);
    const noteGone = (): Promise<void> => bookExistence(cli, tpu.name, 'gone', say);
    if (state.state === 'absent') {
      await noteGone();
      printOrTell(cli, { tpu: tpu.name, deleted: false }, `${tpu.name} does not exist; there is nothing to delete.`);
      return exitCode.ok;
    }
    const concerns = await concernsOf(at, hasWorkers(state));
    const uses = concerns.length === 0 ? '' : `${inertWord(concerns.join('; '))}. `;
    const what = `${tpu.name} (${tpu.accelerator}, ${state.state}, in ${state.zone})`;
    const isMeant = await confirm(
      cli,
      `${uses}Delete ${what} with its disks, for everybody?`,
      `${uses}${what} was not deleted; its disks would be lost, for everybody.`,
    );
    if (!isMeant) return exitCode.failed;
    const deleted = await tpus.delete(tpu, say, signal, { made: state.made });
    await noteGone();
    printOrTell(
      cli,
      { tpu: tpu.name, zone: state.zone, deleted },
      `${tpu.name} is deleted. To make it again: tpu apply ${tpu.name}. To forget it: tpu unregister ${tpu.name}.`,
    );
    return exitCode.ok;
  });

export const restart: TpuBody = (cli, words) =>
  atDesk(cli, words, async (at) => {
    const state = await stateNow(at);
    if (!(await confirmUse(at, hasWorkers(state), `Restart ${at.tpu.name}`))) return exitCode.failed;
    await at.tpus.restart(at.tpu, at.say, at.signal);
    // Mounts do not outlive a boot.
    const code = await prepare(at, state.zone);
    const lacks = code === exitCode.ok ? '' : ', and its workers are not as they should be';
    cli.tell(`${at.tpu.name} has restarted${lacks}.`);
    return code;
  });

function printOrTell(cli: TpuCli, found: object, sentence: string): void {
  if (cli.json) cli.print(JSON.stringify(found));
  else cli.tell(sentence);
}
