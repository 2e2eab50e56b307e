// tpus, gc: what exists in the clouds and what it costs; and what was left behind there, which gc releases with --yes.

import { exitCode, JobmanError } from '../../app/errors.ts';
import { ageText, countText, dollarsText, priceText, moment, inertWord } from '../../app/figures.ts';
import type { StrayKeeper, StrayLook, StrayView } from '../../app/strays.ts';
import type { TpuList, TpuMissed, TpuQuery, TpuRow } from '../../app/tpus.ts';
import { type Cli, type GlobalFlags, sayTrouble } from '../context.ts';
import { pause, untilLeft } from '../leave.ts';
import { confirm } from '../prompt.ts';
import { aligned, type Column, fittedTable } from '../render/aligned.ts';
import { cutEnd } from '../render/cell.ts';
import { columnsOf } from '../screen.ts';
import type { TpusFlags } from '../table/flags.ts';
import { given } from '../../core/given.ts';
import type { Duration, Instant } from '../../core/time.ts';

export async function tpus(cli: Cli, flags: TpusFlags & GlobalFlags): Promise<number> {
  const { io } = cli;
  if (flags.forget !== undefined) return forget(cli, flags.forget);
  const list = await cli.services.tpus(queryOf(flags));
  if (cli.json) cli.printObjects(list.rows.map(tpuJson));
  else {
    cli.printAll(tpuLines(list.rows, columnsOf(io.stdout), io.now()));
    if (list.rows.length > 0) cli.note(tpuSum(list));
    else if (list.missed.length === 0) cli.note('No TPU exists there.');
    const shared = list.rows.find(({ whose }) => whose.kind === 'shared');
    if (shared !== undefined) cli.note(`To delete a TPU that was made with tpu apply: tpu delete ${shared.name}`);
  }
  return sayMissed(cli, list);
}

async function forget(cli: Cli, project: string): Promise<number> {
  const isForgotten = await cli.services.forgetProject(project, (resources) => {
    const what = `${resources.join(', ')} may still exist and cost money`;
    return confirm(cli, `${inertWord(what)}. Forget it?`, `${inertWord(what)}; nothing was changed.`);
  });
  if (!isForgotten) return exitCode.failed;
  const sentence = `tpus and gc no longer ask about ${project}, unless a job that is not finished uses it.`;
  cli.answer({ project, message: sentence }, inertWord(sentence));
  return exitCode.ok;
}

/**
 * Says on standard error which projects and zones did not answer. Only where none answered is that the exit code: one project
 * out of reach must not fail a script that works on the others.
 */
function sayMissed(
  cli: Cli,
  { missed, isAnswered, forgettable }: Pick<TpuList, 'missed' | 'isAnswered' | 'forgettable'>,
): number {
  for (const one of missed) {
    if (one.asleep) cli.note(`note: ${missedText(one)}`);
    else sayTrouble(cli, missedText(one));
  }
  const silent = [...new Set(missed.filter(({ asleep }) => !asleep).map(({ project }) => project))];
  if (silent.length === 0) return exitCode.ok;
  // A project that a job or a setting still needs cannot be forgotten.
  const [first] = silent.filter((project) => forgettable.includes(project));
  if (first !== undefined)
    cli.note(
      `To stop asking about ${silent.length === 1 ? 'that project' : 'such a project'}: jobman tpus --forget ${first}`,
    );
  return isAnswered ? exitCode.ok : exitCode.unreachable;
}

function queryOf({ all, zone, project }: TpusFlags): TpuQuery {
  return { all: all === true, ...given({ zone, project }) };
}

/** The row with moments as RFC 3339, and whose it is in one word beside the parts of that. */
function tpuJson(row: TpuRow): object {
  return {
    ...row,
    whose: { ...row.whose, text: whoseText(row) },
    createdAt: moment(row.createdAt),
    readySince: moment(row.readySince),
  };
}

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

