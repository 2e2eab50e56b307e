// Situation: the class that a job and what is seen of it fall in. The table is read from the top, the first match wins,
// so each row may assume that none above it holds. Rows look and name; what to do about it is in `reconcile.ts`.

import {
  capacityTraits,
  capacityWaitEnd,
  isLost,
  isPermanent,
  leaving,
  lossError,
  mayRequest,
  nextTryAt,
} from './allocate.ts';
import { isOnHeld, silencePatience, standingGivenUpAt } from './given-up.ts';
import { outlivesRemoval } from './job.ts';
import type { Attempt, Evidence, PlaceAnswer, StepFailure } from './job.ts';
import { hasSucceeded } from './observation.ts';
import { hasPlaces, nextTurn, sendsElsewhere, turnAfter } from './next-place.ts';
import type { Turn } from './next-place.ts';
import { capacityOf } from './place.ts';
import { betweenWorkers } from './patterns.ts';
import { planted } from './plant.ts';
import { areTriesUsedUp, unprovenWorkers } from './prepare.ts';
import { whatFollows } from './recover.ts';
import type { Reason, WorkerId } from './spec.ts';
import { minute, second } from './time.ts';
import type { Duration, Instant } from './time.ts';
import { lastOutputAt, mayBeAlive, silentWorker, strangersAlive } from './view.ts';
import type { Place, View } from './view.ts';

/** All that a job can be in, each with what its arm needs to know. */
export type Situation =
  /** Off the list; nothing is asked any more. */
  | { readonly kind: 'removed' }
  /** Nothing more will run without a new wish. */
  | { readonly kind: 'settled' }
  /** The owner had it ended before anything ran, or between two attempts. */
  | { readonly kind: 'ended_by_owner' }
  /** It has to wait for its turn. */
  | { readonly kind: 'queued' }
  /** The next attempt can be made. */
  | { readonly kind: 'wanted' }
  /** The attempt must end, and nothing of it can be alive any more. */
  | { readonly kind: 'over' }
  /** The attempt must end, and something of it may be alive. */
  | { readonly kind: 'ending' }
  /** Something decides now that the attempt must end. */
  | {
      readonly kind: 'must_end';
      readonly reason: Reason;
      readonly evidence: Evidence;
      /** When the program ended by itself, by the word of the worker that it ran on. */
      readonly exitAt?: Instant;
    }
  /** A run of another attempt is alive where only this one's may be. */
  | { readonly kind: 'crowded' }
  /** An earlier allocation is still on its way out. */
  | { readonly kind: 'leaving' }
  /** It is too early for the next attempt. */
  | { readonly kind: 'too_early' }
  /** Nobody can say how the allocation is. */
  | { readonly kind: 'unseen' }
  /** The allocation has to be asked for, not before that moment. */
  | { readonly kind: 'to_request'; readonly notBefore: Instant }
  /** The allocation was accepted and does not show yet. */
  | { readonly kind: 'accepted' }
  /** The place has nothing to give, and another is left. */
  | { readonly kind: 'elsewhere'; readonly answer: PlaceAnswer; readonly turn: Turn }
  /** Nothing has been asked for yet, and another place is the better one to ask. */
  | { readonly kind: 'better_place'; readonly turn: Turn }
  /** No capacity came of what was asked for; something else is to be asked for in its place. */
  | { readonly kind: 'no_capacity' }
  /** Capacity that was held for the attempt does not answer; something else is to be asked for in its place. */
  | { readonly kind: 'out_of_reach'; readonly worker: WorkerId }
  /** The allocation is being waited for: in a queue, being made, or under repair. */
  | { readonly kind: 'coming' }
  /** Workers have steps before them, or do not answer. */
  | { readonly kind: 'preparing' }
  /** Every worker is prepared, or some of them have not started yet what the others have. */
  | { readonly kind: 'to_start'; readonly workers: readonly WorkerId[] }
  /** The command is on its way: started everywhere, alive or done wherever somebody answers. */
  | { readonly kind: 'under_way' };

