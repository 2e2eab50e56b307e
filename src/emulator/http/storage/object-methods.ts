// The methods of objects, but for their bytes: listed, described, removed, and made of others.

import { createReadStream, createWriteStream, rmSync, writeFileSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { refusals } from './errors.ts';
import type { StoredObject } from './object.ts';
import { checkPreconditions, checkRead } from './preconditions.ts';
import type { Method, Stores } from './method.ts';
import { jsonOf, nextPage, pageSize, pageStart, preconditionsOf, type StorageCall } from './requests.ts';
import { aboutOf, merged, objectResource } from './resources.ts';
import { download, openObject } from './downloads.ts';
import { putObject } from './upload-methods.ts';
import type { Uploads } from './uploads.ts';

export const listObjects: Method = ({ objects, finder }, call) => {
  const bucket = call.part('bucket');
  finder.need(bucket, call);
  const { query } = call;
  if ((query.get('matchGlob') ?? '') !== '') throw refusals.notPlayed('matchGlob');
  const { items, prefixes, next } = objects.list(bucket, {
    prefix: query.get('prefix') ?? '',
    delimiter: query.get('delimiter') ?? '',
    startOffset: query.get('startOffset') ?? '',
    endOffset: query.get('endOffset') ?? '',
    after: pageStart(query),
    includeTrailingDelimiter: query.get('includeTrailingDelimiter') === 'true',
    most: pageSize(query),
  });
  return {
    kind: 'storage#objects',
    ...(prefixes.length === 0 ? {} : { prefixes }),
    ...(items.length === 0 ? {} : { items: items.map((item) => objectResource(item, call.origin)) }),
    ...nextPage(next),
  };
};

/** The bytes of an object with `alt=media`, else its resource. */
export const getObject: Method = (stores, call) => {
  const { request, query, origin } = call;
  if (query.get('alt') === 'media') return download(stores, call);
  const found = named(stores, call);
  checkRead(found, preconditionsOf(query), request.headers);
  return objectResource(found, origin);
};

/** PATCH changes what is said of an object, PUT replaces it. */
export const describeObject: Method = async (stores, call) => {
  const { request, query, origin } = call;
  const said = await jsonOf(request);
  const found = named(stores, call);
  checkPreconditions(found, preconditionsOf(query));
  const { crc32c, md5Hash } = found.about;
  const before = request.method === 'PATCH' ? found.about : {};
  const about = { ...merged(before, said), ...(crc32c && { crc32c }), ...(md5Hash && { md5Hash }) };
  return objectResource(stores.objects.describe(found, about), origin);
};

export const removeObject: Method = (stores, call) => {
  const found = named(stores, call);
  checkPreconditions(found, preconditionsOf(call.query));
  stores.objects.remove(found);
  call.response.writeHead(204).end();
  return null;
};

/** `copyTo`: a second object with the same bytes. */
export const copyObject: Method = (stores, call) => copy(stores, source(stores, call), call);

/** `rewriteTo`: a copy that is always done in one go. */
export const rewriteObject: Method = async (stores, call) => {
  const from = source(stores, call);
  const resource = await copy(stores, from, call);
  const size = String(from.size);
  return { kind: 'storage#rewriteResponse', totalBytesRewritten: size, objectSize: size, done: true, resource };
};

export const moveObject: Method = async (stores, call) => {
  const from = source(stores, call);
  const made = await copy(stores, from, call);
  stores.objects.remove(from);
  return made;
};

/** One object of several, one behind the other. */
export const composeObject: Method = async (stores, call) => {
  const bucket = call.part('bucket');
  stores.finder.makeByUse(bucket, call);
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
    return stores.finder.needObject(bucket, source.name ?? '', call, generation);
  });
  if (sources.length === 0 || sources.length > 32) throw refusals.invalid('1 to 32 objects are composed at once.');
  const about = { ...aboutOf(said.destination ?? {}), componentCount: sources.length };
  const upload = { bucket, name: call.part('name'), about, only: preconditionsOf(call.query) };
  return putObject(stores, upload, await joined(stores.uploads, sources), call);
};

function named({ finder }: Stores, call: StorageCall): StoredObject {
  return finder.needObject(call.part('bucket'), call.part('name'), call);
}

function source({ finder }: Stores, call: StorageCall): StoredObject {
  const generation = call.query.get('sourceGeneration') ?? call.query.get('ifSourceGenerationMatch');
  return finder.needObject(call.part('bucket'), call.part('name'), call, generation);
}

async function copy(stores: Stores, from: StoredObject, call: StorageCall): Promise<object> {
  const bucket = call.part('toBucket') || call.part('bucket');
  stores.finder.makeByUse(bucket, call);
  const said = aboutOf(await jsonOf(call.request));
  const { crc32c: _sum, md5Hash: _hash, ...about } = from.about;
  const file = await joined(stores.uploads, [from]);
  const only = preconditionsOf(call.query);
  return putObject(stores, { bucket, name: call.part('toName'), about: { ...about, ...said }, only }, file, call);
}

/** A new file with the bytes of all of these, one behind the other. */
async function joined(uploads: Uploads, sources: readonly StoredObject[]): Promise<string> {
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
