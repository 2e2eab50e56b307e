// Lack: why a pod finds no place, counted from what nodes have and what their pods take. The best node is the one on which the
// fewest resources are short, and the least of them.

import type { ClusterNode, ClusterPod } from './cluster.ts';
import {
  addQuantities,
  compareQuantities,
  parseQuantity,
  quantityNumber,
  quantityText,
  zero,
  type Quantity,
} from './quantity.ts';

interface Short {
  readonly resource: string;
  readonly asked: Quantity;
  readonly free: Quantity;
  readonly missing: Quantity;
}

/** The resources that the best node lacks. */
export interface Lack {
  readonly node: string;
  readonly short: readonly Short[];
  /** Resources that no node of the cluster has at all. */
  readonly absent: readonly string[];
}

/**
 * The resources missing on the best of the nodes that are open to it; undefined if no node is, or none lacks anything: then it
 * is something else that keeps it waiting. `neighbours` are the pods of all namespaces.
 */
export function lackOf(
  pod: ClusterPod,
  nodes: readonly ClusterNode[],
  neighbours: readonly ClusterPod[],
): Lack | undefined {
  const asked = Object.entries(pod.requests).map(([resource, amount]) => [resource, quantityOf(amount)] as const);
  const bears = (taint: string): boolean => pod.requests[taint] !== undefined;
  const open = nodes.filter(({ ready, unschedulable, taints }) => ready && !unschedulable && taints.every(bears));
  const absent = asked
    .filter(([, amount]) => compareQuantities(amount, zero) > 0)
    .map(([resource]) => resource)
    .filter((resource) =>
      nodes.every(({ allocatable }) => compareQuantities(quantityOf(allocatable[resource] ?? '0'), zero) <= 0),
    );
  const lacks = open.map((node): Lack => {
    const there = neighbours.filter(
      (one) => one.node === node.name && one.phase !== 'Succeeded' && one.phase !== 'Failed',
    );
    const short = asked.flatMap(([resource, amount]): readonly Short[] => {
      const taken = there.map(({ requests }) => quantityOf(requests[resource] ?? '0'));
      const free = minus(quantityOf(node.allocatable[resource] ?? '0'), taken.reduce(addQuantities, zero));
      return compareQuantities(amount, free) <= 0
        ? []
        : [{ resource, asked: amount, free, missing: minus(amount, free) }];
    });
    return { node: node.name, short, absent };
  });
  const [best] = lacks.toSorted((one, other) => one.short.length - other.short.length || shareOf(one) - shareOf(other));
  return best === undefined || best.short.length === 0 ? undefined : best;
}

/** `the best node, real, has 1900m cpu free of the 100 that it asks for: 98100m are missing`. */
export function lackText({ node, short, absent }: Lack): string {
  if (absent.length > 0) return `no node has ${absent.join(' or ')}`;
  const parts = short.map(({ resource, asked, free, missing }) => {
    const left = compareQuantities(free, zero) > 0 ? shownText(free) : 'no';
    return `${left} ${resource} free of the ${shownText(asked)} that it asks for: ${shownText(missing)} are missing`;
  });
  return `the best node, ${node}, has ${parts.join('; ')}`;
}

/** To three digits or so where the exact text is a long number of bytes, which nobody reads. */
function shownText(quantity: Quantity): string {
  const exact = quantityText(quantity);
  if (exact.length <= 6) return exact;
  const size = quantityNumber(quantity);
  const step = Math.max(0, Math.min(byteUnits.length - 1, Math.floor(Math.log2(Math.abs(size)) / 10)));
  return step === 0 ? exact : `${Number((size / 1024 ** step).toPrecision(3))}${byteUnits[step]}`;
}

const byteUnits = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

/** `cpu 2, memory 1G`. */
export function amountsText(amounts: Readonly<Record<string, string>>): string {
  return Object.entries(amounts)
    .map(([name, amount]) => `${name} ${amount}`)
    .join(', ');
}

function shareOf({ short }: Lack): number {
  return short.reduce((sum, { missing, asked }) => sum + quantityNumber(missing) / quantityNumber(asked), 0);
}

function minus(one: Quantity, other: Quantity): Quantity {
  return addQuantities(one, { nanos: -other.nanos, style: other.style });
}

function quantityOf(written: string): Quantity {
  return parseQuantity(written) ?? zero;
}
