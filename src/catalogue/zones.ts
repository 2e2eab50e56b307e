// Zones: where Google offers which generation of TPU. A table for early mistakes in a manifest, never for a refusal: Google
// adds zones, and being listed promises neither capacity nor permission.
// Source: the catalogue of SkyPilot, made from the live API between August 2025 and August 2026, and Google's page of TPU
// regions. The built-in cloud offers exactly these.

import { type Accelerator, acceleratorsOf, generations } from './accelerators.ts';
import { didYouMean } from './did-you-mean.ts';

/** A row: v2 and v3 sell single machines and slices of several in different zones. */
interface Offer {
  readonly generation: string;
  readonly sells: 'any' | 'single' | 'slice';
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

/** All zones that offer anything, by name. */
export const zones: readonly string[] = [...new Set(offers.flatMap((row) => row.zones))].toSorted();

/** The generations that some zone offers, oldest first. */
export const offeredGenerations: readonly string[] = [...new Set(offers.map((row) => row.generation))];

/** `us-central2` of `us-central2-b`. */
export function regionOf(zone: string): string {
  return zone.replace(/-[a-z]$/i, '');
}

/** The zones that offer a type, in the order of the table; empty for a generation that the table does not have. */
export function zonesOffering({ generation, workers }: Accelerator): readonly string[] {
  return offers
    .filter(({ generation: name, sells }) => {
      return name === generation.name && (sells === 'any' || (sells === 'single') === (workers === 1));
    })
    .flatMap((row) => row.zones);
}

/** Every type that a zone offers, by generation and size; empty for a zone that the table does not have. */
export function acceleratorsIn(zone: string): readonly Accelerator[] {
  return generations.flatMap(acceleratorsOf).filter((one) => zonesOffering(one).includes(zone));
}

/**
 * The zone that was most likely meant: a slip of the finger, or a region without its letter. `likely` are looked through
 * first: the zones that offer what is asked for.
 */
export function zoneMeant(text: string, likely: readonly string[] = []): string | undefined {
  const candidates = [...new Set([...likely, ...zones])];
  const wanted = text.trim().toLowerCase().replaceAll(/[_\s]/g, '-').replace(/-+$/, '');
  if (candidates.includes(wanted)) return wanted;
  // The letter is what people do not know by heart: the region is more likely right than wrong.
  const region = wanted.replace(/(\d)-?[a-z]?$/, '$1');
  return candidates.find((zone) => zone.startsWith(`${region}-`)) ?? didYouMean(wanted, candidates);
}

function offer(generation: string, sells: Offer['sells'], names: string): Offer {
  return { generation, sells, zones: names.split(' ') };
}
