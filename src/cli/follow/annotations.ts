import { formatWorker, type WorkerId } from '../../core/model/spec.ts';
import type { AttemptView, JobView, WorkerView } from '../../app/client.ts';
import { pluralize, formatDuration, formatTime, reasonPhrases, escapeLine } from '../../app/format.ts';
import { describeEvent } from '../../app/history.ts';
import { formatEnding, formatEvidence } from '../../app/phrases.ts';
import { joinLabels } from '../../app/log-text.ts';
import type { Event } from '../../core/model/event.ts';
import { type Duration, type Instant, minute, second } from '../../core/model/time.ts';

const maxEarlierAttempts = 3;

/** `attempt 3, stage 2, workers 0-3`. */
export function formatAttempt({ attempt, stage }: AttemptView, workers: readonly WorkerId[]): string {
  return [`attempt ${attempt}`, ...(stage === 0 ? [] : [`stage ${stage}`]), ...formatWorkers(workers)].join(', ');
}

export function formatAttemptStart(
  view: Pick<JobView, 'attempts'>,
  attempt: AttemptView,
  workers: readonly WorkerId[],
): string {
  const before = view.attempts.findLast((one) => one.attempt < attempt.attempt);
  const ended = before?.endingAt ?? before?.endedAt ?? null;
  const { startedAt } = attempt;
  const gap =
    ended === null || startedAt === null
      ? ''
      : `, ${formatDuration(startedAt - ended)} after attempt ${before?.attempt}`;
  return `${formatAttempt(attempt, workers)}${gap}`;
}

/** One row for each earlier attempt, the newest ones of many, for a user who did not see them. */
export function formatEarlierAttempts(
  view: Pick<JobView, 'id' | 'attempts'>,
  attempt: number,
  now: Instant,
): readonly string[] {
  const before = view.attempts.filter((one) => one.attempt < attempt && one.reason !== null);
  const shown = before.slice(-maxEarlierAttempts).map((one) => escapeLine(formatAttemptEnd(one, now)));
  const more = before.length - shown.length;
  return more === 0
    ? shown
    : [`${pluralize(more, 'attempt')} before these: jobman history ${Number(view.id)}`, ...shown];
}

/** `attempt 1 ran 2h38m until 20 Nov 22:31:07 UTC: preempted; the cloud took it`. */
function formatAttemptEnd(
  { attempt, startedAt, endingAt, endedAt, reason, evidence }: AttemptView,
  now: Instant,
): string {
  const end = endingAt ?? endedAt;
  const ran = startedAt === null || end === null ? 'did not run' : `ran ${formatDuration(end - startedAt)}`;
  const until = end === null ? '' : ` until ${formatTime(end, now)}`;
  const because = evidence === null ? '' : formatEvidence(evidence);
  return `attempt ${attempt} ${ran}${until}: ${reason === null ? '' : reasonPhrases[reason]}${because === '' ? '' : `; ${because}`}`;
}

function formatWorkers(workers: readonly WorkerId[]): readonly string[] {
  if (workers.length === 0) return [];
  if (workers.length === 1 && workers[0] === 'controller') return ['on this machine'];
  return [`${workers.length === 1 ? 'worker' : 'workers'} ${joinLabels(workers)}`];
}

/**
 * Returns undefined if the screen shows the event anyway or it needs no line. Reports an attempt's end when it is
 * decided, not again when the last process has ended.
 */
export function createEventFormatter() {
  const reported = new Set<number>();
  return (event: Event, view: Pick<JobView, 'spec'>): string | undefined => {
    if (event.kind !== 'attempt_ending' && event.kind !== 'attempt_ended') return formatEvent(event, view);
    // The verdict has its own line; a stop was reported as the owner's command.
    if (reported.has(event.attempt) || event.reason === 'succeeded' || event.reason === 'stopped') return undefined;
    reported.add(event.attempt);
    const evidence = formatEnding(view, event);
    return escapeLine(evidence === '' ? reasonPhrases[event.reason] : `${reasonPhrases[event.reason]}; ${evidence}`);
  };
}

export type EventFormatter = ReturnType<typeof createEventFormatter>;

const shownEvents: ReadonlySet<Event['kind']> = new Set([
  'command_received',
  'allocation_refused',
  'alternative_exhausted',
  'alternative_skipped',
  'step_failed',
  'step_run_manually',
  'exit_seen',
  'unreachable',
  'reachable',
  'clock_set_back',
]);

function formatEvent(event: Event, view: Pick<JobView, 'spec'>): string | undefined {
  if (event.kind !== 'attempt_created')
    return shownEvents.has(event.kind) ? escapeLine(describeEvent(event, view)) : undefined;
  if (event.attempt === 1) return undefined;
  const wait = event.notBeforeAt - event.at;
  const later = wait > 0 ? `, in ${formatDuration(wait)}` : '';
  return `attempt ${event.attempt} (stage ${event.stage}) on allocation ${event.allocation}${later}`;
}

/** Returns new messages only, given the age of each worker's newest line. */
export type SilenceDetector = (workers: readonly WorkerView[]) => readonly string[];

/** Outlier: no output for this long, and for this many times as long as the other workers. */
const outlierAfter: Duration = 45 * second;
const outlierFactor = 3;
/** All workers may compute without output for a while. */
const allAfter: Duration = 5 * minute;

interface Silence {
  readonly who: string;
  readonly of: 'some' | 'all';
  length: Duration;
}

/** Ignores workers that never printed: they may have nothing to print. */
export function createSilenceDetector(): SilenceDetector {
  let reported: Silence | undefined;
  /** A silence that ended once is normal for this program; only one of twice the length is reported again. */
  const patience = { some: outlierAfter, all: allAfter };

  function end(): readonly string[] {
    if (reported === undefined) return [];
    const { who, of, length } = reported;
    reported = undefined;
    patience[of] = Math.max(patience[of], 2 * length);
    return [`${who} printed again after ${formatDuration(length)}`];
  }

  return (workers) => {
    const heard = workers.flatMap(({ worker, logAgeMs }) => (logAgeMs === null ? [] : [{ worker, age: logAgeMs }]));
    const youngest = Math.min(...heard.map(({ age }) => age));
    const of = youngest >= patience.all ? 'all' : 'some';
    const silent = heard.filter(({ age }) => of === 'all' || (age >= patience.some && age >= outlierFactor * youngest));
    const [first] = silent;
    if (first === undefined) return end();

    const length = Math.min(...silent.map(({ age }) => age));
    const who =
      silent.length === 1 ? formatWorker(first.worker) : `workers ${joinLabels(silent.map(({ worker }) => worker))}`;
    if (reported?.who === who && reported.of === of) {
      reported.length = length;
      return [];
    }
    reported = { who, of, length };
    const others = heard.filter((one) => !silent.includes(one)).map(({ age }) => age);
    return [`nothing from ${who} for ${formatDuration(length)}${formatOthers(others)}`];
  };
}

function formatOthers(ages: readonly Duration[]): string {
  if (ages.length === 0) return '';
  const [least, most] = [formatDuration(Math.min(...ages)), formatDuration(Math.max(...ages))];
  return `, from the others ${least === most ? least : `${least} to ${most}`} ago`;
}
