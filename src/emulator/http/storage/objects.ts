/**
 * Objects are the files of a bucket's folder. The folder is authoritative, because workers change it directly: an
 * object exists when its file does, and its generation is the file's modification time. Other data (content type,
 * metadata, checksums) is in a note outside the bucket, valid only for the generation that it was written for. Every
 * change is synchronous, so that no two requests interleave.
 *
 * An object whose name ends in a slash is a folder. A folder of a worker is an object too, as with gcsfuse. A folder
 * that only holds other objects is not an object, and is removed with the last of them. One object cannot be a folder of
 * another (`a` and `a/b`), and a name cannot have `.`, `..` or an empty segment. Symbolic links of workers are never
 * followed.
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
import { bucketPattern, locationInZone, type BucketLocation, type Buckets } from '../../world/buckets.ts';
import type { Checksums } from './downloads.ts';
import { storageErrors } from './errors.ts';
import { listObjects, type Listing, type ListQuery } from './listing.ts';
import type { StorageCall } from './requests.ts';

export interface Objects {
  find(bucket: string, name: string): StoredObject | undefined;
  /** Makes the file the object if the preconditions hold. Moves or deletes the file in either case. */
  put(bucket: string, name: string, file: string, about: ObjectAttributes, preconditions: Preconditions): StoredObject;
  update(object: StoredObject, about: ObjectAttributes): StoredObject;
  remove(object: StoredObject): void;
  list(bucket: string, query: ListQuery): Listing;
}

export function openObjects(buckets: Buckets, notes: Notes): Objects {
  function find(bucket: string, name: string): StoredObject | undefined {
    if (!isValidName(name)) return undefined;
    const path = objectPath(buckets.folder(bucket), name);
    return path === undefined ? undefined : readObject(bucket, name, path);
  }

  function readObject(bucket: string, name: string, path: string): StoredObject | undefined {
    const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    const isFolder = name.endsWith('/');
    if (found === undefined || (isFolder ? !found.isDirectory() : !found.isFile())) return undefined;
    // The modification time of a folder changes with its contents, so a folder object uses the creation time.
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

  /** Creates a folder; false if it exists. Throws when another object blocks `name`. */
  function makeFolder(bucket: string, folder: string, name: string): boolean {
    const path = join(buckets.folder(bucket), folder.slice(0, -1));
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found !== undefined && !found.isDirectory()) throw nameConflict(folder.slice(0, -1), name);
    if (found === undefined) mkdirSync(path);
    return found === undefined;
  }

  function writeFolderNote(bucket: string, folder: string, note: Pick<Note, 'about' | 'isImplied'>): void {
    const { birthtimeNs } = lstatSync(join(buckets.folder(bucket), folder), { bigint: true });
    notes.write(bucket, folder, { generation: String(birthtimeNs / 1_000n || 1n), metageneration: 1, ...note });
  }

  function makeParents(bucket: string, name: string): void {
    for (const folder of foldersAbove(name)) {
      if (makeFolder(bucket, folder, name)) writeFolderNote(bucket, folder, implied);
    }
  }

  /** Removes the parents that are now empty and that no client created. */
  function removeEmptyParents(bucket: string, name: string): void {
    for (const folder of foldersAbove(name).toReversed()) {
      if (notes.read(bucket, folder)?.isImplied !== true || find(bucket, folder) !== undefined) return;
      try {
        rmdirSync(join(buckets.folder(bucket), folder));
      } catch {
        return;
      }
      notes.drop(bucket, folder);
    }
  }

  function putFile(bucket: string, name: string, file: string, about: ObjectAttributes, isNew: boolean): void {
    const path = join(buckets.folder(bucket), name);
    if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true) throw nameConflict(`${name}/`, name);
    replaceFile(file, path, isNew);
    const generation = String(lstatSync(path, { bigint: true }).mtimeNs / 1_000n);
    notes.write(bucket, name, { generation, metageneration: 1, about });
  }

  return {
    find,
    put(bucket, name, file, about, preconditions) {
      try {
        if (!isValidName(name))
          throw storageErrors.invalid(`The emulator keeps objects as files; ${JSON.stringify(name)} is not a path.`);
        const current = find(bucket, name);
        checkPreconditions(current, preconditions);
        makeParents(bucket, name);
        if (name.endsWith('/')) {
          makeFolder(bucket, name, name);
          writeFolderNote(bucket, name, { about });
        } else putFile(bucket, name, file, about, preconditions.ifGenerationMatch === '0');
      } finally {
        rmSync(file, { force: true });
      }
      const made = find(bucket, name);
      if (made === undefined) throw storageErrors.objectNotFound(bucket, name);
      return made;
    },
    update(object, about) {
      const { bucket, name, generation, metageneration } = object;
      notes.write(bucket, name, { generation, metageneration: metageneration + 1, about });
      return { ...object, about, metageneration: metageneration + 1 };
    },
    remove({ bucket, name, path }) {
      notes.drop(bucket, name);
      if (!name.endsWith('/')) unlinkSync(path);
      else if (readdirSync(path).length > 0) return writeFolderNote(bucket, name, implied);
      else rmdirSync(path);
      removeEmptyParents(bucket, name);
    },
    list: (bucket, query) => listObjects(buckets.folder(bucket), query, (name, path) => readObject(bucket, name, path)),
  };
}

