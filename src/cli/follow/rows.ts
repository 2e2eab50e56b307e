// Rows between the lines of a log: where another attempt begins, what happened to the job, and who has fallen silent.

import type { AttemptView, JobView, WorkerView } from '../../app/client.ts';
import { countText, lengthText, momentText, workerText, reasonWords, inertWord } from '../../app/figures.ts';
import { eventSentence } from '../../app/history.ts';
import { endText, evidenceText } from '../../app/phrases.ts';
import { workersLabel } from '../logs/lines.ts';
import type { Event } from '../../core/decision.ts';
import type { WorkerId } from '../../core/spec.ts';
import { type Duration, type Instant, minute, second } from '../../core/time.ts';

/** Of what came before, so many attempts have a row of their own. */
const mostBefore = 3;

/** `attempt 3, stage 2, workers 0-3`: whose lines follow. */
export function attemptText({ attempt, stage }: AttemptView, workers: readonly WorkerId[]): string {
  return [`attempt ${attempt}`, ...(stage === 0 ? [] : [`stage ${stage}`]), ...placesText(workers)].join(', ');
}

/** The same when its log begins behind that of another: how long nothing ran in between. */
export function beginsText(
  view: Pick<JobView, 'attempts'>,
  attempt: AttemptView,
  workers: readonly WorkerId[],
): string {
  const before = view.attempts.findLast((one) => one.attempt < attempt.attempt);
  const ended = before?.ending ?? before?.ended ?? null;
  const { started } = attempt;
  const gap =
    ended === null || started === null ? '' : `, ${lengthText(started - ended)} after attempt ${before?.attempt}`;
  return `${attemptText(attempt, workers)}${gap}`;
}

/**
 * What became of the attempts before this one, a row each: somebody who comes back in the third does not know of the first
 * two. Of many, the newest.
 */
export function beforeTexts(view: Pick<JobView, 'id' | 'attempts'>, attempt: number, now: Instant): readonly string[] {
  const before = view.attempts.filter((one) => one.attempt < attempt && one.reason !== null);
  const told = before.slice(-mostBefore).map((one) => inertWord(attemptEndText(one, now)));
  const more = before.length - told.length;
  return more === 0 ? told : [`${countText(more, 'attempt')} before these: jobman history ${Number(view.id)}`, ...told];
}

/** `attempt 1 ran 2h38m until 20 Nov 22:31:07 UTC: preempted; the cloud took it`. */
function attemptEndText({ attempt, started, ending, ended, reason, evidence }: AttemptView, now: Instant): string {
  const end = ending ?? ended;
  const ran = started === null || end === null ? 'did not run' : `ran ${lengthText(end - started)}`;
  const until = end === null ? '' : ` until ${momentText(end, now)}`;
  const because = evidence === null ? '' : evidenceText(evidence);
  return `attempt ${attempt} ${ran}${until}: ${reason === null ? '' : reasonWords[reason]}${because === '' ? '' : `; ${because}`}`;
}

function placesText(workers: readonly WorkerId[]): readonly string[] {
  if (workers.length === 0) return [];
  if (workers.length === 1 && workers[0] === 'here') return ['on this machine'];
  return [`${workers.length === 1 ? 'worker' : 'workers'} ${workersLabel(workers)}`];
}

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

/** Says what is worth a row now, given how old each worker's newest line is; nothing for what it has said already. */
export type Silences = (workers: readonly WorkerView[]) => readonly string[];

/** A worker is unlike the others when nothing came from it for this long, and for so many times as long as from them. */
const oddAfter: Duration = 45 * second;
const oddTimes = 3;
/** All of them may think for a while. */
const allAfter: Duration = 5 * minute;

interface Silence {
  readonly who: string;
  readonly isOfAll: boolean;
  length: Duration;
}

/** Remembers who is silent. A worker that never printed anything is none of it: it may have nothing to say. */
export function createSilences(): Silences {
  let told: Silence | undefined;
  /** A silence that was over once is how this program works: only a much longer one is news. */
  const patience = { odd: oddAfter, all: allAfter };

  function end(): readonly string[] {
    if (told === undefined) return [];
    const { who, isOfAll, length } = told;
    told = undefined;
    patience[isOfAll ? 'all' : 'odd'] = Math.max(patience[isOfAll ? 'all' : 'odd'], 2 * length);
    return [`${who} printed again after ${lengthText(length)}`];
  }

  return (workers) => {
    const heard = workers.flatMap(({ worker, logAgeMs }) => (logAgeMs === null ? [] : [{ worker, age: logAgeMs }]));
    const youngest = Math.min(...heard.map(({ age }) => age));
    const isOfAll = heard.length > 0 && youngest >= patience.all;
    const silent = heard.filter(({ age }) => isOfAll || (age >= patience.odd && age >= oddTimes * youngest));
    const [first] = silent;
    if (first === undefined) return end();

    const length = Math.min(...silent.map(({ age }) => age));
    const who =
      silent.length === 1 ? workerText(first.worker) : `workers ${workersLabel(silent.map(({ worker }) => worker))}`;
    if (told?.who === who && told.isOfAll === isOfAll) {
      told.length = length;
      return [];
    }
    told = { who, isOfAll, length };
    const others = heard.filter((one) => !silent.includes(one)).map(({ age }) => age);
    return [`nothing from ${who} for ${lengthText(length)}${othersText(others)}`];
  };
}

function othersText(ages: readonly Duration[]): string {
  if (ages.length === 0) return '';
  const [least, most] = [lengthText(Math.min(...ages)), lengthText(Math.max(...ages))];
  return `, from the others ${least === most ? least : `${least} to ${most}`} ago`;
}
