// List and get methods of every collection, and all methods of locations and operations.

import { findAccelerator, type Accelerator } from '../../../catalogue/accelerators.ts';
import { runtimeVersions, tensorflowVersions } from '../../../catalogue/runtime-versions.ts';
import { acceleratorsIn, zones, zonesOffering } from '../../../catalogue/zones.ts';
import type { EncodeOptions } from '../../wire/json.ts';
import { cloudErrors } from '../../wire/errors.ts';
import { paginate, parseFilter, parseOrderBy, valueAt, type SortKeys } from '../../wire/lists.ts';
import type { ApiVersion, Data } from '../../wire/messages.ts';
import type { Table } from '../../world/database.ts';
import { checkZone, projectNumber } from '../../world/node-requests.ts';
import { cancelOperation } from '../../world/node-lifecycle.ts';
import { operationReply } from '../../world/operations.ts';
import type { OperationRecord } from '../../world/records.ts';
import { isFlaky } from '../../world/faults.ts';
import type { World } from '../../world/world.ts';
import { allVersions, v2Versions, pageParameters, type Call, type Methods, type Target } from './method.ts';

interface ZonedRecord {
  readonly name: string;
  readonly project: string;
  readonly zone: string;
}

export function readMethods<T extends ZonedRecord>(
  collection: string,
  tableOf: (world: World) => Table<T>,
  write: (record: T, writing: EncodeOptions) => Data,
): Methods {
  return {
    [`GET ${collection}`]: {
      versions: v2Versions,
      query: pageParameters,
      answer: (world, target, call, writing) =>
        zonedReply(collection, world, tableOf(world).values(), target, call, (record) => write(record, writing)),
    },
    [`GET ${collection}/id`]: {
      versions: v2Versions,
      answer: (world, target, _call, writing) => write(requestedRecord(world, tableOf(world), target), writing),
    },
  };
}

/** Throws CloudError when the zone is unknown or the record does not exist. */
export function requestedRecord<T>(world: World, table: Table<T>, target: Target): T {
  checkZone(world, target.zone);
  return getRecord(table, target);
}

function getRecord<T>(table: Table<T>, target: Target): T {
  const record = table.get(target.name);
  if (record === undefined) throw cloudErrors.notFound(target.name);
  return record;
}

/** One zone, or all for `-`. Throws CloudError for an unknown zone. */
export function requestedZones(world: World, target: Target): readonly string[] {
  if (target.zone === '-') return zones;
  checkZone(world, target.zone);
  return [target.zone];
}

/** Lists the records of the requested zones. With `-`, a zone that does not answer is listed as unreachable. */
function zonedReply<T extends ZonedRecord>(
  field: string,
  world: World,
  records: readonly T[],
  target: Target,
  call: Call,
  write: (record: T) => Data,
): Data {
  const searchedZones = requestedZones(world, target);
  const unreachableZones =
    target.zone === '-' ? searchedZones.filter((zone) => isFlaky(world, (named) => named === zone)) : [];
  const found = records.filter(
    (record) =>
      record.project === target.project &&
      searchedZones.includes(record.zone) &&
      !unreachableZones.includes(record.zone),
  );
  const unreachable = unreachableZones.map((zone) => `projects/${target.project}/locations/${zone}`);
  return {
    ...listReply(field, found, call, write),
    ...(unreachable.length === 0 ? {} : { unreachable }),
  };
}

/** One page of a list. Encodes only the items of the page, unless the client filters or sorts by their fields. */
export function listReply<T extends { readonly name?: unknown }>(
  field: string,
  items: readonly T[],
  call: Call,
  write: (item: T) => Data,
): Data {
  const { filter = '', orderBy = '', pageSize, pageToken } = call.query;
  const matches = parseFilter(filter);
  const order = parseOrderBy(orderBy);
  // Equal items sort by name, lists inside an item by their text.
  const sortKeysOf = (item: T): SortKeys => [
    ...order.map(({ field: by, descends }) => ({ value: String(valueAt(write(item), by)), descends })),
    { value: String(item.name), descends: false },
  ];
  const matching = filter === '' ? items : items.filter((item) => matches(write(item)));
  const list = `${call.path.join('/')}?${filter}&${orderBy}`;
  const result = paginate(matching, sortKeysOf, list, { pageSize, pageToken });
  return {
    ...(result.items.length === 0 ? {} : { [field]: result.items.map(write) }),
    ...(result.nextPageToken === undefined ? {} : { nextPageToken: result.nextPageToken }),
  };
}

const listParameters = [...pageParameters, 'filter', 'orderBy'];
const identity = (item: Data): Data => item;

