// Tree: the files of a working directory, as a blob that names their contents by digest.
//
// File names are bytes, not text. Here they are strings of one character per byte (latin1), so that a name that is not
// UTF-8 is preserved.

import { isDigest, type Digest } from '../catalogue/digest.ts';
import { BlobError, messageOf } from './errors.ts';
import type { Blobs } from './ports.ts';

export type TreeEntry = TreeFile | TreeLink;

export interface TreeFile {
  /** Below the top, with slashes. */
  readonly path: string;
  /** The twelve bits of its permissions. */
  readonly mode: number;
  readonly size: number;
  /** Time of its last change, in whole seconds since 1970. */
  readonly changedAtSeconds: number;
  readonly digest: Digest;
  /** The contents of which it consists, each of `partBytes` except the last; absent if it is one content. */
  readonly parts?: readonly Digest[];
}

/** A larger file is stored in parts, so that no program needs memory for all of it. */
export const partBytes = 16 * 1024 * 1024;

/** The contents of a file, in order, with their sizes. */
export function contentsOf({
  digest,
  size,
  parts = [digest],
}: Pick<TreeFile, 'digest' | 'size' | 'parts'>): readonly { readonly digest: Digest; readonly size: number }[] {
  const last = parts.length - 1;
  return parts.map((part, at) => ({ digest: part, size: at < last ? partBytes : size - last * partBytes }));
}

/** A symbolic link. Its mode and time mean nothing. */
interface TreeLink {
  readonly path: string;
  readonly target: string;
}

export function isFile(entry: TreeEntry): entry is TreeFile {
  return !isLink(entry);
}

export function isLink(entry: TreeEntry): entry is TreeLink {
  return 'target' in entry;
}

/** For people. */
export function nameOf({ path }: TreeEntry): string {
  return Buffer.from(path, 'latin1').toString();
}

export function encodeTree(entries: readonly TreeEntry[]): Uint8Array {
  return Buffer.from(JSON.stringify(entries));
}

/** Throws BlobError if the blob is missing or damaged, or if an entry would be outside the top. */
export async function readTree(blobs: Pick<Blobs, 'read'>, digest: Digest): Promise<readonly TreeEntry[]> {
  const text = Buffer.from(await blobs.read(digest)).toString();
  const refuse = (why: string): never => {
    throw new BlobError(`${digest} is not a list of files: ${why}`);
  };
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch (error) {
    return refuse(messageOf(error));
  }
  if (!Array.isArray(entries)) return refuse('it is not an array');
  const paths = new Set<string>();
  for (const entry of entries as readonly unknown[]) {
    if (!isEntry(entry)) return refuse(`the entry ${JSON.stringify(entry)} is not valid`);
    if (paths.has(entry.path)) return refuse(`it has ${entry.path} twice`);
    paths.add(entry.path);
  }
  for (const path of paths) {
    const above = foldersOf(path).find((folder) => paths.has(folder));
    if (above !== undefined) return refuse(`${path} is below ${above}, which is not a folder`);
  }
  return entries as readonly TreeEntry[];
}

function isEntry(value: unknown): value is TreeEntry {
  if (typeof value !== 'object' || value === null) return false;
  const { path, target, mode, size, changedAtSeconds, digest, parts } = value as Record<
    keyof TreeFile | 'target',
    unknown
  >;
  if (!isBytes(path) || path.split('/').some((name) => name === '' || name === '.' || name === '..')) return false;
  if (target !== undefined) return isBytes(target);
  const isMode = Number.isInteger(mode) && (mode as number) >= 0 && (mode as number) <= 0o7777;
  const isSize = Number.isSafeInteger(size) && (size as number) >= 0;
  const digests = [digest, ...(Array.isArray(parts) ? (parts as readonly unknown[]) : [])];
  // Otherwise a part would have no size.
  const hasParts = parts === undefined || digests.length - 1 === Math.ceil((size as number) / partBytes);
  const areDigests = digests.every((one) => isDigest(String(one)));
  return isMode && isSize && Number.isSafeInteger(changedAtSeconds) && areDigests && hasParts;
}

/** A name or a target, as the system takes it. */
function isBytes(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && !/[\0\u0100-\uffff]/.test(value);
}

/** `a/b/c` is in `a` and `a/b`. */
export function foldersOf(path: string): readonly string[] {
  const folders: string[] = [];
  for (let at = path.indexOf('/'); at >= 0; at = path.indexOf('/', at + 1)) folders.push(path.slice(0, at));
  return folders;
}
