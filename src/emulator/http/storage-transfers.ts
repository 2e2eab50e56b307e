/**
 * The bytes of objects: uploads in their three ways, downloads whole or in part, and objects that are made of others.
 * https://cloud.google.com/storage/docs/uploads-downloads
 */
import { closeSync, createReadStream, createWriteStream, fstatSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { checksumsOf } from './storage-checksums.ts';
import { refusals } from './storage-errors.ts';
import type { Finder } from './storage-find.ts';
import { checkRead, etagOf, openObject } from './storage-objects.ts';
import type { Objects, StoredObject } from './storage-objects.ts';
import { header, jsonOf, parseJson, preconditionsOf, readRange } from './storage-requests.ts';
import type { Answer, StorageCall } from './storage-requests.ts';
import { aboutOf, nameOf, objectResource, withType } from './storage-resources.ts';
import { bodyOf, openUploads, readMultipart } from './storage-uploads.ts';
import type { Upload } from './storage-uploads.ts';

export interface Transfers {
  /** A new object from the body, or a part of one. */
  readonly upload: (bucket: string, call: StorageCall) => Promise<Answer>;
  /** The bytes of an object, or the range that is asked for. */
  readonly download: (bucket: string, name: string, call: StorageCall) => Promise<Answer>;
  /** A second object with the same bytes. */
  readonly copy: (
    from: StoredObject,
    to: { readonly bucket: string; readonly name: string },
    call: StorageCall,
  ) => Promise<Answer>;
  /** One object of several, one behind the other. */
  readonly compose: (bucket: string, name: string, call: StorageCall) => Promise<Answer>;
}

/** `folder` is on the disk of the buckets, for uploads that are under way. */
export function openTransfers(objects: Objects, { makeByUse, needObject }: Finder, folder: string): Transfers {
  const uploads = openUploads(join(folder, 'uploads'));

  /** The file becomes the object, with its checksums. */
  async function put(upload: Omit<Upload, 'id'>, file: string, call: StorageCall): Promise<Answer> {
    const sums = await checksumsOf(file);
    const { about, only, bucket, name } = upload;
    for (const which of ['crc32c', 'md5Hash'] as const) {
      const said = about[which];
      if (said !== undefined && said !== sums[which]) {
        throw refusals.invalid(`Provided ${which} "${said}" doesn't match calculated ${which} "${sums[which]}".`);
      }
    }
    return objectResource(objects.put(bucket, name, file, { ...about, ...sums }, only), call.origin);
  }

  async function upload(bucket: string, call: StorageCall): Promise<Answer> {
    const { request, response, query, origin } = call;
    const id = query.get('upload_id');
    if (id !== null) return goOn(id, call);
    makeByUse(bucket, call);
    const only = preconditionsOf(query);
    switch (query.get('uploadType')) {
      case 'resumable': {
        const said = await jsonOf(request);
        const about = withType(aboutOf(said), header(request, 'x-upload-content-type'));
        const begun = uploads.begin({ bucket, name: nameOf(query, said), about, only });
        const location = `${origin}/upload/storage/v1/b/${bucket}/o?uploadType=resumable&upload_id=${begun.id}`;
        response.writeHead(200, { location, 'x-guploader-uploadid': begun.id, 'content-length': 0 }).end();
        return null;
      }
      case 'multipart': {
        const { about, type, bytes } = readMultipart(request.headers['content-type'] ?? '', await bodyOf(request));
        const said = parseJson(about);
        const file = uploads.fresh();
        writeFileSync(file, bytes);
        return put({ bucket, name: nameOf(query, said), about: withType(aboutOf(said), type), only }, file, call);
      }
      case null:
      case 'media': {
        const about = withType({}, header(request, 'content-type'));
        const name = nameOf(query, {});
        return put({ bucket, name, about, only }, await uploads.take(request), call);
      }
      default:
        throw refusals.invalid(`uploadType ${String(query.get('uploadType'))} is none.`);
    }
  }

  async function goOn(id: string, call: StorageCall): Promise<Answer> {
    const { request, response } = call;
    const begun = uploads.find(id);
    if (request.method === 'DELETE') {
      uploads.end(id);
      response.writeHead(499, { 'content-length': 0 }).end();
      return null;
    }
    if (!(await uploads.goOn(id, request))) {
      const arrived = uploads.length(id);
      const range = arrived === 0 ? {} : { range: `bytes=0-${String(arrived - 1)}` };
      // Clients that cannot bear this use of 308 say so.
      const isPlain = request.headers['x-guploader-no-308'] === 'yes';
      const status = isPlain ? { 'x-http-status-code-override': '308' } : {};
      response.writeHead(isPlain ? 200 : 308, { ...range, ...status, 'content-length': 0 }).end();
      return null;
    }
    try {
      return await put(begun, uploads.file(id), call);
    } finally {
      uploads.end(id);
    }
  }

  async function download(bucket: string, name: string, call: StorageCall): Promise<Answer> {
    const { request, response, query } = call;
    const found = needObject(bucket, name, call);
    checkRead(found, preconditionsOf(query), request.headers);
    // What is open stays readable, whatever becomes of its name.
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
  }

  /** A new file with the bytes of all of these, one behind the other. */
  async function joined(sources: readonly StoredObject[]): Promise<string> {
    const file = uploads.fresh();
    writeFileSync(file, '');
    try {
      for (const source of sources) {
        if (source.name.endsWith('/')) continue;
        const fd = openObject(source);
        await pipeline(createReadStream('', { fd }), createWriteStream(file, { flags: 'a' }));
      }
    } catch (error) {
      rmSync(file, { force: true });
      throw error;
    }
    return file;
  }

  async function copy(from: StoredObject, to: { bucket: string; name: string }, call: StorageCall): Promise<Answer> {
    makeByUse(to.bucket, call);
    const said = aboutOf(await jsonOf(call.request));
    const { crc32c: _sum, md5Hash: _hash, ...about } = from.about;
    const file = await joined([from]);
    return put({ ...to, about: { ...about, ...said }, only: preconditionsOf(call.query) }, file, call);
  }

  async function compose(bucket: string, name: string, call: StorageCall): Promise<Answer> {
    makeByUse(bucket, call);
    const said = (await jsonOf(call.request)) as {
      destination?: Readonly<Record<string, unknown>>;
      sourceObjects?: readonly {
        name?: string;
        generation?: string;
        objectPreconditions?: { ifGenerationMatch?: string };
      }[];
    };
    const sources = (said.sourceObjects ?? []).map((source) => {
      const generation = source.objectPreconditions?.ifGenerationMatch ?? source.generation ?? null;
      return needObject(bucket, source.name ?? '', call, generation);
    });
    if (sources.length === 0 || sources.length > 32) throw refusals.invalid('1 to 32 objects are composed at once.');
    const about = { ...aboutOf(said.destination ?? {}), componentCount: sources.length };
    return put({ bucket, name, about, only: preconditionsOf(call.query) }, await joined(sources), call);
  }

  return { upload, download, copy, compose };
}
