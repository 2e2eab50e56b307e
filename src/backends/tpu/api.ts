// Calls of the Cloud TPU REST API (v2; v2alpha1 for preemptible queued resources) and of Cloud Storage (bucket
// location), and the classification of their errors. No call rejects for a failure of the cloud or network: the answer
// is a value, a refusal, NOT_SENT, or NO_ANSWER. Sources: Google's discovery documents `tpu v2` and `tpu v2alpha1`,
// revision 20260127; messages in public reports of TPU projects; google.rpc.Code.

import { JobmanError, messageOf } from '../../app/errors.ts';
import type { Answer, BytesApi, GoogleApi, Listing } from '../../app/google.ts';
import { matchesShape, parseShape, splitByShape, type Shape, type ShapeValue } from '../../app/json.ts';
import type { BucketStatus } from '../../app/ports.ts';
import { readBucketLocation } from '../../catalogue/bucket-location.ts';
import type { CloudError, CloudErrorKind } from '../../core/model/job.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { second, type Duration } from '../../core/model/time.ts';
import { createHttpClient, type Environment } from '../../http/client.ts';
import { NoReply, summarizeBody } from '../../http/reply.ts';

export interface Location {
  readonly project: string;
  readonly zone: string;
}

/** v2alpha1 is needed only for `bestEffort`, the preemptible tier of queued resources. */
export type ApiVersion = 'v2' | 'v2alpha1';

/** `unreadable`: the names of resources whose entry has an unexpected form. They are not in `items`, and not absent. */
export interface TpuListing<T> extends Listing<T> {
  readonly unreadable: readonly string[];
}

/** The reason why a list may lack resources. */
export function unreachableText(zones: readonly string[]): string {
  return `the list is incomplete: Google could not reach ${zones.join(', ')}`;
}

/** `lab-v4 has an unexpected form`. */
export function unreadableText(names: readonly string[]): string {
  return `${names.map(resourceId).join(', ')} ${names.length === 1 ? 'has' : 'have'} an unexpected form`;
}

export type TpuApi = ReturnType<typeof createTpuApi>;

