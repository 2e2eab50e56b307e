// Changes: events, changed jobs and growing logs as they happen. They are read once for all readers of a database. A cursor
// names a position in them, so that a reader that was disconnected continues after it.

import type { Job } from '../core/model/job.ts';
import type { Instant } from '../core/model/time.ts';
import type { Change, Cursor, LogRef } from './client.ts';
import { createLimiter } from './concurrency.ts';
import { usageError } from './errors.ts';
import { checkInterval, followLogs } from './followed-logs.ts';
import { specOutline } from './json.ts';
import type { JobFiles, Store } from './ports.ts';

const eventBatch = 500;
/** A reader that is further behind reads what it has missed by itself, so that a slow one needs no memory. */
const keptSteps = 10;

interface Position {
  /** The change count of the store. */
  readonly change: number;
  /** The number of the last event. */
  readonly event: number;
  /** The newest log change. */
  readonly logAt: Instant;
}

interface ChangeSources {
  readonly store: Pick<Store, 'changeCount' | 'eventsAfter' | 'lastEvent' | 'list' | 'loadMany'>;
  readonly files: JobFiles;
  readonly now: () => Instant;
}

interface ReaderOptions {
  readonly cursor: Cursor | null;
  /** Null for all unfinished ones. */
  readonly ids: readonly string[] | null;
  readonly isReadable: (job: OwnedJob) => boolean;
}

type OwnedJob = Pick<Job, 'id' | 'owner' | 'spec'>;

/** All readers get the same object, so that a server encodes it once. */
interface Item {
  readonly change: Change;
  /** Null for `jobs`, which every reader gets. */
  readonly job: OwnedJob | null;
  /** After the change. */
  readonly position: Position;
}

interface Step {
  readonly number: number;
  readonly items: readonly Item[];
  readonly position: Position;
}

interface Reader {
  readonly ids: ReadonlySet<string> | null;
  /** Ends the wait for a step. */
  wake: () => void;
}

type Feed = ReturnType<typeof openFeed>;

/** One for each database that has readers. */
const feeds = new WeakMap<ChangeSources['store'], Feed>();

/** Ends at the signal, and rejects if the database fails. */
export async function* changesSince(
  sources: ChangeSources,
  { cursor, ids, isReadable }: ReaderOptions,
  signal: AbortSignal,
): AsyncGenerator<Change, void> {
  const { store, now } = sources;
  const after = cursor === null ? null : parseCursor(cursor);
  const reader: Reader = { ids: ids === null ? null : new Set(ids), wake: () => undefined };
  signal.addEventListener('abort', () => reader.wake());
  const feed = feeds.get(store) ?? openFeed(sources, () => feeds.delete(store));
  feeds.set(store, feed);
  feed.join(reader);
  const isWanted = ({ job }: Item): boolean => job === null || (reader.ids?.has(job.id) !== false && isReadable(job));
  try {
    const begin = after ?? { change: -1, event: await store.lastEvent(), logAt: now() };
    for await (const item of itemsSince(feed, begin, reader, signal)) if (isWanted(item)) yield item.change;
  } finally {
    feed.leave(reader);
  }
}

/** Of all jobs. */
async function* itemsSince(
  feed: Feed,
  begin: Position,
  reader: Reader,
  signal: AbortSignal,
): AsyncGenerator<Item, void> {
  let position = begin;
  while (!signal.aborted) {
    // The events before the newest step, while the feed continues.
    await feed.watch(reader.ids);
    for (let events = await feed.eventsAfter(position); events !== null; events = await feed.eventsAfter(position)) {
      yield* events.items;
      ({ position } = events);
    }
    const missed = feed.rest(position);
    position = missed.position;
    yield* missed.items;
    for (let { number } = missed; ;) {
      const step = await feed.stepAfter(number, reader, signal);
      if (step === undefined) break;
      for (const item of step.items)
        if (item.change.kind === 'event' ? item.position.event > position.event : feed.isNewest(item)) yield item;
      position = { ...step.position, event: Math.max(position.event, step.position.event) };
      ({ number } = step);
    }
  }
}

