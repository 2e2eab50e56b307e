import type { OrphanOutput, TpuOutput, TpuOwnerOutput } from '../outputs.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { formatAge, formatList, pluralize, escapeLine } from '../../app/format.ts';
import type { Client } from '../../app/client.ts';
import type { OrphanReport, OrphanView } from '../../app/orphans.ts';
import { releaseOrphans, releaseRefusals, type OrphanAnswer } from '../../app/reclaim.ts';
import { formatHourlyPrice, formatOwner, formatTotals, formatUnchecked } from '../../app/tpu-phrases.ts';
import type { TpuList, UncheckedLocation, TpuQuery, TpuRow } from '../../app/tpus.ts';
import { type Cli, type GlobalFlags, printError, reportError } from '../context.ts';
import { untilInterrupted } from '../interrupt.ts';
import { confirm } from '../prompt.ts';
import { zoneColumn } from '../../app/report-columns.ts';
import { type Column, fittedTable } from '../render/aligned.ts';
import { cutEnd } from '../render/cell.ts';
import { columnsOf } from '../screen.ts';
import type { TpusFlags } from '../table/flags.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Instant } from '../../core/model/time.ts';

export async function tpus(cli: Cli, flags: TpusFlags & GlobalFlags): Promise<number> {
  const { io } = cli;
  if (flags.forget !== undefined) return forget(cli, flags.forget);
  const list = await (await cli.services.client()).tpus(queryOf(flags));
  if (cli.json) cli.printJsonLines(list.rows.map(tpuJson));
  else {
    cli.printAll(tpuLines(list.rows, columnsOf(io.stdout), io.now()));
    if (list.rows.length > 0) cli.note(formatTotals(list.rows));
    else if (list.unchecked.length === 0)
      cli.note(
        `No TPUs in ${list.projects.length === 1 ? 'project' : 'projects'} ${escapeLine(formatList(list.projects))}.`,
      );
    const shared = list.rows.find(({ owner }) => owner.kind === 'shared');
    if (shared !== undefined) cli.note(`To delete a TPU that was made with tpu apply: tpu delete ${shared.name}`);
  }
  return printUnanswered(cli, list, list.suggestion);
}

async function forget(cli: Cli, project: string): Promise<number> {
  const client = await cli.services.client();
  let answer = await client.forgetProject(project);
  while (answer.kind === 'confirmation_required') {
    const { resources } = answer;
    const what = escapeLine(`${resources.join(', ')} may still exist and cost money`);
    if (!(await confirm(cli, `${what}. Forget it?`, `${what}; nothing was changed.`))) return exitCode.failed;
    answer = await client.forgetProject(project, resources);
  }
  const sentence = `tpus and gc no longer check ${project}, unless an unfinished job uses it.`;
  cli.printResult({ project, message: sentence }, escapeLine(sentence));
  return exitCode.ok;
}

/** `unreachable` only if no project answered: one unreachable project must not fail a script that uses the others. */
function printUnanswered(
  cli: Cli,
  { unchecked, anyAnswered, forgettable }: Pick<TpuList, 'unchecked' | 'anyAnswered' | 'forgettable'>,
  suggestion: string | null = null,
): number {
  for (const one of unchecked) printUnchecked(cli, one, suggestion);
  const silent = [
    ...new Set(unchecked.filter(({ isEmulatorStopped }) => !isEmulatorStopped).map(({ project }) => project)),
  ];
  if (silent.length === 0) return exitCode.ok;
  // A project that a job or a setting still needs cannot be forgotten.
  const [first] = silent.filter((project) => forgettable.includes(project));
  if (first !== undefined)
    cli.note(
      `To stop asking about ${silent.length === 1 ? 'that project' : 'such a project'}: jobman tpus --forget ${first}`,
    );
  return anyAnswered ? exitCode.ok : exitCode.unreachable;
}

function queryOf({ all, zone, project }: TpusFlags): TpuQuery {
  return { all: all === true, ...omitUndefined({ zone, project }) };
}

