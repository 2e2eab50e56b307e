// Version source: which version is to be had where the settings say (`newVersion.repository`). That is a release as its recipe
// packs it (docs/releasing.md), a package.json, or a folder with either; a path, or an address of https or http.

import { constants, createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { exitCode, JobmanError } from './errors.ts';

/** Where is looked, and for what. */
export interface VersionSource {
  /** An absolute path, or an address. */
  readonly repository: string;
  /** The end of the path of package.json in an archive, or its path in a folder. */
  readonly packageJsonPath: string;
  readonly signal: AbortSignal;
}

/** A package.json is a few kilobytes; what is larger is something else. */
const packageMost = 1024 * 1024;
/** A release is unpacked up to this size; a small archive can be of any size when it is unpacked. */
const unpackedMost = 1024 * 1024 * 1024;

/** The version that is there. Throws an Error that says in a sentence why none was found. */
export async function remoteVersion({ repository, packageJsonPath, signal }: VersionSource): Promise<string> {
  const { bytes, called } = await open(repository, packageJsonPath, signal);
  const text = await packageText(bytes, packageJsonPath);
  if (text === undefined) throw trouble(`${called} has no ${packageJsonPath}`);
  try {
    const { version } = JSON.parse(text) as { readonly version?: unknown };
    if (typeof version === 'string') return version;
  } catch {
    // Told below: whatever it is, it names no version.
  }
  throw trouble(`the ${packageJsonPath} of ${called} names no version`);
}

interface Opened {
  readonly bytes: AsyncIterable<Uint8Array>;
  readonly called: string;
}

async function open(repository: string, packageJsonPath: string, signal: AbortSignal): Promise<Opened> {
  if (/^https?:\/\//.test(repository)) {
    const response = await fetch(repository, { signal });
    if (!response.ok || response.body === null) throw trouble(`${repository} answered ${response.status}`);
    return { bytes: Readable.fromWeb(response.body as never), called: repository };
  }
  const path = (await stat(repository)).isDirectory() ? await fileIn(repository, packageJsonPath) : repository;
  // A FIFO would otherwise wait for a writer.
  const flags = constants.O_RDONLY | constants.O_NONBLOCK;
  return { bytes: createReadStream(path, { signal, flags: flags as never }), called: path };
}

/** A checkout's own package.json; else the archive that was put into the folder last. */
async function fileIn(folder: string, packageJsonPath: string): Promise<string> {
  const own = join(folder, packageJsonPath);
  if (await isFile(own)) return own;
  const names = (await readdir(folder)).filter((name) => /\.(tar\.gz|tgz)$/.test(name));
  const dated = await Promise.all(
    names.map(async (name) => ({ path: join(folder, name), at: (await stat(join(folder, name))).mtimeMs })),
  );
  const [newest] = dated.toSorted((one, other) => other.at - one.at);
  if (newest === undefined) throw trouble(`${folder} has neither ${packageJsonPath} nor a .tar.gz`);
  return newest.path;
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

function trouble(message: string): JobmanError {
  return new JobmanError(message, exitCode.unreachable);
}

/** The text of package.json: all there is, or of a packed archive the file of that path. */
async function packageText(bytes: AsyncIterable<Uint8Array>, packageJsonPath: string): Promise<string | undefined> {
  const source = bytes[Symbol.asyncIterator]();
  const first = await source.next();
  const whole = (async function* () {
    if (first.done === true) return;
    yield first.value;
    yield* { [Symbol.asyncIterator]: () => source };
  })();
  const isPacked = first.done !== true && first.value[0] === 0x1f && first.value[1] === 0x8b;
  if (isPacked) return fileInArchive(whole, packageJsonPath);
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of whole) {
    size += part.length;
    if (size > packageMost) throw trouble('what is there is too large for a package.json, and no .tar.gz');
    parts.push(part);
  }
  return Buffer.concat(parts).toString('utf8');
}

/**
 * The file whose path ends in that, of several the one that lies least deep: an archive with libraries has many a package.json.
 * One that lies in the archive's only folder is the least deep there can be, and the rest is not read.
 */
async function fileInArchive(packed: AsyncIterable<Uint8Array>, end: string): Promise<string | undefined> {
  const parts = partsOf(end);
  let best: { readonly depth: number; readonly text: string } | undefined;
  const unpacked = Readable.from(packed).pipe(createGunzip());
  for await (const { name, content } of tarFiles(upTo(unpackedMost, unpacked), (path) =>
    endsIn(partsOf(path), parts),
  )) {
    const depth = partsOf(name).length;
    if (best === undefined || depth < best.depth) best = { depth, text: content.toString('utf8') };
    if (depth <= parts.length + 1) break;
  }
  return best?.text;
}

async function* upTo(most: number, bytes: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  let size = 0;
  for await (const part of bytes) {
    size += part.length;
    if (size > most) throw trouble(`the archive is larger than ${most / 1024 / 1024} MiB`);
    yield part;
  }
}

function partsOf(path: string): readonly string[] {
  return path.split('/').filter((part) => part !== '' && part !== '.');
}

function endsIn(path: readonly string[], end: readonly string[]): boolean {
  return end.length > 0 && path.slice(-end.length).join('/') === end.join('/');
}

interface TarFile {
  readonly name: string;
  readonly content: Buffer;
}

const blockSize = 512;

/**
 * The wanted files of an unpacked archive: 512 bytes of head, the content filled up to such blocks, and so on; long names come
 * in an entry of their own before. https://www.gnu.org/software/tar/manual/html_node/Standard.html, and pax in POSIX.
 */
async function* tarFiles(
  bytes: AsyncIterable<Uint8Array>,
  isWanted: (name: string) => boolean,
): AsyncIterable<TarFile> {
  const take = reader(bytes);
  let longName: string | undefined;
  for (;;) {
    const head = await take(blockSize);
    // Two empty blocks are the end; so is the end of the bytes.
    if (head === undefined || head[0] === 0) return;
    const size = Number.parseInt(textOf(head, 124, 12), 8);
    // A size below zero would never be reached, and everything that follows would be kept for it.
    if (!Number.isSafeInteger(size) || size < 0) throw trouble('the archive is not a tar file');
    const type = String.fromCharCode(head[156] ?? 0);
    const prefix = textOf(head, 257, 5) === 'ustar' ? textOf(head, 345, 155) : '';
    const name = longName ?? `${prefix === '' ? '' : `${prefix}/`}${textOf(head, 0, 100)}`;
    const isName = type === 'L' || type === 'x';
    const isFileEntry = type === '0' || type === '\0';
    const isRead = (isName || (isFileEntry && isWanted(name))) && size <= packageMost;
    const filled = Math.ceil(size / blockSize) * blockSize;
    const content = isRead ? await take(filled) : undefined;
    if (isRead && content === undefined) return;
    if (!isRead) await take(filled, true);
    if (content !== undefined && isName) {
      const text = content.subarray(0, size).toString('utf8');
      longName = type === 'L' ? text.replace(/\0.*$/s, '') : (/^\d+ path=(.*)$/m.exec(text)?.[1] ?? longName);
      continue;
    }
    longName = undefined;
    if (content !== undefined) yield { name, content: content.subarray(0, size) };
  }
}

function textOf(head: Buffer, from: number, length: number): string {
  return head
    .subarray(from, from + length)
    .toString('utf8')
    .replace(/\0.*$/s, '')
    .trim();
}

/** Takes so many bytes in a row, or drops them; undefined when there are not so many left. */
function reader(bytes: AsyncIterable<Uint8Array>): (count: number, drop?: true) => Promise<Buffer | undefined> {
  const source = bytes[Symbol.asyncIterator]();
  let rest: Buffer = Buffer.alloc(0);
  return async (count, drop) => {
    const parts: Buffer[] = [];
    let missing = count;
    for (;;) {
      const part = rest.subarray(0, missing);
      rest = rest.subarray(part.length);
      missing -= part.length;
      if (drop !== true) parts.push(part);
      if (missing === 0) return Buffer.concat(parts);
      const next = await source.next();
      if (next.done === true) return undefined;
      rest = Buffer.from(next.value);
    }
  };
}
