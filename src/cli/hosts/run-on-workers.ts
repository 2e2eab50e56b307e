// Runs one command on many workers or pods at once; prints their output and results.

import type { ExecFlags } from '../table/flags.ts';
import type { ProgramOutput } from '../outputs.ts';
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { constants } from 'node:os';
import type { Program, Session, SessionEnd } from '../../app/worker-access.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { pluralize, escapeLine, formatDuration } from '../../app/format.ts';
import { drawStatusLine } from '../block.ts';
import { type Cli, printError } from '../context.ts';
import { type OutputDisplay, createOutputDisplay } from './worker-output.ts';
import { callAfter } from '../interrupt.ts';
import { joinLabels } from '../../app/log-text.ts';
import type { Machines } from './machines.ts';

/** One argument is a line for a shell, as with ssh; several are a program and its arguments, unchanged. */
export function parseProgram(args: readonly string[], id: string): Program {
  const [first, ...rest] = args;
  if (first === undefined || first === '')
    throw usageError(`Which command? Write it after \`--\`: jobman exec ${id} -- hostname`);
  // No program begins with `-`: it is a misplaced flag of exec, and the remote shell would read it as its own.
  if (first.startsWith('-'))
    throw usageError(
      `${first} is not a command. Flags of exec come before \`--\`: jobman exec ${id} --workers 0 -- hostname`,
    );
  return rest.length === 0 ? { kind: 'line', line: first } : { kind: 'argv', argv: args };
}

/** Resolves with the common exit code when each machine has ended. */
export async function runOnWorkers(cli: Cli, machines: Machines, program: Program, flags: ExecFlags): Promise<number> {
  const { selected: workers, names: pods } = machines;
  const { io } = cli;
  const running = new Map<number, Session>();
  const outcomes: WorkerOutcome[] = [];
  let isTimeOver = false;
  let isLeaving = false;
  const left = Promise.withResolvers<SessionEnd>();
  const stopAll = (): void => {
    for (const session of running.values()) session.stop();
  };
  const stopListening = io.onSignal(() => {
    if (isLeaving)
      left.resolve({ kind: 'unreachable', reason: 'interrupted before the command ended', mayHaveRun: true });
    isLeaving = true;
    stopAll();
  });
  const cancelTimeout = callAfter(flags.timeout, () => {
    isTimeOver = true;
    stopAll();
  });
  const waiting = drawStatusLine(cli, 1_000, () => formatWaiting(cli, [...running.keys()], workers.length));
  const show = createDisplay(cli, workers, flags, waiting.clear);

  async function runOne(worker: number): Promise<void> {
    const digest = createDigest();
    const output = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
    const session = machines.start(worker, {
      program,
      environment: flags.inContainer === true ? 'container' : 'host',
      hasInput: flags.stdin === true,
      async onBytes(chunk, stream) {
        if (workers.length > 1) digest.add(chunk, stream);
        if (cli.json) output[stream].push(chunk);
        else await show.write(worker, chunk, stream);
        if (io.stdout.closed) stopAll();
      },
    });
    running.set(worker, session);
    if (isLeaving || isTimeOver) session.stop();
    const input = flags.stdin === true ? forwardInput(io.stdin, session) : undefined;
    const end = await Promise.race([session.ended, left.promise]);
    input?.abort();
    running.delete(worker);
    const outcome = { worker, end, timedOut: isTimeOver && end.kind === 'ended', outputDigest: digest.digest() };
    outcomes.push(outcome);
    if (cli.json) cli.printJson(workerJson(outcome, output, pods?.get(worker) ?? null));
    else await show.ended(worker);
  }

  try {
    await Promise.all(workers.map(runOne));
  } finally {
    cancelTimeout();
    stopListening();
    waiting.end();
  }
  const refusals = outcomes.flatMap(({ end }) => (end.kind === 'unreachable' ? (end.refusal ?? []) : []));
  // A missing permission has one exit code and one message, for one pod and for many.
  if (refusals[0] !== undefined && refusals.length === outcomes.length && !isLeaving) throw refusals[0];
  if (!cli.json) printOutcomes(cli, outcomes, flags);
  await io.stdout.flush();
  return isLeaving ? exitCode.interrupted : Math.max(exitCode.ok, ...outcomes.map(sessionExitCode));
}

function createDisplay(cli: Cli, workers: readonly number[], flags: ExecFlags, clear: () => void): OutputDisplay {
  if (workers.length > 1) return createOutputDisplay(cli, workers, flags.noFold !== true, clear);
  // As with ssh: the bytes of one worker are written unchanged.
  return {
    async write(_worker, chunk, stream) {
      clear();
      cli.io[stream].write(chunk);
      await cli.io[stream].flush();
    },
    ended: () => Promise.resolve(),
  };
}

function printOutcomes(cli: Cli, all: readonly WorkerOutcome[], flags: ExecFlags): void {
  const outcomes = all.toSorted((one, other) => one.worker - other.worker);
  const { agreement, problems } = outcomeLines(outcomes);
  const [only, ...others] = outcomes;
  if (only !== undefined && others.length === 0) {
    if (only.timedOut) printError(cli, `It took longer than ${formatDuration(flags.timeout ?? 0)} and was ended.`);
    else if (only.end.kind === 'unreachable') printProblems(cli, problems);
    return;
  }
  if (agreement !== null && cli.io.stdout.isTerminal) cli.note(`-- ${agreement}`);
  printProblems(cli, problems);
}

function printProblems(cli: Cli, problems: readonly string[]): void {
  for (const problem of problems) printError(cli, escapeLine(problem));
}

