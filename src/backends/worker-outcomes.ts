// Worker outcomes: what came of an action on a worker, and why, in words.

import type { Evidence } from '../core/job.ts';
import type { OutcomeResult } from '../core/observation.ts';
import type { WorkerId } from '../core/spec.ts';
import type { RunResult } from '../remote/transport.ts';

/** The outcome that the launcher's line stands for. */
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

/** The end of a sentence with that line; nothing if there is none. */
export function lastLine(text: string): string {
  const line = meaningfulLine(text);
  return line === '' ? '' : `: ${line}`;
}

/** The end of a failed step's output, for people. */
export function lastLines(text: string): string {
  return text.trimEnd().split('\n').slice(-10).join('\n');
}

/** The output of a script, for a message about an answer that makes no sense. */
export function wordsOf(result: Extract<RunResult, { kind: 'ended' }>): string {
  const words = `${textFrom(result.stdout)}${textFrom(result.stderr)}`.trim();
  return words === '' ? `nothing, with exit code ${result.exitCode}` : words.slice(-500);
}

/** Bytes as text. */
export function textFrom(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}