export const locationMethods: Methods = {
  'GET locations': {
    versions: allVersions,
    query: [...pageParameters, 'filter', 'extraLocationTypes'],
    answer: (_world, target, call) =>
      listReply(
        'locations',
        zones.map((zone) => locationData(target.project, zone)),
        call,
        identity,
      ),
  },
  'GET locations/id': {
    versions: allVersions,
    answer(world, target) {
      checkZone(world, target.zone);
      return locationData(target.project, target.zone);
    },
  },
  'POST locations/id:generateServiceIdentity': {
    versions: v2Versions,
    changes: true,
    answer: (_world, target) => ({
      identity: { email: `service-${projectNumber(target.project)}@cloud-tpu.iam.gserviceaccount.com` },
    }),
  },
  ...catalogueMethods('acceleratorTypes', allVersions, {
    in: (zone) => acceleratorsIn(zone),
    find: (type, zone) => {
      const found = findAccelerator(type);
      return found !== undefined && zonesOffering(found).includes(zone) ? found : undefined;
    },
    write: writeAccelerator,
  }),
  ...versionMethods('runtimeVersions', runtimeVersions, v2Versions),
  ...versionMethods('tensorflowVersions', tensorflowVersions, ['v1']),
};

interface CatalogueCollection<T> {
  in(zone: string): readonly T[];
  find(id: string, zone: string): T | undefined;
  /** `parent` is the full name of the collection in a zone. */
  write(item: T, parent: string, version: ApiVersion): Data;
}

function catalogueMethods<T>(collection: string, api: readonly ApiVersion[], source: CatalogueCollection<T>): Methods {
  const parent = (project: string, zone: string): string => `projects/${project}/locations/${zone}/${collection}`;
  return {
    [`GET ${collection}`]: {
      versions: api,
      query: listParameters,
      answer(world, target, call) {
        const items = requestedZones(world, target).flatMap((zone) =>
          source.in(zone).map((item) => source.write(item, parent(target.project, zone), call.version)),
        );
        return listReply(collection, items, call, identity);
      },
    },
    [`GET ${collection}/id`]: {
      versions: api,
      answer(world, target, call) {
        checkZone(world, target.zone);
        const found = source.find(target.id, target.zone);
        if (found === undefined) throw cloudErrors.notFound(target.name);
        return source.write(found, parent(target.project, target.zone), call.version);
      },
    },
  };
}

function versionMethods(collection: string, known: readonly string[], api: readonly ApiVersion[]): Methods {
  return catalogueMethods(collection, api, {
    in: () => known,
    find: (version) => known.find((one) => one === version),
    write: (version, parent) => ({ name: `${parent}/${version}`, version }),
  });
}

function writeAccelerator({ type, topology, generation }: Accelerator, parent: string, version: ApiVersion): Data {
  const acceleratorConfigs = [{ type: generation.configType, topology }];
  // v1 has no accelerator configs, and gcloud's old command group shows none.
  return { name: `${parent}/${type}`, type, ...(version === 'v1' ? {} : { acceleratorConfigs }) };
}

function locationData(project: string, zone: string): Data {
  return { name: `projects/${project}/locations/${zone}`, locationId: zone };
}

export const operationMethods: Methods = {
  'GET operations': {
    versions: v2Versions,
    query: [...pageParameters, 'filter', 'returnPartialSuccess'],
    answer: (world, target, call, writing) =>
      zonedReply('operations', world, world.operations.values(), target, call, (operation) =>
        operationReply(operation, writing),
      ),
  },
  'GET operations/id': {
    versions: allVersions,
    answer: (world, target, _call, writing) => operationReply(getRecord(world.operations, target), writing),
  },
  'POST operations/id:cancel': {
    versions: v2Versions,
    changes: true,
    answer(world, target) {
      cancelOperation(world, getRecord(world.operations, target));
      return {};
    },
  },
  'DELETE operations/id': {
    versions: v2Versions,
    changes: true,
    answer(world, target) {
      world.operations.remove(getRecord(world.operations, target).name);
      return {};
    },
  },
};

/** Answers a repeated `requestId` with the operation of the first request. */
export function withRequestId(
  world: World,
  target: Target,
  call: Call,
  writing: EncodeOptions,
  act: () => OperationRecord,
): Data {
  const requestId = call.query['requestId'];
  // `name` is that of the parent for a creation, so the collection must be part of the key.
  const method = `${call.method} ${target.collection} ${target.name}`;
  const key = requestId === undefined || requestId === '' ? undefined : `${method} ${requestId}`;
  const before = key === undefined ? undefined : world.requests.get(key);
  const known = before === undefined ? undefined : world.operations.get(before.operation);
  if (known !== undefined) return operationReply(known, writing);
  const operation = act();
  if (key !== undefined) world.requests.put(key, { operation: operation.name });
  return operationReply(operation, writing);
}
