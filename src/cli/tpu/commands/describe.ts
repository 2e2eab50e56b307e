// describe: how a TPU is, who uses it, and what is wrong with it.

import { exitCode } from '../../../app/errors.ts';
import type { Environment } from '../../../lab/environment.ts';
import { askPython, gatherFacts } from '../../../lab/gather.ts';
import { bookingsNow } from '../../../lab/holds.ts';
import { findings, hasWorkers } from '../../../lab/solve.ts';
import type { Booking, LabTpu } from '../../../lab/tpus.ts';
import { wandbKey } from '../../../lab/wandb-key.ts';
import { aligned } from '../../render/aligned.ts';
import { inertWord } from '../../render/inert.ts';
import { columnsOf } from '../../screen.ts';
import { atDesk, unknownState, usesOf } from '../at-desk.ts';
import type { TpuCli } from '../tpu-cli.ts';
import { tpuOf, type Words } from '../words.ts';

export async function describe(cli: TpuCli, words: Words): Promise<number> {
  const tpu = tpuOf(words);
  return atDesk(cli, async (at) => {
    const { tpus, site, signal } = at;
    const hasKey = (await wandbKey(site, cli.io.env)) !== null;
    const now = () => cli.io.now();
    const [facts, booked] = await Promise.all([
      gatherFacts(tpus, tpu, { site, hasKey, now, signal }),
      bookingsNow(() => cli.lab.sheet()),
    ]);
    const { state } = facts;
    if (state.kind === 'unknown') throw unknownState(tpu, state.says);
    const { uses, says } = await usesOf(at, tpu, facts.workers.length > 0);
    // Python would stand in the way of whoever uses it, and is asked only where the site says which one it is.
    const isIdle = hasWorkers(state) && facts.silent.length === 0 && uses.length === 0 && site.python !== null;
    const environment = isIdle ? await askPython(tpus, tpu, site, signal) : null;
    // A busy device is listed as a use.
    const wrong = findings({ ...facts, environment }).filter(({ name }) => name !== 'device busy');
    const booking = booked.bookings.find((one) => one.tpu === tpu.name) ?? null;
    if (cli.json) {
      const { kind: _, ...known } = state;
      cli.print(
        JSON.stringify({ tpu: tpu.name, ...tpu, name: undefined, ...known, uses, booking, environment, wrong }),
      );
      return exitCode.ok;
    }
    const rows = [
      ['TPU', `${tpu.name} (${kindOf(tpu)})`],
      ['State', stateText(state.state, state.zone, state.workers)],
      ...some(hasWorkers(state) || uses.length > 0 ? 'Used by' : '', uses, 'nobody'),
      ['Booked', booked.says.length > 0 ? 'nobody can tell now' : bookingText(booking)],
      ...(environment === null ? [] : [['Python', environmentText(environment)]]),
      ...some(
        hasWorkers(state) || wrong.length > 0 ? 'Wrong' : '',
        wrong.map((one) => one.says),
        'nothing that can be seen',
      ),
    ];
    for (const line of aligned(rows, ['left', 'left'], columnsOf(cli.io.stdout))) cli.print(inertWord(line));
    for (const line of [...says, ...booked.says]) cli.note(inertWord(line));
    if (wrong.length > 0) cli.note(`\`tpu solve ${tpu.name}\` puts right what it can.`);
    return exitCode.ok;
  });
}

function kindOf({ accelerator, pricing }: LabTpu): string {
  return `${accelerator}, ${pricing === 'ondemand' ? 'on demand' : pricing}`;
}

function stateText(state: string, zone: string, workers: number): string {
  const where = zone === '' ? '' : `, in ${zone}`;
  if (workers === 0) return `${state}${where}`;
  return `${state}${where}, ${workers === 1 ? '1 worker' : `${workers} workers`}`;
}

function bookingText(booking: Booking | null): string {
  if (booking === null) return 'not in the booking sheet';
  const { status, user, note, scriptNote } = booking;
  const notes = [note, scriptNote].filter((one) => one !== '').join('; ');
  const word = status.kind === 'unknown' ? status.words : status.kind;
  return `${word}${user === '' ? '' : ` by ${user}`}${notes === '' ? '' : ` (${notes})`}`;
}

function environmentText({ class: found, says, worker }: Environment): string {
  return found === 'success' ? says : `${found}, on worker ${worker}: ${says}`;
}

/** The first beside its heading, the others below it. */
function some(heading: string, lines: readonly string[], otherwise: string): readonly (readonly string[])[] {
  if (heading === '') return [];
  return (lines.length === 0 ? [otherwise] : lines).map((line, index) => [index === 0 ? heading : '', line]);
}
