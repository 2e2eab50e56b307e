import type { Duration } from '../../core/model/time.ts';
import { cloudErrors } from '../wire/errors.ts';
import type { ApiVersion } from '../wire/messages.ts';
import { durationOf } from './options.ts';
import { changeNode } from './nodes.ts';
import { beginOperation } from './operations.ts';
import { type NodeRecord, type OperationRecord, healthyHost } from './records.ts';
import type { World } from './world.ts';

/** Every machine goes down and boots again with its disk. */
export function restartNode(
  world: World,
  node: NodeRecord,
  why: 'maintenance' | 'reset',
  operation: string | null,
): void {
  const length = durationOf(world, why);
  const now = world.now();
  const announced = node.maintenance?.type ?? 'UNSCHEDULED';
  changeNode(world, node, {
    ...(why === 'maintenance'
      ? { maintenance: { type: announced, from: now, to: now + length, status: 'ONGOING' } as const }
      : {}),
    state: why === 'maintenance' ? 'REPAIRING' : 'RESTARTING',
    health: why === 'maintenance' ? 'UNHEALTHY_MAINTENANCE' : node.health,
    workers: node.workers.map((worker) => ({ ...worker, boot: worker.boot + 1, ...healthyHost })),
  });
  world.schedule(length, { kind: 'node-restarted', name: node.name, id: node.id, operation });
}

/** The length of Google's maintenance window, in milliseconds of Google's time. */
const windowLength = 4 * 3_600_000;

/** Announces maintenance that begins in `notice` milliseconds, unless a client performs it earlier. */
export function announceMaintenance(world: World, node: NodeRecord, notice: Duration): void {
  const from = world.now() + notice;
  const to = from + Math.round(windowLength / world.speed);
  changeNode(world, node, { maintenance: { type: 'SCHEDULED', from, to, status: 'PENDING' } });
  world.schedule(notice, { kind: 'node-maintenance', name: node.name, id: node.id, from });
}

export function performMaintenance(world: World, version: ApiVersion, node: NodeRecord): OperationRecord {
  checkMaintainable(world, node);
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'update' });
  restartNode(world, node, 'maintenance', operation.name);
  return operation;
}

export function checkMaintainable(world: World, node: NodeRecord): void {
  if (node.state !== 'READY') throw cloudErrors.wrongState('maintenance', node.state, world.eid());
  if (node.maintenance?.status !== 'PENDING') throw cloudErrors.noMaintenance(node.name, world.eid());
}

/** `:simulateMaintenanceEvent`: maintenance as after a machine failure. It affects the whole slice. */
export function simulateMaintenance(
  world: World,
  version: ApiVersion,
  node: NodeRecord,
  workerIds: readonly string[],
): OperationRecord {
  for (const id of workerIds) {
    if (node.workers[Number(id)] === undefined)
      throw cloudErrors.badRequest(`There is no worker '${id}'.`, world.eid());
  }
  if (node.state !== 'READY') throw cloudErrors.wrongState('maintenance', node.state, world.eid());
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'update' });
  restartNode(world, node, 'maintenance', operation.name);
  return operation;
}
