import { formatWorker } from '../../core/model/spec.ts';
import type { Client, LogQuery, LogRef } from '../../app/client.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import { type Cli, printError } from '../context.ts';
import { untilInterrupted } from '../interrupt.ts';
import { formatBody, createSplitter, formatPrefix, formatJson, type Piece } from './lines.ts';
import { timestampOf } from './merge.ts';
import { createLogStream, logBytes, type LogReader, type LogRules } from './stream.ts';
import { rawBytes } from '../output.ts';
import { isFinishedPhase } from '../../core/decide/phase.ts';
import type { LogsFlags } from '../table/flags.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { matchPattern } from '../../core/model/log-lines.ts';
import type { WorkerId } from '../../core/model/spec.ts';

const clusterFlags = [
  ['container', '--container'],
  ['allContainers', '--all-containers'],
  ['previous', '--previous'],
  ['allPods', '--all-pods'],
] as const;

/** Throws JobmanError (usage) for flags that exclude each other or need a cluster. */
export async function printStoredLogs(cli: Cli, client: Client, ref: string, flags: LogsFlags): Promise<number> {
  const unsupported = clusterFlags.find(([flag]) => flags[flag] !== undefined);
  if (unsupported !== undefined) {
    throw usageError(`${unsupported[1]} works only for a job of a Kubernetes cluster.`);
  }
  if (flags.since !== undefined && flags.step !== 'job' && flags.step !== 'tpu') {
    throw usageError('--since needs times, which the output of programs does not have.', [
      'The last lines: --tail 100. With times: --step job, --step tpu, and jobs of a Kubernetes cluster.',
    ]);
  }
  if (flags.firstError === true) {
    if (flags.follow === true || flags.raw === true || flags.grep !== undefined || flags.tail !== undefined) {
      throw usageError('--first-error excludes --follow, --raw, --grep and --tail.');
    }
    return printFirstError(cli, client, ref, flags);
  }
  return flags.follow === true ? followLogs(cli, client, ref, flags) : printLogs(cli, client, ref, flags);
}

async function printLogs(cli: Cli, client: Client, ref: string, flags: LogsFlags): Promise<number> {
  const { io } = cli;
  const all = await client.logs(ref, queryOf(flags));
  const stream = createLogStream(client, io.stdout, rulesOf(cli, flags));
  for (const log of all) await stream.add(log, true);
  const printed = await stream.finish(io.now());
  if (!printed && flags.grep === undefined) {
    const view = await client.show(ref);
    cli.note(`${formatSilence(isFinishedPhase(view.phase), all.length > 0)} ${view.why.message}`);
  }
  return exitCode.ok;
}

async function printFirstError(cli: Cli, client: Client, ref: string, flags: LogsFlags): Promise<number> {
  const all = await client.logs(ref, queryOf(flags));
  const view = await client.show(ref);
  const of = view.attempts.find(({ attempt }) => attempt === all[0]?.attempt);
  const [first, ...others] = await firstErrors(client, all, of?.evidence?.worker);
  if (first === undefined) {
    const sentence = `No error found in ${pluralize(all.length, 'log')}. ${view.why.message}`;
    if (cli.json) return printError(cli, sentence, exitCode.notFound, { job: view.id });
    cli.note(sentence);
    return exitCode.notFound;
  }
  const rules = rulesOf(cli, flags);
  const at = ({ worker, line }: FoundError) => `${worker === null ? '' : `${formatWorker(worker)}, `}line ${line}`;
  const also = others.length === 0 ? '' : `; later: ${others.map(at).join('; ')}`;
  cli.note(`-- first error: ${at(first)}${also}`);
  const workers = first.worker === null ? [] : [first.worker];
  const front = rules.numbered ? formatPrefix(workers, workers, rules) : '';
  for (const piece of first.pieces) {
    const from = { job: view.id, attempt: all[0]?.attempt ?? null, worker: first.worker };
    cli.io.stdout.write(
      rules.form === 'json' ? formatJson(from, piece) : rawBytes(front + formatBody({ ...piece, ends: true }, rules)),
    );
  }
  return exitCode.ok;
}

