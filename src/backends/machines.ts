// Observes workers and acts on them through a shell, over any transport. Shared by all backends whose workers have a
// shell.

import { BlobError, messageOf } from '../app/errors.ts';
import { omitUndefined } from '../core/model/omit-undefined.ts';
import { mapConcurrent } from '../app/concurrency.ts';
import type {
  AllocationRef,
  Blobs,
  MachinePort,
  ManualStepOptions,
  SecretStore,
  WorkdirCopies,
  TailReceiver,
  TailRequest,
  WorkerRef,
} from '../app/ports.ts';
import { commandWorkers, openAttempt, type Evidence, type Job } from '../core/model/job.ts';
import { known, unknown, type Observed, type OutcomeResult, type WorkerStatus } from '../core/model/observation.ts';
import type { Launch } from '../core/decide/launch.ts';
import type { SetupStep, StepFile, WorkerId } from '../core/model/spec.ts';
import { second, type Duration, type Instant } from '../core/model/time.ts';
import {
  followScript,
  observeScript,
  parseObservation,
  remainderScript,
  stopScript,
  tailExitCodes,
} from '../remote/attempt.ts';
import { invalidVariable, startScript } from '../remote/launch.ts';
import { jobMarker, runMarker } from '../remote/run-folder.ts';
import { isStepKey, killStepScript, stepScript, type StepFileBytes } from '../remote/step.ts';
import type { TransportResult, RunRequest, RunResult } from '../remote/transport.ts';
import { createWorkdirSender } from '../remote/workdir/send.ts';

export interface ScriptParts {
  readonly run: (ref: WorkerRef, request: RunRequest) => Promise<RunResult>;
  /** The job's folder on a worker, quoted for a shell script. Usually `remoteRoot` of remote/run-folder.ts. */
  readonly root: (ref: WorkerRef) => string;
  /** Appends output of a setup step; an empty chunk if the step has ended without output. */
  readonly appendStepLog: (job: Job, step: string, worker: WorkerId, chunk: Uint8Array) => Promise<void>;
  readonly blobs: Pick<Blobs, 'read'>;
  readonly openWorkdir: WorkdirCopies['open'];
  readonly readSecret: SecretStore['read'];
  readonly now: () => Instant;
  /** For this machine, whose clock is ours. `jumpedAt` is the last forward jump of the clock, or 0. */
  readonly clock?: () => { readonly now: Instant; readonly jumpedAt: Instant };
}

export interface MachinesParts extends Omit<ScriptParts, 'run' | 'clock'> {
  /** Called for every action, so it must be cheap. Never rejects: `closed` has the reason. */
  readonly findTransport: (ref: WorkerRef) => Promise<TransportResult>;
  readonly disconnect: (ref: AllocationRef) => void;
}

/** A worker that does not answer must be noticed within ten seconds. */
const observeTimeout: Duration = 8 * second;
const startTimeout: Duration = 30 * second;
/** The worker repeats a kill for at least five seconds before it reports the remaining processes. */
const stopTimeout: Duration = 30 * second;
const maxConcurrentObservations = 64;
const maxAnswerBytes = 1_000_000;