function tpuJson({ label, sharedByInstallation, metadataOwner, owner, ...row }: TpuRow): TpuOutput {
  return {
    ...row,
    owner: { ...ownerJson(owner, metadataOwner), installation: label?.installation ?? sharedByInstallation },
  };
}

function ownerJson(owner: TpuRow['owner'], metadataOwner: string | null): Omit<TpuOwnerOutput, 'installation'> {
  const { kind } = owner;
  const user = kind === 'job' ? owner.owner : kind === 'shared' || kind === 'user' ? owner.name : metadataOwner;
  return { kind, user: user === '' ? null : user };
}

function orphanJson({ backend: _backend, state: _state, ...orphan }: OrphanView): OrphanOutput {
  return { kind: 'orphan', ...orphan };
}

export async function gc(cli: Cli, flags: GlobalFlags, ...names: readonly string[]): Promise<number> {
  const client = await cli.services.client();
  const observation = await client.orphans();
  const orphans = selectOrphans(observation, names);
  if (orphans.length === 0) cli.note(formatNoOrphan(observation, flags.yes === true));
  const code = flags.yes === true ? await releaseAll(cli, client, orphans) : printOrphans(cli, orphans);
  if (names.length === 0) {
    const { shared, others } = observation;
    const [first] = shared;
    const hint = `To delete one: tpu delete ${first?.name ?? ''}`;
    // Shared TPUs cost money and nothing deletes them automatically, so each run of gc names them.
    printTpus(cli, shared, `${pluralize(shared.length, 'shared TPU')} without a job. ${hint}`, 'shared');
    const suffix = 'not created by this jobman, which gc never touches:';
    printTpus(cli, others, `${pluralize(others.length, 'TPU')} ${suffix}`, 'other');
  }
  return Math.max(code, printUnanswered(cli, observation));
}

function selectOrphans({ orphans, shared, others }: OrphanReport, names: readonly string[]): readonly OrphanView[] {
  for (const name of names) {
    if (orphans.some((orphan) => matchesName(orphan, name))) continue;
    if (shared.some((row) => row.name === name))
      throw new JobmanError(releaseRefusals.shared(name), exitCode.conflict, [`tpu delete ${name}    deletes it`]);
    if (others.some((row) => row.name === name))
      throw new JobmanError(releaseRefusals.foreign(name), exitCode.notFound, [
        `tpu delete ${name}    deletes it, after a question`,
      ]);
    throw new JobmanError(`There is no orphan ${name}; \`jobman gc\` lists them.`, exitCode.notFound);
  }
  return names.length === 0 ? orphans : orphans.filter((orphan) => names.some((name) => matchesName(orphan, name)));
}

function matchesName({ resource, job }: OrphanView, name: string): boolean {
  return resource === name || resource.endsWith(`/${name}`) || job === name.padStart(6, '0');
}

/** A project that did not answer may have an orphan. */
function formatNoOrphan({ unchecked }: OrphanReport, isReleasing: boolean): string {
  if (unchecked.some(({ isEmulatorStopped }) => !isEmulatorStopped))
    return 'No orphaned TPUs found; some zones could not be checked.';
  return isReleasing ? 'No orphaned TPUs: nothing to release.' : 'No orphaned TPUs.';
}

function printOrphans(cli: Cli, orphans: readonly OrphanView[]): number {
  if (cli.json) cli.printJsonLines(orphans.map(orphanJson));
  else if (orphans.length > 0) {
    const columns: readonly Column<OrphanView>[] = [
      { title: 'JOB', text: ({ job }) => job },
      { title: 'STATE', text: formatOrphanState },
      { title: 'NAME', text: ({ resource }) => resource.slice(resource.lastIndexOf('/') + 1) },
      { title: 'IN', text: ({ resource }) => resource.slice(0, Math.max(0, resource.lastIndexOf('/'))) || '-' },
    ];
    cli.printAll(fittedTable(columns, orphans, [], columnsOf(cli.io.stdout)));
  }
  if (orphans.length > 0) cli.note(`${pluralize(orphans.length, 'orphan')}; nothing changed. Release: jobman gc --yes`);
  return exitCode.ok;
}