/** Create and delete return when the cloud accepts the request; the operation has the result. */
export function createTpuApi(client: GoogleApi) {
  const encode = encodeURIComponent;
  const pathOf = (location: Location, version: ApiVersion = 'v2') =>
    `${version}/projects/${encode(location.project)}/locations/${encode(location.zone)}`;

  /** An answer of another shape, or about another resource, counts as no answer, because jobman would act on it. */
  const unexpectedAnswer = (path: string): Answer<never> => ({
    ok: false,
    status: 'NO_ANSWER',
    error: unreachableError(`the answer to ${path} has an unexpected form`),
  });

  async function get<T extends { readonly name: string }>(path: string, id: string, form: Shape): Promise<Answer<T>> {
    const answer = await client.call<T>('GET', path);
    return !answer.ok || (matchesShape(answer.value, form) && resourceId(answer.value.name) === id)
      ? answer
      : unexpectedAnswer(`GET ${path}`);
  }

  async function list<T>(path: string, field: string, form: Shape): Promise<Answer<TpuListing<T>>> {
    // Indentation is a third of a reply, which has thousands of TPUs of a large zone.
    const answer = await client.list<unknown>(`${path}?prettyPrint=false`, field);
    if (!answer.ok) return answer;
    const { items, unreachable } = answer.value;
    if (!matchesShape(unreachable, ['string'])) return unexpectedAnswer(`GET ${path}`);
    const { matching, unreadable } = splitByShape(items, form);
    if (matching.length === 0 && unreadable.length > 0) return unexpectedAnswer(`GET ${path}`);
    return { ok: true, value: { items: matching as readonly T[], unreachable, unreadable } };
  }

  /** After an unreadable answer the change may still have been made. */
  async function change(method: 'POST' | 'DELETE', path: string, body?: object): Promise<Answer<Operation>> {
    const answer = await client.call<Operation>(method, path, body);
    return !answer.ok || matchesShape(answer.value, forms.operation) ? answer : unexpectedAnswer(`${method} ${path}`);
  }

  return {
    getNode: (location: Location, id: string) =>
      get<TpuNode>(`${pathOf(location)}/nodes/${encode(id)}`, id, forms.node),
    listNodes: (location: Location) => list<TpuNode>(`${pathOf(location)}/nodes`, 'nodes', forms.node),
    createNode: (location: Location, id: string, node: object) =>
      change('POST', `${pathOf(location)}/nodes?nodeId=${encode(id)}`, node),
    deleteNode: (location: Location, id: string) => change('DELETE', `${pathOf(location)}/nodes/${encode(id)}`),
    /** Only for single-host TPUs that cannot be preempted; the cloud refuses others. */
    stopNode: (location: Location, id: string) => change('POST', `${pathOf(location)}/nodes/${encode(id)}:stop`, {}),
    startNode: (location: Location, id: string) => change('POST', `${pathOf(location)}/nodes/${encode(id)}:start`, {}),
    getQueuedResource: (location: Location, id: string) =>
      get<QueuedResource>(`${pathOf(location)}/queuedResources/${encode(id)}`, id, forms.queuedResource),
    listQueuedResources: (location: Location) =>
      list<QueuedResource>(`${pathOf(location)}/queuedResources`, 'queuedResources', forms.queuedResource),
    /** A repetition with the same `requestId` (a UUID) within an hour returns the first operation. */
    createQueuedResource: (
      location: Location,
      id: string,
      body: object,
      { version, requestId }: { readonly version: ApiVersion; readonly requestId: string },
    ) =>
      change(
        'POST',
        `${pathOf(location, version)}/queuedResources?queuedResourceId=${encode(id)}&requestId=${encode(requestId)}`,
        body,
      ),
    deleteQueuedResource: (location: Location, id: string) =>
      change('DELETE', `${pathOf(location)}/queuedResources/${encode(id)}?force=true`),
    getOperation: (location: Location, id: string) =>
      get<Operation>(`${pathOf(location)}/operations/${encode(id)}`, id, forms.operation),
    async listOperations(location: Location): Promise<Answer<Listing<Operation>>> {
      const path = `${pathOf(location)}/operations`;
      const answer = await list<Operation>(path, 'operations', forms.operation);
      return answer.ok && answer.value.unreadable.length > 0 ? unexpectedAnswer(`GET ${path}`) : answer;
    },
    async getGuestAttributes(location: Location, id: string): Promise<Answer<readonly GuestAttributes[]>> {
      // One empty worker id means all workers, as in gcloud.
      const body = { workerIds: [''] };
      const path = `${pathOf(location)}/nodes/${encode(id)}:getGuestAttributes`;
      const answer = await client.call<{ guestAttributes?: readonly GuestAttributes[] }>('POST', path, body);
      if (!answer.ok) return answer;
      return matchesShape(answer.value, forms.guestAttributes)
        ? { ok: true, value: answer.value.guestAttributes ?? [] }
        : unexpectedAnswer(`POST ${path}`);
    },
  };
}

export function resourceId(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1);
}

const statusForm = { code: 'number', message: 'string', status: 'string' } as const satisfies Shape;
const stringMap = { '*': 'string' } as const satisfies Shape;
const nodeFields = {
  state: 'string',
  health: 'string',
  createTime: 'string',
  acceleratorType: 'string',
  acceleratorConfig: { type: 'string', topology: 'string' },
  schedulingConfig: { spot: 'boolean', preemptible: 'boolean', reserved: 'boolean' },
  metadata: stringMap,
  labels: stringMap,
  queuedResource: 'string',
  // One per virtual machine, in worker order; with several `networkConfigs`, as many per machine.
  networkEndpoints: [{ ipAddress: 'string', accessConfig: { externalIp: 'string' } }],
  networkConfigs: [{}],
} as const satisfies Shape;

