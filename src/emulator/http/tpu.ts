/**
 * The Cloud TPU API: from a method, a path and a body to a reply. It knows no HTTP server, so the same function answers
 * whoever asks. Methods and parameters: facts/cloud-tpu.md section 1.
 */
import { type Accelerator, accelerator } from '../../catalogue/accelerators.ts';
import { runtimeVersions, tensorflowVersions } from '../../catalogue/runtime-versions.ts';
import { acceleratorsIn, zones, zonesOffering } from '../../catalogue/zones.ts';
import { camelCase, decode } from '../wire/decode.ts';
import { encode, type Writing } from '../wire/encode.ts';
import { badField, CloudError, texts } from '../wire/errors.ts';
import { readFilter, readOrder, valueAt } from '../wire/filter.ts';
import {
  type ApiVersion,
  type Data,
  emptyRequest,
  guestAttributesRequest,
  maintenanceInfo,
  node as nodeMessage,
  nodeNamesRequest,
  queuedResource as queuedMessage,
  reservation as reservationMessage,
  textOf,
  workersRequest,
} from '../wire/messages.ts';
import { pageOf, type Standing } from '../wire/paging.ts';
import { select } from '../wire/selection.ts';
import { guestAttributesAt } from '../world/guest-attributes.ts';
import { cancelOperation, deleteNode } from '../world/node-life.ts';
import {
  type Asked,
  checkZone,
  createNode,
  findNode,
  nodeData,
  performMaintenance,
  projectNumber,
  simulateMaintenance,
  startNode,
  stopNode,
  updateNode,
} from '../world/nodes.ts';
import { operationReply } from '../world/operations.ts';
import {
  createQueued,
  deleteQueued,
  findQueued,
  maintainQueued,
  maintenanceOf,
  queuedData,
  resetQueued,
} from '../world/queued-resources.ts';
import type { NodeRecord, OperationRecord, QueuedRecord } from '../world/records.ts';
import { reservationData } from '../world/reservations.ts';
import { isSilent } from '../world/temper.ts';
import type { World } from '../world/world.ts';

export interface Call {
  readonly version: ApiVersion;
  readonly method: string;
  /** The segments after the version, decoded. */
  readonly path: readonly string[];
  readonly query: Readonly<Record<string, string>>;
  /** The parsed body; undefined when there is none. */
  readonly body: unknown;
}

/** A call that was understood, before anything is done. */
export interface Understood {
  readonly project: string;
  /** `-` for all zones; undefined where the path names none. */
  readonly zone: string | undefined;
  readonly collection: string;
  readonly verb: string;
  /** The right that Google would ask for. */
  readonly permission: string;
  /** True when it may change the world. */
  readonly changes: boolean;
  /** The resource or its parent. */
  readonly resource: string;
  answer(world: World): Data;
}

interface Method {
  readonly versions: readonly ApiVersion[];
  readonly query?: readonly string[];
  readonly changes?: true;
  answer(world: World, target: Target, call: Call, writing: Writing): Data;
}

interface Target extends Asked {
  readonly collection: string;
  readonly id: string;
  readonly name: string;
}

const both: readonly ApiVersion[] = ['v2', 'v2alpha1'];
const all: readonly ApiVersion[] = ['v1', 'v2', 'v2alpha1'];
const alpha: readonly ApiVersion[] = ['v2alpha1'];
const page = ['pageSize', 'pageToken'];
const filtered = [...page, 'filter', 'orderBy'];

/** Parameters that every Google method takes. */
const everyQuery = [
  'alt',
  '$alt',
  '$.xgafv',
  '$prettyPrint',
  'access_token',
  'callback',
  'fields',
  'key',
  'oauth_token',
  'prettyPrint',
  'quotaUser',
  'uploadType',
  'upload_protocol',
];

