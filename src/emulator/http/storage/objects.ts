/**
 * Objects: the files of a bucket's folder. The folder is the truth, because workers change it without asking: an object is
 * there when its file is, its generation is the moment of its last change, and what Storage knows besides (the type, a
 * person's metadata, checksums) is a note outside of the bucket which counts only for the generation that it was written
 * for. All that changes something happens in one go, without waiting, so that no two requests meet in between.
 *
 * An object whose name ends in a slash is a folder. One that a worker has made is an object too, as gcsfuse makes it; one that
 * was made here only because an object lies in it is none, and goes with the last object.
 *
 * Impossible are two names of which one is a folder of the other (`a` and `a/b`), and names with `.`, `..` or nothing
 * between two slashes. Links that a worker has made are no objects, and nothing is reached through them.
 */

import { createHash } from 'node:crypto';
import {
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { bucketPattern, placeInZone, type BucketPlace, type Buckets } from '../../world/buckets.ts';
import type { Checksums } from './downloads.ts';
import { refusals } from './errors.ts';
import { listObjects, type Listing, type ListQuery } from './listing.ts';
import type { StorageCall } from './requests.ts';

export interface Objects {
  find(bucket: string, name: string): StoredObject | undefined;
  /** Makes the file the object, if the preconditions hold; the file is gone from where it was either way. */
  put(bucket: string, name: string, file: string, about: ObjectAbout, only: Preconditions): StoredObject;
  /** Replaces what is said of it. */
  describe(object: StoredObject, about: ObjectAbout): StoredObject;
  remove(object: StoredObject): void;
  list(bucket: string, query: ListQuery): Listing;
}

/** The objects of all buckets. */
export function openObjects(buckets: Buckets, notes: Notes): Objects {
  function find(bucket: string, name: string): StoredObject | undefined {
    if (!isPossible(name)) return undefined;
    const path = pathBelow(buckets.folder(bucket), name);
    return path === undefined ? undefined : look(bucket, name, path);
  }

  function look(bucket: string, name: string, path: string): StoredObject | undefined {
    const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    const isFolder = name.endsWith('/');
    if (found === undefined || (isFolder ? !found.isDirectory() : !found.isFile())) return undefined;
    // A folder changes with everything in it; as an object it does not.
    const changed = isFolder ? found.birthtimeNs : found.mtimeNs;
    const generation = String(changed / 1_000n || 1n);
    const note = notes.read(bucket, name);
    const counts = note !== undefined && note.generation === generation;
    if (counts && note.isImplied === true) return undefined;
    return {
      bucket,
      name,
      path,
      size: isFolder ? 0 : Number(found.size),
      generation,
      metageneration: counts ? note.metageneration : 1,
      updatedAt: Number(changed / 1_000_000n),
      about: counts ? note.about : {},
    };
  }

  /** Makes a folder where it is missing; false where it is there. Throws where something else stands in the way of `name`. */
  function makeFolder(bucket: string, folder: string, name: string): boolean {
    const path = join(buckets.folder(bucket), folder.slice(0, -1));
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found !== undefined && !found.isDirectory()) throw inTheWay(folder.slice(0, -1), name);
    if (found === undefined) mkdirSync(path);
    return found === undefined;
  }

  function noteFolder(bucket: string, folder: string, note: Pick<Note, 'about' | 'isImplied'>): void {
    const { birthtimeNs } = lstatSync(join(buckets.folder(bucket), folder), { bigint: true });
    notes.write(bucket, folder, { generation: String(birthtimeNs / 1_000n || 1n), metageneration: 1, ...note });
  }

  /** The folders above an object, made where they are missing. */
  function makeWay(bucket: string, name: string): void {
    for (const folder of foldersAbove(name)) {
      if (makeFolder(bucket, folder, name)) noteFolder(bucket, folder, implied);
    }
  }

  /** Takes away the folders above that are empty now and that nobody has asked for. */
  function clearWay(bucket: string, name: string): void {
    for (const folder of foldersAbove(name).toReversed()) {
      if (notes.read(bucket, folder)?.isImplied !== true || find(bucket, folder) !== undefined) return;
      try {
        rmdirSync(join(buckets.folder(bucket), folder));
      } catch {
        // Something is in it still.
        return;
      }
      notes.drop(bucket, folder);
    }
  }

  function putFile(bucket: string, name: string, file: string, about: ObjectAbout, isNew: boolean): void {
    const path = join(buckets.folder(bucket), name);
    if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true) throw inTheWay(`${name}/`, name);
    moveOver(file, path, isNew);
    const generation = String(lstatSync(path, { bigint: true }).mtimeNs / 1_000n);
    notes.write(bucket, name, { generation, metageneration: 1, about });
  }

  return {
    find,
    put(bucket, name, file, about, only) {
      try {
        if (!isPossible(name))
          throw refusals.invalid(`The emulator keeps objects as files; ${JSON.stringify(name)} is no path.`);
        const current = find(bucket, name);
        checkPreconditions(current, only);
        makeWay(bucket, name);
        if (name.endsWith('/')) {
          makeFolder(bucket, name, name);
          noteFolder(bucket, name, { about });
        } else putFile(bucket, name, file, about, only.ifGenerationMatch === '0');
      } finally {
        rmSync(file, { force: true });
      }
      const made = find(bucket, name);
      if (made === undefined) throw refusals.noObject(bucket, name);
      return made;
    },
    describe(object, about) {
      const { bucket, name, generation, metageneration } = object;
      notes.write(bucket, name, { generation, metageneration: metageneration + 1, about });
      return { ...object, about, metageneration: metageneration + 1 };
    },
    remove({ bucket, name, path }) {
      notes.drop(bucket, name);
      if (!name.endsWith('/')) unlinkSync(path);
      else if (readdirSync(path).length > 0) return noteFolder(bucket, name, implied);
      else rmdirSync(path);
      clearWay(bucket, name);
    },
    list: (bucket, query) => listObjects(buckets.folder(bucket), query, (name, path) => look(bucket, name, path)),
  };
}

