// Worker step: a setup step on one worker, with the files that it needs, its log, and why it failed.

import type { StepByHand, WorkerRef } from '../app/ports.ts';
import type { OutcomeResult } from '../core/observation.ts';
import type { SetupStep, StepFile } from '../core/spec.ts';
import { second } from '../core/time.ts';
import type { Duration } from '../core/time.ts';
import { isStepKey, killStepScript, stepScript } from '../remote/step.ts';
import type { StepFileBytes, StepMode } from '../remote/step.ts';
import { textOf } from '../remote/text-of.ts';
import type { RunRequest, RunResult } from '../remote/transport.ts';
import type { createWorkdirSender } from '../remote/workdir/send.ts';
import type { MachinesParts } from './machines.ts';
import { failed, failureText, lastLine, lastLines, noAnswer, refused, textFrom, wordsOf } from './worker-outcomes.ts';

/** The parts of the machines that a step uses. */
export interface StepParts {
  readonly parts: MachinesParts;
  readonly run: (ref: WorkerRef, request: RunRequest) => Promise<RunResult>;
  readonly workdirs: ReturnType<typeof createWorkdirSender>;
}

/** Added to a step's own time limit, for the connection. */
const stepMargin: Duration = 15 * second;
/** How long the end of a step that took too long may take. */
const killTimeout: Duration = 30 * second;
const answerMost = 1_000_000;

/** MachinePort.step. */
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

/** Whether the step's proof or check may replace running it. */
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
