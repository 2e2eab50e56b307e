import { CloudError, cloudErrors } from '../../wire/errors.ts';
import { decode, encode } from '../../wire/json.ts';
import {
  emptyRequest,
  guestAttributesRequest,
  maintenanceInfo,
  node as nodeMessage,
  nodeNamesRequest,
  queuedResource as queuedMessage,
  reservation as reservationMessage,
  textOf,
  workersRequest,
  type Data,
} from '../../wire/messages.ts';
import { guestAttributesAt } from '../../world/guest-attributes.ts';
import { reservationData } from '../../world/limits.ts';
import { performMaintenance, simulateMaintenance } from '../../world/maintenance.ts';
import { deleteNode } from '../../world/node-lifecycle.ts';
import { checkZone, createNode, startNode, stopNode, updateNode } from '../../world/node-requests.ts';
import { nodeData } from '../../world/nodes.ts';
import { operationReply } from '../../world/operations.ts';
import {
  createQueued,
  deleteQueued,
  maintainQueued,
  maintenanceOf,
  queuedData,
  resetQueued,
} from '../../world/queued-resources.ts';
import type { NodeRecord, OperationRecord } from '../../world/records.ts';
import type { World } from '../../world/world.ts';
import { listReply, withRequestId, readMethods, requestedRecord, requestedZones } from './lists.ts';
import {
  alphaVersions,
  v2Versions,
  pageParameters,
  unknownParameter,
  type Call,
  type Method,
  type Methods,
  type Target,
} from './method.ts';

export const nodeMethods: Methods = {
  ...readMethods(
    'nodes',
    (world) => world.nodes,
    (node, writing) => encode(nodeMessage, nodeData(node), writing),
  ),
  'POST nodes': {
    versions: v2Versions,
    query: ['nodeId', 'requestId'],
    changes: true,
    answer(world, target, call, writing) {
      if (call.query['requestId'] !== undefined && call.version === 'v2') throw unknownParameter('requestId');
      return withRequestId(world, target, call, writing, () =>
        createNode(world, target, call.query['nodeId'], decode(nodeMessage, call.body ?? {}, call.version, 'node')),
      );
    },
  },
  'PATCH nodes/id': {
    versions: v2Versions,
    query: ['updateMask'],
    changes: true,
    answer(world, target, call, writing) {
      const body = decode(nodeMessage, call.body ?? {}, call.version, 'node');
      const node = requestedRecord(world, world.nodes, target);
      return operationReply(updateNode(world, call.version, node, body, call.query['updateMask']), writing);
    },
  },
  'DELETE nodes/id': {
    versions: v2Versions,
    query: ['requestId'],
    changes: true,
    answer(world, target, call, writing) {
      if (call.query['requestId'] !== undefined && call.version === 'v2') throw unknownParameter('requestId');
      return withRequestId(world, target, call, writing, () =>
        deleteNode(world, call.version, requestedRecord(world, world.nodes, target)),
      );
    },
  },
  'POST nodes/id:start': customNodeMethod((world, node, call) => startNode(world, call.version, node)),
  'POST nodes/id:stop': customNodeMethod((world, node, call) => stopNode(world, call.version, node)),
  'POST nodes/id:simulateMaintenanceEvent': {
    ...customNodeMethod((world, node, call, body) =>
      simulateMaintenance(world, call.version, node, (body['workerIds'] ?? []) as string[]),
    ),
    versions: alphaVersions,
  },
  'POST nodes/id:performMaintenance': {
    ...customNodeMethod((world, node, call) => performMaintenance(world, call.version, node)),
    versions: alphaVersions,
  },
  'POST nodes/id:getGuestAttributes': {
    versions: v2Versions,
    answer(world, target, call) {
      const body = decode(guestAttributesRequest, call.body ?? {}, call.version, '');
      const node = requestedRecord(world, world.nodes, target);
      const ids = ((body['workerIds'] ?? []) as string[]).filter((id) => id !== '');
      const workers = ids.length === 0 ? node.workers.map((worker) => String(worker.index)) : ids;
      const path = textOf(body, 'queryPath');
      return { guestAttributes: workers.map((id) => guestAttributes(node, id, path)) };
    },
  },
};

