import type { CheckpointReport } from '../../app/checkpoints.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { escapeLine, formatAge, formatBinaryBytes, formatList, formatTimestamp, pluralize } from '../../app/format.ts';
import type { CountProgress, StorageProblem } from '../../app/storage.ts';
import {
  bucketColumns,
  bucketRows,
  formatCountProgress,
  formatStorageProblem,
  lowerLimit,
  storageNotes,
} from '../../app/storage-report.ts';
import type { Instant } from '../../core/model/time.ts';
import type { CheckpointRow } from '../../reports/checkpoints.ts';
import type { BucketRow } from '../../reports/storage.ts';
import { drawStatusLine } from '../block.ts';
import { type Cli, type GlobalFlags, reportError } from '../context.ts';
import { untilInterrupted, untilSignal } from '../interrupt.ts';
import { type Column, fittedTable } from '../render/aligned.ts';
import { csvLines } from '../../app/csv.ts';
import { columnsOf } from '../screen.ts';
import type { CheckpointsFlags, StorageFlags } from '../table/flags.ts';
import { repairHints } from './tpus.ts';

export async function storage(cli: Cli, { project, exact = false, csv }: StorageFlags & GlobalFlags): Promise<number> {
  if (csv === true && cli.json) throw usageError('--csv and --json exclude each other.');
  const client = await cli.services.client();
  const { report, isInterrupted } = await readReport(cli, 'bucket', client.storage({ project, exact }));
  if (report === null) return interrupted(cli);
  const { rows, total, problems, projects } = report;
  if (cli.json) {
    cli.printJsonLines(rows.map((row) => ({ kind: 'bucket', ...row }) as const));
    if (rows.length > 0) cli.printJson({ kind: 'total', ...total });
  } else if (csv === true) cli.printAll(bucketCsv(rows));
  else {
    if (rows.length > 0) {
      const dropOrder = ['CLASS', '30 DAYS', 'OBJECTS', 'AGE', '7 DAYS', 'LOCATION'];
      const columns = bucketColumns(report, cli.io.now());
      cli.printAll(fittedTable(columns, bucketRows(report), dropOrder, columnsOf(cli.io.stdout)));
    }
    if (rows.length === 0 && problems.length === 0 && !isInterrupted)
      cli.note(`No buckets in ${projects.length === 1 ? 'project' : 'projects'} ${escapeLine(formatList(projects))}.`);
    for (const note of storageNotes(rows, exact)) cli.note(note);
  }
  const isAnyRead = report.anyAnswered && (rows.length === 0 || total.unmeasured < total.buckets);
  return printProblems(cli, problems, isAnyRead, isInterrupted, report.suggestion);
}

export async function checkpoints(cli: Cli, { all = false }: CheckpointsFlags & GlobalFlags): Promise<number> {
  const client = await cli.services.client();
  const { report, isInterrupted } = await readReport(cli, 'folder', client.checkpoints());
  if (report === null) return interrupted(cli);
  const rows = report.rows.filter(({ files }) => all || files !== 0);
  if (cli.json) cli.printJsonLines(rows);
  else printCheckpoints(cli, report, rows);
  const isAnyRead = rows.some(({ bytes }) => bytes !== null);
  return printProblems(cli, report.problems, isAnyRead, isInterrupted);
}

/** Shows the progress on a terminal. Ctrl-C ends the counting; the report then has what was counted, or is null. */
async function readReport<T extends { readonly counted: CountProgress }>(
  cli: Cli,
  noun: string,
  reports: AsyncIterable<T>,
): Promise<{ readonly report: T | null; readonly isInterrupted: boolean }> {
  let report: T | null = null;
  const line = drawStatusLine(cli, 250, () => (report === null ? null : formatCountProgress(report.counted, noun)));
  try {
    return await untilInterrupted(cli, async (signal) => {
      for await (const next of untilSignal(signal, reports)) report = next;
      return { report, isInterrupted: signal.aborted };
    });
  } finally {
    line.end();
  }
}

// ------------------------------------------------------------------------------------------ buckets

