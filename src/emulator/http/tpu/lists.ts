// Lists and single records, as every collection of the API answers them; the methods of locations and of operations.

import { accelerator, type Accelerator } from '../../../catalogue/accelerators.ts';
import { runtimeVersions, tensorflowVersions } from '../../../catalogue/runtime-versions.ts';
import { acceleratorsIn, zones, zonesOffering } from '../../../catalogue/zones.ts';
import type { Writing } from '../../wire/json.ts';
import { texts } from '../../wire/errors.ts';
import { pageOf, readFilter, readOrder, valueAt, type Standing } from '../../wire/lists.ts';
import type { ApiVersion, Data } from '../../wire/messages.ts';
import type { Shelf } from '../../world/database.ts';
import { checkZone, projectNumber } from '../../world/node-requests.ts';
import { cancelOperation } from '../../world/node-life.ts';
import { operationReply } from '../../world/operations.ts';
import type { OperationRecord } from '../../world/records.ts';
import { isFlaky } from '../../world/temper.ts';
import type { World } from '../../world/world.ts';
import { all, both, page, type Call, type Methods, type Target } from './method.ts';

interface Recorded {
  readonly name: string;
  readonly project: string;
  readonly zone: string;
}

/** The two methods that read a collection of records. */
export function readMethods<T extends Recorded>(
  collection: string,
  shelf: (world: World) => Shelf<T>,
  write: (record: T, writing: Writing) => Data,
): Methods {
  return {
    [`GET ${collection}`]: {
      versions: both,
      query: page,
      answer: (world, target, call, writing) =>
        zonedReply(collection, world, shelf(world).values(), target, call, (record) => write(record, writing)),
    },
    [`GET ${collection}/id`]: {
      versions: both,
      answer: (world, target, _call, writing) => write(recordAsked(world, shelf(world), target), writing),
    },
  };
}

/** The record that a path names. Throws CloudError for an unknown zone, or when there is none. */
export function recordAsked<T>(world: World, shelf: Shelf<T>, target: Target): T {
  checkZone(world, target.zone);
  return known(shelf, target);
}

/** The same, whatever the zone is. */
function known<T>(shelf: Shelf<T>, target: Target): T {
  const record = shelf.get(target.name);
  if (record === undefined) throw texts.notFound(target.name);
  return record;
}

/** The zones that a path names: one, or with `-` all. Throws CloudError for an unknown zone. */
export function zonesAsked(world: World, target: Target): readonly string[] {
  if (target.zone === '-') return zones;
  checkZone(world, target.zone);
  return [target.zone];
}

/** The records of the asked zones. Of all zones (`-`), those that do not answer now are named instead of searched. */
function zonedReply<T extends Recorded>(
  field: string,
  world: World,
  records: readonly T[],
  target: Target,
  call: Call,
  write: (record: T) => Data,
): Data {
  const asked = zonesAsked(world, target);
  const silent = target.zone === '-' ? asked.filter((zone) => isFlaky(world, (named) => named === zone)) : [];
  const found = records.filter(
    (record) => record.project === target.project && asked.includes(record.zone) && !silent.includes(record.zone),
  );
  const unreachable = silent.map((zone) => `projects/${target.project}/locations/${zone}`);
  return {
    ...listReply(field, found, call, write),
    ...(unreachable.length === 0 ? {} : { unreachable }),
  };
}

/** One page of a list. Only what is on it is written out, unless the client sorts or sifts by what is in the items. */
export function listReply<T extends { readonly name?: unknown }>(
  field: string,
  items: readonly T[],
  call: Call,
  write: (item: T) => Data,
): Data {
  const { filter = '', orderBy = '', pageSize, pageToken } = call.query;
  const matches = readFilter(filter);
  const order = readOrder(orderBy);
  // By name among equals. A list inside an item has no one place in an order, and stands where its text does.
  const standingOf = (item: T): Standing => [
    ...order.map(({ field: by, descends }) => ({ value: String(valueAt(write(item), by)), descends })),
    { value: String(item.name), descends: false },
  ];
  const matching = filter === '' ? items : items.filter((item) => matches(write(item)));
  const list = `${call.path.join('/')}?${filter}&${orderBy}`;
  const result = pageOf(matching, standingOf, list, { pageSize, pageToken });
  return {
    ...(result.items.length === 0 ? {} : { [field]: result.items.map(write) }),
    ...(result.nextPageToken === undefined ? {} : { nextPageToken: result.nextPageToken }),
  };
}

const filtered = [...page, 'filter', 'orderBy'];
const asItIs = (item: Data): Data => item;

