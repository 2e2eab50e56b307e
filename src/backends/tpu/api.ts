// The part of the Cloud TPU REST API (v2, and v2alpha1 for the older preemptible tier in the queue) that jobman calls, the one
// question that jobman has for Cloud Storage (in which location a bucket is), how a call is made, and what its errors mean.
// Nothing here throws because of the cloud or the network. A call has four outcomes: a value, a refusal, "it was never sent",
// and "nobody knows whether it happened".
// Field names and paths: Google's discovery documents `tpu v2` and `tpu v2alpha1`, revision 20260127. Facts about errors:
// messages in public reports of projects that run TPUs, and the codes of google.rpc.Code.

import { JobmanError, textOf } from '../../app/errors.ts';
import { fits, type Form } from '../../app/json.ts';
import type { BucketLook } from '../../app/ports.ts';
import type { CloudError, CloudErrorKind } from '../../core/job.ts';
import { second, type Duration } from '../../core/time.ts';
import { createHttpClient, type Environment } from '../../http/client.ts';
import { NoReply } from '../../http/reply.ts';

export interface TpuNode {
  /** `projects/P/locations/Z/nodes/N`. */
  readonly name: string;
  readonly state?: string;
  readonly health?: string;
  readonly createTime?: string;
  readonly acceleratorType?: string;
  readonly acceleratorConfig?: { readonly type?: string; readonly topology?: string };
  readonly schedulingConfig?: { readonly spot?: boolean; readonly preemptible?: boolean; readonly reserved?: boolean };
  readonly metadata?: Readonly<Record<string, string>>;
  readonly labels?: Readonly<Record<string, string>>;
  /** Full name of the queued resource that made it. */
  readonly queuedResource?: string;
  /** One for each virtual machine, in worker order; with several `networkConfigs`, as many for each. */
  readonly networkEndpoints?: readonly {
    readonly ipAddress?: string;
    readonly accessConfig?: { readonly externalIp?: string };
  }[];
  readonly networkConfigs?: readonly object[];
}

export interface QueuedResource {
  /** `projects/P/locations/Z/queuedResources/Q`. */
  readonly name: string;
  readonly createTime?: string;
  /** The tier: one of these three is there. */
  readonly spot?: object;
  readonly bestEffort?: object;
  readonly guaranteed?: { readonly reserved?: boolean };
  readonly tpu?: { readonly nodeSpec?: readonly { readonly nodeId?: string; readonly node?: Partial<TpuNode> }[] };
  readonly state?: {
    readonly state?: string;
    /** `USER` or `SERVICE`: who brought it into this state. */
    readonly stateInitiator?: string;
    readonly failedData?: { readonly error?: StatusBody };
  };
}

export interface Operation {
  readonly name: string;
  readonly done?: boolean;
  readonly error?: StatusBody;
  readonly metadata?: { readonly createTime?: string; readonly target?: string; readonly verb?: string };
}

/** A worker's data about itself, by namespace and key; `hostkeys/ssh-ed25519` is its public host key. */
export interface GuestAttributes {
  readonly queryValue?: {
    readonly items?: readonly { readonly namespace?: string; readonly key?: string; readonly value?: string }[];
  };
}

/** The error body of the API (`code` is an HTTP status), or of an operation (`code` is a gRPC number). */
export interface StatusBody {
  readonly code?: number;
  readonly message?: string;
  readonly status?: string;
}

export interface Place {
  readonly project: string;
  readonly zone: string;
}

/** v2 serves the general tiers; `bestEffort`, the preemptible tier of the queue, exists in v2alpha1 only. */
export type ApiVersion = 'v2' | 'v2alpha1';

export type TpuApi = ReturnType<typeof createTpuApi>;

