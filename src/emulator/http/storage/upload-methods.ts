/**
 * Uploads in their three ways: plain, with a description in front, and in parts.
 * https://cloud.google.com/storage/docs/uploads-downloads
 */
import { writeFileSync } from 'node:fs';
import { checksumsOf } from './checksums.ts';
import { refusals } from './errors.ts';
import type { Method, Stores } from './method.ts';
import { type Answer, header, jsonOf, parseJson, preconditionsOf, type StorageCall } from './requests.ts';
import { aboutOf, nameOf, objectResource, withType } from './resources.ts';
import { bodyOf, readMultipart, type Upload } from './uploads.ts';

/** Makes the file an object, with its checksums. Throws where what the client says of those is wrong. */
export async function putObject(
  { objects }: Stores,
  upload: Omit<Upload, 'id'>,
  file: string,
  call: StorageCall,
): Promise<object> {
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

/** A new object from the body, or a part of one. */
export const upload: Method = async (stores, call) => {
  const { request, response, query, origin } = call;
  const { uploads } = stores;
  const bucket = call.part('bucket');
  const id = query.get('upload_id');
  if (id !== null) return goOn(stores, id, call);
  stores.finder.makeByUse(bucket, call);
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
      return putObject(
        stores,
        { bucket, name: nameOf(query, said), about: withType(aboutOf(said), type), only },
        file,
        call,
      );
    }
    case null:
    case 'media': {
      const about = withType({}, header(request, 'content-type'));
      const name = nameOf(query, {});
      return putObject(stores, { bucket, name, about, only }, await uploads.take(request), call);
    }
    default:
      throw refusals.invalid(`uploadType ${String(query.get('uploadType'))} is none.`);
  }
};

async function goOn(stores: Stores, id: string, call: StorageCall): Promise<Answer> {
  const { request, response } = call;
  const { uploads } = stores;
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
    return await putObject(stores, begun, uploads.file(id), call);
  } finally {
    uploads.end(id);
  }
}
