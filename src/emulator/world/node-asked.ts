// The request for a node: checked, and completed with the defaults of the service.

import { type Accelerator, accelerator as knownType, acceleratorByShape } from '../../catalogue/accelerators.ts';
import { regionOf, zones, zonesOffering } from '../../catalogue/zones.ts';
import { badField, texts } from '../wire/errors.ts';
import { type ApiVersion, type Data, textOf } from '../wire/messages.ts';
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
export const withDiskMode = (disk: Data): Data => ({ ...disk, mode: disk['mode'] ?? 'READ_WRITE' });

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

export function checkLabels(world: World, labels: unknown): void {
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
