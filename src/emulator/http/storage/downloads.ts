// The bytes of an object, or the range that is asked for.

import { closeSync, constants, createReadStream, existsSync, fstatSync, openSync, readlinkSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { refusals } from './errors.ts';
import { etagOf, type StoredObject } from './object.ts';
import { checkRead } from './preconditions.ts';
import type { Method } from './method.ts';
import { preconditionsOf, readRange } from './requests.ts';

export const download: Method = async ({ finder }, call) => {
  const { request, response, query } = call;
  const name = call.part('name');
  const found = finder.needObject(call.part('bucket'), name, call);
  checkRead(found, preconditionsOf(query), request.headers);
  // An open file stays readable, whatever becomes of its name.
  const descriptor = name.endsWith('/') ? openSync('/dev/null', 'r') : openObject(found);
  let isHandedOn = false;
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
    isHandedOn = true;
    // A reader that goes away in the middle is no mistake of ours.
    await pipeline(createReadStream('', { fd: descriptor, start: from, end: to }), response).catch(() => undefined);
    return null;
  } finally {
    if (!isHandedOn) closeSync(descriptor);
  }
};

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
