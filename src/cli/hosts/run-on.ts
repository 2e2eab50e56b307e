// Run on: one command on many workers at once, or on many pods; what they print, folded where it is the same, and how it ended.

import { isUtf8 } from 'node:buffer';
import { constants } from 'node:os';
import { noSuchWorker, type Program, type Session, type SessionEnd, type WorkerDoor } from '../../app/by-hand.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import { countText, inertWord, lengthText } from '../../app/figures.ts';
import { drawLine } from '../block.ts';
import { type Cli, sayTrouble } from '../context.ts';
import { type LineShow, showLines } from './show-lines.ts';
import { callAfter } from '../leave.ts';
import { workersLabel } from '../logs/lines.ts';
import { given } from '../../core/given.ts';
import type { Duration } from '../../core/time.ts';
import type { WorkerChoice } from '../parse.ts';

/** One word is a line for a shell, as with ssh; several are a program and its arguments, as they are. */
export function programOf(words: readonly string[], id: string): Program {
  const [first, ...rest] = words;
  if (first === undefined || first === '')
    throw usageError(`Which command? Say it after two dashes: jobman exec ${id} -- hostname`);
  // No program is called so: it is a flag of exec on the wrong side, which the shell there would take for one of its own.
  if (first.startsWith('-'))
    throw usageError(
      `${first} is no command; flags of exec stand before the two dashes: jobman exec ${id} --workers 0 -- hostname`,
    );
  return rest.length === 0 ? { kind: 'line', line: first } : { kind: 'argv', argv: words };
}

export interface RunFlags {
  readonly timeout?: Duration | undefined;
  readonly stdin?: boolean | undefined;
  readonly inContainer?: boolean | undefined;
  readonly noFold?: boolean | undefined;
}

/**
 * Runs the program on all of them at once, until each has ended; resolves with the exit code of all together. With --json the
 * name of a worker's pod is told, too.
 */
export async function runOn(
  cli: Cli,
  door: Pick<WorkerDoor, 'start'>,
  {
    workers,
    program,
    flags,
    pods,
  }: {
    readonly workers: readonly number[];
    readonly program: Program;
    readonly flags: RunFlags;
    readonly pods?: ReadonlyMap<number, string>;
  },
): Promise<number> {
  const { io } = cli;
  const running = new Map<number, Session>();
  const outcomes: WorkerOutcome[] = [];
  let isTimeOver = false;
  let isLeaving = false;
  const left = Promise.withResolvers<SessionEnd>();
  const stopAll = (): void => {
    for (const session of running.values()) session.stop();
  };
  const unhear = io.onSignal(() => {
    if (isLeaving) left.resolve({ kind: 'no_answer', reason: 'you left before it had ended', sent: true });
    isLeaving = true;
    stopAll();
  });
  const callOff = callAfter(flags.timeout, () => {
    isTimeOver = true;
    stopAll();
  });
  const waiting = drawLine(cli, 1_000, () => waitingText(cli, [...running.keys()], workers.length));
  const show = showFor(cli, workers, flags, waiting.clear);

  async function one(worker: number): Promise<void> {
    const print = createPrint();
    const kept = { stdout: [] as Uint8Array[], stderr: [] as Uint8Array[] };
    const session = door.start(worker, {
      program,
      inside: flags.inContainer === true ? 'container' : 'host',
      receives: flags.stdin === true,
      async onBytes(chunk, stream) {
        // Only what several have printed is compared.
        if (workers.length > 1) print.add(chunk, stream);
        if (cli.json) kept[stream].push(chunk);
        else await show.take(worker, chunk, stream);
        // Nobody reads any more what it would print.
        if (io.stdout.closed) stopAll();
      },
    });
    running.set(worker, session);
    if (isLeaving || isTimeOver) session.stop();
    const input = flags.stdin === true ? feed(io.stdin, session) : undefined;
    const end = await Promise.race([session.ended, left.promise]);
    input?.abort();
    running.delete(worker);
    const outcome = { worker, end, timedOut: isTimeOver && end.kind === 'ended', printed: print.digest() };
    outcomes.push(outcome);
    if (cli.json) cli.print(JSON.stringify({ ...workerJson(outcome, kept), ...given({ pod: pods?.get(worker) }) }));
    else await show.ended(worker);
  }

  try {
    await Promise.all(workers.map(one));
  } finally {
    callOff();
    unhear();
    waiting.end();
  }
  const refusals = outcomes.flatMap(({ end }) => (end.kind === 'no_answer' ? (end.refusal ?? []) : []));
  // A missing right has one exit code and one text, for one pod and for many.
  if (refusals[0] !== undefined && refusals.length === outcomes.length && !isLeaving) throw refusals[0];
  tell(cli, outcomes, flags);
  await io.stdout.flush();
  return isLeaving ? exitCode.interrupted : Math.max(exitCode.ok, ...outcomes.map(codeOf));
}

