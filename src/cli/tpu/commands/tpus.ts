// Commands about one TPU itself: how it is (describe, check-status, check-env), creating, deleting and restarting it (apply,
// reapply, delete, restart), and preparing its workers (mount-disk, set-wandb).

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { countText, inertWord } from '../../../app/figures.ts';
import { bookingsNow } from '../../../lab/holds.ts';
import { wandbKey, wandbVariable } from '../../../lab/site-setup.ts';
import { askPython, findings, gatherFacts, hasWorkers } from '../../../lab/solve.ts';
import { type Booking, notesIn } from '../../../lab/bookings.ts';
import type { EnvironmentClass } from '../../../lab/worker-facts.ts';
import { confirm } from '../../prompt.ts';
import {
  applyRemedies,
  atDesk,
  type AtDesk,
  concernsOf,
  confirmUse,
  known,
  prepare,
  rememberZone,
  siteRemedies,
  type SiteRemedy,
  stateNow,
  usesOf,
  wandbOf,
} from '../at-desk.ts';
import { bookExistence } from '../begin-job.ts';
import type { TpuBody, TpuCli, Words } from '../command.ts';
import { printTable } from '../terminal.ts';

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
    const where = state.zone === '' ? [] : [`in ${state.zone}`];
    const workers = state.workers === 0 ? [] : [countText(state.workers, 'worker')];
    const { class: found, says: told, worker } = environment ?? { class: 'success', says: '', worker: 0 };
    const python = found === 'success' ? told : `${found}, on worker ${worker}: ${told}`;
    printTable(cli, [
      ['TPU', `${tpu.name} (${tpu.accelerator}, ${tpu.pricing === 'ondemand' ? 'on demand' : tpu.pricing})`],
      ['State', [state.state, ...where, ...workers].join(', ')],
      ...some(hasWorkers(state) || uses.length > 0 ? 'Used by' : '', uses, 'nobody'),
      ['Booked', booked.says.length > 0 ? 'nobody can tell now' : bookingText(booking)],
      ...(environment === null ? [] : [['Python', python]]),
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

export const checkStatus: TpuBody = (cli, words) =>
  atDesk(cli, words, async (at) => {
    const state = await stateNow(at);
    if (cli.json) cli.print(JSON.stringify({ tpu: at.tpu.name, ...state, kind: undefined }));
    else cli.print(state.state);
    return state.state === 'absent' ? exitCode.notFound : exitCode.ok;
  });

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

function bookingText(booking: Booking | null): string {
  if (booking === null) return 'not in the booking sheet';
  const { status, user } = booking;
  const notes = notesIn(booking);
  const word = status.kind === 'unknown' ? status.words : status.kind;
  return `${word}${user === '' ? '' : ` by ${user}`}${notes === '' ? '' : ` (${notes})`}`;
}

function some(heading: string, lines: readonly string[], otherwise: string): readonly (readonly string[])[] {
  if (heading === '') return [];
  return (lines.length === 0 ? [otherwise] : lines).map((line, index) => [index === 0 ? heading : '', line]);
}

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

export const mountDisk: TpuBody = (cli, words) =>
  atDesk(cli, words, async (at) => {
    const zone = await zoneOf(at);
    await rememberZone(at, zone);
    const remedies = await siteRemedies(at, zone);
    if (remedies.length === 0) {
      throw new JobmanError(`The settings name no share for ${zone}, and no key for W&B.`, exitCode.usage, [
        `jobman settings set lab.shares '[{"source": "10.0.0.2:/home", "target": "/home-nfs"}]'`,
        'docs/settings.md#a-lab tells more.',
      ]);
    }
    const has = (name: string): boolean => remedies.some((remedy) => remedy.name === name);
    const what = has('shares') ? (has('W&B') ? 'mounted and logged in to W&B' : 'mounted') : 'logged in to W&B';
    const code = await applyAll(at, remedies, what);
    if (!has('shares')) cli.note(`The settings name no share for ${zone}, so nothing was mounted (lab.shares).`);
    return code;
  });

export const setWandb: TpuBody = (cli, words) =>
  atDesk(cli, words, async (at) => {
    const key = await wandbKey(at.site, cli.io.env);
    if (key === null) {
      throw new JobmanError('There is no key for W&B.', exitCode.usage, [
        `jobman settings set lab.wandbKeyFile ~/.wandb-key    names a file that holds it; or set ${wandbVariable}`,
      ]);
    }
    await zoneOf(at);
    return applyAll(at, [wandbOf(key)], 'logged in to W&B');
  });

async function zoneOf(at: AtDesk): Promise<string> {
  const state = await stateNow(at);
  if (hasWorkers(state)) return state.zone;
  const { name } = at.tpu;
  throw new JobmanError(`${name} is ${state.state}, so there are no workers to prepare.`, exitCode.conflict, [
    `tpu ${state.state === 'absent' ? 'apply' : 'reapply'} ${name}    makes it and prepares them`,
  ]);
}

async function applyAll(at: AtDesk, remedies: readonly SiteRemedy[], what: string): Promise<number> {
  const isWell = await applyRemedies(at, remedies);
  if (isWell) at.cli.tell(`${at.tpu.name}: all workers are ${what}.`);
  return isWell ? exitCode.ok : exitCode.failed;
}
