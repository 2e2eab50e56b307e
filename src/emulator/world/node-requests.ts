// Requests to create, update, stop and start a node. The rules are on Google's pages about TPU VMs.

import { findAccelerator as knownType, acceleratorOfTopology, type Accelerator } from '../../catalogue/accelerators.ts';
import { regionOf, zones, zonesOffering } from '../../catalogue/zones.ts';
import { invalidField, cloudErrors } from '../wire/errors.ts';
import { camelCase } from '../wire/json.ts';
import { textOf, type ApiVersion, type Data } from '../wire/messages.ts';
import { durationOf } from './options.ts';
import { addressesExceeded, provisioningFailure, quotaExceeded, rateExceeded } from './limits.ts';
import { addNode, changeNode, newAddress, nodeName, nodeSubject } from './nodes.ts';
import { beginOperation } from './operations.ts';
import { healthyHost, type NodeRecord, type OperationRecord } from './records.ts';
import { subjectOf, pricingOf, slowFactor } from './faults.ts';
import type { World } from './world.ts';

export interface RequestScope {
  readonly version: ApiVersion;
  readonly project: string;
  readonly zone: string;
}

/** Fields that only the service sets. As at Google, a request may contain them, and they are ignored. */
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

export function completeNode(world: World, scope: RequestScope, body: Data): { type: string; spec: Data } {
  const { zone, project } = scope;
  checkZone(world, zone);
  const spec: Data = Object.fromEntries(Object.entries(body).filter(([field]) => !outputOnly.includes(field)));
  const accelerator = requestedAccelerator(world, zone, spec);
  if (typeof spec['runtimeVersion'] !== 'string' || spec['runtimeVersion'] === '') {
    throw cloudErrors.badRequest('The runtime version must be specified.', world.eid());
  }
  if (spec['networkConfig'] !== undefined && Array.isArray(spec['networkConfigs'])) {
    throw cloudErrors.badRequest('Only one of network_config and network_configs may be specified.', world.eid());
  }
  if (textOf(spec, 'description').length > 512) {
    throw cloudErrors.badRequest('The description must be at most 512 characters long.', world.eid());
  }
  checkLabels(world, spec['labels']);
  const network = (given: Data): Data => ({
    ...given,
    network: fullName(project, 'global/networks', textOf(given, 'network') || 'default'),
    subnetwork: fullName(project, `regions/${regionOf(zone)}/subnetworks`, textOf(given, 'subnetwork') || 'default'),
  });
  if (Array.isArray(spec['networkConfigs'])) spec['networkConfigs'] = (spec['networkConfigs'] as Data[]).map(network);
  else spec['networkConfig'] = network((spec['networkConfig'] ?? {}) as Data);
  const account = (spec['serviceAccount'] ?? {}) as Data;
  spec['serviceAccount'] = {
    email: account['email'] || `${projectNumber(project)}-compute@developer.gserviceaccount.com`,
    scope: account['scope'] ?? ['https://www.googleapis.com/auth/cloud-platform'],
  };
  if (Array.isArray(spec['dataDisks'])) spec['dataDisks'] = (spec['dataDisks'] as Data[]).map(withDiskMode);
  spec['acceleratorType'] = accelerator.type;
  spec['acceleratorConfig'] = { type: accelerator.generation.configType, topology: accelerator.topology };
  return { type: accelerator.type, spec };
}

const withDiskMode = (disk: Data): Data => ({ ...disk, mode: disk['mode'] ?? 'READ_WRITE' });

function requestedAccelerator(world: World, zone: string, spec: Data): Accelerator {
  const type = textOf(spec, 'acceleratorType');
  const config = spec['acceleratorConfig'] as Data | undefined;
  if (type === '' && !config) {
    throw cloudErrors.badRequest('One of accelerator_type and accelerator_config must be specified.', world.eid());
  }
  const shape = [textOf(config, 'type'), textOf(config, 'topology')] as const;
  const found = type === '' ? acceleratorOfTopology(...shape) : knownType(type);
  if (found === undefined || !zonesOffering(found).includes(zone)) {
    throw cloudErrors.typeNotInZone(type || shape.join(' '), zone, world.eid());
  }
  if (type === '' || !config) return found;
  const shaped = acceleratorOfTopology(...shape);
  if (shaped?.type !== found.type) {
    throw cloudErrors.badRequest('accelerator_type and accelerator_config do not agree.', world.eid());
  }
  return shaped;
}

export function checkZone(world: World, zone: string): void {
  if (!zones.includes(zone)) throw cloudErrors.zoneNotSupported(zone, world.eid());
}

function checkLabels(world: World, labels: unknown): void {
  for (const [key, value] of Object.entries((labels ?? {}) as Record<string, string>)) {
    if (!/^[a-z][a-z0-9_-]{0,62}$/.test(key) || !/^[a-z0-9_-]{0,63}$/.test(value)) {
      throw cloudErrors.badRequest(`The label '${key}' or its value '${value}' is not valid.`, world.eid());
    }
  }
}

function fullName(project: string, collection: string, name: string): string {
  return name.includes('/') ? name : `projects/${project}/${collection}/${name}`;
}

