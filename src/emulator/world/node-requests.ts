// Requests about a node itself: to create, update, stop and start it. Rules: Google's pages on TPU VMs.

import { accelerator as knownType, acceleratorByShape, type Accelerator } from '../../catalogue/accelerators.ts';
import { regionOf, zones, zonesOffering } from '../../catalogue/zones.ts';
import { badField, texts } from '../wire/errors.ts';
import { camelCase } from '../wire/json.ts';
import { textOf, type ApiVersion, type Data } from '../wire/messages.ts';
import { takes } from './options.ts';
import { addressesExceeded, provisioningFailure, quotaExceeded, rateExceeded } from './limits.ts';
import { addNode, changeNode, newAddress, nodeName, placeOfNode } from './nodes.ts';
import { beginOperation } from './operations.ts';
import { soundHost, type NodeRecord, type OperationRecord } from './records.ts';
import { placeOf, pricingOf, slowness } from './temper.ts';
import type { World } from './world.ts';

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
