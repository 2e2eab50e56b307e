// Nodes: what is asked, what is answered, and how they live and end. States and rules: facts/cloud-tpu.md section 3.

import type { Duration } from '../../core/time.ts';
import { type Accelerator, accelerator as knownType, acceleratorByShape } from '../../catalogue/accelerators.ts';
import { regionOf, zones, zonesOffering } from '../../catalogue/zones.ts';
import { newHostKey } from '../hosts/keys.ts';
import { badField, texts } from '../wire/errors.ts';
import { camelCase } from '../wire/decode.ts';
import { timestampText } from '../wire/encode.ts';
import { type ApiVersion, type Data, messageOf, textOf } from '../wire/messages.ts';
import { noteState } from './bill.ts';
import { beginOperation, failOperation } from './operations.ts';
import type { HostTrouble, NodeRecord, OperationRecord, WorkerRecord } from './records.ts';
import { addressesExceeded, provisioningFailure, quotaExceeded, rateExceeded } from './limits.ts';
import { type Place, placeOf, pricingOf, slowness } from './temper.ts';
import type { World } from './world.ts';

/** How long things take in Google's cloud, in milliseconds: facts/cloud-tpu.md section 16. */
const times = {
  create: [80_000, 120_000],
  stockout: [20_000, 60_000],
  remove: [30_000, 60_000],
  update: [2_000, 6_000],
  stop: [30_000, 60_000],
  reset: [200_000, 280_000],
  maintenance: [120_000, 240_000],
  // No source tells it for a TPU VM: what a virtual machine there takes from its own `reboot` until sshd answers.
  reboot: [30_000, 60_000],
  preemptibleAge: [24 * 3_600_000, 24 * 3_600_000],
} as const satisfies Record<string, readonly [Duration, Duration]>;

export function takes(world: World, what: keyof typeof times): Duration {
  const [atLeast, atMost] = times[what];
  return world.pace(atLeast, atMost);
}

/** Where something is asked for, and through which version of the API. */
export interface Asked {
  readonly version: ApiVersion;
  readonly project: string;
  readonly zone: string;
}

/** Fields that only the service sets: accepted in a body, as Google does, and not believed. */
const outputOnly = [
  'name',
  'state',
  'health',
  'healthDescription',
  'networkEndpoints',
  'createTime',
  'id',
  'apiVersion',
  'symptoms',
  'queuedResource',
  'multisliceNode',
  'upcomingMaintenance',
];

/** Checks what is asked for a node and completes it with the service's defaults. Throws CloudError. */
export function completeNode(world: World, where: Asked, body: Data): { type: string; asked: Data } {
  const { zone, project } = where;
  checkZone(world, zone);
  const asked: Data = Object.fromEntries(Object.entries(body).filter(([field]) => !outputOnly.includes(field)));
  const accelerator = acceleratorAsked(world, zone, asked);
  if (typeof asked['runtimeVersion'] !== 'string' || asked['runtimeVersion'] === '') {
    throw texts.badRequest('The runtime version must be specified.', world.eid());
  }
  if (asked['networkConfig'] !== undefined && Array.isArray(asked['networkConfigs'])) {
    throw texts.badRequest('Only one of network_config and network_configs may be specified.', world.eid());
  }
  if (textOf(asked, 'description').length > 512) {
    throw texts.badRequest('The description must be at most 512 characters long.', world.eid());
  }
  checkLabels(world, asked['labels']);
  const network = (given: Data): Data => ({
    ...given,
    network: fullName(project, 'global/networks', textOf(given, 'network') || 'default'),
    subnetwork: fullName(project, `regions/${regionOf(zone)}/subnetworks`, textOf(given, 'subnetwork') || 'default'),
  });
  if (Array.isArray(asked['networkConfigs']))
    asked['networkConfigs'] = (asked['networkConfigs'] as Data[]).map(network);
  else asked['networkConfig'] = network((asked['networkConfig'] ?? {}) as Data);
  const account = (asked['serviceAccount'] ?? {}) as Data;
  asked['serviceAccount'] = {
    email: account['email'] || `${projectNumber(project)}-compute@developer.gserviceaccount.com`,
    scope: account['scope'] ?? ['https://www.googleapis.com/auth/cloud-platform'],
  };
  if (Array.isArray(asked['dataDisks'])) asked['dataDisks'] = (asked['dataDisks'] as Data[]).map(withDiskMode);
  asked['acceleratorType'] = accelerator.type;
  asked['acceleratorConfig'] = { type: accelerator.generation.configType, topology: accelerator.topology };
  return { type: accelerator.type, asked };
}