function showFor(cli: Cli, workers: readonly number[], flags: RunFlags, clear: () => void): LineShow {
  if (workers.length > 1) return showLines(cli, workers, flags.noFold !== true, clear);
  // As with ssh: its bytes are ours.
  return {
    async take(_worker, chunk, stream) {
      clear();
      cli.io[stream].write(chunk);
      await cli.io[stream].flush();
    },
    ended: () => Promise.resolve(),
  };
}

function tell(cli: Cli, all: readonly WorkerOutcome[], flags: RunFlags): void {
  const outcomes = all.toSorted((one, other) => one.worker - other.worker);
  const { agreement, troubles } = outcomeLines(outcomes);
  const [only, ...others] = outcomes;
  if (only !== undefined && others.length === 0) {
    if (only.timedOut) sayTrouble(cli, `It took longer than ${lengthText(flags.timeout ?? 0)} and was ended.`);
    else if (only.end.kind === 'no_answer') complain(cli, troubles);
    return;
  }
  if (agreement !== null && cli.io.stdout.isTerminal && !cli.json) cli.note(`-- ${agreement}`);
  complain(cli, troubles);
}

function complain(cli: Cli, troubles: readonly string[]): void {
  for (const trouble of troubles) sayTrouble(cli, inertWord(trouble));
}

function waitingText(cli: Cli, on: readonly number[], count: number): string | null {
  if (on.length === 0 || cli.json) return null;
  const who = `[${workersLabel(on)}]`;
  const words = on.length === count ? countText(count, 'worker') : `${who}; ${count - on.length} of ${count} are done`;
  return `waiting for ${words}`.slice(0, cli.io.stderr.size().columns - 1);
}

/** Hands our input on until it ends, or until the returned controller is aborted. */
function feed(input: Cli['io']['stdin'], session: Session): AbortController {
  const over = new AbortController();
  void (async () => {
    try {
      for await (const chunk of input.bytes(over.signal)) await session.write(chunk);
    } catch {
      // Input that cannot be read has ended.
    }
    session.end();
  })();
  return over;
}

/** Output as text where it is UTF-8, else in base64 under a name of its own. */
function workerJson(
  { worker, end, timedOut }: WorkerOutcome,
  kept: Readonly<Record<'stdout' | 'stderr', readonly Uint8Array[]>>,
): object {
  return {
    worker,
    exitCode: end.kind === 'ended' ? end.exitCode : null,
    signal: end.kind === 'ended' && end.signal !== null ? `SIG${end.signal}` : null,
    timedOut,
    unreachable: end.kind === 'no_answer' ? end.reason : null,
    ...outputJson('stdout', kept.stdout),
    ...outputJson('stderr', kept.stderr),
  };
}

function outputJson(name: 'stdout' | 'stderr', chunks: readonly Uint8Array[]): object {
  const bytes = Buffer.concat(chunks);
  return isUtf8(bytes)
    ? { [name]: bytes.toString('utf8') }
    : { [name]: null, [`${name}Base64`]: bytes.toString('base64') };
}

interface WorkerOutcome {
  readonly worker: number;
  readonly end: SessionEnd;
  readonly timedOut: boolean;
  readonly printed: string;
}

/**
 * Gathers what one worker prints into `WorkerOutcome.printed`, without keeping any of it. Nobody prints in order to be
 * taken for somebody else, so a sum is enough; Node's hashes would be half of what a short command loads.
 */
function createPrint(): { add(chunk: Uint8Array, stream: 'stdout' | 'stderr'): void; digest(): string } {
  const sums = { stdout: createSum(), stderr: createSum() };
  return {
    add: (chunk, stream) => sums[stream].add(chunk),
    digest: () => `${sums.stdout.text()} ${sums.stderr.text()}`,
  };
}

/**
 * A sum of bytes in 64 bits, and their number. Each half is multiplied by an odd number after each byte, which loses
 * nothing, and turned, so that every byte reaches every bit.
 */
