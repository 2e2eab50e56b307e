// Finds the jobs that arguments name: in the store first, then in the cluster if one is in use, then in the archive,
// which has jobs that the cluster has deleted or does not report now. Loads no Kubernetes code without a cluster.

import type { Client, Ref } from '../../app/client.ts';
import type { ClusterArchive } from '../../app/cluster/commands.ts';
import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { isIdRef, manifestHint, type RefPurpose } from '../../app/refs.ts';
import { mayBeActive, type ArchivedJob } from '../../app/cluster/archive.ts';
import { exitCode, isNotFoundError, JobmanError } from '../../app/errors.ts';
import { formatAge } from '../../app/format.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { missingJobError, reportError, type Cli } from '../context.ts';
import { withTimeout } from '../../app/concurrency.ts';
import { clusterTimeout } from '../cluster/join-sources.ts';
import type { ArchivedCopy } from '../cluster/cluster-job.ts';
import type { ContextFlags, JobFlags, JobHandle, JobText } from './handle.ts';
import { storedJob } from './stored.ts';

export interface Resolution {
  readonly client: Client;
  readonly jobs: readonly { readonly name: string; readonly found: JobHandle | JobmanError }[];
  readonly close: () => Promise<void>;
}

/** Throws JobmanError without a job. To change a job, its name must be in one namespace. */
export async function resolveJobs(
  cli: Cli,
  flags: JobFlags,
  args: readonly string[],
  purpose: RefPurpose,
): Promise<Resolution> {
  const requestedJobs = [
    ...args.map((text) => ({ text, isExact: false })),
    ...(flags.jobName === undefined ? [] : [{ text: flags.jobName, isExact: true }]),
  ];
  if (requestedJobs.length === 0) throw missingJobError();
  const { services } = cli;
  const client = await services.client();
  const isContextNamed = flags.namespace !== undefined || flags.context !== undefined;
  const areStored = requestedJobs.every(({ text, isExact }) => isIdRef(text) && !isExact) && !isContextNamed;
  const archive = await services.clusterArchive();
  const usesCluster = !areStored && (isContextNamed || (await services.isClusterConfigured()));
  const clusters = createClusters(cli, usesCluster ? flags : null);
  const search: Search = { cli, archive, clusters, flags, isContextNamed };
  const find = async (name: string, isExact: boolean): Promise<JobHandle> => {
    if (!isContextNamed) {
      const stored = await findStored(search, client, name, isExact, purpose, usesCluster || archive.isUsed);
      if (stored !== null) return stored;
    }
    const current = await findInNamespace(search, name, await clusters.own());
    const found = isContextNamed ? current : await findInOtherNamespace(search, name, current, purpose);
    if (found.kind === 'none') throw found.error;
    if (found.kind === 'archived') {
      const { archivedJob } = await import('../cluster/cluster-job.ts');
      return archivedJob(cli, archive, found);
    }
    const { clusterJob } = await import('../cluster/cluster-job.ts');
    return clusterJob(cli, archive, found.cluster, found.job);
  };
  const jobs: Resolution['jobs'][number][] = [];
  try {
    for (const { text: name, isExact } of requestedJobs) {
      const found = await find(name, isExact).catch((error: unknown) => {
        if (error instanceof JobmanError) return error;
        throw error;
      });
      jobs.push({ name, found });
    }
    return { client, jobs, close: clusters.close };
  } catch (error) {
    await clusters.close();
    throw error;
  }
}

interface Search {
  readonly cli: Cli;
  readonly archive: ClusterArchive;
  readonly clusters: ReturnType<typeof createClusters>;
  readonly flags: ContextFlags;
  readonly isContextNamed: boolean;
}

/** The job of a name in one namespace. `cluster` is open in that namespace. */
type Found =
  | { readonly kind: 'cluster'; readonly job: ClusterJob; readonly cluster: Cluster }
  | ({ readonly kind: 'archived' } & ArchivedCopy)
  | { readonly kind: 'none'; readonly error: JobmanError };