/** READ_WRITE is what the API means when the mode is left out. */
const withDiskMode = (disk: Data): Data => ({ ...disk, mode: disk['mode'] ?? 'READ_WRITE' });

function acceleratorAsked(world: World, zone: string, asked: Data): Accelerator {
  const type = textOf(asked, 'acceleratorType');
  const config = asked['acceleratorConfig'] as Data | undefined;
  if (type === '' && !config) {
    throw texts.badRequest('One of accelerator_type and accelerator_config must be specified.', world.eid());
  }
  const shape = [textOf(config, 'type'), textOf(config, 'topology')] as const;
  const found = type === '' ? acceleratorByShape(...shape) : knownType(type);
  if (found === undefined || !zonesOffering(found).includes(zone)) {
    throw texts.typeNotInZone(type || shape.join(' '), zone, world.eid());
  }
  if (type === '' || !config) return found;
  const shaped = acceleratorByShape(...shape);
  if (shaped?.type !== found.type) {
    throw texts.badRequest('accelerator_type and accelerator_config do not agree.', world.eid());
  }
  return shaped;
}

export function checkZone(world: World, zone: string): void {
  if (!zones.includes(zone)) throw texts.zoneNotSupported(zone, world.eid());
}

function checkLabels(world: World, labels: unknown): void {
  for (const [key, value] of Object.entries((labels ?? {}) as Record<string, string>)) {
    if (!/^[a-z][a-z0-9_-]{0,62}$/.test(key) || !/^[a-z0-9_-]{0,63}$/.test(value)) {
      throw texts.badRequest(`The label '${key}' or its value '${value}' is not valid.`, world.eid());
    }
  }
}

function fullName(project: string, collection: string, name: string): string {
  return name.includes('/') ? name : `projects/${project}/${collection}/${name}`;
}

/** A stable twelve-digit number for a project, as Google gives each of its own. */
export function projectNumber(project: string): string {
  let hash = 7;
  for (const letter of project) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 900_000_000_000;
  return String(100_000_000_000 + hash);
}

/** The Compute rule for names, which a node id must follow. Throws CloudError. */
export function checkNodeId(nodeId: string | undefined): asserts nodeId is string {
  if (nodeId === undefined || !/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/.test(nodeId)) {
    throw badField(
      'node_id',
      `Invalid value at 'node_id', ${JSON.stringify(nodeId ?? '')}: it must start with a lower-case letter, followed by ` +
        'up to 62 lower-case letters, digits or hyphens, and must not end with a hyphen.',
    );
  }
}

export function nodeName(where: Asked, nodeId: string): string {
  return `projects/${where.project}/locations/${where.zone}/nodes/${nodeId}`;
}

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

export function findNode(world: World, name: string): NodeRecord {
  const node = world.nodes.get(name);
  if (node === undefined) throw texts.notFound(name);
  return node;
}

/** Ends a node's machines and takes it off later. A creation under way ends with an error. */
export function removeNode(world: World, node: NodeRecord, operation: string | null): void {
  failOperation(world, node.operation, { code: 10, message: 'The operation was aborted: the node is being deleted.' });
  changeNode(world, node, { state: 'DELETING', operation: null });
  world.later(takes(world, 'remove'), { kind: 'node-gone', name: node.name, id: node.id, operation });
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

export function placeOfNode(node: NodeRecord): Place {
  return placeOf(node, node.type, node.asked, [node.name, node.queuedResource]);
}

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

/** A worker with which nothing is the matter. A boot makes it so: the disk is emptied by whoever repairs the machine. */
const soundHost = { power: true, hung: false, diskFull: false, sshRefused: false, rebooting: false } as const;

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
