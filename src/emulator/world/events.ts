import { failOperation, finishOperation } from './operations.ts';
import { nodeFailed, nodeReady, preemptNode } from './node-lifecycle.ts';
import { restartNode } from './maintenance.ts';
import { changeNode, nodeData } from './nodes.ts';
import { clearHostFault, type World } from './world.ts';
import {
  queuedAccepted,
  queuedDeleted,
  tryProvision,
  queuedExpired,
  queuedReset,
  queuedSuspended,
} from './queued-resources.ts';
import { runScheduledFault } from './fault-schedule.ts';
import type { ScheduledEvent, NodeRecord, OperationRecord, QueuedResourceRecord } from './records.ts';

/** Time between two checks of whether a deleted node's processes have ended, in milliseconds. */
const downCheckMs = 20;

/** Handles one event. Does nothing when its node or queued resource no longer exists. */
export function handleEvent(world: World, event: ScheduledEvent): void {
  switch (event.kind) {
    case 'operation-done':
      finishOperation(world, event.operation, responseOf(world, event.operation));
      return;
    case 'operation-failed':
      failOperation(world, event.operation, event.error);
      return;
    case 'node-ready':
      return withNode(world, event, (node) => nodeReady(world, node));
    case 'node-failed':
      return withNode(world, event, (node) => nodeFailed(world, node, event.error));
    case 'node-preempted':
    case 'node-max-age':
      return withNode(world, event, (node) => preemptNode(world, node));
    case 'node-stopped':
      return withNode(world, event, (node) => {
        const stopped = changeNode(world, node, { state: 'STOPPED', health: null });
        if (stopped !== undefined) finishOperation(world, event.operation, { kind: 'Node', data: nodeData(stopped) });
      });
    case 'node-restarted':
      return withNode(world, event, (node) => {
        if (node.state !== 'REPAIRING' && node.state !== 'RESTARTING') return;
        const back = changeNode(world, node, { state: 'READY', health: 'HEALTHY', maintenance: null });
        if (back !== undefined) finishOperation(world, event.operation, { kind: 'Node', data: nodeData(back) });
      });
    case 'node-deleted': {
      const node = world.nodes.get(event.name);
      if (node !== undefined && node.id === event.id) {
        if (!world.isDown(node)) {
          world.schedule(downCheckMs, event);
          return;
        }
        world.nodes.remove(node.name);
        world.log(`${node.name} was deleted`);
      }
      finishOperation(world, event.operation, null);
      return;
    }
    case 'host-recovered':
      return withNode(world, event, (node) => clearHostFault(world, node, event.worker, event.fault));
    case 'queued-accepted':
      return withQueued(world, event, (queued) => queuedAccepted(world, queued, event.operation));
    case 'queued-provision':
      return withQueued(world, event, (queued) => tryProvision(world, queued));
    case 'queued-suspended':
      return withQueued(world, event, (queued) => queuedSuspended(world, queued, event.error));
    case 'queued-deleted':
      return withQueued(world, event, (queued) => queuedDeleted(world, queued, event.operation));
    case 'queued-expired':
      return withQueued(world, event, (queued) => queuedExpired(world, queued));
    case 'node-maintenance':
      return withNode(world, event, (node) => {
        // Skip maintenance that was performed earlier or announced again for a later time.
        const { maintenance } = node;
        if (maintenance?.status !== 'PENDING' || maintenance.from !== event.from) return;
        if (node.state === 'READY') restartNode(world, node, 'maintenance', null);
        else changeNode(world, node, { maintenance: null });
      });
    case 'scheduled-fault':
      return runScheduledFault(world, event);
    case 'queued-reset':
      return withQueued(world, event, (queued) => queuedReset(world, queued, event.operation));
  }
}

function withNode(world: World, what: { name: string; id: string }, then: (node: NodeRecord) => void): void {
  const node = world.nodes.get(what.name);
  if (node !== undefined && node.id === what.id) then(node);
}

function withQueued(
  world: World,
  what: { name: string; uid: string },
  then: (queued: QueuedResourceRecord) => void,
): void {
  const queued = world.queued.get(what.name);
  if (queued !== undefined && queued.uid === what.uid) then(queued);
}

/** An update returns the node as it is at the end of the operation. */
function responseOf(world: World, operation: string): OperationRecord['response'] {
  const node = world.nodes.get(world.operations.get(operation)?.target ?? '');
  return node === undefined ? null : { kind: 'Node', data: nodeData(node) };
}
