// Machines: looking at workers and acting on them, over whatever transport reaches them; a setup step with the files that it needs,
// its log and why it failed among that. Shared by every backend whose workers are machines with a shell.

import { textOf } from '../app/errors.ts';
import { fanOut } from '../app/fan-out.ts';
import type { AllocationRef, MachinePort, StepByHand, TailReceiver, WorkerRef } from '../app/ports.ts';
import { commandWorkers, openAttempt, type Evidence, type Job } from '../core/job.ts';
import { known, unknown, type Fact, type OutcomeResult, type WorkerSeen } from '../core/observation.ts';
import type { Launch } from '../core/prepare.ts';
import type { SetupStep, StepFile, WorkerId } from '../core/spec.ts';
import { second, type Duration, type Instant } from '../core/time.ts';
import { followScript, lookScript, parseLook, restScript, stopScript, tailCodes } from '../remote/attempt.ts';
import { badVariable, startScript } from '../remote/launch.ts';
import { jobMark, runMark } from '../remote/run-folder.ts';
import { isStepKey, killStepScript, stepScript, type StepFileBytes, type StepMode } from '../remote/step.ts';
import type { Reach, RunRequest, RunResult } from '../remote/transport.ts';
import { createWorkdirSender } from '../remote/workdir/send.ts';

export interface MachinesParts {
  /**
   * The way to that worker. Called for every action, so it must be cheap; transports are pooled behind it. A backend
   * that cannot tell the way says why, and throws nothing.
   */
  readonly reach: (ref: WorkerRef) => Promise<Reach>;
  /**
   * The folder of this job on that worker, as a word of a shell text with all that is not ours quoted. `remoteRoot` of
   * remote/run-folder.ts is the usual one.
   */
  readonly root: (ref: WorkerRef) => string;
  /** Takes what a setup step prints; nothing at all, when it is done and has printed nothing. */
  readonly stepLog: (job: Job, step: string, worker: WorkerId, chunk: Uint8Array) => Promise<void>;
  readonly readFile: (path: string) => Promise<Uint8Array>;
  /** The folder on this machine that holds that copy of the job's working directory. */
  readonly workdirOf?: (job: Job, snapshot: number) => string;
  /** Where the value of a secret is that was taken from the environment of the job's creator, on this machine. */
  readonly secretFile?: (job: Job, name: string) => string;
  readonly now: () => Instant;
  readonly forget: (ref: AllocationRef) => void;
}

/** A host that does not answer is noticed within ten seconds: the look gives it eight. */
const lookTimeout: Duration = 8 * second;
const startTimeout: Duration = 30 * second;
/** A kill is repeated on the host for five seconds and more before it reports what is left. */
const stopTimeout: Duration = 30 * second;
/** Looks under way at once. Workers of one job are seldom more. */
const looksAtOnce = 64;
const answerMost = 1_000_000;

