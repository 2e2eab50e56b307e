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
import { forEach, reportError, missingJobError, type Cli } from '../context.ts';
import { withTimeout } from './join-sources.ts';

export interface ContextFlags {
  readonly namespace?: string | undefined;
  readonly context?: string | undefined;
}

export interface JobFlags extends ContextFlags {
  readonly jobName?: string | undefined;
}

/** Each handler resolves with an exit code. */
export interface JobHandlers {
  readonly stored: (client: Client, refs: readonly Ref[]) => Promise<number>;
  readonly cluster: (cluster: Cluster, job: ClusterJob) => Promise<number>;
  /** For a job that only the archive has; by default an error names the commands for archived jobs. */
  readonly archived?: (archive: ClusterArchive, job: ArchivedJob, cluster: Cluster | null) => Promise<number>;
  readonly includesHidden?: true;
  /** Refuses a name in two namespaces, and a job whose cluster cannot be reached. */
  readonly isChange?: true;
  /** Works on machines: of several jobs with one name, the unfinished one is meant. */
  readonly needsWorkers?: true;
  /** The command changes only the archive, so it does not need the cluster. */
  readonly worksOffline?: true;
}

type ResolvedJob =
  | { readonly kind: 'stored'; readonly ref: Ref }
  /** `cluster` is open in the namespace of the job. */
  | { readonly kind: 'cluster'; readonly job: ClusterJob; readonly cluster: Cluster }
  /** `isCertain`: nothing can have changed since. `isGone`: the cluster has reported that it does not have the job. */
  | {
      readonly kind: 'archived';
      readonly job: ArchivedJob;
      readonly note: string;
      readonly isCertain: boolean;
      readonly isGone: boolean;
      readonly cluster: Cluster | null;
    }
  | { readonly kind: 'none'; readonly error: JobmanError };

export interface Resolution {
  readonly client: Client;
  readonly archive: ClusterArchive;
  readonly jobs: readonly ResolvedJob[];
  /** The name or id of each job, as typed. */
  readonly names: readonly string[];
  close(): Promise<void>;
}

/** Stored jobs first. A missing job is reported and does not stop the others. Resolves with the worst exit code. */
export async function handleJobs(
  cli: Cli,
  flags: JobFlags,
  args: readonly string[],
  handlers: JobHandlers,
): Promise<number> {
  const purpose = handlers.isChange === true || handlers.needsWorkers === true ? 'change' : 'read';
  const resolution = await resolveJobs(cli, flags, args, purpose, handlers.isChange === true);
  const { client, archive, jobs, names } = resolution;
  try {
    let worst: number = exitCode.ok;
    const refs = jobs.flatMap((resolved) => (resolved.kind === 'stored' ? [resolved.ref] : []));
    if (refs.length === 1) worst = await forEach(cli, refs, () => handlers.stored(client, refs));
    if (refs.length > 1) worst = await handlers.stored(client, refs);
    for (const [at, resolved] of jobs.entries()) {
      try {
        if (resolved.kind === 'cluster') {
          worst = Math.max(worst, await handlers.cluster(resolved.cluster, resolved.job));
        }
        if (resolved.kind === 'archived') {
          if (handlers.isChange === true && handlers.worksOffline !== true && !resolved.isGone)
            throw notChangedError(resolved);
          if (handlers.archived === undefined || (resolved.job.hidden && handlers.includesHidden !== true))
            throw onlyArchivedError(resolved);
          cli.note(resolved.note);
          worst = Math.max(worst, await handlers.archived(archive, resolved.job, resolved.cluster));
          // The exit code says that the answer may be old.
          if (!resolved.isCertain) worst = Math.max(worst, exitCode.unreachable);
        }
        if (resolved.kind === 'none') throw resolved.error;
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        worst = Math.max(worst, reportError(error, cli, { job: names[at] }));
      }
    }
    return worst;
  } finally {
    await resolution.close();
  }
}

export function onlyArchivedError({ job: { job }, note, isGone }: ArchivedResolution): JobmanError {
  const lines = [`Its logs and history remain: jobman logs ${job.name}, jobman history ${job.name}`];
  return isGone
    ? new JobmanError(`${job.name} is deleted. ${note}`, exitCode.notFound, lines)
    : new JobmanError(`${job.name} cannot be reached. ${note}`, exitCode.unreachable, lines);
}