function bucketCsv(rows: readonly BucketRow[]): readonly string[] {
  const header =
    'project,bucket,location,class,bytes,objects,growth7dBytes,growth30dBytes,source,measuredAt,partial,zonesOutside';
  const values = rows.map((row) => [
    row.project,
    row.bucket,
    row.location,
    row.storageClass,
    row.bytes,
    row.objects,
    row.growth7dBytes,
    row.growth30dBytes,
    row.source,
    row.measuredAt === null ? null : formatTimestamp(row.measuredAt),
    row.partial,
    row.zonesOutside.join(' '),
  ]);
  return csvLines([header.split(','), ...values]);
}

// ------------------------------------------------------------------------------------------ checkpoints

const checkpointColumns = (now: Instant): readonly Column<CheckpointRow>[] => [
  { title: 'JOB', text: ({ jobs }) => (jobs.length > 2 ? `${jobs[0]}, ...` : jobs.join(', ')) },
  { title: 'NAME', text: ({ name }) => name },
  { title: 'USER', text: ({ owner }) => owner },
  {
    title: 'SIZE',
    side: 'right',
    text: ({ bytes, partial }) => (bytes === null ? '?' : lowerLimit(formatBinaryBytes(bytes), partial)),
  },
  {
    title: 'NEWEST',
    side: 'right',
    text: ({ newestAt }) => (newestAt === null ? '-' : formatAge(now - newestAt)),
  },
  { title: 'NEEDED', text: formatNeed },
  { title: 'FOLDER', text: ({ folder }) => folder },
];

function formatNeed({ needed, assumed, message }: CheckpointRow): string {
  return `${assumed ? 'assumed' : needed ? 'yes' : 'no'}: ${message}`;
}

function printCheckpoints(cli: Cli, report: CheckpointReport, rows: readonly CheckpointRow[]): void {
  const { io } = cli;
  if (rows.length === 0) cli.note('No job has a checkpoint folder with files.');
  else cli.printAll(fittedTable(checkpointColumns(io.now()), rows, ['NAME', 'USER', 'NEWEST'], columnsOf(io.stdout)));
  const { unlisted } = report;
  if (unlisted.length > 0)
    cli.note(
      `Not listed, because it cannot be read from this machine: the checkpoint folder of ${unlisted.length === 1 ? 'job' : 'jobs'} ${formatList(unlisted.slice(0, maxNamedJobs))}${unlisted.length > maxNamedJobs ? ', ...' : ''}.`,
    );
  const unneeded = rows.filter(({ needed }) => !needed);
  if (unneeded.length === 0) return;
  const bytes = unneeded.reduce((sum, row) => sum + (row.bytes ?? 0), 0);
  const removable = unneeded.flatMap(({ removeCommand }) => removeCommand ?? []);
  cli.note(
    `No job needs ${pluralize(unneeded.length, 'folder')} with ${formatBinaryBytes(bytes)}. Nothing was removed.${removable.length === 0 ? '' : ` To remove ${removable.length === 1 ? 'it' : 'them'}:`}`,
  );
  // Not wrapped, so that each can be copied.
  cli.printAll(removable.map((command) => `  ${command}`));
}

const maxNamedJobs = 5;

// ------------------------------------------------------------------------------------------ problems

function printProblems(
  cli: Cli,
  problems: readonly StorageProblem[],
  isAnyRead: boolean,
  isInterrupted: boolean,
  suggestion: string | null = null,
): number {
  for (const problem of problems) {
    const sentence = formatStorageProblem(problem);
    const hints = [...repairHints(null, suggestion), ...problem.hints].map(escapeLine);
    if (problem.severity === 'note')
      for (const line of [`note: ${sentence}`, ...hints.map((hint) => `  ${hint}`)]) cli.note(line);
    else reportError(new JobmanError(sentence, codeOf(problem), hints), cli);
  }
  if (isInterrupted) return interrupted(cli);
  const errors = problems.filter(({ severity }) => severity !== 'note');
  if (errors.length === 0 || isAnyRead) return exitCode.ok;
  return errors.some(({ isUnreachable }) => isUnreachable) ? exitCode.unreachable : exitCode.failed;
}

function interrupted(cli: Cli): number {
  cli.note('Interrupted: not everything was counted.');
  return exitCode.interrupted;
}

function codeOf({ isUnreachable }: StorageProblem): number {
  return isUnreachable ? exitCode.unreachable : exitCode.failed;
}
