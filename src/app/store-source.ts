// The jobs of the store, as a job source.

import type { Client, JobView } from './client.ts';
import { escapeLine, formatMachine } from './format.ts';
import type { JobSource } from './job-source.ts';
import { formatHourlyCost } from './phrases.ts';
import { isIdRef } from './refs.ts';

export function createStoreSource(client: Client): JobSource {
  return {
    async find({ text, isName }, purpose) {
      const isId = isIdRef(text) && !isName;
      const id = isId ? text.padStart(6, '0') : await client.resolveName(text, purpose);
      return { id, cluster: null, copy: null, note: null };
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
      const result = await (command === 'clean' ? client.clean(id) : client.sendCommand(id, command, options));
      yield { kind: 'result', ...result };
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
        client.metrics(id, { attempt, maxPoints: 2 }),
      ]);
      return withMetrics(side, metrics);
    },

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
