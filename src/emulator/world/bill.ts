// The cost of nodes by Google's rules: READY time, except for nodes that are preempted within a minute.

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
  const free = after.state === 'PREEMPTED' && readyMs * world.speed < minute;
  world.bills.put(after.id, { ...bill, readyMs, since: null, free });
}

export interface BillLine {
  readonly node: string;
  readonly zone: string;
  readonly type: string;
  readonly pricing: BillRecord['pricing'];
  /** Google's time: time here multiplied by the speed. */
  readonly billedMs: number;
  /** Null when the price is unknown. */
  readonly pricePerHourUsd: number | null;
  readonly costUsd: number | null;
}

export function billOf(world: World): BillLine[] {
  return world.bills.values().map((bill) => {
    const here = bill.readyMs + (bill.since === null ? 0 : world.now() - bill.since);
    const billedMs = bill.free ? 0 : Math.round(here * world.speed);
    const pricePerHourUsd = priceOf(world, bill);
    const { name: node, zone, type, pricing } = bill;
    const costUsd = pricePerHourUsd === null ? null : (billedMs / hour) * pricePerHourUsd;
    return { node, zone, type, pricing, billedMs, pricePerHourUsd, costUsd };
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
  const hours = sum(lines.map((line) => line.billedMs)) / hour;
  const dollars = sum(lines.map((line) => line.costUsd ?? 0));
  const unknown = lines.filter((line) => line.costUsd === null).length;
  const without = unknown === 0 ? '' : `, without the ${String(unknown)} whose price is unknown`;
  return (
    `${String(lines.length)} ${lines.length === 1 ? 'node was' : 'nodes were'} READY for ${hours.toFixed(1)} hours of ` +
    `Google's time, which would have cost $${dollars.toFixed(2)}${without}. Nothing is charged here.`
  );
}