type Row = (view: View) => Situation | false | undefined;

/** For rows that speak of the open attempt only. */
function during(row: (view: View, attempt: Attempt) => Situation | false | undefined): Row {
  return (view) => (view.attempt === undefined ? undefined : row(view, view.attempt));
}

function mustEnd(reason: Reason, evidence: Evidence, exitAt?: Instant): Situation {
  return { kind: 'must_end', reason, evidence, ...(exitAt === undefined ? {} : { exitAt }) };
}

const table: readonly Row[] = [
  // A removed job is history, once nothing of it is alive that would go on for ever, or nobody there answers any more.
  (view) => view.job.removed && (!outlivesRemoval(view.job) || isPastHearing(view)) && { kind: 'removed' },

  // ---- between attempts

  // A settled job only lets go of what it may not keep.
  ({ job }) => job.settled !== null && { kind: 'settled' },
  // Nothing is under way, and nothing is wanted.
  ({ job, attempt }) => attempt === undefined && job.desired !== 'run' && { kind: 'ended_by_owner' },
  // Something is wanted, and it is not the job's turn.
  ({ admitted, attempt }) => attempt === undefined && !admitted && { kind: 'queued' },
  // Something is wanted: the first attempt, or the owner's wish.
  ({ attempt }) => attempt === undefined && { kind: 'wanted' },

  // ---- an attempt that must end: its reason stands

  // It never started, or every place of its command has told its end, and what follows can begin.
  during(
    (view, attempt) =>
      attempt.ending !== null && !isAnythingAlive(view, attempt) && !isAwaited(view, attempt) && { kind: 'over' },
  ),
  // Something of it may be alive, or what is to follow needs a worker that does not answer.
  during((_, attempt) => attempt.ending !== null && { kind: 'ending' }),

  // ---- reasons to end, the surest first

  // All places have ended well. Whatever else is going on, the command has done its work.
  during(
    (view, attempt) =>
      attempt.startedAt !== null &&
      allSucceeded(view) &&
      mustEnd(
        'succeeded',
        { detail: view.places.length === 1 ? 'exit code 0' : 'exit code 0 on every worker' },
        Math.max(...view.places.map(({ run }) => (run.state === 'exited' ? run.endedAt : view.now))),
      ),
  ),
  // The owner said stop, cancel or delete; perhaps to want it anew a moment later, before anybody had heard the first word:
  // a wish beside an attempt that was made before it.
  during(
    ({ job }) => (job.desired !== 'run' || job.wish !== null) && mustEnd('stopped', { detail: 'asked by the owner' }),
  ),
  // No further attempt is wanted, and a rule has made one that has not begun.
  during(
    ({ job }, { asked, startedAt }) =>
      job.answersNothing === true &&
      !planted('last-word-ignored') &&
      !asked &&
      startedAt === null &&
      mustEnd('stopped', { detail: 'its owner wants no further attempt' }),
  ),
  // The job's own limit on its run. It needs no look: a program that cannot be seen is running out of time too.
  during(({ job, now }, { runningAt }) => {
    const { maxRuntime } = job.spec.limits;
    const isOver = runningAt !== null && maxRuntime !== null && now >= runningAt + maxRuntime;
    return isOver && mustEnd('timed_out', { detail: 'it ran for as long as job.max_runtime allows' });
  }),
  // The owner's patience for capacity. It needs no look either.
  during((view, attempt) => {
    const end = capacityWaitEnd(view.job, attempt);
    const isOver = view.allocation?.readyAt === null && end !== undefined && view.now >= end;
    return (
      isOver && mustEnd('allocation_failed', { detail: 'no capacity came within the time limit', ...rawError(view) })
    );
  }),
  // The place has nothing to give, or lets the request wait for too long, and another place is left to ask.
  during((view, attempt) => {
    const answer = answerOfPlace(view);
    const turn = answer === undefined ? undefined : turnAfter(view.job, attempt, answer, view.said, view.now);
    return answer !== undefined && turn !== undefined && { kind: 'elsewhere', answer, turn };
  }),
  // The name is taken, the request was refused for good, or the standing allocation does not exist.
  during((view) => {
    const error = view.allocation?.lastFailure?.error;
    if (error === undefined || view.allocation?.readyAt !== null || view.allocation.acceptedAt !== null) return false;
    return isPermanent(error.kind) && mustEnd('allocation_failed', { detail: error.message, raw: error.raw });
  }),
  // The allocation will not be usable again. After it was ready that is the cloud's act, by whatever word the cloud calls
  // it; before, only where the cloud says that it took it.
  during((view) => {
    const { allocation, look } = view;
    if (allocation === undefined || !isLost(allocation)) return false;
    const wasTaken = allocation.readyAt !== null || (look.kind === 'known' && look.value.cause === 'preempted');
    return wasTaken && mustEnd('preempted', { detail: lossDetail(view), ...rawError(view) });
  }),
  // It never came to be ready. Nothing was tried on it, so the attempt goes on with another; unless asking again is
  // pointless, or was never ours to do: a standing allocation is asked for only where a rule has let it go before.
  during((view) => {
    const { allocation, job } = view;
    if (allocation === undefined || !isLost(allocation)) return false;
    const isWorthAsking = !isPermanent(lossError(allocation).kind) && mayRequest(job, allocation);
    if (isWorthAsking) return { kind: 'no_capacity' };
    return mustEnd('allocation_failed', { detail: lossDetail(view), ...rawError(view) });
  }),
  // One worker of many has failed: the attempt fails as a whole.
  during((view, attempt) => attempt.startedAt !== null && failureOf(view, attempt)),
  // A call between workers has failed, and since then the program prints nothing.
  during((view, attempt) => attempt.startedAt !== null && hungInTrouble(view, attempt)),
  // The program is alive and says nothing.
  during((view, attempt) => attempt.startedAt !== null && hungGang(view)),
  // The cloud says ready, and a worker has been silent for longer than the spec's patience.
  during((view, attempt) => {
    const worker = silentForTooLong(view);
    if (worker === undefined) return false;
    // To resume on what was held and find nobody there is no try: the owner wants it run, so it moves to another.
    const { allocation, job } = view;
    if (worker !== 'here' && allocation?.ownership === 'owned' && isOnHeld(job, attempt))
      return { kind: 'out_of_reach', worker };
    return mustEnd('unreachable', { detail: `${wordFor(worker)} does not answer`, worker });
  }),
  // Something on one worker has used up its tries: a step, or the start of the command.
  during(({ job }, attempt) => {
    const used = Object.entries(attempt.stepFailures).find(
      ([key, failure]) => !key.startsWith('stop/') && areTriesUsedUp(job, failure),
    );
    return used !== undefined && mustEnd('setup_failed', setupEvidence(...used));
  }),
  // The command names a worker that the allocation does not have.
  during(({ places, allocation }) => {
    const workers = allocation?.workers ?? null;
    if (workers !== null && places.length === 0)
      return mustEnd('setup_failed', { detail: 'the command is to run on no worker' });
    const missing = places.find(({ worker }) => workers !== null && worker !== 'here' && worker >= workers);
    const detail = `the command is to run on worker ${missing?.worker}, and there are ${workers} workers`;
    return missing !== undefined && mustEnd('setup_failed', { detail, worker: missing.worker });
  }),

  // ---- on the way to a running command

  // Two attempts' commands are never alive together.
  during((view) => strangersAlive(view).length > 0 && { kind: 'crowded' }),
  // It has begun: what remains is to see it through.
  during((view, attempt) => attempt.startedAt !== null && started(view, attempt)),
  // What was held before must be seen gone before anything new is asked for.
  during(({ job }) => leaving(job).length > 0 && { kind: 'leaving' }),
  // A backoff. It comes before the turn, which nobody has while it lasts: the end of it is a moment to look.
  during(({ now }, { notBefore }) => notBefore > now && { kind: 'too_early' }),
  // Not its turn.
  during(({ admitted }) => !admitted && { kind: 'queued' }),
  // Not knowing is no reason to do anything.
  during(({ look }) => look.kind === 'unknown' && !planted('unknown-is-absent') && { kind: 'unseen' }),
  // Nothing is asked for yet, and its place has told another job a moment ago that it has nothing.
  during((view, attempt) => {
    const { job, allocation, said, now } = view;
    if (allocation === undefined || allocation.requestedAt !== null || !hasPlaces(job)) return false;
    const turn = nextTurn(job, attempt, said, now);
    return turn !== undefined && turn.place !== (allocation.place ?? 0) && { kind: 'better_place', turn };
  }),
  // It is not there, and nobody has confirmed a request: ask, at the pace of the last error.
  during(({ job, look, allocation }) => {
    if (allocation === undefined || allocation.acceptedAt !== null || !mayRequest(job, allocation)) return false;
    const isAbsent = look.kind === 'unknown' || look.value.state === 'absent';
    return isAbsent && { kind: 'to_request', notBefore: nextTryAt(job, allocation) };
  }),
  // It is not there although it was accepted, or should be there by itself: look again before believing it.
  during(({ look }) => look.kind === 'known' && look.value.state === 'absent' && { kind: 'accepted' }),
  // In a queue, being made, or under repair.
  during(({ look }) => look.kind === 'known' && look.value.state !== 'ready' && { kind: 'coming' }),
  // Ready, and some worker is not.
  during((view) => isAnyoneUnprepared(view) && { kind: 'preparing' }),
  // Ready everywhere, and there is no command: setting up was all.
  during(
    ({ job }) => job.spec.command.isSetupOnly === true && mustEnd('succeeded', { detail: 'every worker is set up' }),
  ),
  // Ready, everywhere.
  during(({ places }) => ({ kind: 'to_start', workers: places.map(({ worker }) => worker) })),
];

