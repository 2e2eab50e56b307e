/**
 * Files of uploads are in a separate folder until they are complete. A resumable upload survives a kill of the
 * emulator: its file has the bytes so far, and a JSON file the rest.
 * https://cloud.google.com/storage/docs/performing-resumable-uploads
 */
import { randomUUID } from 'node:crypto';
import { createWriteStream, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { storageErrors } from './errors.ts';
import type { ObjectAttributes, Preconditions } from './objects.ts';

export interface Upload {
  readonly id: string;
  readonly bucket: string;
  readonly name: string;
  readonly about: ObjectAttributes;
  readonly preconditions: Preconditions;
}

export interface Uploads {
  /** The path of a new file; does not create it. */
  newFile(): string;
  saveBody(request: IncomingMessage): Promise<string>;
  begin(upload: Omit<Upload, 'id'>): Upload;
  find(id: string): Upload;
  file(id: string): string;
  receivedBytes(id: string): number;
  /** True when the upload is complete. Skips bytes that arrived before, and ignores a part after a gap. */
  append(id: string, request: IncomingMessage): Promise<boolean>;
  discard(id: string): void;
}

export function openUploads(folder: string): Uploads {
  const file = (id: string): string => {
    if (!/^[0-9a-f-]{36}$/.test(id)) throw storageErrors.uploadNotFound();
    return join(folder, id);
  };
  const receivedBytes = (id: string): number => statSync(file(id), { throwIfNoEntry: false })?.size ?? 0;
  const newFile = (): string => {
    mkdirSync(folder, { recursive: true });
    return join(folder, randomUUID());
  };

  return {
    newFile,
    file,
    receivedBytes,
    async saveBody(request) {
      const path = newFile();
      await pipeline(request, createWriteStream(path));
      return path;
    },
    begin(upload) {
      const id = randomUUID();
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, id), '');
      writeFileSync(join(folder, `${id}.json`), JSON.stringify(upload));
      return { ...upload, id };
    },
    find(id) {
      try {
        return { ...(JSON.parse(readFileSync(`${file(id)}.json`, 'utf8')) as Omit<Upload, 'id'>), id };
      } catch {
        throw storageErrors.uploadNotFound();
      }
    },
    async append(id, request) {
      const { from, total } = readRange(request.headers['content-range']);
      const arrived = receivedBytes(id);
      if (from === undefined) request.resume();
      else if (from > arrived) request.resume();
      else await pipeline(skip(request, arrived - from), createWriteStream(file(id), { flags: 'a' }));
      // A request without a range has the whole body.
      const isWhole = request.headers['content-range'] === undefined;
      return isWhole || (total !== undefined && receivedBytes(id) >= total);
    },
    discard(id) {
      for (const path of [file(id), `${file(id)}.json`]) rmSync(path, { force: true });
    },
  };
}

/** `bytes 0-9/10`, `bytes 0-9/*`, and the progress query `bytes *\/10`. */
function readRange(text = 'bytes 0-'): { readonly from: number | undefined; readonly total: number | undefined } {
  const [, from, total] = /^bytes (?:(\d+)-\d*|\*)(?:\/(\d+|\*))?$/.exec(text) ?? [];
  if (!text.startsWith('bytes ')) throw storageErrors.invalid(`Content-Range: ${text} is not a range.`);
  return {
    from: from === undefined ? undefined : Number(from),
    total: total === undefined || total === '*' ? undefined : Number(total),
  };
}

async function* skip(bytes: AsyncIterable<unknown>, count: number): AsyncGenerator<Buffer> {
  let left = count;
  for await (const chunk of bytes as AsyncIterable<Buffer>) {
    if (left < chunk.length) yield chunk.subarray(left);
    left = Math.max(0, left - chunk.length);
  }
}

export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** Splits a `multipart/related` body into the object's JSON and its bytes with their type. Throws on any other body. */
export function readMultipart(
  contentType: string,
  body: Buffer,
): { readonly about: Buffer; readonly type: string | undefined; readonly bytes: Buffer } {
  const [, quoted, plain] = /boundary=(?:"([^"]+)"|'?([^;'\s]+))/.exec(contentType) ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) throw storageErrors.invalid('A multipart upload needs a boundary.');
  const [about, bytes] = partsOf(body, boundary);
  if (about === undefined || bytes === undefined) throw storageErrors.invalid('A multipart upload has two parts.');
  return { about: about.bytes, type: bytes.type, bytes: bytes.bytes };
}

function partsOf(body: Buffer, boundary: string): { readonly type: string | undefined; readonly bytes: Buffer }[] {
  const parts: { type: string | undefined; bytes: Buffer }[] = [];
  const delimiter = `--${boundary}`;
  let at = body.indexOf(delimiter);
  while (at >= 0 && body.toString('latin1', at + delimiter.length, at + delimiter.length + 2) !== '--') {
    const start = body.indexOf('\n', at) + 1;
    const next = body.indexOf(`\n${delimiter}`, start - 1);
    if (next < 0) break;
    const end = body[next - 1] === 13 ? next - 1 : next;
    // An empty line ends the headers of a part, which may have none.
    const head =
      /^(?:[^\r\n]+\r?\n)*\r?\n/.exec(body.toString('latin1', start, Math.min(end + 2, start + 8_192)))?.[0] ?? '';
    const type = /^content-type:\s*([^\r\n]+)/im.exec(head)?.[1];
    parts.push({ type, bytes: body.subarray(Math.min(start + head.length, end), end) });
    at = next + 1;
  }
  return parts;
}
