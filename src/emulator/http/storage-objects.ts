/**
 * Objects: the files of a bucket's folder. The folder is the truth, because workers change it without asking: an object is
 * there when its file is, its generation is the moment of its last change, and what Storage knows besides (the type, a
 * person's metadata, checksums) is a note outside of the bucket which counts only for the generation that it was written
 * for. All that changes something happens in one go, without waiting, so that no two requests meet in between.
 *
 * An object whose name ends in a slash is a folder. One that a worker has made is an object too, as gcsfuse makes it; one that
 * was made here only because an object lies in it is none, and goes with the last object.
 *
 * What cannot be: two names of which one is a folder of the other (`a` and `a/b`), and names with `.`, `..` or nothing
 * between two slashes. Links that a worker has made are no objects, and nothing is reached through them.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  unlinkSync,
} from 'node:fs';
import { utimesSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Dirent } from 'node:fs';
import type { Buckets } from '../world/buckets.ts';
import type { Checksums } from './storage-checksums.ts';
import { refusals } from './storage-errors.ts';

/** What a client says of an object, and gets back. */
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

/** What must hold of the object as it is, or nothing is done; `ifGenerationMatch: '0'` is "there is none". */
export interface Preconditions {
  readonly ifGenerationMatch?: string | undefined;
  readonly ifGenerationNotMatch?: string | undefined;
  readonly ifMetagenerationMatch?: string | undefined;
  readonly ifMetagenerationNotMatch?: string | undefined;
}

export interface ListQuery {
  readonly prefix: string;
  readonly delimiter: string;
  /** Names not before this one. */
  readonly startOffset: string;
  /** Names before this one; empty for all. */
  readonly endOffset: string;
  /** Names after this one. */
  readonly after: string;
  readonly includeTrailingDelimiter: boolean;
  readonly most: number;
}

export interface Listing {
  readonly items: readonly StoredObject[];
  readonly prefixes: readonly string[];
  /** The last name, where there are more. */
  readonly next: string | undefined;
}

export interface Objects {
  find(bucket: string, name: string): StoredObject | undefined;
  /** Makes the file the object, if the preconditions hold; the file is gone from where it was either way. */
  put(bucket: string, name: string, file: string, about: ObjectAbout, only: Preconditions): StoredObject;
  /** Replaces what is said of it. */
  describe(object: StoredObject, about: ObjectAbout): StoredObject;
  remove(object: StoredObject): void;
  list(bucket: string, query: ListQuery): Listing;
}

/** A note about one object. */
interface Note {
  readonly generation: string;
  readonly metageneration: number;
  readonly about: ObjectAbout;
  /** A folder that nobody has asked for. */
  readonly isImplied?: true;
}

