// Happenings that are due happen here: one switch over all that can be on the agenda.

import { failOperation, finishOperation } from './operations.ts';
import { nodeFailed, nodeReady, preemptNode } from './node-life.ts';
import { restartNode } from './maintenance.ts';
import { changeNode, nodeData } from './nodes.ts';
import { endTrouble, type World } from './world.ts';
import { queuedAccepted, queuedGone, queuedLook, queuedOver, queuedReset, queuedSettled } from './queued-resources.ts';
import { rehearse } from './rehearsal.ts';
import type { Happening, NodeRecord, OperationRecord, QueuedRecord } from './records.ts';

/** A node may be gone only when its processes are; until then it is asked again this often. */
const downAgainMs = 20;

/** Lets one thing happen. What it was about may be gone or be another by now: then nothing happens. */
export function happen(world: World, what: Happening): void {
  switch (what.kind) {
    case 'operation-done':
      finishOperation(world, what.operation, responseOf(world, what.operation));
      return;
    case 'operation-failed':
      failOperation(world, what.operation, what.error);
      return;
    case 'node-ready':
      return withNode(world, what, (node) => nodeReady(world, node));
    case 'node-failed':
      return withNode(world, what, (node) => nodeFailed(world, node, what.error));
    case 'node-preempted':
    case 'node-aged':
      return withNode(world, what, (node) => preemptNode(world, node));
    case 'node-stopped':
      return withNode(world, what, (node) => {
        const stopped = changeNode(world, node, { state: 'STOPPED', health: null });
        if (stopped !== undefined) finishOperation(world, what.operation, { kind: 'Node', data: nodeData(stopped) });
      });
    case 'node-back':
      return withNode(world, what, (node) => {
        if (node.state !== 'REPAIRING' && node.state !== 'RESTARTING') return;
        const back = changeNode(world, node, { state: 'READY', health: 'HEALTHY', maintenance: null });
        if (back !== undefined) finishOperation(world, what.operation, { kind: 'Node', data: nodeData(back) });
      });
    case 'node-gone': {
      const node = world.nodes.get(what.name);
      if (node !== undefined && node.id === what.id) {
        if (!world.isDown(node)) {
          world.later(downAgainMs, what);
          return;
        }
        world.nodes.remove(node.name);
        world.log(`${node.name} is gone`);
      }
      finishOperation(world, what.operation, null);
      return;
    }
    case 'host-back':
      return withNode(world, what, (node) => endTrouble(world, node, what.worker, what.trouble));
    case 'queued-accepted':
      return withQueued(world, what, (queued) => queuedAccepted(world, queued, what.operation));
    case 'queued-look':
      return withQueued(world, what, (queued) => queuedLook(world, queued));
    case 'queued-settled':
      return withQueued(world, what, (queued) => queuedSettled(world, queued, what.error));
    case 'queued-gone':
      return withQueued(world, what, (queued) => queuedGone(world, queued, what.operation));
    case 'queued-over':
      return withQueued(world, what, (queued) => queuedOver(world, queued));
    case 'node-maintained':
      return withNode(world, what, (node) => {
        // Maintenance that was performed earlier, or announced anew for later, is not done twice.
        const { maintenance } = node;
        if (maintenance?.status !== 'PENDING' || maintenance.from !== what.from) return;
        if (node.state === 'READY') restartNode(world, node, 'maintenance', null);
        else changeNode(world, node, { maintenance: null });
      });
    case 'rehearsal':
      return rehearse(world, what);
    case 'queued-reset':
      return withQueued(world, what, (queued) => queuedReset(world, queued, what.operation));
  }
}

function withNode(world: World, what: { name: string; id: string }, then: (node: NodeRecord) => void): void {
  const node = world.nodes.get(what.name);
  if (node !== undefined && node.id === what.id) then(node);
}

function withQueued(world: World, what: { name: string; uid: string }, then: (queued: QueuedRecord) => void): void {
  const queued = world.queued.get(what.name);
  if (queued !== undefined && queued.uid === what.uid) then(queued);
}

/** An update answers with the node as it is when the operation ends. */
function responseOf(world: World, operation: string): OperationRecord['response'] {
  const node = world.nodes.get(world.operations.get(operation)?.target ?? '');
  return node === undefined ? null : { kind: 'Node', data: nodeData(node) };
}
