import { exitCode, JobmanError } from '../../app/errors.ts';
import { escapeLine, formatList, formatTimeOfDay, pluralize } from '../../app/format.ts';
import type { QuotaReport, UnreadLimits } from '../../app/quota.ts';
import { reclaimPhrases } from '../../app/reclaim.ts';
import { formatUnread } from '../../app/tpu-phrases.ts';
import { regionOf } from '../../catalogue/zones.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { isOffered, type QuotaHolder, type QuotaRow } from '../../reports/quota.ts';
import type { QuotaLimitOutput, QuotaUseOutput } from '../outputs.ts';
import { type Cli, type GlobalFlags, reportError } from '../context.ts';
import { type Column, fittedTable, zoneColumn } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import type { QuotaFlags } from '../table/flags.ts';
import { printUnchecked, repairHints } from './tpus.ts';

export async function quota(cli: Cli, { project, zone }: QuotaFlags & GlobalFlags): Promise<number> {
  const report = await (await cli.services.client()).quota(omitUndefined({ project, zone }));
  const { rows, uncounted } = report;
  if (cli.json) cli.printJsonLines(quotaObjects(report));
  else {
    const shown = zone === undefined ? mergeUnused(rows.filter(isWorthShowing)) : rows.filter(isInUse);
    cli.printAll(quotaLines(shown, columnsOf(cli.io.stdout)));
    const reclaimable = shown.flatMap((row) =>
      row.holders.filter((holder) => holder.reclaimable !== null).map((holder) => formatReclaimable(row, holder)),
    );
    if (reclaimable.length > 0) cli.printAll(['', ...reclaimable]);
    const [readAt] = rows.flatMap(({ limitReadAt }) => limitReadAt ?? []);
    if (shown.length > 0 && readAt !== undefined)
      cli.note(`In chips. Limits read from ${formatSource(report)} at ${formatTimeOfDay(readAt)} UTC.`);
    if (shown.length === 0) for (const line of emptyLines(report, zone)) cli.note(line);
    if (uncounted.length > 0)
      cli.note(escapeLine(`Not counted, because the type is not known: ${formatList(uncounted)}.`));
  }
  return printProblems(cli, report);
}

/** Each limit and each use once, so that either can be added up. */
function quotaObjects({ rows, limits }: QuotaReport): readonly (QuotaLimitOutput | QuotaUseOutput)[] {
  const uses = rows.filter(({ usedChips, requestedChips }) => usedChips !== 0 || requestedChips !== 0);
  return [
    ...limits.map((limit) => ({ kind: 'limit' as const, ...limit })),
    ...uses.map(
      ({ project, zone, generation, variant, pricing, usedChips, reclaimableChips, requestedChips, holders }) => ({
        kind: 'use' as const,
        project,
        zone,
        generation,
        variant,
        pricing,
        usedChips,
        reclaimableChips,
        requestedChips,
        holders,
      }),
    ),
  ];
}

/** Says nothing about a project that did not answer. */
function emptyLines(
  { projects, unread, unreadable, unchecked, suggestion }: QuotaReport,
  zone: string | undefined,
): readonly string[] {
  const without = (some: readonly { readonly project: string }[], names: readonly string[]) =>
    names.filter((name) => some.every(({ project }) => project !== name));
  const listed = without(unchecked, projects);
  const known = without([...unread, ...unreadable], listed);
  const where = (names: readonly string[]) =>
    escapeLine(
      `in ${zone === undefined ? '' : `${zone} of `}${names.length === 1 ? 'project' : 'projects'} ${formatList(names)}`,
    );
  const hint = suggestion === null ? '' : ` Did you mean ${suggestion}?`;
  const unlimited = listed.filter((name) => !known.includes(name));
  return [
    ...(known.length === 0 ? [] : [`No TPU and no limit above 0 ${where(known)}.${hint}`]),
    ...(unlimited.length === 0 ? [] : [`No TPU ${where(unlimited)}; the limits are not known.${hint}`]),
  ];
}

function formatSource({ rows, simulatedProjects }: QuotaReport): string {
  const projects = new Set(rows.flatMap(({ limitReadAt, project }) => (limitReadAt === null ? [] : project)));
  const simulated = simulatedProjects.filter((project) => projects.has(project)).length;
  return formatList([
    ...(projects.size > simulated ? ["Google's quota API"] : []),
    ...(simulated > 0 ? ['the TPU emulator'] : []),
  ]);
}

function isInUse({ limitChips, usedChips, requestedChips }: QuotaRow): boolean {
  return limitChips !== null || (usedChips ?? 0) > 0 || (requestedChips ?? 0) > 0;
}

