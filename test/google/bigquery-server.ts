/**
 * A small server that follows the jobs methods of the BigQuery REST API v2. It runs no SQL: it records the query and its
 * parameters, and answers prepared rows. https://cloud.google.com/bigquery/docs/reference/rest/v2/jobs
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface QueryRequest {
  readonly project: string;
  readonly query: string;
  /** By name: the type and the value. */
  readonly parameters: Readonly<Record<string, readonly [type: string, value: string]>>;
  readonly maximumBytesBilled: string;
}

/** An error as the service shapes it. */
export interface Fault {
  readonly status: number;
  readonly reason: string;
  readonly message: string;
}

export interface PreparedResult {
  /** By field: the type and the cells, as texts or null. */
  readonly fields: readonly (readonly [name: string, type: string])[];
  readonly rows: readonly (readonly (string | null)[])[];
}

export interface BigQueryServer {
  readonly url: string;
  readonly queries: QueryRequest[];
  /** `METHOD path?query` of each request, in order. */
  readonly requests: string[];
  readonly authorizations: (string | undefined)[];
  /** The answer to a query. */
  answer: (request: QueryRequest) => PreparedResult | Fault;
  /** Faults of the next requests of any kind, in order. `lost-answer`: the request is served, its answer is not sent. */
  readonly faults: (Fault | 'hang-up' | 'lost-answer')[];
  /** Of the jobs. https://cloud.google.com/bigquery/docs/locations: requests for a job outside of US and EU name it. */
  location: string;
  /** Rows of one page of an answer. */
  pageSize: number;
  /** Answers `jobComplete: false` this many times for each query. */
  unfinished: number;
  close(): Promise<void>;
}

interface StoredJob {
  readonly project: string;
  readonly result: PreparedResult;
  left: number;
}

const bytes = { totalBytesProcessed: '3500000', totalBytesBilled: '10485760' };

/** The fields of `jobman`'s query for billed rows. */
const usageFields = [
  ['usageDay', 'STRING'],
  ['serviceName', 'STRING'],
  ['skuName', 'STRING'],
  ['projectId', 'STRING'],
  ['installation', 'STRING'],
  ['job', 'STRING'],
  ['currencyCode', 'STRING'],
  ['cost', 'FLOAT'],
  ['credits', 'FLOAT'],
  ['netUsd', 'FLOAT'],
] as const;

export const isCoverage = (query: string): boolean => query.includes('MAX(export_time)');

/** The billed rows of an export. */
export function billedRows(rows: PreparedResult['rows']): PreparedResult {
  return { fields: usageFields, rows };
}

/** The first usage in an export, and the time of its newest row. In milliseconds. */
export function coverageOf(firstUsage: number, exported: number): PreparedResult {
  return {
    fields: [
      ['firstUsage', 'INTEGER'],
      ['exported', 'INTEGER'],
    ],
    rows: [[String(firstUsage), String(exported)]],
  };
}

export async function openBigQueryServer(answer: BigQueryServer['answer']): Promise<BigQueryServer> {
  const jobs = new Map<string, StoredJob>();
  const server = createServer((request, response) => void respond(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const state: BigQueryServer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    queries: [],
    requests: [],
    authorizations: [],
    answer,
    faults: [],
    location: 'US',
    pageSize: 1_000,
    unfinished: 0,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '', state.url);
    state.requests.push(`${request.method} ${url.pathname}${url.search}`);
    state.authorizations.push(request.headers.authorization);
    let text = '';
    for await (const part of request) text += String(part);
    const fault = state.faults.shift();
    if (fault === 'hang-up') return void request.socket.destroy();
    if (fault === 'lost-answer') response.end = (() => request.socket.destroy()) as unknown as typeof response.end;
    else if (fault !== undefined) return fail(response, fault);
    const [, project = '', call = ''] = /^\/bigquery\/v2\/projects\/([^/]+)\/(.+)$/.exec(url.pathname) ?? [];
    if (request.method === 'POST' && call === 'jobs') return insert(response, decodeURIComponent(project), text);
    const [, kind, id = ''] = /^(jobs|queries)\/([^/]+)$/.exec(call) ?? [];
    const job = jobs.get(decodeURIComponent(id));
    const isLocated = /^(?:US|EU)$/.test(state.location) || url.searchParams.get('location') === state.location;
    if (kind === undefined || job === undefined || job.project !== decodeURIComponent(project) || !isLocated)
      return fail(response, { status: 404, reason: 'notFound', message: `Not found: Job ${project}:${id}` });
    if (kind === 'jobs') return send(response, 200, resource(id, project, state.location));
    results(response, job, url.searchParams);
  }

  function insert(response: ServerResponse, project: string, text: string): void {
    const body = JSON.parse(text) as {
      readonly jobReference: { readonly jobId: string };
      readonly configuration: {
        readonly query: {
          readonly query: string;
          readonly useLegacySql: boolean;
          readonly maximumBytesBilled: string;
          readonly queryParameters: readonly {
            readonly name: string;
            readonly parameterType: { readonly type: string };
            readonly parameterValue: { readonly value: string };
          }[];
        };
      };
    };
    const { query, useLegacySql, maximumBytesBilled, queryParameters } = body.configuration.query;
    const { jobId } = body.jobReference;
    if (useLegacySql) return fail(response, { status: 400, reason: 'invalidQuery', message: 'Legacy SQL' });
    if (jobs.has(jobId))
      return fail(response, { status: 409, reason: 'duplicate', message: `Already Exists: Job ${project}:${jobId}` });
    const parameters = Object.fromEntries(
      queryParameters.map(({ name, parameterType, parameterValue }) => [
        name,
        [parameterType.type, parameterValue.value] as const,
      ]),
    );
    const request = { project, query, parameters, maximumBytesBilled };
    state.queries.push(request);
    const result = state.answer(request);
    if ('status' in result) return fail(response, result);
    jobs.set(jobId, { project, result, left: state.unfinished });
    send(response, 200, resource(jobId, project, state.location));
  }

  function results(response: ServerResponse, job: StoredJob, parameters: URLSearchParams): void {
    if (job.left > 0) {
      job.left -= 1;
      return send(response, 200, { jobComplete: false });
    }
    const start = Number(parameters.get('pageToken') ?? 0);
    const end = start + state.pageSize;
    const { fields, rows } = job.result;
    send(response, 200, {
      jobComplete: true,
      schema: { fields: fields.map(([name, type]) => ({ name, type, mode: 'NULLABLE' })) },
      totalRows: String(rows.length),
      ...bytes,
      ...(end < rows.length ? { pageToken: String(end) } : {}),
      // The service omits the rows of an empty answer.
      ...(rows.length === 0 ? {} : { rows: rows.slice(start, end).map((cells) => ({ f: cells.map((v) => ({ v })) })) }),
    });
  }
  return state;
}

function resource(jobId: string, projectId: string, location: string): object {
  return {
    kind: 'bigquery#job',
    jobReference: { projectId, jobId, location },
    status: { state: 'DONE' },
    statistics: { query: { ...bytes, cacheHit: false } },
  };
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=UTF-8' });
  response.end(JSON.stringify(body));
}

function fail(response: ServerResponse, { status, reason, message }: Fault): void {
  send(response, status, {
    error: { code: status, message, errors: [{ message, domain: 'global', reason }], status: 'ERROR' },
  });
}
