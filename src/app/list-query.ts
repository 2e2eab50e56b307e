// List query: the filters that are computed from a row, and pages of the list.

import { generationOf } from '../catalogue/accelerators.ts';
import { isFinishedPhase } from '../core/decide/phase.ts';
import type { JobList, JobRow, ListQuery } from './client.ts';
import { cursorOf, maxPage, readCursor, requireLimit } from './pages.ts';
import type { JobFilter, RowPage } from './ports.ts';

const defaultLimit = 100;
/** Rows that are read at once. A filter that few jobs pass reads several such blocks for one page. */
const blockSize = 250;

/** The filters that the store cannot apply, because a phase and a zone are computed from the job. */
export function matchesRow(row: JobRow, { phases, zone, accelerator }: ListQuery): boolean {
  return (
    (phases === undefined || phases.includes(row.phase)) &&
    (zone === undefined || row.zone === zone) &&
    (accelerator === undefined ||
      row.accelerator === accelerator ||
      (row.accelerator !== null && generationOf(row.accelerator)?.name === accelerator))
  );
}

/** True if the row passes each filter that needs only the row. The owner is compared by name, without the logins of a user. */
export function matchesQuery(row: JobRow, query: ListQuery): boolean {
  const { user, tag, name, createdSince } = query;
  return (
    matchesRow(row, query) &&
    (user === undefined || row.owner === user) &&
    (tag === undefined || row.tags.includes(tag)) &&
    (createdSince === undefined || row.createdAt >= createdSince) &&
    (name === undefined || matchesPattern(row.name.toLowerCase(), name.toLowerCase()))
  );
}

/** Only the last `*` is tried at other positions: a regular expression with several takes very long for some names. */
function matchesPattern(name: string, pattern: string): boolean {
  let [at, next] = [0, 0];
  let star: { readonly at: number; next: number } | undefined;
  while (next < name.length) {
    if (pattern[at] === '*') {
      star = { at, next };
      at += 1;
    } else if (pattern[at] === '?' || pattern[at] === name[next]) {
      at += 1;
      next += 1;
    } else if (star === undefined) return false;
    else {
      star.next += 1;
      [at, next] = [star.at + 1, star.next];
    }
  }
  return /^\**$/.test(pattern.slice(at));
}

/** The part of the phases that the store knows. */
export function finishedFilter({ phases }: ListQuery): Pick<JobFilter, 'isFinished'> {
  const [first, ...others] = phases?.map(isFinishedPhase) ?? [];
  return first === undefined || others.some((one) => one !== first) ? {} : { isFinished: first };
}

/** One page, by id, newest first. Throws JobmanError (2). */
export async function listPage(
  readRows: (page: NonNullable<JobFilter['page']>) => Promise<RowPage>,
  query: ListQuery,
): Promise<JobList> {
  const limit = limitOf(query);
  const rows: JobRow[] = [];
  const after = query.cursor === undefined ? null : Number(readCursor('jobs', query.cursor)[0]);
  for (let before = after; ;) {
    const block = await readRows({ before, limit: Math.max(blockSize, limit + 1) });
    for (const row of block.rows) {
      if (!matchesRow(row, query)) continue;
      const last = rows.at(-1);
      if (rows.length === limit && last !== undefined) {
        const next = cursorOf('jobs', [Number(last.id)]);
        return { rows, more: 0, notes: [], next };
      }
      rows.push(row);
    }
    const last = block.rows.at(-1);
    if (block.more === 0 || last === undefined) return { rows, more: 0, notes: [] };
    before = Number(last.id);
  }
}

function limitOf({ limit = defaultLimit }: ListQuery): number {
  requireLimit(limit);
  return Math.min(limit, maxPage);
}
