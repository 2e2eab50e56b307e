// The cost of nodes by Google's rules: READY time, except for nodes that are preempted within a minute. The speed does not
// multiply READY time: it shortens what Google does, while programs on the hosts take as long as on real TPUs.

import { hour, minute } from '../../core/model/time.ts';
import { findAccelerator } from '../../catalogue/accelerators.ts';
import { pricePerHour } from '../../catalogue/prices.ts';
import type { BillRecord, NodeRecord } from './records.ts';
import { subjectOf, pricingOf, findLatestCondition } from './faults.ts';
import type { World } from './world.ts';

export function updateBill(world: World, before: NodeRecord, after: NodeRecord): void {
  const now = world.now();
  if (after.state === 'READY' && before.state !== 'READY') {
    const known = world.bills.get(after.id);
    const { name, id, project, zone, type } = after;
    const begun = { name, id, project, zone, type, pricing: pricingOf(after.spec), readyMs: 0, free: false };
    world.bills.put(id, { ...(known ?? begun), since: now });
    return;
  }
  const bill = world.bills.get(after.id);
  if (before.state !== 'READY' || after.state === 'READY' || bill === undefined || bill.since === null) return;
  const readyMs = bill.readyMs + now - bill.since;
  const free = after.state === 'PREEMPTED' && readyMs < minute;
  world.bills.put(after.id, { ...bill, readyMs, since: null, free });
}

export interface BillLine {
  readonly node: string;
  readonly zone: string;
  readonly type: string;
  readonly pricing: BillRecord['pricing'];
  /** Google does not charge it, because it was preempted within a minute. */
  readonly free: boolean;
  /** READY time; 0 for a free node. */
  readonly billedMs: number;
  /** Null when the price is unknown. */
  readonly pricePerHourUsd: number | null;
  readonly costUsd: number | null;
}

export function billOf(world: World): BillLine[] {
  return world.bills.values().map((bill) => {
    const billedMs = bill.free ? 0 : bill.readyMs + (bill.since === null ? 0 : world.now() - bill.since);
    const pricePerHourUsd = priceOf(world, bill);
    const { name: node, zone, type, pricing, free } = bill;
    const costUsd = pricePerHourUsd === null ? null : (billedMs / hour) * pricePerHourUsd;
    return { node, zone, type, pricing, free, billedMs, pricePerHourUsd, costUsd };
  });
}

/** The latest matching `price` condition, even if an earlier one is more specific; else the catalogue's price. */
function priceOf(world: World, { project, zone, type, pricing, name }: BillRecord): number | null {
  const subject = { ...subjectOf({ project, zone }, type, {}, [name]), pricing };
  const condition = findLatestCondition(world, 'price', subject);
  if (condition === undefined) return pricePerHour({ accelerator: type, zone, pricing });
  return Number(condition.options['usd']) * (findAccelerator(type)?.chips ?? 0);
}

export function formatBill(lines: readonly BillLine[]): string {
  if (lines.length === 0) return 'No node was READY so far, so nothing would have been charged.';
  const sum = (figures: readonly number[]): number => figures.reduce((total, figure) => total + figure, 0);
  const ms = sum(lines.map((line) => line.billedMs));
  const time = ms < hour ? `${(ms / minute).toFixed(1)} minutes` : `${(ms / hour).toFixed(1)} hours`;
  const dollars = sum(lines.map((line) => line.costUsd ?? 0));
  const unknown = lines.filter((line) => line.costUsd === null).length;
  const without = unknown === 0 ? '' : `, without the ${String(unknown)} whose price is unknown`;
  const free = lines.filter((line) => line.free).length;
  const rule = free === 0 ? '' : ` ${String(free)} of them would be free: preempted within a minute.`;
  return (
    `${String(lines.length)} ${lines.length === 1 ? 'node was' : 'nodes were'} READY for ${time}, which would have cost ` +
    `$${dollars.toFixed(2)} at Google${without}.${rule} Nothing is charged here.`
  );
}
