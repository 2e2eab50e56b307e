// Nodes as records: made, changed, removed, and written as a message.

import { accelerator as knownType } from '../../catalogue/accelerators.ts';
import { newHostKey } from '../hosts/keys.ts';
import { timestampText } from '../wire/json.ts';
import { type Data, messageOf, textOf } from '../wire/messages.ts';
import { takes } from './options.ts';
import { noteState } from './bill.ts';
import type { Asked } from './node-requests.ts';
import { failOperation } from './operations.ts';
import { type NodeRecord, soundHost, type WorkerRecord } from './records.ts';
import { type Place, placeOf } from './temper.ts';
import type { World } from './world.ts';

export function nodeName(where: Asked, nodeId: string): string {
  return `projects/${where.project}/locations/${where.zone}/nodes/${nodeId}`;
}

/** Puts a node into the world, CREATING. The caller puts what follows on the agenda. */
export function addNode(
  world: World,
  where: Asked,
  what: {
    readonly nodeId: string;
    readonly type: string;
    readonly asked: Data;
    readonly queuedResource: string | null;
    readonly multislice: boolean;
  },
): NodeRecord {
  const count = knownType(what.type)?.workers ?? 1;
  const node: NodeRecord = {
    ...where,
    ...what,
    name: nodeName(where, what.nodeId),
    id: `${String(world.chance.between(1, 8))}${decimalDigits(world, 18)}`,
    createTime: world.now(),
    state: 'CREATING',
    health: null,
    hostHash: world.chance.hex(8),
    workers: Array.from({ length: count }, (_, index) => newWorker(world, index)),
    operation: null,
  };
  world.nodes.put(node.name, node);
  return node;
}

function newWorker(world: World, index: number): WorkerRecord {
  const key = newHostKey();
  return {
    index,
    address: newAddress(world),
    hostKey: key.privateKey,
    hostKeyPublic: key.publicBlob,
    boot: 1,
    ...soundHost,
  };
}

/** The next loopback address that no node has. Addresses go round slowly, so that an old one is not met again soon. */
export function newAddress(world: World): string {
  const taken = new Set(world.nodes.values().flatMap((node) => node.workers.map((worker) => worker.address)));
  const { octet, nextAddress } = world.general();
  let number = nextAddress;
  for (;;) {
    if (number > 0xfffe) number = 2;
    const address = `127.${String(octet)}.${String(number >> 8)}.${String(number & 0xff)}`;
    number += 1;
    if (taken.has(address)) continue;
    world.setGeneral({ nextAddress: number });
    return address;
  }
}

function decimalDigits(world: World, count: number): string {
  return Array.from({ length: count }, () => String(world.chance.between(0, 9))).join('');
}

/** Changes a node that is still the same one; the new record, or undefined when it is gone or another. */
export function changeNode(world: World, node: NodeRecord, change: Partial<NodeRecord>): NodeRecord | undefined {
  const current = world.nodes.get(node.name);
  if (current === undefined || current.id !== node.id) return undefined;
  const next = { ...current, ...change };
  world.nodes.put(next.name, next);
  if (next.state !== current.state) {
    noteState(world, current, next);
    world.log(`${next.name} is ${next.state}`);
  }
  return next;
}

/** Ends a node's machines and takes it off later. A creation under way ends with an error. */
export function removeNode(world: World, node: NodeRecord, operation: string | null): void {
  failOperation(world, node.operation, { code: 10, message: 'The operation was aborted: the node is being deleted.' });
  changeNode(world, node, { state: 'DELETING', operation: null });
  world.later(takes(world, 'remove'), { kind: 'node-gone', name: node.name, id: node.id, operation });
}

export function placeOfNode(node: NodeRecord): Place {
  return placeOf(node, node.type, node.asked, [node.name, node.queuedResource]);
}

/** The maintenance as a message; null when there is none. Until it begins, the user may have it earlier. */
export function maintenanceData(node: NodeRecord): Data | null {
  const { maintenance } = node;
  if (maintenance === undefined || maintenance === null) return null;
  return {
    type: maintenance.type,
    canReschedule: maintenance.type === 'SCHEDULED' && maintenance.status === 'PENDING',
    windowStartTime: timestampText(maintenance.from),
    windowEndTime: timestampText(maintenance.to),
    latestWindowStartTime: timestampText(maintenance.from),
    maintenanceStatus: maintenance.status,
  };
}

/** The node as a message; timestamps as text, enums as text, defaults left for the writer to drop. */
export function nodeData(node: NodeRecord): Data {
  const networks = (node.asked['networkConfigs'] ?? [node.asked['networkConfig'] ?? {}]) as Data[];
  const external = networks[0]?.['enableExternalIps'] === true;
  const hasAddresses = node.state !== 'CREATING';
  return {
    ...node.asked,
    name: node.name,
    id: node.id,
    state: node.state,
    health: node.health,
    createTime: timestampText(node.createTime),
    cidrBlock: `127.${node.workers[0]?.address.split('.')[1] ?? '77'}.0.0/16`,
    apiVersion: node.version === 'v2alpha1' ? 'V2_ALPHA1' : 'V2',
    queuedResource: node.queuedResource,
    multisliceNode: node.multislice,
    upcomingMaintenance: maintenanceData(node),
    networkEndpoints: hasAddresses
      ? node.workers.map((worker) => ({
          ipAddress: worker.address,
          port: 8470,
          ...(external ? { accessConfig: { externalIp: worker.address } } : {}),
        }))
      : [],
  };
}

/** The `ssh-keys` that count on a node's workers: those of its own metadata and those of its project. */
export function sshKeysOf(world: World, node: NodeRecord): string {
  const ofProject = world.projects.get(node.project)?.items.find(({ key }) => key === 'ssh-keys')?.value ?? '';
  return `${textOf(messageOf(node.asked, 'metadata'), 'ssh-keys')}\n${ofProject}`;
}

/** `t1v-n-<8 hex>-w-<i>`, the name that a worker gives itself. */
export function workerHostName(node: NodeRecord, index: number): string {
  return `t1v-n-${node.hostHash}-w-${String(index)}`;
}
