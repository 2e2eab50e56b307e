// Outputs: what the programs of an observation printed last. It is copied, and searched for patterns, before the core decides:
// the machine may be released by that very decision.

import type { Backend, Clock, LogFiles, WorkerRef } from '../app/ports.ts';
import { allocationOf, commandWorkers, lastAttempt } from '../core/job.ts';
import type { Job } from '../core/job.ts';
import { hasSucceeded } from '../core/observation.ts';
import type { Known, Observation, WorkerFact, WorkerSeen } from '../core/observation.ts';
import { matchPattern } from '../core/patterns.ts';
import { troubleIn } from '../core/phases.ts';
import { second } from '../core/time.ts';
import type { Instant } from '../core/time.ts';
import type { DrainPatience, LogMirror } from './log-mirror.ts';
import { lookAtWorkers, workerRefs } from './observe.ts';

/** How much of the end of an output is searched for known patterns. */
const searched = 256 * 1024;
/** How long a pass waits for the last output: not long, since commands wait with it. A release waits for the rest. */
const lastWords: DrainPatience = { quiet: 5 * second, most: 5 * second };

/** Everything that the search needs. */
export interface OutputParts {
  readonly backend: Backend;
  readonly clock: Clock;
  readonly mirror: LogMirror;
  readonly logFiles: LogFiles;
}

/** The same observation with the patterns that were found in the outputs of ended and of silent programs. */
export async function withOutputs(job: Job, observation: Observation, parts: OutputParts): Promise<Observation> {
  const { workers } = observation;
  if (workers.length === 0) return observation;
  await Promise.all(workers.map((worker) => copyLastWords(job, worker, parts)));
  const refs = workerRefs(job, observation.allocations);
  return {
    ...observation,
    workers: await Promise.all(
      workers.map(async (worker, index) => {
        const ref = refs[index];
        const ended = await withPattern(job, worker, parts.logFiles);
        return ref === undefined ? ended : withTrouble(job, ended, parts, ref);
      }),
    ),
  };
}

/** The run of the attempt that is under way, if it has ended on this worker. */
function endedRun(job: Job, worker: WorkerFact): { readonly attempt: number; readonly failed: boolean } | undefined {
  const attempt = lastAttempt(job);
  if (attempt === undefined || attempt.endedAt !== null || worker.fact.kind === 'unknown') return undefined;
  if (!commandWorkers(job.spec.command, allocationOf(job, attempt.allocation).workers ?? 0).includes(worker.worker)) {
    return undefined;
  }
  const run = worker.fact.value.runs.find((one) => one.attempt === attempt.ordinal);
  if (run?.state === 'vanished') return { attempt: attempt.ordinal, failed: true };
  if (run?.state === 'exited') return { attempt: attempt.ordinal, failed: !hasSucceeded(run) };
  return undefined;
}

/** The rest of an ended program's output is copied before the core hears of the end, which may release the machine. */
async function copyLastWords(job: Job, worker: WorkerFact, { backend, mirror }: OutputParts): Promise<void> {
  const run = endedRun(job, worker);
  if (run === undefined) return;
  const output = { attempt: run.attempt, allocation: worker.allocation, worker: worker.worker };
  await mirror.drain(job, backend.machines, output, lastWords);
}

/**
 * The same fact with the pattern at the end of a silent run's output. The output is read after the observation, and the run may have
 * printed its last lines and ended in between. A second observation with the same age of the output rules that out.
 */
async function withTrouble(
  job: Job,
  worker: WorkerFact,
  { backend, clock, logFiles }: OutputParts,
  ref: WorkerRef,
): Promise<WorkerFact> {
  const run = silentRun(job, worker, clock.now());
  if (run === undefined || worker.fact.kind === 'unknown') return worker;
  const found = await foundIn(job, run.attempt, worker, logFiles, troubleIn);
  if (found === undefined) return worker;
  const [again] = await lookAtWorkers([ref], backend, clock);
  if (again === undefined || silentRun(job, again, clock.now())?.outputAt !== run.outputAt) return worker;
  return withMatch(worker, worker.fact, run.attempt, found);
}

/** The run of the open attempt on this worker while it runs and has been silent for the spec's `troubleTimeout`. */
function silentRun(
  job: Job,
  { fact }: WorkerFact,
  now: Instant,
): { readonly attempt: number; readonly outputAt: Instant } | undefined {
  const { troubleTimeout } = job.spec.limits;
  const attempt = lastAttempt(job);
  if (troubleTimeout === undefined || attempt === undefined || attempt.ending !== null || fact.kind === 'unknown')
    return undefined;
  const run = fact.value.runs.find((one) => one.attempt === attempt.ordinal);
  return run?.state === 'running' && now - run.outputAt >= troubleTimeout ? run : undefined;
}

async function withPattern(job: Job, worker: WorkerFact, logFiles: LogFiles): Promise<WorkerFact> {
  const run = endedRun(job, worker);
  if (run === undefined || !run.failed || worker.fact.kind === 'unknown') return worker;
  const search = (text: string): Found | undefined => matchPattern(text, job.spec.recovery.texts);
  const found = await foundIn(job, run.attempt, worker, logFiles, search);
  return found === undefined ? worker : withMatch(worker, worker.fact, run.attempt, found);
}

type Found = NonNullable<ReturnType<typeof matchPattern>>;

/** Undefined also without our copy of the output: then only the exit code counts. */
async function foundIn(
  job: Job,
  attempt: number,
  { worker }: WorkerFact,
  logFiles: LogFiles,
  search: (text: string) => Found | undefined,
): Promise<Found | undefined> {
  try {
    return search(new TextDecoder().decode(await logFiles.last(job, attempt, worker, searched)));
  } catch {
    return undefined;
  }
}

function withMatch(worker: WorkerFact, fact: Known<WorkerSeen>, attempt: number, { pattern, line }: Found): WorkerFact {
  return { ...worker, fact: { ...fact, value: { ...fact.value, matched: { attempt, pattern, line } } } };
}