/** The first row that matches. The last rows match whatever is left, so there always is one. */
export function classify(view: View): Situation {
  for (const row of table) {
    const situation = row(view);
    if (situation !== false && situation !== undefined) return situation;
  }
  throw new Error(`job ${view.job.id}: no situation matches, although the last row matches everything`);
}

// ------------------------------------------------------------------------------------------ what rows ask

/**
 * What the place of the attempt's allocation has come to, where it has nothing to give. Errors that say nothing about the
 * place (too many calls, a cloud that failed inside or did not answer) leave the request where it is.
 */
function answerOfPlace({ job, now, look, allocation }: View): PlaceAnswer | undefined {
  if (allocation === undefined || allocation.ownership === 'standing' || !hasPlaces(job)) return undefined;
  const { readyAt, requestedAt, releasedAt, acceptedAt, lastFailure, isDoubtful } = allocation;
  if (readyAt !== null || requestedAt === null || releasedAt !== null) return undefined;
  const kind = lastFailure?.error.kind;
  const isRefused = acceptedAt === null || isLost(allocation);
  // A place that is closed to us lets us neither look nor let go: what may be there all the same ends the attempt below.
  if (kind !== undefined && isPermanent(kind) && isRefused && isDoubtful === true) return undefined;
  const isSure = look.kind === 'known' || (kind !== undefined && isPermanent(kind));
  if (kind !== undefined && isRefused && sendsElsewhere(kind) && isSure) return kind;
  const { capacity } = job.spec;
  const patience = capacity.kind === 'tpu' ? capacity.alternativesWait : undefined;
  if (patience === undefined || look.kind === 'unknown') return undefined;
  // A place that could be asked only now has not been waited in, however long ago the record says that it was to be asked.
  const waitedOutAt = (acceptedAt ?? requestedAt) + patience;
  if (now < waitedOutAt) return undefined;
  // A list may lack what is there and ready: what was accepted has to be missed twice before that says anything. And where
  // no answer has come yet (who asked was killed), it is asked first, however long that took; once more where a reply was lost.
  const isAnswered = lastFailure !== null && (isDoubtful !== true || lastFailure.at >= waitedOutAt);
  const isMissed = look.value.state === 'absent' && acceptedAt === null && isAnswered;
  return look.value.state === 'waiting' || isMissed ? 'waiting' : undefined;
}

