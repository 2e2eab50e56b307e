// The workers of a node: their troubles, and reboots by their own command.

import { takes } from './durations.ts';
import { changeNode, workerHostName } from './nodes.ts';
import { type HostTrouble, type NodeRecord, soundHost, type WorkerRecord } from './records.ts';
import type { World } from './world.ts';

/** Ends one trouble of a worker, or all. One that had no power boots; nothing happens to one that had no such trouble. */
export function endTrouble(world: World, node: NodeRecord, index: number, trouble: HostTrouble | undefined): void {
  const worker = node.workers[index];
  if (worker === undefined) return;
  const boots = !worker.power && (trouble === undefined || trouble === 'power');
  changeWorker(world, node, index, {
    ...(trouble === undefined ? soundHost : { [trouble]: soundHost[trouble] }),
    ...(boots ? { boot: worker.boot + 1 } : {}),
  });
}

/**
 * A machine begins again by its own command. To the cloud that is nothing: the node stays READY, and what is the matter with
 * the machine stays so. The node must be as the world has it now.
 */
export function rebootWorker(world: World, node: NodeRecord, index: number): void {
  const worker = node.workers[index];
  if (worker === undefined || node.state !== 'READY' || !worker.power || worker.rebooting === true) return;
  changeWorker(world, node, index, { boot: worker.boot + 1, rebooting: true });
  const back = { name: node.name, id: node.id, worker: index, trouble: 'rebooting' } as const;
  world.later(takes(world, 'reboot'), { kind: 'host-back', ...back });
  world.log(`${workerHostName(node, index)} reboots`);
}

/** Changes one worker of a node. */
export function changeWorker(world: World, node: NodeRecord, index: number, change: Partial<WorkerRecord>): void {
  changeNode(world, node, {
    workers: node.workers.map((worker) => (worker.index === index ? { ...worker, ...change } : worker)),
  });
}
