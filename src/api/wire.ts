// Wire: the encodings that are not plain JSON. The server and the HTTP client share them.

import type { LogPart } from '../app/client.ts';
import { usageError } from '../app/errors.ts';
import type { Blob } from '../app/ports.ts';
import type { Digest } from '../catalogue/digest.ts';

/** The header with the id of a stream that changes something. `DELETE /v1/streams/{id}` ends it and waits for its end. */
export const streamHeader = 'jobman-stream';

/** The version of the program that sent the request or the response. */
export const versionHeader = 'jobman-version';

/** Limit of one body with several blobs. A larger blob has a body of its own. */
export const blobsPerBody = 32 * 1024 * 1024;

/** Of one search for blobs, because the server checks a file for each. The schema of `BlobDigests` has the same number. */
export const digestsPerSearch = 2000;

// ------------------------------------------------------------------------------------------ paths

/**
 * Encodes a value as a segment of a path. Proxies remove an empty segment, `.` and `..`, so a `~` precedes these values, and
 * also any value that begins with `~`.
 */
export function encodeSegment(value: string): string {
  return encodeURIComponent(/^(?:\.{0,2}$|~)/.test(value) ? `~${value}` : value.toWellFormed());
}

export function decodeSegment(segment: string): string {
  return segment.startsWith('~') ? segment.slice(1) : segment;
}

// ------------------------------------------------------------------------------------------ queries

/** The parameters of a value: one for each item of a list, an empty one for an empty list, none for null. */
export function encodeParameter(value: unknown): readonly string[] {
  if (value === null || value === undefined) return [];
  if (Array.isArray(value)) return value.length === 0 ? [''] : value.map(parameterText);
  return [parameterText(value)];
}

function parameterText(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

// ------------------------------------------------------------------------------------------ blobs

/** Each blob is a line with its digest and the number of its bytes, and the bytes. */
export function encodeBlobs(blobs: readonly Blob[]): Uint8Array {
  const parts = blobs.flatMap(({ digest, content }) => [
    new TextEncoder().encode(`${encodeURIComponent(digest)} ${content.byteLength}\n`),
    content,
  ]);
  const body = new Uint8Array(parts.reduce((size, part) => size + part.byteLength, 0));
  let at = 0;
  for (const part of parts) {
    body.set(part, at);
    at += part.byteLength;
  }
  return body;
}

/** Throws JobmanError (2). */
export function decodeBlobs(body: Buffer): readonly Blob[] {
  const blobs: Blob[] = [];
  for (let at = 0; at < body.length;) {
    const end = body.indexOf('\n', at);
    const line = body.subarray(at, Math.max(end, at)).toString('latin1');
    const [, digest = '', size = ''] = /^(\S+) (\d+)$/.exec(line) ?? [];
    const from = end + 1;
    if (digest === '' || from + Number(size) > body.length)
      throw usageError('The body must have a line with the digest and the size of each blob, and then its bytes.');
    at = from + Number(size);
    blobs.push({ digest: decodeDigest(digest), content: body.subarray(from, at) });
  }
  return blobs;
}

function decodeDigest(text: string): Digest {
  try {
    // The store checks that it is the digest of the content.
    return decodeURIComponent(text) as Digest;
  } catch {
    throw usageError(`${text} is not a digest.`);
  }
}

// ------------------------------------------------------------------------------------------ logs

const logHeaders = { from: 'jobman-log-from', end: 'jobman-log-end', isComplete: 'jobman-log-complete' } as const;

export function encodeLogPart({ from, end, isComplete }: LogPart): Readonly<Record<string, string>> {
  return { [logHeaders.from]: `${from}`, [logHeaders.end]: `${end}`, [logHeaders.isComplete]: `${isComplete}` };
}

export function decodeLogPart(headers: Readonly<Record<string, unknown>>, bytes: Uint8Array): LogPart {
  const { from, end, isComplete } = logHeaders;
  return {
    bytes,
    from: Number(headers[from]),
    end: Number(headers[end]),
    isComplete: headers[isComplete] === 'true',
  };
}

// ------------------------------------------------------------------------------------------ events

/** A server-sent event that ends a stream: `end` after all values, `problem` with a problem document. */
export type StreamEnd = 'end' | 'problem';

/** One server-sent event. Its id is the cursor of a change. Bytes in a value are Base64. */
export function encodeEvent(value: unknown, end?: StreamEnd): string {
  const { cursor, bytes } = (value ?? {}) as { readonly cursor?: unknown; readonly bytes?: unknown };
  const sent = bytes instanceof Uint8Array ? { ...(value as object), bytes: bytes.toBase64() } : value;
  const id = typeof cursor === 'string' ? `id: ${cursor}\n` : '';
  return `${end === undefined ? '' : `event: ${end}\n`}${id}data: ${JSON.stringify(sent ?? null)}\n\n`;
}

export function decodeEvent(data: string): unknown {
  const value = JSON.parse(data) as unknown;
  const { bytes } = (value ?? {}) as { readonly bytes?: unknown };
  return typeof bytes === 'string' ? { ...(value as object), bytes: bytesOf(bytes) } : value;
}

/** A loop: a callback for each byte would cost a page that follows 64 logs a third of its processor time. */
function bytesOf(base64: string): Uint8Array {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}
