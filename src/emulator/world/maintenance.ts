// Maintenance and resets of a node: all its machines go down and come up again.

import type { Duration } from '../../core/time.ts';
import { texts } from '../wire/errors.ts';
import type { ApiVersion } from '../wire/messages.ts';
import { takes } from './options.ts';
import { changeNode } from './nodes.ts';
import { beginOperation } from './operations.ts';
import { type NodeRecord, type OperationRecord, soundHost } from './records.ts';
import type { World } from './world.ts';

/** Maintenance or a reset: every machine goes down and comes up again with its disk. */
export function restartNode(
  world: World,
  node: NodeRecord,
  why: 'maintenance' | 'reset',
  operation: string | null,
): void {
  const length = takes(world, why);
  const now = world.now();
  const announced = node.maintenance?.type ?? 'UNSCHEDULED';
  changeNode(world, node, {
    ...(why === 'maintenance'
      ? { maintenance: { type: announced, from: now, to: now + length, status: 'ONGOING' } as const }
      : {}),
    state: why === 'maintenance' ? 'REPAIRING' : 'RESTARTING',
    health: why === 'maintenance' ? 'UNHEALTHY_MAINTENANCE' : node.health,
    workers: node.workers.map((worker) => ({ ...worker, boot: worker.boot + 1, ...soundHost })),
  });
  world.later(length, { kind: 'node-back', name: node.name, id: node.id, operation });
}

/** The window that Google keeps free for maintenance that it announced, in milliseconds of its own time. */
const windowLength = 4 * 3_600_000;

/** Announces maintenance that begins so many milliseconds from now, unless somebody performs it before. */
export function announceMaintenance(world: World, node: NodeRecord, notice: Duration): void {
  const from = world.now() + notice;
  const to = from + Math.round(windowLength / world.speed);
  changeNode(world, node, { maintenance: { type: 'SCHEDULED', from, to, status: 'PENDING' } });
  world.later(notice, { kind: 'node-maintained', name: node.name, id: node.id, from });
}

/** `:performMaintenance`: what was announced is done now. */
export function performMaintenance(world: World, version: ApiVersion, node: NodeRecord): OperationRecord {
  checkMaintainable(world, node);
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'update' });
  restartNode(world, node, 'maintenance', operation.name);
  return operation;
}

/** Throws CloudError unless maintenance of the node was announced and has not begun. */
export function checkMaintainable(world: World, node: NodeRecord): void {
  if (node.state !== 'READY') throw texts.wrongState('maintenance', node.state, world.eid());
  if (node.maintenance?.status !== 'PENDING') throw texts.noMaintenance(node.name, world.eid());
}

/** `:simulateMaintenanceEvent`: as if a machine under it had failed. A slice goes down as a whole. */
export function simulateMaintenance(
  world: World,
  version: ApiVersion,
  node: NodeRecord,
  workerIds: readonly string[],
): OperationRecord {
  for (const id of workerIds) {
    if (node.workers[Number(id)] === undefined) throw texts.badRequest(`There is no worker '${id}'.`, world.eid());
  }
  if (node.state !== 'READY') throw texts.wrongState('maintenance', node.state, world.eid());
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'update' });
  restartNode(world, node, 'maintenance', operation.name);
  return operation;
}