const forms = {
  node: { ...nodeFields, name: 'string' },
  queuedResource: {
    name: 'string',
    createTime: 'string',
    // The tier: exactly one of the three is set.
    spot: {},
    bestEffort: {},
    guaranteed: { reserved: 'boolean' },
    tpu: { nodeSpec: [{ nodeId: 'string', node: nodeFields }] },
    // `stateInitiator` is the cause of the state: `USER` or `SERVICE`.
    state: { state: 'string', stateInitiator: 'string', failedData: { error: statusForm } },
  },
  operation: {
    name: 'string',
    done: 'boolean',
    error: statusForm,
    metadata: { createTime: 'string', target: 'string', verb: 'string' },
  },
  // Published by a worker; the key `ssh-ed25519` of the namespace `hostkeys` has its public host key.
  guestAttributes: {
    guestAttributes: [{ queryValue: { items: [{ namespace: 'string', key: 'string', value: 'string' }] } }],
  },
} as const satisfies Readonly<Record<string, Shape>>;

export type TpuNode = ShapeValue<typeof forms.node>;
export type QueuedResource = ShapeValue<typeof forms.queuedResource>;
export type Operation = ShapeValue<typeof forms.operation>;
export type GuestAttributes = NonNullable<ShapeValue<typeof forms.guestAttributes>['guestAttributes']>[number];

/** The error of the API (`code` is an HTTP status) or of an operation (`code` is a gRPC code). */
export type StatusBody = ShapeValue<typeof statusForm>;

/**
 * `createsOnUse`: the first use creates a missing bucket. `storageLayout` needs only the permission that gcsfuse needs:
 * https://cloud.google.com/storage/docs/json_api/v1/buckets/getStorageLayout
 */
export async function observeBucket(client: GoogleApi, bucket: string, createsOnUse: boolean): Promise<BucketStatus> {
  const answer = await client.call('GET', `storage/v1/b/${encodeURIComponent(bucket)}/storageLayout`);
  if (!answer.ok) {
    if (answer.status === 'NOT_FOUND') return createsOnUse ? { kind: 'unlocated' } : { kind: 'absent' };
    return { kind: 'unknown', reason: answer.error.raw };
  }
  const location = readBucketLocation(answer.value);
  return location === null ? { kind: 'unlocated' } : { kind: 'present', location };
}

interface CallResult<T> {
  readonly answer: Answer<T>;
  readonly refusedHeaders?: Headers;
  readonly size?: number;
}

interface CallRequest {
  readonly method: string;
  readonly path: string;
  readonly body?: object | undefined;
  /** The answer is bytes, and not JSON. */
  readonly isRaw?: boolean;
  readonly headers?: Headers | undefined;
  readonly timeoutMs?: Duration;
  readonly signal?: AbortSignal | undefined;
}

export type Headers = Readonly<Record<string, string>>;

/** The cloud accepts no available login. The message says how to log in. */
export class NoLoginError extends JobmanError {}

export interface Credentials {
  /** Empty if no login is needed. Rejects with NoLoginError, or JobmanError for a temporary problem. */
  headers(): Promise<Headers>;
  /** Reports refused headers, so that the next call uses others. Returns advice for the user. */
  invalidate(shown: Headers): string;
}

/** A slower cloud counts as not answering, from which nothing destructive follows. */
const answerTimeout: Duration = 15 * second;
/** A page of a zone's list has some hundred kilobytes. */
const maxAnswerBytes = 32 * 1024 * 1024;
const listTimeoutFactor = 4;
/** Limits of one list, against a server whose lists never end. */
const maxPages = 1_000;
const maxListLength = 128 * 1024 * 1024;

