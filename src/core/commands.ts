// Commands: what the owner of a job asks. A command changes only what is wanted; the controller makes it so.
// A command that is given twice changes nothing the second time.

import { usableAllocation } from './allocate.ts';
import { chain, told, unchanged, withAttempt } from './decision.ts';
import type { Change, EventBody } from './decision.ts';
import { remove } from './attempts.ts';
import { hasEnded, heldAllocations, openAttempt } from './job.ts';
import type { Desired, Job, Wish } from './job.ts';
import { phaseOf } from './phase.ts';
import type { SituationName } from './situation.ts';
import type { Instant } from './time.ts';

/**
 * A command of the owner about a job. `ask` decides what each does, and docs/commands.md describes them, except two that only `tpu`
 * sends. `last`: the attempt under way continues, and no rule answers its end. `judge` (`tpu ack`): an exit that waits for the
 * cloud's report (`Attempt.exitSeen`) is judged without that wait.
 */
export type Verb = 'start' | 'stop' | 'resume' | 'rerun' | 'cancel' | 'delete' | 'last' | 'judge';

/** Who says it, and how far it is to go. */
export interface AskOptions {
  readonly by: string;
  /** They are not its owner, and were asked whether they mean to say it all the same. */
  readonly onBehalf?: boolean;
  /** With stop: let the capacity go too. */
  readonly release?: boolean;
  /** With start: just the command, on the workers that the job holds ready. */
  readonly commandOnly?: boolean;
  /** With resume: the copy of the working directory that was taken anew. */
  readonly copy?: number;
  /** With delete: take it off the list now. The caller records what it may still hold as a stray. */
  readonly force?: boolean;
}

/** Yes, or the sentence that a person reads instead. */
export type Can = { readonly ok: true } | { readonly ok: false; readonly sentence: string };

const yes: Can = { ok: true };

function no(sentence: string): Can {
  return { ok: false, sentence };
}

/** Whether that person may say that word to that job now, or the sentence that says why not and what to do instead. */
export function jobCan(
  job: Job,
  verb: Verb,
  by: string,
  options: Pick<AskOptions, 'release' | 'commandOnly' | 'onBehalf'> = {},
): Can {
  const it = `job ${job.id} (${job.spec.name})`;
  if (by !== job.owner && options.onBehalf !== true)
    return no(
      `${it} belongs to ${job.owner}; only its owner may ${verb === 'last' ? 'say when it is not to run again' : verb === 'judge' ? 'have its end judged' : `${verb} it`}`,
    );
  const instead = verb === 'start' || verb === 'resume' || verb === 'rerun' ? '; create a new one' : ' already';
  if (job.removed) return no(`${it} has been deleted${instead}`);
  if (job.desired === 'delete' && verb !== 'delete') return no(`${it} is being deleted${instead}`);
  const phase = phaseOf(job);
  switch (verb) {
    case 'start':
      if (isWanted(job)) return no(alreadyThere(it, phase));
      if (options.commandOnly === true) {
        const isReady = usableAllocation(job)?.seen?.state === 'ready';
        return isReady ? yes : no(`${it} holds no ready workers to run its command on; ${whatBringsUp(job)}`);
      }
      if (job.settled === null || job.settled.verdict === 'stopped') return yes;
      return no(
        `${it} has ${hasEnded(job.settled.verdict)}; use resume to go on from its last checkpoint, or rerun to begin from the start`,
      );
    case 'resume':
    case 'rerun':
      return isWanted(job) ? no(`${alreadyThere(it, phase)}; stop it first to ${verb} it`) : yes;
    case 'stop':
      if (job.settled === null) return yes;
      if (options.release === true && heldAllocations(job).length > 0) return yes;
      if (job.settled.verdict === 'stopped' && options.release !== true) return yes;
      return no(`${it} is not running: it has ${hasEnded(job.settled.verdict)}${holdsNothing(job)}`);
    case 'cancel':
      if (job.settled === null || job.settled.verdict === 'stopped' || heldAllocations(job).length > 0) return yes;
      if (job.settled.verdict === 'cancelled') return yes;
      return no(`${it} is over already: it has ${hasEnded(job.settled.verdict)}, and holds nothing`);
    case 'last':
      if (job.settled === null && job.desired === 'run') return yes;
      return no(`${it} is over or being ended, and no rule starts it again`);
    case 'judge':
      return isHeldBack(job) ? yes : no(`${it} has no end that waits to be judged`);
    case 'delete':
      return yes;
  }
}

function isHeldBack(job: Job): boolean {
  const attempt = openAttempt(job);
  return attempt?.exitSeen !== undefined && attempt.ending === null;
}

/** Which word gets workers again for a job that has none; `start` is none where the job has come to an end by itself. */
function whatBringsUp({ settled }: Job): string {
  if (settled === null || settled.verdict === 'stopped') return 'start brings some up first';
  return `it has ${hasEnded(settled.verdict)}, and resume or rerun brings some up, with its setup`;
}

function isWanted(job: Job): boolean {
  return job.desired === 'run' && job.settled === null;
}

function alreadyThere(it: string, phase: string): string {
  return phase === 'queued' ? `${it} is queued already` : `${it} is under way already (${phase})`;
}