function formatWaiting(cli: Cli, on: readonly number[], count: number): string | null {
  if (on.length === 0 || cli.json) return null;
  const who = `[${joinLabels(on)}]`;
  const rest = on.length === count ? pluralize(count, 'worker') : `${who}; ${count - on.length} of ${count} are done`;
  return `waiting for ${rest}`.slice(0, cli.io.stderr.size().columns - 1);
}

/** Also ends when the returned controller is aborted. */
function forwardInput(input: Cli['io']['stdin'], session: Session): AbortController {
  const over = new AbortController();
  void (async () => {
    try {
      for await (const chunk of input.bytes(over.signal)) await session.write(chunk);
    } catch {
      // Unreadable input counts as ended.
    }
    session.end();
  })();
  return over;
}

function workerJson(
  { worker, end, timedOut }: WorkerOutcome,
  output: Readonly<Record<'stdout' | 'stderr', readonly Uint8Array[]>>,
  pod: string | null,
): ProgramOutput {
  const [stdout, stderr] = [outputJson(output.stdout), outputJson(output.stderr)];
  return {
    worker,
    pod,
    exitCode: end.kind === 'ended' ? end.exitCode : null,
    signal: end.kind === 'ended' && end.signal !== null ? `SIG${end.signal}` : null,
    timedOut,
    unreachable: end.kind === 'unreachable',
    message: end.kind === 'unreachable' ? end.reason : null,
    stdout: stdout.text,
    stdoutBase64: stdout.base64,
    stderr: stderr.text,
    stderrBase64: stderr.base64,
  };
}

function outputJson(chunks: readonly Uint8Array[]): { readonly text: string | null; readonly base64: string | null } {
  const bytes = Buffer.concat(chunks);
  return isUtf8(bytes)
    ? { text: bytes.toString('utf8'), base64: null }
    : { text: null, base64: bytes.toString('base64') };
}

interface WorkerOutcome {
  readonly worker: number;
  readonly end: SessionEnd;
  readonly timedOut: boolean;
  readonly outputDigest: string;
}

function createDigest(): { add(chunk: Uint8Array, stream: 'stdout' | 'stderr'): void; digest(): string } {
  const hashes = { stdout: createHash('sha1'), stderr: createHash('sha1') };
  return {
    add: (chunk, stream) => void hashes[stream].update(chunk),
    digest: () => `${hashes.stdout.digest('hex')} ${hashes.stderr.digest('hex')}`,
  };
}

/** As in timeout(1) of coreutils. */
const timedOutCode = 124;
/** As in ssh(1) without a connection. */
const unreachableCode = 255;

/** As in a shell: 128 plus the number of a signal. */
export function sessionExitCode({ end, timedOut }: Pick<WorkerOutcome, 'end' | 'timedOut'>): number {
  if (timedOut) return timedOutCode;
  if (end.kind === 'unreachable') return unreachableCode;
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return end.exitCode ?? 128 + (numbers[`SIG${end.signal}`] ?? 0);
}

/** `agreement` says whether the output was equal; null if there is nothing to compare. */
function outcomeLines(outcomes: readonly WorkerOutcome[]): {
  readonly agreement: string | null;
  readonly problems: readonly string[];
} {
  const count = outcomes.length;
  const answered = outcomes.filter(({ end, timedOut }) => end.kind === 'ended' && !timedOut);
  const problems: string[] = [];
  const byEnd = groupBy(answered, (outcome) => formatEnd(outcome.end));
  const isAllWell = answered.every((outcome) => sessionExitCode(outcome) === 0);
  if (!isAllWell) problems.push(byEnd.map(([text, of]) => `${text} on ${formatWhich(of, count)}`).join('; '));
  const late = outcomes.filter(({ timedOut }) => timedOut);
  if (late.length > 0) problems.push(`${formatWhich(late, count)}: its time was over, and it was ended`);
  const silent = outcomes.filter(({ end, timedOut }) => end.kind === 'unreachable' && !timedOut);
  const why = groupBy(silent, ({ end }) => (end.kind === 'unreachable' ? formatNoAnswer(end) : ''));
  for (const [text, of] of why) problems.push(`${formatWhich(of, count)}: ${text}`);
  if (answered.length < 2) return { agreement: null, problems };

  const [largest, ...others] = groupBy(
    answered,
    (outcome) => `${outcome.outputDigest} ${sessionExitCode(outcome)}`,
  ).map(([, of]) => of);
  if (largest === undefined) return { agreement: null, problems };
  if (others.length === 0) return { agreement: `same on ${largest.length}/${count}`, problems };
  const agreement =
    largest.length === 1
      ? `different on each of ${pluralize(answered.length, 'worker')}`
      : `same on ${largest.length}/${count}; different on ${others.map((of) => label(of)).join(', ')}`;
  return { agreement, problems };
}

function formatEnd(end: SessionEnd): string {
  if (end.kind === 'unreachable') return 'no answer';
  return end.signal === null ? `exit code ${end.exitCode}` : `ended by SIG${end.signal}`;
}

function formatNoAnswer({ reason, mayHaveRun }: SessionEnd & { readonly kind: 'unreachable' }): string {
  return mayHaveRun ? `the line broke while it ran: ${reason}` : `not reached: ${reason}`;
}

/** The largest group first. */
function groupBy(outcomes: readonly WorkerOutcome[], keyOf: (outcome: WorkerOutcome) => string) {
  return [...Map.groupBy(outcomes, keyOf)].toSorted(([, one], [, other]) => other.length - one.length);
}

function label(outcomes: readonly WorkerOutcome[]): string {
  return `[${joinLabels(outcomes.map(({ worker }) => worker))}]`;
}

function formatWhich(of: readonly WorkerOutcome[], count: number): string {
  return of.length * 2 > count ? `${of.length}/${count}` : label(of);
}
