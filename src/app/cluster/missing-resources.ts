// Missing resources: the reason why no node fits a pod, from the nodes' resources and the requests of their pods. The
// best node lacks the fewest resources, and among equals the smallest share.

import type { ClusterNode } from './cluster.ts';
import type { ClusterPod } from './objects.ts';
import {
  addQuantities,
  compareQuantities,
  parseQuantity,
  quantityNumber,
  formatQuantity,
  zero,
  type Quantity,
} from './quantity.ts';

interface Shortage {
  readonly resource: string;
  readonly requested: Quantity;
  readonly free: Quantity;
  readonly missing: Quantity;
}

export interface MissingResources {
  readonly node: string;
  readonly shortages: readonly Shortage[];
  readonly absent: readonly string[];
}

/** The resources missing on the best usable node; undefined if that is not the cause. */
export function findMissingResources(
  pod: ClusterPod,
  nodes: readonly ClusterNode[],
  allPods: readonly ClusterPod[],
): MissingResources | undefined {
  const requested = Object.entries(pod.requests).map(([resource, amount]) => [resource, quantityOf(amount)] as const);
  const tolerates = (taint: string): boolean => pod.requests[taint] !== undefined;
  const usableNodes = nodes.filter(
    ({ ready, unschedulable, taints }) => ready && !unschedulable && taints.every(tolerates),
  );
  const absent = requested
    .filter(([, amount]) => compareQuantities(amount, zero) > 0)
    .map(([resource]) => resource)
    .filter((resource) =>
      nodes.every(({ allocatable }) => compareQuantities(quantityOf(allocatable[resource] ?? '0'), zero) <= 0),
    );
  const shortages = usableNodes.map((node): MissingResources => {
    const podsOnNode = allPods.filter(
      (one) => one.node === node.name && one.phase !== 'Succeeded' && one.phase !== 'Failed',
    );
    const short = requested.flatMap(([resource, amount]): readonly Shortage[] => {
      const used = podsOnNode.map(({ requests }) => quantityOf(requests[resource] ?? '0'));
      const free = subtractQuantities(quantityOf(node.allocatable[resource] ?? '0'), used.reduce(addQuantities, zero));
      return compareQuantities(amount, free) <= 0
        ? []
        : [{ resource, requested: amount, free, missing: subtractQuantities(amount, free) }];
    });
    return { node: node.name, shortages: short, absent };
  });
  const [best] = shortages.toSorted(
    (one, other) => one.shortages.length - other.shortages.length || shareOf(one) - shareOf(other),
  );
  return best === undefined || best.shortages.length === 0 ? undefined : best;
}

export function formatMissingResources({ node, shortages, absent }: MissingResources): string {
  if (absent.length > 0) return `no node has ${absent.join(' or ')}`;
  const parts = shortages.map(({ resource, requested, free, missing }) => {
    const format = resource === 'cpu' ? formatCores : formatBytes;
    const left = compareQuantities(free, zero) > 0 ? format(free) : 'no';
    return `${left} ${resource} free, ${format(requested)} requested (${format(missing)} missing)`;
  });
  return `the best node, ${node}, has ${parts.join('; ')}`;
}

function formatCores(quantity: Quantity): string {
  const exact = formatQuantity(quantity);
  return exact.length <= 6 ? exact : String(Math.round(quantityNumber(quantity)));
}

/** About three digits, if the exact text is long. */
function formatBytes(quantity: Quantity): string {
  const exact = formatQuantity(quantity);
  if (exact.length <= 6) return exact;
  const size = quantityNumber(quantity);
  const step = Math.max(0, Math.min(byteUnits.length - 1, Math.floor(Math.log2(Math.abs(size)) / 10)));
  return step === 0 ? exact : `${Number((size / 1024 ** step).toPrecision(3))}${byteUnits[step]}`;
}

const byteUnits = ['', 'Ki', 'Mi', 'Gi', 'Ti', 'Pi', 'Ei'];

export function formatAmounts(amounts: Readonly<Record<string, string>>): string {
  return Object.entries(amounts)
    .map(([name, amount]) => `${name} ${amount}`)
    .join(', ');
}

function shareOf({ shortages }: MissingResources): number {
  return shortages.reduce(
    (sum, { missing, requested }) => sum + quantityNumber(missing) / quantityNumber(requested),
    0,
  );
}

function subtractQuantities(one: Quantity, other: Quantity): Quantity {
  return addQuantities(one, { nanos: -other.nanos, style: other.style });
}

function quantityOf(written: string): Quantity {
  return parseQuantity(written) ?? zero;
}
