// Commands: what the owner of a job asks. A command changes only what is wanted; the controller makes it so.
// A command that is given twice changes nothing the second time.

import { usableAllocation } from './allocate.ts';
import { chain, withEvents, unchanged, withAttempt } from '../model/decision.ts';
import type { Change } from '../model/decision.ts';
import type { EventBody } from '../model/event.ts';
import { remove } from './end.ts';
import { heldAllocations, openAttempt } from '../model/job.ts';
import type { Desired, Job, StartRequest } from '../model/job.ts';
import type { SituationName } from './situations.ts';
import type { Instant } from '../model/time.ts';

/**
 * A command of the owner about a job. `applyCommand` decides what each does, and docs/commands.md describes them, except two that only `tpu`
 * sends. `disable-recovery`: the attempt under way continues, and no rule answers its end. `accept-exit` (`tpu ack`): an exit that waits for the
 * cloud's report (`Attempt.exitSeen`) is judged without that wait.
 */
export type Verb = 'start' | 'stop' | 'resume' | 'rerun' | 'cancel' | 'delete' | 'disable-recovery' | 'accept-exit';

/** Who says it, and how far it is to go. */
export interface CommandOptions {
  readonly by: string;
  /** They are not its owner, and were asked whether they mean to say it all the same. */
  readonly onBehalf?: boolean;
  /** With stop: let the capacity go too. */
  readonly release?: boolean;
  /** With start: just the command, on the workers that the job holds ready. */
  readonly commandOnly?: boolean;
  /** With resume: the copy of the working directory that was taken anew. */
  readonly workdirCopy?: number;
  /** With delete: take it off the list now. The caller records what it may still hold as a stray. */
  readonly force?: boolean;
}

/** The job after that command, with its line of history; the same job when it changes nothing. Call `checkCommand` first. */
export function applyCommand(job: Job, verb: Verb, options: CommandOptions, now: Instant): Change {
  switch (verb) {
    case 'start':
      return requestStart(
        job,
        verb,
        { startMode: 'fresh', at: now, ...(options.commandOnly === true && { commandOnly: true }) },
        options.by,
      );
    case 'resume':
    case 'rerun':
      return requestStart(
        job,
        verb,
        { startMode: verb, at: now },
        options.by,
        verb === 'resume' ? options.workdirCopy : undefined,
      );
    case 'stop':
      return requestEnd(
        job,
        verb,
        strictest(job.desired, options.release === true ? 'cancelled' : 'stopped'),
        options.by,
        now,
      );
    case 'cancel':
      return requestEnd(job, verb, strictest(job.desired, 'cancelled'), options.by, now);
    case 'disable-recovery':
      if (job.recoveryDisabled === true) return unchanged(job);
      return withEvents({ ...job, recoveryDisabled: true }, now, {
        kind: 'command_received',
        verb,
        by: options.by,
        desired: job.desired,
      });
    case 'accept-exit': {
      const attempt = openAttempt(job);
      if (attempt === undefined || attempt.exitAcceptedAt !== undefined) return unchanged(job);
      const { desired } = job;
      return withEvents(withAttempt(job, attempt.ordinal, { exitAcceptedAt: now }), now, {
        kind: 'command_received',
        verb,
        by: options.by,
        desired,
      });
    }
    case 'delete':
      return options.force === true ? forceRemove(job, options.by, now) : requestDelete(job, options.by, now);
  }
}

/** A newer word never gives back what an earlier one let go: `stop` after `cancel` keeps nothing. */
function strictest(before: Desired, requested: Desired): Desired {
  const order: readonly Desired[] = ['running', 'stopped', 'cancelled', 'deleted'];
  return order.indexOf(requested) > order.indexOf(before) ? requested : before;
}

/** The job is wanted again: a settled one is opened, and the next attempt answers the wish. */
function requestStart(job: Job, verb: Verb, startRequest: StartRequest, by: string, workdirCopy?: number): Change {
  const withCopy = workdirCopy !== undefined && { workdirCopy };
  const { recoveryDisabled: _taken, endedBy: _ended, ...open } = job;
  const next: Job = {
    ...open,
    ...withCopy,
    desired: 'running',
    cancelRequested: false,
    finish: null,
    startRequest,
  };
  // An attempt that is under way is ended first, and its situation stays.
  return withEvents(openAttempt(next) === undefined ? withSituation(next, 'start-requested') : next, startRequest.at, {
    kind: 'command_received',
    verb,
    by,
    desired: 'running',
    startMode: startRequest.startMode,
    ...withCopy,
  });
}

/** The program is to end. What has settled by itself keeps its verdict; what was only stopped becomes cancelled. */
function requestEnd(job: Job, verb: Verb, desired: Desired, by: string, now: Instant): Change {
  const cancelled = job.cancelRequested || verb !== 'stop';
  if (job.desired === desired && job.cancelRequested === cancelled) return unchanged(job);
  const becomesCancelled = cancelled && job.finish?.verdict === 'stopped';
  const finish = becomesCancelled ? { at: now, verdict: 'cancelled' as const, reason: job.finish.reason } : job.finish;
  const keepsNothing = desired === 'stopped' && (usableAllocation(job)?.readyAt ?? null) === null;
  const bodies: EventBody[] = [{ kind: 'command_received', verb, by, desired, ...(keepsNothing && { keepsNothing }) }];
  if (becomesCancelled) bodies.push({ kind: 'finished', verdict: 'cancelled', reason: job.finish.reason });
  const { endedBy: _before, ...rest } = finish === null ? withSituation(job, endSituation(job)) : job;
  const other = by === job.owner ? {} : { endedBy: by };
  return withEvents(
    { ...rest, ...other, desired, cancelRequested: cancelled, desiredAt: now, startRequest: null, finish },
    now,
    ...bodies,
  );
}

/** An attempt that is ending already goes on ending for its own reason. */
function endSituation(job: Job): SituationName {
  const attempt = openAttempt(job);
  if (attempt === undefined) return 'ended-by-owner';
  return attempt.ending === null ? 'stop-requested' : 'attempt-ending';
}

/** A command names the situation that it makes, so that the stored name is true until the next pass, too. */
function withSituation(job: Job, situation: SituationName): Job {
  return { ...job, situation };
}

/** A job that has ended and holds nothing leaves the list at once: there is nothing to wait for. */
function requestDelete(job: Job, by: string, now: Instant): Change {
  const ended = requestEnd(job, 'delete', 'deleted', by, now);
  const isEmpty = ended.job.finish !== null && !ended.job.removed && heldAllocations(ended.job).length === 0;
  return isEmpty ? chain(ended, (next) => remove(withSituation(next, 'removed'), now)) : ended;
}

function forceRemove(job: Job, by: string, now: Instant): Change {
  const next: Job = {
    ...job,
    desired: 'deleted',
    cancelRequested: true,
    desiredAt: now,
    startRequest: null,
    removed: true,
  };
  return withEvents(
    withSituation(next, 'removed'),
    now,
    { kind: 'command_received', verb: 'delete', by, desired: 'deleted' },
    { kind: 'removed' },
  );
}