/** `endpoint` is called for each request, because the emulator may change its port. If it rejects: NOT_SENT. */
export function createGoogleApiClient(options: {
  readonly endpoint: () => Promise<string>;
  readonly credentials: Credentials;
  readonly env: Environment;
  readonly timeout?: Duration;
}): GoogleApi & BytesApi {
  const { endpoint, credentials, env, timeout = answerTimeout } = options;
  // No retries here: the core repeats requests at its own pace.
  const client = createHttpClient({ env, limits: { bytes: maxAnswerBytes } });

  /** Repeats a call once with a fresh login after a 401. The cloud refuses an expired login before it does anything. */
  async function callWithRenewedLogin<T extends object>(request: CallRequest): Promise<CallResult<T>> {
    const first = await callOnce<T>(request);
    if (first.refusedHeaders?.['authorization'] === undefined) return first;
    const fresh = await credentials.headers().catch(() => undefined);
    if (fresh === undefined || fresh['authorization'] === first.refusedHeaders['authorization']) return first;
    return callOnce<T>(request);
  }

  async function callOnce<T extends object>(request: CallRequest): Promise<CallResult<T>> {
    const { method, path, body, timeoutMs = timeout, signal } = request;
    const isBytes = body instanceof Uint8Array;
    const type = isBytes ? 'application/octet-stream' : 'application/json';
    let url: string;
    let headers: Headers;
    try {
      url = await endpoint();
      headers = await credentials.headers();
    } catch (error) {
      const message = messageOf(error);
      if (!(error instanceof NoLoginError)) return { answer: unreachableAnswer('NOT_SENT', message) };
      return { answer: { ok: false, status: 'NOT_SENT', error: noLoginCloudError(message) } };
    }
    const reply = await client.request({
      url,
      path: `/${path}`,
      method,
      headers: { ...headers, ...request.headers, ...(body === undefined ? {} : { 'content-type': type }) },
      ...(body === undefined ? {} : { body: isBytes ? body : JSON.stringify(body) }),
      signal,
      limits: { connect: timeoutMs, answer: timeoutMs, total: timeoutMs },
    });
    if (reply instanceof NoReply) {
      const status = reply.wasSent ? 'NO_ANSWER' : 'NOT_SENT';
      return { answer: unreachableAnswer(status, `${hostOf(url)} did not answer: ${reply.message}`) };
    }
    const { status } = reply;
    if (request.isRaw === true && status < 300) return { answer: { ok: true, value: reply.bytes as object as T } };
    const text = reply.bytes.toString('utf8');
    // Every reply of the API is a JSON object, even an empty list; an empty body is a truncated reply.
    const value = parseShape(text, {});
    // Google's API never redirects; a login page of the network does.
    if (status >= 300 && status < 400) {
      return {
        answer: unreachableAnswer(
          'NO_ANSWER',
          `${hostOf(url)} answered with a redirect (HTTP ${status}), which this API never sends`,
        ),
      };
    }
    if (status < 300) {
      if (value !== undefined) return { answer: { ok: true, value: value as T }, size: text.length };
      const page = `${hostOf(url)} answered with something that is not this API (HTTP ${status})`;
      return { answer: unreachableAnswer('NO_ANSWER', page) };
    }
    if (status === 401) {
      const error = noLoginCloudError(credentials.invalidate(headers));
      return { answer: { ok: false, status: 'UNAUTHENTICATED', error }, refusedHeaders: headers };
    }
    return { answer: errorAnswer(status, value, text, url) };
  }

  return {
    call: async (method, path, body, signal) =>
      (await callWithRenewedLogin<never>({ method, path, body, signal })).answer,
    bytes: async (method, path, more) =>
      (await callWithRenewedLogin<Buffer>({ method, path, headers: more, isRaw: true })).answer,
    list: <T>(path: string, field: string) =>
      readPages<T>(path, field, timeout, (pagePath, timeoutMs) =>
        callWithRenewedLogin({ method: 'GET', path: pagePath, timeoutMs }),
      ),
  };
}

