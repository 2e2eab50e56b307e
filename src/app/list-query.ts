// List query: the filters that are computed from a row, and pages of the list.

import { generationOf } from '../catalogue/accelerators.ts';
import { isFinishedPhase } from '../core/decide/phase.ts';
import type { JobList, JobRow, ListQuery } from './client.ts';
import { usageError } from './errors.ts';
import type { JobFilter, RowPage } from './ports.ts';

const defaultLimit = 100;
const maxLimit = 1000;
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

/** The part of the phases that the store knows. */
export function finishedFilter({ phases }: ListQuery): Pick<JobFilter, 'isFinished'> {
  const [first, ...others] = phases?.map(isFinishedPhase) ?? [];
  return first === undefined || others.some((one) => one !== first) ? {} : { isFinished: first };
}

/**
 * One page, by id, newest first: the position of a job in this order never changes. So no job comes twice, and none is left
 * out that exists all the time. Throws JobmanError (2).
 */
export async function listPage(
  readRows: (page: NonNullable<JobFilter['page']>) => Promise<RowPage>,
  query: ListQuery,
): Promise<JobList> {
  const limit = limitOf(query);
  const rows: JobRow[] = [];
  for (let before = readCursor(query.cursor); ;) {
    const block = await readRows({ before, limit: Math.max(blockSize, limit + 1) });
    for (const row of block.rows) {
      if (!matchesRow(row, query)) continue;
      const last = rows.at(-1);
      if (rows.length === limit && last !== undefined) return { rows, more: 0, notes: [], next: cursorAfter(last) };
      rows.push(row);
    }
    const last = block.rows.at(-1);
    if (block.more === 0 || last === undefined) return { rows, more: 0, notes: [] };
    before = Number(last.id);
  }
}

function limitOf({ limit = defaultLimit }: ListQuery): number {
  if (!Number.isSafeInteger(limit) || limit < 1)
    throw usageError(`\`limit\` must be a whole number from 1 on, and not ${limit}.`);
  return Math.min(limit, maxLimit);
}

// A cursor is opaque, so that another order can have another cursor.

function cursorAfter({ id }: JobRow): string {
  return Buffer.from(`job ${Number(id)}`).toString('base64url');
}

function readCursor(cursor: string | undefined): number | null {
  if (cursor === undefined) return null;
  const [, number] = /^job (\d{1,15})$/.exec(Buffer.from(cursor, 'base64url').toString()) ?? [];
  if (number === undefined) throw usageError('The cursor is not one of this list. Take `next` of the page before.');
  return Number(number);
}
