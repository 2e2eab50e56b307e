// Looks at capacity, shared: jobs that look in the same moment are one question to the backend, which in turn makes
// one list per place of it. A thousand jobs in one zone cost what one costs.

import type { AllocationRef, CapacityPort, Clock } from '../app/ports.ts';
import { unknown } from '../core/observation.ts';
import type { AllocationSeen, Fact } from '../core/observation.ts';

interface Question {
  readonly refs: readonly AllocationRef[];
  readonly answer: (facts: readonly Fact<AllocationSeen>[]) => void;
}

/** Looks at these allocations, together with whoever asks in the same moment. Never throws. */
export type Look = (refs: readonly AllocationRef[]) => Promise<readonly Fact<AllocationSeen>[]>;

/** Shares one request between all that ask while another is under way; never answers with one older than the question. */
export function createLook(capacity: CapacityPort, clock: Clock): Look {
  let questions: Question[] = [];
  let armed = false;
  let underWay = 0;

  async function ask(): Promise<void> {
    const asked = questions;
    questions = [];
    if (asked.length === 0) return;
    underWay += 1;
    const refs = asked.flatMap((question) => question.refs);
    let facts: readonly Fact<AllocationSeen>[];
    try {
      facts = await capacity.look(refs);
    } catch (error) {
      // A port that throws has seen nothing. Not knowing is a value.
      facts = refs.map(() => unknown(`the look failed: ${textOf(error)}`, clock.now()));
    }
    underWay -= 1;
    arm();
    let at = 0;
    for (const question of asked) {
      question.answer(facts.slice(at, at + question.refs.length));
      at += question.refs.length;
    }
  }

  function arm(): void {
    // Two at most: one place that is slow to answer does not hold up all others, and many jobs still share.
    if (armed || questions.length === 0 || underWay >= 2) return;
    armed = true;
    // At the clock's next turn, so that passes which began together are in one question.
    clock.at(clock.now(), () => {
      armed = false;
      void ask();
    });
  }

  return (refs) => {
    if (refs.length === 0) return Promise.resolve([]);
    return new Promise((resolve) => {
      questions.push({ refs, answer: resolve });
      arm();
    });
  };
}

/** A thrown value as text. */
export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