/** All pages of a list, within the limits of one list. */
async function readPages<T>(
  path: string,
  field: string,
  timeout: Duration,
  call: (path: string, timeoutMs: Duration) => Promise<CallResult<Readonly<Record<string, unknown>>>>,
): Promise<Answer<Listing<T>>> {
  const items: T[] = [];
  const unreachable: string[] = [];
  const tokens = new Set<string>();
  let token = '';
  let size = 0;
  const deadline = performance.now() + listTimeoutFactor * timeout;
  for (let pages = 0; pages < maxPages; pages += 1) {
    const query = token === '' ? '' : `${path.includes('?') ? '&' : '?'}pageToken=${encodeURIComponent(token)}`;
    const remaining = deadline - performance.now();
    if (remaining <= 0 || size > maxListLength) break;
    const { answer: page, size: length = 0 } = await call(`${path}${query}`, Math.min(timeout, remaining));
    if (!page.ok && page.status === 'NO_ANSWER' && remaining < timeout) break;
    if (!page.ok) return page;
    size += length;
    const { [field]: found = [], unreachable: zones = [], nextPageToken = '' } = page.value;
    if (!Array.isArray(found) || !Array.isArray(zones) || typeof nextPageToken !== 'string') {
      return unreachableAnswer('NO_ANSWER', `the list ${path} has a page that is not a list`);
    }
    // Not push(...): each of a hundred thousand entries would become an argument.
    for (const item of found as T[]) items.push(item);
    for (const zone of zones as string[]) unreachable.push(zone);
    if (nextPageToken === '') return { ok: true, value: { items, unreachable } };
    if (tokens.has(nextPageToken)) break;
    tokens.add(nextPageToken);
    token = nextPageToken;
  }
  return unreachableAnswer('NO_ANSWER', `the list ${path} does not end`);
}

/** A refusal in the API's own shape. Another body comes from a proxy and says nothing about the resource. */
function errorAnswer(httpStatus: number, value: object | undefined, text: string, url: string): Answer<never> {
  const body = (value as { readonly error?: StatusBody } | undefined)?.error;
  if (!matchesShape(body, statusForm)) {
    // The 404 of a proxy or front end must not be read as an absent node.
    const page = `${hostOf(url)} answered HTTP ${httpStatus}: ${summarizeBody(text)}`;
    if (httpStatus >= 500) return unreachableAnswer('NO_ANSWER', page);
    return {
      ok: false,
      status: `HTTP ${httpStatus}`,
      error: { ...classifyError({ code: httpStatus, message: page }), raw: page },
    };
  }
  const failure: StatusBody = { code: httpStatus, ...body };
  return { ok: false, status: statusName(failure), error: classifyError(failure) };
}

function unreachableAnswer(status: 'NOT_SENT' | 'NO_ANSWER', raw: string): Answer<never> {
  return { ok: false, status, error: unreachableError(raw) };
}

function hostOf(url: string): string {
  return URL.parse(url)?.host ?? url;
}

