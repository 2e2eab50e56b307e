// What `jobman tpus` works with: the record, and the API of every project. Nothing of SSH or of machines is loaded.

import { lookAtTpus, type TpuCloud, type TpuList, type TpuQuery } from '../app/tpus.ts';
import type { Services } from '../app/services.ts';
import { listTpus } from '../backends/tpu/inventory.ts';
import { pricePerHour } from '../backends/tpu/prices.ts';
import { openStore } from '../store/store.ts';
import { findEmulator } from './emulator-service.ts';
import { recordFile } from './paths.ts';
import { createTpuApis, type TpuApis } from './tpu-api.ts';

/** Looks once, at all that the query means. */
export async function lookAtClouds(services: Services, query: TpuQuery): Promise<TpuList> {
  const { io, home } = services;
  const inForce = await services.settings();
  const store = openStore({ file: recordFile(home) });
  try {
    const named = { project: inForce.tpu.project, grants: inForce.grants };
    const cloud = createTpuCloud(home, createTpuApis({ io, home, settings: inForce, now: () => io.now() }));
    return await lookAtTpus({ store, cloud, settings: named, now: () => io.now() }, query);
  } finally {
    await store.close();
  }
}

/** The door to all clouds; asks nobody yet. */
export function createTpuCloud(home: string, { runningApiFor, usesBuiltIn }: TpuApis): TpuCloud {
  // A thousand TPUs are of few types.
  const prices = new Map<string, number | null>();
  return {
    async list(place) {
      const { project } = place;
      if (usesBuiltIn(project) && (await findEmulator(home)) === undefined) {
        const says = 'the built-in cloud does not run; start it: jobman emulator start';
        return { tpus: [], missed: [{ project, zone: null, says, asleep: true }] };
      }
      return listTpus(runningApiFor(project), place);
    },
    pricePerHour({ type, zone, pricing }) {
      if (type === null) return null;
      const key = `${type} ${zone} ${pricing}`;
      const known = prices.get(key);
      if (known !== undefined) return known;
      // What is reserved is paid for anyway; the price on demand is what it would cost without.
      const price = pricePerHour({ accelerator: type, zone, pricing: pricing === 'reserved' ? 'ondemand' : pricing });
      prices.set(key, price);
      return price;
    },
    isPretended: usesBuiltIn,
  };
}
