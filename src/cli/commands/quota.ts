import { exitCode, JobmanError } from '../../app/errors.ts';
import { escapeLine } from '../../app/format.ts';
import type { QuotaReport, UnreadLimits } from '../../app/quota.ts';
import {
  formatLimitSource,
  formatUncounted,
  formatUnreadable,
  noQuotaSentences,
  quotaColumns,
  reclaimableSentences,
  shownQuotas,
} from '../../app/quota-report.ts';
import { formatUnread } from '../../app/tpu-phrases.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { QuotaLimitOutput, QuotaUseOutput } from '../outputs.ts';
import { type Cli, type GlobalFlags, reportError } from '../context.ts';
import { fittedTable } from '../render/aligned.ts';
import { columnsOf } from '../screen.ts';
import type { QuotaFlags } from '../table/flags.ts';
import { printUnchecked, repairHints } from './tpus.ts';

export async function quota(cli: Cli, { project, zone }: QuotaFlags & GlobalFlags): Promise<number> {
  const report = await (await cli.services.client()).quota(omitUndefined({ project, zone }));
  const { rows } = report;
  if (cli.json) cli.printJsonLines(quotaObjects(report));
  else {
    const shown = shownQuotas(rows, zone);
    if (shown.length > 0)
      cli.printAll(
        fittedTable(quotaColumns(shown), shown, ['USED BY', 'REQUESTED', 'RECLAIMABLE'], columnsOf(cli.io.stdout)),
      );
    const reclaimable = reclaimableSentences(shown);
    if (reclaimable.length > 0) cli.printAll(['', ...reclaimable]);
    const source = shown.length === 0 ? null : formatLimitSource(report);
    const notes = [source, ...(shown.length === 0 ? noQuotaSentences(report, zone) : []), formatUncounted(report)];
    for (const note of notes) if (note !== null) cli.note(note);
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

/** Fails only if no limit could be read: one project without permission must not fail a script that uses the others. */
function printProblems(cli: Cli, { unread, unreadable, unchecked, projects, suggestion }: QuotaReport): number {
  for (const one of unreadable) cli.note(`note: ${formatUnreadable(one)}`);
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