/** `<HTTP method> <collection>[/id][:custom verb]` to what is done. */
const methods: Readonly<Record<string, Method>> = {
  'GET locations': {
    versions: all,
    query: [...page, 'filter', 'extraLocationTypes'],
    answer: (_world, target, call) =>
      listReply(
        'locations',
        zones.map((zone) => location(target.project, zone)),
        call,
        asItIs,
      ),
  },
  'GET locations/id': {
    versions: all,
    answer(world, target) {
      checkZone(world, target.zone);
      return location(target.project, target.zone);
    },
  },
  'POST locations/id:generateServiceIdentity': {
    versions: both,
    changes: true,
    answer: (_world, target) => ({
      identity: { email: `service-${projectNumber(target.project)}@cloud-tpu.iam.gserviceaccount.com` },
    }),
  },
  'GET acceleratorTypes': {
    versions: all,
    query: filtered,
    answer(world, target, call, writing) {
      const types = (zone: string): Data[] =>
        acceleratorsIn(zone).map((one) => acceleratorReply(target, zone, one, writing));
      return listReply('acceleratorTypes', zonesAsked(world, target).flatMap(types), call, asItIs);
    },
  },
  'GET acceleratorTypes/id': {
    versions: all,
    answer(world, target, _call, writing) {
      checkZone(world, target.zone);
      const known = accelerator(target.id);
      if (known === undefined || !zonesOffering(known).includes(target.zone)) throw texts.notFound(target.name);
      return acceleratorReply(target, target.zone, known, writing);
    },
  },
  'GET runtimeVersions': versionList('runtimeVersions', runtimeVersions, both),
  'GET runtimeVersions/id': versionGet(runtimeVersions, both),
  'GET tensorflowVersions': versionList('tensorflowVersions', tensorflowVersions, ['v1']),
  'GET tensorflowVersions/id': versionGet(tensorflowVersions, ['v1']),
  'GET nodes': {
    versions: both,
    query: page,
    answer: (world, target, call, writing) =>
      zonedReply('nodes', world, world.nodes.values(), target, call, (node) =>
        encode(nodeMessage, nodeData(node), writing),
      ),
  },
  'GET nodes/id': {
    versions: both,
    answer: (world, target, _call, writing) => encode(nodeMessage, nodeData(nodeAsked(world, target)), writing),
  },
  'POST nodes': {
    versions: both,
    query: ['nodeId', 'requestId'],
    changes: true,
    answer(world, target, call, writing) {
      if (call.query['requestId'] !== undefined && call.version === 'v2') throw unknownParameter('requestId');
      return once(world, target, call, writing, () =>
        createNode(world, target, call.query['nodeId'], decode(nodeMessage, call.body ?? {}, call.version, 'node')),
      );
    },
  },
  'PATCH nodes/id': {
    versions: both,
    query: ['updateMask'],
    changes: true,
    answer(world, target, call, writing) {
      const body = decode(nodeMessage, call.body ?? {}, call.version, 'node');
      const node = nodeAsked(world, target);
      return operationReply(updateNode(world, call.version, node, body, call.query['updateMask']), writing);
    },
  },
  'DELETE nodes/id': {
    versions: both,
    query: ['requestId'],
    changes: true,
    answer(world, target, call, writing) {
      if (call.query['requestId'] !== undefined && call.version === 'v2') throw unknownParameter('requestId');
      return once(world, target, call, writing, () => deleteNode(world, call.version, nodeAsked(world, target)));
    },
  },
  'POST nodes/id:start': nodeVerb((world, node, call) => startNode(world, call.version, node)),
  'POST nodes/id:stop': nodeVerb((world, node, call) => stopNode(world, call.version, node)),
  'POST nodes/id:simulateMaintenanceEvent': {
    ...nodeVerb((world, node, call, asked) =>
      simulateMaintenance(world, call.version, node, (asked['workerIds'] ?? []) as string[]),
    ),
    versions: alpha,
  },
  'POST nodes/id:performMaintenance': {
    ...nodeVerb((world, node, call) => performMaintenance(world, call.version, node)),
    versions: alpha,
  },
  'POST nodes/id:getGuestAttributes': {
    versions: both,
    answer(world, target, call) {
      const asked = decode(guestAttributesRequest, call.body ?? {}, call.version, '');
      const node = nodeAsked(world, target);
      const ids = ((asked['workerIds'] ?? []) as string[]).filter((id) => id !== '');
      const workers = ids.length === 0 ? node.workers.map((worker) => String(worker.index)) : ids;
      const path = textOf(asked, 'queryPath');
      return { guestAttributes: workers.map((id) => guestAttributes(node, id, path)) };
    },
  },
  'GET queuedResources': {
    versions: both,
    query: page,
    answer: (world, target, call, writing) =>
      zonedReply('queuedResources', world, world.queued.values(), target, call, (queued) =>
        encode(queuedMessage, queuedData(queued), writing),
      ),
  },
  'GET queuedResources/id': {
    versions: both,
    answer(world, target, _call, writing) {
      return encode(queuedMessage, queuedData(queuedAsked(world, target)), writing);
    },
  },
  'POST queuedResources': {
    versions: both,
    query: ['queuedResourceId', 'requestId'],
    changes: true,
    answer: (world, target, call, writing) =>
      once(world, target, call, writing, () => {
        const body = decode(queuedMessage, call.body ?? {}, call.version, 'queued_resource');
        return createQueued(world, target, call.query['queuedResourceId'], body);
      }),
  },
  'DELETE queuedResources/id': {
    versions: both,
    query: ['force', 'requestId'],
    changes: true,
    answer: (world, target, call, writing) =>
      once(world, target, call, writing, () => {
        const force = call.query['force']?.toLowerCase() === 'true';
        return deleteQueued(world, call.version, queuedAsked(world, target), force);
      }),
  },
  'POST queuedResources/id:reset': {
    versions: both,
    changes: true,
    answer(world, target, call, writing) {
      decode(emptyRequest, call.body ?? {}, call.version, '');
      return operationReply(resetQueued(world, call.version, queuedAsked(world, target)), writing);
    },
  },
  'GET queuedResources/id:getMaintenanceInfo': {
    versions: alpha,
    answer: (world, target, _call, writing) =>
      encode(maintenanceInfo, maintenanceOf(world, queuedAsked(world, target)), writing),
  },
  'POST queuedResources/id:performMaintenanceQueuedResource': {
    versions: alpha,
    changes: true,
    answer(world, target, call, writing) {
      const asked = decode(nodeNamesRequest, call.body ?? {}, call.version, '');
      const queued = queuedAsked(world, target);
      const names = (asked['nodeNames'] ?? []) as string[];
      return operationReply(maintainQueued(world, call.version, queued, names), writing);
    },
  },
  'GET reservations': {
    versions: alpha,
    query: page,
    answer: (world, target, call, writing) =>
      listReply(
        'reservations',
        reservationData(world, target.project, zonesAsked(world, target)),
        call,
        (reservation) => encode(reservationMessage, reservation, writing),
      ),
  },
  'GET operations': {
    versions: both,
    query: [...page, 'filter', 'returnPartialSuccess'],
    answer: (world, target, call, writing) =>
      zonedReply('operations', world, world.operations.values(), target, call, (operation) =>
        operationReply(operation, writing),
      ),
  },
  'GET operations/id': {
    versions: all,
    answer: (world, target, _call, writing) => operationReply(operationAsked(world, target), writing),
  },
  'POST operations/id:cancel': {
    versions: both,
    changes: true,
    answer(world, target) {
      cancelOperation(world, operationAsked(world, target));
      return {};
    },
  },
  'DELETE operations/id': {
    versions: both,
    changes: true,
    answer(world, target) {
      world.operations.remove(operationAsked(world, target).name);
      return {};
    },
  },
};

