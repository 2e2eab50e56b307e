/** The contents of a worker's metadata server; Google's page "Predefined metadata keys" has the general part. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { findAccelerator } from '../../catalogue/accelerators.ts';
import { regionOf } from '../../catalogue/zones.ts';
import { textOf, type Data } from '../wire/messages.ts';
import { guestAttributesOf } from '../world/guest-attributes.ts';
import { projectNumber } from '../world/node-requests.ts';
import { maintenanceData, workerHostName } from '../world/nodes.ts';
import type { NodeRecord, WorkerRecord } from '../world/records.ts';
import { pricingOf } from '../world/faults.ts';

export type MetadataEntry = string | { readonly [name: string]: MetadataEntry };

/** One slice of a queued resource. `coordinators` are the addresses of the slices' first workers, in order. */
export interface Multislice {
  readonly slice: number;
  readonly coordinators: readonly string[];
}

export function metadataTree(
  node: NodeRecord,
  worker: WorkerRecord,
  multislice: Multislice | undefined,
): MetadataEntry {
  const number = projectNumber(node.project);
  const account = (node.spec['serviceAccount'] ?? {}) as { email?: string; scope?: readonly string[] };
  const scheduling = (node.spec['schedulingConfig'] ?? {}) as Data;
  const isPreemptible = pricingOf(node.spec) === 'spot';
  const hostName = workerHostName(node, worker.index);
  const email = account.email ?? `${number}-compute@developer.gserviceaccount.com`;
  return {
    instance: {
      attributes: { ...userMetadata(node), ...workerAttributes(node, worker, multislice) },
      description: textOf(node.spec, 'description'),
      'guest-attributes': guestFolder(node, worker),
      hostname: `${hostName}.${node.zone}.c.${node.project}.internal`,
      id: `${node.id.slice(0, -4)}${String(worker.index).padStart(4, '0')}`,
      'maintenance-event': node.state === 'REPAIRING' ? 'TERMINATE_ON_HOST_MAINTENANCE' : 'NONE',
      name: hostName,
      'network-interfaces': {
        '0': {
          ip: worker.address,
          network: `projects/${number}/networks/default`,
          ...(isExternal(node) ? { 'access-configs': { '0': { 'external-ip': worker.address } } } : {}),
        },
      },
      preempted: node.state === 'PREEMPTED' ? 'TRUE' : 'FALSE',
      region: `projects/${number}/regions/${regionOf(node.zone)}`,
      scheduling: {
        'automatic-restart': isPreemptible ? 'FALSE' : 'TRUE',
        'on-host-maintenance': 'TERMINATE',
        preemptible: isPreemptible ? 'TRUE' : 'FALSE',
        ...(scheduling['spot'] === true ? { 'provisioning-model': 'SPOT' } : {}),
      },
      'service-accounts': { default: serviceAccount(email, account), [email]: serviceAccount(email, account) },
      tags: JSON.stringify(node.spec['tags'] ?? []),
      ...upcomingMaintenance(node),
      zone: `projects/${number}/zones/${node.zone}`,
    },
    project: {
      attributes: {},
      'numeric-project-id': number,
      'project-id': node.project,
    },
  };
}

/** Maintenance that is announced or in progress. Its names have underscores, unlike all others. */
function upcomingMaintenance(node: NodeRecord): { readonly [name: string]: MetadataEntry } {
  const maintenance = maintenanceData(node);
  if (maintenance === null) return {};
  const entries = Object.entries(maintenance).map(([name, value]) => [
    name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
    String(value),
  ]);
  return { 'upcoming-maintenance': Object.fromEntries(entries) as Record<string, string> };
}

function guestFolder(node: NodeRecord, worker: WorkerRecord): MetadataEntry {
  const byNamespace = Object.groupBy(guestAttributesOf(node, worker), ({ namespace }) => namespace);
  // `fromEntries` is safe for every name that a program may choose, including `__proto__`.
  return Object.fromEntries(
    Object.entries(byNamespace).map(([namespace, all = []]) => [
      namespace,
      Object.fromEntries(all.map(({ key, value }) => [key, value])),
    ]),
  );
}