/** Create and delete answer as soon as the cloud has taken the order; how it ends is in the operation, and to be observed. */
export function createTpuApi(caller: Caller) {
  const word = encodeURIComponent;
  const at = (place: Place, version: ApiVersion = 'v2') =>
    `${version}/projects/${word(place.project)}/locations/${word(place.zone)}`;

  /** A reply of another form is no answer, and so is one about something else than was asked for: what is read from it would be acted on. */
  const strange = (path: string): Answer<never> => ({
    ok: false,
    status: 'NO_ANSWER',
    error: unanswered(`${path} was answered with something else`),
  });

  async function get<T extends { readonly name: string }>(path: string, id: string, form: Form): Promise<Answer<T>> {
    const answer = await caller.call<T>('GET', path);
    return !answer.ok || (fits(answer.value, form) && idOf(answer.value.name) === id) ? answer : strange(`GET ${path}`);
  }

  async function list<T>(path: string, field: string, form: Form): Promise<Answer<Listing<T>>> {
    const answer = await caller.list<T>(path, field);
    return !answer.ok || fits(answer.value, { items: [form], unreachable: ['string'] })
      ? answer
      : strange(`GET ${path}`);
  }

  /** If the answer cannot be read, the change may have been made. */
  async function order(method: 'POST' | 'DELETE', path: string, body?: object): Promise<Answer<Operation>> {
    const answer = await caller.call<Operation>(method, path, body);
    return !answer.ok || fits(answer.value, forms.operation) ? answer : strange(`${method} ${path}`);
  }

  return {
    getNode: (place: Place, id: string) => get<TpuNode>(`${at(place)}/nodes/${word(id)}`, id, forms.node),
    listNodes: (place: Place) => list<TpuNode>(`${at(place)}/nodes`, 'nodes', forms.node),
    createNode: (place: Place, id: string, node: object) =>
      order('POST', `${at(place)}/nodes?nodeId=${word(id)}`, node),
    deleteNode: (place: Place, id: string) => order('DELETE', `${at(place)}/nodes/${word(id)}`),
    /** Machines of a single host that cannot be preempted; the others are refused. */
    stopNode: (place: Place, id: string) => order('POST', `${at(place)}/nodes/${word(id)}:stop`, {}),
    startNode: (place: Place, id: string) => order('POST', `${at(place)}/nodes/${word(id)}:start`, {}),
    getQueuedResource: (place: Place, id: string) =>
      get<QueuedResource>(`${at(place)}/queuedResources/${word(id)}`, id, forms.queuedResource),
    listQueuedResources: (place: Place) =>
      list<QueuedResource>(`${at(place)}/queuedResources`, 'queuedResources', forms.queuedResource),
    /** The same `requestId` (a UUID) again within the hour is answered with the first one's operation. */
    createQueuedResource: (
      place: Place,
      id: string,
      body: object,
      { version, requestId }: { readonly version: ApiVersion; readonly requestId: string },
    ) =>
      order(
        'POST',
        `${at(place, version)}/queuedResources?queuedResourceId=${word(id)}&requestId=${word(requestId)}`,
        body,
      ),
    deleteQueuedResource: (place: Place, id: string) =>
      order('DELETE', `${at(place)}/queuedResources/${word(id)}?force=true`),
    getOperation: (place: Place, id: string) =>
      get<Operation>(`${at(place)}/operations/${word(id)}`, id, forms.operation),
    listOperations: (place: Place) => list<Operation>(`${at(place)}/operations`, 'operations', forms.operation),
    /** Of every worker, in order. */
    async getGuestAttributes(place: Place, id: string): Promise<Answer<readonly GuestAttributes[]>> {
      // One empty worker id asks for all of them, as gcloud does.
      const body = { workerIds: [''] };
      const path = `${at(place)}/nodes/${word(id)}:getGuestAttributes`;
      const answer = await caller.call<{ guestAttributes?: readonly GuestAttributes[] }>('POST', path, body);
      if (!answer.ok) return answer;
      return fits(answer.value, forms.guestAttributes)
        ? { ok: true, value: answer.value.guestAttributes ?? [] }
        : strange(`POST ${path}`);
    },
  };
}

/** The last part of a full resource name: its id within the place. */
export function idOf(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1);
}

const failureForm: Form = { code: 'number', message: 'string', status: 'string' };
const texts: Form = { '*': 'string' };
const node = {
  state: 'string',
  health: 'string',
  createTime: 'string',
  acceleratorType: 'string',
  acceleratorConfig: { type: 'string', topology: 'string' },
  schedulingConfig: { spot: 'boolean', preemptible: 'boolean', reserved: 'boolean' },
  metadata: texts,
  labels: texts,
  queuedResource: 'string',
  networkEndpoints: [{ ipAddress: 'string', accessConfig: { externalIp: 'string' } }],
  networkConfigs: [{}],
} as const satisfies Form;

const forms = {
  node: { ...node, name: 'string' },
  queuedResource: {
    name: 'string',
    createTime: 'string',
    spot: {},
    bestEffort: {},
    guaranteed: { reserved: 'boolean' },
    tpu: { nodeSpec: [{ nodeId: 'string', node }] },
    state: { state: 'string', stateInitiator: 'string', failedData: { error: failureForm } },
  },
  operation: {
    name: 'string',
    done: 'boolean',
    error: failureForm,
    metadata: { createTime: 'string', target: 'string', verb: 'string' },
  },
  guestAttributes: {
    guestAttributes: [{ queryValue: { items: [{ namespace: 'string', key: 'string', value: 'string' }] } }],
  },
} as const satisfies Readonly<Record<string, Form>>;