/**
 * Nodes of the first API (TPU Nodes, a machine of the user's beside a TPU of Google's), which gcloud's oldest commands ask
 * for (`gcloud compute tpus list`). Google does not make them any more, so there are none.
 */
const oldNodes: Readonly<Record<string, Method>> = {
  'GET nodes': {
    versions: ['v1'],
    query: page,
    answer: (world, target, call) => {
      zonesAsked(world, target);
      return listReply('nodes', [], call, asItIs);
    },
  },
  'POST nodes': {
    versions: ['v1'],
    query: ['nodeId', 'requestId'],
    answer(world) {
      throw texts.badRequest('TPU Nodes are not made any more; create a TPU VM (v2) instead.', world.eid());
    },
  },
  ...Object.fromEntries(
    ['GET nodes/id', 'DELETE nodes/id', 'POST nodes/id:start', 'POST nodes/id:stop', 'POST nodes/id:reimage'].map(
      (key) => [key, { versions: ['v1'], query: ['requestId'], answer: noOldNode }],
    ),
  ),
};

function noOldNode(world: World, target: Target): Data {
  checkZone(world, target.zone);
  throw texts.notFound(target.name);
}

/**
 * Understands a call: which method it is, and whether its parameters exist. Undefined for a path that is no method of
 * this version: the front end answers that by itself. Throws CloudError.
 */
