// Worker step: a setup step on one worker, with the files that it needs, its log, and why it failed.

import { textOf } from '../app/errors.ts';
import type { StepByHand, WorkerRef } from '../app/ports.ts';
import type { Evidence } from '../core/job.ts';
import type { OutcomeResult } from '../core/observation.ts';
import type { SetupStep, StepFile, WorkerId } from '../core/spec.ts';
import { second, type Duration } from '../core/time.ts';
import { isStepKey, killStepScript, stepScript, type StepFileBytes, type StepMode } from '../remote/step.ts';
import type { RunRequest, RunResult } from '../remote/transport.ts';
import type { createWorkdirSender } from '../remote/workdir/send.ts';
import type { MachinesParts } from './machines.ts';

export interface StepParts {
  readonly parts: MachinesParts;
  readonly run: (ref: WorkerRef, request: RunRequest) => Promise<RunResult>;
  readonly workdirs: ReturnType<typeof createWorkdirSender>;
}

/** Added to a step's own time limit, for the connection. */
const stepMargin: Duration = 15 * second;
const killTimeout: Duration = 30 * second;
const answerMost = 1_000_000;

export async function runStep(
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

/** The output of a script, for a message about an answer that makes no sense. */
export function wordsOf(result: Extract<RunResult, { kind: 'ended' }>): string {
  const words = `${textFrom(result.stdout)}${textFrom(result.stderr)}`.trim();
  return words === '' ? `nothing, with exit code ${result.exitCode}` : words.slice(-500);
}

export function textFrom(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