interface Layout {
  readonly location?: unknown;
  readonly locationType?: unknown;
  readonly customPlacementConfig?: { readonly dataLocations?: unknown };
}

/**
 * The location of a bucket. With `makesByUse` that cloud makes a bucket when it is first used, so a missing one is no error.
 * `storageLayout` needs only the right to list the bucket, which gcsfuse needs anyway.
 * https://cloud.google.com/storage/docs/json_api/v1/buckets/getStorageLayout
 */
export async function lookAtBucket(caller: Caller, bucket: string, makesByUse: boolean): Promise<BucketLook> {
  const answer = await caller.call<Layout>('GET', `storage/v1/b/${encodeURIComponent(bucket)}/storageLayout`);
  if (!answer.ok) {
    if (answer.status === 'NOT_FOUND') return makesByUse ? { kind: 'unplaced' } : { kind: 'absent' };
    return { kind: 'unknown', why: answer.error.raw };
  }
  const { location, locationType, customPlacementConfig } = answer.value;
  // The built-in cloud has buckets that nobody has placed yet.
  if (typeof location !== 'string' || location === '') return { kind: 'unplaced' };
  const parts: unknown = customPlacementConfig?.dataLocations ?? [];
  return {
    kind: 'there',
    place: {
      location: location.toLowerCase(),
      kind: typeof locationType === 'string' ? locationType : null,
      parts: Array.isArray(parts)
        ? parts.filter((part) => typeof part === 'string').map((part) => part.toLowerCase())
        : [],
    },
  };
}

// A call of one of Google's APIs.

/**
 * The outcome of a call. `status` is the canonical name of the cloud's error (`NOT_FOUND`, `ALREADY_EXISTS`).
 * `NOT_SENT`: the request cannot have reached the cloud. `NO_ANSWER`: it may have, and may have taken effect.
 */
export type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly status: string; readonly error: CloudError };

interface Try<T> {
  readonly answer: Answer<T>;
  readonly refused?: Headers;
  readonly size?: number;
}

interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: object;
  readonly timeoutMs?: Duration;
}

export interface Listing<T> {
  readonly items: readonly T[];
  readonly unreachable: readonly string[];
}

export type Headers = Readonly<Record<string, string>>;

/** There is no login that the cloud accepts; the message says how to log in. */
export class NoLogin extends JobmanError {}

export interface Credentials {
  /**
   * The headers that prove it; none where nothing has to be proved. Rejects with NoLogin where there is no login, and with
   * another JobmanError where it cannot be had now.
   */
  headers(): Promise<Headers>;
  /** The cloud did not accept these: the next call must not be made with the same. Answers what to do, for people. */
  refused(shown: Headers): string;
}

export interface Caller {
  call<T extends object>(method: 'GET' | 'POST' | 'DELETE', path: string, body?: object): Promise<Answer<T>>;
  /** All pages of a list: half a list would read as "absent" what is only on the next page. */
  list<T>(path: string, field: string): Promise<Answer<Listing<T>>>;
}

/** Longest wait for one answer. A slower cloud counts as one that did not answer: nothing destructive follows. */
const answerWithin: Duration = 15 * second;
/** A page of a zone's list has some hundred kilobytes. */
const answerMost = 32 * 1024 * 1024;
const listFactor = 4;
/** A list with more pages, or with more characters in all of them, comes from a server that never ends its lists. */
const pagesMost = 1_000;
const listMost = 128 * 1024 * 1024;

/**
 * `endpoint` gives `https://tpu.googleapis.com`, or a server that speaks the same API; it is asked for every call, because
 * a server of our own may come back at another port. Both `endpoint` and `credentials` may reject: then nothing was sent.
 */
