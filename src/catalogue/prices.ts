// List prices of TPUs per hour, as an estimate; spot prices change monthly.

import { findAccelerator, type Accelerator } from './accelerators.ts';
import { regionOf } from './zones.ts';

/** The source of the prices, and the day on which they were read (UTC). */
export const priceTable = {
  date: '2026-08-01',
  source: "the catalogue of SkyPilot, made from Google's Cloud Billing",
} as const;

/** The table of jobs whose record does not name one. */
export const firstPriceTable = '2026-08-01';

/** US dollars per chip-hour, [on demand, spot]. `v2` and `v3` slices differ from single machines. */
const chipHourPrices: Readonly<Record<string, Readonly<Record<string, readonly [number, number]>>>> = {
  v2: { 'us-central1': [1.125, 0.3375] },
  'v2 slice': { 'us-central1': [1.5, 0.3825] },
  v3: { 'us-central1': [2, 0.51], 'europe-west4': [2.2, 0.561] },
  'v3 slice': { 'us-east1': [2, 0.6], 'europe-west4': [2, 0.66] },
  v4: { 'us-central2': [3.22, 0.9215] },
  v5e: {
    'us-central1': [1.2, 0.2449],
    'us-east1': [1.2, 0.2449],
    'us-east5': [1.2, 0.6],
    'us-south1': [1.416, 0.5664],
    'us-west1': [1.2, 0.2449],
    'us-west4': [1.2, 0.48],
    'europe-west1': [1.3213, 0.5285],
    'europe-west4': [1.56, 0.445],
    'asia-southeast1': [1.56, 0.78],
  },
  v5p: {
    'us-central1': [4.2, 0.8357],
    'us-east1': [4.2, 0.8357],
    'us-east5': [4.2, 1.68],
    'us-south1': [4.779, 1.3161],
    'europe-west1': [4.4595, 1.7838],
    'europe-west4': [4.2525, 1.3485],
  },
  v6e: {
    'us-central1': [2.7, 0.5442],
    'us-east1': [2.7, 0.5442],
    'us-east4': [2.7, 0.5777],
    'us-east5': [2.7, 1.215],
    'us-south1': [2.7, 1.35],
    'us-west1': [2.7, 0.5442],
    'europe-west4': [2.97, 1.0375],
    'asia-northeast1': [3.24, 0.9435],
    'asia-south1': [3.24, 2.27],
    'asia-southeast1': [2.97, 0.3629],
  },
};

interface PricedCapacity {
  readonly accelerator: string;
  readonly zone: string;
  readonly pricing: 'spot' | 'preemptible' | 'ondemand' | 'reserved';
  readonly nodeCount?: number;
}

/** The regions in which one slice of this type has a price, in the order of the table. */
export function pricedRegions(accelerator: Accelerator): readonly string[] {
  return Object.keys(rowsOf(accelerator));
}

function rowsOf({ generation: { name }, workers }: Accelerator): Readonly<Record<string, readonly [number, number]>> {
  return (workers > 1 ? chipHourPrices[`${name} slice`] : undefined) ?? chipHourPrices[name] ?? {};
}

/** US dollars for all slices; null when unknown. Reserved capacity, paid for anyway, has its on-demand price. */
export function pricePerHour({ accelerator: type, zone, pricing, nodeCount = 1 }: PricedCapacity): number | null {
  const slice = findAccelerator(type);
  if (slice === undefined) return null;
  const row = rowsOf(slice)[regionOf(zone)];
  const isOnDemand = pricing === 'ondemand' || pricing === 'reserved';
  return row === undefined ? null : slice.chips * nodeCount * row[isOnDemand ? 0 : 1];
}