function printTpus(cli: Cli, rows: readonly TpuRow[], heading: string, kind: 'shared' | 'other'): void {
  if (cli.json) cli.printJsonLines(rows.map((row) => ({ kind, ...tpuJson(row) })));
  else if (rows.length > 0) {
    cli.note(heading);
    cli.printAll(tpuLines(rows, columnsOf(cli.io.stdout), cli.io.now()));
  }
}

function formatOrphanState({ presence, message }: OrphanView): string {
  return presence === 'unknown' ? `not known: ${message}` : message;
}

async function releaseAll(cli: Cli, client: Client, orphans: readonly OrphanView[]): Promise<number> {
  let code: number = exitCode.ok;
  await untilInterrupted(cli, async (signal) => {
    for await (const answer of releaseOrphans(client, orphans, () => cli.io.now(), signal)) {
      if (answer.outcome === 'failed') code = exitCode.failed;
      printOutcome(cli, answer);
    }
  });
  return code;
}

function printOutcome(cli: Cli, { orphan, outcome, message }: OrphanAnswer<OrphanView>): void {
  if (outcome === 'failed') printError(cli, escapeLine(message), exitCode.failed, { job: orphan.job });
  else if (cli.json) cli.printJson({ ...orphanJson(orphan), outcome, message });
  else cli.printSentence(escapeLine(message));
}

const tableColumns = (rows: readonly TpuRow[], now: Instant): readonly Column<TpuRow>[] => [
  { title: 'NAME', text: ({ name }) => name },
  zoneColumn(rows),
  { title: 'ACCELERATOR', text: ({ accelerator }) => accelerator ?? '?' },
  { title: 'PRICING', text: ({ pricing }) => pricing },
  { title: 'STATE', text: ({ state }) => state },
  { title: 'OWNER', text: formatOwner },
  { title: 'JOB', text: ({ job }) => job ?? '-' },
  {
    title: 'READY',
    side: 'right',
    text: ({ readyAt }) => (readyAt === null ? '-' : formatAge(now - readyAt)),
  },
  { title: 'IDLE', side: 'right', text: formatIdle },
  { title: 'PRICE', side: 'right', text: formatHourlyPrice },
];

/** The command's help lists this order, too. */
const dropOrder = ['PRICING', 'READY', 'JOB', 'ZONE', 'ACCELERATOR'] as const;
const narrowTerminal = 60;

function tpuLines(rows: readonly TpuRow[], terminal: number | null, now: Instant): readonly string[] {
  if (rows.length === 0) return [];
  if (terminal !== null && terminal < narrowTerminal) return rows.flatMap((row) => twoLines(row, terminal));
  return fittedTable(tableColumns(rows, now), rows, dropOrder, terminal);
}

function twoLines(row: TpuRow, terminal: number): readonly string[] {
  const facts = [row.state, formatOwner(row), `idle ${formatIdle(row)}`, formatHourlyPrice(row)].map(escapeLine);
  return [
    cutEnd(escapeLine(`${row.name}  ${row.accelerator ?? ''}`), terminal),
    cutEnd(`  ${facts.join('  ')}`, terminal),
  ];
}

function formatIdle({ idleMs, readyAt, owner }: TpuRow): string {
  if (idleMs !== null) return formatAge(idleMs);
  return readyAt === null || owner.kind === 'job' ? '-' : '?';
}

export function printUnchecked(cli: Cli, unchecked: UncheckedLocation, suggestion: string | null): void {
  const { isEmulatorStopped, fix } = unchecked;
  const sentence = escapeLine(formatUnchecked(unchecked));
  if (isEmulatorStopped) cli.note(`note: ${sentence}`);
  else reportError(new JobmanError(sentence, exitCode.unreachable, repairHints(fix, suggestion)), cli);
}

/** The lines below an error about a project or zone. */
export function repairHints(fix: string | null | undefined, suggestion: string | null): readonly string[] {
  return [
    ...(suggestion === null ? [] : [`Did you mean ${suggestion}?`]),
    ...(fix === null || fix === undefined ? [] : [`${fix}    repairs it`]),
  ];
}
