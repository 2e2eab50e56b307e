// The life of a node and, with it, of the queued resource that made it.

import { texts } from '../wire/errors.ts';
import type { ApiVersion, Data } from '../wire/messages.ts';
import { takes } from './options.ts';
import { changeNode, nodeData, placeOfNode, removeNode } from './nodes.ts';
import { beginOperation, failOperation, finishOperation } from './operations.ts';
import { nodeOfQueuedFailed, nodeOfQueuedReady, suspendQueued } from './queued-resources.ts';
import { isLiving, type NodeRecord, type OperationRecord } from './records.ts';
import { lookEvery, strikes, useUp } from './temper.ts';
import type { World } from './world.ts';

/** DELETE: in any state. The machines end at once, the name is free when the operation is done. */
export function deleteNode(world: World, version: ApiVersion, node: NodeRecord): OperationRecord {
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'delete' });
  removeNode(world, node, operation.name);
  if (node.queuedResource !== null && node.state !== 'DELETING')
    suspendQueued(world, node.queuedResource, 'USER', node);
  return operation;
}

/** The cloud takes a node away. In a queued resource the whole of it is suspended. */
export function preemptNode(world: World, node: NodeRecord): void {
  if (!isLiving(node)) return;
  failOperation(world, node.operation, texts.wrongState('update', 'PREEMPTED', world.eid()).rpc());
  changeNode(world, node, { state: 'PREEMPTED', operation: null });
  if (node.queuedResource !== null) suspendQueued(world, node.queuedResource, 'SERVICE', node);
}

/** A node's creation has come to its end: held, failed, or READY. */
export function nodeReady(world: World, node: NodeRecord): void {
  if (node.state !== 'CREATING' && node.state !== 'STARTING') return;
  const place = placeOfNode(node);
  if (strikes(world, 'hold', place) !== undefined) {
    world.later(lookEvery(world), { kind: 'node-ready', name: node.name, id: node.id });
    return;
  }
  const failure = strikes(world, 'fail', place);
  if (failure !== undefined) {
    useUp(world, failure);
    const code = Number(failure.options['code'] ?? 13);
    nodeFailed(world, node, { code, message: String(failure.options['message'] ?? texts.internal().message) });
    return;
  }
  const ready = changeNode(world, node, { state: 'READY', health: 'HEALTHY', operation: null });
  if (ready === undefined) return;
  finishOperation(world, node.operation, { kind: 'Node', data: nodeData(ready) });
  const scheduling = (ready.asked['schedulingConfig'] ?? {}) as Data;
  if (scheduling['preemptible'] === true) {
    world.later(takes(world, 'preemptibleAge'), { kind: 'node-aged', name: node.name, id: node.id });
  }
  if (ready.queuedResource !== null) nodeOfQueuedReady(world, ready.queuedResource);
}

/** A node cannot be made: the operation says why, and nothing is left of it. */
export function nodeFailed(world: World, node: NodeRecord, error: NonNullable<OperationRecord['error']>): void {
  failOperation(world, node.operation, error);
  world.log(`${node.name} could not be made: ${error.message}`);
  if (node.queuedResource !== null) nodeOfQueuedFailed(world, node.queuedResource, error);
  else world.nodes.remove(node.name);
}

/**
 * `:cancel`, which promises nothing: the creation of a node ends and leaves none; anything else goes on, and its operation
 * says that this was asked.
 */
export function cancelOperation(world: World, operation: OperationRecord): void {
  if (operation.endTime !== null) return;
  world.operations.put(operation.name, { ...operation, cancelRequested: true });
  const node = world.nodes.get(operation.target);
  if (operation.verb !== 'create' || node?.operation !== operation.name) return;
  failOperation(world, operation.name, { code: 1, message: 'The operation was cancelled.' });
  removeNode(world, node, null);
}
