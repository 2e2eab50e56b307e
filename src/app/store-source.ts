// The jobs of the store, as a job source.

import type { Client, JobRow, JobView } from './client.ts';
import { isFinishedPhase } from '../core/decide/phase.ts';
import type { Io } from './services.ts';
import { escapeLine, formatMachine, pluralize } from './format.ts';
import { metricsResult, type FoundJob, type JobSelection, type JobSource } from './job-source.ts';
import { formatHourlyCost } from './phrases.ts';
import { isIdRef } from './refs.ts';

/** The clock is for logs that are followed. */
export function createStoreSource(client: Client, io: Pick<Io, 'now'>): JobSource {
  return {
    async find({ text, isName }, purpose) {
      const isId = isIdRef(text) && !isName;
      const id = isId ? text.padStart(6, '0') : await client.resolveName(text, purpose);
      return storedJob(id);
    },

    list: (query) => client.list(query),
    show: ({ id }, options) => client.show(id, options),
    why: ({ id }) => client.why(id),

    async history(job) {
      const [view, { describeEvent, withoutRepeatedLosses }] = await Promise.all([
        client.show(job.id),
        import('./history.ts'),
      ]);
      const { id, name, owner } = view;
      const events = await client.events(id, 0);
      const shown = new Set(withoutRepeatedLosses(events.map(({ event }) => event)));
      const entries = events.map(({ seq, event }) => ({
        at: event.at,
        message: shown.has(event) ? describeEvent(event, view) : null,
        event: { seq, ...event },
      }));
      return { id, name, owner, entries };
    },

    passes: ({ id }, query) => client.passes(id, query),
    actions: ({ id }) => client.actions(id),

    heldCapacity: async ({ id }) => heldCapacity(await client.show(id)),

    async *perform({ id }, command, { signal: _signal, ...options }) {
      const { onBehalfOf } = options;
      const result = await (command === 'clean'
        ? client.clean(id, onBehalfOf === undefined ? {} : { onBehalfOf })
        : client.sendCommand(id, command, options));
      yield { kind: 'result', ...result };
    },

    async select(command) {
      const selection =
        command === 'clean' ? selectCleanable(await client.listCleanable()) : await selectOwn(client, command);
      return [{ ...selection, jobs: selection.rows.map(({ id }) => storedJob(id)) }];
    },

    async ledgerJob(job) {
      const { id, name } = await client.show(job.id);
      return { key: id, id, name };
    },

    async diffSide({ id }, wanted) {
      const side = await client.diffSide(id, wanted);
      const { attempt } = side;
      if (attempt === null) return side;
      const [{ withMetrics }, metrics] = await Promise.all([
        import('./diff.ts'),
        metricsResult(client.metrics(id, { attempt, maxPoints: 2 })),
      ]);
      return withMetrics(side, metrics);
    },

    async *logs({ id }, query, signal = new AbortController().signal) {
      yield* (await import('./stored-logs.ts')).storedLogs(client, io, id, query, signal);
    },

    readLog: ({ id }, ...read) => client.readLog(id, ...read),
    metrics: ({ id }, query) => client.metrics(id, query),
    metricPoints: ({ id }, query) => client.metricPoints(id, query),
    close: () => Promise.resolve(),
  };
}

/** Null unless an ephemeral allocation may exist and is not being released. */
function heldCapacity(view: JobView): string | null {
  const isReleased = view.desired === 'cancelled' || view.desired === 'deleted';
  const isHeld = view.allocations.some(
    ({ ownership, state, requestedAt, releasedAt, goneAt }) =>
      ownership === 'ephemeral' &&
      state !== 'refused' &&
      requestedAt !== null &&
      releasedAt === null &&
      goneAt === null,
  );
  if (!isHeld || isReleased) return null;
  const price = view.pricePerHourUsd;
  const cost = price === null ? null : formatHourlyCost(view, price);
  const held = `${formatMachine(view)}${cost === null ? '' : `, which costs ${cost}`}`;
  return `Job ${view.id} (${escapeLine(view.name)}) holds ${held}`;
}

export function storedJob(id: string): FoundJob {
  return { id, cluster: null, copy: null, note: null };
}

type Selection = Omit<JobSelection, 'jobs'>;

function selectCleanable(rows: readonly JobRow[]): Selection {
  return { rows, description: pluralize(rows.length, 'finished job'), nothing: 'Nothing to clean.' };
}

async function selectOwn(client: Client, command: 'cancel' | 'delete'): Promise<Selection> {
  const all = (await client.list({ own: true, all: true })).rows.filter(({ desired }) => desired !== 'deleted');
  if (command === 'delete') {
    const rows = all.filter(({ phase }) => isFinishedPhase(phase));
    return { rows, description: pluralize(rows.length, 'finished job'), nothing: 'You have no finished job.' };
  }
  const rows = all.filter(
    ({ phase, desired, heldCapacity: held }) => desired !== 'cancelled' && (!isFinishedPhase(phase) || held !== null),
  );
  const description = rows.some(({ phase }) => isFinishedPhase(phase))
    ? `${pluralize(rows.length, 'job')} (unfinished or holding capacity)`
    : pluralize(rows.length, 'unfinished job');
  return { rows, description, nothing: 'You have no unfinished job and no job that holds capacity.' };
}
