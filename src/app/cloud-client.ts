// Cloud client: the methods of Client about TPUs, quotas, storage and orphans, over the store and the clouds of the settings.

import type { Job } from '../core/model/job.ts';
import type { OutcomeResult } from '../core/model/observation.ts';
import type { Duration } from '../core/model/time.ts';
import type { GeneralOperation } from '../core/policy/permissions.ts';
import type { Client } from './client.ts';
import type { BillingExport } from './billing-export.ts';
import type { CountFiles } from './checkpoints.ts';
import { untilLeft } from './concurrency.ts';
import type { CachedResult, ImagePort, RegistryAnswer } from './images.ts';
import { projectOf, type BucketPort, type Orphan } from './ports.ts';
import type { QuotaCache, QuotaPort } from './quota.ts';
import type { StorageParts } from './storage.ts';
import type { ClientParts, RecordChange, WhoAmI } from './store-client.ts';
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
  /** Null if the settings name no export. Sends no request yet. */
  readonly billing: () => Promise<BillingExport | null>;
  /** Throws JobmanError (5) without a login to the cloud of the project. */
  readonly checkLogin: (project: string) => Promise<void>;
  readonly bucketsOf: (project: string) => BucketPort;
  readonly storageOf: StorageParts['storageOf'];
  /** For the checkpoint folders on this machine. */
  readonly countFiles: CountFiles;
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
  | 'storage'
  | 'checkpoints'
  | 'orphans'
  | 'observeOrphans'
  | 'releaseOrphan'
  | 'forgetOrphan'
  | 'billing'
  | 'images'
  | 'image'
  | 'checkLogin'
  | 'bucketStatuses';

type CloudParts = Awaited<ReturnType<ReturnType<typeof createCloudParts>>>;

function createCloudParts(whoAmI: WhoAmI, parts: ClientParts) {
  const { store, now } = parts;
  return async (timeout?: Duration) => {
    const [{ projects = null }, clouds] = await Promise.all([whoAmI(), parts.clouds(timeout)]);
    const { tpus, quotas, quotaCache, installation, ...changes } = clouds;
    const settings = { ...clouds.settings, allowedProjects: projects };
    return { store, now, cloud: tpus, quotas, cache: quotaCache, installation, ...changes, settings };
  };
}

/** A job names a few buckets, and each is a request to the cloud. */
const maxBuckets = 100;
/** Each may be in a project of its own. */
const maxOrphans = 1000;

async function requireFew({ length }: readonly unknown[], max: number, what: string): Promise<void> {
  if (length > max) throw (await import('./errors.ts')).usageError(`At most ${max} ${what} at once.`);
}

