// Commands of a job's owner. A command only changes the desired state; the controller then makes it so. The same command
// given twice changes nothing the second time.

import { chain, withEvents, withoutEvents, withAttempt, type Change } from '../model/decision.ts';
import type { Digest } from '../../catalogue/digest.ts';
import type { EventBody } from '../model/event.ts';
import { removeFromList } from './finish.ts';
import { heldAllocations, openAttempt, usableAllocation } from '../model/job.ts';
import type { Desired, Job, StartRequest } from '../model/job.ts';
import { omitUndefined } from '../model/omit-undefined.ts';
import type { SituationName } from './situations.ts';
import type { Instant } from '../model/time.ts';

/**
 * docs/commands.md describes the commands, except two that only `tpu` sends. `disable-recovery`: the open attempt
 * continues, but no rule answers its end. `accept-exit` (`tpu ack`): an exit that waits for the cloud's report
 * (`Attempt.exitSeen`) is judged without that wait.
 */
export type Verb = 'start' | 'stop' | 'resume' | 'rerun' | 'cancel' | 'delete' | 'disable-recovery' | 'accept-exit';

export interface CommandOptions {
  /** The user who gives the command. */
  readonly by: string;
  /** The user is not the owner, so the end of the job names the user. */
  readonly onBehalf?: boolean;
  /** With stop: release the capacity too. */
  readonly release?: boolean;
  /** With start: run only the command, on the workers that the job holds ready. */
  readonly commandOnly?: boolean;
  /** With resume: the new copy of the working directory. */
  readonly workdirCopy?: number;
  /** The blob with the list of its files. */
  readonly workdirTree?: Digest;
  /** With start, resume and rerun: another job uses the persistent TPU. */
  readonly waitsForTpu?: boolean;
  /** With resume and rerun: US dollars, instead of `job.budget`. */
  readonly budgetUsd?: number;
  /** With delete: remove the job from the list now. The caller records its capacity as orphans. */
  readonly force?: boolean;
}

/** The job after that command, with its event; the same job if the command changes nothing. Call `checkAction` first. */
export function applyCommand(job: Job, verb: Verb, options: CommandOptions, now: Instant): Change {
  const { by } = options;
  const waits = options.waitsForTpu === true && { waitsForTpu: true as const };
  switch (verb) {
    case 'start': {
      const commandOnly = options.commandOnly === true && { commandOnly: true as const };
      return requestStart(job, verb, { startMode: 'fresh', at: now, ...commandOnly, ...waits }, { by });
    }
    case 'resume':
    case 'rerun':
      return requestStart(job, verb, { startMode: verb, at: now, ...waits }, options);
    case 'stop':
    case 'cancel': {
      const desired = verb === 'stop' && options.release !== true ? 'stopped' : 'cancelled';
      return requestEnd(job, verb, strictest(job.desired, desired), options, now);
    }
    case 'disable-recovery':
      if (job.recoveryDisabled === true) return withoutEvents(job);
      return withCommandEvent({ ...job, recoveryDisabled: true }, verb, by, now);
    case 'accept-exit': {
      const attempt = openAttempt(job);
      if (attempt === undefined || attempt.exitAcceptedAt !== undefined) return withoutEvents(job);
      return withCommandEvent(withAttempt(job, attempt.ordinal, { exitAcceptedAt: now }), verb, by, now);
    }
    case 'delete':
      return options.force === true ? forceRemove(job, by, now) : requestDelete(job, options, now);
  }
}

function withCommandEvent(job: Job, verb: Verb, by: string, now: Instant): Change {
  return withEvents(job, now, { kind: 'command_received', verb, by, desired: job.desired });
}

/** A later command cannot take back a release: `stop` after `cancel` keeps no capacity. */
function strictest(before: Desired, requested: Desired): Desired {
  const order: readonly Desired[] = ['running', 'stopped', 'cancelled', 'deleted'];
  return order.indexOf(requested) > order.indexOf(before) ? requested : before;
}

/** Records the start request, for which the next attempt is created. */
function requestStart(
  job: Job,
  verb: Verb,
  startRequest: StartRequest,
  { by, workdirCopy, workdirTree, budgetUsd }: CommandOptions,
): Change {
  const given = omitUndefined({ workdirCopy, workdirTree, budgetUsd });
  const { recoveryDisabled: _disabled, endedBy: _endedBy, budgetWarning: _warning, ...others } = job;
  const { ownerBudgetWarnings: _ownerWarnings, ...rest } = others;
  const next: Job = { ...rest, ...given, desired: 'running', cancelRequested: false, finish: null, startRequest };
  // An open attempt is ended first, so its situation stays.
  return withEvents(openAttempt(next) === undefined ? withSituation(next, 'start-requested') : next, startRequest.at, {
    kind: 'command_received',
    verb,
    by,
    desired: 'running',
    startMode: startRequest.startMode,
    ...given,
  });
}

/** A finished job keeps its verdict, except that `stopped` becomes `cancelled`. */
function requestEnd(job: Job, verb: Verb, desired: Desired, { by, onBehalf }: CommandOptions, now: Instant): Change {
  const cancelled = job.cancelRequested || verb !== 'stop';
  if (job.desired === desired && job.cancelRequested === cancelled) return withoutEvents(job);
  const becomesCancelled = cancelled && job.finish?.verdict === 'stopped';
  const finish = becomesCancelled ? { at: now, verdict: 'cancelled' as const, reason: job.finish.reason } : job.finish;
  const keepsNothing = desired === 'stopped' && (usableAllocation(job)?.readyAt ?? null) === null;
  const bodies: EventBody[] = [{ kind: 'command_received', verb, by, desired, ...(keepsNothing && { keepsNothing }) }];
  if (becomesCancelled) bodies.push({ kind: 'finished', verdict: 'cancelled', reason: job.finish.reason });
  const { endedBy: _endedBy, ...rest } = finish === null ? withSituation(job, endSituation(job)) : job;
  const other = onBehalf === true ? { endedBy: by } : {};
  const ended = { ...rest, ...other, desired, cancelRequested: cancelled, desiredAt: now, startRequest: null, finish };
  return withEvents(ended, now, ...bodies);
}

/** An attempt that is already ending keeps its own reason. */
function endSituation(job: Job): SituationName {
  const attempt = openAttempt(job);
  if (attempt === undefined) return 'ended-by-owner';
  return attempt.ending === null ? 'stop-requested' : 'attempt-ending';
}

/** A command stores the situation that it causes, so that the stored name is correct before the next pass. */
function withSituation(job: Job, situation: SituationName): Job {
  return { ...job, situation };
}

/** A finished job without capacity leaves the list at once. */
function requestDelete(job: Job, options: CommandOptions, now: Instant): Change {
  const ended = requestEnd(job, 'delete', 'deleted', options, now);
  const isEmpty = ended.job.finish !== null && !ended.job.removed && heldAllocations(ended.job).length === 0;
  return isEmpty ? chain(ended, (next) => removeFromList(withSituation(next, 'removed'), now)) : ended;
}

function forceRemove(job: Job, by: string, now: Instant): Change {
  const next: Job = { ...job, desired: 'deleted', cancelRequested: true, desiredAt: now, startRequest: null };
  return chain(withCommandEvent(withSituation(next, 'removed'), 'delete', by, now), (deleted) =>
    removeFromList(deleted, now),
  );
}
