// The part of the Cloud TPU REST API (v2, and v2alpha1 for the older preemptible tier in the queue) that jobman calls, and
// the one question that jobman has for Cloud Storage: in which location a bucket is.
// Field names and paths: Google's discovery documents `tpu v2` and `tpu v2alpha1`, revision 20260127.

import { fits, type Form } from '../../app/json.ts';
import type { BucketLook } from '../../app/ports.ts';
import { failureForm, unanswered, type Answer, type Caller, type Listing, type StatusBody } from './call.ts';

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
