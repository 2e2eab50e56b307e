/**
 * Another server that speaks the Cloud TPU API: written from Google's description of it (facts: discovery documents `tpu
 * v2` and `v2alpha1`, revision 20260127) and from nothing of the emulator's. It is as strict as it can be: unknown methods, query
 * parameters and fields are refused and written down, replies hold documented fields only, lists come in pages of two and
 * in no order, a thing does not show in the moment after it was asked for, and states that are seldom seen are passed through.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

type Data = Record<string, unknown>;

/** What a thing goes through: a state, for so many milliseconds, until the last, which stays. */
type Course = readonly (readonly [state: string, milliseconds: number])[];

interface Thing {
  /** Without state and what follows from it. */
  readonly body: Data;
  readonly name: string;
  since: number;
  course: Course;
  /** What is done when the course comes to its end. */
  end: (() => void) | undefined;
}

interface Running {
  readonly name: string;
  readonly verb: string;
  readonly target: string;
  readonly since: number;
  readonly takes: number;
  readonly error: Data | undefined;
}

export interface OtherServer {
  readonly url: string;
  /** Everything that was asked, as `GET nodes`, without the parent. */
  readonly asked: string[];
  /** What no documented client asks: why it was refused, and the request. */
  readonly strange: string[];
  /** Ids that exist now. */
  ids(collection: 'nodes' | 'queuedResources'): string[];
  state(collection: 'nodes' | 'queuedResources', id: string): string | undefined;
  /** The labels of a node; none where there is no such node. */
  labels(id: string): Readonly<Record<string, string>>;
  /** Puts a node there that is READY, as if somebody else had made it. */
  put(id: string, body: Data): void;
  /** Takes a node away, as the cloud does. */
  preempt(id: string): void;
  close(): Promise<void>;
}

/** A set of fields, those of messages with their own sets; `*` for a map or a value that is not looked into. */
interface Fields {
  readonly [name: string]: Fields | '*';
}

const words = (names: string): Fields => Object.fromEntries(names.split(' ').map((name) => [name, '*' as const]));

const nodeFields: Fields = {
  ...words(
    'name description acceleratorType state healthDescription runtimeVersion cidrBlock createTime health labels',
  ),
  ...words('metadata tags id apiVersion queuedResource multisliceNode'),
  networkConfig: words('network subnetwork enableExternalIps canIpForward queueCount'),
  serviceAccount: words('email scope'),
  schedulingConfig: words('preemptible reserved spot'),
  networkEndpoints: { ...words('ipAddress port'), accessConfig: words('externalIp') },
  dataDisks: words('sourceDisk mode'),
  shieldedInstanceConfig: words('enableSecureBoot'),
  acceleratorConfig: words('type topology'),
};

const queuedFields: Fields = {
  ...words('name createTime reservationName'),
  tpu: {
    nodeSpec: { ...words('parent nodeId'), multisliceParams: words('nodeCount nodeIdPrefix'), node: nodeFields },
  },
  spot: {},
  guaranteed: words('minDuration'),
  queueingPolicy: words('validUntilDuration validUntilTime validAfterDuration validAfterTime validInterval'),
};

/** Query parameters by method. */
const parameters: Readonly<Record<string, readonly string[]>> = {
  'GET nodes': ['pageSize', 'pageToken'],
  'GET queuedResources': ['pageSize', 'pageToken'],
  'GET operations': ['filter', 'pageSize', 'pageToken', 'returnPartialSuccess'],
  'GET nodes/id': [],
  'GET queuedResources/id': [],
  'GET operations/id': [],
  'POST nodes': ['nodeId'],
  'POST queuedResources': ['queuedResourceId', 'requestId'],
  'DELETE nodes/id': [],
  'DELETE queuedResources/id': ['force', 'requestId'],
  'POST nodes/id:getGuestAttributes': [],
};

class Refusal extends Error {
  readonly code: number;
  readonly status: string;
  constructor(code: number, status: string, message: string) {
    super(message);
    this.code = code;
    this.status = status;
  }
}

/**
 * Opens it for one project and zone. `host` is the machine that every node consists of: its address, and its public host key as
 * guest attributes tell it. `letIn` is told the `ssh-keys` of a node that is made.
 */