/** Checks the database and the logs until the last reader leaves, or a check fails. */
function openFeed({ store, files, now }: ChangeSources, onEnd: () => void) {
  const readers = new Set<Reader>();
  const over = new AbortController();
  const inTurn = createLimiter(1);
  const logs = followLogs(files, now);
  let hasAll = false;
  let newest: Step | undefined;
  let kept: readonly Step[] = [];
  let failure: { readonly error: unknown } | undefined;

  function end(): void {
    onEnd();
    over.abort();
    logs.close();
    for (const { wake } of readers) wake();
  }

  async function run(): Promise<void> {
    try {
      while (!over.signal.aborted) {
        const isComplete = await inTurn(check);
        if (isComplete) await logs.grow(checkInterval, over.signal);
      }
    } catch (error) {
      failure = { error };
      end();
    }
  }

  const begin = async (): Promise<Step> =>
    (newest ??= {
      number: 0,
      items: [],
      position: { change: await store.changeCount(), event: await store.lastEvent(), logAt: now() },
    });

  /** False if there are more events. */
  async function check(): Promise<boolean> {
    const { position: last } = await begin();
    const change = await store.changeCount();
    const events = change === last.change ? null : await readEvents(store, logs.jobs(), last);
    const items = [...(events?.items ?? [])];
    let position = events?.position ?? last;
    if (events?.isLast === true) {
      position = { ...position, change };
      items.push(jobsItem(position));
      hasAll = [...readers].some(({ ids }) => ids === null);
      const listed = hasAll ? await listAll() : [];
      const named = new Set([...readers].flatMap(({ ids }) => [...(ids ?? [])]));
      logs.replace([...listed, ...(await load([...named].filter((id) => listed.every((job) => job.id !== id))))]);
    }
    publish([...items, ...logItems(logs.changed(), logs.jobs(), position)], position);
    return events?.isLast !== false;
  }

  const listAll = async () => (await store.list({ isFinished: false, maxFinished: 0 })).jobs;
  const load = async (ids: readonly string[]) => (await store.loadMany(ids)).map(({ job }) => job);

  function publish(items: readonly Item[], position: Position): void {
    const number = (newest?.number ?? 0) + (items.length === 0 ? 0 : 1);
    newest = { number, items, position: items.at(-1)?.position ?? position };
    if (items.length === 0) return;
    kept = [...kept.slice(1 - keptSteps), newest];
    for (const { wake } of readers) wake();
  }

  return {
    join(reader: Reader): void {
      readers.add(reader);
      if (readers.size === 1) void run();
    },

    leave(reader: Reader): void {
      readers.delete(reader);
      if (readers.size === 0 && !over.signal.aborted) end();
    },

    /** Begins to check the logs of these jobs, or of all unfinished ones. */
    watch: (ids: ReadonlySet<string> | null): Promise<void> =>
      inTurn(async () => {
        const { position } = await begin();
        if (ids === null ? hasAll : [...ids].every((id) => logs.jobs().has(id))) return;
        const grown = logs.add(ids === null ? await listAll() : await load([...ids]));
        hasAll ||= ids === null;
        publish(logItems(grown, logs.jobs(), position), position);
      }),

    /** A batch of those that the feed has read; null without any. */
    eventsAfter: async (position: Position) =>
      position.event < (newest?.position.event ?? 0) ? readEvents(store, logs.jobs(), position) : null,

    /** Everything but events that is new after the position, until the step of the number. */
    rest(since: Position): Step {
      const { number, position: last } = newest ?? { number: 0, position: since };
      const position = { ...last, event: Math.max(since.event, last.event), logAt: since.logAt };
      const views = last.change === since.change ? [] : [jobsItem(position)];
      const items = [...views, ...logItems(logs.since(since.logAt), logs.jobs(), position)];
      return { number, items, position: items.at(-1)?.position ?? position };
    },

    /** False if a later step replaces the change, so that a slow reader gets only the later one. */
    isNewest: ({ change, position }: Item): boolean =>
      change.kind === 'log' ? logs.isNewest(change.log) : position.change === newest?.position.change,

    /** Undefined if the reader has left, or if it is too far behind. */
    async stepAfter(number: number, reader: Reader, signal: AbortSignal): Promise<Step | undefined> {
      while (!signal.aborted && failure === undefined && newest?.number === number)
        await new Promise<void>((resolve) => (reader.wake = resolve));
      if (failure !== undefined) throw failure.error;
      return kept.find((step) => step.number === number + 1);
    },
  };
}

/** At most a batch. Events of jobs that no longer exist are left out. */
async function readEvents(
  store: ChangeSources['store'],
  known: ReadonlyMap<string, Job>,
  { change, event: last, logAt }: Position,
) {
  const events = await store.eventsAfter(last, eventBatch);
  const owned = new Map<string, OwnedJob>(known);
  const others = [...new Set(events.map(({ job }) => job))].filter((id) => !owned.has(id));
  for (const { job } of await store.loadMany(others)) owned.set(job.id, { ...job, spec: specOutline(job.spec) });
  const items = events.flatMap(({ number, job: id, seq, event }): readonly Item[] => {
    const job = owned.get(id);
    const position = { change, event: number, logAt };
    if (job === undefined) return [];
    return [{ change: { kind: 'event', cursor: formatCursor(position), job: id, seq, event }, job, position }];
  });
  return {
    items,
    position: { change, event: events.at(-1)?.number ?? last, logAt },
    isLast: events.length < eventBatch,
  };
}

function jobsItem(position: Position): Item {
  return { change: { kind: 'jobs', cursor: formatCursor(position) }, job: null, position };
}

/** The oldest first, so that no cursor is after a change that comes later. */
function logItems(changed: readonly LogRef[], jobs: ReadonlyMap<string, Job>, since: Position): readonly Item[] {
  let position = since;
  return changed
    .toSorted((one, other) => one.changedAt - other.changedAt)
    .flatMap((log): readonly Item[] => {
      const job = jobs.get(log.job);
      position = { ...position, logAt: Math.max(position.logAt, log.changedAt) };
      if (job === undefined) return [];
      return [{ change: { kind: 'log', cursor: formatCursor(position), log }, job, position }];
    });
}

function formatCursor({ change, event, logAt }: Position): Cursor {
  return `${change}-${event}-${logAt}`;
}

function parseCursor(cursor: Cursor): Position {
  const [, change, event, logAt] = /^(\d{1,15})-(\d{1,15})-(\d{1,15})$/.exec(cursor) ?? [];
  if (change === undefined) throw usageError(`"${cursor}" is not a cursor of changes.`);
  return { change: Number(change), event: Number(event), logAt: Number(logAt) };
}
