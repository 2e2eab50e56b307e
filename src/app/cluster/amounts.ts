// Amounts of resources, by name: the requests of a pod. The keys are those of Kubernetes.

import { addQuantities, formatQuantity, parseQuantity, quantityKey, zero, type Quantity } from './quantity.ts';

/** Kubernetes quantities by resource: `{"cpu": "2", "memory": "8Gi"}`. */
export type Amounts = Readonly<Record<string, string>>;

/** Outside kubernetes.io: https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/ */
export function isExtended(resource: string): boolean {
  const [domain = ''] = resource.split('/');
  return resource.includes('/') && domain !== 'kubernetes.io' && !domain.endsWith('.kubernetes.io');
}

/** True for every extended resource, unless `jobsQueue.gpuResources` lists the GPUs. */
export function isGpu(resource: string, gpuResources: readonly string[]): boolean {
  return gpuResources.length === 0 ? isExtended(resource) : gpuResources.includes(resource);
}

export function gpuCount(requests: Amounts, gpuResources: readonly string[]): number {
  const counted = Object.entries(requests).filter(([name]) => isGpu(name, gpuResources));
  const sum = counted.reduce((total, [, amount]) => addQuantities(total, parseQuantity(amount) ?? zero), zero);
  return Number(sum.nanos / 1_000_000_000n);
}

/** In canonical form, without invalid amounts. */
export function sumAmounts(all: readonly Amounts[]): Amounts {
  const sums = new Map<string, Quantity>();
  for (const [name, written] of all.flatMap((amounts) => Object.entries(amounts))) {
    const quantity = parseQuantity(written);
    if (quantity === undefined) continue;
    sums.set(name, addQuantities(sums.get(name) ?? zero, quantity));
  }
  return Object.fromEntries([...sums].map(([name, quantity]) => [name, formatQuantity(quantity)]));
}

/** A key that is equal for equal requests, whatever their notation and order. A request for 0 does not count. */
export function amountsKey(amounts: Amounts): string {
  return Object.entries(amounts)
    .map(([name, written]) => [name, quantityKey(written) ?? written] as const)
    .filter(([, amount]) => amount !== '0')
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, amount]) => `${name}=${amount}`)
    .join(',');
}
