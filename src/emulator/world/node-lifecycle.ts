import { cloudErrors } from '../wire/errors.ts';
import type { ApiVersion, Data } from '../wire/messages.ts';
import { durationOf } from './options.ts';
import { changeNode, nodeData, nodeSubject, removeNode } from './nodes.ts';
import { beginOperation, failOperation, finishOperation } from './operations.ts';
import { queuedNodeFailed, queuedNodeReady, suspendQueued } from './queued-resources.ts';
import { isLive, type NodeRecord, type OperationRecord } from './records.ts';
import { pollInterval, findCondition, countUse } from './faults.ts';
import type { World } from './world.ts';

/** DELETE, in any state. The machines end at once; the name is free when the operation is done. */
export function deleteNode(world: World, version: ApiVersion, node: NodeRecord): OperationRecord {
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'delete' });
  removeNode(world, node, operation.name);
  if (node.queuedResource !== null && node.state !== 'DELETING')
    suspendQueued(world, node.queuedResource, 'USER', node);
  return operation;
}

export function preemptNode(world: World, node: NodeRecord): void {
  if (!isLive(node)) return;
  failOperation(world, node.operation, cloudErrors.wrongState('update', 'PREEMPTED', world.eid()).rpc());
  changeNode(world, node, { state: 'PREEMPTED', operation: null });
  if (node.queuedResource !== null) suspendQueued(world, node.queuedResource, 'SERVICE', node);
}

/** The end of a node's creation: held, failed, or READY. */
export function nodeReady(world: World, node: NodeRecord): void {
  if (node.state !== 'CREATING' && node.state !== 'STARTING') return;
  const subject = nodeSubject(node);
  if (findCondition(world, 'hold', subject) !== undefined) {
    world.schedule(pollInterval(world), { kind: 'node-ready', name: node.name, id: node.id });
    return;
  }
  const failure = findCondition(world, 'fail', subject);
  if (failure !== undefined) {
    countUse(world, failure);
    const code = Number(failure.options['code'] ?? 13);
    nodeFailed(world, node, { code, message: String(failure.options['message'] ?? cloudErrors.internal().message) });
    return;
  }
  const ready = changeNode(world, node, { state: 'READY', health: 'HEALTHY', operation: null });
  if (ready === undefined) return;
  finishOperation(world, node.operation, { kind: 'Node', data: nodeData(ready) });
  const scheduling = (ready.spec['schedulingConfig'] ?? {}) as Data;
  if (scheduling['preemptible'] === true) {
    world.schedule(durationOf(world, 'preemptibleAge'), { kind: 'node-max-age', name: node.name, id: node.id });
  }
  if (ready.queuedResource !== null) queuedNodeReady(world, ready.queuedResource);
}

/** The creation fails: the operation has the reason, and no node remains. */
export function nodeFailed(world: World, node: NodeRecord, error: NonNullable<OperationRecord['error']>): void {
  failOperation(world, node.operation, error);
  world.log(`${node.name} could not be created: ${error.message}`);
  if (node.queuedResource !== null) queuedNodeFailed(world, node.queuedResource, error);
  else world.nodes.remove(node.name);
}

/** `:cancel`, best effort: ends and removes a node that is being created. Other operations continue. */
export function cancelOperation(world: World, operation: OperationRecord): void {
  if (operation.endTime !== null) return;
  world.operations.put(operation.name, { ...operation, cancelRequested: true });
  const node = world.nodes.get(operation.target);
  if (operation.verb !== 'create' || node?.operation !== operation.name) return;
  failOperation(world, operation.name, { code: 1, message: 'The operation was cancelled.' });
  removeNode(world, node, null);
}