/** The nodes of API v1, which `gcloud compute tpus list` requests. Google no longer creates them, so there are none. */
export const legacyNodeMethods: Methods = {
  'GET nodes': {
    versions: ['v1'],
    query: pageParameters,
    answer(world, target) {
      requestedZones(world, target);
      return {};
    },
  },
  'POST nodes': {
    versions: ['v1'],
    query: ['nodeId', 'requestId'],
    answer(world) {
      throw cloudErrors.badRequest('TPU Nodes are not made any more; create a TPU VM (v2) instead.', world.eid());
    },
  },
  ...Object.fromEntries(
    ['GET nodes/id', 'DELETE nodes/id', 'POST nodes/id:start', 'POST nodes/id:stop', 'POST nodes/id:reimage'].map(
      (key) => [key, { versions: ['v1'], query: ['requestId'], answer: legacyNodeNotFound }],
    ),
  ),
};

function legacyNodeNotFound(world: World, target: Target): Data {
  checkZone(world, target.zone);
  throw cloudErrors.notFound(target.name);
}

function customNodeMethod(act: (world: World, node: NodeRecord, call: Call, body: Data) => OperationRecord): Method {
  return {
    versions: v2Versions,
    changes: true,
    answer(world, target, call, writing) {
      const body = decode(workersRequest, call.body ?? {}, call.version, '');
      return operationReply(act(world, requestedRecord(world, world.nodes, target), call, body), writing);
    },
  };
}

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

export const queuedMethods: Methods = {
  ...readMethods(
    'queuedResources',
    (world) => world.queued,
    (queued, writing) => encode(queuedMessage, queuedData(queued), writing),
  ),
  'POST queuedResources': {
    versions: v2Versions,
    query: ['queuedResourceId', 'requestId'],
    changes: true,
    answer: (world, target, call, writing) =>
      withRequestId(world, target, call, writing, () => {
        const body = decode(queuedMessage, call.body ?? {}, call.version, 'queued_resource');
        return createQueued(world, target, call.query['queuedResourceId'], body);
      }),
  },
  'DELETE queuedResources/id': {
    versions: v2Versions,
    query: ['force', 'requestId'],
    changes: true,
    answer: (world, target, call, writing) =>
      withRequestId(world, target, call, writing, () => {
        const force = call.query['force']?.toLowerCase() === 'true';
        return deleteQueued(world, call.version, requestedRecord(world, world.queued, target), force);
      }),
  },
  'POST queuedResources/id:reset': {
    versions: v2Versions,
    changes: true,
    answer(world, target, call, writing) {
      decode(emptyRequest, call.body ?? {}, call.version, '');
      return operationReply(resetQueued(world, call.version, requestedRecord(world, world.queued, target)), writing);
    },
  },
  'GET queuedResources/id:getMaintenanceInfo': {
    versions: alphaVersions,
    answer: (world, target, _call, writing) =>
      encode(maintenanceInfo, maintenanceOf(world, requestedRecord(world, world.queued, target)), writing),
  },
  'POST queuedResources/id:performMaintenanceQueuedResource': {
    versions: alphaVersions,
    changes: true,
    answer(world, target, call, writing) {
      const body = decode(nodeNamesRequest, call.body ?? {}, call.version, '');
      const queued = requestedRecord(world, world.queued, target);
      const names = (body['nodeNames'] ?? []) as string[];
      return operationReply(maintainQueued(world, call.version, queued, names), writing);
    },
  },
  'GET reservations': {
    versions: alphaVersions,
    query: pageParameters,
    answer: (world, target, call, writing) =>
      listReply(
        'reservations',
        reservationData(world, target.project, requestedZones(world, target)),
        call,
        (reservation) => encode(reservationMessage, reservation, writing),
      ),
  },
};