/** Nobody has answered for the whole grace where something of the attempt may be alive. */
function isPastHearing({ job, now, attempt, allocation, places }: View): boolean {
  if (attempt === undefined || allocation === undefined) return false;
  // Of what was released, silence is not counted, and it may be gone: the wait began with the owner's command, or with the
  // release where the command was noted by a clock that has been set back since.
  const { silentSince, releasedAt } = allocation;
  const since = releasedAt === null ? silentSince : job.desiredAt > now ? releasedAt : job.desiredAt;
  if (since === null) return false;
  const isHeard = places.some((place) => place.seen !== undefined && mayBeAlive(place, attempt));
  return !isHeard && now >= since + job.spec.recovery.unreachableGrace;
}

function isAnythingAlive(view: View, attempt: Attempt): boolean {
  if (attempt.startedAt === null) return false;
  if (planted('no-gang')) return false;
  const isSilentGrave = ({ worker, run }: Place): boolean =>
    worker !== 'here' && run.state === 'unknown' && (isBuried(view) || isForsaken(view, attempt));
  return view.places.some((place) => mayBeAlive(place, attempt) && !isSilentGrave(place));
}

/**
 * The rule wants the same allocation again, and a worker there is still silent. The next attempt would end of the same
 * silence at once, and the one after it, so the worker is waited for first, whether or not something of this attempt can
 * be alive there; `stop.ts` says when it is given up.
 */
