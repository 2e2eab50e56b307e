import { formatWorker } from '../../core/model/spec.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { inOrderOfTime, isErrorLine, timestampOf } from '../../app/log-text.ts';
import { logBytes, type FoundJob, type JobLog } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import { type Cli, printError } from '../context.ts';
import type { LogsFlags } from '../table/flags.ts';
import { outputRules, queryOf, type LogSource } from './print.ts';
import { rawBytes } from '../output.ts';
import { createSplitter, formatBody, formatJson, formatPrefix, type Piece } from './lines.ts';

/** Of a job in a cluster, the first error of all pods unless the query selects some. */
export async function printFirstError(cli: Cli, jobs: Jobs, job: FoundJob, flags: LogsFlags): Promise<number> {
  if (flags.follow === true || flags.raw === true || flags.grep !== undefined || flags.tail !== undefined) {
    throw usageError('--first-error excludes --follow, --raw, --grep and --tail.');
  }
  const query = queryOf(cli, flags);
  const why = await jobs.why(job);
  const isOfAll = why.backend === 'kubernetes' && query.worker === undefined;
  const found: FoundError[] = [];
  let first: JobLog | undefined;
  let count = 0;
  for await (const step of jobs.logs(job, isOfAll ? { ...query, allPods: true } : query)) {
    if (step.kind !== 'logs') continue;
    for (const log of step.logs) {
      first ??= log;
      count += 1;
      const error = await firstErrorOf(jobs, job, log);
      if (error !== null) found.push(error);
    }
  }
  const details = why.backend === 'kubernetes' ? why : await jobs.show(job);
  const attempts = 'attempts' in details ? details.attempts : [];
  const evidence = attempts.find(({ attempt }) => attempt === first?.attempt)?.evidence?.worker;
  const [error, ...others] = inOrderOfTime(found, evidence);
  if (error === undefined) {
    const sentence = `No error found in ${pluralize(count, 'log')}. ${why.message}`;
    if (cli.json) return printError(cli, sentence, exitCode.notFound, { job: why.id });
    cli.note(sentence);
    return exitCode.notFound;
  }
  const also = others.length === 0 ? '' : `; later: ${others.map(formatPosition).join('; ')}`;
  cli.note(`-- first error: ${formatPosition(error)}${also}`);
  const rules = outputRules(cli);
  const labels = error.log.label === null ? [] : [error.log.label];
  for (const piece of error.pieces) {
    const line = formatPrefix(labels, labels, rules) + formatBody({ ...piece, ends: true }, rules);
    cli.io.stdout.write(rules.form === 'json' ? formatJson(error.log, piece) : rawBytes(line));
  }
  return exitCode.ok;
}

interface FoundError {
  readonly log: JobLog;
  readonly worker: JobLog['worker'];
  /** From 1. */
  readonly line: number;
  readonly pieces: readonly Piece[];
  /** The time in the line itself, or in the nearest line before it with a time. */
  readonly time: string | null;
}

function formatPosition({ log: { worker, pod }, line }: FoundError): string {
  const of = pod === null ? (worker === null ? null : formatWorker(worker)) : pod.name;
  return `${of === null ? '' : `${of}, `}line ${line}`;
}

const linesBefore = 3;
const linesAfter = 20;
const maxLineBytes = 4 * 1024;

async function firstErrorOf(
  source: Pick<LogSource, 'readLog'>,
  job: FoundJob,
  log: JobLog,
): Promise<FoundError | null> {
  const recent: Piece[] = [];
  const pieces: Piece[] = [];
  let count = 0;
  let line = 0;
  let time: string | null = null;
  const splitter = createSplitter({ maxBytes: maxLineBytes, overflow: 'cut', collapse: true }, (piece) => {
    count += 1;
    if (line > 0) {
      if (pieces.length <= linesAfter + recent.length) pieces.push(piece);
      return;
    }
    time = timestampOf(piece.text) ?? time;
    if (!isErrorLine(piece.text)) {
      recent.push(piece);
      if (recent.length > linesBefore) recent.shift();
      return;
    }
    line = count;
    pieces.push(...recent, piece);
  });

  for await (const block of logBytes((...part) => source.readLog(job, ...part), log)) {
    splitter.push(block, 0);
    if (pieces.length > linesAfter + recent.length) break;
  }
  splitter.end(0);
  return line === 0 ? null : { log, worker: log.worker, line, pieces, time };
}
