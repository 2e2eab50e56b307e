/**
 * What a chip costs an hour at Google, in US dollars: facts/cloud-tpu.md section 14, a catalogue made from Cloud Billing
 * between August 2025 and August 2026. Spot prices move monthly.
 */
import { acceleratorByType, type Generation } from './accelerators.ts';
import { regionOf } from './zones.ts';

type Row = Readonly<Record<string, readonly [ondemand: number, spot: number]>>;

/** v2 and v3 slices have prices of their own. */
const prices: Readonly<Record<Generation | 'v2 slice' | 'v3 slice', Row>> = {
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

/** Dollars for an hour of the whole node; null where the catalogue has no figure. Reserved capacity costs as on demand. */
export function pricePerHour(type: string, zone: string, pricing: 'spot' | 'ondemand' | 'reserved'): number | null {
  const accelerator = acceleratorByType(type);
  if (accelerator === undefined) return null;
  const { generation, workers, chips } = accelerator;
  const sold =
    workers > 1 && (generation === 'v2' || generation === 'v3') ? (`${generation} slice` as const) : generation;
  const row = prices[sold][regionOf(zone)];
  return row === undefined ? null : chips * row[pricing === 'spot' ? 1 : 0];
}
