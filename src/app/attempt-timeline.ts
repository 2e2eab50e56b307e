// The timeline of each attempt: its segments and the events in them. It is computed from views alone, so that `show`, `history`
// and the page of a job show the same.

import type { Event } from '../core/model/event.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import type { UsageRow } from '../reports/usage.ts';
import type { AllocationView, AttemptView, JobView } from './client.ts';
import { formatDate, formatTimeOfDay, reasonPhrases } from './format.ts';
import { formatCause } from './phrases.ts';

/**
 * `pause`: after a failure, before the next request. `waiting`: for capacity. `provisioning`: the cloud creates it. `lost`: the
 * command ran, and its work since the last checkpoint was lost. `ending`: from the end of the program, or the decision to end
 * it, to the end of the attempt.
 */
export type SegmentKind = 'pause' | 'waiting' | 'provisioning' | 'setup' | 'running' | 'lost' | 'ending';

export const segmentPhrases: Readonly<Record<SegmentKind, string>> = {
  pause: 'pause',
  waiting: 'waiting for capacity',
  provisioning: 'provisioning',
  setup: 'setup',
  running: 'running',
  lost: 'lost since the last checkpoint',
  ending: 'ending',
};

export interface Segment {
  readonly kind: SegmentKind;
  readonly from: Instant;
  readonly until: Instant;
  /** True while the segment continues. `until` is then the current time. */
  readonly isOpen: boolean;
}

export interface TimelineMarker {
  readonly kind: 'command' | 'checkpoint' | 'loss' | 'failure' | 'silence';
  readonly at: Instant;
  readonly event: Event;
}

export interface AttemptLane {
  readonly attempt: number;
  readonly allocation: number;
  /** The part of the attempt in which its allocation was ready; null before that. */
  readonly held: { readonly from: Instant; readonly until: Instant } | null;
  readonly segments: readonly Segment[];
  readonly markers: readonly TimelineMarker[];
}

type Life = Pick<JobView, 'attempts' | 'allocations'>;

/** `events` and `usage`: of the whole job; without them, no segment is `provisioning` or `lost`, and there are no markers. */
export function attemptLanes(
  { attempts, allocations }: Life,
  now: Instant,
  events: readonly Event[] = [],
  usage: readonly UsageRow[] = [],
): readonly AttemptLane[] {
  const lost = Map.groupBy(
    usage.filter(({ use }) => use === 'lost'),
    ({ attempt }) => attempt,
  );
  const created = new Map<number, Instant>();
  for (const event of events)
    if (event.kind === 'allocation_seen' && event.state === 'provisioning' && !created.has(event.allocation))
      created.set(event.allocation, event.at);
  const byNumber = new Map(allocations.map((one) => [one.allocation, one]));
  const markers = Map.groupBy(markersOf(events), ({ at, event }) => attemptAt(attempts, event, at));
  return attempts.map((attempt) => {
    const { attempt: number, allocation } = attempt;
    const capacity = byNumber.get(allocation);
    return {
      attempt: number,
      allocation,
      held: heldTime(attempt, capacity, now),
      segments: withLosses(
        segmentsOf(attempt, capacity, created.get(allocation) ?? null, now),
        (lost.get(number) ?? []).map(({ from, until }) => ({ from, until: until ?? now })),
      ),
      markers: markers.get(number) ?? [],
    };
  });
}

function segmentsOf(
  attempt: AttemptView,
  capacity: AllocationView | undefined,
  creationAt: Instant | null,
  now: Instant,
): readonly Segment[] {
  const { createdAt, notBeforeAt, startedAt, endingAt, endedAt, reason } = attempt;
  const stop = Math.max(createdAt, endedAt ?? now);
  const ready = capacity?.readyAt ?? null;
  const ending = reason === 'succeeded' ? null : (endingAt ?? endedAt);
  const started = Math.min(stop, startedAt ?? ending ?? stop);
  const usable = Math.min(started, Math.max(createdAt, notBeforeAt, ready ?? stop));
  const asked = Math.min(usable, Math.max(createdAt, notBeforeAt));
  const granted = Math.min(usable, Math.max(asked, creationAt ?? usable));
  const ran = Math.max(started, ending ?? stop);
  const parts: readonly (readonly [SegmentKind, Instant, Instant])[] = [
    ['pause', createdAt, asked],
    ['waiting', asked, granted],
    ['provisioning', granted, usable],
    ['setup', usable, started],
    ...(startedAt === null ? [] : [['running', started, ran] as const]),
    ...(ending === null ? [] : [['ending', Math.max(ending, started), stop] as const]),
  ];
  const shown = parts
    .map(([kind, from, until]) => ({ kind, from, until, isOpen: false }))
    // These are shown even without a length: a command may end within a millisecond.
    .filter(({ kind, from, until }) => until > from || kind === 'running' || kind === 'ending');
  return endedAt !== null ? shown : shown.map((one, index) => ({ ...one, isOpen: index === shown.length - 1 }));
}

interface Span {
  readonly from: Instant;
  readonly until: Instant;
}