type ArchivedResolution = Pick<Extract<ResolvedJob, { readonly kind: 'archived' }>, 'job' | 'note' | 'isGone'>;

function notChangedError({ job: { job }, note }: ArchivedResolution): JobmanError {
  return new JobmanError(`Nothing changed: ${job.name} may still run in its cluster. ${note}`, exitCode.unreachable);
}

/** Throws JobmanError without a job, for a name of two jobs, and with `isChange` for a name in two namespaces. */
export async function resolveJobs(
  cli: Cli,
  flags: JobFlags,
  args: readonly string[],
  purpose: RefPurpose = 'read',
  isChange = false,
): Promise<Resolution> {
  const requestedJobs = [
    ...args.map((text) => ({ text, isExact: false })),
    ...(flags.jobName === undefined ? [] : [{ text: flags.jobName, isExact: true }]),
  ];
  if (requestedJobs.length === 0) throw missingJobError();
  const names = requestedJobs.map(({ text }) => text);
  const { services } = cli;
  const client = await services.client();
  const isContextNamed = flags.namespace !== undefined || flags.context !== undefined;
  const areStored = requestedJobs.every(({ text, isExact }) => isIdRef(text) && !isExact) && !isContextNamed;
  const archive = await services.clusterArchive();
  const uses = !areStored && (isContextNamed || (await services.isClusterConfigured()));
  if (areStored || (!uses && !archive.isUsed)) {
    const jobs = await Promise.all(requestedJobs.map((requested) => resolveStored(client, requested, purpose)));
    return { client, archive, jobs, names, close: async () => undefined };
  }
  const opened = uses
    ? await openOrError(services.cluster(omitUndefined({ context: flags.context, namespace: flags.namespace })))
    : null;
  const cluster = opened === null || opened instanceof JobmanError ? null : opened;
  const clusters = createOpenClusters(cli, cluster);
  try {
    const jobs: ResolvedJob[] = [];
    for (const requested of requestedJobs) {
      const found = isContextNamed ? null : await findStored(client, cluster, requested, purpose);
      if (found !== null) {
        jobs.push(found);
        continue;
      }
      const other = await findInCluster(cli, opened, archive, flags, requested.text);
      jobs.push(
        isContextNamed ? other : await findInOtherNamespace(cli, clusters, archive, requested.text, other, isChange),
      );
    }
    return { client, archive, jobs, names, close: clusters.close };
  } catch (error) {
    await clusters.close();
    throw error;
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

async function resolveStored(
  client: Client,
  { text, isExact }: RequestedJob,
  purpose: RefPurpose,
): Promise<ResolvedJob> {
  if (isIdRef(text) && !isExact) return { kind: 'stored', ref: text };
  try {
    return { kind: 'stored', ref: await client.resolveName(text, purpose) };
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    return { kind: 'none', error };
  }
}

async function findStored(
  client: Client,
  cluster: Cluster | null,
  requested: RequestedJob,
  purpose: RefPurpose,
): Promise<ResolvedJob | null> {
  const { text: name, isExact } = requested;
  const found = await resolveStored(client, requested, purpose);
  if (isIdRef(name) && !isExact) return found;
  if (found.kind === 'none' && found.error.code === exitCode.notFound) return null;
  // An explicit name must be unambiguous. A cluster that does not answer counts as having no such job.
  const other = isExact && cluster !== null ? await withTimeout(cluster.job(name), null).catch(() => null) : null;
  if (other === null || cluster === null || found.kind !== 'stored') return found;
  const { context, namespace } = cluster.context();
  const message = `Two jobs are named "${name}": ${found.ref} here, and one in ${context}/${namespace}.`;
  const hint = `Give the id, or --namespace ${namespace}.`;
  return { kind: 'none', error: new JobmanError(message, exitCode.conflict, [hint]) };
}

async function findInCluster(
  cli: Cli,
  opened: Cluster | JobmanError | null,
  archive: ClusterArchive,
  flags: ContextFlags,
  name: string,
): Promise<ResolvedJob> {
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
  found: ResolvedJob,
  isChange: boolean,
): Promise<ResolvedJob> {
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
