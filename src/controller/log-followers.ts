// Log followers: which outputs of a job are to be copied now, and which are given up. The copying is log-mirror.ts.

import type { Backend, Clock, Pause } from '../app/ports.ts';
import { commandWorkers, isUnread, openAttempt } from '../core/job.ts';
import type { Attempt, Job } from '../core/job.ts';
import type { WorkerFact } from '../core/observation.ts';
import { minute } from '../core/time.ts';
import type { Instant } from '../core/time.ts';
import { isSameOutput } from './log-mirror.ts';
import type { LogMirror, Output } from './log-mirror.ts';
import type { ClockWatch } from './schedule.ts';

/** How long after its end a log that could not be copied is tried again; twice that where the clock was set back. */
const patience = 5 * minute;

export interface LogFollowers {
  /** True while an output of an ended attempt is not copied to its end, and its machine may still answer. */
  isUnfinished(job: Job): boolean;
  /** Follows what runs, and what has ended and is not copied yet; gives up what comes from machines that will not answer. */
  follow(job: Job, backend: Backend, workers: readonly WorkerFact[]): void;
  /** No pass of the job is due any more. */
  rest(job: Job): void;
}

export function createLogFollowers(options: {
  readonly mirror: LogMirror;
  readonly clock: Clock;
  readonly watch: ClockWatch;
  readonly lease: { readonly pause: Pause | undefined };
}): LogFollowers {
  const { mirror, clock, watch, lease } = options;

  function unfinishedOutputs(job: Job): readonly Output[] {
    if (isUnread(job)) return [];
    const now = clock.now();
    return job.attempts
      .filter((one) => one.startedAt !== null && one.endedAt !== null && !isLongOver(job, one, now))
      .flatMap((attempt) => outputsOf(job, attempt))
      .filter((output) => !mirror.isCopied(job, output) && isWithinReach(job, output));
  }

  /**
   * Counted from when its end was seen: a program may have ended long ago, while nobody was there to look. Capacity that came
   * back later, as from maintenance, could not be read before that, nor could anything be while no controller was running. A
   * time far ahead was written by a clock that has been set back since, and how long ago it was is not known.
   */
  function isLongOver(job: Job, { ordinal, endedAt, allocation }: Attempt, now: Instant): boolean {
    const seenAt = job.attempts[ordinal]?.createdAt ?? job.settled?.at ?? endedAt;
    // A jump that no round has noticed yet is left to the next.
    if (seenAt === null || watch.hasJumpedSince(now)) return false;
    const seen = job.allocations[allocation - 1]?.seen;
    const backAt = seen?.state === 'ready' ? seen.at : seenAt;
    const sinceAt = Math.max(seenAt, backAt);
    const { pause } = lease;
    // A pause that ends ahead of now was noted before the clock was set back; the next renewal of the lease puts it right.
    const resumedAt = pause !== undefined && pause.from < sinceAt + patience ? Math.min(pause.until, now) : sinceAt;
    return Math.abs(now - Math.max(sinceAt, resumedAt, watch.jumpedAt)) > patience;
  }

  return {
    isUnfinished: (job) => unfinishedOutputs(job).length > 0,
    follow(job, backend, workers) {
      const unfinished = unfinishedOutputs(job);
      const open = job.removed ? undefined : openAttempt(job);
      const isGone = ({ allocation, worker }: Output): boolean =>
        worker !== 'here' && job.allocations[allocation - 1]?.goneAt !== null;
      const isUnwanted = (output: Output): boolean =>
        output.attempt !== open?.ordinal && !unfinished.some((one) => isSameOutput(one, output));
      mirror.giveUp(job, (output) => isGone(output) || isUnwanted(output), isGone);
      for (const { allocation, worker, fact } of workers) {
        const hasRun = fact.kind === 'known' && fact.value.runs.some((run) => run.attempt === open?.ordinal);
        if (open !== undefined && hasRun)
          mirror.follow(job, backend.machines, { attempt: open.ordinal, allocation, worker });
      }
      for (const output of unfinished) mirror.follow(job, backend.machines, output);
    },
    rest(job) {
      // While its logs may still be asked for, what was copied must be known, or each pass would copy it again.
      const isOld = job.attempts.every((attempt) => attempt.endedAt !== null && isLongOver(job, attempt, clock.now()));
      if (isOld || isUnread(job)) mirror.forget(job.id);
    },
  };
}

function outputsOf(job: Job, attempt: Attempt): readonly Output[] {
  const workers = commandWorkers(job.spec.command, job.allocations[attempt.allocation - 1]?.workers ?? 0);
  return workers.map((worker) => ({ attempt: attempt.ordinal, allocation: attempt.allocation, worker }));
}

/** A worker that is released takes its copy along; what ran on this machine can be read whatever becomes of the capacity. */
function isWithinReach(job: Job, { allocation, worker }: Output): boolean {
  const from = job.allocations[allocation - 1];
  return worker === 'here' || (from !== undefined && from.goneAt === null && from.releasedAt === null);
}