/** The actions that are one script each. */
export function createScriptMachines(parts: ScriptParts): Pick<MachinePort, 'observe' | 'runStep' | 'stop'> {
  const { now, run } = parts;
  const workdirs = createWorkdirSender();

  async function observe(ref: WorkerRef): Promise<Observed<WorkerStatus>> {
    const { job, worker } = ref;
    const expected = expectedAttempt(ref);
    const clock = parts.clock?.();
    const result = await run(ref, {
      script: observeScript(parts.root(ref), {
        allocation: ref.allocation.ordinal,
        jobMarker: jobMarker(job),
        marker: (attempt) => runMarker(job, attempt, worker),
        ...omitUndefined({ expectedAttempt: expected, clock }),
      }),
      timeoutMs: observeTimeout,
      maxOutputBytes: maxAnswerBytes,
      isRepeatable: true,
    });
    if (result.kind === 'no_answer') return unknown(`worker ${worker}: ${result.reason}`, now());
    const seen = parseObservation(decodeText(result.stdout), clock?.now ?? now());
    if (seen === undefined) return unknown(`worker ${worker} sent an unexpected answer: ${outputOf(result)}`, now());
    return known(seen, now());
  }

  return {
    observe: (refs) => mapConcurrent(refs, maxConcurrentObservations, observe),

    runStep: (ref, step, manual) => runStep(parts, workdirs, ref, step, manual),

    async stop(ref, attempt, how, signal) {
      const { job, worker } = ref;
      const name = signal.replace(/^SIG/u, '');
      if (!/^[A-Z0-9+-]+$/u.test(name)) return refused(worker, `${signal} is not a signal`);
      const result = await run(ref, {
        script: stopScript(parts.root(ref), { attempt, marker: runMarker(job, attempt, worker), how, signal: name }),
        timeoutMs: stopTimeout,
        maxOutputBytes: maxAnswerBytes,
      });
      if (result.kind === 'no_answer') return noAnswer(worker, `worker ${worker}: ${result.reason}`, result.sent);
      const answer = decodeText(result.stdout);
      if (/^(gone|asked \d+)\n$/u.test(answer)) return { kind: 'done' };
      if (answer.startsWith('left '))
        return failed(worker, `these processes on worker ${worker} do not end after a kill: ${answer.slice(5).trim()}`);
      return failed(worker, `worker ${worker} could not stop attempt ${attempt}: ${outputOf(result)}`);
    },
  };
}

export function createMachines(parts: MachinesParts): MachinePort {
  async function run(ref: WorkerRef, request: RunRequest): Promise<RunResult> {
    const found = await parts.findTransport(ref);
    if (found.kind === 'closed') return { kind: 'no_answer', reason: found.reason, sent: false, timedOut: false };
    return found.transport.run(request);
  }

  return {
    ...createScriptMachines({ ...parts, run }),

    async start(ref, launch) {
      const { job, worker } = ref;
      const read = await readSecrets(parts, ref, launch);
      if (read.kind !== 'read') return read;
      const result = await run(ref, {
        script: startScript(parts.root(ref), launch, runMarker(job, launch.attempt.ordinal, worker), read.secrets),
        timeoutMs: startTimeout,
        maxOutputBytes: maxAnswerBytes,
      });
      if (result.kind === 'no_answer') return noAnswer(worker, `worker ${worker}: ${result.reason}`, result.sent);
      return startOutcome(worker, /^launch (.*)$/mu.exec(decodeText(result.stdout))?.[1], outputOf(result));
    },

    tail: (ref, request, receiver) => openTail(parts, ref, request, receiver),

    disconnect: parts.disconnect,
  };
}

/** Without the attempt's folder, its marker has to be searched, which reads all processes. */
function expectedAttempt({ job, allocation, worker }: WorkerRef): number | undefined {
  const attempt = openAttempt(job);
  if (attempt === undefined || attempt.startedAt === null) return undefined;
  const isOnAllocation = worker === 'controller' || attempt.allocation === allocation.ordinal;
  const workerIds = commandWorkers(job.spec.command, allocation.workers ?? 0);
  return isOnAllocation && workerIds.includes(worker) ? attempt.ordinal : undefined;
}

const stepMargin: Duration = 15 * second;
const killTimeout: Duration = 30 * second;

