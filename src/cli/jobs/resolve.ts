// Finds the jobs that arguments name: in the store first, then in the cluster if one is in use, then in the archive,
// which has jobs that the cluster has deleted or does not report now. Loads no Kubernetes code without a cluster.

import type { Client, Ref } from '../../app/client.ts';
import type { ClusterArchive } from '../../app/cluster/commands.ts';
import type { Cluster, ClusterJob } from '../../app/cluster/cluster.ts';
import { isIdRef, manifestHint, type RefPurpose } from '../../app/refs.ts';
import { mayBeActive, type ArchivedJob } from '../../app/cluster/archive.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { formatAge } from '../../app/format.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import { missingJobError, reportError, type Cli } from '../context.ts';
import { withTimeout } from '../../app/concurrency.ts';
import { clusterTimeout } from '../cluster/join-sources.ts';
import type { ArchivedCopy } from '../cluster/archived-job.ts';
import type { ContextFlags, JobFlags, JobHandle, JobText } from './handle.ts';
import { storedJob } from './stored.ts';

export interface Resolution {
  readonly client: Client;
  readonly jobs: readonly { readonly name: string; readonly found: JobHandle | JobmanError }[];
  readonly close: () => Promise<void>;
}

type Found =
  | { readonly kind: 'job'; readonly handle: JobHandle }
  /** `cluster` is open in the namespace of the job. */
  | { readonly kind: 'cluster'; readonly job: ClusterJob; readonly cluster: Cluster }
  | ({ readonly kind: 'archived' } & ArchivedCopy)
  | { readonly kind: 'none'; readonly error: JobmanError };

/** Throws JobmanError without a job, and for a name of two jobs. To change a job, its name must be in one namespace. */
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
  const uses = !areStored && (isContextNamed || (await services.isClusterConfigured()));
  const usesStoreOnly = areStored || (!uses && !archive.isUsed);
  const opened = uses
    ? await openOrError(services.cluster(omitUndefined({ context: flags.context, namespace: flags.namespace })))
    : null;
  const cluster = opened === null || opened instanceof JobmanError ? null : opened;
  const clusters = createOpenClusters(cli, cluster);
  const find = async (requested: RequestedJob): Promise<Found> => {
    const stored = isContextNamed ? null : await findStored(cli, client, cluster, requested, purpose);
    if (stored !== null && (stored.kind === 'job' || usesStoreOnly || stored.error.code !== exitCode.notFound))
      return stored;
    const other = await findInCluster(cli, opened, archive, flags, requested.text);
    if (isContextNamed) return other;
    return findInOtherNamespace(cli, clusters, archive, requested.text, other, purpose === 'change');
  };
  try {
    const jobs: Resolution['jobs'][number][] = [];
    for (const requested of requestedJobs) {
      const found = await find(requested);
      jobs.push({ name: requested.text, found: await handleOf(cli, archive, found) });
    }
    return { client, jobs, close: clusters.close };
  } catch (error) {
    await clusters.close();
    throw error;
  }
}

async function handleOf(cli: Cli, archive: ClusterArchive, found: Found): Promise<JobHandle | JobmanError> {
  switch (found.kind) {
    case 'job':
      return found.handle;
    case 'none':
      return found.error;
    case 'cluster': {
      const { clusterJob } = await import('../cluster/cluster-job.ts');
      return clusterJob(cli, archive, found.cluster, found.job);
    }
    case 'archived': {
      const { archivedJob } = await import('../cluster/archived-job.ts');
      return archivedJob(cli, archive, found);
    }
  }
}

async function openOrError(cluster: Promise<Cluster>): Promise<Cluster | JobmanError> {
  try {
    return await cluster;
  } catch (error) {
    if (error instanceof JobmanError) return error;
    throw error;
  }
}

interface RequestedJob {
  readonly text: string;
  readonly isExact: boolean;
}

