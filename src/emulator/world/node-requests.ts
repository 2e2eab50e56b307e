// Requests about a node itself: to create, update, stop and start it. Rules: Google's pages on TPU VMs.

import { regionOf } from '../../catalogue/zones.ts';
import { camelCase } from '../wire/decode.ts';
import { badField, texts } from '../wire/errors.ts';
import type { ApiVersion, Data } from '../wire/messages.ts';
import { takes } from './durations.ts';
import { addressesExceeded, provisioningFailure, quotaExceeded, rateExceeded } from './limits.ts';
import { type Asked, checkLabels, checkNodeId, completeNode, withDiskMode } from './node-asked.ts';
import { addNode, changeNode, newAddress, nodeName, placeOfNode } from './nodes.ts';
import { beginOperation } from './operations.ts';
import { type NodeRecord, type OperationRecord, soundHost } from './records.ts';
import { placeOf, pricingOf, slowness } from './temper.ts';
import type { World } from './world.ts';

/** POST nodes: the operation that creates it. Most failures arrive in the operation, later. */
export function createNode(world: World, where: Asked, nodeId: string | undefined, body: Data): OperationRecord {
  checkNodeId(nodeId);
  const name = nodeName(where, nodeId);
  const { type, asked } = completeNode(world, where, body);
  if (world.nodes.get(name) !== undefined) throw texts.alreadyExists(name);
  const place = placeOf(where, type, asked, [name]);
  const soon = rateExceeded(world, place);
  if (soon !== undefined) throw soon;
  const over = quotaExceeded(world, place, 1);
  if (over !== undefined) throw texts.nodeQuota(over.name, over.limit, regionOf(where.zone));
  const refusal = provisioningFailure(world, place, asked, 1) ?? addressesExceeded(world, place, asked, 1);

  const operation = beginOperation(world, { ...where, target: name, verb: 'create' });
  const node = addNode(world, where, { nodeId, type, asked, queuedResource: null, multislice: false });
  world.nodes.put(name, { ...node, operation: operation.name });
  if (refusal === undefined) {
    world.later(takes(world, 'create') * slowness(world, place), { kind: 'node-ready', name, id: node.id });
  } else {
    world.later(takes(world, 'stockout'), { kind: 'node-failed', name, id: node.id, error: refusal.rpc() });
  }
  return operation;
}

/** PATCH. The change is there at once, as metadata is in earnest; the operation takes its time. */
export function updateNode(
  world: World,
  version: ApiVersion,
  node: NodeRecord,
  body: Data,
  updateMask: string | undefined,
): OperationRecord {
  const fields = (updateMask ?? '')
    .split(',')
    .map((field) => field.trim())
    .filter((field) => field !== '');
  if (fields.length === 0) throw badField('update_mask', 'The update_mask must name at least one field.');
  const asked: Data = { ...node.asked };
  for (const field of fields) {
    const path = field.split('.').map(camelCase).join('.');
    if (['description', 'tags', 'labels', 'metadata', 'dataDisks'].includes(path)) asked[path] = body[path];
    else if (path === 'networkConfig.enableExternalIps') {
      const given = (body['networkConfig'] ?? {}) as Data;
      asked['networkConfig'] = {
        ...(asked['networkConfig'] as Data | undefined),
        enableExternalIps: given['enableExternalIps'] === true,
      };
    } else throw badField('update_mask', `Invalid field '${field}' in update_mask: it cannot be updated.`);
  }
  if (node.state !== 'READY') throw texts.wrongState('update', node.state, world.eid());
  checkLabels(world, asked['labels']);
  if (Array.isArray(asked['dataDisks'])) asked['dataDisks'] = (asked['dataDisks'] as Data[]).map(withDiskMode);
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'update' });
  changeNode(world, node, { asked });
  world.later(takes(world, 'update'), { kind: 'operation-done', operation: operation.name });
  return operation;
}

/** `:stop`: single hosts only, and not what may be preempted. */
export function stopNode(world: World, version: ApiVersion, node: NodeRecord): OperationRecord {
  checkStoppable(world, node, 'stop');
  if (node.state !== 'READY') throw texts.wrongState('stop', node.state, world.eid());
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'stop' });
  changeNode(world, node, { state: 'STOPPING' });
  world.later(takes(world, 'stop'), { kind: 'node-stopped', name: node.name, id: node.id, operation: operation.name });
  return operation;
}

/** `:start` of a stopped node: new addresses, and capacity must be found again. */
export function startNode(world: World, version: ApiVersion, node: NodeRecord): OperationRecord {
  checkStoppable(world, node, 'start');
  if (node.state !== 'STOPPED') throw texts.wrongState('start', node.state, world.eid());
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'start' });
  const place = placeOfNode(node);
  const refusal = provisioningFailure(world, place, node.asked, 1);
  if (refusal !== undefined) {
    world.later(takes(world, 'stockout'), {
      kind: 'operation-failed',
      operation: operation.name,
      error: refusal.rpc(),
    });
    return operation;
  }
  changeNode(world, node, {
    state: 'STARTING',
    operation: operation.name,
    workers: node.workers.map((worker) => ({
      ...worker,
      address: newAddress(world),
      boot: worker.boot + 1,
      ...soundHost,
    })),
  });
  world.later(takes(world, 'stop') * slowness(world, place), { kind: 'node-ready', name: node.name, id: node.id });
  return operation;
}

function checkStoppable(world: World, node: NodeRecord, verb: string): void {
  if (node.workers.length > 1) {
    throw texts.badRequest(`${verb} is not supported for TPU slices with more than one VM.`, world.eid());
  }
  if (pricingOf(node.asked) === 'spot') {
    throw texts.badRequest(`${verb} is not supported for preemptible and spot TPU nodes.`, world.eid());
  }
}
