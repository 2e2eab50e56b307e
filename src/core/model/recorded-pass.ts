// Recorded pass: the inputs and the decision of one pass as JSON, from which `reconcile` can decide again (replay.ts).
// Facts and actions have keys, so that the difference between two passes is small.

import { subjectKey, subjectOf, type Action, type Decision, type Subject } from './decision.ts';
import type { AllocationStatus, Observation, Observed, Outcome, Unknown, WorkerStatus } from './observation.ts';
import type { WorkerId } from './spec.ts';
import type { Instant } from './time.ts';

/** Increases with every change of `RecordedPass` that an earlier version would misread. */
export const passFormat = 2;

export interface RecordedPass {
  readonly format: number;
  /** The version of jobman that decided. */
  readonly version: string;
  readonly now: Instant;
  readonly facts: RecordedFacts;
  readonly outcomes: readonly RecordedOutcome[];
  /** By `subjectKey`, the other fields of each action. */
  readonly actions: Readonly<Record<string, object>>;
  readonly wakeAt: Instant | null;
}

/** `subject` is its `subjectKey`. */
type RecordedOutcome = Omit<Outcome, 'subject'> & { readonly subject: string };

interface RecordedFacts extends Omit<Observation, 'allocations' | 'workers' | 'outcomes'> {
  /** By ordinal. */
  readonly allocations: Readonly<Record<string, Observed<AllocationStatus>>>;
  /** By allocation and worker: `1/0`. Without the time of an answer, which no rule uses and which changes in every pass. */
  readonly workers: Readonly<Record<string, RecordedWorker>>;
}

type RecordedWorker = { readonly kind: 'known'; readonly value: WorkerStatus } | Unknown;

/** Replaces a text that neither the job nor its events contain: no rule depends on it, and it may be a secret. */
export const omittedText = '…';

const textFields: ReadonlySet<string> = new Set(['message', 'raw', 'line', 'reason', 'failure', 'detail']);

export function recordPass(
  { allocations, workers, outcomes, ...facts }: Observation,
  { job, events, actions, wakeAt }: Decision,
  { now, version }: Pick<RecordedPass, 'now' | 'version'>,
): RecordedPass {
  const recorded: RecordedPass = {
    format: passFormat,
    version,
    now,
    facts: {
      ...facts,
      allocations: Object.fromEntries(allocations.map((one) => [one.allocation, one.observed])),
      workers: Object.fromEntries(
        workers.map(({ allocation, worker, observed }) => [`${allocation}/${worker}`, withoutTime(observed)]),
      ),
    },
    outcomes: outcomes.map((outcome) => ({ ...outcome, subject: subjectKey(outcome.subject) })),
    actions: Object.fromEntries(actions.map((action) => [subjectKey(action), fieldsOf(action)])),
    wakeAt: wakeAt ?? null,
  };
  const { spec: _, ...status } = job;
  const stored = JSON.stringify([status, events]);
  const isStored = (text: string): boolean => stored.includes(JSON.stringify(text).slice(1, -1));
  const withoutOtherTexts = (key: string, value: unknown): unknown =>
    typeof value === 'string' && textFields.has(key) && !isStored(value) ? omittedText : value;
  return JSON.parse(JSON.stringify(recorded, withoutOtherTexts)) as RecordedPass;
}

function withoutTime(observed: Observed<WorkerStatus>): RecordedWorker {
  return observed.kind === 'unknown' ? observed : { kind: 'known', value: observed.value };
}

/** The fields that are not part of the subject. */
function fieldsOf(action: Action): object {
  switch (action.kind) {
    case 'request':
    case 'release':
      return {};
    case 'step':
      return { attempt: action.attempt };
    case 'start':
      return { allocation: action.allocation, bootId: action.bootId };
    case 'stop':
      return { allocation: action.allocation };
  }
}

function subjectIn(key: string): Subject {
  const subject = subjectOf(key);
  if (subject === undefined) throw new Error(`the recorded pass has an unknown action: ${key}`);
  return subject;
}

export function actionsOf({ actions }: Pick<RecordedPass, 'actions'>): readonly Action[] {
  return Object.entries(actions).map(([key, fields]) => ({ ...subjectIn(key), ...fields }) as Action);
}

export function outcomesOf({ outcomes }: RecordedPass): readonly Outcome[] {
  return outcomes.map((outcome) => ({ ...outcome, subject: subjectIn(outcome.subject) }));
}

export function observationOf(pass: RecordedPass): Observation {
  const { now, facts } = pass;
  const { allocations, workers, ...rest } = facts;
  return {
    ...rest,
    allocations: Object.entries(allocations).map(([ordinal, observed]) => ({ allocation: Number(ordinal), observed })),
    workers: Object.entries(workers)
      .map(([key, observed]) => {
        const [allocation = '', worker = ''] = key.split('/');
        const id: WorkerId = worker === 'controller' ? worker : Number(worker);
        return {
          allocation: Number(allocation),
          worker: id,
          observed: observed.kind === 'unknown' ? observed : { ...observed, observedAt: now },
        };
      })
      .toSorted((one, other) => orderOf(one.worker) - orderOf(other.worker)),
    outcomes: outcomesOf(pass),
  };
}

/** As the controller observes them: the workers by number, then this machine. */
function orderOf(worker: WorkerId): number {
  return worker === 'controller' ? Infinity : worker;
}
