import type { CheckpointReport } from '../../app/checkpoints.ts';
import { exitCode, JobmanError, usageError } from '../../app/errors.ts';
import { escapeLine, formatAge, formatBinaryBytes, formatList, formatTimestamp, pluralize } from '../../app/format.ts';
import type { CountProgress, StorageProblem, StorageReport } from '../../app/storage.ts';
import { day, type Instant } from '../../core/model/time.ts';
import type { CheckpointRow } from '../../reports/checkpoints.ts';
import type { BucketRow, StorageTotal } from '../../reports/storage.ts';
import { drawStatusLine } from '../block.ts';
import { type Cli, type GlobalFlags, reportError } from '../context.ts';
import { untilInterrupted, untilSignal } from '../interrupt.ts';
import { type Column, fittedTable } from '../render/aligned.ts';
import { csvLines } from '../render/csv.ts';
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
    cli.printAll(bucketLines(report, columnsOf(cli.io.stdout), cli.io.now()));
    if (rows.length === 0 && problems.length === 0 && !isInterrupted)
      cli.note(`No buckets in ${projects.length === 1 ? 'project' : 'projects'} ${escapeLine(formatList(projects))}.`);
    printNotes(cli, rows, exact);
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
  const line = drawStatusLine(cli, 250, () => (report === null ? null : formatProgress(report.counted, noun)));
  try {
    return await untilInterrupted(cli, async (signal) => {
      for await (const next of untilSignal(signal, reports)) report = next;
      return { report, isInterrupted: signal.aborted };
    });
  } finally {
    line.end();
  }
}

function formatProgress({ counted, ofAll, objects, bytes }: CountProgress, noun: string): string | null {
  if (ofAll === 0) return null;
  return `Counted ${counted} of ${pluralize(ofAll, noun)}: ${pluralize(objects, 'object')}, ${formatBinaryBytes(bytes)}`;
}

// ------------------------------------------------------------------------------------------ buckets

/** The cells of a row of the table. */
interface BucketCells {
  readonly bucket: string;
  readonly location: string;
  readonly storageClass: string;
  readonly size: string;
  readonly objects: string;
  readonly week: string;
  readonly month: string;
  readonly age: string;
}

const bucketColumns: readonly Column<BucketCells>[] = [
  { title: 'BUCKET', text: ({ bucket }) => bucket },
  { title: 'LOCATION', text: ({ location }) => location },
  { title: 'CLASS', text: ({ storageClass }) => storageClass },
  { title: 'SIZE', side: 'right', text: ({ size }) => size },
  { title: 'OBJECTS', side: 'right', text: ({ objects }) => objects },
  { title: '7 DAYS', side: 'right', text: ({ week }) => week },
  { title: '30 DAYS', side: 'right', text: ({ month }) => month },
  { title: 'AGE', side: 'right', text: ({ age }) => age },
];

function bucketLines(
  { rows, total, projects }: StorageReport,
  terminal: number | null,
  now: Instant,
): readonly string[] {
  if (rows.length === 0) return [];
  const cells = rows.map((row) => bucketCells(row, projects.length === 1, now));
  const all = rows.length === 1 ? cells : [...cells, totalCells(total)];
  return fittedTable(bucketColumns, all, ['CLASS', '30 DAYS', 'OBJECTS', 'AGE', '7 DAYS', 'LOCATION'], terminal);
}

function bucketCells(row: BucketRow, isOneProject: boolean, now: Instant): BucketCells {
  const { bytes, objects, partial } = row;
  return {
    bucket: isOneProject ? row.bucket : `${row.project}/${row.bucket}`,
    location: `${row.location ?? '?'}${row.zonesOutside.length === 0 ? '' : ' !'}`,
    storageClass: row.storageClass?.toLowerCase() ?? '?',
    size: bytes === null ? (row.sizeUnread ? '?' : 'not measured yet') : lowerLimit(formatBinaryBytes(bytes), partial),
    objects: objects === null ? '-' : lowerLimit(String(objects), partial),
    week: formatGrowth(row.growth7dBytes),
    month: formatGrowth(row.growth30dBytes),
    age: formatPointAge(row, now),
  };
}

function totalCells(total: StorageTotal): BucketCells {
  const { bytes, objects, partial, unmeasured, buckets } = total;
  const isKnown = unmeasured < buckets;
  return {
    bucket: 'TOTAL',
    location: '',
    storageClass: '',
    size: isKnown ? lowerLimit(formatBinaryBytes(bytes), partial) : '-',
    objects: isKnown ? lowerLimit(String(objects), partial) : '-',
    week: formatGrowth(total.growth7dBytes),
    month: formatGrowth(total.growth30dBytes),
    age: '',
  };
}

function lowerLimit(text: string, isPartial: boolean): string {
  return isPartial ? `>= ${text}` : text;
}

function formatGrowth(bytes: number | null): string {
  if (bytes === null) return '-';
  return `${bytes > 0 ? '+' : ''}${formatBinaryBytes(bytes)}`;
}

/** A point of the metric has the time of its day only. */
function formatPointAge({ source, measuredAt }: BucketRow, now: Instant): string {
  if (measuredAt === null) return '-';
  return source === 'listing'
    ? formatAge(now - measuredAt)
    : `<${Math.floor(Math.max(0, now - measuredAt) / day) + 1}d`;
}

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

function printNotes(cli: Cli, rows: readonly BucketRow[], exact: boolean): void {
  const outside = [...new Set(rows.flatMap(({ zonesOutside }) => zonesOutside))].toSorted();
  if (outside.length > 0)
    cli.note(
      `! is not in the region of ${formatList(outside)}, which your jobs use: reads from there are slower, and Google bills them.`,
    );
  const unmeasured = rows.filter(({ bytes, sizeUnread }) => bytes === null && !sizeUnread).length;
  if (unmeasured > 0 && !exact)
    cli.note(
      `${pluralize(unmeasured, 'bucket has', 'buckets have')} no measurement: Google measures each bucket once a day, and never an empty one. Count the objects: jobman storage --exact`,
    );
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
    const sentence = formatProblem(problem);
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

function formatProblem({ project, bucket, message, severity }: StorageProblem): string {
  const subject =
    bucket === null ? `project ${project}` : `bucket ${bucket}${project === '' ? '' : ` of project ${project}`}`;
  if (severity === 'note') return escapeLine(`${subject}: ${message}`);
  return escapeLine(`${subject} could not be read${severity === 'partial' ? ' completely' : ''}: ${message}.`);
}
