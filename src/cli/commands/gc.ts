// gc: what may have been left behind in a cloud. It only looks, unless --yes says to let go; and never of what is not ours.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { countText } from '../../app/figures.ts';
import type { StrayKeeper, StrayLook, StrayView } from '../../app/strays.ts';
import type { TpuRow } from '../../app/tpus.ts';
import type { Duration } from '../../core/time.ts';
import { sayTrouble, type Cli, type GlobalFlags } from '../context.ts';
import { leaveOnSignal, pause } from '../leave.ts';
import { inertWord } from '../render/inert.ts';
import { aligned } from '../render/aligned.ts';
import { tpuLines } from '../render/tpus.ts';
import { sayMissed, tpuJson } from './tpus.ts';
import { columnsOf } from '../screen.ts';

/** After an order to go: a small cloud is through with it in this time, a large one takes minutes. */
const goneMost: Duration = 20_000;
const lookEvery: Duration = 1_000;

export async function gc(cli: Cli, flags: GlobalFlags, ...names: readonly string[]): Promise<number> {
  const keeper = await cli.services.strays();
  try {
    const look = await keeper.look();
    const strays = named(look, names);
    if (strays.length === 0) cli.note(noStrayText(look, flags.yes === true));
    const code = flags.yes === true ? await letGo(cli, keeper, strays) : list(cli, strays);
    // With names on the line, the others are not listed.
    if (names.length === 0) {
      const { shared, others } = look;
      const [first] = shared;
      const hint = `To delete one: tpu delete ${first?.name ?? ''}`;
      // Shared TPUs cost money and nothing deletes them automatically, so each run of gc names them.
      listTpus(cli, shared, `${countText(shared.length, 'shared TPU')} without a job. ${hint}`, true);
      const whose = 'not of this record, which gc never touches:';
      listTpus(cli, others, `${countText(others.length, 'TPU')} ${whose}`, false);
    }
    return Math.max(code, sayMissed(cli, look));
  } finally {
    await keeper.close();
  }
}

/** Those that are meant: by the id of the job that left them, or by their name. All, when nothing is said. */
function named({ strays, shared, others }: StrayLook, names: readonly string[]): readonly StrayView[] {
  for (const name of names) {
    if (strays.some((stray) => isCalled(stray, name))) continue;
    if (shared.some((row) => row.name === name))
      throw new JobmanError(`${name} is a TPU that people share; gc never deletes it.`, exitCode.conflict, [
        `tpu delete ${name}    deletes it`,
      ]);
    if (others.some((row) => row.name === name))
      throw new JobmanError(`${name} does not belong to this installation; gc never touches it.`, exitCode.notFound, [
        `tpu delete ${name}    deletes it, after a question`,
      ]);
    throw new JobmanError(`There is no stray ${name}; \`jobman gc\` lists them.`, exitCode.notFound);
  }
  return names.length === 0 ? strays : strays.filter((stray) => names.some((name) => isCalled(stray, name)));
}

function isCalled({ resource, job }: StrayView, name: string): boolean {
  return resource === name || resource.endsWith(`/${name}`) || job === name.padStart(6, '0');
}

/** A project that could not be asked may have one. */
function noStrayText({ missed }: StrayLook, isLettingGo: boolean): string {
  if (missed.some(({ asleep }) => !asleep)) return 'No stray is known, but not all places could be asked.';
  return `There is no stray: ${isLettingGo ? 'there is nothing to let go' : 'nothing of yours is known to be left behind'}.`;
}

function list(cli: Cli, strays: readonly StrayView[]): number {
  if (cli.json) cli.printObjects(strays.map((stray) => ({ ours: true, ...stray })));
  else if (strays.length > 0) {
    const rows = strays.map((stray) => {
      const [, place = '-', name = stray.resource] = /^(.*)\/([^/]+)$/.exec(stray.resource) ?? [];
      return [stray.job, stateText(stray), name, place].map(inertWord);
    });
    const title = ['JOB', 'STATE', 'NAME', 'IN'];
    cli.printAll(aligned([title, ...rows], ['left', 'left', 'left', 'left'], columnsOf(cli.io.stdout)));
  }
  if (strays.length > 0)
    cli.note(`${countText(strays.length, 'stray')}; nothing was changed. To release what is there: jobman gc --yes`);
  return exitCode.ok;
}

/** TPUs that gc never touches, under a heading. */
function listTpus(cli: Cli, rows: readonly TpuRow[], heading: string, ours: boolean): void {
  if (cli.json) cli.printObjects(rows.map((row) => ({ ours, ...tpuJson(row) })));
  else if (rows.length > 0) {
    cli.note(heading);
    cli.printAll(tpuLines(rows, columnsOf(cli.io.stdout), cli.io.now()));
  }
}

function stateText({ seen, says }: StrayView): string {
  return seen === 'unknown' ? `not known: ${says}` : says;
}

/** One line for each. What is gone is forgotten at once; what was told to go, when it is seen gone. */
async function letGo(cli: Cli, keeper: StrayKeeper, strays: readonly StrayView[]): Promise<number> {
  let code: number = exitCode.ok;
  const told: StrayView[] = [];
  for (const stray of strays) {
    if (stray.seen === 'gone') {
      await forget(cli, keeper, stray);
      continue;
    }
    const result = await keeper.letGo(stray);
    if (result.kind === 'done') told.push(stray);
    else {
      code = exitCode.failed;
      say(cli, stray, 'failed', `${stray.resource} was not let go: ${result.evidence.detail}`);
    }
  }
  const left = await untilGone(cli, keeper, told);
  for (const stray of left) {
    say(cli, stray, 'told', `${stray.resource} was told to go and is not seen gone yet; \`jobman gc\` looks again.`);
  }
  return code;
}

/** Looks until all of them are gone, for a while; answers those that are not. */
async function untilGone(cli: Cli, keeper: StrayKeeper, told: readonly StrayView[]): Promise<readonly StrayView[]> {
  const { signal, release } = leaveOnSignal(cli);
  const until = cli.io.now() + goneMost;
  let left = told;
  try {
    while (left.length > 0 && !signal.aborted) {
      const seen = await keeper.lookAt(left);
      const isGone = ({ resource }: StrayView) =>
        seen.some((stray) => stray.resource === resource && stray.seen === 'gone');
      for (const stray of left.filter(isGone)) await forget(cli, keeper, stray);
      left = left.filter((stray) => !isGone(stray));
      if (left.length === 0 || cli.io.now() >= until) break;
      await pause(lookEvery, signal);
    }
  } finally {
    release();
  }
  return left;
}

async function forget(cli: Cli, keeper: StrayKeeper, stray: StrayView): Promise<void> {
  await keeper.forget(stray);
  say(cli, stray, 'gone', `${stray.resource} is gone.`);
}

function say(cli: Cli, stray: StrayView, outcome: 'gone' | 'told' | 'failed', sentence: string): void {
  if (cli.json) cli.print(JSON.stringify({ ours: true, ...stray, outcome, message: sentence }));
  else if (outcome === 'failed') sayTrouble(cli, inertWord(sentence));
  else cli.tell(inertWord(sentence));
}
