// Lists and single records, as every collection of the API answers them.

import { zones } from '../../../catalogue/zones.ts';
import { texts } from '../../wire/errors.ts';
import type { Writing } from '../../wire/encode.ts';
import { readFilter, readOrder, valueAt } from '../../wire/filter.ts';
import type { Data } from '../../wire/messages.ts';
import { pageOf, type Standing } from '../../wire/paging.ts';
import type { Shelf } from '../../world/database.ts';
import { checkZone } from '../../world/node-asked.ts';
import { isFlaky } from '../../world/temper.ts';
import type { World } from '../../world/world.ts';
import { both, type Call, type Methods, page, type Target } from './method.ts';

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
export function known<T>(shelf: Shelf<T>, target: Target): T {
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
export function zonedReply<T extends Recorded>(
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
