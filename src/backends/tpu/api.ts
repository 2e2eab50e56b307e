// The part of the Cloud TPU REST API (v2, and v2alpha1 for the older preemptible tier in the queue) that jobman calls.
// Each call answers a result and never throws for what the cloud does; a lost reply is told apart from a refusal.

import type { CloudError } from '../../core/job.ts';
import { classify, statusName, unanswered } from './errors.ts';
import type { StatusBody } from './errors.ts';

export interface TpuNode {
  readonly name: string;
  readonly acceleratorType?: string;
  readonly state?: string;
  readonly health?: string;
  readonly healthDescription?: string;
  readonly createTime?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly queuedResource?: string;
  readonly networkEndpoints?: readonly {
    readonly ipAddress?: string;
    readonly accessConfig?: { readonly externalIp?: string };
  }[];
}

export interface QueuedResource {
  readonly name: string;
  readonly createTime?: string;
  readonly tpu?: { readonly nodeSpec?: readonly { readonly nodeId?: string; readonly node?: TpuNode }[] };
  readonly state?: {
    readonly state?: string;
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

/**
 * What a call came to. `status` is the canonical name of the error (`NOT_FOUND`, `ALREADY_EXISTS`), or `NO_ANSWER` when the
 * reply was lost: then the act may have happened.
 */
export type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly status: string; readonly error: CloudError };

/** A whole list, with the zones that could not be asked. */
export interface Listing<T> {
  readonly items: readonly T[];
  readonly unreachable: readonly string[];
}

export interface TpuApi {
  getNode(place: Place, id: string): Promise<Answer<TpuNode>>;
  listNodes(place: Place): Promise<Answer<Listing<TpuNode>>>;
  createNode(place: Place, id: string, node: object): Promise<Answer<Operation>>;
  deleteNode(place: Place, id: string): Promise<Answer<Operation>>;
  getQueuedResource(place: Place, id: string): Promise<Answer<QueuedResource>>;
  listQueuedResources(place: Place): Promise<Answer<Listing<QueuedResource>>>;
  createQueuedResource(place: Place, id: string, body: object, version: 'v2' | 'v2alpha1'): Promise<Answer<Operation>>;
  deleteQueuedResource(place: Place, id: string): Promise<Answer<Operation>>;
  getOperation(name: string): Promise<Answer<Operation>>;
  listOperations(place: Place): Promise<Answer<Listing<Operation>>>;
  getGuestAttributes(place: Place, id: string): Promise<Answer<readonly GuestAttributes[]>>;
}

export interface Place {
  readonly project: string;
  readonly zone: string;
}

export interface GuestAttributes {
  readonly queryValue?: {
    readonly items?: readonly { readonly namespace?: string; readonly key?: string; readonly value?: string }[];
  };
}

/** Longest wait for one answer. A slower cloud counts as one that did not answer: nothing destructive follows. */
const answerTimeout = 15_000;

/**
 * `endpoint` is `https://tpu.googleapis.com` or a server that speaks the same API; `token` gives a bearer token, or null where none
 * is wanted (a server on loopback), and throws with a sentence when the login has expired.
 */
export function createTpuApi(options: {
  readonly endpoint: () => Promise<string>;
  readonly token: () => Promise<string | null>;
}): TpuApi {
  async function call<T>(method: string, path: string, body?: object): Promise<Answer<T>> {
    let response: Response;
    let text: string;
    try {
      const token = await options.token();
      response = await fetch(`${await options.endpoint()}/${path}`, {
        method,
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(answerTimeout),
      });
      text = await response.text();
    } catch (error) {
      return { ok: false, status: 'NO_ANSWER', error: unanswered(sentenceOf(error)) };
    }
    const parsed = parseJson(text);
    if (response.ok) {
      if (parsed !== undefined) return { ok: true, value: parsed as T };
      return {
        ok: false,
        status: 'NO_ANSWER',
        error: unanswered(`${method} ${path}: HTTP ${response.status} with a body that is not JSON`),
      };
    }
    const failure: StatusBody = (parsed as { error?: StatusBody } | undefined)?.error ?? {
      code: response.status,
      message: text.slice(0, 500),
    };
    return {
      ok: false,
      status: statusName({ ...failure, code: failure.code ?? response.status }),
      error: classify(failure),
    };
  }

  // Pages are followed to the end: half a list would read as "absent" what is only on the next page.
  async function listAll<T>(path: string, field: string): Promise<Answer<Listing<T>>> {
    const items: T[] = [];
    const unreachable: string[] = [];
    let token = '';
    do {
      const query = token === '' ? '' : `?pageToken=${encodeURIComponent(token)}`;
      const page = await call<Record<string, unknown>>('GET', `${path}${query}`);
      if (!page.ok) return page;
      items.push(...((page.value[field] as T[] | undefined) ?? []));
      unreachable.push(...((page.value['unreachable'] as string[] | undefined) ?? []));
      token = (page.value['nextPageToken'] as string | undefined) ?? '';
    } while (token !== '');
    return { ok: true, value: { items, unreachable } };
  }

  const at = (place: Place, version = 'v2') =>
    `${version}/projects/${encodeURIComponent(place.project)}/locations/${encodeURIComponent(place.zone)}`;
  const id = encodeURIComponent;
  return {
    getNode: (place, node) => call('GET', `${at(place)}/nodes/${id(node)}`),
    listNodes: (place) => listAll(`${at(place)}/nodes`, 'nodes'),
    createNode: (place, node, body) => call('POST', `${at(place)}/nodes?nodeId=${id(node)}`, body),
    deleteNode: (place, node) => call('DELETE', `${at(place)}/nodes/${id(node)}`),
    getQueuedResource: (place, name) => call('GET', `${at(place)}/queuedResources/${id(name)}`),
    listQueuedResources: (place) => listAll(`${at(place)}/queuedResources`, 'queuedResources'),
    createQueuedResource: (place, name, body, version) =>
      call('POST', `${at(place, version)}/queuedResources?queuedResourceId=${id(name)}`, body),
    deleteQueuedResource: (place, name) => call('DELETE', `${at(place)}/queuedResources/${id(name)}?force=true`),
    getOperation: (name) => call('GET', `v2/${name}`),
    listOperations: (place) => listAll(`${at(place)}/operations`, 'operations'),
    async getGuestAttributes(place, node) {
      const answer = await call<{ guestAttributes?: GuestAttributes[] }>(
        'POST',
        `${at(place)}/nodes/${id(node)}:getGuestAttributes`,
        {
          queryPath: '',
          workerIds: [],
        },
      );
      return answer.ok ? { ok: true, value: answer.value.guestAttributes ?? [] } : answer;
    },
  };
}

function parseJson(text: string): unknown {
  if (text === '') return {};
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The cause of a failed fetch says more than "fetch failed". */
function sentenceOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `: ${error.cause.message}` : '';
  return `${error.message}${cause}`;
}