/** The cluster of the flags and those of other submissions. `own` is null without a cluster; an error is a value. */
function createClusters({ services }: Cli, flags: ContextFlags | null) {
  const opened = new Map<string, Promise<Cluster | JobmanError>>();
  const open = (options: ContextFlags): Promise<Cluster | JobmanError> => {
    const key = JSON.stringify([options.context, options.namespace]);
    const cluster =
      opened.get(key) ??
      services.cluster(omitUndefined(options)).catch((error: unknown) => {
        if (error instanceof JobmanError) return error;
        throw error;
      });
    opened.set(key, cluster);
    return cluster;
  };
  const own = async (): Promise<Cluster | JobmanError | null> =>
    flags === null ? null : open({ context: flags.context, namespace: flags.namespace });
  return {
    own,
    /** In the namespace of that job. */
    async of({ context, job: { namespace } }: ArchivedJob): Promise<Cluster | JobmanError> {
      const current = await own();
      const isSame = current !== null && !(current instanceof JobmanError) && current.context().context === context;
      return open(isSame ? { namespace } : { namespace, context });
    },
    close: async () => {
      for (const cluster of await Promise.all(opened.values()))
        if (!(cluster instanceof JobmanError)) await cluster.close();
    },
  };
}

/** Null if the store has no job of the name and the search may continue elsewhere. */
async function findStored(
  { cli, clusters }: Search,
  client: Client,
  name: string,
  isExact: boolean,
  purpose: RefPurpose,
  mayContinue: boolean,
): Promise<JobHandle | null> {
  if (isIdRef(name) && !isExact) return storedJob(cli, client, name);
  let id: Ref;
  try {
    id = await client.resolveName(name, purpose);
  } catch (error) {
    if (isNotFoundError(error) && mayContinue) return null;
    throw error;
  }
  const cluster = isExact ? await clusters.own() : null;
  if (cluster === null || cluster instanceof JobmanError) return storedJob(cli, client, id);
  // An explicit name must be unambiguous. A cluster that does not answer counts as having no such job.
  const other = await withTimeout(clusterTimeout, cluster.job(name), () => null).catch(() => null);
  if (other === null) return storedJob(cli, client, id);
  const { context, namespace } = cluster.context();
  const message = `Two jobs are named "${name}": ${id} here, and one in ${context}/${namespace}.`;
  throw new JobmanError(message, exitCode.conflict, [`Give the id, or --namespace ${namespace}.`]);
}

/** Searches the namespace of `opened`, then the archive of it; without a cluster the whole archive. */
async function findInNamespace(
  { cli, archive, flags, isContextNamed }: Search,
  name: string,
  opened: Cluster | JobmanError | null,
): Promise<Found> {
  let problem = opened instanceof JobmanError ? opened : null;
  const cluster = opened instanceof JobmanError ? null : opened;
  try {
    const job = await cluster?.job(name);
    if (cluster !== null && job !== undefined && job !== null) return { kind: 'cluster', job, cluster };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    problem = error;
  }
  const now = cli.io.now();
  const here = cluster?.context();
  const { namespace = here?.namespace, context } = flags;
  const all = await archive.jobs(
    omitUndefined({ name, namespace: here?.namespace ?? namespace, server: here?.server }),
  );
  const isWanted = (copy: ArchivedJob): boolean =>
    here !== undefined || context === undefined || copy.context === context;
  const [copy, ...others] = newestPerNamespace(all.filter(isWanted));
  const where = here === undefined ? null : formatContext(here);
  if (copy !== undefined) {
    // Without a cluster, choosing the newest of several would be a guess.
    if (others.length > 0) return ambiguous([copy, ...others].map(contextOf), copy);
    const isAbsent = problem === null && here !== undefined;
    const since = copy.goneAt === null ? '' : ` (deleted ${formatAge(now - copy.goneAt)} ago)`;
    const note = isAbsent
      ? `${contextOf(copy)} does not have ${name} any more${since}; this is from the archive.`
      : `${problem?.message ?? `No cluster is configured.`} This is from the archive of ${contextOf(copy)}, ${formatAge(now - copy.observedAt)} old.`;
    const isGone = isAbsent || copy.goneAt !== null;
    return { kind: 'archived', job: copy, note, isCertain: isAbsent || !mayBeActive(copy), isGone, cluster };
  }
  if (problem !== null && isContextNamed) return { kind: 'none', error: problem };
  const missing = `There is no job named "${name}"`;
  if (problem !== null) {
    const message = `${missing} here, and the cluster cannot be reached. ${problem.message}`;
    return { kind: 'none', error: new JobmanError(message, problem.code, problem.lines) };
  }
  const scope = where === null ? ' here' : isContextNamed ? ` in ${where}` : `, here or in ${where}`;
  const message = `${missing}${scope}. List all jobs: jobman list${isContextNamed ? '' : ' --all'}`;
  return { kind: 'none', error: new JobmanError(message, exitCode.notFound, manifestHint(name)) };
}