const implied = { about: {}, isImplied: true } as const;

/** The path of an object's file. Undefined when a parent is not a folder. */
function objectPath(root: string, name: string): string | undefined {
  const parts = partsOf(name);
  let path = root;
  for (const part of parts.slice(0, -1)) {
    path = join(path, part);
    if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return undefined;
  }
  return join(path, parts.at(-1) ?? '');
}

/** Moves a file into the bucket. With `isNew`, it never replaces another file. */
function replaceFile(file: string, path: string, isNew: boolean): void {
  const before = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  const { mtimeNs } = lstatSync(file, { bigint: true });
  // A change within one tick of the disk's clock is still a new generation.
  if (before !== undefined && mtimeNs / 1_000n <= before.mtimeNs / 1_000n) {
    const after = Number(before.mtimeNs / 1_000_000n + 1n) / 1_000;
    utimesSync(file, after, after);
  }
  if (!isNew) return renameSync(file, path);
  try {
    // Unlike a rename, a hard link fails when the name exists, even if a worker has just created it.
    linkSync(file, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw storageErrors.preconditionFailed();
    throw error;
  }
  unlinkSync(file);
}

function foldersAbove(name: string): string[] {
  const parts = partsOf(name).slice(0, -1);
  return parts.map((_, index) => `${parts.slice(0, index + 1).join('/')}/`);
}

function partsOf(name: string): readonly string[] {
  return (name.endsWith('/') ? name.slice(0, -1) : name).split('/');
}

/** Google's limit. A longer name could fail on disk after some of its folders were created. */
const maxNameBytes = 1024;

function isValidName(name: string): boolean {
  return (
    !name.includes('\0') &&
    Buffer.byteLength(name) <= maxNameBytes &&
    partsOf(name).every((part) => part !== '' && part !== '.' && part !== '..' && Buffer.byteLength(part) <= 255)
  );
}

function nameConflict(other: string, name: string): Error {
  return storageErrors.invalid(
    `The emulator keeps a bucket as a folder, so ${JSON.stringify(name)} cannot exist together with ${JSON.stringify(other)}.`,
  );
}

export interface ObjectAttributes extends Partial<Checksums> {
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
  readonly path: string;
  readonly size: number;
  /** Microseconds, as at Google: increases with each change. */
  readonly generation: string;
  readonly metageneration: number;
  readonly updatedAt: number;
  readonly about: ObjectAttributes;
}

/** Changes with the object and with its attributes. */
export function etagOf({ generation, metageneration }: StoredObject): string {
  return Buffer.from(`${generation}/${String(metageneration)}`).toString('base64');
}

export interface Finder {
  /** A read by a worker creates a missing bucket. Throws when the bucket does not exist otherwise. */
  readonly requireBucket: (bucket: string, call: StorageCall) => void;
  /** A write creates a missing bucket. Throws for an invalid name. */
  readonly ensureBucket: (bucket: string, call: StorageCall) => void;
  readonly requireObject: (bucket: string, name: string, call: StorageCall, generation?: string | null) => StoredObject;
}

export function createFinder(buckets: Buckets, objects: Objects): Finder {
  const locationFor = ({ zone }: StorageCall): BucketLocation | undefined =>
    zone === undefined ? undefined : locationInZone(zone);

  function requireBucket(bucket: string, call: StorageCall): void {
    if (call.zone !== undefined && bucketPattern.test(bucket)) buckets.ensure(bucket, locationFor(call));
    if (!buckets.has(bucket)) throw storageErrors.bucketNotFound();
  }

  function ensureBucket(bucket: string, call: StorageCall): void {
    if (!bucketPattern.test(bucket)) throw storageErrors.invalid(`Invalid bucket name: '${bucket}'`);
    buckets.ensure(bucket, locationFor(call));
    // A worker may have created a file or link with that name.
    if (!buckets.has(bucket)) throw storageErrors.bucketNotFound();
  }

  function requireObject(
    bucket: string,
    name: string,
    call: StorageCall,
    generation = call.query.get('generation'),
  ): StoredObject {
    requireBucket(bucket, call);
    const found = objects.find(bucket, name);
    if (found === undefined || (generation !== null && generation !== found.generation)) {
      throw storageErrors.objectNotFound(bucket, name);
    }
    return found;
  }

  return { requireBucket, ensureBucket, requireObject };
}

interface Note {
  readonly generation: string;
  readonly metageneration: number;
  readonly about: ObjectAttributes;
  /** True for a folder that no client created. */
  readonly isImplied?: true;
}

export interface Notes {
  /** Undefined when there is no readable note. */
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

/** Conditions on the current object. `ifGenerationMatch: '0'` means that it must not exist. */
export interface Preconditions {
  readonly ifGenerationMatch?: string | undefined;
  readonly ifGenerationNotMatch?: string | undefined;
  readonly ifMetagenerationMatch?: string | undefined;
  readonly ifMetagenerationNotMatch?: string | undefined;
}

export function checkPreconditions(current: StoredObject | undefined, preconditions: Preconditions): void {
  const generation = current?.generation ?? '0';
  const metageneration = current === undefined ? undefined : String(current.metageneration);
  const holds =
    (preconditions.ifGenerationMatch === undefined || preconditions.ifGenerationMatch === generation) &&
    (preconditions.ifGenerationNotMatch === undefined || preconditions.ifGenerationNotMatch !== generation) &&
    (preconditions.ifMetagenerationMatch === undefined || preconditions.ifMetagenerationMatch === metageneration) &&
    (preconditions.ifMetagenerationNotMatch === undefined || preconditions.ifMetagenerationNotMatch !== metageneration);
  if (!holds) throw storageErrors.preconditionFailed();
}

/**
 * Throws 304 instead when the reader already has the generation or ETag.
 * https://cloud.google.com/storage/docs/request-preconditions
 */
export function checkReadPreconditions(
  current: StoredObject,
  preconditions: Preconditions,
  headers: { readonly 'if-match'?: string | undefined; readonly 'if-none-match'?: string | undefined },
): void {
  const { ifGenerationNotMatch, ifMetagenerationNotMatch, ...must } = preconditions;
  checkPreconditions(current, must);
  const wanted = headers['if-match'];
  if (wanted !== undefined && wanted !== '*' && !parseEtags(wanted).includes(etagOf(current)))
    throw storageErrors.preconditionFailed();
  const known = headers['if-none-match'];
  if (
    ifGenerationNotMatch === current.generation ||
    ifMetagenerationNotMatch === String(current.metageneration) ||
    (known !== undefined && (known === '*' || parseEtags(known).includes(etagOf(current))))
  ) {
    throw storageErrors.notModified();
  }
}

/** Google writes ETags without the quotes of HTTP; clients send both forms. */
function parseEtags(header: string): readonly string[] {
  return header.split(',').map((tag) => tag.trim().replace(/^(?:W\/)?"?|"$/g, ''));
}