/** The ledger knows only afterwards which work was lost. */
function withLosses(segments: readonly Segment[], losses: readonly Span[]): readonly Segment[] {
  if (losses.length === 0) return segments;
  return segments.flatMap((segment) => {
    if (segment.kind !== 'running') return [segment];
    const lost = losses
      .map((one) => ({ from: Math.max(one.from, segment.from), until: Math.min(one.until, segment.until) }))
      .filter(({ from, until }) => until > from)
      .toSorted((one, other) => one.from - other.from);
    const parts: Segment[] = [];
    let at = segment.from;
    for (const { from, until } of lost) {
      if (from > at) parts.push({ ...segment, from: at, until: from, isOpen: false });
      parts.push({ kind: 'lost', from: Math.max(at, from), until, isOpen: segment.isOpen && until === segment.until });
      at = Math.max(at, until);
    }
    if (at < segment.until || parts.length === 0) parts.push({ ...segment, from: at });
    return parts;
  });
}

function heldTime(attempt: AttemptView, capacity: AllocationView | undefined, now: Instant): AttemptLane['held'] {
  if (capacity === undefined || capacity.readyAt === null) return null;
  const from = Math.max(attempt.createdAt, capacity.readyAt);
  const until = Math.max(from, Math.min(capacity.goneAt ?? now, Math.max(attempt.endedAt ?? now, from)));
  return { from, until };
}

function markersOf(events: readonly Event[]): readonly TimelineMarker[] {
  return events.flatMap((event): readonly TimelineMarker[] => {
    const { at } = event;
    switch (event.kind) {
      case 'command_received':
        return [{ kind: 'command', at, event }];
      case 'allocation_seen':
        return event.state === 'lost' ? [{ kind: 'loss', at, event }] : [];
      case 'attempt_ending':
        return event.reason === 'succeeded' || event.reason === 'stopped' || event.reason === 'preempted'
          ? []
          : [{ kind: 'failure', at, event }];
      case 'attempt_resumed':
        // The marker is at the checkpoint, in the attempt that saved it.
        return event.savedAt === null ? [] : [{ kind: 'checkpoint', at: event.savedAt, event }];
      case 'unreachable':
        return [{ kind: 'silence', at, event }];
      default:
        return [];
    }
  });
}

/** The attempt that the event names, or else the newest one that had begun. */
function attemptAt(attempts: readonly AttemptView[], event: Event, at: Instant): number | undefined {
  if (event.kind === 'attempt_ending') return event.attempt;
  return (attempts.findLast(({ createdAt }) => createdAt <= at) ?? attempts[0])?.attempt;
}

/** The events in the segment. An event at its end belongs to the next segment. */
export function eventsOf(events: readonly Event[], { from, until, isOpen }: Segment): readonly Event[] {
  return events.filter(({ at }) => at >= from && (isOpen || at < until || (from === until && at === from)));
}

/** Accepts the events that name the attempt, and of the others those from its creation to that of the next attempt. */
export function isEventOf(attempt: number, attempts: readonly AttemptView[]): (event: Event) => boolean {
  const index = attempts.findIndex((one) => one.attempt === attempt);
  const from = attempts[index]?.createdAt ?? Infinity;
  const until = attempts[index + 1]?.createdAt ?? Infinity;
  return (event) =>
    'attempt' in event && event.attempt !== undefined
      ? event.attempt === attempt
      : event.at >= from && event.at < until;
}

// ------------------------------------------------------------------------------------------ rows

export interface AttemptSpans {
  readonly waited: Duration | null;
  readonly setup: Duration | null;
  readonly ran: Duration | null;
}

/** Null for a part that has not begun. A backoff is no setup, even if the allocation is ready. */
export function attemptSpans(attempt: AttemptView, allocations: readonly AllocationView[], now: Instant): AttemptSpans {
  const ready = allocations[attempt.allocation - 1]?.readyAt ?? null;
  const end = attempt.endedAt ?? now;
  const usable = ready === null ? null : Math.max(ready, attempt.createdAt, attempt.notBeforeAt);
  const begun = usable === null || usable > (attempt.startedAt ?? end) ? null : usable;
  return {
    waited: (begun ?? attempt.startedAt ?? end) - attempt.createdAt,
    setup: begun === null ? null : (attempt.startedAt ?? end) - begun,
    ran: attempt.startedAt === null ? null : (attempt.endingAt ?? end) - attempt.startedAt,
  };
}

/** `22:31:07 preempted: …`; `-` before its end. */
export function formatAttemptEnd({ spec }: Pick<JobView, 'spec'>, attempt: AttemptView, now: Instant): string {
  if (attempt.reason === null) return '-';
  const at = attempt.endedAt;
  const day = at === null || formatDate(at, now) === formatDate(now, now) ? '' : `${formatDate(at, now)} `;
  const when = at === null ? 'ending' : `${day}${formatTimeOfDay(at)}`;
  const cause = attempt.evidence === null ? '' : formatCause(spec, attempt.reason, attempt.evidence);
  return `${when} ${reasonPhrases[attempt.reason]}${cause === '' ? '' : `: ${cause}`}`.replaceAll('\n', ' ');
}

/** The newest attempt, if it has not ended. */
export function openAttemptView(attempts: readonly AttemptView[]): AttemptView | undefined {
  const last = attempts.at(-1);
  return last?.endedAt === null ? last : undefined;
}
