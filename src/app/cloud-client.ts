// Cloud client: the methods of Client about TPUs, quotas and orphans, over the store and the clouds of the settings.

import type { OutcomeResult } from '../core/model/observation.ts';
import type { Duration } from '../core/model/time.ts';
import type { GeneralOperation } from '../core/policy/permissions.ts';
import type { Client } from './client.ts';
import type { Orphan } from './ports.ts';
import type { QuotaCache, QuotaPort } from './quota.ts';
import type { ClientParts, WhoAmI } from './store-client.ts';
import type { TpuCloud, TpuSettings } from './tpus.ts';

/** The clouds of the settings. Opens no connection yet. */
export interface Clouds {
  readonly tpus: TpuCloud;
  readonly quotas: QuotaPort;
  readonly quotaCache: QuotaCache;
  readonly settings: TpuSettings;
  /** Null before the first write. */
  readonly installation: string | null;
  /** Rejects in a copied home whose original still exists. */
  readonly releaseOrphan: (orphan: Orphan) => Promise<OutcomeResult>;
  /** Adds the project to the setting. */
  readonly excludeProject: (project: string) => Promise<void>;
}

/** `timeout`: the limit for each request. */
export type OpenClouds = (timeout?: Duration) => Promise<Clouds>;

type CloudMethod =
  | 'tpus'
  | 'forgetProject'
  | 'quota'
  | 'knownQuota'
  | 'quotaWarnings'
  | 'orphans'
  | 'observeOrphans'
  | 'releaseOrphan'
  | 'forgetOrphan';

export function createCloudClient(whoAmI: WhoAmI, parts: ClientParts): Pick<Client, CloudMethod> {
  const { store, now } = parts;
  async function cloudParts(timeout?: Duration) {
    const { tpus, quotas, quotaCache, settings, installation, ...changes } = await parts.clouds(timeout);
    return { store, now, cloud: tpus, quotas, cache: quotaCache, settings, installation, ...changes };
  }
  async function orphanOperations() {
    const [{ releaseOrphan, ...own }, { createOrphanOperations }] = await Promise.all([
      cloudParts(),
      import('./orphans.ts'),
    ]);
    return createOrphanOperations({ ...own, release: releaseOrphan });
  }
  async function require(...operation: [GeneralOperation, string]): Promise<void> {
    const [actor, { requireGeneral }] = await Promise.all([whoAmI(), import('./require-permission.ts')]);
    requireGeneral(actor, ...operation);
  }
  return {
    async tpus(query) {
      const [own, { observeTpus }] = await Promise.all([cloudParts(), import('./tpus.ts')]);
      return observeTpus(own, query);
    },

    async forgetProject(project, confirmed = []) {
      await require('forget-project', 'forget a project');
      const [own, { forgetProject }] = await Promise.all([cloudParts(), import('./tpus.ts')]);
      return forgetProject(own, project, confirmed);
    },

    async quota({ isKept, ...query }) {
      const [own, { noQuotaCache, observeQuota }] = await Promise.all([cloudParts(), import('./quota.ts')]);
      return observeQuota(isKept === false ? { ...own, cache: noQuotaCache } : own, query);
    },

    async knownQuota(projects) {
      const [{ cache }, { knownQuota }] = await Promise.all([cloudParts(), import('./quota.ts')]);
      return knownQuota(cache, projects);
    },

    async quotaWarnings(capacity) {
      const { quotaCheckTimeout, quotaWarnings } = await import('./quota.ts');
      return cloudParts(quotaCheckTimeout)
        .then((own) => quotaWarnings(own, capacity))
        .catch(() => []);
    },

    orphans: async () => (await orphanOperations()).observe(),
    observeOrphans: async (orphans) => (await orphanOperations()).observeAgain(orphans),

    async releaseOrphan(orphan) {
      await require('orphans', 'release TPUs');
      return (await orphanOperations()).release(orphan);
    },

    async forgetOrphan(orphan) {
      await require('orphans', 'forget TPUs');
      return (await orphanOperations()).forget(orphan);
    },
  };
}