export function understand(call: Call): Understood | undefined {
  const [projects, project, locations, second, collection, third] = call.path;
  if (projects !== 'projects' || project === undefined || locations !== 'locations' || call.path.length > 6) {
    return undefined;
  }
  const [zone, zoneVerb] = splitVerb(second);
  const [id, idVerb] = splitVerb(third);
  const kind = collection ?? 'locations';
  const hasId = collection === undefined ? zone !== undefined : id !== undefined;
  const custom = collection === undefined ? zoneVerb : (idVerb ?? zoneVerb);
  const key = `${call.method} ${kind}${hasId ? '/id' : ''}${custom === undefined ? '' : `:${custom}`}`;
  const table = call.version === 'v1' && kind === 'nodes' ? oldNodes : methods;
  const method = Object.hasOwn(table, key) ? table[key] : undefined;
  if (method === undefined || !method.versions.includes(call.version)) return undefined;

  const query: Record<string, string> = {};
  for (const [name, value] of Object.entries(call.query)) {
    if (everyQuery.includes(name)) continue;
    const known = camelCase(name);
    if (!(method.query ?? []).includes(known)) throw unknownParameter(name);
    query[known] = value;
  }
  const parent = `projects/${project}/locations${zone === undefined ? '' : `/${zone}`}`;
  const name = collection === undefined || id === undefined ? parent : `${parent}/${collection}/${id}`;
  const target: Target = { version: call.version, project, zone: zone ?? '-', collection: kind, id: id ?? '', name };
  const writing: Writing = {
    version: call.version,
    enumsAsNumbers: (call.query['$alt'] ?? call.query['alt'] ?? '').includes('enum-encoding=int'),
  };
  const verb = custom ?? verbOf(call.method, hasId);
  return {
    project,
    zone,
    collection: kind,
    verb,
    permission: `tpu.${kind}.${verb}`,
    changes: method.changes === true,
    resource: name,
    answer(world) {
      const reply = method.answer(world, target, { ...call, query }, writing);
      const { fields = '' } = call.query;
      return fields === '' ? reply : select(reply, fields);
    },
  };
}

function splitVerb(segment: string | undefined): [string | undefined, string | undefined] {
  if (segment === undefined) return [undefined, undefined];
  const colon = segment.indexOf(':');
  return colon < 0 ? [segment, undefined] : [segment.slice(0, colon), segment.slice(colon + 1)];
}

function verbOf(method: string, hasId: boolean): string {
  switch (method) {
    case 'GET':
      return hasId ? 'get' : 'list';
    case 'POST':
      return 'create';
    case 'PATCH':
      return 'update';
    default:
      return 'delete';
  }
}

function unknownParameter(name: string): CloudError {
  return badField(
    '',
    `Invalid JSON payload received. Unknown name "${name}": Cannot bind query parameter. ` +
      `Field '${name}' could not be found in request message.`,
  );
}

function nodeVerb(act: (world: World, node: NodeRecord, call: Call, asked: Data) => OperationRecord): Method {
  return {
    versions: both,
    changes: true,
    answer(world, target, call, writing) {
      const asked = decode(workersRequest, call.body ?? {}, call.version, '');
      return operationReply(act(world, nodeAsked(world, target), call, asked), writing);
    },
  };
}

/** Answers a repeated `requestId` with the operation that the first one began. */
function once(world: World, target: Target, call: Call, writing: Writing, act: () => OperationRecord): Data {
  const requestId = call.query['requestId'];
  // The name of what is made is its parent's: with the collection it is one method's, and another may use the same id.
  const method = `${call.method} ${target.collection} ${target.name}`;
  const key = requestId === undefined || requestId === '' ? undefined : `${method} ${requestId}`;
  const before = key === undefined ? undefined : world.requests.get(key);
  const known = before === undefined ? undefined : world.operations.get(before.operation);
  if (known !== undefined) return operationReply(known, writing);
  const operation = act();
  if (key !== undefined) world.requests.put(key, { operation: operation.name });
  return operationReply(operation, writing);
}

function nodeAsked(world: World, target: Target): NodeRecord {
  checkZone(world, target.zone);
  return findNode(world, target.name);
}

