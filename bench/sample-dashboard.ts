// Sample dashboard: the pages with ten thousand jobs that change a hundred times per second.

import type { Change, Client, JobList, JobRow, ListQuery } from '../src/app/client.ts';
import { listPage, matchesQuery } from '../src/app/list-query.ts';
import { phases } from '../src/core/decide/phase.ts';
import type { Actor } from '../src/core/model/user.ts';
import { day, minute, second } from '../src/core/model/time.ts';
import { jobView } from '../test/cli/support/harness.ts';
import { openPageServer } from '../test/support/page-server.ts';

const ada: Actor = { user: 'ada', role: 'member', via: 'token', logins: [] };
const tickMs = 50;

export interface SampleDashboard {
  /** Opens a browser's session, once. */
  readonly address: string;
  /** From now on, so many jobs change in a second. */
  change(perSecond: number): void;
  close(): Promise<void>;
}

export async function openSampleDashboard(jobCount: number): Promise<SampleDashboard> {
  const rows = new Map<string, JobRow>();
  for (let number = jobCount; number > 0; number -= 1) {
    const row = sampleRow(number);
    rows.set(row.id, row);
  }
  const listeners = new Set<(ids: readonly string[]) => void>();
  const server = await openPageServer({ actor: ada, client: sampleClient(rows, listeners) });
  let perSecond = 0;
  let round = 0;
  const timer = setInterval(() => {
    const ids = new Set<string>();
    for (let index = 0; index < (perSecond * tickMs) / second; index += 1) {
      round += 1;
      // Jobs all over the list, most of them among the newest.
      const number = jobCount - ((round * 7919) % (round % 3 === 0 ? jobCount : 40));
      const row = rows.get(idOf(number));
      if (row === undefined) continue;
      const phase = round % 10 === 0 ? (phases[round % 5] ?? 'running') : row.phase;
      rows.set(row.id, { ...row, phase, message: `step ${round} of 90,000`, phaseStartedAt: Date.now() });
      ids.add(row.id);
    }
    for (const listener of listeners) listener([...ids]);
  }, tickMs);
  return {
    address: server.address,
    change: (next) => void (perSecond = next),
    async close() {
      clearInterval(timer);
      await server.close();
    },
  };
}

function idOf(number: number): string {
  return String(number).padStart(6, '0');
}

const zones = ['us-west4-a', 'us-east5-b', 'europe-west4-b'] as const;
const names = ['vit-l16-lr3e-4', 'bert-tune', 'eval-sweep', 'dit-xl2'] as const;
const ends = ['succeeded', 'failed', 'stopped', 'cancelled'] as const;

function sampleRow(number: number): JobRow {
  const { why: _why, spec: _spec, ...sample } = jobView();
  const phase = number % 3 === 0 ? (ends[number % 4] ?? 'failed') : (phases[number % 5] ?? 'running');
  return {
    ...sample,
    id: idOf(number),
    name: `${names[number % names.length]}-${number}`,
    owner: number % 5 === 0 ? 'bob' : 'ada',
    accelerator: number % 2 === 0 ? 'v5litepod-16' : 'v4-8',
    zone: zones[number % zones.length] ?? null,
    phase,
    message: phase === 'failed' ? 'exit 1, worker 3' : 'running for 2h, 2 preemptions',
    attemptEnds: number % 4 === 0 ? ['preempted', 'command_failed', 'preempted', null] : [null],
    attention: phase === 'failed' ? 'failed' : number % 50 === 0 ? 'silent' : null,
    tags: number % 6 === 0 ? ['sweep'] : [],
    createdAt: Date.now() - (10_000 - number) * minute,
    phaseStartedAt: Date.now() - (number % 10) * (day / 6),
    pricePerHourUsd: number % 2 === 0 ? 36.08 : null,
  };
}

function sampleClient(
  rows: ReadonlyMap<string, JobRow>,
  listeners: Set<(ids: readonly string[]) => void>,
): Partial<Client> {
  return {
    whoAmI: async () => ada,
    async list(query: ListQuery): Promise<JobList> {
      if (query.ids !== undefined) return { rows: query.ids.flatMap((id) => rows.get(id) ?? []), more: 0, notes: [] };
      const all = [...rows.values()].filter((row) => matchesQuery(row, query));
      return listPage(async ({ before, limit }) => {
        const from = before === null ? 0 : all.findIndex(({ id }) => Number(id) < before);
        const block = from === -1 ? [] : all.slice(from, from + limit);
        return { rows: block, more: from === -1 ? 0 : all.length - from - block.length };
      }, query);
    },
    async *changesSince(): AsyncGenerator<Change, void> {
      let waiting: string[] = [];
      let wake: () => void = () => undefined;
      const listener = (ids: readonly string[]): void => {
        waiting.push(...ids);
        wake();
      };
      listeners.add(listener);
      try {
        yield { kind: 'jobs', cursor: '0' };
        for (let seq = 1; ; seq += 1) {
          if (waiting.length === 0) await new Promise<void>((resolve) => (wake = resolve));
          const ids = waiting;
          waiting = [];
          for (const job of ids)
            yield {
              kind: 'event',
              cursor: String(seq),
              job,
              seq,
              event: { kind: 'command_running', at: Date.now() } as never,
            };
        }
      } finally {
        listeners.delete(listener);
      }
    },
  };
}