async function findStored(
  cli: Cli,
  client: Client,
  cluster: Cluster | null,
  { text: name, isExact }: RequestedJob,
  purpose: RefPurpose,
): Promise<Extract<Found, { readonly kind: 'job' | 'none' }>> {
  if (isIdRef(name) && !isExact) return { kind: 'job', handle: storedJob(cli, client, name) };
  let id: Ref;
  try {
    id = await client.resolveName(name, purpose);
  } catch (error) {
    if (error instanceof JobmanError) return { kind: 'none', error };
    throw error;
  }
  // An explicit name must be unambiguous. A cluster that does not answer counts as having no such job.
  const other =
    isExact && cluster !== null
      ? await withTimeout(clusterTimeout, cluster.job(name), () => null).catch(() => null)
      : null;
  if (other === null || cluster === null) return { kind: 'job', handle: storedJob(cli, client, id) };
  const { context, namespace } = cluster.context();
  const message = `Two jobs are named "${name}": ${id} here, and one in ${context}/${namespace}.`;
  const hint = `Give the id, or --namespace ${namespace}.`;
  return { kind: 'none', error: new JobmanError(message, exitCode.conflict, [hint]) };
}

async function findInCluster(
  cli: Cli,
  opened: Cluster | JobmanError | null,
  archive: ClusterArchive,
  flags: ContextFlags,
  name: string,
): Promise<Found> {
  const isContextNamed = flags.namespace !== undefined || flags.context !== undefined;
  let problem = opened instanceof JobmanError ? opened : null;
  const current = opened === null || opened instanceof JobmanError ? null : opened.context();
  if (opened !== null && !(opened instanceof JobmanError)) {
    try {
      const job = await opened.job(name);
      if (job !== null) return { kind: 'cluster', job, cluster: opened };
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      problem = error;
    }
  }
  const now = cli.io.now();
  const all = await archive.jobs(
    omitUndefined({ name, namespace: current?.namespace ?? flags.namespace, server: current?.server }),
  );
  const wanted = all.filter(
    ({ context }) => current !== null || flags.context === undefined || context === flags.context,
  );
  // Without a cluster, choosing the newest of several would be a guess.
  const candidates = newestPerNamespace(wanted);
  const [job] = candidates;
  if (job !== undefined && candidates.length > 1)
    return { kind: 'none', error: ambiguousNamespaceError(candidates.map(contextOf), job) };
  if (job !== undefined) {
    const where = `${job.context}/${job.job.namespace}`;
    const isAbsent = problem === null && current !== null;
    const since = job.goneAt === null ? '' : ` (deleted ${formatAge(now - job.goneAt)} ago)`;
    const note = isAbsent
      ? `${where} does not have ${name} any more${since}; this is the archived copy.`
      : `${problem?.message ?? `No cluster is configured.`} This is the archived copy of ${where}, ${formatAge(now - job.observedAt)} old.`;
    const cluster = opened instanceof JobmanError ? null : opened;
    return {
      kind: 'archived',
      job,
      note,
      isCertain: isAbsent || !mayBeActive(job),
      isGone: isAbsent || job.goneAt !== null,
      cluster,
    };
  }
  if (problem !== null) {
    if (isContextNamed) return { kind: 'none', error: problem };
    const message = `There is no job named "${name}" here, and the cluster cannot be reached. ${problem.message}`;
    return { kind: 'none', error: new JobmanError(message, problem.code, problem.lines) };
  }
  const where = current === null ? null : `${current.context}/${current.namespace}`;
  const scope = where === null ? 'here' : isContextNamed ? `in ${where}` : `here or in ${where}`;
  const comma = where === null || isContextNamed ? '' : ',';
  const message = `There is no job named "${name}"${comma} ${scope}. List all jobs: jobman list${isContextNamed ? '' : ' --all'}`;
  return { kind: 'none', error: new JobmanError(message, exitCode.notFound, manifestHint(name)) };
}

type OpenClusters = ReturnType<typeof createOpenClusters>;

