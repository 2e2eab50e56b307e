// Locations, and what each offers: accelerator types and software versions.

import { type Accelerator, accelerator } from '../../../catalogue/accelerators.ts';
import { runtimeVersions, tensorflowVersions } from '../../../catalogue/runtime-versions.ts';
import { acceleratorsIn, zones, zonesOffering } from '../../../catalogue/zones.ts';
import { texts } from '../../wire/errors.ts';
import type { ApiVersion, Data } from '../../wire/messages.ts';
import { checkZone, projectNumber } from '../../world/node-asked.ts';
import { listReply, zonesAsked } from './lists.ts';
import { all, both, type Methods, page } from './method.ts';

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