/** The notes about a folder that nobody has asked for. */
const implied = { about: {}, isImplied: true } as const;

/** Where an object's file would be. Undefined where the way leads through something that is no folder. */
function pathBelow(root: string, name: string): string | undefined {
  const parts = partsOf(name);
  let path = root;
  for (const part of parts.slice(0, -1)) {
    path = join(path, part);
    if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return undefined;
  }
  return join(path, parts.at(-1) ?? '');
}

/** Makes a file that of an object. With `isNew` it takes no other's place. */
function moveOver(file: string, path: string, isNew: boolean): void {
  const before = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  const { mtimeNs } = lstatSync(file, { bigint: true });
  // Two states within one tick of the disk's clock are two generations all the same.
  if (before !== undefined && mtimeNs / 1_000n <= before.mtimeNs / 1_000n) {
    const after = Number(before.mtimeNs / 1_000_000n + 1n) / 1_000;
    utimesSync(file, after, after);
  }
  if (!isNew) return renameSync(file, path);
  try {
    // Unlike a rename, a link is made only where nothing stands, whatever a worker does meanwhile.
    linkSync(file, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw refusals.precondition();
    throw error;
  }
  unlinkSync(file);
}

/** `a/`, `a/b/` of `a/b/c`, the outermost first. */
function foldersAbove(name: string): string[] {
  const parts = partsOf(name).slice(0, -1);
  return parts.map((_, index) => `${parts.slice(0, index + 1).join('/')}/`);
}

/** The parts of a path; the slash at the end of a folder's name is none. */
function partsOf(name: string): readonly string[] {
  return (name.endsWith('/') ? name.slice(0, -1) : name).split('/');
}

/** As many bytes as Google allows. More could be longer than the disk takes, with some of its folders made already. */
const longestName = 1024;

/** Whether a file can have that name below a folder. */
function isPossible(name: string): boolean {
  return (
    !name.includes('\0') &&
    Buffer.byteLength(name) <= longestName &&
    partsOf(name).every((part) => part !== '' && part !== '.' && part !== '..' && Buffer.byteLength(part) <= 255)
  );
}

function inTheWay(other: string, name: string): Error {
  return refusals.invalid(
    `The emulator keeps a bucket as a folder, so ${JSON.stringify(name)} cannot be beside ${JSON.stringify(other)}.`,
  );
}

/** An object as a client describes it, and gets it back. */
export interface ObjectAbout extends Partial<Checksums> {
  readonly contentType?: string;
  readonly contentEncoding?: string;
  readonly contentDisposition?: string;
  readonly contentLanguage?: string;
  readonly cacheControl?: string;
  readonly customTime?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly componentCount?: number;
}

export interface StoredObject {
  readonly bucket: string;
  readonly name: string;
  /** Of its file or folder. */
  readonly path: string;
  readonly size: number;
  /** Microseconds, as Google's are: a later state of the object has a larger one. */
  readonly generation: string;
  readonly metageneration: number;
  /** Milliseconds. */
  readonly updatedAt: number;
  readonly about: ObjectAbout;
}

/** Changes with the object and with what is said of it. */
export function etagOf({ generation, metageneration }: StoredObject): string {
  return Buffer.from(`${generation}/${String(metageneration)}`).toString('base64');
}

export interface Finder {
  /** A bucket must exist to be looked at; a worker that looks at one uses it. Throws where it does not. */
  readonly need: (bucket: string, call: StorageCall) => void;
  /** The bucket for a write, which makes it. Throws where none may have that name. */
  readonly makeByUse: (bucket: string, call: StorageCall) => void;
  /** The object, in that generation if one is named. Throws where there is none. */
  readonly needObject: (bucket: string, name: string, call: StorageCall, generation?: string | null) => StoredObject;
}

export function createFinder(buckets: Buckets, objects: Objects): Finder {
  /** The place that a bucket gets which is first used by this call. */
  const placeFor = ({ zone }: StorageCall): BucketPlace | undefined =>
    zone === undefined ? undefined : placeInZone(zone);

  function need(bucket: string, call: StorageCall): void {
    if (call.zone !== undefined && bucketPattern.test(bucket)) buckets.use(bucket, placeFor(call));
    if (!buckets.has(bucket)) throw refusals.noBucket();
  }

  function makeByUse(bucket: string, call: StorageCall): void {
    if (!bucketPattern.test(bucket)) throw refusals.invalid(`Invalid bucket name: '${bucket}'`);
    buckets.use(bucket, placeFor(call));
    // A worker may have put something else in its place.
    if (!buckets.has(bucket)) throw refusals.noBucket();
  }

  function needObject(
    bucket: string,
    name: string,
    call: StorageCall,
    generation = call.query.get('generation'),
  ): StoredObject {
    need(bucket, call);
    const found = objects.find(bucket, name);
    if (found === undefined || (generation !== null && generation !== found.generation)) {
      throw refusals.noObject(bucket, name);
    }
    return found;
  }

  return { need, makeByUse, needObject };
}

/** A note about one object. */
interface Note {
  readonly generation: string;
  readonly metageneration: number;
  readonly about: ObjectAbout;
  /** A folder that nobody has asked for. */
  readonly isImplied?: true;
}

export interface Notes {
  /** Undefined where there is none, or none that can be read. */
  read(bucket: string, name: string): Note | undefined;
  write(bucket: string, name: string, note: Note): void;
  drop(bucket: string, name: string): void;
}

/** `folder` is on the disk of the buckets. */
export function openNotes(folder: string): Notes {
  const fileOf = (bucket: string, name: string): string =>
    join(folder, bucket, createHash('sha256').update(name).digest('hex'));
  return {
    read(bucket, name) {
      try {
        return JSON.parse(readFileSync(fileOf(bucket, name), 'utf8')) as Note;
      } catch {
        return undefined;
      }
    },
    write(bucket, name, note) {
      const file = fileOf(bucket, name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(`${file}.new`, JSON.stringify(note));
      renameSync(`${file}.new`, file);
    },
    drop: (bucket, name) => rmSync(fileOf(bucket, name), { force: true }),
  };
}

/** Conditions on the object as it is, or nothing is done; `ifGenerationMatch: '0'` is "there is none". */
export interface Preconditions {
  readonly ifGenerationMatch?: string | undefined;
  readonly ifGenerationNotMatch?: string | undefined;
  readonly ifMetagenerationMatch?: string | undefined;
  readonly ifMetagenerationNotMatch?: string | undefined;
}

/** Throws where one does not hold. */
export function checkPreconditions(current: StoredObject | undefined, only: Preconditions): void {
  const generation = current?.generation ?? '0';
  const metageneration = current === undefined ? undefined : String(current.metageneration);
  const holds =
    (only.ifGenerationMatch === undefined || only.ifGenerationMatch === generation) &&
    (only.ifGenerationNotMatch === undefined || only.ifGenerationNotMatch !== generation) &&
    (only.ifMetagenerationMatch === undefined || only.ifMetagenerationMatch === metageneration) &&
    (only.ifMetagenerationNotMatch === undefined || only.ifMetagenerationNotMatch !== metageneration);
  if (!holds) throw refusals.precondition();
}

/**
 * The same for reading, where a generation or an ETag that the reader has already is no mistake of theirs: 304.
 * https://cloud.google.com/storage/docs/request-preconditions
 */
export function checkRead(
  current: StoredObject,
  only: Preconditions,
  headers: { readonly 'if-match'?: string | undefined; readonly 'if-none-match'?: string | undefined },
): void {
  const { ifGenerationNotMatch, ifMetagenerationNotMatch, ...must } = only;
  checkPreconditions(current, must);
  const wanted = headers['if-match'];
  if (wanted !== undefined && wanted !== '*' && !tagsIn(wanted).includes(etagOf(current)))
    throw refusals.precondition();
  const known = headers['if-none-match'];
  if (
    ifGenerationNotMatch === current.generation ||
    ifMetagenerationNotMatch === String(current.metageneration) ||
    (known !== undefined && (known === '*' || tagsIn(known).includes(etagOf(current))))
  ) {
    throw refusals.notModified();
  }
}

/** Google writes its tags without the quotes that HTTP wants; clients send them in either form. */
function tagsIn(header: string): readonly string[] {
  return header.split(',').map((tag) => tag.trim().replace(/^(?:W\/)?"?|"$/g, ''));
}
