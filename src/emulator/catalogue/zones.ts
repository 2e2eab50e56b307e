/**
 * Which zone offers which generation (facts/cloud-tpu.md section 13, a catalogue read off the live API between August
 * 2025 and August 2026), and which software versions a node can start with (section 12).
 */
import { type Accelerator, accelerators, type Generation } from './accelerators.ts';

/** A row of the catalogue: where, and of which size. v2 and v3 sell single hosts and slices in different zones. */
interface Offer {
  readonly generation: Generation;
  readonly size: 'any' | 'single' | 'slice';
  readonly zones: readonly string[];
}

const offers: readonly Offer[] = [
  offer('v2', 'single', 'us-central1-b us-central1-c us-central1-f europe-west4-a asia-east1-c'),
  offer('v2', 'slice', 'us-central1-a europe-west4-a'),
  offer('v3', 'single', 'us-central1-a us-central1-b us-central1-f europe-west4-a us-east1-d'),
  offer('v3', 'slice', 'europe-west4-a us-east1-d'),
  offer('v4', 'any', 'us-central2-b'),
  offer(
    'v5e',
    'any',
    'us-central1-a us-south1-a us-south1-b us-west1-c us-west4-a us-west4-b us-east5-a us-east5-b us-east5-c us-east1-b ' +
      'us-east1-c us-east4-b europe-west1-b europe-west1-c europe-west3-c europe-west4-a europe-west4-b europe-north1-a ' +
      'europe-north1-c asia-east1-a asia-east1-b asia-east1-c asia-northeast1-b asia-southeast1-b ' +
      'northamerica-northeast1-b southamerica-west1-b southamerica-west1-c',
  ),
  offer(
    'v5p',
    'any',
    'us-central1-a us-east5-a us-east5-b us-east5-c us-south1-a us-south1-b us-south1-c us-east1-d europe-west1-b ' +
      'europe-west1-d europe-west4-b',
  ),
  offer(
    'v6e',
    'any',
    'us-central1-a us-central1-b us-central1-c us-east1-d us-east4-a us-east5-a us-east5-b us-east5-c us-south1-a ' +
      'us-south1-c us-west1-c europe-west4-a asia-northeast1-b asia-south1-b asia-south1-c asia-southeast1-b ' +
      'southamerica-west1-a',
  ),
];

function offer(generation: Generation, size: Offer['size'], zones: string): Offer {
  return { generation, size, zones: zones.split(' ') };
}

/** All zones that offer anything, by name. */
export const zones: readonly string[] = [...new Set(offers.flatMap((row) => row.zones))].toSorted();

/** `us-central1` of `us-central1-a`. */
export function regionOf(zone: string): string {
  return zone.slice(0, zone.lastIndexOf('-'));
}

/** What a zone offers; empty for a zone that the service does not know. */
export function acceleratorsIn(zone: string): readonly Accelerator[] {
  return accelerators.filter((accelerator) =>
    offers.some(
      (row) =>
        row.generation === accelerator.generation &&
        row.zones.includes(zone) &&
        (row.size === 'any' || (row.size === 'single') === (accelerator.workers === 1)),
    ),
  );
}

export const runtimeVersions: readonly string[] = [
  'tpu-ubuntu2204-base',
  'tpu-vm-base',
  'tpu-vm-tf-2.15.0',
  'tpu-vm-tf-2.15.0-pod',
  'tpu-vm-tf-2.16.1-pjrt',
  'tpu-vm-tf-2.16.1-pod-pjrt',
  'tpu-vm-tf-2.17.0-pjrt',
  'tpu-vm-tf-2.17.0-pod-pjrt',
  'tpu-vm-tf-2.18.0-pjrt',
  'tpu-vm-tf-2.18.0-pod-pjrt',
  'v2-alpha-tpuv4',
  'v2-alpha-tpuv4-pod',
  'v2-alpha-tpuv5',
  'v2-alpha-tpuv5-lite',
  'v2-alpha-tpuv6e',
];

/** What `v1/…/tensorflowVersions` still lists. */
export const tensorflowVersions: readonly string[] = ['2.15.0', '2.16.1', '2.17.0', '2.18.0'];