export function createMachines(parts: MachinesParts): MachinePort {
  const { now } = parts;
  const workdirs = createWorkdirSender();

  async function run(ref: WorkerRef, request: RunRequest): Promise<RunResult> {
    const reach = await parts.reach(ref);
    if (reach.kind === 'closed') return { kind: 'no_answer', reason: reach.reason, sent: false, timedOut: false };
    return reach.transport.run(request);
  }

  async function lookAt(ref: WorkerRef): Promise<Fact<WorkerSeen>> {
    const { job, worker } = ref;
    const expected = expectedAttempt(ref);
    const result = await run(ref, {
      script: lookScript(parts.root(ref), {
        allocation: ref.allocation.ordinal,
        jobMark: jobMark(job),
        mark: (attempt) => runMark(job, attempt, worker),
        ...(expected === undefined ? {} : { expected }),
      }),
      timeoutMs: lookTimeout,
      outputMost: answerMost,
      isRepeatable: true,
    });
    if (result.kind === 'no_answer') return unknown(`worker ${worker}: ${result.reason}`, now());
    const seen = parseLook(textFrom(result.stdout), now());
    if (seen === undefined)
      return unknown(`worker ${worker} gave an answer that is no answer: ${wordsOf(result)}`, now());
    return known(seen, now());
  }

  return {
    look: (refs) => fanOut(refs, looksAtOnce, lookAt),

    step: (ref, step, byHand) => runStep({ parts, run, workdirs }, ref, step, byHand),

    async start(ref, launch) {
      const { job, worker } = ref;
      const bad = badVariable(launch.env);
      if (bad !== undefined)
        return refused(worker, `the variable ${bad} has a name or a value that no environment can hold`);
      const secrets = await readSecrets(parts, job, launch);
      if (typeof secrets === 'string') return failed(worker, secrets);
      const result = await run(ref, {
        script: startScript(parts.root(ref), launch, runMark(job, launch.attempt.ordinal, worker), secrets),
        timeoutMs: startTimeout,
        outputMost: answerMost,
      });
      if (result.kind === 'no_answer') return noAnswer(worker, `worker ${worker}: ${result.reason}`, result.sent);
      return startOutcome(worker, /^said (.*)$/mu.exec(textFrom(result.stdout))?.[1], wordsOf(result));
    },

    async stop(ref, attempt, how, signal) {
      const { job, worker } = ref;
      const name = signal.replace(/^SIG/u, '');
      if (!/^[A-Z0-9+-]+$/u.test(name)) return refused(worker, `${signal} is no signal`);
      const result = await run(ref, {
        script: stopScript(parts.root(ref), { attempt, mark: runMark(job, attempt, worker), how, signal: name }),
        timeoutMs: stopTimeout,
        outputMost: answerMost,
      });
      if (result.kind === 'no_answer') return noAnswer(worker, `worker ${worker}: ${result.reason}`, result.sent);
      const answer = textFrom(result.stdout);
      if (/^(gone|asked \d+)\n$/u.test(answer)) return { kind: 'done' };
      if (answer.startsWith('left '))
        return failed(worker, `on worker ${worker} these processes do not die: ${answer.slice(5).trim()}`);
      return failed(worker, `worker ${worker} could not stop attempt ${attempt}: ${wordsOf(result)}`);
    },

    tail(ref, attempt, from, receiver) {
      return openTail(parts, ref, { attempt, from }, receiver);
    },

    forget: parts.forget,
  };
}

/**
 * The attempt whose program was started on that worker, by the record, and has not been seen to end; undefined when none
 * was. It is looked for by its mark where its folder is gone, which is asked of no other attempt: it takes a search through
 * all processes.
 */
export function expectedAttempt({ job, allocation, worker }: WorkerRef): number | undefined {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.startedAt === null) return undefined;
  const isOnIt = worker === 'here' || attempt.allocation === allocation.ordinal;
  const places = commandWorkers(job.spec.command, allocation.workers ?? 0);
  return isOnIt && places.includes(worker) ? attempt.ordinal : undefined;
}

interface StepParts {
  readonly parts: MachinesParts;
  readonly run: (ref: WorkerRef, request: RunRequest) => Promise<RunResult>;
  readonly workdirs: ReturnType<typeof createWorkdirSender>;
}

/** Added to a step's own time limit, for the connection. */
const stepMargin: Duration = 15 * second;
const killTimeout: Duration = 30 * second;