export async function openOtherServer(options: {
  readonly project: string;
  readonly zone: string;
  readonly host: { readonly address: string; readonly key: string };
  readonly letIn: (sshKeys: string) => void;
}): Promise<OtherServer> {
  const parent = `projects/${options.project}/locations/${options.zone}`;
  const shelves = { nodes: new Map<string, Thing>(), queuedResources: new Map<string, Thing>() };
  const operations: Running[] = [];
  const requests = new Map<string, Running>();
  const asked: string[] = [];
  const strange: string[] = [];
  let number = 0;

  /** Brings a thing to where it is now; what its end brings happens first. */
  function stateOf(thing: Thing): string {
    let left = Date.now() - thing.since;
    for (const [state, milliseconds] of thing.course) {
      if (left < milliseconds) return state;
      left -= milliseconds;
    }
    const { end } = thing;
    thing.end = undefined;
    end?.();
    return thing.course.at(-1)?.[0] ?? '';
  }

  function go(thing: Thing, course: Course, end?: () => void): void {
    thing.course = course;
    thing.since = Date.now();
    thing.end = end;
  }

  /** Lets all that is due happen. Twice, because the end of one thing may begin another. */
  function settle(): void {
    for (const _ of [1, 2])
      for (const shelf of Object.values(shelves)) for (const thing of shelf.values()) stateOf(thing);
  }

  function begin(verb: string, target: string, takes: number, error?: Data): Running {
    number += 1;
    const name = `${parent}/operations/operation-${String(1_735_689_600_000 + number)}-62a1b2c3d4e5f-0a1b2c3d-4e5f6071`;
    const running: Running = { name, verb, target, since: Date.now(), takes, error };
    operations.push(running);
    return running;
  }

  function operationReply({ name, verb, target, since, takes, error }: Running): Data {
    const isDone = Date.now() - since >= takes;
    return {
      name,
      metadata: {
        '@type': 'type.googleapis.com/google.cloud.tpu.v2.OperationMetadata',
        createTime: new Date(since).toISOString(),
        ...(isDone ? { endTime: new Date(since + takes).toISOString() } : {}),
        target,
        verb,
        apiVersion: 'v2',
      },
      ...(!isDone ? {} : { done: true, ...(error === undefined ? { response: emptyMessage } : { error }) }),
    };
  }

  function add(collection: keyof typeof shelves, id: string, body: Data, course: Course, end?: () => void): Thing {
    number += 1;
    const name = `${parent}/${collection}/${id}`;
    const made: Thing = {
      name,
      body: { ...body, name, createTime: new Date().toISOString() },
      since: Date.now(),
      course,
      end,
    };
    shelves[collection].set(id, made);
    return made;
  }

  function addNode(id: string, body: Data, course: Course, more: Data = {}): void {
    const { metadata = {} } = body as { readonly metadata?: Readonly<Record<string, string>> };
    options.letIn(metadata['ssh-keys'] ?? '');
    add(
      'nodes',
      id,
      { ...body, ...more, id: String(8_000_000_000_000_000_000n + BigInt(number)), apiVersion: 'V2' },
      course,
    );
  }

  function nodeReply(thing: Thing): Data {
    const state = stateOf(thing);
    const isUp = state === 'READY' || state === 'RESTARTING';
    return {
      ...thing.body,
      state,
      ...(isUp ? { health: 'HEALTHY' } : {}),
      // Addresses come a moment after READY, and stay for as long as the node does.
      ...(isUp && Date.now() - thing.since > 1_500
        ? {
            networkEndpoints: [
              { ipAddress: options.host.address, port: 8470, accessConfig: { externalIp: options.host.address } },
            ],
          }
        : {}),
    };
  }

  function queuedReply(thing: Thing): Data {
    const state = stateOf(thing);
    return { ...thing.body, state: { state, stateInitiator: 'SERVICE', [`${state.toLowerCase()}Data`]: {} } };
  }

  const reply = { nodes: nodeReply, queuedResources: queuedReply };
  /** In the moment after it was asked for, a thing does not show. */
  const isShown = (thing: Thing): boolean => stateOf(thing) !== 'hidden';

  function page(field: string, all: readonly Data[], token: string | null): Data {
    const from = Number(token ?? 0);
    const items = all.slice(from, from + 2);
    return {
      ...(items.length === 0 ? {} : { [field]: items }),
      ...(from + 2 < all.length ? { nextPageToken: String(from + 2) } : {}),
    };
  }

  function create(collection: keyof typeof shelves, query: URLSearchParams, body: Data): Running {
    const isNode = collection === 'nodes';
    const id = query.get(isNode ? 'nodeId' : 'queuedResourceId') ?? '';
    check(body, isNode ? nodeFields : queuedFields, isNode ? 'node' : 'queued_resource');
    if (!/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/.test(id)) throw strangeRefusal(`${id} is not an id`);
    const requestId = query.get('requestId') ?? '';
    const before = requests.get(requestId);
    if (before !== undefined) return before;
    if (shelves[collection].has(id))
      throw new Refusal(409, 'ALREADY_EXISTS', `Resource '${parent}/${collection}/${id}' already exists`);
    if (isNode) {
      addNode(id, body, [
        ['hidden', 700],
        ['CREATING', 1_500],
        ['READY', Infinity],
      ]);
    } else {
      const spec = (body['tpu'] as { nodeSpec: { nodeId: string; node: Data }[] }).nodeSpec;
      const queued = add(collection, id, body, [
        ['hidden', 500],
        ['CREATING', 500],
        ['ACCEPTED', 1_000],
        ['WAITING_FOR_RESOURCES', 1_000],
        ['PROVISIONING', 3_000],
        ['ACTIVE', Infinity],
      ]);
      // Its node shows while the whole is PROVISIONING.
      for (const { nodeId, node } of spec) {
        const course: Course = [
          ['hidden', 3_500],
          ['CREATING', 1_500],
          ['READY', Infinity],
        ];
        addNode(nodeId, node, course, { queuedResource: queued.name });
      }
    }
    const running = begin('create', `${parent}/${collection}/${id}`, isNode ? 2_500 : 800);
    if (requestId !== '') requests.set(requestId, running);
    return running;
  }

  function remove(collection: keyof typeof shelves, id: string, thing: Thing, isForced: boolean): Running {
    if (collection === 'nodes') {
      const running = begin('delete', thing.name, 1_000);
      go(thing, [['DELETING', 1_000]], () => shelves.nodes.delete(id));
      return running;
    }
    const state = stateOf(thing);
    const about = { code: 9, message: `The queued resource is ${state}. [EID: 0x1234]` };
    // What is between two states takes the order and gives it up in the operation.
    if (['CREATING', 'PROVISIONING', 'SUSPENDING', 'DELETING'].includes(state))
      return begin('delete', thing.name, 300, about);
    if (!isForced && state === 'ACTIVE') throw new Refusal(400, 'FAILED_PRECONDITION', about.message);
    for (const [nodeId, node] of shelves.nodes) {
      if (node.body['queuedResource'] === thing.name) go(node, [['DELETING', 500]], () => shelves.nodes.delete(nodeId));
    }
    go(thing, [['DELETING', 1_000]], () => shelves.queuedResources.delete(id));
    return begin('delete', thing.name, 1_000);
  }

  function strangeRefusal(why: string): Refusal {
    strange.push(why);
    return new Refusal(400, 'INVALID_ARGUMENT', why);
  }

  function check(value: unknown, fields: Fields, path: string): void {
    if (Array.isArray(value)) {
      for (const item of value) check(item, fields, path);
      return;
    }
    for (const [name, inner] of Object.entries(value as Data)) {
      const known = Object.hasOwn(fields, name) ? fields[name] : undefined;
      if (known === undefined) {
        throw strangeRefusal(`Invalid JSON payload received. Unknown name "${name}" at '${path}': Cannot find field.`);
      }
      if (known !== '*') check(inner, known, `${path}.${name}`);
    }
  }

  function answer(request: IncomingMessage, text: string): Data | undefined {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
    const path = decodeURIComponent(pathname);
    // A list may be asked of all zones at once.
    const everywhere = new RegExp(`^/v2/projects/${options.project}/locations/-/(nodes|queuedResources)$`).exec(path);
    const [, rest] = everywhere ?? new RegExp(`^/v2/${parent}/(.+)$`).exec(path) ?? [];
    const [, collection = '', id, custom = ''] = /^(\w+)(?:\/([^/:]+))?(:\w+)?$/.exec(rest ?? '') ?? [];
    const method = `${request.method ?? ''} ${collection}${id === undefined ? '' : '/id'}${custom}`;
    const known = Object.hasOwn(parameters, method) ? parameters[method] : undefined;
    if (known === undefined) {
      strange.push(`${request.method ?? ''} ${path}`);
      return undefined;
    }
    asked.push(`${request.method ?? ''} ${rest ?? ''}`);
    if (request.headers.authorization !== undefined) throw strangeRefusal('a login was sent to a server on loopback');
    for (const name of searchParams.keys()) {
      if (!known.includes(name)) {
        throw strangeRefusal(`Invalid JSON payload received. Unknown name "${name}": Cannot bind query parameter.`);
      }
    }
    const body = (text === '' ? {} : JSON.parse(text)) as Data;
    if (text !== '' && request.headers['content-type'] !== 'application/json')
      throw strangeRefusal('a body that is no JSON');
    settle();
    if (collection === 'operations') {
      if (id === undefined)
        return page('operations', operations.map(operationReply).toReversed(), searchParams.get('pageToken'));
      const running = operations.find(({ name }) => name.endsWith(`/${id}`));
      if (running === undefined) throw new Refusal(404, 'NOT_FOUND', `Resource '${rest ?? ''}' was not found`);
      return operationReply(running);
    }
    const kind = collection as keyof typeof shelves;
    if (id === undefined) {
      if (request.method === 'POST') return operationReply(create(kind, searchParams, body));
      // Newest first: nobody promised an order by name.
      const all = [...shelves[kind].values()].filter(isShown).toReversed();
      return page(kind, all.map(reply[kind]), searchParams.get('pageToken'));
    }
    const thing = shelves[kind].get(id);
    if (thing === undefined || !isShown(thing)) {
      throw new Refusal(404, 'NOT_FOUND', `Resource '${parent}/${kind}/${id}' was not found`);
    }
    if (request.method === 'DELETE') {
      return operationReply(remove(kind, id, thing, searchParams.get('force')?.toLowerCase() === 'true'));
    }
    if (custom === '') return reply[kind](thing);
    check(body, words('queryPath workerIds'), '');
    const items = [{ namespace: 'hostkeys', key: 'ssh-ed25519', value: options.host.key }];
    return { guestAttributes: [{ queryValue: { items } }] };
  }

  const http = createServer((request: IncomingMessage, response: ServerResponse) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const say = (status: number, type: string, text: string): void => {
        response.writeHead(status, { 'content-type': `${type}; charset=UTF-8` }).end(text);
      };
      try {
        const found = answer(request, Buffer.concat(parts).toString());
        if (found === undefined) say(404, 'text/html', '<!DOCTYPE html><title>Error 404 (Not Found)</title>');
        else say(200, 'application/json', JSON.stringify(found));
      } catch (error) {
        const refusal = error instanceof Refusal ? error : strangeRefusal(String(error));
        const { code, status, message } = refusal;
        say(code, 'application/json', JSON.stringify({ error: { code, message, status } }));
      }
    });
  });
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));

  return {
    url: `http://127.0.0.1:${String((http.address() as AddressInfo).port)}`,
    asked,
    strange,
    ids(collection) {
      settle();
      return [...shelves[collection].keys()].toSorted();
    },
    state(collection, id) {
      settle();
      const thing = shelves[collection].get(id);
      return thing === undefined ? undefined : stateOf(thing);
    },
    labels: (id) => (shelves.nodes.get(id)?.body['labels'] ?? {}) as Readonly<Record<string, string>>,
    put: (id, body) => addNode(id, body, [['READY', Infinity]]),
    preempt(id) {
      const node = shelves.nodes.get(id);
      if (node === undefined) throw new Error(`there is no ${id}`);
      const { queuedResource = '' } = node.body as { readonly queuedResource?: string };
      const queuedId = queuedResource.split('/').at(-1) ?? '';
      const queued = shelves.queuedResources.get(queuedId);
      // A node that was asked for directly stays, PREEMPTED; one of a queued resource goes, and that is SUSPENDED.
      if (queued === undefined) return go(node, [['PREEMPTED', Infinity]]);
      go(node, [['PREEMPTED', 1_500]], () => shelves.nodes.delete(id));
      go(queued, [
        ['SUSPENDING', 2_500],
        ['SUSPENDED', Infinity],
      ]);
    },
    async close() {
      const closed = new Promise((resolve) => http.close(resolve));
      http.closeAllConnections();
      await closed;
    },
  };
}

const emptyMessage = { '@type': 'type.googleapis.com/google.protobuf.Empty' };
