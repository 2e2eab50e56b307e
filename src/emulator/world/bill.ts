// The cost of nodes, as Google would charge for them: while they are READY, and not those that lose it in a minute.

import { hour, minute } from '../../core/time.ts';
import { accelerator } from '../../catalogue/accelerators.ts';
import { pricePerHour } from '../../catalogue/prices.ts';
import type { BillRecord, NodeRecord } from './records.ts';
import { placeOf, pricingOf, saidLast } from './temper.ts';
import type { World } from './world.ts';

/** Keeps the bill of a node that goes from one state to another. */
export function noteState(world: World, before: NodeRecord, after: NodeRecord): void {
  const now = world.now();
  if (after.state === 'READY' && before.state !== 'READY') {
    const known = world.bills.get(after.id);
    const { name, id, project, zone, type } = after;
    const begun = { name, id, project, zone, type, pricing: pricingOf(after.asked), readyMs: 0, free: false };
    world.bills.put(id, { ...(known ?? begun), since: now });
    return;
  }
  const bill = world.bills.get(after.id);
  if (before.state !== 'READY' || after.state === 'READY' || bill === undefined || bill.since === null) return;
  const readyMs = bill.readyMs + now - bill.since;
  const free = after.state === 'PREEMPTED' && readyMs * world.speed < minute;
  world.bills.put(after.id, { ...bill, readyMs, since: null, free });
}

/** A line of the bill. */
export interface BillLine {
  readonly node: string;
  readonly zone: string;
  readonly type: string;
  readonly pricing: BillRecord['pricing'];
  /** Hours of Google's time: what passes here, times the speed. */
  readonly hours: number;
  /** US dollars; null where no price is known. */
  readonly dollarsPerHour: number | null;
  readonly dollars: number | null;
}

/** All nodes that were ever READY here, the oldest first. */
export function billOf(world: World): BillLine[] {
  return world.bills.values().map((bill) => {
    const here = bill.readyMs + (bill.since === null ? 0 : world.now() - bill.since);
    const hours = bill.free ? 0 : (here * world.speed) / hour;
    const dollarsPerHour = priceOf(world, bill);
    const { name: node, zone, type, pricing } = bill;
    const dollars = dollarsPerHour === null ? null : hours * dollarsPerHour;
    return { node, zone, type, pricing, hours, dollarsPerHour, dollars };
  });
}

/** The last `price` that is about that node, however narrow its words, else the catalogue's figure. */
function priceOf(world: World, { project, zone, type, pricing, name }: BillRecord): number | null {
  const place = { ...placeOf({ project, zone }, type, {}, [name]), pricing };
  const said = saidLast(world, 'price', place);
  if (said === undefined) return pricePerHour({ accelerator: type, zone, pricing });
  return Number(said.options['usd']) * (accelerator(type)?.chips ?? 0);
}

/** The bill in a sentence. */
export function sayBill(lines: readonly BillLine[]): string {
  if (lines.length === 0) return 'No node was ever READY here: nothing would have been charged.';
  const sum = (figures: readonly number[]): number => figures.reduce((total, figure) => total + figure, 0);
  const hours = sum(lines.map((line) => line.hours));
  const dollars = sum(lines.map((line) => line.dollars ?? 0));
  const unknown = lines.filter((line) => line.dollars === null).length;
  const without = unknown === 0 ? '' : `, without the ${String(unknown)} whose price is not known`;
  return (
    `${String(lines.length)} ${lines.length === 1 ? 'node was' : 'nodes were'} READY for ${hours.toFixed(1)} hours of ` +
    `Google's time, which would have cost $${dollars.toFixed(2)}${without}. Nothing is charged here.`
  );
}