function isAwaited(view: View, attempt: Attempt): boolean {
  const { job, allocation, now } = view;
  if (attempt.ending?.reason !== 'unreachable' || silentWorker(view) === undefined) return false;
  if (allocation === undefined || allocation.releasedAt !== null || isLost(allocation)) return false;
  if (isForsaken(view, attempt)) return false;
  const following = whatFollows(job, attempt, now);
  return following.next === 'attempt' && following.on === 'same';
}

/**
 * A standing allocation that the cloud took is not ours to let go, so nobody will ever see it gone. When it has been lost
 * for the whole grace, a program on a worker that does not answer counts as ended with it.
 */
function isBuried({ job, allocation, now }: View): boolean {
  if (allocation === undefined || allocation.ownership !== 'standing' || allocation.releasedAt !== null) return false;
  return (
    isLost(allocation) && allocation.seen !== null && now >= allocation.seen.at + job.spec.recovery.unreachableGrace
  );
}

/** A standing allocation that the cloud calls ready, and of which a worker has been silent beyond all patience. */
function isForsaken({ job, look, now }: View, attempt: Attempt): boolean {
  const at = standingGivenUpAt(job, attempt);
  return at !== undefined && now >= at && look.kind === 'known' && look.value.state === 'ready';
}

function allSucceeded(view: View): boolean {
  return view.places.length > 0 && view.places.every(({ run }) => hasSucceeded(run));
}

/**
 * Why the attempt has failed on some worker, if it has. A machine that lost the program explains what the others ran into,
 * so it comes first; among exits the lowest worker. While a worker is silent nobody is judged: it may be the cause. And a
 * program that was just killed on capacity that the cloud may take away waits for the cloud's word, which comes later.
 */
