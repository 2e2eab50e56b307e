/**
 * Uploads: bytes on their way to be an object. They lie in a folder beside the buckets until they are whole. An upload in
 * parts may take long, and goes on after the emulator was killed: what has arrived is the length of its file, and what it
 * will be is written beside it. https://cloud.google.com/storage/docs/performing-resumable-uploads
 */
import { randomUUID } from 'node:crypto';
import { createWriteStream, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { refusals } from './errors.ts';
import type { ObjectAbout, Preconditions } from './objects.ts';

/** An object in the making. */
export interface Upload {
  readonly id: string;
  readonly bucket: string;
  readonly name: string;
  readonly about: ObjectAbout;
  readonly only: Preconditions;
}

export interface Uploads {
  /** A name for a new file, below the folder of uploads. */
  fresh(): string;
  /** Writes a whole body into a new file; its path. */
  take(request: IncomingMessage): Promise<string>;
  begin(upload: Omit<Upload, 'id'>): Upload;
  find(id: string): Upload;
  /** The file of what has arrived. */
  file(id: string): string;
  /** How many bytes have arrived. */
  length(id: string): number;
  /**
   * Takes one part, which begins at that byte of the object. True when it was the last: then the file is whole. What had
   * arrived before is not written twice; a part that leaves a gap is not taken.
   */
  goOn(id: string, request: IncomingMessage): Promise<boolean>;
  /** Forgets it, with what has arrived. */
  end(id: string): void;
}

export function openUploads(folder: string): Uploads {
  const file = (id: string): string => {
    if (!/^[0-9a-f-]{36}$/.test(id)) throw refusals.noUpload();
    return join(folder, id);
  };
  const length = (id: string): number => statSync(file(id), { throwIfNoEntry: false })?.size ?? 0;
  const fresh = (): string => {
    mkdirSync(folder, { recursive: true });
    return join(folder, randomUUID());
  };

  return {
    fresh,
    file,
    length,
    async take(request) {
      const path = fresh();
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
        throw refusals.noUpload();
      }
    },
    async goOn(id, request) {
      const { from, total } = readRange(request.headers['content-range']);
      const arrived = length(id);
      if (from === undefined) request.resume();
      else if (from > arrived) request.resume();
      else await pipeline(skip(request, arrived - from), createWriteStream(file(id), { flags: 'a' }));
      // Without a range the body is all there is.
      const isWhole = request.headers['content-range'] === undefined;
      return isWhole || (total !== undefined && length(id) >= total);
    },
    end(id) {
      for (const path of [file(id), `${file(id)}.json`]) rmSync(path, { force: true });
    },
  };
}

/** `bytes 0-9/10`, `bytes 0-9/*`, and the question how far it is, `bytes *\/10`. */
function readRange(text = 'bytes 0-'): { readonly from: number | undefined; readonly total: number | undefined } {
  const [, from, total] = /^bytes (?:(\d+)-\d*|\*)(?:\/(\d+|\*))?$/.exec(text) ?? [];
  if (!text.startsWith('bytes ')) throw refusals.invalid(`Content-Range: ${text} is no range.`);
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

/** A whole body in memory, for what is small. */
export async function bodyOf(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

/** The two parts of a `multipart/related` body: what the object is, and its bytes with their type. Throws on any other. */
export function readMultipart(
  contentType: string,
  body: Buffer,
): { readonly about: Buffer; readonly type: string | undefined; readonly bytes: Buffer } {
  const [, quoted, plain] = /boundary=(?:"([^"]+)"|'?([^;'\s]+))/.exec(contentType) ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) throw refusals.invalid('A multipart upload needs a boundary.');
  const [about, bytes] = partsOf(body, boundary);
  if (about === undefined || bytes === undefined) throw refusals.invalid('A multipart upload has two parts.');
  return { about: about.bytes, type: bytes.type, bytes: bytes.bytes };
}

function partsOf(body: Buffer, boundary: string): { readonly type: string | undefined; readonly bytes: Buffer }[] {
  const parts: { type: string | undefined; bytes: Buffer }[] = [];
  const mark = `--${boundary}`;
  let at = body.indexOf(mark);
  while (at >= 0 && body.toString('latin1', at + mark.length, at + mark.length + 2) !== '--') {
    const start = body.indexOf('\n', at) + 1;
    const next = body.indexOf(`\n${mark}`, start - 1);
    if (next < 0) break;
    const end = body[next - 1] === 13 ? next - 1 : next;
    // The headers of a part end with an empty line; a part may have none.
    const head =
      /^(?:[^\r\n]+\r?\n)*\r?\n/.exec(body.toString('latin1', start, Math.min(end + 2, start + 8_192)))?.[0] ?? '';
    const type = /^content-type:\s*([^\r\n]+)/im.exec(head)?.[1];
    parts.push({ type, bytes: body.subarray(Math.min(start + head.length, end), end) });
    at = next + 1;
  }
  return parts;
}
