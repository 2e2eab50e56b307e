// Lines between the lines of a log: what happened to the job meanwhile.

import type { JobView } from '../../app/client.ts';
import { lengthText } from '../../app/figures.ts';
import { eventSentence } from '../../app/history.ts';
import { endText } from '../../app/phrases.ts';
import { reasonWords } from '../../app/reason-words.ts';
import type { Event } from '../../core/decision.ts';
import { inertWord } from '../render/inert.ts';

/** The sentence for an event; undefined for one that the screen shows anyway or that is not worth a line. */
export type Marks = (event: Event, view: Pick<JobView, 'spec'>) => string | undefined;

/** Remembers what it said: an end is told when it is decided, and not again when the last process is gone. */
export function createMarks(): Marks {
  const told = new Set<number>();
  return (event, view) => {
    if (event.kind !== 'attempt_ending' && event.kind !== 'attempt_ended') return markOf(event, view);
    // A success is the job's verdict, which has a line of its own; a stop was told as the owner's word.
    if (told.has(event.attempt) || event.reason === 'succeeded' || event.reason === 'stopped') return undefined;
    told.add(event.attempt);
    const evidence = endText(view, event);
    return inertWord(evidence === '' ? reasonWords[event.reason] : `${reasonWords[event.reason]}; ${evidence}`);
  };
}

function markOf(event: Event, view: Pick<JobView, 'spec'>): string | undefined {
  switch (event.kind) {
    case 'attempt_created': {
      if (event.attempt === 1) return undefined;
      const wait = event.notBefore - event.at;
      const later = wait > 0 ? `, in ${lengthText(wait)}` : '';
      return `attempt ${event.attempt} (stage ${event.stage}) on allocation ${event.allocation}${later}`;
    }
    case 'asked':
    case 'allocation_refused':
    case 'place_passed_over':
    case 'place_skipped':
    case 'step_failed':
    case 'step_by_hand':
    case 'exit_seen':
    case 'silent':
    case 'answering':
    case 'clock_set_back':
      return inertWord(eventSentence(event, view));
    case 'created':
    case 'allocation_requested':
    case 'allocation_seen':
    case 'allocation_released':
    case 'allocation_gone':
    case 'attempt_moved':
    case 'attempt_started':
    case 'attempt_running':
    case 'attempt_ending':
    case 'attempt_ended':
    case 'rule_applied':
    case 'settled':
    case 'removed':
      return undefined;
  }
}
