/**
 * Cloud Storage and Cloud Monitoring on loopback, as their documentation shows the answers: lists in pages, points of a
 * project newest first, errors in each API's own form. It answers from the data of the test.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { day } from '../../src/core/model/time.ts';
import type { Scope } from '../support/world.ts';

export interface FakeBucket {
  readonly location: string;
  readonly storageClass?: string;
  readonly timeCreated?: string;
  readonly locationType?: string;
  readonly customPlacementConfig?: object;
  /** Bytes at the end of each day, newest first; null for a day without points. */
  readonly bytes?: readonly (number | null)[];
  readonly objectCount?: readonly (number | null)[];
  /** Sizes by name. */
  readonly objects?: Readonly<Record<string, number>>;
}

type Refusal = readonly [status: number, body: object];

export interface FakeStorage {
  /** By project. */
  readonly projects: Readonly<Record<string, Readonly<Record<string, FakeBucket>>>>;
  /** By a part of the path and query of a request. */
  readonly refusals?: Readonly<Record<string, Refusal>>;
  readonly pageSize?: number;
  /** Replaces parts of the entries in lists, as no real service would answer. */
  readonly corrupt?: (entry: object) => unknown;
  /** Called before each answer. */
  readonly beforeAnswer?: (path: string) => Promise<void> | void;
}

export const updated = '2026-11-20T10:00:00.000Z';

/** As Cloud Storage refuses. */
export function storageRefusal(status: number, reason: string, message: string): Refusal {
  return [status, { error: { code: status, message, errors: [{ message, domain: 'global', reason }] } }];
}

/** As Cloud Monitoring refuses. */
export function monitoringRefusal(status: number, name: string, message: string, reason: string): Refusal {
  const details = [{ '@type': 'type.googleapis.com/google.rpc.ErrorInfo', reason, domain: 'googleapis.com' }];
  return [status, { error: { code: status, message, status: name, details } }];
}

export async function openStorageServer(
  scope: Scope,
  storage: FakeStorage,
): Promise<{ readonly url: string; readonly requests: readonly string[] }> {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      const path = request.url ?? '';
      requests.push(path);
      await storage.beforeAnswer?.(path);
      const [status, body] = answer(storage, new URL(path, 'http://x'), path);
      response.writeHead(status, { 'content-type': 'application/json; charset=UTF-8' }).end(JSON.stringify(body));
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  scope.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests };
}

function answer(
  { projects, refusals = {}, pageSize = 1_000, corrupt = (entry) => entry }: FakeStorage,
  url: URL,
  path: string,
): Refusal {
  const refused = Object.entries(refusals).find(([part]) => path.includes(part));
  if (refused !== undefined) return refused[1];
  const { pathname, searchParams: query } = url;
  const from = Number(query.get('pageToken') ?? 0);
  const page = (name: string, items: readonly object[], size = pageSize): Refusal => {
    const next = from + size < items.length ? { nextPageToken: String(from + size) } : {};
    return [200, { ...next, ...(items.length === 0 ? {} : { [name]: items.slice(from, from + size).map(corrupt) }) }];
  };
  const [, project] = /^\/v3\/projects\/([^/]+)\/timeSeries$/.exec(pathname) ?? [];
  if (project !== undefined) return page('timeSeries', seriesOf(projects[project] ?? {}, query), pageSize);
  if (pathname === '/storage/v1/b') {
    const buckets = projects[query.get('project') ?? ''];
    if (buckets === undefined) return storageRefusal(404, 'notFound', 'The requested project was not found.');
    return page(
      'items',
      Object.entries(buckets).map(([name, { location, storageClass = 'STANDARD', timeCreated, ...more }]) => ({
        name,
        location,
        storageClass,
        timeCreated: timeCreated ?? '2024-01-01T00:00:00.000Z',
        locationType: more.locationType ?? 'region',
        ...(more.customPlacementConfig && { customPlacementConfig: more.customPlacementConfig }),
      })),
    );
  }
  const [, bucket = ''] = /^\/storage\/v1\/b\/([^/]+)\/o$/.exec(pathname) ?? [];
  const found = Object.values(projects).find((buckets) => Object.hasOwn(buckets, bucket))?.[bucket];
  if (found === undefined) return storageRefusal(404, 'notFound', 'The specified bucket does not exist.');
  const prefix = query.get('prefix') ?? '';
  const objects = Object.entries(found.objects ?? {}).filter(([name]) => name.startsWith(prefix));
  return page(
    'items',
    objects.map(([name, size]) => ({ name, size: String(size), updated })),
  );
}

/** Aligned to days that end at the end of the interval, one series for each bucket, as the aggregation asks. */
function seriesOf(buckets: Readonly<Record<string, FakeBucket>>, query: URLSearchParams): readonly object[] {
  const isBytes = (query.get('filter') ?? '').includes('/total_bytes"');
  const end = Date.parse(query.get('interval.endTime') ?? '');
  const days = Math.floor((end - Date.parse(query.get('interval.startTime') ?? '')) / day);
  return Object.entries(buckets).flatMap(([name, { location, bytes = [], objectCount = [] }]) => {
    const points = (isBytes ? bytes : objectCount).slice(0, days).flatMap((value, age) => {
      if (value === null) return [];
      const endTime = new Date(end - age * day).toISOString();
      return [{ interval: { endTime }, value: isBytes ? { doubleValue: value } : { int64Value: String(value) } }];
    });
    const labels = { bucket_name: name, location: location.toLowerCase() };
    return points.length === 0 ? [] : [{ resource: { labels }, points }];
  });
}
