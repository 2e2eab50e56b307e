// Checks of the usage ledger against the bill of the TPU emulator, for one seed each.

import assert from 'node:assert/strict';
import { minute, type Duration } from '../../../src/core/model/time.ts';
import type { UsageRow } from '../../../src/reports/usage.ts';
import { costOf, type BilledWorld } from './billed-world.ts';
import { runRandomBill } from './random-bill.ts';

/** The contents of a world, so that many worlds can show that they contain every case. */
export interface BillCheck {
  readonly billedUsd: number;
  readonly nodes: number;
  /** Nodes that were preempted within a minute. */
  readonly free: number;
  /** Events of orphan collection about ready times. */
  readonly orphans: number;
  /** Allocations that became ready after they were superseded. */
  readonly superseded: number;
  /** TPUs that appeared in an alternative after the job had left it. */
  readonly late: number;
  /** Nodes of a multislice. */
  readonly slices: number;
}

/** The two sums agree to the cent, and the stretches of each allocation have no gaps and do not overlap. */
export async function checkBill(seed: number): Promise<BillCheck> {
  const world = await runRandomBill(seed, null);
  try {
    const rows = await world.usage();
    const now = world.clock.now();
    checkStretches(rows);
    const bill = world.bill();
    const billedUsd = bill.reduce((sum, { costUsd }) => sum + (costUsd ?? 0), 0);
    const usd = (ownership: UsageRow['ownership']) =>
      rows.filter((row) => row.ownership === ownership).reduce((sum, row) => sum + costOf(row, now), 0);
    const names = bill.map(({ node, billedMs, costUsd }) => `${node} ${billedMs} ms $${costUsd}`).join('\n');
    assert.ok(
      Math.abs(usd('ephemeral') - billedUsd) < 0.005,
      `the ledger has $${usd('ephemeral')}, the bill $${billedUsd}:\n${names}\n${rows.map(formatRow).join('\n')}`,
    );
    assert.ok(
      Math.abs(usd('persistent') - world.persistentUsd()) < 0.005,
      `the ledger has $${usd('persistent')} for persistent capacity, the world $${world.persistentUsd()}:\n${rows.map(formatRow).join('\n')}`,
    );
    const events = (await Promise.all((await world.jobs()).map(({ id }) => world.store.events(id, 0)))).flat();
    return {
      billedUsd,
      nodes: bill.length,
      free: world.world.bills.values().filter(({ free }) => free).length,
      orphans: events.filter(({ event }) => event.kind === 'orphan_seen').length,
      superseded: (await world.jobs()).flatMap(({ allocations }) =>
        allocations.filter((one) => one.superseded !== undefined && (one.readyPeriods?.length ?? 0) > 0),
      ).length,
      late: (await world.jobs()).flatMap(({ allocations }) => allocations.flatMap(({ lateTpus = [] }) => lateTpus))
        .length,
      slices: bill.filter(({ node }) => /-\d{6}-\d+-\d+$/.test(node)).length,
    };
  } finally {
    await world.close();
  }
}

/** Node by node, because errors of several could cancel each other. */
export async function checkBillAtIntervals(seed: number, intervalMs: Duration): Promise<void> {
  const world = await runRandomBill(seed, intervalMs);
  try {
    const rows = await world.usage();
    checkStretches(rows);
    for (const [name, billed] of billedTimes(world)) {
      const own = rows.filter((row) => `${row.location}/${row.name}` === name && row.use !== 'waiting');
      const recorded = own.reduce((sum, { from, until }) => sum + ((until ?? world.clock.now()) - from), 0);
      const difference = Math.abs(recorded - billed.readyMs);
      assert.ok(
        difference <= 2 * intervalMs * billed.periods,
        `${name} was ready for ${billed.readyMs} ms in ${billed.periods} periods, the ledger has ${recorded} ms`,
      );
    }
  } finally {
    await world.close();
  }
}

/** The READY time of each node with a job's label, whether it is charged or not. A multislice has several nodes. */
function billedTimes(
  world: BilledWorld,
): ReadonlyMap<string, { readonly readyMs: Duration; readonly periods: number }> {
  const found = new Map<string, { readyMs: number; periods: number }>();
  for (const { name, readyMs, since, id } of world.world.bills.values()) {
    if (name.includes('/shared-') || /-\d{6}-\d+-\d+$/.test(name)) continue;
    const periods = world.readyPeriods.get(id) ?? 1;
    const until = since === null ? 0 : world.clock.now() - since;
    const [, , , zone, , node] = name.split('/');
    // A deleted node and a later one may have the same name.
    const before = found.get(`${zone}/${node}`) ?? { readyMs: 0, periods: 0 };
    found.set(`${zone}/${node}`, {
      readyMs: before.readyMs + readyMs + until,
      periods: before.periods + periods,
    });
  }
  return found;
}

function checkStretches(rows: readonly UsageRow[]): void {
  const last = new Map<string, UsageRow>();
  for (const row of rows) {
    // A late TPU in the same zone has another type.
    const key = [row.job, row.allocation, row.location, row.accelerator, row.pricing].join('/');
    const before = last.get(key);
    last.set(key, row);
    assert.ok(row.until === null || row.until > row.from, formatRow(row));
    if (before === undefined || row.ownership === 'persistent') continue;
    if (before.use === 'waiting' && row.use === 'waiting') continue;
    assert.equal(before.until, row.from, `${formatRow(before)}, then ${formatRow(row)}`);
  }
}

function formatRow({ job, allocation, name, use, attempt, from, until, pricePerHourUsd }: UsageRow): string {
  const length = until === null ? 'open' : `${((until - from) / minute).toFixed(2)} min`;
  return `${job}/${allocation} ${name} ${use}/${attempt} ${new Date(from).toISOString()} ${length} $${pricePerHourUsd}/h`;
}
