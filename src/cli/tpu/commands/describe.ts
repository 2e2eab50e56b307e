// describe, check-status, check-env: how a TPU is, who uses it, and what is wrong with it.

import { exitCode } from '../../../app/errors.ts';
import { countText } from '../../../app/figures.ts';
import type { Environment, EnvironmentClass } from '../../../lab/environment.ts';
import { askPython, gatherFacts } from '../../../lab/gather.ts';
import { bookingsNow } from '../../../lab/holds.ts';
import { findings, hasWorkers } from '../../../lab/solve.ts';
import { notesIn, type Booking, type LabTpu } from '../../../lab/tpus.ts';
import { wandbKey } from '../../../lab/wandb-key.ts';
import { inertWord } from '../../render/inert.ts';
import { atDesk, known, stateNow, usesOf } from '../at-desk.ts';
import { printTable } from '../print-table.ts';
import type { TpuBody } from '../tpu-cli.ts';

export const describe: TpuBody = (cli, words) =>
  atDesk(cli, words, async (at) => {
    const { tpu, tpus, site, signal } = at;
    const hasKey = (await wandbKey(site, cli.io.env)) !== null;
    const now = () => cli.io.now();
    const [facts, booked] = await Promise.all([
      gatherFacts(tpus, tpu, { site, hasKey, now, signal }),
      bookingsNow(() => cli.lab.sheet()),
    ]);
    const state = known(tpu, facts.state);
    const { uses, says } = await usesOf(at, facts.workers.length > 0);
    // Python would stand in the way of whoever uses it, and is asked only where the site says which one it is.
    const isIdle = hasWorkers(state) && facts.silent.length === 0 && uses.length === 0 && site.python !== null;
    const environment = isIdle ? await askPython(tpus, tpu, site, signal) : null;
    // A busy device is listed as a use.
    const wrong = findings({ ...facts, environment }).filter(({ name }) => name !== 'device busy');
    const booking = booked.bookings.find((one) => one.tpu === tpu.name) ?? null;
    if (cli.json) {
      const { kind: _, ...shown } = state;
      cli.print(
        JSON.stringify({ tpu: tpu.name, ...tpu, name: undefined, ...shown, uses, booking, environment, wrong }),
      );
      return exitCode.ok;
    }
    printTable(cli, [
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
    ]);
    for (const line of [...says, ...booked.says]) cli.note(inertWord(line));
    if (wrong.length > 0) cli.note(`\`tpu solve ${tpu.name}\` puts right what it can.`);
    return exitCode.ok;
  });

/** Google's word for its state, in small letters. */
export const checkStatus: TpuBody = (cli, words) =>
  atDesk(cli, words, async (at) => {
    const state = await stateNow(at);
    if (cli.json) cli.print(JSON.stringify({ tpu: at.tpu.name, ...state, kind: undefined }));
    else cli.print(state.state);
    return state.state === 'absent' ? exitCode.notFound : exitCode.ok;
  });

/** Whether the Python of its workers sees its devices. */
export const checkEnv: TpuBody = (cli, words) =>
  atDesk(cli, words, async ({ tpu, tpus, site, signal }) => {
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

const hints: Readonly<Record<EnvironmentClass, string | null>> = {
  success: null,
  'file error': '`tpu mount-disk TPU` mounts the shares that it may be on; `tpu solve TPU` looks further.',
  occupied: '`tpu describe TPU` says who uses it.',
  timeout: '`tpu solve TPU` looks for the reason.',
  unknown: '`tpu solve TPU` looks for the reason.',
};

function kindOf({ accelerator, pricing }: LabTpu): string {
  return `${accelerator}, ${pricing === 'ondemand' ? 'on demand' : pricing}`;
}

function stateText(state: string, zone: string, workers: number): string {
  const where = zone === '' ? '' : `, in ${zone}`;
  return `${state}${where}${workers === 0 ? '' : `, ${countText(workers, 'worker')}`}`;
}

function bookingText(booking: Booking | null): string {
  if (booking === null) return 'not in the booking sheet';
  const { status, user } = booking;
  const notes = notesIn(booking);
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
