import { createHash } from 'node:crypto';
import { closeSync, constants, createReadStream, existsSync, fstatSync, openSync, readlinkSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { storageErrors } from './errors.ts';
import type { Method } from './methods.ts';
import { checkReadPreconditions, etagOf, type StoredObject } from './objects.ts';
import { preconditionsOf, readRange } from './requests.ts';

export const download: Method = async ({ finder }, call) => {
  const { request, response, query } = call;
  const name = call.part('name');
  const found = finder.requireObject(call.part('bucket'), name, call);
  checkReadPreconditions(found, preconditionsOf(query), request.headers);
  // An open file stays readable after a rename or removal.
  const descriptor = name.endsWith('/') ? openSync('/dev/null', 'r') : openObject(found);
  let isStreaming = false;
  try {
    const size = fstatSync(descriptor).size;
    const range = readRange(request.headers.range, size);
    const [from, to] = range ?? [0, size - 1];
    const { crc32c, md5Hash, contentType, contentEncoding, cacheControl } = found.about;
    const hashes = [crc32c === undefined ? '' : `crc32c=${crc32c}`, md5Hash === undefined ? '' : `md5=${md5Hash}`];
    response.writeHead(range === undefined ? 200 : 206, {
      'content-type': contentType ?? 'application/octet-stream',
      'content-length': to - from + 1,
      'accept-ranges': 'bytes',
      'last-modified': new Date(found.updatedAt).toUTCString(),
      etag: etagOf(found),
      'x-goog-generation': found.generation,
      'x-goog-metageneration': String(found.metageneration),
      'x-goog-stored-content-length': String(size),
      'x-goog-stored-content-encoding': contentEncoding ?? 'identity',
      ...(range === undefined ? {} : { 'content-range': `bytes ${String(from)}-${String(to)}/${String(size)}` }),
      ...(contentEncoding === undefined ? {} : { 'content-encoding': contentEncoding }),
      ...(cacheControl === undefined ? {} : { 'cache-control': cacheControl }),
      ...(crc32c === undefined && md5Hash === undefined
        ? {}
        : { 'x-goog-hash': hashes.filter((hash) => hash !== '').join(',') }),
    });
    if (request.method === 'HEAD' || to < from) {
      response.end();
      return null;
    }
    isStreaming = true;
    // A reader that disconnects is not an error.
    await pipeline(createReadStream('', { fd: descriptor, start: from, end: to }), response).catch(() => undefined);
    return null;
  } finally {
    if (!isStreaming) closeSync(descriptor);
  }
};

/** Throws when a worker has replaced the path by a link, which could lead to another file of this machine. */
export function openObject({ bucket, name, path }: StoredObject): number {
  let descriptor: number;
  try {
    // O_NONBLOCK: opening a FIFO would block.
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO'].includes((error as NodeJS.ErrnoException).code ?? ''))
      throw storageErrors.objectNotFound(bucket, name);
    throw error;
  }
  if (fstatSync(descriptor).isFile() && isOpenAt(descriptor, path)) return descriptor;
  closeSync(descriptor);
  throw storageErrors.objectNotFound(bucket, name);
}

/** True when the path, which has no links, is the open file. Linux only; true elsewhere. */
function isOpenAt(descriptor: number, path: string): boolean {
  try {
    return readlinkSync(`/proc/self/fd/${String(descriptor)}`).replace(/ \(deleted\)$/, '') === path;
  } catch {
    return !existsSync('/proc/self/fd');
  }
}

export interface Checksums {
  /** CRC-32C of the bytes, big-endian, in base64: https://cloud.google.com/storage/docs/data-validation */
  readonly crc32c: string;
  readonly md5Hash: string;
}

/** The reversed Castagnoli polynomial. Node's zlib has another CRC. */
const polynomial = 0x82f63b78;

const table = new Uint32Array(256).map((_, byte) => {
  let sum = byte;
  for (let bit = 0; bit < 8; bit += 1) sum = (sum & 1) === 1 ? (sum >>> 1) ^ polynomial : sum >>> 1;
  return sum >>> 0;
});

/** Continues the checksum of the preceding bytes; the first call passes 0. */
export function crc32c(bytes: Uint8Array, before = 0): number {
  let sum = ~before;
  for (const byte of bytes) sum = (sum >>> 8) ^ (table[(sum ^ byte) & 0xff] ?? 0);
  return ~sum >>> 0;
}

export async function checksumsOf(path: string): Promise<Checksums> {
  const md5 = createHash('md5');
  let sum = 0;
  for await (const chunk of createReadStream(path)) {
    md5.update(chunk as Buffer);
    sum = crc32c(chunk as Buffer, sum);
  }
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(sum);
  return { crc32c: bytes.toString('base64'), md5Hash: md5.digest('base64') };
}