/** `notes` is a folder on the disk of the buckets. */
export function openObjects(buckets: Buckets, notes: string): Objects {
  const noteFile = (bucket: string, name: string): string =>
    join(notes, bucket, createHash('sha256').update(name).digest('hex'));

  function readNote(bucket: string, name: string): Note | undefined {
    try {
      return JSON.parse(readFileSync(noteFile(bucket, name), 'utf8')) as Note;
    } catch {
      return undefined;
    }
  }

  function writeNote(bucket: string, name: string, note: Note): void {
    const file = noteFile(bucket, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(`${file}.new`, JSON.stringify(note));
    renameSync(`${file}.new`, file);
  }

  const dropNote = (bucket: string, name: string): void => rmSync(noteFile(bucket, name), { force: true });

  /** Undefined where the way leads through something that is no folder. */
  function pathOf(bucket: string, name: string): string | undefined {
    const parts = partsOf(name);
    let path = buckets.folder(bucket);
    for (const part of parts.slice(0, -1)) {
      path = join(path, part);
      if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return undefined;
    }
    return join(path, parts.at(-1) ?? '');
  }

  function find(bucket: string, name: string): StoredObject | undefined {
    if (!isPossible(name)) return undefined;
    const path = pathOf(bucket, name);
    return path === undefined ? undefined : look(bucket, name, path);
  }

  function look(bucket: string, name: string, path: string): StoredObject | undefined {
    const found = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    const isFolder = name.endsWith('/');
    if (found === undefined || (isFolder ? !found.isDirectory() : !found.isFile())) return undefined;
    // A folder changes with everything in it; as an object it does not.
    const changed = isFolder ? found.birthtimeNs : found.mtimeNs;
    const generation = String(changed / 1_000n || 1n);
    const note = readNote(bucket, name);
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

  /** The folders above an object, made where they are missing. Throws where one is no folder. */
  function makeWay(bucket: string, name: string): void {
    const parts = partsOf(name).slice(0, -1);
    for (let count = 1; count <= parts.length; count += 1) {
      const folder = `${parts.slice(0, count).join('/')}/`;
      const path = join(buckets.folder(bucket), folder);
      const found = lstatSync(path.slice(0, -1), { throwIfNoEntry: false });
      if (found === undefined) {
        mkdirSync(path);
        noteImplied(bucket, folder, path);
      } else if (!found.isDirectory()) throw inTheWay(folder.slice(0, -1), name);
    }
  }

  function noteImplied(bucket: string, folder: string, path: string): void {
    const generation = String(lstatSync(path, { bigint: true }).birthtimeNs / 1_000n || 1n);
    writeNote(bucket, folder, { generation, metageneration: 1, about: {}, isImplied: true });
  }

  /** Takes away the folders above that are empty now and that nobody has asked for. */
  function clearWay(bucket: string, name: string): void {
    const parts = partsOf(name).slice(0, -1);
    for (let count = parts.length; count > 0; count -= 1) {
      const folder = `${parts.slice(0, count).join('/')}/`;
      if (readNote(bucket, folder)?.isImplied !== true || find(bucket, folder) !== undefined) return;
      try {
        rmdirSync(join(buckets.folder(bucket), folder));
      } catch {
        // Something is in it still.
        return;
      }
      dropNote(bucket, folder);
    }
  }

  function putFolder(bucket: string, name: string, about: ObjectAbout): void {
    makeWay(bucket, name);
    const path = join(buckets.folder(bucket), name);
    const found = lstatSync(path.slice(0, -1), { throwIfNoEntry: false });
    if (found !== undefined && !found.isDirectory()) throw inTheWay(name.slice(0, -1), name);
    if (found === undefined) mkdirSync(path);
    const generation = String(lstatSync(path, { bigint: true }).birthtimeNs / 1_000n || 1n);
    writeNote(bucket, name, { generation, metageneration: 1, about });
  }

  function putFile(bucket: string, name: string, file: string, about: ObjectAbout, isNew: boolean): void {
    makeWay(bucket, name);
    const path = join(buckets.folder(bucket), name);
    const before = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    if (before?.isDirectory() === true) throw inTheWay(`${name}/`, name);
    const { mtimeNs } = lstatSync(file, { bigint: true });
    // Two states within one tick of the disk's clock are two generations all the same.
    if (before !== undefined && mtimeNs / 1_000n <= before.mtimeNs / 1_000n) {
      const after = Number(before.mtimeNs / 1_000_000n + 1n) / 1_000;
      utimesSync(file, after, after);
    }
    if (isNew) {
      try {
        // Unlike a rename, a link is made only where nothing stands, whatever a worker does meanwhile.
        linkSync(file, path);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw refusals.precondition();
        throw error;
      }
      unlinkSync(file);
    } else renameSync(file, path);
    const generation = String(lstatSync(path, { bigint: true }).mtimeNs / 1_000n);
    writeNote(bucket, name, { generation, metageneration: 1, about });
  }

  /** Names of a folder in the order of whole names: a folder stands where its slash puts it. */
  function* walk(bucket: string, folder: string, query: ListQuery): Generator<{ name: string; path: string }> {
    const path = join(buckets.folder(bucket), folder);
    const names = entriesOf(path)
      .flatMap((entry) => (entry.isDirectory() ? [`${entry.name}/`] : entry.isFile() ? [entry.name] : []))
      .toSorted(compareTexts);
    for (const own of names) {
      const name = folder + own;
      if (!own.endsWith('/')) {
        yield { name, path: join(path, own) };
        continue;
      }
      // Whole folders that lie before what is asked for, or beside it, are not read.
      const isAside = !name.startsWith(query.prefix) && !query.prefix.startsWith(name);
      const isBefore = [query.after, query.startOffset].some((start) => name < start && !start.startsWith(name));
      if (isAside || isBefore) continue;
      yield { name, path: join(path, own) };
      const isFolded = query.delimiter === '/' && name.length > query.prefix.length;
      if (!isFolded) yield* walk(bucket, name, query);
    }
  }

  return {
    find,
    put(bucket, name, file, about, only) {
      try {
        if (!isPossible(name))
          throw refusals.invalid(`The emulator keeps objects as files; ${JSON.stringify(name)} is no path.`);
        const current = find(bucket, name);
        checkPreconditions(current, only);
        if (name.endsWith('/')) putFolder(bucket, name, about);
        else putFile(bucket, name, file, about, only.ifGenerationMatch === '0');
      } finally {
        rmSync(file, { force: true });
      }
      const made = find(bucket, name);
      if (made === undefined) throw refusals.noObject(bucket, name);
      return made;
    },
    describe(object, about) {
      const { bucket, name, generation, metageneration } = object;
      writeNote(bucket, name, { generation, metageneration: metageneration + 1, about });
      return { ...object, about, metageneration: metageneration + 1 };
    },
    remove({ bucket, name, path }) {
      dropNote(bucket, name);
      if (!name.endsWith('/')) unlinkSync(path);
      else if (readdirSync(path).length > 0) return noteImplied(bucket, name, path);
      else rmdirSync(path);
      clearWay(bucket, name);
    },
    list(bucket, query) {
      const { prefix, delimiter, startOffset, endOffset, after, includeTrailingDelimiter, most } = query;
      const items: StoredObject[] = [];
      const prefixes: string[] = [];
      let last = '';
      for (const { name, path } of walk(bucket, '', query)) {
        if (!name.startsWith(prefix)) continue;
        if (endOffset !== '' && name >= endOffset) break;
        const end = delimiter === '' ? -1 : name.indexOf(delimiter, prefix.length);
        const folded = end < 0 ? undefined : name.slice(0, end + delimiter.length);
        const told = folded ?? name;
        if (told <= after || (name < startOffset && told < startOffset)) continue;
        const isItem = folded === undefined || (includeTrailingDelimiter && folded === name);
        const item = isItem ? look(bucket, name, path) : undefined;
        const isPrefix = folded !== undefined && prefixes.at(-1) !== folded;
        if (item === undefined && !isPrefix) continue;
        if (items.length + prefixes.length >= most) return { items, prefixes, next: last };
        if (item !== undefined) items.push(item);
        if (isPrefix) prefixes.push(folded);
        last = told;
      }
      return { items, prefixes, next: undefined };
    },
  };
}

/** None of a folder that a worker has removed meanwhile, or that cannot be found by its name, which is no UTF-8 or too long. */
function entriesOf(path: string): Dirent[] {
  try {
    return readdirSync(path, { withFileTypes: true });
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? ''))
      return [];
    throw error;
  }
}

/**
 * Opens the object's file for reading. Throws where a worker has put a link in its place, or in that of a folder above it, since
 * the object was found: that would lead to another file of this machine.
 */
export function openObject({ bucket, name, path }: StoredObject): number {
  let descriptor: number;
  try {
    // A FIFO would be waited for.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw refusals.noObject(bucket, name);
    throw error;
  }
  if (fstatSync(descriptor).isFile() && isAt(descriptor, path)) return descriptor;
  closeSync(descriptor);
  throw refusals.noObject(bucket, name);
}

/** Whether what is open is at that path, which has no links. Only Linux tells. */
function isAt(descriptor: number, path: string): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${String(descriptor)}`).replace(/ \(deleted\)$/, '') === path;
  } catch {
    return !existsSync('/proc/self/fd');
  }
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

/** Changes with the object and with what is said of it. */
export function etagOf({ generation, metageneration }: StoredObject): string {
  return Buffer.from(`${generation}/${String(metageneration)}`).toString('base64');
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

const compareTexts = (one: string, other: string): number => (one < other ? -1 : 1);