function formatSilence(isOver: boolean, hasLog: boolean): string {
  if (!isOver) return hasLog ? 'No output yet.' : 'No log yet.';
  return hasLog
    ? 'The program printed nothing.'
    : 'There is no log: the program printed nothing, or `jobman clean` removed the files.';
}

/** Resolves with 0 for any result of the job; `wait` reports results. */
async function followLogs(cli: Cli, client: Client, ref: string, flags: LogsFlags): Promise<number> {
  const { id } = await client.show(ref);
  const { followLog } = await import('../follow/follow.ts');
  const [query, rules] = [queryOf(flags), rulesOf(cli, flags)];
  const end = await untilInterrupted(cli, (leave) => followLog(cli, client, id, { query, rules, leave }));
  return end.kind === 'left' ? exitCode.interrupted : exitCode.ok;
}

function queryOf({ worker, step, attempt }: LogsFlags): LogQuery {
  return omitUndefined({ worker, step, attempt });
}

function rulesOf(cli: Cli, flags: LogsFlags): LogRules {
  const form = flags.raw === true ? 'raw' : cli.json ? 'json' : cli.io.stdout.isTerminal ? 'terminal' : 'pipe';
  if (form === 'raw' && flags.grep !== undefined) {
    throw usageError('--raw and --grep exclude each other.');
  }
  return {
    form,
    numbered: flags.worker === undefined,
    fold: form === 'terminal' && flags.noFold !== true,
    colour: cli.screen.colour,
    grep: flags.grep,
    tail: flags.tail,
    follow: flags.follow === true,
    since: flags.since === undefined ? undefined : cli.io.now() - flags.since,
  };
}

interface FoundError {
  readonly worker: WorkerId | null;
  /** From 1. */
  readonly line: number;
  readonly pieces: readonly Piece[];
  /** The time in the line itself, or in the nearest line before it with a time. */
  readonly time: string | null;
}

const linesBefore = 3;
const linesAfter = 20;
const maxLineBytes = 4 * 1024;

/**
 * At most one error per worker, the earliest first by the times in the lines. Without times, the worker of the
 * attempt's evidence comes first, then the order of the logs: their times prove nothing.
 */
async function firstErrors(
  client: LogReader,
  logs: readonly LogRef[],
  evidence: WorkerId | undefined,
): Promise<readonly FoundError[]> {
  const found: FoundError[] = [];
  for (const log of logs) {
    const error = await firstErrorOf(client, log);
    if (error !== null) found.push(error);
  }
  const times = found.map(({ time }) => time);
  // Two time formats cannot be compared as text.
  if (times.every((time) => time !== null && time.length === times[0]?.length)) {
    return found.toSorted((one, other) => (one.time ?? '').localeCompare(other.time ?? ''));
  }
  return found.toSorted((one, other) => Number(other.worker === evidence) - Number(one.worker === evidence));
}

/** Patterns of the recovery rules, and of Python, C++ and the kernel. */
const errorPattern =
  /^\s*Traceback \(most recent call last\)|\b[A-Z]\w*(?:Error|Exception)\b(?::|$)|\b(?:FATAL|CRITICAL|ERROR)\b|^panic: |Segmentation fault|\(core dumped\)|^F\d{4} /;

function isError(text: string): boolean {
  return errorPattern.test(text) || matchPattern(text) !== undefined;
}

async function firstErrorOf(client: LogReader, log: LogRef): Promise<FoundError | null> {
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
    if (!isError(piece.text)) {
      recent.push(piece);
      if (recent.length > linesBefore) recent.shift();
      return;
    }
    line = count;
    pieces.push(...recent, piece);
  });

  for await (const block of logBytes(client, log)) {
    splitter.push(block, 0);
    if (pieces.length > linesAfter + recent.length) break;
  }
  splitter.end(0);
  return line === 0 ? null : { worker: log.worker, line, pieces, time };
}
