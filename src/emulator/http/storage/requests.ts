/**
 * A request to Storage, taken apart: paths, parameters, headers, JSON; and the JSON that is written back.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { bucketPattern } from '../../world/buckets.ts';
import { refusals } from './errors.ts';
import type { Preconditions } from './objects.ts';
import { bodyOf } from './uploads.ts';

/** The subject of a path: a bucket, an object in it, and for copies those that are made. */
export type PathPart = 'bucket' | 'name' | 'toBucket' | 'toName';

/** One request, taken apart. */
export interface StorageCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly query: URLSearchParams;
  /** `http://host:port`, as the client has written it. */
  readonly origin: string;
  /** A part of the path, decoded; empty where the path has none of that name. */
  readonly part: (name: PathPart) => string;
  /** Where the worker is that asks; undefined for whoever asks from this machine. */
  readonly zone: string | undefined;
}

/** An answer as JSON; null: an answer was given. */
export type Answer = object | null;

/**
 * The parts of a path that is Storage's, decoded; undefined for any other. The name of an object is one part, in the JSON
 * API because its slashes are written as %2F, by plain path because it is all the rest.
 */
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

/** Whether those are the bucket and the object of a plain path, as the XML API has it. */
export function isPlain(path: readonly string[]): boolean {
  return path.length === 2 && path[0] !== 'storage';
}

/** The preconditions on the object, as the parameters say them. */
export function preconditionsOf(query: URLSearchParams): Preconditions {
  return {
    ifGenerationMatch: query.get('ifGenerationMatch') ?? undefined,
    ifGenerationNotMatch: query.get('ifGenerationNotMatch') ?? undefined,
    ifMetagenerationMatch: query.get('ifMetagenerationMatch') ?? undefined,
    ifMetagenerationNotMatch: query.get('ifMetagenerationNotMatch') ?? undefined,
  };
}

/** A header that was sent once; undefined for any other. */
export function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  return typeof value === 'string' ? value : undefined;
}

/** `bytes=0-9`, `bytes=5-`, `bytes=-3`: the first and the last byte; undefined for all. Throws where there is none of them. */
export function readRange(text: string | undefined, size: number): readonly [from: number, to: number] | undefined {
  const [range, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(text ?? '') ?? [];
  if (range === undefined || (first === '' && last === '')) return undefined;
  const from = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const to = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (from >= size || to < from) throw refusals.badRange();
  return [from, to];
}

const pageMost = 1_000;

/** How many items a page may have. */
export function pageSize(query: URLSearchParams): number {
  const asked = Number(query.get('maxResults') ?? pageMost);
  return Number.isInteger(asked) && asked > 0 ? Math.min(asked, pageMost) : pageMost;
}

/** The name after which a page begins. */
export function pageStart(query: URLSearchParams): string {
  return Buffer.from(query.get('pageToken') ?? '', 'base64url').toString('utf8');
}

/** The token of the next page, where one follows that name. */
export function nextPage(last: string | undefined): object {
  return last === undefined ? {} : { nextPageToken: Buffer.from(last).toString('base64url') };
}

/** The body as a JSON object; an empty one is `{}`. Throws on anything else. */
export async function jsonOf(request: IncomingMessage): Promise<Readonly<Record<string, unknown>>> {
  return parseJson(await bodyOf(request));
}

/** The same of bytes that were read. */
export function parseJson(bytes: Buffer): Readonly<Record<string, unknown>> {
  const text = bytes.toString('utf8').trim();
  if (text === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  } catch {
    // Said below.
  }
  throw refusals.invalid('Parse Error');
}

/** Answers with JSON. */
export function reply(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    'content-type': 'application/json; charset=UTF-8',
    'content-length': Buffer.byteLength(text),
  });
  response.end(text);
}