/** A limit of 0, or in a zone without such TPUs, is of no use; `--zone` and --json show it. */
function isWorthShowing(row: QuotaRow): boolean {
  const { zone, usedChips, requestedChips, limitChips } = row;
  return (usedChips ?? 0) > 0 || (requestedChips ?? 0) > 0 || ((limitChips ?? 0) > 0 && isOffered(zone, row));
}

/** One row for all zones without TPUs that share a limit of their region; none if another zone of it has TPUs. */
function mergeUnused(rows: readonly QuotaRow[]): readonly QuotaRow[] {
  const shared = ({ project, zone, quotaId, scope }: QuotaRow) =>
    scope === 'zone' ? `${project} ${zone} ${quotaId}` : `${project} ${regionOf(zone)} ${quotaId}`;
  return [...Map.groupBy(rows, shared).values()].flatMap((group) => {
    const used = group.filter(({ usedChips, requestedChips }) => usedChips !== 0 || requestedChips !== 0);
    if (used.length > 0 || group.length === 1) return used.length > 0 ? used : group;
    return group.slice(0, 1).map((row) => ({ ...row, zone: regionOf(row.zone) }));
  });
}

function quotaLines(rows: readonly QuotaRow[], terminal: number | null): readonly string[] {
  if (rows.length === 0) return [];
  const columns: readonly Column<QuotaRow>[] = [
    zoneColumn(rows),
    { title: 'GENERATION', text: formatGeneration },
    { title: 'PRICING', text: ({ pricing }) => pricing },
    { title: 'LIMIT', side: 'right', text: formatLimit },
    { title: 'USED', side: 'right', text: ({ usedChips }) => formatChips(usedChips) },
    { title: 'RECLAIMABLE', side: 'right', text: ({ reclaimableChips }) => formatChips(reclaimableChips) },
    { title: 'REQUESTED', side: 'right', text: ({ requestedChips }) => formatChips(requestedChips) },
    {
      title: 'LEFT',
      side: 'right',
      text: (row) => (row.limitState === 'unlimited' ? '-' : formatChips(row.leftChips)),
    },
    { title: 'USED BY', text: formatUsers },
  ];
  return fittedTable(columns, rows, ['USED BY', 'REQUESTED', 'RECLAIMABLE'], terminal);
}

function formatGeneration({ generation, variant }: Pick<QuotaRow, 'generation' | 'variant'>): string {
  return variant === null ? generation : `${generation} ${variant}`;
}

function formatLimit({ limitState, limitChips, scope }: QuotaRow): string {
  if (limitState === 'unlimited') return 'none';
  return limitChips === null ? '?' : `${limitChips}${scope === 'region' ? ' in region' : ''}`;
}

/** Unknown is not 0. */
function formatChips(chips: number | null): string {
  return chips === null ? '?' : String(chips);
}

function formatUsers({ holders }: QuotaRow): string {
  const chips = new Map<string, number>();
  for (const holder of holders.filter(({ use }) => use === 'used')) {
    const name = holder.owner ?? 'creator unknown';
    chips.set(name, (chips.get(name) ?? 0) + holder.chips);
  }
  return chips.size === 0 ? '-' : [...chips].map(([name, count]) => `${name} ${count}`).join(', ');
}

function formatReclaimable(row: QuotaRow, { name, chips, state, reclaimable, command, job }: QuotaHolder): string {
  const subject = `${name} (${pluralize(chips, 'chip')}, ${formatGeneration(row)} ${row.pricing}, ${row.zone})`;
  const reason = reclaimable === null ? '' : reclaimPhrases[reclaimable];
  const release = command === null ? `Job ${job ?? ''} releases it` : `Release it: ${command}`;
  return escapeLine(`${subject} is ${state}, ${reason}. ${release}`);
}

/** Fails only if no limit could be read: one project without permission must not fail a script that uses the others. */
function printProblems(cli: Cli, { unread, unreadable, unchecked, projects, suggestion }: QuotaReport): number {
  for (const { project, quotas } of unreadable) {
    const message = `these limits of project ${project} are not known, because their entries have an unexpected form`;
    cli.note(escapeLine(`note: ${message}: ${formatList(quotas)}`));
  }
  for (const one of unchecked) printUnchecked(cli, one, suggestion);
  const stopped = unchecked.filter(({ isEmulatorStopped }) => isEmulatorStopped);
  const failed = unread.filter((one) => stopped.every(({ project }) => project !== one.project));
  const codes = failed.map((one) => reportError(limitsError(one), cli));
  if (failed.length + stopped.length < projects.length || failed.length === 0) return exitCode.ok;
  return codes.includes(exitCode.failed) ? exitCode.failed : exitCode.unreachable;
}

function limitsError(unread: UnreadLimits): JobmanError {
  const { permission, fix } = unread;
  return new JobmanError(
    escapeLine(formatUnread(unread)),
    permission === null && fix === null ? exitCode.unreachable : exitCode.failed,
    repairHints(fix, null),
  );
}
