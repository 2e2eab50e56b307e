// Finds the jobs of a cluster by name: in the cluster, then in the archive, which has jobs that the cluster has deleted or
// does not report now.

import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Instant } from '../../core/model/time.ts';
import { withTimeout } from '../concurrency.ts';
import { exitCode, JobmanError, reworded } from '../errors.ts';
import { formatAge } from '../format.ts';
import type { FoundJob, JobScope } from '../job-source.ts';
import { manifestHint, type RefPurpose } from '../refs.ts';
import type { Services } from '../services.ts';
import { mayBeActive } from './archive.ts';
import type { ArchiveQuery, ArchivedJob } from './objects.ts';
import type { Cluster, ClusterContext } from './cluster.ts';
import {
  absentError,
  archivedJobs,
  expectCluster,
  recordOfJob,
  type ClusterParts,
  type ClusterRecord,
} from './cluster-record.ts';
import { clusterTimeout } from './job-list.ts';

/** `scope` and `isScoped` as in job-source.ts. */
export function createRecords(parts: ClusterParts, scope: JobScope | null, isScoped: boolean) {
  const clusters = createClusters(parts, scope);
  const known = new Map<string, ClusterRecord>();
  const search = (): Search => ({
    now: parts.io.now(),
    archived: (query) => archivedJobs(parts, query),
    clusters,
    scope: scope ?? {},
    isScoped,
  });

  /** Of a job that this source, another one or a list has found. Only the first is not read again. */
  async function recordOf(job: FoundJob): Promise<ClusterRecord> {
    if (job.cluster === null) throw new Error(`job ${job.id} is not in a cluster`);
    const { uid, context, namespace } = job.cluster;
    const before = uid === null ? undefined : known.get(uid);
    if (before !== undefined) return before;
    const at = { context, namespace };
    const opened = await clusters.at(at);
    const record = orThrow(await findInNamespace({ ...search(), scope: at, isScoped: true }, job.id, opened));
    if (uid === null || uid === record.job.uid) return record;
    throw new JobmanError(`Job ${job.id} was deleted meanwhile, and another job has its name.`, exitCode.notFound);
  }

  function keep(record: ClusterRecord): ClusterRecord {
    known.set(record.job.uid, record);
    return record;
  }

  return {
    async find(name: string, purpose: RefPurpose): Promise<ClusterRecord> {
      return keep(orThrow(await findJob(search(), name, purpose)));
    },

    keep,

    /** The cluster of the scope. Throws JobmanError. */
    async open(): Promise<Cluster> {
      const opened = await clusters.open(scope ?? {});
      if (opened instanceof JobmanError) throw opened;
      return opened;
    },

    of: recordOf,

    /** For a job that is to be shown as one of the list. */
    async listed(job: FoundJob): Promise<ClusterRecord> {
      const record = await recordOf(job);
      if (record.archived?.hidden === true) throw absentError(record.found);
      return record;
    },

    /** The context of the cluster if it has a job of that name. Null also if it does not answer soon. */
    async contextWith(name: string): Promise<ClusterContext | null> {
      const own = await clusters.own();
      if (own === null || own instanceof JobmanError) return null;
      const job = await withTimeout(clusterTimeout, own.job(name), () => null).catch(() => null);
      return job === null ? null : own.context();
    },

    close: () => clusters.close(),
  };
}

interface Search {
  readonly now: Instant;
  readonly archived: (query: ArchiveQuery) => Promise<readonly ArchivedJob[]>;
  readonly clusters: ReturnType<typeof createClusters>;
  readonly scope: JobScope;
  readonly isScoped: boolean;
}

/** The error is a value: another namespace may have the job. */
type Found = ClusterRecord | JobmanError;

function orThrow(found: Found): ClusterRecord {
  if (found instanceof JobmanError) throw found;
  return found;
}

/** The cluster of the scope and those of other submissions. `own` is null without a cluster; an error is a value. */
function createClusters({ cluster: openCluster }: Pick<Services, 'cluster'>, scope: JobScope | null) {
  const opened = new Map<string, Promise<Cluster | JobmanError>>();
  const open = ({ context, namespace }: JobScope): Promise<Cluster | JobmanError> => {
    const key = JSON.stringify([context, namespace]);
    const cluster =
      opened.get(key) ??
      openCluster(omitUndefined({ context, namespace })).catch((error: unknown) => {
        if (error instanceof JobmanError) return error;
        throw error;
      });
    opened.set(key, cluster);
    return cluster;
  };
  const own = async (): Promise<Cluster | JobmanError | null> => (scope === null ? null : open(scope));
  return {
    own,
    open,
    async at({ context, namespace }: Pick<ClusterContext, 'context' | 'namespace'>): Promise<Cluster | JobmanError> {
      const current = await own();
      const isSame = current !== null && !(current instanceof JobmanError) && current.context().context === context;
      return open(isSame ? { namespace } : { namespace, context });
    },
    async close(): Promise<void> {
      for (const cluster of await Promise.all(opened.values()))
        if (!(cluster instanceof JobmanError)) await cluster.close();
    },
  };
}

async function findJob(search: Search, name: string, purpose: RefPurpose): Promise<Found> {
  const current = await findInNamespace(search, name, await search.clusters.own());
  return search.isScoped ? current : findInOtherNamespace(search, name, current, purpose);
}