async function runStep(
  parts: ScriptParts,
  workdirs: ReturnType<typeof createWorkdirSender>,
  ref: WorkerRef,
  step: SetupStep,
  manual: ManualStepOptions | undefined,
): Promise<OutcomeResult> {
  const { run } = parts;
  const { job, worker, allocation } = ref;
  // The caller's message names the step and the worker; these messages continue it.
  if (!isStepKey(step.key)) return refused(worker, `its key is not a valid file name: ${step.key}`);
  const root = parts.root(ref);
  const copy = step.workdirCopy;
  let files: readonly StepFileBytes[];
  try {
    files = await readStepFiles(parts, job, step);
    if (copy !== undefined) {
      const open = () => parts.openWorkdir(job, copy);
      const sent = await workdirs.send((request) => run(ref, request), root, open);
      if (sent.kind === 'failed') return failed(worker, `the working directory could not be copied: ${sent.reason}`);
    }
  } catch (error) {
    // Another try would not help.
    if (error instanceof BlobError) return refused(worker, error.message.replace(/\.$/u, ''));
    return failed(worker, messageOf(error));
  }
  const mode = manual === undefined ? 'unless-proven' : manual.force ? 'apply' : 'check';
  let outputTail = '';
  let logProblem: string | undefined;
  const result = await run(ref, {
    script: stepScript(root, allocation.ordinal, step, files, mode),
    timeoutMs: step.timeoutMs + stepMargin,
    maxOutputBytes: 64_000,
    onOutput: async (chunk) => {
      outputTail = (outputTail + decodeText(chunk)).slice(-2_000);
      await manual?.onOutput(chunk);
      try {
        await parts.appendStepLog(job, step.name, worker, chunk);
      } catch (error) {
        // A full local disk must not abort an installation on the worker.
        logProblem = messageOf(error);
      }
    },
  });
  if (result.kind === 'no_answer') {
    if (!result.timedOut) return noAnswer(worker, result.reason, result.sent);
    await run(ref, {
      script: killStepScript(root, allocation.ordinal, step),
      timeoutMs: killTimeout,
      maxOutputBytes: maxAnswerBytes,
    });
    return failed(
      worker,
      `it took longer than ${Math.round(step.timeoutMs / second)} s${lastLine(outputTail)}`,
      lastLines(outputTail),
    );
  }
  const [, outcome, command] =
    /(?:^|\n)step (\d+|vanished|cannot .*)\n(?:command (.*)\n)?$/u.exec(decodeText(result.stderr)) ?? [];
  if (outcome === undefined) return noAnswer(worker, `the connection was lost: ${outputOf(result)}`, true);
  if (outcome === '0') {
    // An existing empty log shows that the step ran and printed nothing. The step succeeded even without it.
    if (outputTail === '') await parts.appendStepLog(job, step.name, worker, new Uint8Array(0)).catch(() => undefined);
    return { kind: 'done' };
  }
  if (outcome === 'vanished')
    return failed(worker, `another program killed it${lastLine(outputTail)}`, lastLines(outputTail));
  if (outcome.startsWith('cannot ')) return failed(worker, `it cannot ${outcome.slice('cannot '.length)}`);
  const note = logProblem === undefined ? '' : ` (its log is incomplete: ${logProblem})`;
  return failed(
    worker,
    `${formatStepFailure(outcome, command, outputTail)}${note}`,
    lastLines(outputTail),
    Number(outcome),
  );
}

async function readStepFiles(parts: ScriptParts, job: Job, step: SetupStep): Promise<readonly StepFileBytes[]> {
  return Promise.all(
    step.files.map(async (file) => ({ to: file.to, mode: file.mode, bytes: await readStepFile(parts, job, file) })),
  );
}

async function readStepFile({ readSecret, blobs }: ScriptParts, job: Job, file: StepFile): Promise<Uint8Array> {
  switch (file.kind) {
    case 'inline':
      return Buffer.from(file.base64, 'base64');
    case 'secret':
      return readSecret(job, file.secret);
    case 'blob':
      try {
        return await blobs.read(file.blob);
      } catch (error) {
        throw error instanceof BlobError ? new BlobError(`the content of ${file.to}, ${error.problem}`) : error;
      }
  }
}

