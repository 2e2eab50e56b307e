// The parts of a report, before secrets are removed.

import type { SecretSources } from '../../files/known-secrets.ts';
import type { Client, LogRef } from '../../app/client.ts';
import { JobmanError } from '../../app/errors.ts';
import { readFileEnd } from '../../files/files.ts';
import type { Instant } from '../../core/model/time.ts';
import type { JobPage, PageText } from '../../reports/job-page.ts';
import type { Timeline } from '../../reports/job-timeline.ts';
import type { UsageRow } from '../../reports/usage.ts';

/** The parts that differ between a job of the store and one of a cluster. */
export interface ReportParts extends Pick<JobPage, 'timeline' | 'attempts' | 'logs' | 'documents' | 'notes'> {
  /** Further files of a bug report. */
  readonly files: readonly ReportFile[];
  /** The job's own secrets. */
  readonly secrets: SecretSources['job'];
}

export interface ReportFile {
  /** A relative path. */
  readonly name: string;
  readonly text: string;
}

/** Of one log on the page, and in a bug report. */
export const pageLogLines = 40;
const bundleLogBytes = 256 * 1024;

/** Of a line that a cut divides, this much is left out: a part of a secret is not recognised as one. */
const longestSecret = 4_096;

/** The last 256 KiB of a log; empty if it cannot be read. */
export async function endOfLog(client: Pick<Client, 'readLog'>, { job, id, size }: LogRef): Promise<string> {
  try {
    const { bytes } = await client.readLog(job, id, Math.max(0, size - bundleLogBytes), bundleLogBytes);
    return withoutCutLine(bytes);
  } catch (error) {
    if (error instanceof JobmanError) return '';
    throw error;
  }
}

/** The last 256 KiB of a file, empty without a readable one. */
export function endOfFile(path: string): string {
  return withoutCutLine(readFileEnd(path, bundleLogBytes)?.bytes ?? new Uint8Array());
}

/** The first line is whole, or its first 4 KiB are left out. */
function withoutCutLine(bytes: Uint8Array): string {
  const text = new TextDecoder().decode(bytes);
  if (bytes.length < bundleLogBytes) return text;
  const lineEnd = text.indexOf('\n');
  return text.slice(lineEnd < 0 ? longestSecret : Math.min(lineEnd + 1, longestSecret));
}

/** More would make a page that browsers open slowly. */
const maxDocumentCharacters = 200_000;

/** The last lines of a log. `report` removes secrets before it makes control characters visible, so both stay here. */
export function lastLines(text: string): string {
  return text.trimEnd().split('\n').slice(-pageLogLines).join('\n');
}

/** The text of a document, cut with a note if it is very long. */
export function documentOf(title: string, text: string): PageText {
  const isCut = text.length > maxDocumentCharacters;
  const lineEnd = text.lastIndexOf('\n', maxDocumentCharacters);
  const shown = isCut ? text.slice(0, Math.max(lineEnd, maxDocumentCharacters - longestSecret)) : text;
  const rest = text.length - shown.length;
  return { title, isOpen: false, text: rest > 0 ? `${shown}\n... and ${rest} characters more` : shown };
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
