// Retold: a job's life as its events alone tell it, for the law that history tells the state.

import type { Event } from '../src/core/decision.ts';
import type { Job } from '../src/core/job.ts';

interface AttemptTold {
  allocation: number;
  readonly stage: number;
  started: boolean;
  ending: string | null;
  ended: string | null;
}

interface AllocationTold {
  requested: boolean;
  released: boolean;
  gone: boolean;
}

export interface Retold {
  /** The differences between the record and the history: the subject, by history, by record. */
  differences(job: Job): readonly (readonly [string, string, string])[];
}

export function retold(events: readonly Event[]): Retold {
  const attempts: AttemptTold[] = [];
  const allocations = new Map<number, AllocationTold>();
  let settled: string | null = null;
  let removed = false;
  let desired = 'run';
  const allocation = (ordinal: number): AllocationTold => {
    const known = allocations.get(ordinal) ?? { requested: false, released: false, gone: false };
    allocations.set(ordinal, known);
    return known;
  };
  for (const event of events) {
    switch (event.kind) {
      case 'asked':
        desired = event.desired;
        if (event.how !== undefined) settled = null;
        break;
      case 'attempt_created':
        settled = null;
        attempts[event.attempt - 1] = {
          allocation: event.allocation,
          stage: event.stage,
          started: false,
          ending: null,
          ended: null,
        };
        break;
      case 'attempt_moved':
        withTold(attempts[event.attempt - 1], (told) => {
          // The same one in another place is asked for nowhere yet.
          if (told.allocation === event.allocation) allocation(event.allocation).requested = false;
          told.allocation = event.allocation;
        });
        break;
      case 'attempt_started':
        withTold(attempts[event.attempt - 1], (told) => (told.started = true));
        break;
      case 'attempt_ending':
        withTold(attempts[event.attempt - 1], (told) => (told.ending = event.reason));
        break;
      case 'attempt_ended':
        withTold(attempts[event.attempt - 1], (told) => (told.ended = event.reason));
        break;
      case 'allocation_requested':
        allocation(event.allocation).requested = true;
        break;
      case 'allocation_released':
        allocation(event.allocation).released = true;
        break;
      case 'allocation_gone':
        allocation(event.allocation).gone = true;
        break;
      case 'settled':
        settled = event.verdict;
        break;
      case 'removed':
        removed = true;
        break;
      case 'created':
      case 'allocation_refused':
      case 'place_passed_over':
      case 'place_skipped':
      case 'allocation_seen':
      case 'step_failed':
      case 'step_by_hand':
      case 'attempt_running':
      case 'exit_seen':
      case 'rule_applied':
      case 'silent':
      case 'answering':
      case 'clock_set_back':
        break;
    }
  }
  return {
    differences(job) {
      const found: [string, string, string][] = [];
      const compare = (what: string, byHistory: unknown, byRecord: unknown): void => {
        if (byHistory !== byRecord) found.push([what, String(byHistory), String(byRecord)]);
      };
      compare('the number of attempts', attempts.length, job.attempts.length);
      compare('the word', desired, job.desired);
      compare('the verdict', settled, job.settled?.verdict ?? null);
      compare('whether it is removed', removed, job.removed);
      for (const attempt of job.attempts) {
        const told = attempts[attempt.ordinal - 1];
        const name = `attempt ${attempt.ordinal}`;
        compare(`the allocation of ${name}`, told?.allocation, attempt.allocation);
        compare(`the stage of ${name}`, told?.stage, attempt.stage);
        compare(`the start of ${name}`, told?.started, attempt.startedAt !== null);
        compare(
          `the end of ${name}`,
          told?.ended ?? null,
          attempt.endedAt === null ? null : (attempt.ending?.reason ?? null),
        );
      }
      for (const { ordinal, requestedAt, releasedAt, goneAt } of job.allocations) {
        const told = allocations.get(ordinal);
        const name = `allocation ${ordinal}`;
        compare(`the request of ${name}`, told?.requested ?? false, requestedAt !== null);
        compare(`the release of ${name}`, told?.released ?? false, releasedAt !== null);
        compare(`the end of ${name}`, told?.gone ?? false, goneAt !== null);
      }
      return found;
    },
  };
}

function withTold<T>(told: T | undefined, change: (told: T) => void): void {
  if (told !== undefined) change(told);
}
