// The texts of a report about quotas.

import { regionOf } from '../catalogue/zones.ts';
import { isOffered, type QuotaHolder, type QuotaRow } from '../reports/quota.ts';
import { escapeLine, formatList, formatTimeOfDay, pluralize } from './format.ts';
import type { QuotaReport } from './quota.ts';
import { reclaimPhrases } from './reclaim.ts';
import { zoneColumn, type ReportColumn } from './report-columns.ts';

/** The rows that people need: with a zone, its limits of 0 too. */
export function shownQuotas(rows: readonly QuotaRow[], zone: string | undefined): readonly QuotaRow[] {
  return zone === undefined ? mergeUnused(rows.filter(isWorthShowing)) : rows.filter(isInUse);
}

/** `In chips. Limits read from Google's quota API at 08:20:02 UTC.`; null if no limit was read. */
export function formatLimitSource(report: QuotaReport): string | null {
  const [readAt] = report.rows.flatMap(({ limitReadAt }) => limitReadAt ?? []);
  return readAt === undefined
    ? null
    : `In chips. Limits read from ${formatSource(report)} at ${formatTimeOfDay(readAt)} UTC.`;
}

/** The sentence for each TPU that can be released. */
export function reclaimableSentences(rows: readonly QuotaRow[]): readonly string[] {
  return rows.flatMap((row) =>
    row.holders.filter((holder) => holder.reclaimable !== null).map((holder) => formatReclaimable(row, holder)),
  );
}

/** Says nothing about a project that did not answer. */
export function noQuotaSentences(
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

export function quotaColumns(rows: readonly QuotaRow[]): readonly ReportColumn<QuotaRow>[] {
  return [
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

/** The quotas of a project with entries of an unexpected form. */
export function formatUnreadable({ project, quotas }: QuotaReport['unreadable'][number]): string {
  const message = `these limits of project ${project} are not known, because their entries have an unexpected form`;
  return escapeLine(`${message}: ${formatList(quotas)}`);
}

/** The TPUs that no row counts; null without any. */
export function formatUncounted({ uncounted }: QuotaReport): string | null {
  return uncounted.length === 0
    ? null
    : escapeLine(`Not counted, because the type is not known: ${formatList(uncounted)}.`);
}