async function runStep(
  { parts, run, workdirs }: StepParts,
  ref: WorkerRef,
  step: SetupStep,
  byHand: StepByHand | undefined,
): Promise<OutcomeResult> {
  const { job, worker, allocation } = ref;
  // The caller's message names the step and the worker; these words continue it.
  if (!isStepKey(step.key)) return refused(worker, `its key cannot be a file's name: ${step.key}`);
  let files: readonly StepFileBytes[];
  try {
    files = await filesOf(parts, step);
  } catch (error) {
    return failed(worker, `it needs a file of this machine: ${textOf(error)}`);
  }
  const root = parts.root(ref);
  if (step.workdir !== undefined) {
    const folder = parts.workdirOf?.(job, step.workdir);
    if (folder === undefined) return refused(worker, 'no working directory can be copied there');
    const sent = await workdirs.send((request) => run(ref, request), root, folder);
    if (sent.kind === 'failed') return failed(worker, `the working directory could not be sent: ${sent.reason}`);
  }
  let last = '';
  let logProblem: string | undefined;
  const result = await run(ref, {
    script: stepScript(root, allocation.ordinal, step, files, stepMode(byHand)),
    timeoutMs: step.timeout + stepMargin,
    outputMost: 64_000,
    onOutput: async (chunk) => {
      last = (last + textFrom(chunk)).slice(-2_000);
      await byHand?.onOutput(chunk);
      try {
        await parts.stepLog(job, step.name, worker, chunk);
      } catch (error) {
        // A full disk here is no reason to break off an installation there.
        logProblem = textOf(error);
      }
    },
  });
  if (result.kind === 'no_answer') {
    if (!result.timedOut) return noAnswer(worker, result.reason, result.sent);
    await run(ref, {
      script: killStepScript(root, allocation.ordinal, step),
      timeoutMs: killTimeout,
      outputMost: answerMost,
    });
    return failed(
      worker,
      `it took longer than ${Math.round(step.timeout / second)} s${lastLine(last)}`,
      lastLines(last),
    );
  }
  const [, verdict, command] =
    /(?:^|\n)step (\d+|vanished|cannot .*)\n(?:command (.*)\n)?$/u.exec(textFrom(result.stderr)) ?? [];
  if (verdict === undefined) return noAnswer(worker, `the line broke off: ${wordsOf(result)}`, true);
  if (verdict === '0') {
    if (last === '') await noteSilence(parts, ref, step);
    return { kind: 'done' };
  }
  if (verdict === 'vanished') return failed(worker, `it was killed from outside${lastLine(last)}`, lastLines(last));
  if (verdict.startsWith('cannot ')) return failed(worker, `it cannot ${verdict.slice('cannot '.length)}`);
  const note = logProblem === undefined ? '' : ` (its log is not complete: ${logProblem})`;
  return failed(worker, `${failureText(verdict, command, last)}${note}`, lastLines(last), Number(verdict));
}

function stepMode(byHand: StepByHand | undefined): StepMode {
  if (byHand === undefined) return 'unless-proven';
  return byHand.force ? 'apply' : 'check';
}

async function filesOf({ readFile }: MachinesParts, step: SetupStep): Promise<readonly StepFileBytes[]> {
  return Promise.all(
    step.files.map(async (file: StepFile) => ({
      to: file.to,
      mode: file.mode,
      bytes: file.kind === 'local' ? await readFile(file.from) : Buffer.from(file.base64, 'base64'),
    })),
  );
}

/** A log that exists answers the question that an absent one leaves open: the step ran, and printed nothing. */
async function noteSilence({ stepLog }: MachinesParts, { job, worker }: WorkerRef, step: SetupStep): Promise<void> {
  try {
    await stepLog(job, step.name, worker, new Uint8Array(0));
  } catch {
    // The step holds whether or not its log could be written.
  }
}

/** A longer command is left out of the message: the last printed line says more. */
const commandMost = 80;

/** Bash reports only the opening of such a command, which is a part of jobman's own script and tells a person nothing. */
const isFragment = /^(case|if|while|until|for)\s/u;

/**
 * Why a step failed, the cause first: the last line with a meaning, then the exit code and the command that failed where that is
 * short enough to read.
 */