/** gRPC codes and HTTP statuses; the two ranges do not overlap. */
const statusNames: Readonly<Record<number, string>> = {
  1: 'CANCELLED',
  2: 'UNKNOWN',
  3: 'INVALID_ARGUMENT',
  4: 'DEADLINE_EXCEEDED',
  5: 'NOT_FOUND',
  6: 'ALREADY_EXISTS',
  7: 'PERMISSION_DENIED',
  8: 'RESOURCE_EXHAUSTED',
  9: 'FAILED_PRECONDITION',
  10: 'ABORTED',
  11: 'OUT_OF_RANGE',
  12: 'UNIMPLEMENTED',
  13: 'INTERNAL',
  14: 'UNAVAILABLE',
  16: 'UNAUTHENTICATED',
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ALREADY_EXISTS',
  412: 'FAILED_PRECONDITION',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  501: 'UNIMPLEMENTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};

export function statusName(body: StatusBody): string {
  if (body.status !== undefined && body.status !== '') return body.status;
  const code = body.code ?? 0;
  return statusNames[code] ?? `code ${code}`;
}

interface ErrorRule {
  readonly kind: CloudErrorKind;
  readonly statuses?: readonly string[];
  readonly pattern?: RegExp;
}

const exhaustedStatuses = ['RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION'];

/** The first match wins. Messages come before statuses, because one status (8, 429) has three different causes. */
const errorRules: readonly ErrorRule[] = [
  // "There is no more capacity in the zone", "Insufficient reserved capacity".
  { kind: 'stockout', pattern: /no more capacity|insufficient .*capacity|stockout|enough (resources|capacity)/i },
  // Too many calls per minute; these messages contain "quota" too.
  { kind: 'rate_limited', statuses: exhaustedStatuses, pattern: /requests? per (minute|second)|rate limit/i },
  // The project's own limit: waiting helps only if the project releases something.
  { kind: 'quota', statuses: exhaustedStatuses, pattern: /quota|IN_USE_ADDRESSES|\blimit\b/i },
  { kind: 'stockout', statuses: ['RESOURCE_EXHAUSTED'] },
  // A 403 about the "quota project" of a login is not a quota error.
  { kind: 'permission', statuses: ['PERMISSION_DENIED'] },
  // An expired or missing login says nothing about the resource.
  { kind: 'unreachable', statuses: ['UNAUTHENTICATED', 'UNAVAILABLE', 'DEADLINE_EXCEEDED'] },
  { kind: 'not_found', statuses: ['NOT_FOUND'] },
  // A node preempted during its creation ends the operation with code 3, although the request was valid.
  { kind: 'internal', statuses: ['INVALID_ARGUMENT'], pattern: /while in state/i },
  { kind: 'invalid', statuses: ['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'ALREADY_EXISTS'] },
  // Includes FAILED_PRECONDITION: the state may change, so the request may be repeated.
  { kind: 'internal' },
];

const errorMessages: Readonly<Record<CloudErrorKind, string>> = {
  stockout: 'no capacity in the zone now',
  quota: 'the quota of your project is used up; preempted nodes and suspended queued resources count too',
  rate_limited: 'too many API requests in a minute',
  permission: 'the permission is missing, or your project may not use the zone',
  invalid: 'the cloud rejects the request as invalid',
  not_found: 'the resource does not exist in the cloud',
  internal: 'the cloud had an internal error',
  unreachable: 'the cloud did not answer',
};

export function classifyError(body: StatusBody): CloudError {
  const name = statusName(body);
  const message = body.message ?? '';
  const rule = errorRules.find(
    (one) =>
      (one.statuses === undefined || one.statuses.includes(name)) &&
      (one.pattern === undefined || one.pattern.test(message)),
  );
  const kind = rule?.kind ?? 'internal';
  const disabledService = kind === 'permission' ? disabledServiceOf(body) : undefined;
  const raw = message === '' ? name : `${name}: ${message}`;
  return { kind, message: errorMessages[kind], raw, ...omitUndefined({ disabledService }) };
}

const errorInfoForm = { reason: 'string', metadata: { service: 'string' } } as const satisfies Shape;

/** The details are of many forms, so they are not part of `StatusBody`. */
function disabledServiceOf(body: StatusBody & { readonly details?: unknown }): string | undefined {
  const details: readonly unknown[] = Array.isArray(body.details) ? body.details : [];
  return details
    .filter((one): one is ShapeValue<typeof errorInfoForm> => matchesShape(one, errorInfoForm))
    .find(({ reason }) => reason === 'SERVICE_DISABLED')?.metadata?.service;
}

function unreachableError(message: string): CloudError {
  return { kind: 'unreachable', message, raw: message };
}

function noLoginCloudError(message: string): CloudError {
  return { ...unreachableError(message), noLogin: true };
}

/** True if the cloud reports a missing resource or zone: nothing is left to delete there. */
export function isNotFound({ status, error }: { readonly status: string; readonly error: CloudError }): boolean {
  return status === 'NOT_FOUND' || (error.kind === 'invalid' && /requested zone .* is not supported/i.test(error.raw));
}