export function userMetadata(node: NodeRecord): Record<string, string> {
  return (node.spec['metadata'] ?? {}) as Record<string, string>;
}

function workerAttributes(
  node: NodeRecord,
  worker: WorkerRecord,
  multislice: Multislice | undefined,
): Record<string, string> {
  return {
    'accelerator-type': node.type,
    'agent-worker-number': String(worker.index),
    'instance-id': node.nodeId,
    'tpu-env': tpuEnv(node, worker, multislice),
    'worker-id': String(worker.index),
    'worker-network-endpoints': node.workers.map(({ address }) => `unknown:unknown:${address}`).join(','),
  };
}

/** YAML for JAX and libtpu: the shape of the slice and the position of this worker. */
function tpuEnv(node: NodeRecord, worker: WorkerRecord, multislice: Multislice | undefined): string {
  const config = (node.spec['acceleratorConfig'] ?? {}) as { type?: string; topology?: string };
  const topology = config.topology ?? '1x1';
  const slice = bounds(topology);
  const perHost = chipsPerHostBounds(chipsPerHost(node));
  const hosts = slice.map((length, axis) => Math.max(1, Math.floor(length / (perHost[axis] ?? 1))));
  const lines: Record<string, string> = {
    ACCELERATOR_TYPE: node.type,
    CHIPS_PER_HOST_BOUNDS: perHost.join(','),
    HOST_BOUNDS: hosts.join(','),
    NODE_ID: node.nodeId,
    TOPOLOGY: topology,
    TYPE: config.type ?? '',
    WORKER_ID: String(worker.index),
    ZONE: node.zone,
    ...(multislice === undefined
      ? {}
      : {
          MEGASCALE_COORDINATOR_ADDRESS: multislice.coordinators[0] ?? '',
          MEGASCALE_NUM_SLICES: String(multislice.coordinators.length),
          MEGASCALE_SLICE_ID: String(multislice.slice),
        }),
  };
  return Object.entries(lines)
    .map(([name, value]) => `${name}: '${value}'\n`)
    .join('');
}

function chipsPerHost(node: NodeRecord): number {
  return Math.max(1, Math.round((findAccelerator(node.type)?.chips ?? 4) / node.workers.length));
}

function bounds(topology: string): number[] {
  const [x = 1, y = 1, z = 1] = topology.split('x').map(Number);
  return [x, y, z];
}

/** Four chips form a square, eight (v5e and v6e on one host) two rows of four. */
function chipsPerHostBounds(chips: number): number[] {
  if (chips === 8) return [2, 4, 1];
  return chips === 4 ? [2, 2, 1] : [chips, 1, 1];
}

/** The token has the right form and grants nothing. */
function serviceAccount(email: string, account: { scope?: readonly string[] }): MetadataEntry {
  return {
    aliases: 'default',
    email,
    scopes: (account.scope ?? ['https://www.googleapis.com/auth/cloud-platform']).join('\n'),
    token: JSON.stringify({
      access_token: 'a-token-of-the-built-in-cloud-that-opens-nothing',
      expires_in: 3599,
      token_type: 'Bearer',
    }),
  };
}

function isExternal(node: NodeRecord): boolean {
  const networks = (node.spec['networkConfigs'] ?? [node.spec['networkConfig'] ?? {}]) as Data[];
  return networks[0]?.['enableExternalIps'] === true;
}

/** Paths below /dev: `accel0` and so on up to v4, `vfio/0` since v5, where public TPU launchers search for them. */
export function chipDeviceNames(node: NodeRecord): readonly string[] {
  const generation = findAccelerator(node.type)?.generation.name ?? 'v4';
  const folder = generation === 'v2' || generation === 'v3' || generation === 'v4' ? 'accel' : 'vfio/';
  return Array.from({ length: chipsPerHost(node) }, (_, index) => `${folder}${String(index)}`);
}

/** Creates the chip files in the `dev` folder of a host that has no /dev of its own. */
export function makeChipFiles(folder: string, names: readonly string[]): void {
  for (const name of names) {
    const path = join(folder, 'dev', name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, '', { flag: 'a', mode: 0o666 });
  }
}