function createOpenClusters({ services }: Cli, own: Cluster | null) {
  const others = new Map<string, Promise<Cluster>>();
  return {
    own,
    open({ context, job: { namespace } }: ArchivedJob): Promise<Cluster> {
      const isSame = own?.context().context === context;
      const key = `${context}/${namespace}`;
      const opened = others.get(key) ?? services.cluster({ namespace, ...(isSame ? {} : { context }) });
      others.set(key, opened);
      return opened;
    },
    close: async () => {
      await own?.close();
      for (const other of others.values()) await other.then((cluster) => cluster.close()).catch(() => undefined);
    },
  };
}

/**
 * A job that was submitted from here to another namespace is found there, unless the current namespace has the name. A
 * command that changes a job refuses a name that both have: it could change the wrong job.
 */
async function findInOtherNamespace(
  cli: Cli,
  clusters: OpenClusters,
  archive: ClusterArchive,
  name: string,
  found: Found,
  isChange: boolean,
): Promise<Found> {
  // An archived job of the current namespace, while the cluster does not answer.
  if (found.kind === 'archived' && !found.isCertain) return found;
  const here = clusters.own?.context();
  const submitted = (await archive.jobs({ name })).filter(
    ({ object, server, job }) => object !== null && (here?.server !== server || here.namespace !== job.namespace),
  );
  // One cluster may have two addresses.
  const uid = found.kind === 'cluster' ? found.job.uid : null;
  const open = newestPerNamespace(
    submitted.filter(({ goneAt, hidden, job }) => goneAt === null && !hidden && job.uid !== uid),
  );
  if (found.kind === 'cluster') {
    const current = formatContext(found.cluster.context());
    for (const job of isChange ? open : []) {
      if (await existsInCluster(clusters, job))
        return { kind: 'none', error: ambiguousNamespaceError([current, contextOf(job)], job) };
    }
    const [other] = open;
    if (other !== undefined)
      cli.note(`This is ${name} of ${current}; another one was submitted to ${contextOf(other)}.`);
    return found;
  }
  const listed = newestPerNamespace(submitted.filter(({ hidden }) => !hidden));
  // The archived job of this namespace is as good as one of another namespace; only a job that may still run is better.
  const wanted =
    open.length > 0 || found.kind === 'archived' ? open : listed.length > 0 ? listed : newestPerNamespace(submitted);
  const [job] = wanted;
  if (job === undefined) return found;
  if (wanted.length > 1) return { kind: 'none', error: ambiguousNamespaceError(wanted.map(contextOf), job) };
  const flags = { context: job.context, namespace: job.job.namespace };
  return findInCluster(cli, await openOrError(clusters.open(job)), archive, flags, name);
}

/** Expects the newest job first. */
function newestPerNamespace(jobs: readonly ArchivedJob[]): readonly ArchivedJob[] {
  const newest = new Map<string, ArchivedJob>();
  for (const job of jobs) {
    const key = `${job.server} ${job.job.namespace}`;
    if (!newest.has(key)) newest.set(key, job);
  }
  return [...newest.values()];
}

/** True too for a cluster that does not answer: it may still have the job. */
async function existsInCluster(clusters: OpenClusters, archived: ArchivedJob): Promise<boolean> {
  try {
    return (await (await clusters.open(archived)).job(archived.job.name)) !== null;
  } catch (error) {
    if (error instanceof JobmanError) return true;
    throw error;
  }
}

const formatContext = ({ context, namespace }: { readonly context: string; readonly namespace: string }): string =>
  `${context}/${namespace}`;
const contextOf = ({ context, job: { namespace } }: ArchivedJob): string => formatContext({ context, namespace });

function ambiguousNamespaceError(contexts: readonly string[], { context, job }: ArchivedJob): JobmanError {
  return new JobmanError(`Several jobs are named "${job.name}": in ${contexts.join(' and in ')}.`, exitCode.conflict, [
    `Choose one: --context ${context} -n ${job.namespace}`,
  ]);
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