export function createCloudClient(whoAmI: WhoAmI, parts: ClientParts, record: RecordChange): Pick<Client, CloudMethod> {
  const { now } = parts;
  const cloudParts = createCloudParts(whoAmI, parts);
  async function require(...operation: [GeneralOperation, string]): Promise<void> {
    const [actor, { requireGeneral }] = await Promise.all([whoAmI(), import('./require-permission.ts')]);
    requireGeneral(actor, ...operation);
  }
  async function requireProjects(projects: readonly (string | undefined)[]): Promise<void> {
    const [actor, { requireProject }] = await Promise.all([whoAmI(), import('./require-permission.ts')]);
    for (const project of projects) requireProject(actor, project);
  }
  return {
    ...createImageClient(parts),
    ...createOrphanClient({ cloudParts, require, requireProjects, record }),

    async tpus(query) {
      await requireProjects([query.project]);
      const [own, { observeTpus }] = await Promise.all([cloudParts(), import('./tpus.ts')]);
      return observeTpus(own, query);
    },

    async forgetProject(project, confirmed = []) {
      await require('forget-project', 'forget a project');
      await requireProjects([project]);
      const [own, { forgetProject }] = await Promise.all([cloudParts(), import('./tpus.ts')]);
      const note = () => record('forget-project', { kind: 'project', id: project });
      return forgetProject({ ...own, record: note }, project, confirmed);
    },

    async quota({ isKept, ...query }) {
      await requireProjects([query.project]);
      const [own, { noQuotaCache, observeQuota }] = await Promise.all([cloudParts(), import('./quota.ts')]);
      return observeQuota(isKept === false ? { ...own, cache: noQuotaCache } : own, query);
    },

    async knownQuota(projects) {
      await requireProjects(projects);
      const [{ cache }, { knownQuota }] = await Promise.all([cloudParts(), import('./quota.ts')]);
      return knownQuota(cache, projects);
    },

    async quotaWarnings(capacity) {
      await requireProjects([capacity.project]);
      const { quotaCheckTimeout, quotaWarnings } = await import('./quota.ts');
      return cloudParts(quotaCheckTimeout)
        .then((own) => quotaWarnings(own, capacity))
        .catch(() => []);
    },

    storage: (query) =>
      untilLeft(async function* (signal) {
        await requireProjects([query.project]);
        const [own, { readStorage }] = await Promise.all([cloudParts(), import('./storage.ts')]);
        yield* readStorage({ ...own, isSimulated: (project) => own.cloud.isSimulated(project) }, query, signal);
      }),

    checkpoints: () =>
      untilLeft(async function* (signal) {
        const [actor, own, { readCheckpoints }, { permissionOf }] = await Promise.all([
          whoAmI(),
          cloudParts(),
          import('./checkpoints.ts'),
          import('../core/policy/permissions.ts'),
        ]);
        const isReadable = (job: Job) => permissionOf(actor, job, 'read') === 'allow';
        yield* readCheckpoints({ ...own, isReadable }, signal);
      }),

    async billing(request) {
      const [own, { readBilling }] = await Promise.all([cloudParts(), import('./billing.ts')]);
      return readBilling({ ...own, billing: await own.billing(), now: now() }, request);
    },

    async checkLogin(project) {
      await requireProjects([project]);
      return (await cloudParts()).checkLogin(project);
    },

    async bucketStatuses(project, buckets, pendingSpec) {
      await requireFew(buckets, maxBuckets, 'buckets');
      await requireProjects([project]);
      if (pendingSpec !== null) {
        const [actor, { requirePermission }] = await Promise.all([whoAmI(), import('./require-permission.ts')]);
        requirePermission({ owner: actor.user, spec: pendingSpec }, 'create', actor);
        // Before any request, because the checks have a short timeout.
        await parts.prepareCloud?.(pendingSpec);
      }
      const [own, { observeInTime }] = await Promise.all([cloudParts(), import('./buckets.ts')]);
      const port = own.bucketsOf(project);
      const statuses = await Promise.all(buckets.map((bucket) => observeInTime(port, bucket)));
      return { statuses, notice: parts.startNotice?.() ?? null };
    },
  };
}

function createImageClient(parts: Pick<ClientParts, 'registry'>): Pick<Client, 'images' | 'image'> {
  async function withRegistry<T>(read: (registry: ImagePort) => Promise<CachedResult<T>>): Promise<RegistryAnswer<T>> {
    const registry = await parts.registry();
    try {
      return { ...(await read(registry)), server: registry.server };
    } finally {
      registry.close();
    }
  }
  return {
    images: (query) => withRegistry((registry) => registry.list(query)),
    image: (name, query) => withRegistry((registry) => registry.details(name, query)),
  };
}

function createOrphanClient(of: {
  readonly cloudParts: () => Promise<CloudParts>;
  readonly require: (operation: GeneralOperation, what: string) => Promise<void>;
  readonly requireProjects: (projects: readonly (string | undefined)[]) => Promise<void>;
  readonly record: RecordChange;
}): Pick<Client, 'orphans' | 'observeOrphans' | 'releaseOrphan' | 'forgetOrphan'> {
  const { cloudParts, require, requireProjects, record } = of;
  async function orphanOperations() {
    const [{ releaseOrphan, ...own }, { createOrphanOperations }] = await Promise.all([
      cloudParts(),
      import('./orphans.ts'),
    ]);
    return createOrphanOperations({ ...own, release: releaseOrphan });
  }
  return {
    orphans: async () => (await orphanOperations()).observe(),
    async observeOrphans(orphans) {
      await requireFew(orphans, maxOrphans, 'orphans');
      await requireProjects(orphans.map(projectOf));
      return (await orphanOperations()).observeAgain(orphans);
    },

    async releaseOrphan(orphan) {
      await require('orphans', 'release TPUs');
      await requireProjects([projectOf(orphan)]);
      await record('release-orphan', { kind: 'tpu', id: orphan.resource });
      return (await orphanOperations()).release(orphan);
    },

    async forgetOrphan(orphan) {
      await require('orphans', 'forget TPUs');
      await requireProjects([projectOf(orphan)]);
      await record('forget-orphan', { kind: 'tpu', id: orphan.resource });
      return (await orphanOperations()).forget(orphan);
    },
  };
}