function failureOf(view: View, attempt: Attempt): Situation | undefined {
  const lost = view.places.find((place) => hasVanished(place, attempt));
  const failed = view.places.find(({ run }) => run.state === 'exited' && !hasSucceeded(run));
  const place = lost ?? failed;
  if (place === undefined || view.places.some(({ isSilent }) => isSilent)) return undefined;
  if (lost !== undefined) {
    return mustEnd('unreachable', { detail: vanishedDetail(lost), worker: lost.worker, ...matchedIn(lost, attempt) });
  }
  if (place.run.state !== 'exited' || mayHaveBeenTaken(view, place, attempt)) return undefined;
  const { exitCode, signal, failure } = place.run;
  if (failure !== undefined && exitCode === 0) {
    const evidence = {
      detail: failure,
      worker: place.worker,
      unconfirmed: true as const,
      ...matchedIn(place, attempt),
    };
    return mustEnd('command_failed', evidence, place.run.endedAt);
  }
  const how = signal === undefined ? `exit code ${exitCode}` : `killed by ${signal}`;
  const evidence = {
    detail: `${how} on ${wordFor(place.worker)}`,
    worker: place.worker,
    exitCode,
    ...(signal === undefined ? {} : { signal }),
    ...matchedIn(place, attempt),
  };
  return mustEnd('command_failed', evidence, place.run.endedAt);
}

/** No process and no exit: also a run that was seen and that its worker has since forgotten. */
function hasVanished({ run }: Place, attempt: Attempt): boolean {
  return run.state === 'vanished' || run.state === 'lost_start' || (run.state === 'none' && attempt.runningAt !== null);
}

/** What the evidence begins with where no process of a program is left and nothing says how it ended. */
export const vanishedWords = 'the program vanished';

function vanishedDetail({ run, worker }: Place): string {
  const what =
    run.state === 'vanished' ? run.detail : run.state === 'none' ? 'its files are gone' : 'it never came to life';
  return `${vanishedWords} on ${wordFor(worker)}: ${what}`;
}

/** How long after such an end the cloud may still take to say that it took the machine away. */
const killedJudgement: Duration = 30 * second;

/**
 * The cloud may be about to say that it took the machine: a program was just killed there, or one that drives it from this
 * machine has just lost its line to it. Nobody can say so while the cloud does not answer or does not call it ready, and
 * nothing could begin then either. What the cloud leaves alone, somebody may have deleted: a standing TPU is many people's.
 */
function mayHaveBeenTaken({ job, allocation, look }: View, place: Place, attempt: Attempt): boolean {
  const { run, worker } = place;
  const capacity = capacityOf(job, allocation);
  const isRevocable = capacityTraits(capacity).revocable;
  if (run.state !== 'exited' || !(isRevocable || capacity.ownership === 'standing')) return false;
  const wasKilled = run.signal !== undefined || run.exitCode === 143 || run.exitCode === 137;
  const hasLostIt = worker === 'here' && betweenWorkers.includes(matchedIn(place, attempt).pattern ?? '');
  if (!wasKilled && !hasLostIt) return false;
  if (look.kind === 'unknown' || look.value.state !== 'ready') return true;
  // Use the time of the cloud's answer: the rest of this pass may have waited long for a worker that does not answer.
  // The end was written by the worker's clock: a clock that is far off is no reason to wait.
  const isSoon = Math.abs(look.seenAt - run.endedAt) < killedJudgement;
  // An answer from before the end says nothing about it. The next pass has a later one, whatever the worker's clock says.
  const isOlder = look.seenAt < run.endedAt && attempt.exitSeen === undefined;
  return isRevocable && (isSoon || isOlder) && attempt.judgeAt === undefined;
}

/** The pattern that has been found in what the attempt printed there. */
export function matchedIn({ seen }: Place, attempt: Attempt): { readonly pattern?: string; readonly line?: string } {
  const matched = seen?.matched;
  return matched?.attempt === attempt.ordinal ? { pattern: matched.pattern, line: matched.line } : {};
}

function hungGang({ job, places, now }: View): Situation | undefined {
  const { silenceTimeout } = job.spec.limits;
  const last = lastOutputAt(places);
  if (silenceTimeout === null || last === undefined || now - last < silenceTimeout) return undefined;
  const [only, ...others] = places;
  const where = only === undefined || others.length > 0 ? 'on any worker' : `on ${wordFor(only.worker)}`;
  return mustEnd('hung', { detail: `no output ${where} for as long as job.silence_timeout allows` });
}

