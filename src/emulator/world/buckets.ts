/**
 * The buckets: folders of the state, so that what a worker sees in its mounted folder is what is served over HTTP. Where a
 * bucket is, a note beside the folders tells. The first who uses a bucket places it: a worker's `gcsfuse` writes that note
 * by itself (hosts/programs.ts), whence its plain form. A bucket of which there is no note has not been placed.
 *
 * A worker's programs see the folder of all buckets. A link that one puts there is no bucket, and a note that is a link or a FIFO
 * is none: through it the emulator would serve other files of this machine, or wait for ever.
 */
import {
  closeSync,
  constants,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { regionOf } from '../../catalogue/zones.ts';

/** Where a bucket is, in the words of the JSON API. */
export interface BucketPlace {
  /** `US-CENTRAL2`, `US`, `NAM4`. */
  readonly location: string;
  readonly locationType: 'region' | 'dual-region' | 'multi-region' | 'zone';
  /** The two regions of a pair that somebody has chosen, or the one zone. */
  readonly dataLocations?: readonly string[];
}

export interface Buckets {
  /** Names of all, sorted. */
  names(): readonly string[];
  has(bucket: string): boolean;
  /** The folder of that bucket, whether or not it exists. */
  folder(bucket: string): string;
  /** When it was made, in milliseconds. */
  madeAt(bucket: string): number;
  /** Where it is; undefined while nobody has placed it. */
  place(bucket: string): BucketPlace | undefined;
  /** Makes it where it is not there. It is placed there unless it was before. */
  use(bucket: string, place: BucketPlace | undefined): void;
  /** Makes it, or moves it: from now on it is there. */
  put(bucket: string, place: BucketPlace): void;
  /** Takes it away with its note. Throws where it is not empty. */
  remove(bucket: string): void;
}

/** Google's rule for names, with the underscore that older buckets have. */
export const bucketPattern = /^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/;

/** The folder of the notes: below the buckets, because a worker sees those, and under a name that no bucket may have. */
const placesFolder = '.places';

const multiRegions = ['US', 'EU', 'ASIA'];
const pairs = ['ASIA1', 'EUR4', 'EUR5', 'EUR7', 'EUR8', 'NAM4'];

/**
 * Reads a location as Storage takes it: a region, a multi-region, a pair's name, or with `parts` a pair of regions or one
 * zone; and as people say it, `us-west4-a` or `us-central1,us-west4`. Undefined when there is none of that name.
 */
export function readLocation(text: string, parts: readonly string[] = []): BucketPlace | undefined {
  const words = text.split(',').map((word) => word.trim().toUpperCase());
  const [location = ''] = words;
  const chosen = parts.map((part) => part.toUpperCase());
  if (words.length === 2) return pairOf(continentOf(location), words);
  if (words.length !== 1) return undefined;
  if (chosen.length === 2) return pairOf(location, chosen);
  const [zone] = chosen.length === 1 ? chosen : [location];
  if (zone !== undefined && /^[A-Z]+-[A-Z]+\d+-[A-Z]$/.test(zone)) {
    return { location: regionOf(zone), locationType: 'zone', dataLocations: [zone] };
  }
  if (multiRegions.includes(location)) return { location, locationType: 'multi-region' };
  if (pairs.includes(location)) return { location, locationType: 'dual-region' };
  return isRegion(location) ? { location, locationType: 'region' } : undefined;
}

function pairOf(location: string, regions: readonly string[]): BucketPlace | undefined {
  return regions.every(isRegion) ? { location, locationType: 'dual-region', dataLocations: regions } : undefined;
}

function continentOf(region: string): string {
  return region.startsWith('EUROPE-') ? 'EU' : region.startsWith('ASIA-') ? 'ASIA' : 'US';
}

function isRegion(text: string): boolean {
  return /^[A-Z]+-[A-Z]+\d+$/.test(text);
}

/** The place of a bucket that is first used in that zone. */
export function placeInZone(zone: string): BucketPlace {
  return { location: regionOf(zone).toUpperCase(), locationType: 'region' };
}

/** `us-central2`, `US`, `US (us-central1, us-west4)`, for people. */
export function sayPlace({ location, locationType, dataLocations = [] }: BucketPlace): string {
  if (locationType === 'zone') return (dataLocations[0] ?? location).toLowerCase();
  if (dataLocations.length > 0) return `${location} (${dataLocations.join(', ').toLowerCase()})`;
  return locationType === 'region' ? location.toLowerCase() : location;
}

/** All buckets of that folder, which need not exist yet. */
export function openBuckets(root: string): Buckets {
  const notes = join(root, placesFolder);
  const folder = (bucket: string): string => join(root, bucket);

  function writeNote(bucket: string, place: BucketPlace, isOver: boolean): void {
    if (!isFolder(notes)) {
      rmSync(notes, { force: true });
      mkdirSync(notes, { recursive: true });
    }
    const draft = join(notes, `.${randomUUID()}`);
    writeFileSync(draft, `${JSON.stringify(place)}\n`);
    if (isOver) renameSync(draft, join(notes, bucket));
    else {
      try {
        // A link is made only where nothing stands: the first who uses it decides, be it a worker.
        linkSync(draft, join(notes, bucket));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      } finally {
        unlinkSync(draft);
      }
    }
  }

  return {
    folder,
    names: () =>
      readdirSync(root)
        .filter((name) => isFolder(folder(name)) && bucketPattern.test(name))
        .toSorted(),
    has: (bucket) => bucketPattern.test(bucket) && isFolder(folder(bucket)),
    madeAt: (bucket) => lstatSync(folder(bucket)).birthtimeMs,
    place(bucket) {
      try {
        return isFolder(notes) ? placeIn(JSON.parse(readNote(join(notes, bucket)))) : undefined;
      } catch {
        // No note, or one that a killed worker has only begun.
        return undefined;
      }
    },
    use(bucket, place) {
      if (lstatSync(folder(bucket), { throwIfNoEntry: false }) === undefined)
        mkdirSync(folder(bucket), { recursive: true });
      if (place !== undefined) writeNote(bucket, place, false);
    },
    put(bucket, place) {
      if (!isFolder(folder(bucket))) {
        rmSync(folder(bucket), { force: true });
        mkdirSync(folder(bucket), { recursive: true });
      }
      writeNote(bucket, place, true);
    },
    remove(bucket) {
      // Unlike `rm`, this refuses a folder that holds something.
      rmdirSync(folder(bucket));
      rmSync(join(notes, bucket), { force: true });
    },
  };
}

/** False for a link to one. */
function isFolder(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** The text of a note. Throws where there is none, or something else in its place. */
function readNote(path: string): string {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = fstatSync(descriptor);
    if (!found.isFile() || found.size > noteMost) throw new Error(`${path} is no note`);
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

/** Bytes of a note; ours have a hundred. */
const noteMost = 64 * 1024;

/** Undefined for what is no place. */
function placeIn(value: unknown): BucketPlace | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { location, locationType, dataLocations } = value as Partial<Record<keyof BucketPlace, unknown>>;
  const kind = (['region', 'dual-region', 'multi-region', 'zone'] as const).find((one) => one === locationType);
  if (typeof location !== 'string' || kind === undefined) return undefined;
  if (!Array.isArray(dataLocations)) return { location, locationType: kind };
  return { location, locationType: kind, dataLocations: dataLocations.map(String) };
}