const maxCommandLength = 80;

/** For a compound command bash reports only its first line, which is part of jobman's own script. */
const shellFragmentPattern = /^(case|if|while|until|for)\s/u;

/** The cause of a failed step: its last meaningful line, the exit code, and the command if it is short. */
export function formatStepFailure(code: string, command: string | undefined, printed: string): string {
  const bare = command?.replace(/^sudo -n (env (\w+=('[^']*'|\S*) )*)?/u, '').trim();
  const line = meaningfulLine(printed).replace(/\.$/u, '');
  const isReadable =
    bare !== undefined && bare !== '' && bare.length <= maxCommandLength && !shellFragmentPattern.test(bare);
  const commandNote = isReadable ? ` of \`${bare}\`` : '';
  if (line !== '') return `${line} (exit code ${code}${commandNote})`;
  return `exit code ${code}${commandNote}, no output`;
}

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

/** The pipe to a container has room for no more. */
const maxSecretsBytes = 48 * 1024;

/** The secrets of a launch by name, or why it cannot start: its environment is invalid, or a secret is unavailable. */
export async function readSecrets(
  { readSecret }: Pick<MachinesParts, 'readSecret'>,
  { job, worker }: WorkerRef,
  launch: Launch,
): Promise<{ readonly kind: 'read'; readonly secrets: Readonly<Record<string, string>> } | OutcomeResult> {
  const invalid = invalidVariable(launch.env);
  if (invalid !== undefined)
    return refused(worker, `the variable ${invalid} has a name or a value that is not valid in an environment`);
  const secrets: Record<string, string> = {};
  let bytes = 0;
  for (const [name, ref] of Object.entries(launch.secrets ?? {})) {
    try {
      // Editors end a file with a newline, which is not part of a password.
      secrets[name] = decodeText(await readSecret(job, ref)).replace(/\r?\n$/u, '');
    } catch (error) {
      return failed(worker, messageOf(error));
    }
    bytes += secrets[name].length;
  }
  const invalidSecret = invalidVariable(secrets);
  if (invalidSecret !== undefined)
    return failed(worker, `the secret ${invalidSecret} has a name or a value that is not valid in an environment`);
  if (bytes > maxSecretsBytes)
    return failed(worker, `the secrets are longer than ${maxSecretsBytes / 1024} KiB in total`);
  return { kind: 'read', secrets };
}

export function startOutcome(worker: WorkerId, answer: string | undefined, output: string): OutcomeResult {
  if (answer === 'started' || answer === 'already') return { kind: 'done' };
  if (answer === 'restarted')
    return failed(worker, `worker ${worker} rebooted after setup, so jobman did not start the command`);
  // Another process uses the TPU. It may release it, so the start is retried.
  if (answer?.startsWith('busy ') === true) {
    const line = answer.slice('busy '.length);
    return {
      kind: 'failed',
      evidence: { message: `another program uses its TPU: ${line}`, worker, pattern: 'busy', line },
    };
  }
  if (answer?.startsWith('failed ') === true)
    return failed(worker, `worker ${worker} could not start the command: ${answer.slice(7)}`);
  // The launcher may have been killed at any point. Only an observation can decide.
  return noAnswer(worker, `worker ${worker} did not report whether the command started: ${output}`, true);
}

/** After the end it requests the rest from the received offset: only the receiver knows what it has. */
function openTail(parts: MachinesParts, ref: WorkerRef, request: TailRequest, receiver: TailReceiver): () => void {
  const { job, worker } = ref;
  const root = parts.root(ref);
  const marker = runMarker(job, request.attempt, worker);
  let offset = request.from;
  let isCancelled = false;
  let cancelStream = (): void => undefined;

  const drop = (reason: string): void => {
    if (!isCancelled) receiver.dropped(`worker ${worker}: ${reason}`);
  };

  async function open(script: string, onEnded: () => void): Promise<void> {
    const found = await parts.findTransport(ref);
    if (isCancelled) return;
    if (found.kind === 'closed') {
      drop(found.reason);
      return;
    }
    cancelStream = found.transport.stream({
      script,
      async onBytes(chunk) {
        if (isCancelled) return;
        offset += chunk.length;
        try {
          await receiver.bytes(chunk);
        } catch (error) {
          drop(`the output could not be stored: ${messageOf(error)}`);
          isCancelled = true;
          cancelStream();
        }
      },
      onEnd(end) {
        if (isCancelled) return;
        if (end.kind === 'dropped') drop(end.reason);
        else if (end.exitCode === tailExitCodes.missing) drop(`attempt ${request.attempt} has no files there`);
        else if (end.exitCode === tailExitCodes.ended) onEnded();
        else {
          const stderr = end.stderr.trim();
          drop(`following the output ended with exit code ${end.exitCode}${stderr === '' ? '' : `: ${stderr}`}`);
        }
      },
    });
  }

  void open(followScript(root, { ...request, marker }), () => {
    void open(remainderScript(root, { ...request, from: offset }), () => receiver.ended());
  });
  return () => {
    isCancelled = true;
    cancelStream();
  };
}

/** The action had no success; it may be retried. */
export function failed(worker: WorkerId, detail: string, line?: string, exitCode?: number): OutcomeResult {
  return { kind: 'failed', evidence: evidence(worker, detail, line, exitCode) };
}

/** The action cannot succeed. */
function refused(worker: WorkerId, detail: string): OutcomeResult {
  return { kind: 'refused', evidence: evidence(worker, detail) };
}

/** No answer: `failed` if nothing was sent, else `unclear`. */
export function noAnswer(worker: WorkerId, detail: string, sent: boolean): OutcomeResult {
  return { kind: sent ? 'unclear' : 'failed', evidence: evidence(worker, detail) };
}

function evidence(worker: WorkerId, detail: string, raw?: string, exitCode?: number): Evidence {
  return {
    message: detail,
    worker,
    ...(exitCode === undefined ? {} : { exitCode }),
    ...(raw === undefined || raw === '' ? {} : { raw }),
  };
}

function outputOf(result: Extract<RunResult, { kind: 'ended' }>): string {
  const output = `${decodeText(result.stdout)}${decodeText(result.stderr)}`.trim();
  return output === '' ? `no output, exit code ${result.exitCode}` : output.slice(-500);
}

function decodeText(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** Sends each worker to one of two ports: to `here` if it is this machine. */
export function withThisMachine(
  workers: MachinePort,
  here: MachinePort,
  isHere: (ref: WorkerRef) => boolean = (ref) => ref.worker === 'controller',
): MachinePort {
  const portOf = (ref: WorkerRef): MachinePort => (isHere(ref) ? here : workers);
  return {
    async observe(refs) {
      const [answers, ownAnswers] = await Promise.all([
        workers.observe(refs.filter((ref) => !isHere(ref))),
        here.observe(refs.filter(isHere)),
      ]);
      const remaining = { workers: [...answers], here: [...ownAnswers] };
      return refs.map((ref) => {
        const answer = (isHere(ref) ? remaining.here : remaining.workers).shift();
        if (answer === undefined) throw new Error('an observation returned fewer workers than requested');
        return answer;
      });
    },
    runStep: (ref, step, manual) => portOf(ref).runStep(ref, step, manual),
    start: (ref, launch) => portOf(ref).start(ref, launch),
    stop: (ref, attempt, how, signal) => portOf(ref).stop(ref, attempt, how, signal),
    tail: (ref, request, receiver) => portOf(ref).tail(ref, request, receiver),
    isTailFree: (ref) => portOf(ref).isTailFree?.(ref) === true,
    disconnect(ref) {
      workers.disconnect(ref);
      here.disconnect(ref);
    },
  };
}
