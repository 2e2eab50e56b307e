// The Jobs of a cluster as rows of the one list. They are asked for beside the record; a cluster that does not answer in
// time is a remark below the table and keeps nobody from the rest.

import type { JobRow, ListQuery } from '../../app/client.ts';
import type { ClusterJob, ClusterPlace } from '../../app/cluster/cluster.ts';
import { amountsText } from '../../app/cluster/lack.ts';
import { clusterPhase, clusterReason } from '../../app/cluster/verdict.ts';
import { JobmanError } from '../../app/errors.ts';
import { given } from '../../core/given.ts';
import { isSettledPhase } from '../../core/phase.ts';
import { second, type Instant } from '../../core/time.ts';
import type { Cli } from '../context.ts';
import type { PlaceFlags } from './either.ts';
import { besideMost } from './within.ts';

/** Settled Jobs that are shown without --all: as many as of the record. */
const settledShown = 50;

/** What a cluster adds to a list. */
export interface ClusterRows {
  readonly rows: readonly JobRow[];
  /** Settled ones that match and are not shown. */
  readonly more: number;
  readonly notes: readonly string[];
}

/** The rows of the namespace, newest first. Never rejects for what the cluster or the line does. */
export async function clusterRows(cli: Cli, query: ListQuery, flags: PlaceFlags): Promise<ClusterRows> {
  // Tags are words of the record; no Job of a cluster has one.
  if (query.tag !== undefined) return { rows: [], more: 0, notes: [] };
  const late = new AbortController();
  const timer = setTimeout(() => {
    late.abort(new Error(`it did not answer within ${besideMost / second} s`));
  }, besideMost);
  let called = 'The cluster';
  try {
    const cluster = await cli.services.cluster(given({ context: flags.context, namespace: flags.namespace }));
    try {
      const place = cluster.place();
      called = `The cluster of ${place.context}`;
      const rows: JobRow[] = [];
      const now = cli.io.now();
      for await (const page of cluster.jobs({ signal: late.signal })) {
        // It answers; the rest may take as long as it takes.
        clearTimeout(timer);
        for (const job of page) {
          const row = rowOf(job, place, now);
          if (isWanted(row, query)) rows.push(row);
        }
      }
      return cut(
        rows.toSorted((one, other) => other.createdAt - one.createdAt),
        query,
      );
    } finally {
      await cluster.close();
    }
  } catch (error) {
    if (!(error instanceof JobmanError) && !late.signal.aborted) throw error;
    const why = error instanceof Error ? error.message : String(error);
    return { rows: [], more: 0, notes: [`${called} is not shown: ${why}`] };
  } finally {
    clearTimeout(timer);
  }
}

function rowOf(job: ClusterJob, place: ClusterPlace, now: Instant): JobRow {
  const phase = clusterPhase(job);
  return {
    id: job.name,
    name: job.name,
    user: job.owner ?? '-',
    backend: 'kubernetes',
    accelerator: job.flavor ?? (amountsText(job.requests) || '-'),
    pricing: null,
    zone: `${place.context}/${job.namespace}`,
    host0: null,
    phase,
    status: phase,
    reason: clusterReason(job, now),
    desired: 'run',
    stage: 0,
    attempt: 0,
    tags: [],
    createdAt: job.createdAt,
    since: job.endedAt ?? job.startedAt ?? job.createdAt,
    pricePerHour: null,
    pretended: false,
  };
}

function isWanted(row: JobRow, { owner, phases, name }: ListQuery): boolean {
  return (
    (owner === undefined || row.user === owner) &&
    (phases === undefined || phases.includes(row.phase)) &&
    (name === undefined || isLike(row.name, name))
  );
}

/** A name, or a pattern of it with `*` and `?`, as the record understands one. */
function isLike(name: string, pattern: string): boolean {
  const parts = pattern.split(/([*?])/).map((part) => (part === '*' ? '.*' : part === '?' ? '.' : RegExp.escape(part)));
  return new RegExp(`^${parts.join('')}$`, 'is').test(name);
}

/** Without --all or a phase only the newest of those that have settled. */
function cut(rows: readonly JobRow[], { all, phases }: ListQuery): ClusterRows {
  if (all === true || phases !== undefined) return { rows, more: 0, notes: [] };
  let settled = 0;
  const shown = rows.filter(({ phase }) => !isSettledPhase(phase) || (settled += 1) <= settledShown);
  return { rows: shown, more: rows.length - shown.length, notes: [] };
}
