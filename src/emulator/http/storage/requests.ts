import type { IncomingMessage, ServerResponse } from 'node:http';
import { bucketPattern } from '../../world/buckets.ts';
import { storageErrors } from './errors.ts';
import type { Preconditions } from './objects.ts';
import { readBody } from './uploads.ts';

export type PathPart = 'bucket' | 'name' | 'toBucket' | 'toName';

export interface StorageCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** `http://host:port`, from the client's Host header. */
  readonly origin: string;
  /** A decoded part of the path; empty when the path does not have it. */
  readonly part: (name: PathPart) => string;
  /** The zone of the calling worker; undefined for a client on this machine. */
  readonly zone: string | undefined;
}

/** A JSON reply, or null when the method has already answered. */
export type Answer = object | null;

/** Undefined for other paths. An object's name is one part, even with slashes. */
export function pathParts(pathname: string): readonly string[] | undefined {
  try {
    if (/^\/(storage|upload\/storage|download\/storage|resumable\/upload\/storage)\/v1\/b(\/|$)/.test(pathname)) {
      return pathname
        .replace(/^\/resumable\/upload/, '/upload')
        .replace(/\/$/, '')
        .split('/')
        .slice(1)
        .map(decodeURIComponent);
    }
    const [, bucket, name] = /^\/([^/]+)\/(.+)$/.exec(pathname) ?? [];
    return bucket === undefined || name === undefined || !bucketPattern.test(bucket)
      ? undefined
      : [bucket, decodeURIComponent(name)];
  } catch {
    return undefined;
  }
}

export function isPlainPath(path: readonly string[]): boolean {
  return path.length === 2 && path[0] !== 'storage';
}

export function preconditionsOf(query: URLSearchParams): Preconditions {
  return {
    ifGenerationMatch: query.get('ifGenerationMatch') ?? undefined,
    ifGenerationNotMatch: query.get('ifGenerationNotMatch') ?? undefined,
    ifMetagenerationMatch: query.get('ifMetagenerationMatch') ?? undefined,
    ifMetagenerationNotMatch: query.get('ifMetagenerationNotMatch') ?? undefined,
  };
}

/** Undefined when the header is missing or repeated. */
export function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** Parses `bytes=0-9`, `bytes=5-`, `bytes=-3`; undefined for all bytes. Throws when the range is empty. */
export function readRange(text: string | undefined, size: number): readonly [from: number, to: number] | undefined {
  const [range, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(text ?? '') ?? [];
  if (range === undefined || (first === '' && last === '')) return undefined;
  const from = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const to = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (from >= size || to < from) throw storageErrors.badRange();
  return [from, to];
}

const maxPageSize = 1_000;

export function pageSize(query: URLSearchParams): number {
  const requested = Number(query.get('maxResults') ?? maxPageSize);
  return Number.isInteger(requested) && requested > 0 ? Math.min(requested, maxPageSize) : maxPageSize;
}

export function pageStart(query: URLSearchParams): string {
  return Buffer.from(query.get('pageToken') ?? '', 'base64url').toString('utf8');
}

export function nextPageField(last: string | undefined): object {
  return last === undefined ? {} : { nextPageToken: Buffer.from(last).toString('base64url') };
}

/** Returns `{}` for an empty body. Throws when the body is not a JSON object. */
export async function readJson(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  return parseJson(await readBody(request));
}

export function parseJson(bytes: Buffer): Readonly<Record<string, unknown>> {
  const text = bytes.toString('utf8').trim();
  if (text === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // The error below covers this case too.
  }
  throw storageErrors.invalid('Parse Error');
}

export function sendJson(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'content-type': 'application/json; charset=UTF-8',
    'content-length': Buffer.byteLength(text),
  });
  response.end(text);
}