/** The observer searches the output only once the silence is long enough, so a pattern in the observation proves that it was. */
function hungInTrouble({ job, places, now }: View, attempt: Attempt): Situation | undefined {
  const { troubleTimeout } = job.spec.limits;
  const last = lastOutputAt(places);
  if (troubleTimeout === undefined || last === undefined || now - last < troubleTimeout) return undefined;
  const place = places.find(
    (one) => one.run.state === 'running' && betweenWorkers.includes(matchedIn(one, attempt).pattern ?? ''),
  );
  if (place === undefined) return undefined;
  const minutes = Math.round(troubleTimeout / minute);
  const length =
    minutes > 0 ? `${minutes} ${minutes === 1 ? 'minute' : 'minutes'}` : `${troubleTimeout / second} seconds`;
  const detail = `no output for ${length} after a failed call between workers`;
  return mustEnd('hung', { detail, worker: place.worker, ...matchedIn(place, attempt) });
}

/** The grace runs while the cloud itself answers; `here` has no cloud that could speak for it. */
function silentForTooLong(view: View): WorkerId | undefined {
  const worker = silentWorker(view);
  const { allocation, attempt, look, job } = view;
  if (worker === undefined || allocation === undefined || attempt === undefined) return undefined;
  if (look.kind === 'unknown') return undefined;
  if (worker !== 'here' && look.value.state !== 'ready') return undefined;
  if (planted('unknown-worker-is-lost')) return worker;
  if (allocation.silentWho !== 'worker' || allocation.silentSince === null) return undefined;
  // Compare with the time of the cloud's answer: a call to a silent worker takes long, and the cloud may have taken its machine since.
  return look.seenAt >= allocation.silentSince + silencePatience(job, attempt) ? worker : undefined;
}

function setupEvidence(key: string, { detail, tries, pattern }: StepFailure): Evidence {
  const [first = '', ...rest] = key.split('/');
  const isStart = first === 'start';
  const where = isStart ? rest.join('/') : first;
  const worker: WorkerId = where === 'here' ? where : Number(where);
  const what = isStart ? 'the command could not be started' : `step ${rest.join('/')} failed`;
  return {
    detail: `${what} on ${wordFor(worker)} (${tries} ${tries === 1 ? 'try' : 'tries'}): ${detail}`,
    worker,
    ...(pattern === undefined ? {} : { pattern }),
  };
}

function started(view: View, attempt: Attempt): Situation {
  const unstarted = view.places.filter(({ run }) => run.state === 'none' && attempt.runningAt === null);
  if (unstarted.length === 0) return { kind: 'under_way' };
  // A machine was made anew under that name, or has restarted: what had been set up is gone with the run. Of one that does
  // not answer nobody can say that it has not.
  if (isAnyoneUnprepared(view)) return { kind: 'preparing' };
  return { kind: 'to_start', workers: unstarted.map(({ worker }) => worker) };
}

function isAnyoneUnprepared(view: View): boolean {
  if (planted('start-before-setup')) return false;
  return view.workers.some(({ seen }) => seen === undefined) || unprovenWorkers(view).length > 0;
}

function lossDetail({ allocation, look }: View): string {
  const detail = look.kind === 'known' && look.value.detail !== '' ? look.value.detail : allocation?.seen?.detail;
  const words = { absent: 'it is gone', releasing: 'somebody else deletes it', foreign: 'its name is taken' };
  const state = allocation?.seen?.state;
  const isFailure = allocation?.readyAt === null && look.kind === 'known' && look.value.cause !== 'preempted';
  const taken = isFailure ? 'it failed before it was ready' : 'the cloud took it';
  const word = state === 'absent' || state === 'releasing' || state === 'foreign' ? words[state] : taken;
  return detail === undefined || detail === '' ? word : `${word} (${detail})`;
}

function rawError({ allocation }: View): { readonly raw?: string } {
  const error = allocation?.lastFailure?.error;
  return error === undefined ? {} : { raw: error.raw === '' ? error.message : error.raw };
}

/** `worker 3`, or `this machine`. */
function wordFor(worker: WorkerId): string {
  return worker === 'here' ? 'this machine' : `worker ${worker}`;
}
