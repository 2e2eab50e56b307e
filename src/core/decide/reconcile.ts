// Reconcile: the life of a supervised job as a pure function. A pass folds outcomes and observations into the job
// (fold.ts), finds the situation in the table (situations.ts) and does what its row says. It uses no clock, no
// randomness and no I/O, so every decision can be replayed from the job and the observation.

import { planReleases } from './allocate.ts';
import { correctTimes, withoutFutureTimes } from './clock.ts';
import { fold } from './fold.ts';
import { chain, type Decision } from '../model/decision.ts';
import { openAttempt, type Job } from '../model/job.ts';
import type { Observation } from '../model/observation.ts';
import { decide } from './situations.ts';
import { budgetsOf, nextBudgetTime, warnOfBudgets } from './spending.ts';
import { earliest, type Instant } from '../model/time.ts';
import { viewOf } from './view.ts';

/** Never throws for a job and an observation that can occur. */
export function reconcile(job: Job, raw: Observation, now: Instant): Decision {
  const observation = withoutFutureTimes(raw, now);
  const folded = chain(
    correctTimes(job, now),
    (next) => fold(next, observation, now),
    (next) => warnOfBudgets(next, budgetsOf(next, observation.ownerSpending, now), now),
  );
  const { situation, decision } = decide(viewOf(folded.job, observation, now));
  // If the attempt must end, the same observation may prove that no process is left to stop.
  const result = mustEndNow(folded.job, decision.job)
    ? decide(viewOf(decision.job, observation, now)).decision
    : decision;
  const endingEvents = result === decision ? [] : decision.events;
  // A release is repeated in every situation until the allocation is deleted.
  const releases = result.job.removed ? { actions: [], wakeAt: undefined } : planReleases(result.job, observation, now);
  const budgets = budgetsOf(result.job, observation.ownerSpending, now);
  // The stored situation is the one of the first decision, which names the reason of an end.
  return {
    job: result.job.situation === situation ? result.job : { ...result.job, situation },
    events: [...folded.events, ...endingEvents, ...result.events],
    actions: [...result.actions, ...releases.actions],
    wakeAt: earliest(result.wakeAt, releases.wakeAt, nextBudgetTime(result.job, budgets, now)),
  };
}

/** True if this decision recorded why the attempt must end. */
function mustEndNow(before: Job, after: Job): boolean {
  return openAttempt(before)?.ending === null && (openAttempt(after)?.ending ?? null) !== null;
}