export function createCaller(options: {
  readonly endpoint: () => Promise<string>;
  readonly credentials: Credentials;
  readonly env: Environment;
  readonly within?: Duration;
}): Caller {
  const { endpoint, credentials, env, within = answerWithin } = options;
  // Nothing is sent twice: the core asks again, at its own pace.
  const client = createHttpClient({ env, limits: { bytes: answerMost } });

  /**
   * A login that ends while we are at work is refused with 401, before anything is done: the same call is then made once
   * more with a fresh one.
   */
  async function callTwice<T extends object>(request: Request): Promise<Try<T>> {
    const first = await callOnce<T>(request);
    if (first.refused?.['authorization'] === undefined) return first;
    const fresh = await credentials.headers().catch(() => undefined);
    if (fresh === undefined || fresh['authorization'] === first.refused['authorization']) return first;
    return callOnce<T>(request);
  }

  async function callOnce<T extends object>({ method, path, body, timeoutMs = within }: Request): Promise<Try<T>> {
    let url: string;
    let headers: Headers;
    try {
      url = await endpoint();
      headers = await credentials.headers();
    } catch (error) {
      const sentence = textOf(error);
      if (!(error instanceof NoLogin)) return { answer: lost('NOT_SENT', sentence) };
      return { answer: { ok: false, status: 'NOT_SENT', error: withoutLogin(sentence) } };
    }
    const reply = await client.request({
      url,
      path: `/${path}`,
      method,
      headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      limits: { connect: timeoutMs, answer: timeoutMs, whole: timeoutMs },
    });
    if (reply instanceof NoReply) {
      const status = reply.wasSent ? 'NO_ANSWER' : 'NOT_SENT';
      return { answer: lost(status, `${hostOf(url)} did not answer: ${reply.message}`) };
    }
    const { status } = reply;
    const text = reply.bytes.toString('utf8');
    const value = parseObject(text);
    // Google's API never redirects; a login page of the network in between does.
    if (status >= 300 && status < 400) {
      return {
        answer: lost('NO_ANSWER', `${hostOf(url)} answered with a redirection (HTTP ${status}), not as this API`),
      };
    }
    if (status < 300) {
      if (value !== undefined) return { answer: { ok: true, value: value as T }, size: text.length };
      const page = `${hostOf(url)} answered with something that is not this API (HTTP ${status})`;
      return { answer: lost('NO_ANSWER', page) };
    }
    if (status === 401) {
      const error = withoutLogin(credentials.refused(headers));
      return { answer: { ok: false, status: 'UNAUTHENTICATED', error }, refused: headers };
    }
    return { answer: refusalOf(status, value, text, url) };
  }

  return {
    call: async (method, path, body) =>
      (await callTwice<never>({ method, path, ...(body === undefined ? {} : { body }) })).answer,
    async list<T>(path: string, field: string): Promise<Answer<Listing<T>>> {
      const items: T[] = [];
      const unreachable: string[] = [];
      const tokens = new Set<string>();
      let token = '';
      let size = 0;
      const until = performance.now() + listFactor * within;
      for (let pages = 0; pages < pagesMost; pages += 1) {
        const query = token === '' ? '' : `?pageToken=${encodeURIComponent(token)}`;
        const left = until - performance.now();
        if (left <= 0 || size > listMost) break;
        const { answer: page, size: length = 0 } = await callTwice<Readonly<Record<string, unknown>>>({
          method: 'GET',
          path: `${path}${query}`,
          timeoutMs: Math.min(within, left),
        });
        // The request had only the rest of the list's time.
        if (!page.ok && page.status === 'NO_ANSWER' && left < within) break;
        if (!page.ok) return page;
        size += length;
        const { [field]: found = [], unreachable: zones = [], nextPageToken = '' } = page.value;
        if (!Array.isArray(found) || !Array.isArray(zones) || typeof nextPageToken !== 'string') {
          return lost('NO_ANSWER', `the list ${path} has a page that is not a list`);
        }
        // Not by push(...): a page with a hundred thousand entries would be as many arguments.
        for (const item of found as T[]) items.push(item);
        for (const zone of zones as string[]) unreachable.push(zone);
        if (nextPageToken === '') return { ok: true, value: { items, unreachable } };
        if (tokens.has(nextPageToken)) break;
        tokens.add(nextPageToken);
        token = nextPageToken;
      }
      return lost('NO_ANSWER', `the list ${path} has no end`);
    },
  };
}

/** A refusal in the API's own shape. Anything else comes from something in between, and says nothing about our things. */
function refusalOf(httpStatus: number, value: object | undefined, text: string, url: string): Answer<never> {
  const body = (value as { readonly error?: StatusBody } | undefined)?.error;
  if (!fits(body, failureForm)) {
    // A proxy's or the front end's own page. Its 404 must not be read as "there is no such node".
    const page = `${hostOf(url)} answered HTTP ${httpStatus}: ${text.slice(0, 300)}`;
    if (httpStatus >= 500) return lost('NO_ANSWER', page);
    return {
      ok: false,
      status: `HTTP ${httpStatus}`,
      error: { ...classify({ code: httpStatus, message: page }), raw: page },
    };
  }
  const failure: StatusBody = { code: httpStatus, ...body };
  return { ok: false, status: statusName(failure), error: classify(failure) };
}

