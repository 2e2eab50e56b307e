/**
 * The buckets: folders of the state, so that the HTTP API serves what workers see in their mounted folders. A JSON note
 * per bucket has its location. The first use of a bucket sets it: a worker's `gcsfuse` writes the note itself
 * (hosts/programs.ts). A bucket without a note has no location yet.
 *
 * Programs of a worker can write to the folder of all buckets. A bucket that is a link and a note that is a link or a
 * FIFO are ignored: otherwise the emulator would serve other files of this machine, or block forever.
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

export interface BucketLocation {
  readonly location: string;
  readonly locationType: 'region' | 'dual-region' | 'multi-region' | 'zone';
  /** The two regions of a configurable dual-region, or the one zone. */
  readonly dataLocations?: readonly string[];
}

export interface Buckets {
  names(): readonly string[];
  has(bucket: string): boolean;
  /** The path of the bucket's folder, which need not exist. */
  folder(bucket: string): string;
  createdAt(bucket: string): number;
  /** Undefined before the first use. */
  location(bucket: string): BucketLocation | undefined;
  /** Creates the bucket if it is missing. Sets the location only if it has none. */
  ensure(bucket: string, location: BucketLocation | undefined): void;
  put(bucket: string, location: BucketLocation): void;
  /** Throws when it is not empty. */
  remove(bucket: string): void;
}

/** Google's rule for names, and the underscore that older buckets have. */
export const bucketPattern = /^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/;

/** The folder of the notes. It is below the buckets, so that workers see it, and its name is not a bucket name. */
const locationsFolder = '.locations';

const multiRegions = ['US', 'EU', 'ASIA'];
const dualRegions = ['ASIA1', 'EUR4', 'EUR5', 'EUR7', 'EUR8', 'NAM4'];

/** Parses a location of the JSON API (`parts`: two regions or a zone), or `us-west4-a` and `us-central1,us-west4`. */
export function parseLocation(text: string, parts: readonly string[] = []): BucketLocation | undefined {
  const names = text.split(',').map((name) => name.trim().toUpperCase());
  const [location = ''] = names;
  const chosen = parts.map((part) => part.toUpperCase());
  if (names.length === 2) return dualRegion(continentOf(location), names);
  if (names.length !== 1) return undefined;
  if (chosen.length === 2) return dualRegion(location, chosen);
  const [zone] = chosen.length === 1 ? chosen : [location];
  if (zone !== undefined && /^[A-Z]+-[A-Z]+\d+-[A-Z]$/.test(zone)) {
    return { location: regionOf(zone), locationType: 'zone', dataLocations: [zone] };
  }
  if (multiRegions.includes(location)) return { location, locationType: 'multi-region' };
  if (dualRegions.includes(location)) return { location, locationType: 'dual-region' };
  return isRegion(location) ? { location, locationType: 'region' } : undefined;
}

function dualRegion(location: string, regions: readonly string[]): BucketLocation | undefined {
  return regions.every(isRegion) ? { location, locationType: 'dual-region', dataLocations: regions } : undefined;
}

function continentOf(region: string): string {
  return region.startsWith('EUROPE-') ? 'EU' : region.startsWith('ASIA-') ? 'ASIA' : 'US';
}

function isRegion(text: string): boolean {
  return /^[A-Z]+-[A-Z]+\d+$/.test(text);
}

/** The location of a bucket that is first used in that zone. */
export function locationInZone(zone: string): BucketLocation {
  return { location: regionOf(zone).toUpperCase(), locationType: 'region' };
}

export function formatLocation({ location, locationType, dataLocations = [] }: BucketLocation): string {
  if (locationType === 'zone') return (dataLocations[0] ?? location).toLowerCase();
  if (dataLocations.length > 0) return `${location} (${dataLocations.join(', ').toLowerCase()})`;
  return locationType === 'region' ? location.toLowerCase() : location;
}

/** `root` need not exist yet. */
export function openBuckets(root: string): Buckets {
  const notes = join(root, locationsFolder);
  const folder = (bucket: string): string => join(root, bucket);

  function writeNote(bucket: string, location: BucketLocation, overwrite: boolean): void {
    if (!isFolder(notes)) {
      rmSync(notes, { force: true });
      mkdirSync(notes, { recursive: true });
    }
    const draft = join(notes, `.${randomUUID()}`);
    writeFileSync(draft, `${JSON.stringify(location)}\n`);
    if (overwrite) renameSync(draft, join(notes, bucket));
    else {
      try {
        // A hard link fails when the note exists, so the first writer wins, even if it is a worker.
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
    createdAt: (bucket) => lstatSync(folder(bucket)).birthtimeMs,
    location(bucket) {
      try {
        return isFolder(notes) ? parseLocationNote(JSON.parse(readNote(join(notes, bucket)))) : undefined;
      } catch {
        // No note, or an incomplete one of a killed worker.
        return undefined;
      }
    },
    ensure(bucket, location) {
      if (lstatSync(folder(bucket), { throwIfNoEntry: false }) === undefined)
        mkdirSync(folder(bucket), { recursive: true });
      if (location !== undefined) writeNote(bucket, location, false);
    },
    put(bucket, location) {
      if (!isFolder(folder(bucket))) {
        rmSync(folder(bucket), { force: true });
        mkdirSync(folder(bucket), { recursive: true });
      }
      writeNote(bucket, location, true);
    },
    remove(bucket) {
      // Unlike `rm`, rmdir refuses a folder that is not empty.
      rmdirSync(folder(bucket));
      rmSync(join(notes, bucket), { force: true });
    },
  };
}

/** False for a symbolic link to a folder. */
function isFolder(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

/** Throws when the note is missing or is not a regular file. */
function readNote(path: string): string {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = fstatSync(descriptor);
    if (!found.isFile() || found.size > maxNoteBytes) throw new Error(`${path} is not a note`);
    return readFileSync(descriptor, 'utf8');
  } finally {
    closeSync(descriptor);
  }
}

/** The emulator's own notes have about a hundred bytes. */
const maxNoteBytes = 64 * 1024;

function parseLocationNote(value: unknown): BucketLocation | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const { location, locationType, dataLocations } = value as Partial<Record<keyof BucketLocation, unknown>>;
  const kind = (['region', 'dual-region', 'multi-region', 'zone'] as const).find((one) => one === locationType);
  if (typeof location !== 'string' || kind === undefined) return undefined;
  if (!Array.isArray(dataLocations)) return { location, locationType: kind };
  return { location, locationType: kind, dataLocations: dataLocations.map(String) };
}
