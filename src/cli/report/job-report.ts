// The data that `report` collects about a job, from its store, its cluster or the archive, before secrets are removed.

import { escapeForTerminal, formatDuration, formatUsd } from '../../app/format.ts';
import type { SecretSources } from '../../app/known-secrets.ts';
import type { Instant } from '../../core/model/time.ts';
import type { JobPage, PageCost, PageText } from '../../reports/job-page.ts';
import type { Timeline } from '../../reports/job-timeline.ts';
import { addSums, sumByUse, type UsageSum } from '../../reports/usage-sum.ts';
import type { UsageRow } from '../../reports/usage.ts';

export interface JobReport {
  /** `report` adds the metrics. */
  readonly page: Omit<JobPage, 'madeAt' | 'version' | 'plots'>;
  /** Further files of a bug report. */
  readonly files: readonly ReportFile[];
  /** The job's own secrets. */
  readonly secrets: SecretSources['job'];
  /** 0 unless the report may be old. */
  readonly exitCode: number;
}

export interface ReportFile {
  /** A relative path. */
  readonly name: string;
  readonly text: string;
}

/** Of one log on the page, and in a bug report. */
export const pageLogLines = 200;
export const bundleLogBytes = 256 * 1024;

/** More would make a page that browsers open slowly. */
const maxDocumentCharacters = 200_000;

/** The last lines of a log without control characters. A progress bar overwrites itself: only its last state counts. */
export function lastLines(text: string, count = pageLogLines): string {
  const lines = text.trimEnd().split('\n');
  return lines
    .slice(-count)
    .map((line) => escapeForTerminal(line.replace(/\r+$/, '').split('\r').at(-1) ?? '', false))
    .join('\n');
}

/** The text of a document without control characters, cut with a note if it is very long. */
export function documentOf(title: string, text: string, isOpen = false): PageText {
  const clean = text
    .slice(0, maxDocumentCharacters)
    .split('\n')
    .map((line) => escapeForTerminal(line.replace(/\r$/, ''), false))
    .join('\n');
  const rest = text.length - maxDocumentCharacters;
  return { title, isOpen, text: rest > 0 ? `${clean}\n... and ${rest} characters more` : clean };
}

/** Null without usage. */
export function pageCost(rows: readonly UsageRow[], now: Instant): PageCost | null {
  const sums = sumByUse(rows, { since: -Infinity, until: now }, now);
  if (sums.size === 0) return null;
  const row = (use: string, sum: UsageSum, estimate = formatEstimate(sum)) => {
    return { use, time: formatDuration(sum.durationMs), estimate };
  };
  const held = [...sums].filter(([use]) => use !== 'waiting');
  const waiting = sums.get('waiting');
  const prices = [...new Set(rows.flatMap(({ use, pricesOf }) => (use === 'waiting' ? [] : (pricesOf ?? []))))];
  const source =
    prices.length === 0 ? 'jobman has no price for it.' : `An estimate with the prices of ${prices.join(', ')}.`;
  const isSimulated = rows.some(({ simulated }) => simulated);
  const free = isSimulated ? ' The TPU emulator is free: these are the prices of the same TPUs at Google.' : '';
  return {
    rows: [
      ...held.map(([use, sum]) => row(use, sum)),
      row('in all', addSums(held.map(([, sum]) => sum))),
      ...(waiting === undefined ? [] : [row('waiting for capacity', waiting, 'not charged')]),
    ],
    note: `${source}${free}`,
  };
}

function formatEstimate({ estimateUsd, unpricedMs }: UsageSum): string {
  if (estimateUsd === null) return 'not priced';
  return `${formatUsd(estimateUsd)}${unpricedMs === 0 ? '' : ' and a part that is not priced'}`;
}

/** A lane for each allocation. Null without usage. */
export function usageTimeline(
  rows: readonly UsageRow[],
  attempts: Timeline['attempts'],
  now: Instant,
): Timeline | null {
  const [first] = rows;
  if (first === undefined) return null;
  const lanes = [...Map.groupBy(rows, ({ allocation }) => allocation)].map(([allocation, own]) => {
    const [{ accelerator, location } = first] = own;
    const label = `${allocation} ${accelerator ?? first.name}`;
    const spans = own.map(({ use, attempt, from, until }) => ({
      kind: use,
      from,
      until: until ?? now,
      detail: [attempt === null ? null : `attempt ${attempt}`, location].filter(Boolean).join(', ') || null,
    }));
    return { label, spans };
  });
  const times = rows.flatMap(({ from, until }) => [from, until ?? now]);
  return { from: Math.min(...times, ...attempts.map(({ at }) => at)), until: Math.max(...times), lanes, attempts };
}