export function failureText(code: string, command: string | undefined, printed: string): string {
  // The message names the command that failed, without the sudo in front of it.
  const bare = command?.replace(/^sudo -n (env (\w+=('[^']*'|\S*) )*)?/u, '').trim();
  const line = meaningfulLine(printed).replace(/\.$/u, '');
  const isReadable = bare !== undefined && bare !== '' && bare.length <= commandMost && !isFragment.test(bare);
  const of = isReadable ? ` of \`${bare}\`` : '';
  if (line !== '') return `${line} (exit code ${code}${of})`;
  return `exit code ${code}${of}, and nothing was printed`;
}

/** The last line, without the advice that installers print after their error. */
function meaningfulLine(printed: string): string {
  const lines = printed.split('\n').map((line) => line.split('\r').at(-1)?.trim() ?? '');
  const isAdvice = (line: string) => line === '' || /^(\[notice\]|hint:|note:|warning:|w:|see )/iu.test(line);
  return (lines.findLast((line) => !isAdvice(line)) ?? '').slice(0, 300);
}

function lastLine(text: string): string {
  const line = meaningfulLine(text);
  return line === '' ? '' : `: ${line}`;
}

function lastLines(text: string): string {
  return text.trimEnd().split('\n').slice(-10).join('\n');
}

/** More would not fit through the pipe by which a container gets them. */
const secretsMost = 48 * 1024;

/** The values of the secrets that a launch names, or one sentence that says why they cannot be had. It never tells a value. */
export async function readSecrets(
  parts: Pick<MachinesParts, 'readFile' | 'secretFile'>,
  job: Job,
  launch: Launch,
): Promise<Readonly<Record<string, string>> | string> {
  const secrets: Record<string, string> = {};
  let bytes = 0;
  for (const [name, source] of Object.entries(launch.secrets ?? {})) {
    const file = source.kind === 'file' ? source.path : parts.secretFile?.(job, name);
    if (file === undefined) return `the secret ${name} is kept nowhere that this machine knows of`;
    try {
      // Editors end a file with a newline, which is no part of a password.
      secrets[name] = textFrom(await parts.readFile(file)).replace(/\r?\n$/u, '');
    } catch (error) {
      const lost =
        source.kind === 'file' ? '' : '; it was kept with the files of the job: put it there, or create the job anew';
      return `the secret ${name} cannot be read: ${textOf(error)}${lost}`;
    }
    bytes += secrets[name].length;
  }
  const bad = badVariable(secrets);
  if (bad !== undefined) return `the secret ${bad} has a name or a value that no environment can hold`;
  return bytes > secretsMost ? `the secrets are longer than ${secretsMost / 1024} KiB together` : secrets;
}

export function startOutcome(worker: WorkerId, said: string | undefined, raw: string): OutcomeResult {
  if (said === 'started' || said === 'already') return { kind: 'done' };
  if (said === 'restarted')
    return failed(worker, `worker ${worker} was restarted after it had been set up, so nothing was started there yet`);
  if (said?.startsWith('busy ') === true) return busy(worker, said.slice(5));
  if (said?.startsWith('failed ') === true)
    return failed(worker, `worker ${worker} could not start the command: ${said.slice(7)}`);
  // The launcher said nothing: it may have been killed at any point. Only a look can tell.
  return noAnswer(worker, `worker ${worker} did not say whether the command has started: ${raw}`, true);
}

/**
 * Follows until the run is over, then sends for what is left from where we have come to: a follower that is ended from
 * outside may have been anywhere, and only the receiving side knows what it holds.
 */
function openTail(
  parts: MachinesParts,
  ref: WorkerRef,
  want: { readonly attempt: number; readonly from: number },
  receiver: TailReceiver,
): () => void {
  const { job, worker } = ref;
  const root = parts.root(ref);
  const mark = runMark(job, want.attempt, worker);
  let at = want.from;
  let isOff = false;
  let callOff = (): void => undefined;

  const drop = (reason: string): void => {
    if (!isOff) receiver.dropped(`worker ${worker}: ${reason}`);
  };

  async function open(script: string, onOver: () => void): Promise<void> {
    const reach = await parts.reach(ref);
    if (isOff) return;
    if (reach.kind === 'closed') {
      drop(reach.reason);
      return;
    }
    callOff = reach.transport.stream({
      script,
      async onBytes(chunk) {
        if (isOff) return;
        at += chunk.length;
        try {
          await receiver.bytes(chunk);
        } catch (error) {
          drop(`what was read could not be kept: ${textOf(error)}`);
          isOff = true;
          callOff();
        }
      },
      onEnd(end) {
        if (isOff) return;
        if (end.kind === 'dropped') drop(end.reason);
        else if (end.exitCode === tailCodes.missing) drop(`attempt ${want.attempt} has left nothing there`);
        else if (end.exitCode === tailCodes.over) onOver();
        else drop(`following the output ended with exit code ${end.exitCode}: ${end.stderr.trim()}`);
      },
    });
  }

  void open(followScript(root, { ...want, mark }), () => {
    void open(restScript(root, { attempt: want.attempt, from: at }), () => {
      receiver.ended();
    });
  });
  return () => {
    isOff = true;
    callOff();
  };
}

/** It happened, and did not succeed. */
export function failed(worker: WorkerId, detail: string, line?: string, exitCode?: number): OutcomeResult {
  return { kind: 'failed', evidence: evidence(worker, detail, line, exitCode) };
}

/** The TPU is taken; `who` is a process that holds it. Whoever it is may let go of it, so it is tried again. */
function busy(worker: WorkerId, who: string): OutcomeResult {
  const detail = `its TPU is held by ${who}, which is not of this job and is left alone`;
  return { kind: 'failed', evidence: { detail, worker, pattern: 'busy', line: who } };
}

/** It can never succeed as it was asked for. */
export function refused(worker: WorkerId, detail: string): OutcomeResult {
  return { kind: 'refused', evidence: evidence(worker, detail) };
}

/** Nothing came back: it did not happen when nothing was sent, and nobody knows when something was. */
export function noAnswer(worker: WorkerId, detail: string, sent: boolean): OutcomeResult {
  return { kind: sent ? 'unclear' : 'failed', evidence: evidence(worker, detail) };
}

function evidence(worker: WorkerId, detail: string, raw?: string, exitCode?: number): Evidence {
  return {
    detail,
    worker,
    ...(exitCode === undefined ? {} : { exitCode }),
    ...(raw === undefined || raw === '' ? {} : { raw }),
  };
}

/** The output of a script, for a message about an answer that makes no sense. */
function wordsOf(result: Extract<RunResult, { kind: 'ended' }>): string {
  const words = `${textFrom(result.stdout)}${textFrom(result.stderr)}`.trim();
  return words === '' ? `nothing, with exit code ${result.exitCode}` : words.slice(-500);
}

function textFrom(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** Sends what concerns `here` to this machine and all else to the workers. */
export function withHere(workers: MachinePort, here: MachinePort): MachinePort {
  const portOf = (ref: WorkerRef): MachinePort => (ref.worker === 'here' ? here : workers);
  return {
    async look(refs) {
      const [answers, answersHere] = await Promise.all([
        workers.look(refs.filter((ref) => ref.worker !== 'here')),
        here.look(refs.filter((ref) => ref.worker === 'here')),
      ]);
      const rest = { workers: [...answers], here: [...answersHere] };
      return refs.map((ref) => {
        const answer = (ref.worker === 'here' ? rest.here : rest.workers).shift();
        if (answer === undefined) throw new Error('a look answered fewer workers than it was asked for');
        return answer;
      });
    },
    step: (ref, step, byHand) => portOf(ref).step(ref, step, byHand),
    start: (ref, launch) => portOf(ref).start(ref, launch),
    stop: (ref, attempt, how, signal) => portOf(ref).stop(ref, attempt, how, signal),
    tail: (ref, attempt, from, receiver) => portOf(ref).tail(ref, attempt, from, receiver),
    forget(ref) {
      workers.forget(ref);
      here.forget(ref);
    },
  };
}
