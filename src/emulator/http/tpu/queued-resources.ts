// The methods of queued resources, and of the reservations that they may name.

import { decode } from '../../wire/decode.ts';
import { encode } from '../../wire/encode.ts';
import {
  emptyRequest,
  maintenanceInfo,
  nodeNamesRequest,
  queuedResource as queuedMessage,
  reservation as reservationMessage,
} from '../../wire/messages.ts';
import { operationReply } from '../../world/operations.ts';
import {
  createQueued,
  deleteQueued,
  maintainQueued,
  maintenanceOf,
  queuedData,
  resetQueued,
} from '../../world/queued-resources.ts';
import { reservationData } from '../../world/reservations.ts';
import { listReply, readMethods, recordAsked, zonesAsked } from './lists.ts';
import { alpha, both, type Methods, page } from './method.ts';
import { once } from './operations.ts';

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
