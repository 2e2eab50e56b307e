// Replay: decides a recorded pass again with the rules of this version, and compares the two decisions.

import { deltaOf, type Json } from '../model/json-delta.ts';
import type { Event } from '../model/event.ts';
import type { Job } from '../model/job.ts';
import { observationOf, recordPass, type RecordedPass } from '../model/recorded-pass.ts';
import { reconcile } from './reconcile.ts';

export interface ReplayedPass {
  readonly pass: RecordedPass;
  readonly before: Job;
  readonly after: Job;
  readonly events: readonly Event[];
}

/** The parts of a decision, as JSON. */
export interface DecisionParts {
  readonly situation: Json;
  readonly events: Json;
  readonly actions: Json;
  readonly wakeAt: Json;
  /** Without its spec and its situation. */
  readonly job: Json;
}

export interface Difference {
  readonly part: keyof DecisionParts;
  readonly recorded: Json;
  readonly today: Json;
}

/** The parts in which the rules of this version decide differently. Empty: they decide the same. */
export function differencesOf({ pass, before, after, events }: ReplayedPass): readonly Difference[] {
  const { now, version, actions, wakeAt } = pass;
  const observation = observationOf(pass);
  const decision = reconcile(before, observation, now);
  const recorded = partsOf(after, { events, actions, wakeAt });
  const today = partsOf(decision.job, {
    ...recordPass(observation, decision, { now, version }),
    events: decision.events,
  });
  return (Object.keys(recorded) as (keyof DecisionParts)[])
    .filter((part) => deltaOf(recorded[part], today[part]) !== undefined)
    .map((part) => ({ part, recorded: recorded[part], today: today[part] }));
}

function partsOf(
  after: Job,
  { events, actions, wakeAt }: Pick<RecordedPass, 'actions' | 'wakeAt'> & Pick<ReplayedPass, 'events'>,
): DecisionParts {
  const { spec: _, situation, ...job } = after;
  // As it reads in the database: without undefined fields.
  const parts = { situation: situation ?? null, events, actions, wakeAt, job };
  return JSON.parse(JSON.stringify(parts)) as DecisionParts;
}