function queuedAsked(world: World, target: Target): QueuedRecord {
  checkZone(world, target.zone);
  return findQueued(world, target.name);
}

function operationAsked(world: World, target: Target): OperationRecord {
  const operation = world.operations.get(target.name);
  if (operation === undefined) throw texts.notFound(target.name);
  return operation;
}

function zonesAsked(world: World, target: Target): readonly string[] {
  if (target.zone === '-') return zones;
  checkZone(world, target.zone);
  return [target.zone];
}

/** The records of the asked zones. Of all zones (`-`), those that do not answer now are named instead of searched. */
function zonedReply<T extends { readonly name: string; readonly project: string; readonly zone: string }>(
  field: string,
  world: World,
  records: readonly T[],
  target: Target,
  call: Call,
  write: (record: T) => Data,
): Data {
  const asked = zonesAsked(world, target);
  const silent = target.zone === '-' ? asked.filter((zone) => isSilent(world, zone)) : [];
  const found = records.filter(
    (record) => record.project === target.project && asked.includes(record.zone) && !silent.includes(record.zone),
  );
  const unreachable = silent.map((zone) => `projects/${target.project}/locations/${zone}`);
  return {
    ...listReply(field, found, call, write),
    ...(unreachable.length === 0 ? {} : { unreachable }),
  };
}

/** One page of a list. Only what is on it is written out, unless the client sorts or sifts by what is in the items. */
function listReply<T extends { readonly name?: unknown }>(
  field: string,
  items: readonly T[],
  call: Call,
  write: (item: T) => Data,
): Data {
  const { filter = '', orderBy = '', pageSize, pageToken } = call.query;
  const matches = readFilter(filter);
  const order = readOrder(orderBy);
  // By name among equals. A list inside an item has no one place in an order, and stands where its text does.
  const standingOf = (item: T): Standing => [
    ...order.map(({ field: by, descends }) => ({ value: String(valueAt(write(item), by)), descends })),
    { value: String(item.name), descends: false },
  ];
  const matching = filter === '' ? items : items.filter((item) => matches(write(item)));
  const list = `${call.path.join('/')}?${filter}&${orderBy}`;
  const result = pageOf(matching, standingOf, list, { pageSize, pageToken });
  return {
    ...(result.items.length === 0 ? {} : { [field]: result.items.map(write) }),
    ...(result.nextPageToken === undefined ? {} : { nextPageToken: result.nextPageToken }),
  };
}

const asItIs = (item: Data): Data => item;

function location(project: string, zone: string): Data {
  return { name: `projects/${project}/locations/${zone}`, locationId: zone };
}

function acceleratorReply(
  target: Target,
  zone: string,
  { type, topology, generation }: Accelerator,
  writing: Writing,
): Data {
  return {
    name: `projects/${target.project}/locations/${zone}/acceleratorTypes/${type}`,
    type,
    // v1 had no shapes yet, and gcloud's old group shows none.
    ...(writing.version === 'v1'
      ? {}
      : {
          acceleratorConfigs: [{ type: generation.configType, topology }],
        }),
  };
}

function versionList(field: string, versions: readonly string[], api: readonly ApiVersion[]): Method {
  return {
    versions: api,
    query: filtered,
    answer(world, target, call) {
      const items = zonesAsked(world, target).flatMap((zone) =>
        versions.map((version) => ({
          name: `projects/${target.project}/locations/${zone}/${field}/${version}`,
          version,
        })),
      );
      return listReply(field, items, call, asItIs);
    },
  };
}

function versionGet(versions: readonly string[], api: readonly ApiVersion[]): Method {
  return {
    versions: api,
    answer(world, target) {
      checkZone(world, target.zone);
      if (!versions.includes(target.id)) throw texts.notFound(target.name);
      return { name: target.name, version: target.id };
    },
  };
}

/** What a worker has published, of it what the query path means. */
function guestAttributes(node: NodeRecord, id: string, queryPath: string): Data {
  const worker = node.workers[Number(id)];
  if (worker === undefined) {
    throw new CloudError('INVALID_ARGUMENT', `Worker ${id} does not exist in ${node.name}.`);
  }
  const items = guestAttributesAt(node, worker, queryPath);
  return {
    ...(queryPath === '' ? {} : { queryPath }),
    queryValue: items.length === 0 ? {} : { items },
  };
}