function lost(status: 'NOT_SENT' | 'NO_ANSWER', raw: string): Answer<never> {
  return { ok: false, status, error: unanswered(raw) };
}

/** Every reply of the API is a JSON object, an empty list included; an empty body is a reply that was cut. */
function parseObject(text: string): object | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

function hostOf(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

/** Both sorts of numbers, by the name that they stand for; the two ranges do not overlap. */
const names: Readonly<Record<number, string>> = {
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
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL',
  501: 'UNIMPLEMENTED',
  502: 'UNAVAILABLE',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
};

/** The canonical name of an error: its own `status`, else by its code. */
export function statusName(body: StatusBody): string {
  if (body.status !== undefined && body.status !== '') return body.status;
  const code = body.code ?? 0;
  return names[code] ?? `code ${code}`;
}

interface Row {
  readonly kind: CloudErrorKind;
  readonly names?: readonly string[];
  readonly words?: RegExp;
}

const exhausted = ['RESOURCE_EXHAUSTED', 'FAILED_PRECONDITION'];

/** In order, first match wins: the words first, because one code (8, 429) stands for three different troubles. */
const table: readonly Row[] = [
  // "There is no more capacity in the zone", "Insufficient reserved capacity": theirs, here, now.
  { kind: 'stockout', words: /no more capacity|insufficient .*capacity|stockout|enough (resources|capacity)/i },
  // Too many calls in a minute, which also says "quota" in its name.
  { kind: 'rate_limited', names: exhausted, words: /requests? per (minute|second)|rate limit/i },
  // Our own limit; waiting helps only when something of ours goes.
  { kind: 'quota', names: exhausted, words: /quota|IN_USE_ADDRESSES|\blimit\b/i },
  { kind: 'stockout', names: ['RESOURCE_EXHAUSTED'] },
  // A 403 about the "quota project" of a login is no quota.
  { kind: 'permission', names: ['PERMISSION_DENIED'] },
  // A stale or missing login tells nothing about the cloud: it is as if nobody had answered.
  { kind: 'unreachable', names: ['UNAUTHENTICATED', 'UNAVAILABLE', 'DEADLINE_EXCEEDED'] },
  { kind: 'not_found', names: ['NOT_FOUND'] },
  // A node preempted while it was being made ends its create with code 3; the request was right and may be repeated.
  { kind: 'internal', names: ['INVALID_ARGUMENT'], words: /while in state/i },
  { kind: 'invalid', names: ['INVALID_ARGUMENT', 'OUT_OF_RANGE', 'UNIMPLEMENTED', 'ALREADY_EXISTS'] },
  // FAILED_PRECONDITION among them: what state something is in may change, so asking again is right.
  { kind: 'internal' },
];

const sentences: Readonly<Record<CloudErrorKind, string>> = {
  stockout: 'no capacity there now',
  quota: 'your quota is used up; preempted nodes and suspended queued resources count too',
  rate_limited: 'too many requests to the API in a minute',
  permission: 'the right is missing, or the zone is not open to your project',
  invalid: 'the cloud refuses the request as it stands',
  not_found: 'the cloud knows no such thing',
  internal: 'the cloud failed inside',
  unreachable: 'the cloud did not answer',
};

export function classify(body: StatusBody): CloudError {
  const name = statusName(body);
  const message = body.message ?? '';
  const row = table.find(
    (one) =>
      (one.names === undefined || one.names.includes(name)) && (one.words === undefined || one.words.test(message)),
  );
  const kind = row?.kind ?? 'internal';
  return { kind, message: sentences[kind], raw: message === '' ? name : `${name}: ${message}` };
}

function unanswered(sentence: string): CloudError {
  return { kind: 'unreachable', message: sentence, raw: sentence };
}

function withoutLogin(sentence: string): CloudError {
  return { ...unanswered(sentence), noLogin: true };
}

/** True where the cloud itself says that there is no such thing, or no such zone: then nothing is left to delete there. */
export function isNotThere({ status, error }: { readonly status: string; readonly error: CloudError }): boolean {
  return status === 'NOT_FOUND' || (error.kind === 'invalid' && /requested zone .* is not supported/i.test(error.raw));
}