async function letGo(cli: Cli, keeper: StrayKeeper, strays: readonly StrayView[]): Promise<number> {
  let code: number = exitCode.ok;
  const told: StrayView[] = [];
  for (const stray of strays) {
    if (stray.seen === 'gone') {
      await forgetStray(cli, keeper, stray);
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

async function untilGone(cli: Cli, keeper: StrayKeeper, told: readonly StrayView[]): Promise<readonly StrayView[]> {
  const until = cli.io.now() + goneMost;
  let left = told;
  await untilLeft(cli, async (signal) => {
    while (left.length > 0 && !signal.aborted) {
      const seen = await keeper.lookAt(left);
      const isGone = ({ resource }: StrayView) =>
        seen.some((stray) => stray.resource === resource && stray.seen === 'gone');
      for (const stray of left.filter(isGone)) await forgetStray(cli, keeper, stray);
      left = left.filter((stray) => !isGone(stray));
      if (left.length === 0 || cli.io.now() >= until) break;
      await pause(lookEvery, signal);
    }
  });
  return left;
}

async function forgetStray(cli: Cli, keeper: StrayKeeper, stray: StrayView): Promise<void> {
  await keeper.forget(stray);
  say(cli, stray, 'gone', `${stray.resource} is gone.`);
}

function say(cli: Cli, stray: StrayView, outcome: 'gone' | 'told' | 'failed', sentence: string): void {
  if (cli.json) cli.print(JSON.stringify({ ours: true, ...stray, outcome, message: sentence }));
  else if (outcome === 'failed') sayTrouble(cli, inertWord(sentence));
  else cli.tell(inertWord(sentence));
}

const tableColumns = (isOneProject: boolean, now: Instant): readonly Column<TpuRow>[] => [
  { title: 'NAME', side: 'left', text: ({ name }) => name },
  { title: 'ZONE', side: 'left', text: ({ project, zone }) => (isOneProject ? zone : `${project}/${zone}`) },
  { title: 'TYPE', side: 'left', text: ({ type }) => type ?? '?' },
  { title: 'PRICING', side: 'left', text: ({ pricing }) => pricing },
  { title: 'STATE', side: 'left', text: ({ state }) => state },
  { title: 'WHOSE', side: 'left', text: whoseText },
  { title: 'JOB', side: 'left', text: ({ job }) => job ?? '-' },
  {
    title: 'READY',
    side: 'right',
    text: ({ readySince }) => (readySince === null ? '-' : ageText(now - readySince)),
  },
  { title: 'IDLE', side: 'right', text: idleText },
  { title: 'PRICE', side: 'right', text: hourlyText },
];

function hourlyText({ pricePerHour }: TpuRow): string {
  return pricePerHour === null ? '?' : priceText(pricePerHour);
}

/** The page of the command tells this order too. */
const dropOrder = ['PRICING', 'READY', 'JOB', 'ZONE', 'TYPE'] as const;
const narrowTerminal = 60;

function tpuLines(rows: readonly TpuRow[], terminal: number | null, now: Instant): readonly string[] {
  if (rows.length === 0) return [];
  if (terminal !== null && terminal < narrowTerminal) return rows.flatMap((row) => twoLines(row, terminal));
  const isOneProject = new Set(rows.map(({ project }) => project)).size === 1;
  return fittedTable(tableColumns(isOneProject, now), rows, dropOrder, terminal);
}

function twoLines(row: TpuRow, terminal: number): readonly string[] {
  const facts = [row.state, whoseText(row), `idle ${idleText(row)}`, hourlyText(row)].map(inertWord);
  return [cutEnd(inertWord(`${row.name}  ${row.type ?? ''}`), terminal), cutEnd(`  ${facts.join('  ')}`, terminal)];
}

function whoseText({ whose, owner }: Pick<TpuRow, 'whose' | 'owner'>): string {
  switch (whose.kind) {
    case 'job':
      return whose.owner;
    case 'stray':
      return 'stray';
    case 'installation':
      // Their jobman is a sign that nobody knows; the person is whom one asks.
      return `${owner === null || owner === '' ? '' : `${owner}, `}jobman ${whose.installation}`;
    case 'shared':
      return whose.name ?? 'shared';
    case 'person':
      return whose.name;
    case 'nobody':
      return 'nobody';
  }
}

function idleText({ idle, readySince, whose }: TpuRow): string {
  if (idle !== null) return ageText(idle);
  return readySince === null || whose.kind === 'job' ? '-' : '?';
}

function tpuSum({ rows }: TpuList): string {
  const paid = rows.filter(({ pretended }) => !pretended);
  const hourly = paid.reduce((sum, { pricePerHour, state }) => sum + (state === 'READY' ? (pricePerHour ?? 0) : 0), 0);
  const idle = paid.filter((row) => row.idle !== null);
  const lost = idle.reduce((sum, { idleCost }) => sum + (idleCost ?? 0), 0);
  return [
    `${countText(rows.length, 'TPU')}${hourly === 0 ? '' : `, about ${priceText(hourly)}`}`,
    ...(idle.length === 0 ? [] : [`${idle.length} idle, about ${dollarsText(lost)} for nothing so far`]),
  ].join('; ');
}

function missedText({ project, zone, says }: TpuMissed): string {
  const place = zone === null ? `project ${project}` : `zone ${zone} of project ${project}`;
  return inertWord(`${place} could not be asked: ${says}`);
}