/**
 * A job submitted from here to another namespace is found there, unless the current namespace has the name. A command
 * that changes a job refuses a name that both have: it could change the wrong job.
 */
async function findInOtherNamespace(search: Search, name: string, found: Found, purpose: RefPurpose): Promise<Found> {
  const { cli, archive, clusters } = search;
  // An archived job of the current namespace, while the cluster does not answer.
  if (found.kind === 'archived' && !found.isCertain) return found;
  const own = await clusters.own();
  const here = own === null || own instanceof JobmanError ? undefined : own.context();
  const submitted = (await archive.jobs({ name })).filter(
    ({ object, server, job }) => object !== null && (here?.server !== server || here.namespace !== job.namespace),
  );
  // One cluster may have two addresses.
  const uid = found.kind === 'cluster' ? found.job.uid : null;
  const listed = newestPerNamespace(submitted.filter(({ hidden }) => !hidden));
  const open = newestPerNamespace(
    submitted.filter(({ goneAt, hidden, job }) => goneAt === null && !hidden && job.uid !== uid),
  );
  if (found.kind === 'cluster') {
    const current = formatContext(found.cluster.context());
    for (const job of purpose === 'change' ? open : []) {
      if (await mayExist(await clusters.of(job), name)) return ambiguous([current, contextOf(job)], job);
    }
    const [other] = open;
    if (other !== undefined)
      cli.note(`This is ${name} of ${current}; another one was submitted to ${contextOf(other)}.`);
    return found;
  }
  // The archived job of this namespace is as good as one of another namespace; only a job that may still run is better.
  const wanted =
    open.length > 0 || found.kind === 'archived' ? open : listed.length > 0 ? listed : newestPerNamespace(submitted);
  const [job, ...others] = wanted;
  if (job === undefined) return found;
  if (others.length > 0) return ambiguous(wanted.map(contextOf), job);
  const flags = { context: job.context, namespace: job.job.namespace };
  return findInNamespace({ ...search, flags, isContextNamed: true }, name, await clusters.of(job));
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

const formatContext = ({ context, namespace }: { readonly context: string; readonly namespace: string }): string =>
  `${context}/${namespace}`;
const contextOf = ({ context, job: { namespace } }: ArchivedJob): string => formatContext({ context, namespace });

function ambiguous(contexts: readonly string[], { context, job: { name, namespace } }: ArchivedJob): Found {
  const message = `Several jobs are named "${name}": in ${contexts.join(' and in ')}.`;
  const hint = `Choose one: --context ${context} -n ${namespace}`;
  return { kind: 'none', error: new JobmanError(message, exitCode.conflict, [hint]) };
}

/** A failure is reported and does not stop the others. Resolves with the worst exit code. */
export async function forEachJob(
  cli: Cli,
  flags: JobFlags,
  args: readonly string[],
  purpose: RefPurpose,
  act: (job: JobHandle) => Promise<number>,
  /** Runs at the end, unless every stored job failed. */
  after?: (client: Client) => Promise<void>,
): Promise<number> {
  const resolution = await resolveJobs(cli, flags, args, purpose);
  let worst: number = exitCode.ok;
  let isStoredDone = false;
  try {
    for (const { name, found } of resolution.jobs) {
      try {
        if (found instanceof JobmanError) throw found;
        const code = await act(found);
        worst = Math.max(worst, code);
        isStoredDone ||= found.isStored && code === exitCode.ok;
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        worst = Math.max(worst, reportError(error, cli, { job: name }));
      }
    }
    if (isStoredDone) await after?.(resolution.client);
    return worst;
  } finally {
    await resolution.close();
  }
}

/** Prints a text for each job; an empty line separates them. */
export function printEachJob(
  cli: Cli,
  flags: JobFlags,
  args: readonly string[],
  textOf: (job: JobHandle) => Promise<JobText>,
  after: (client: Client) => Promise<void>,
): Promise<number> {
  let isFirst = true;
  return forEachJob(
    cli,
    flags,
    args,
    'read',
    async (job) => {
      const { objects, lines, exitCode: code = exitCode.ok } = await textOf(job);
      if (cli.json) cli.printJsonLines(objects());
      else cli.printAll([...(isFirst ? [] : ['']), ...lines()]);
      isFirst = false;
      return code;
    },
    after,
  );
}
