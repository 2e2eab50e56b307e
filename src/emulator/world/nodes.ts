import { findAccelerator as knownType } from '../../catalogue/accelerators.ts';
import { newHostKey } from '../hosts/keys.ts';
import { formatTimestamp } from '../wire/json.ts';
import { type Data, messageOf, textOf } from '../wire/messages.ts';
import { durationOf } from './options.ts';
import { updateBill } from './bill.ts';
import type { RequestScope } from './node-requests.ts';
import { failOperation } from './operations.ts';
import { type NodeRecord, healthyHost, type WorkerRecord } from './records.ts';
import { type FaultSubject, subjectOf } from './faults.ts';
import type { World } from './world.ts';

export function nodeName(scope: RequestScope, nodeId: string): string {
  return `projects/${scope.project}/locations/${scope.zone}/nodes/${nodeId}`;
}

/** Adds a node in state CREATING. The caller schedules the next event. */
export function addNode(
  world: World,
  scope: RequestScope,
  what: {
    readonly nodeId: string;
    readonly type: string;
    readonly spec: Data;
    readonly queuedResource: string | null;
    readonly multislice: boolean;
  },
): NodeRecord {
  const count = knownType(what.type)?.workers ?? 1;
  const node: NodeRecord = {
    ...scope,
    ...what,
    name: nodeName(scope, what.nodeId),
    id: `${String(world.random.between(1, 8))}${decimalDigits(world, 18)}`,
    createTime: world.now(),
    state: 'CREATING',
    health: null,
    hostHash: world.random.hex(8),
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
    ...healthyHost,
  };
}

/** The next free loopback address. Cycles through the range, so that an old address is not reused soon. */
export function newAddress(world: World): string {
  const taken = new Set(world.nodes.values().flatMap((node) => node.workers.map((worker) => worker.address)));
  const { octet, nextAddress } = world.globals();
  let number = nextAddress;
  for (;;) {
    if (number > 0xfffe) number = 2;
    const address = `127.${String(octet)}.${String(number >> 8)}.${String(number & 0xff)}`;
    number += 1;
    if (taken.has(address)) continue;
    world.setGlobals({ nextAddress: number });
    return address;
  }
}

function decimalDigits(world: World, count: number): string {
  return Array.from({ length: count }, () => String(world.random.between(0, 9))).join('');
}

/** Returns undefined when the node no longer exists. */
export function changeNode(world: World, node: NodeRecord, change: Partial<NodeRecord>): NodeRecord | undefined {
  const current = world.nodes.get(node.name);
  if (current === undefined || current.id !== node.id) return undefined;
  const next = { ...current, ...change };
  world.nodes.put(next.name, next);
  if (next.state !== current.state) {
    updateBill(world, current, next);
    world.log(`${next.name} is ${next.state}`);
  }
  return next;
}

/** Ends a node's machines and schedules its removal. A creation in progress fails. */
export function removeNode(world: World, node: NodeRecord, operation: string | null): void {
  failOperation(world, node.operation, { code: 10, message: 'The operation was aborted: the node is being deleted.' });
  changeNode(world, node, { state: 'DELETING', operation: null });
  world.schedule(durationOf(world, 'remove'), { kind: 'node-deleted', name: node.name, id: node.id, operation });
}

export function nodeSubject(node: NodeRecord): FaultSubject {
  return subjectOf(node, node.type, node.spec, [node.name, node.queuedResource]);
}

/** The maintenance as a message, or null. Scheduled maintenance can be performed earlier until it begins. */
export function maintenanceData(node: NodeRecord): Data | null {
  const { maintenance } = node;
  if (maintenance === undefined || maintenance === null) return null;
  return {
    type: maintenance.type,
    canReschedule: maintenance.type === 'SCHEDULED' && maintenance.status === 'PENDING',
    windowStartTime: formatTimestamp(maintenance.from),
    windowEndTime: formatTimestamp(maintenance.to),
    latestWindowStartTime: formatTimestamp(maintenance.from),
    maintenanceStatus: maintenance.status,
  };
}

export function nodeData(node: NodeRecord): Data {
  const networks = (node.spec['networkConfigs'] ?? [node.spec['networkConfig'] ?? {}]) as Data[];
  const external = networks[0]?.['enableExternalIps'] === true;
  const hasAddresses = node.state !== 'CREATING';
  return {
    ...node.spec,
    name: node.name,
    id: node.id,
    state: node.state,
    health: node.health,
    createTime: formatTimestamp(node.createTime),
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

export function sshKeysOf(world: World, node: NodeRecord): string {
  const ofProject = world.projects.get(node.project)?.items.find(({ key }) => key === 'ssh-keys')?.value ?? '';
  return `${textOf(messageOf(node.spec, 'metadata'), 'ssh-keys')}\n${ofProject}`;
}

/** `t1v-n-<8 hex>-w-<i>`, the worker's own host name. */
export function workerHostName(node: NodeRecord, index: number): string {
  return `t1v-n-${node.hostHash}-w-${String(index)}`;
}