function holdsNothing(job: Job): string {
  const held = heldAllocations(job);
  if (held.length === 0) return ', and holds nothing';
  const isLetGo = held.every((allocation) => allocation.releasedAt !== null);
  return isLetGo ? ', and what it held is being let go' : '; stop --release lets go of what it holds';
}

/** The job after that command, with its line of history; the same job when it changes nothing. Call `jobCan` first. */
export function ask(job: Job, verb: Verb, options: AskOptions, now: Instant): Change {
  switch (verb) {
    case 'start':
      return wish(
        job,
        verb,
        { how: 'fresh', at: now, ...(options.commandOnly === true && { commandOnly: true }) },
        options.by,
      );
    case 'resume':
    case 'rerun':
      return wish(job, verb, { how: verb, at: now }, options.by, verb === 'resume' ? options.copy : undefined);
    case 'stop':
      return endBy(job, verb, strictest(job.desired, options.release === true ? 'end' : 'hold'), options.by, now);
    case 'cancel':
      return endBy(job, verb, strictest(job.desired, 'end'), options.by, now);
    case 'last':
      if (job.answersNothing === true) return unchanged(job);
      return told({ ...job, answersNothing: true }, now, { kind: 'asked', verb, by: options.by, desired: job.desired });
    case 'judge': {
      const attempt = openAttempt(job);
      if (attempt === undefined || attempt.judgeAt !== undefined) return unchanged(job);
      const { desired } = job;
      return told(withAttempt(job, attempt.ordinal, { judgeAt: now }), now, {
        kind: 'asked',
        verb,
        by: options.by,
        desired,
      });
    }
    case 'delete':
      return options.force === true ? removeNow(job, options.by, now) : deleteBy(job, options.by, now);
  }
}

/** A newer word never gives back what an earlier one let go: `stop` after `cancel` keeps nothing. */
function strictest(before: Desired, asked: Desired): Desired {
  const order: readonly Desired[] = ['run', 'hold', 'end', 'delete'];
  return order.indexOf(asked) > order.indexOf(before) ? asked : before;
}

/** The job is wanted again: a settled one is opened, and the next attempt answers the wish. */
function wish(job: Job, verb: Verb, asked: Wish, by: string, copy?: number): Change {
  const anew = copy !== undefined && { copy };
  const { answersNothing: _taken, endedBy: _ended, ...open } = job;
  const next: Job = { ...open, ...anew, desired: 'run', cancelled: false, settled: null, wish: asked };
  // An attempt that is under way is ended first, and its situation stays.
  return told(openAttempt(next) === undefined ? inSituation(next, 'start-requested') : next, asked.at, {
    kind: 'asked',
    verb,
    by,
    desired: 'run',
    how: asked.how,
    ...anew,
  });
}

/** The program is to end. What has settled by itself keeps its verdict; what was only stopped becomes cancelled. */
function endBy(job: Job, verb: Verb, desired: Desired, by: string, now: Instant): Change {
  const cancelled = job.cancelled || verb !== 'stop';
  if (job.desired === desired && job.cancelled === cancelled) return unchanged(job);
  const becomesCancelled = cancelled && job.settled?.verdict === 'stopped';
  const settled = becomesCancelled
    ? { at: now, verdict: 'cancelled' as const, reason: job.settled.reason }
    : job.settled;
  const keepsNothing = desired === 'hold' && (usableAllocation(job)?.readyAt ?? null) === null;
  const bodies: EventBody[] = [{ kind: 'asked', verb, by, desired, ...(keepsNothing && { keepsNothing }) }];
  if (becomesCancelled) bodies.push({ kind: 'settled', verdict: 'cancelled', reason: job.settled.reason });
  const { endedBy: _before, ...rest } = settled === null ? inSituation(job, situationOfEnd(job)) : job;
  const other = by === job.owner ? {} : { endedBy: by };
  return told({ ...rest, ...other, desired, cancelled, desiredAt: now, wish: null, settled }, now, ...bodies);
}

/** An attempt that is ending already goes on ending for its own reason. */
function situationOfEnd(job: Job): SituationName {
  const attempt = openAttempt(job);
  if (attempt === undefined) return 'ended-by-owner';
  return attempt.ending === null ? 'stop-requested' : 'attempt-ending';
}

/** A command names the situation that it makes, so that the stored name is true until the next pass, too. */
function inSituation(job: Job, situation: SituationName): Job {
  return { ...job, situation };
}

/** A job that has ended and holds nothing leaves the list at once: there is nothing to wait for. */
function deleteBy(job: Job, by: string, now: Instant): Change {
  const ended = endBy(job, 'delete', 'delete', by, now);
  const isEmpty = ended.job.settled !== null && !ended.job.removed && heldAllocations(ended.job).length === 0;
  return isEmpty ? chain(ended, (next) => remove(inSituation(next, 'removed'), now)) : ended;
}

function removeNow(job: Job, by: string, now: Instant): Change {
  const next: Job = { ...job, desired: 'delete', cancelled: true, desiredAt: now, wish: null, removed: true };
  return told(
    inSituation(next, 'removed'),
    now,
    { kind: 'asked', verb: 'delete', by, desired: 'delete' },
    { kind: 'removed' },
  );
}