/** Searches the namespace of `opened`, then the archive of it; without a cluster the whole archive. */
async function findInNamespace(
  { now, archived: read, scope, isScoped }: Search,
  name: string,
  opened: Cluster | JobmanError | null,
): Promise<Found> {
  let problem = opened instanceof JobmanError ? opened : null;
  const cluster = opened instanceof JobmanError ? null : opened;
  const here = cluster?.context();
  try {
    const job = await cluster?.job(name);
    if (here !== undefined && job !== undefined && job !== null)
      return recordOfJob(job, { context: here.context, cluster, archived: null, copy: null });
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    problem = error;
  }
  const { namespace = here?.namespace, context } = scope;
  const all = await read(omitUndefined({ name, namespace: here?.namespace ?? namespace, server: here?.server }));
  const isWanted = (copy: ArchivedJob): boolean =>
    here !== undefined || context === undefined || copy.context === context;
  const [archived, ...others] = newestPerNamespace(all.filter(isWanted));
  if (archived !== undefined) {
    // Without a cluster, choosing the newest of several would be a guess.
    if (others.length > 0) return ambiguous([archived, ...others].map(zoneOf), archived);
    const isAbsent = problem === null && here !== undefined;
    const since = archived.goneAt === null ? '' : ` (deleted ${formatAge(now - archived.goneAt)} ago)`;
    const message = isAbsent
      ? `${zoneOf(archived)} does not have ${name} any more${since}; this is from the archive.`
      : `${problem?.message ?? `No cluster is configured.`} This is from the archive of ${zoneOf(archived)}, ${formatAge(now - archived.observedAt)} old.`;
    const isGone = isAbsent || archived.goneAt !== null;
    const copy = { message, isCertain: isAbsent || !mayBeActive(archived), isGone };
    return recordOfJob(archived.job, { context: archived.context, cluster, archived, copy });
  }
  if (problem !== null && (isScoped || problem.errorCode === 'forbidden')) return problem;
  const missing = `There is no job named "${name}"`;
  if (problem !== null) {
    const message = `${missing} here, and the cluster cannot be reached. ${problem.message}`;
    return reworded(problem, { message });
  }
  const where = here === undefined ? null : formatZone(here);
  const searched = where === null ? ' here' : isScoped ? ` in ${where}` : `, here or in ${where}`;
  const message = `${missing}${searched}. List all jobs: jobman list${isScoped ? '' : ' --all'}`;
  return new JobmanError(message, exitCode.notFound, manifestHint(name));
}

/**
 * A job submitted from here to another namespace is found there, unless the current namespace has the name. A command
 * that changes a job refuses a name that both have: it could change the wrong job.
 */
async function findInOtherNamespace(search: Search, name: string, found: Found, purpose: RefPurpose): Promise<Found> {
  const { archived, clusters } = search;
  const record = found instanceof JobmanError ? null : found;
  // An archived job of the current namespace, while the cluster does not answer.
  if (record?.found.copy?.isCertain === false) return record;
  const own = await clusters.own();
  const here = own === null || own instanceof JobmanError ? undefined : own.context();
  const submitted = (await archived({ name })).filter(
    ({ object, server, job }) => object !== null && (here?.server !== server || here.namespace !== job.namespace),
  );
  const current = record !== null && record.archived === null ? record : null;
  // One cluster may have two addresses.
  const open = newestPerNamespace(
    submitted.filter(({ goneAt, hidden, job }) => goneAt === null && !hidden && job.uid !== current?.job.uid),
  );
  if (current !== null) {
    const where = formatZone(expectCluster(current.cluster).context());
    for (const other of purpose === 'change' ? open : []) {
      if (await mayExist(await clusters.at(scopeOf(other)), name)) return ambiguous([where, zoneOf(other)], other);
    }
    const [other] = open;
    if (other === undefined) return current;
    const note = `This is ${name} of ${where}; another one was submitted to ${zoneOf(other)}.`;
    return { ...current, found: { ...current.found, note } };
  }
  const listed = newestPerNamespace(submitted.filter(({ hidden }) => !hidden));
  // The archived job of this namespace is as good as one of another namespace; only a job that may still run is better.
  const wanted = open.length > 0 || record !== null ? open : listed.length > 0 ? listed : newestPerNamespace(submitted);
  const [other, ...more] = wanted;
  if (other === undefined) return found;
  if (more.length > 0) return ambiguous(wanted.map(zoneOf), other);
  const scope = scopeOf(other);
  return findInNamespace({ ...search, scope, isScoped: true }, name, await clusters.at(scope));
}

/** Expects the newest job first. */
function newestPerNamespace(jobs: readonly ArchivedJob[]): readonly ArchivedJob[] {
  const byNamespace = Map.groupBy(jobs, ({ server, job }) => `${server} ${job.namespace}`);
  return [...byNamespace.values()].flatMap((same) => same.slice(0, 1));
}

/** Also true for a cluster that does not answer: it may still have the job. */
async function mayExist(cluster: Cluster | JobmanError, name: string): Promise<boolean> {
  try {
    return cluster instanceof JobmanError || (await cluster.job(name)) !== null;
  } catch (error) {
    if (error instanceof JobmanError) return true;
    throw error;
  }
}

type Zone = Pick<ClusterContext, 'context' | 'namespace'>;

const formatZone = ({ context, namespace }: Zone): string => `${context}/${namespace}`;
const scopeOf = ({ context, job: { namespace } }: ArchivedJob): Zone => ({ context, namespace });
const zoneOf = (archived: ArchivedJob): string => formatZone(scopeOf(archived));

function ambiguous(zones: readonly string[], { context, job: { name, namespace } }: ArchivedJob): JobmanError {
  const message = `Several jobs are named "${name}": in ${zones.join(' and in ')}.`;
  return new JobmanError(message, exitCode.conflict, [`Choose one: --context ${context} -n ${namespace}`]);
}