/** A stable twelve-digit project number. */
export function projectNumber(project: string): string {
  let hash = 7;
  for (const letter of project) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 900_000_000_000;
  return String(100_000_000_000 + hash);
}

export function checkNodeId(nodeId: string | undefined): asserts nodeId is string {
  if (nodeId === undefined || !/^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$/.test(nodeId)) {
    throw invalidField(
      'node_id',
      `Invalid value at 'node_id', ${JSON.stringify(nodeId ?? '')}: it must start with a lower-case letter, followed by ` +
        'up to 62 lower-case letters, digits or hyphens, and must not end with a hyphen.',
    );
  }
}

/** POST nodes. Most failures arrive later, in the operation. */
export function createNode(world: World, scope: RequestScope, nodeId: string | undefined, body: Data): OperationRecord {
  checkNodeId(nodeId);
  const name = nodeName(scope, nodeId);
  const { type, spec } = completeNode(world, scope, body);
  if (world.nodes.get(name) !== undefined) throw cloudErrors.alreadyExists(name);
  const subject = subjectOf(scope, type, spec, [name]);
  const rateError = rateExceeded(world, subject);
  if (rateError !== undefined) throw rateError;
  const exceededQuota = quotaExceeded(world, subject, 1);
  if (exceededQuota !== undefined)
    throw cloudErrors.nodeQuota(exceededQuota.name, exceededQuota.limit, regionOf(scope.zone));
  const refusal = provisioningFailure(world, subject, spec, 1) ?? addressesExceeded(world, subject, spec, 1);

  const operation = beginOperation(world, { ...scope, target: name, verb: 'create' });
  const node = addNode(world, scope, { nodeId, type, spec, queuedResource: null, multislice: false });
  world.nodes.put(name, { ...node, operation: operation.name });
  if (refusal === undefined) {
    world.schedule(durationOf(world, 'create') * slowFactor(world, subject), { kind: 'node-ready', name, id: node.id });
  } else {
    world.schedule(durationOf(world, 'stockout'), { kind: 'node-failed', name, id: node.id, error: refusal.rpc() });
  }
  return operation;
}

/** PATCH. The change applies at once, as real metadata does; the operation takes its time. */
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
  if (fields.length === 0) throw invalidField('update_mask', 'The update_mask must name at least one field.');
  const spec: Data = { ...node.spec };
  for (const field of fields) {
    const path = field.split('.').map(camelCase).join('.');
    if (['description', 'tags', 'labels', 'metadata', 'dataDisks'].includes(path)) spec[path] = body[path];
    else if (path === 'networkConfig.enableExternalIps') {
      const given = (body['networkConfig'] ?? {}) as Data;
      spec['networkConfig'] = {
        ...(spec['networkConfig'] as Data | undefined),
        enableExternalIps: given['enableExternalIps'] === true,
      };
    } else throw invalidField('update_mask', `Invalid field '${field}' in update_mask: it cannot be updated.`);
  }
  if (node.state !== 'READY') throw cloudErrors.wrongState('update', node.state, world.eid());
  checkLabels(world, spec['labels']);
  if (Array.isArray(spec['dataDisks'])) spec['dataDisks'] = (spec['dataDisks'] as Data[]).map(withDiskMode);
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'update' });
  changeNode(world, node, { spec });
  world.schedule(durationOf(world, 'update'), { kind: 'operation-done', operation: operation.name });
  return operation;
}

/** `:stop`: single hosts only, and not spot or preemptible nodes. */
export function stopNode(world: World, version: ApiVersion, node: NodeRecord): OperationRecord {
  checkStoppable(world, node, 'stop');
  if (node.state !== 'READY') throw cloudErrors.wrongState('stop', node.state, world.eid());
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'stop' });
  changeNode(world, node, { state: 'STOPPING' });
  world.schedule(durationOf(world, 'stop'), {
    kind: 'node-stopped',
    name: node.name,
    id: node.id,
    operation: operation.name,
  });
  return operation;
}

/** `:start` of a stopped node: needs capacity again, and changes the addresses. */
export function startNode(world: World, version: ApiVersion, node: NodeRecord): OperationRecord {
  checkStoppable(world, node, 'start');
  if (node.state !== 'STOPPED') throw cloudErrors.wrongState('start', node.state, world.eid());
  const operation = beginOperation(world, { ...node, version, target: node.name, verb: 'start' });
  const subject = nodeSubject(node);
  const refusal = provisioningFailure(world, subject, node.spec, 1);
  if (refusal !== undefined) {
    world.schedule(durationOf(world, 'stockout'), {
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
      ...healthyHost,
    })),
  });
  world.schedule(durationOf(world, 'stop') * slowFactor(world, subject), {
    kind: 'node-ready',
    name: node.name,
    id: node.id,
  });
  return operation;
}

function checkStoppable(world: World, node: NodeRecord, verb: string): void {
  if (node.workers.length > 1) {
    throw cloudErrors.badRequest(`${verb} is not supported for TPU slices with more than one VM.`, world.eid());
  }
  if (pricingOf(node.spec) === 'spot') {
    throw cloudErrors.badRequest(`${verb} is not supported for preemptible and spot TPU nodes.`, world.eid());
  }
}
