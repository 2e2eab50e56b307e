// Zones: the TPU generations in each zone. Google adds zones, and an entry promises neither capacity nor permission, so
// an unknown zone is a warning unless its name can only be a typing mistake. The TPU emulator offers exactly these.
// Sources: Google's page of TPU zones (docs.cloud.google.com/tpu/docs/regions-zones, read 2026-11-28) and the catalogue of
// SkyPilot (live API, August 2025 to August 2026), which also lists zones that Google does not document.

import { type Accelerator, acceleratorsOf, generations } from './accelerators.ts';
import { didYouMean } from './did-you-mean.ts';

/** For v2 and v3, single machines and slices of several machines are in different zones. */
interface Offer {
  readonly generation: string;
  readonly sliceSizes: 'any' | 'single' | 'slice';
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
  // Google's zones come first, because `init` proposes the first one. SkyPilot also lists us-central1-a, where Google's
  // page has v5e and v5p but no v6e.
  offer(
    'v6e',
    'any',
    'us-central1-b us-east1-d us-east5-a us-east5-b europe-west4-a asia-northeast1-b southamerica-west1-a us-central1-c ' +
      'us-east4-a us-east5-c us-south1-a us-south1-c us-west1-c asia-south1-b asia-south1-c asia-southeast1-b',
  ),
];

export const zones: readonly string[] = [...new Set(offers.flatMap((row) => row.zones))].toSorted();

/** Oldest first. */
export const offeredGenerations: readonly string[] = [...new Set(offers.map((row) => row.generation))];

/** `us-central2` of `us-central2-b`. */
export function regionOf(zone: string): string {
  return zone.replace(/-[a-z]$/i, '');
}

/** In the order of the table; empty for an unknown generation. */
export function zonesOffering({ generation, workers }: Accelerator): readonly string[] {
  return offers
    .filter(({ generation: name, sliceSizes }) => {
      return name === generation.name && (sliceSizes === 'any' || (sliceSizes === 'single') === (workers === 1));
    })
    .flatMap((row) => row.zones);
}

/** By generation and size; empty for an unknown zone. */
export function acceleratorsIn(zone: string): readonly Accelerator[] {
  return generations.flatMap(acceleratorsOf).filter((one) => zonesOffering(one).includes(zone));
}

/** Corrects a typing mistake, or completes a region without its letter. Prefers the zones in `preferred`. */
export function suggestZone(text: string, preferred: readonly string[] = []): string | undefined {
  const candidates = [...new Set([...preferred, ...zones])];
  const wanted = text.trim().toLowerCase().replaceAll(/[_\s]/g, '-').replace(/-+$/, '');
  if (candidates.includes(wanted)) return wanted;
  // Users forget the letter more often than the region, so the region is probably right.
  const region = wanted.replace(/(\d)-?[a-z]?$/, '$1');
  return candidates.find((zone) => zone.startsWith(`${region}-`)) ?? didYouMean(wanted, candidates);
}

/** The parts of the names of Google's regions (docs.cloud.google.com/compute/docs/regions-zones), also of those without TPUs. */
const continents = 'africa asia australia europe me northamerica southamerica us'.split(' ');
const directions = 'central east north northeast northwest south southeast southwest west'.split(' ');

/** True for a known zone, and for a pattern (`us-*`) that matches one. */
export function matchesKnownZone(pattern: string): boolean {
  const expression = new RegExp(`^${pattern.replaceAll('*', '.*')}$`);
  return zones.some((zone) => expression.test(zone));
}

/** The correction of a zone or a pattern with a misspelled region; undefined for one that is right or may be new. */
export function correctRegion(pattern: string): string | undefined {
  const [, continent = '', direction, rest = ''] = /^([a-z]+)-(?:([a-z]+)(?![a-z*]))?(.*)$/.exec(pattern) ?? [];
  const correct = (part: string, known: readonly string[]) => (known.includes(part) ? part : didYouMean(part, known));
  const first = correct(continent, continents);
  const second = direction === undefined ? '' : correct(direction, directions);
  const corrected = `${first}-${second}${rest}`;
  if (first === undefined || second === undefined || corrected === pattern) return undefined;
  return corrected.includes('*') ? corrected : (suggestZone(corrected) ?? corrected);
}

function offer(generation: string, sliceSizes: Offer['sliceSizes'], names: string): Offer {
  return { generation, sliceSizes, zones: names.split(' ') };
}
