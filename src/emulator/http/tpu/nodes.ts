// The methods of nodes, of queued resources, and of the nodes of the first API.

import { CloudError, texts } from '../../wire/errors.ts';
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
import { deleteNode } from '../../world/node-life.ts';
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
import { listReply, once, readMethods, recordAsked, zonesAsked } from './lists.ts';
import { alpha, both, page, unknownParameter, type Call, type Method, type Methods, type Target } from './method.ts';

export const nodeMethods: Methods = {
  ...readMethods(
    'nodes',
    (world) => world.nodes,
    (node, writing) => encode(nodeMessage, nodeData(node), writing),
  ),
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
      const node = recordAsked(world, world.nodes, target);
      return operationReply(updateNode(world, call.version, node, body, call.query['updateMask']), writing);
    },
  },
  'DELETE nodes/id': {
    versions: both,
    query: ['requestId'],
    changes: true,
    answer(world, target, call, writing) {
      if (call.query['requestId'] !== undefined && call.version === 'v2') throw unknownParameter('requestId');
      return once(world, target, call, writing, () =>
        deleteNode(world, call.version, recordAsked(world, world.nodes, target)),
      );
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
      const node = recordAsked(world, world.nodes, target);
      const ids = ((asked['workerIds'] ?? []) as string[]).filter((id) => id !== '');
      const workers = ids.length === 0 ? node.workers.map((worker) => String(worker.index)) : ids;
      const path = textOf(asked, 'queryPath');
      return { guestAttributes: workers.map((id) => guestAttributes(node, id, path)) };
    },
  },
};

/**
 * Nodes of the first API (TPU Nodes, a machine of the user's beside a TPU of Google's), which gcloud's oldest commands ask
 * for (`gcloud compute tpus list`). Google does not make them any more, so there are none.
 */
export const oldNodes: Methods = {
  'GET nodes': {
    versions: ['v1'],
    query: page,
    answer(world, target) {
      zonesAsked(world, target);
      return {};
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

function nodeVerb(act: (world: World, node: NodeRecord, call: Call, asked: Data) => OperationRecord): Method {
  return {
    versions: both,
    changes: true,
    answer(world, target, call, writing) {
      const asked = decode(workersRequest, call.body ?? {}, call.version, '');
      return operationReply(act(world, recordAsked(world, world.nodes, target), call, asked), writing);
    },
  };
}

/** The attributes of a worker that the query path means. */
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
        return deleteQueued(world, call.version, recordAsked(world, world.queued, target), force);
      }),
  },
  'POST queuedResources/id:reset': {
    versions: both,
    changes: true,
    answer(world, target, call, writing) {
      decode(emptyRequest, call.body ?? {}, call.version, '');
      return operationReply(resetQueued(world, call.version, recordAsked(world, world.queued, target)), writing);
    },
  },
  'GET queuedResources/id:getMaintenanceInfo': {
    versions: alpha,
    answer: (world, target, _call, writing) =>
      encode(maintenanceInfo, maintenanceOf(world, recordAsked(world, world.queued, target)), writing),
  },
  'POST queuedResources/id:performMaintenanceQueuedResource': {
    versions: alpha,
    changes: true,
    answer(world, target, call, writing) {
      const asked = decode(nodeNamesRequest, call.body ?? {}, call.version, '');
      const queued = recordAsked(world, world.queued, target);
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
};