export const locationMethods: Methods = {
  'GET locations': {
    versions: all,
    query: [...page, 'filter', 'extraLocationTypes'],
    answer: (_world, target, call) =>
      listReply(
        'locations',
        zones.map((zone) => location(target.project, zone)),
        call,
        asItIs,
      ),
  },
  'GET locations/id': {
    versions: all,
    answer(world, target) {
      checkZone(world, target.zone);
      return location(target.project, target.zone);
    },
  },
  'POST locations/id:generateServiceIdentity': {
    versions: both,
    changes: true,
    answer: (_world, target) => ({
      identity: { email: `service-${projectNumber(target.project)}@cloud-tpu.iam.gserviceaccount.com` },
    }),
  },
  ...offered('acceleratorTypes', all, {
    in: (zone) => acceleratorsIn(zone),
    find: (type, zone) => {
      const found = accelerator(type);
      return found !== undefined && zonesOffering(found).includes(zone) ? found : undefined;
    },
    write: writeAccelerator,
  }),
  ...versions('runtimeVersions', runtimeVersions, both),
  ...versions('tensorflowVersions', tensorflowVersions, ['v1']),
};

interface Offer<T> {
  in(zone: string): readonly T[];
  find(id: string, zone: string): T | undefined;
  /** Writes it below the name of its collection in a zone. */
  write(item: T, parent: string, version: ApiVersion): Data;
}

/** The two methods that read what zones offer. */
function offered<T>(collection: string, api: readonly ApiVersion[], offer: Offer<T>): Methods {
  const parent = (project: string, zone: string): string => `projects/${project}/locations/${zone}/${collection}`;
  return {
    [`GET ${collection}`]: {
      versions: api,
      query: filtered,
      answer(world, target, call) {
        const items = zonesAsked(world, target).flatMap((zone) =>
          offer.in(zone).map((item) => offer.write(item, parent(target.project, zone), call.version)),
        );
        return listReply(collection, items, call, asItIs);
      },
    },
    [`GET ${collection}/id`]: {
      versions: api,
      answer(world, target, call) {
        checkZone(world, target.zone);
        const found = offer.find(target.id, target.zone);
        if (found === undefined) throw texts.notFound(target.name);
        return offer.write(found, parent(target.project, target.zone), call.version);
      },
    },
  };
}

function versions(collection: string, known: readonly string[], api: readonly ApiVersion[]): Methods {
  return offered(collection, api, {
    in: () => known,
    find: (version) => known.find((one) => one === version),
    write: (version, parent) => ({ name: `${parent}/${version}`, version }),
  });
}

function writeAccelerator({ type, topology, generation }: Accelerator, parent: string, version: ApiVersion): Data {
  const acceleratorConfigs = [{ type: generation.configType, topology }];
  // v1 had no shapes yet, and gcloud's old group shows none.
  return { name: `${parent}/${type}`, type, ...(version === 'v1' ? {} : { acceleratorConfigs }) };
}

function location(project: string, zone: string): Data {
  return { name: `projects/${project}/locations/${zone}`, locationId: zone };
}

export const operationMethods: Methods = {
  'GET operations': {
    versions: both,
    query: [...page, 'filter', 'returnPartialSuccess'],
    answer: (world, target, call, writing) =>
      zonedReply('operations', world, world.operations.values(), target, call, (operation) =>
        operationReply(operation, writing),
      ),
  },
  'GET operations/id': {
    versions: all,
    answer: (world, target, _call, writing) => operationReply(known(world.operations, target), writing),
  },
  'POST operations/id:cancel': {
    versions: both,
    changes: true,
    answer(world, target) {
      cancelOperation(world, known(world.operations, target));
      return {};
    },
  },
  'DELETE operations/id': {
    versions: both,
    changes: true,
    answer(world, target) {
      world.operations.remove(known(world.operations, target).name);
      return {};
    },
  },
};

/** Answers a repeated `requestId` with the operation that the first one began. */
export function once(world: World, target: Target, call: Call, writing: Writing, act: () => OperationRecord): Data {
  const requestId = call.query['requestId'];
  // The name of what is made is its parent's: with the collection it is one method's, and another may use the same id.
  const method = `${call.method} ${target.collection} ${target.name}`;
  const key = requestId === undefined || requestId === '' ? undefined : `${method} ${requestId}`;
  const before = key === undefined ? undefined : world.requests.get(key);
  const known = before === undefined ? undefined : world.operations.get(before.operation);
  if (known !== undefined) return operationReply(known, writing);
  const operation = act();
  if (key !== undefined) world.requests.put(key, { operation: operation.name });
  return operationReply(operation, writing);
}