function createSum(): { add(chunk: Uint8Array): void; text(): string } {
  let length = 0;
  let one = 0x811c_9dc5;
  let other = 0x9e37_79b9;
  return {
    add(chunk) {
      length += chunk.length;
      // By its index: to step through bytes in the other way takes five times as long.
      for (let at = 0; at < chunk.length; at += 1) {
        const byte = chunk[at] ?? 0;
        one = Math.imul(one ^ byte, 0x0100_0193);
        other = (Math.imul((other << 13) | (other >>> 19), 5) + (0xe654_6b64 ^ byte)) | 0;
      }
    },
    text: () => `${length}.${one >>> 0}.${other >>> 0}`,
  };
}

/** timeout(1) of coreutils ends with this. */
const timedOutCode = 124;
/** ssh(1) ends with this when it could not connect. */
const unreachableCode = 255;

/** As a shell tells it: 128 and the number for a signal; 255 when there was no answer, 124 when its time was over. */
export function codeOf({ end, timedOut }: Pick<WorkerOutcome, 'end' | 'timedOut'>): number {
  if (timedOut) return timedOutCode;
  if (end.kind === 'no_answer') return unreachableCode;
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return end.exitCode ?? 128 + (numbers[`SIG${end.signal}`] ?? 0);
}

/**
 * What is to be said at the end about several workers, best first: whether they printed the same, how it ended where it did
 * not end well, and who did not answer. `agreement` is null where nothing can be compared.
 */
function outcomeLines(outcomes: readonly WorkerOutcome[]): {
  readonly agreement: string | null;
  readonly troubles: readonly string[];
} {
  const count = outcomes.length;
  const answered = outcomes.filter(({ end, timedOut }) => end.kind === 'ended' && !timedOut);
  const troubles: string[] = [];
  const byEnd = groups(answered, (outcome) => endText(outcome.end));
  const isAllWell = answered.every((outcome) => codeOf(outcome) === 0);
  if (!isAllWell) troubles.push(byEnd.map(([text, of]) => `${text} on ${whichText(of, count)}`).join('; '));
  const late = outcomes.filter(({ timedOut }) => timedOut);
  if (late.length > 0) troubles.push(`${whichText(late, count)}: its time was over, and it was ended`);
  const silent = outcomes.filter(({ end, timedOut }) => end.kind === 'no_answer' && !timedOut);
  const why = groups(silent, ({ end }) => (end.kind === 'no_answer' ? silenceText(end) : ''));
  for (const [text, of] of why) troubles.push(`${whichText(of, count)}: ${text}`);
  if (answered.length < 2) return { agreement: null, troubles };

  const [largest, ...others] = groups(answered, (outcome) => `${outcome.printed} ${codeOf(outcome)}`).map(
    ([, of]) => of,
  );
  if (largest === undefined) return { agreement: null, troubles };
  if (others.length === 0) return { agreement: `same on ${largest.length}/${count}`, troubles };
  const agreement =
    largest.length === 1
      ? `different on each of ${countText(answered.length, 'worker')}`
      : `same on ${largest.length}/${count}; different on ${others.map((of) => label(of)).join(', ')}`;
  return { agreement, troubles };
}

function endText(end: SessionEnd): string {
  if (end.kind === 'no_answer') return 'no answer';
  return end.signal === null ? `exit code ${end.exitCode}` : `ended by SIG${end.signal}`;
}

function silenceText({ reason, sent }: SessionEnd & { readonly kind: 'no_answer' }): string {
  return sent ? `the line broke while it ran: ${reason}` : `not reached: ${reason}`;
}

function groups(
  outcomes: readonly WorkerOutcome[],
  keyOf: (outcome: WorkerOutcome) => string,
): readonly (readonly [string, readonly WorkerOutcome[]])[] {
  const found = new Map<string, WorkerOutcome[]>();
  for (const outcome of outcomes) {
    const key = keyOf(outcome);
    found.set(key, [...(found.get(key) ?? []), outcome]);
  }
  return [...found].toSorted(([, one], [, other]) => other.length - one.length);
}

function label(outcomes: readonly WorkerOutcome[]): string {
  return `[${workersLabel(outcomes.map(({ worker }) => worker))}]`;
}

function whichText(of: readonly WorkerOutcome[], count: number): string {
  return of.length * 2 > count ? `${of.length}/${count}` : label(of);
}

/** The numbers that are meant, in order and each once. Throws JobmanError when one of them is no worker of that job. */
export function chosenWorkers(choice: WorkerChoice | undefined, all: readonly number[], id: string): readonly number[] {
  if (choice === undefined || choice === 'all') return all;
  const beyond = choice.find(([, to]) => to >= all.length)?.[1];
  if (beyond !== undefined) throw noSuchWorker(id, beyond, all.length);
  return all.filter((worker) => choice.some(([from, to]) => from <= worker && worker <= to));
}
