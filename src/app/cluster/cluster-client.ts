// Cluster client: the operations that commands use on the clusters of a server. The methods that read are those of
// `Cluster`; a change is one operation, which the server performs with all of its rules. Arguments and answers are plain
// data.

import type { V1Job, V1PodTemplateSpec } from '@kubernetes/client-node';
import { randomUUID } from 'node:crypto';
import { checkClusterPermission, permissions, type JobOperation } from '../../core/policy/permissions.ts';
import type { Actor } from '../../core/model/user.ts';
import { digestOf } from '../../catalogue/digest.ts';
import { auditEntry, type AuditEntry, type AuditObject } from '../audit.ts';
import { recordRequestEnd } from '../audit-refusals.ts';
import type { Client, CommandOptions } from '../client.ts';
import { untilLeft } from '../concurrency.ts';
import { requireIdempotencyKey } from '../create.ts';
import { exitCode, JobmanError, usageError } from '../errors.ts';
import { capitalize } from '../format.ts';
import type { CommandStep, PerformedCommand } from '../command-steps.ts';
import { forbiddenError, isAllowedCluster, requireCluster } from '../require-permission.ts';
import type { Services } from '../services.ts';
import { withRefusalsRecorded, type ClientParts } from '../store-client.ts';
import { beginArchive, reportArchiveStart } from './begin-archive.ts';
import type {
  Cluster,
  ClusterChange,
  ClusterContext,
  ClusterLogQuery,
  ClusterNode,
  ClusterOptions,
  ClusterQuery,
  ClusterQuota,
  PodUsage,
  PriorityClass,
} from './cluster.ts';
import type { ClusterParts } from './cluster-record.ts';
import {
  clusterLabels,
  isOwnLabel,
  notifyAnnotation,
  ownerLabels,
  ownLabels,
  requestAnnotation,
  secretsAnnotation,
} from './job-object.ts';
import { jobSecretsOf, namedData, withOtherSecret, type SecretData } from './job-secrets.ts';
import type { ClusterEvent, ClusterJob, ClusterPod } from './objects.ts';
import type { ClusterSettings } from './settings.ts';
import { submitJob } from './submit-job.ts';

interface ClusterSite {
  /** True if commands query a cluster in addition to the database of the server. */
  readonly isConfigured: boolean;
  /** True if a job was ever submitted through the server or on its machine; otherwise the archive has no job. */
  readonly hasSubmitted: boolean;
}

/** Without a field the kubeconfig of the server decides. */
type ClusterChoice = Pick<ClusterOptions, 'context' | 'namespace'>;

/** A selection of objects in the namespace, or in all. */
export type ObjectQuery = Pick<ClusterQuery, 'allNamespaces' | 'labels' | 'name' | 'fields'>;

interface PodQuery extends ObjectQuery {
  /** The name of a Job. */
  readonly job?: string;
}

export interface PodLogQuery extends Pick<ClusterLogQuery, 'follow' | 'previous' | 'tail' | 'since' | 'timestamps'> {
  /** As in `ClusterLogQuery`, in Base64. */
  readonly resumeAfter?: string;
}

/** An object of Kubernetes. */
export type KubernetesObject = Readonly<Record<string, unknown>>;

export interface JobSubmission {
  /** The Job. The server sets its owner. */
  readonly job: KubernetesObject;
  /** The values of its secrets that are no named secrets, by variable, in Base64. */
  readonly secrets?: Readonly<Record<string, string>>;
  /**
   * 1 to 255 characters without spaces, a new key for each new job. The same submission with the same key returns the same
   * Job, as long as the cluster has it. Any other submission with the name of that Job is refused.
   */
  readonly idempotencyKey?: string;
}

type ClusterCommandOptions = Pick<CommandOptions, 'onBehalfOf' | 'budgetUsd'>;

/**
 * Every method but the first two throws JobmanError (4) for a cluster that the actor may not use, and as `Cluster` does. The
 * methods about one job answer only to those who may read it.
 */
export interface ClusterClient {
  /** The use of clusters by the server. */
  site(): Promise<ClusterSite>;
  /** The settings of Kubernetes jobs. */
  settings(): Promise<KubernetesObject>;
  /** The context and namespace that a choice selects. Sends no request to the cluster. */
  context(choice: ClusterChoice): Promise<ClusterContext>;
  /** The Jobs of a namespace, in pages. Every role may read what a list shows. */
  jobs(context: string, namespace: string, query: ObjectQuery): AsyncIterable<readonly ClusterJob[]>;
  /** One Job, with the fields that jobman uses; null if it does not exist. */
  job(context: string, namespace: string, name: string): Promise<ClusterJob | null>;
  /** The complete Job object. */
  rawJob(context: string, namespace: string, name: string): Promise<KubernetesObject | null>;
  /** The pods of a namespace, in pages. */
  pods(context: string, namespace: string, query: PodQuery): AsyncIterable<readonly ClusterPod[]>;
  /** The CPU and memory usage of the pods; null without the metrics API. */
  podUsage(context: string, namespace: string): Promise<readonly PodUsage[] | null>;
  /** The pods of Jobs that have no node yet, in pages. */
  unscheduledPods(
    context: string,
    namespace: string,
    query: ObjectQuery,
  ): AsyncIterable<readonly Pick<ClusterPod, 'namespace' | 'job'>[]>;
  /** The nodes of the cluster; null without the right to list them. */
  nodes(context: string, namespace: string): Promise<readonly ClusterNode[] | null>;
  /** The PriorityClasses of the cluster; null without the right to list them. */
  priorityClasses(context: string, namespace: string): Promise<readonly PriorityClass[] | null>;
  /** The WorkloadPriorityClasses of Kueue; null without Kueue, or without the right to list them. */
  queuePriorityClasses(context: string, namespace: string): Promise<readonly PriorityClass[] | null>;
  /** The events of the objects with these names; null without the right to list them. */
  events(context: string, namespace: string, names: readonly string[]): Promise<readonly ClusterEvent[] | null>;
  /** The ResourceQuotas of a namespace; null without the right to list them. */
  quotas(context: string, namespace: string): Promise<readonly ClusterQuota[] | null>;
  /** The data of a ConfigMap that the settings name; null if it does not exist. */
  configMap(context: string, namespace: string, name: string): Promise<Readonly<Record<string, string>> | null>;
  /** Reports changes of the Jobs of a namespace, as they happen. */
  watchJobs(context: string, namespace: string, query: ObjectQuery): AsyncIterable<ClusterChange<ClusterJob>>;
  /** The log of a container of a job's pod. */
  logs(
    context: string,
    namespace: string,
    pod: string,
    container: string,
    query: PodLogQuery,
  ): AsyncIterable<Uint8Array>;
  /** Creates a Job that belongs to the actor, and archives it. Returns the Job with the defaults of the cluster. */
  submit(context: string, namespace: string, submission: JobSubmission): Promise<KubernetesObject>;
  /** Gives a command to the Job with this uid, in the cluster or in the archive. The last step is the result. */
  perform(
    context: string,
    namespace: string,
    name: string,
    command: PerformedCommand,
    uid: string,
    options?: ClusterCommandOptions,
  ): AsyncIterable<CommandStep>;
}

/** The programs and ports of a pod. */
export type PodAccess = Pick<Cluster, 'exec' | 'attach' | 'tunnel'>;

/** Records the use of a port (null: of a program) and returns the access to the pod. */
type OpenPod = (port: number | null) => Promise<PodAccess>;

export interface ClusterAccess {
  readonly client: ClusterClient;
  /** Throws JobmanError (4) if the actor may not use the pod. */
  openPod(context: string, namespace: string, pod: string): Promise<OpenPod>;
}

export interface ClusterAccessParts extends Omit<ClusterParts, 'client'>, Pick<Services, 'isClusterConfigured'> {
  /** The Client of the actor. */
  readonly client: Client;
}

type Recorder = Pick<ClientParts, 'access' | 'now' | 'isChange'>;

/** The clusters of a server for the owner of a token. `parts.cluster` stays open. */
export function clusterAccessFor(actor: Actor, parts: ClusterAccessParts, recorder: Recorder): ClusterAccess {
  const gates = createGates(actor, parts);
  const record: RecordUse = (operation, object, more) =>
    recorder.access.record(auditEntry(actor, recorder.now(), operation, object, more));
  const access = {
    ...createReads(actor, parts, gates),
    ...createChanges(actor, parts, gates, record),
    async openPod(context: string, namespace: string, pod: string): Promise<OpenPod> {
      const cluster = await gates.open(context, namespace);
      const { name } = await gates.jobOfPod(cluster, pod, 'workers');
      return async (port) => {
        const detail = { pod, ...(port !== null && { port }) };
        await record('workers', objectOf(context, namespace, name), { detail });
        return cluster;
      };
    },
  };
  const recorded = withRefusalsRecorded(access, async (method, args, end) => {
    const kebab = method.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    const operation = method === 'openPod' ? 'workers' : method === 'perform' ? String(args[3]) : `cluster ${kebab}`;
    const [context, namespace, name] = args;
    const object = typeof name === 'string' ? objectOf(String(context), String(namespace), name) : null;
    const route = `cluster.${method}`;
    await recordRequestEnd(recorder, async () => actor, { route, operation, object: () => object }, end);
  });
  return { client: recorded, openPod: (...pod) => recorded.openPod(...pod) };
}

function objectOf(context: string, namespace: string, name: string): AuditObject {
  return { kind: 'cluster_job', id: `${context}/${namespace}/${name}` };
}

type Gates = ReturnType<typeof createGates>;

/** True for a name that needs no quotes in a path or a selector. Any other name could select another object. */
const isName = (text: string): boolean => /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(text);

function requireName(what: string, text: string): void {
  if (!isName(text)) throw usageError(`${JSON.stringify(text)} is not the name of a ${what}.`);
}

/** The checks before a call. Each throws JobmanError (4, `forbidden`). */
function createGates(actor: Actor, { cluster }: Pick<ClusterAccessParts, 'cluster'>) {
  const owners = ownerLabels(actor);
  const check = (job: Pick<ClusterJob, 'name' | 'owner'>, operation: JobOperation, onBehalfOf?: string) =>
    checkClusterPermission(job, operation, actor, owners, onBehalfOf);
  const require = (job: Pick<ClusterJob, 'name' | 'owner'>, operation: JobOperation): void => {
    const checked = check(job, operation);
    if (checked.answer !== 'allow') throw forbiddenError(checked.message);
  };
  const readsAll = permissions.read[actor.role].other === 'allow';

  async function open(context: string, namespace: string, query: PodQuery = {}): Promise<Cluster> {
    requireName('namespace', namespace);
    if (query.job !== undefined) requireName('job', query.job);
    requireCluster(actor, { context, namespace: query.allNamespaces === true ? null : namespace });
    return cluster({ context, namespace, quiet: true });
  }

  return {
    check,
    require,
    open,
    /** The part of the selection that the actor may read. The owner comes first, so that no label of the client can cut it off. */
    readable<Query extends ObjectQuery>(query: Query): Query {
      if (readsAll) return query;
      const own = ownSelector(owners);
      return { ...query, labels: query.labels === undefined ? own : `${own},${query.labels}` };
    },

    /** The names of the objects that the actor may read; null for all. */
    async readableNames(from: Cluster): Promise<ReadonlySet<string> | null> {
      if (readsAll) return null;
      const query = { labels: ownSelector(owners) };
      const [jobs, pods] = await Promise.all([Array.fromAsync(from.jobs(query)), Array.fromAsync(from.pods(query))]);
      return new Set([...jobs.flat(), ...pods.flat()].map(({ name }) => name));
    },

    async jobOfPod(from: Cluster, name: string, operation: JobOperation): Promise<ClusterJob> {
      const pods = isName(name) ? (await Array.fromAsync(from.pods({ fields: `metadata.name=${name}` }))).flat() : [];
      const pod = pods.find((one) => one.name === name);
      const job = pod?.job === undefined || pod.job === null ? null : await from.job(pod.job);
      // A pod of an earlier Job of the same name, or of another tool, may belong to another user.
      if (pod === undefined || job === null || pod.jobUid !== job.uid)
        throw new JobmanError(`There is no pod ${name} of a job.`, exitCode.notFound);
      require(job, operation);
      return job;
    },
  };
}

/** Selects nothing without owners. */
function ownSelector(owners: readonly string[]): string {
  const { owner } = clusterLabels;
  return owners.length === 0 ? `${owner},!${owner}` : `${owner} in (${owners.join(',')})`;
}

/** Each is a request to the cluster. A job has a few objects. */
const maxEventNames = 1000;

type Reads = Omit<ClusterClient, 'submit' | 'perform'>;

function createReads(actor: Actor, parts: ClusterAccessParts, gates: Gates): Reads {
  const open: Gates['open'] = (...given) => gates.open(...given);
  const streamed =
    <Query extends ObjectQuery, Value>(
      read: (cluster: Cluster, query: Query & { readonly signal: AbortSignal }) => AsyncIterable<Value>,
    ) =>
    (context: string, namespace: string, query: Query): AsyncIterable<Value> =>
      untilLeft(async function* (signal) {
        const cluster = await open(context, namespace, query);
        yield* read(cluster, { ...query, signal });
      });
  const facts =
    <Value>(read: (cluster: Cluster) => Promise<Value>) =>
    async (context: string, namespace: string): Promise<Value> =>
      read(await open(context, namespace));

  return {
    async site() {
      const [isConfigured, { isUsed }] = await Promise.all([isConfiguredFor(actor, parts), parts.clusterSubmissions()]);
      return { isConfigured, hasSubmitted: isUsed };
    },
    async settings() {
      const { settings } = await parts.clusterSettings();
      // Users must not see paths of the server.
      return { ...settings, kubeConfig: { type: 'cluster', file: null } };
    },
    async context(choice) {
      const found = (await parts.cluster({ ...choice, quiet: true })).context();
      requireCluster(actor, found);
      return found;
    },
    jobs: streamed((cluster, query: ObjectQuery) => cluster.jobs(query)),
    async job(context, namespace, name) {
      const cluster = await open(context, namespace);
      const found = isName(name) ? await cluster.job(name) : null;
      if (found !== null) gates.require(found, 'read');
      return found;
    },
    async rawJob(context, namespace, name) {
      const cluster = await open(context, namespace);
      const found = isName(name) ? await cluster.raw(name) : null;
      const owner = found?.metadata?.labels?.[clusterLabels.owner] ?? null;
      if (found !== null) gates.require({ name, owner }, 'read');
      return found as KubernetesObject | null;
    },
    pods: streamed((cluster, query: PodQuery) => cluster.pods(gates.readable(query))),
    async podUsage(context, namespace) {
      const cluster = await open(context, namespace);
      const [all, names] = await Promise.all([cluster.podUsage({}), gates.readableNames(cluster)]);
      return names === null || all === null ? all : all.filter(({ pod }) => names.has(pod));
    },
    unscheduledPods: streamed((cluster, query: ObjectQuery) => cluster.unscheduledPods(query)),
    nodes: facts((cluster) => cluster.nodes()),
    priorityClasses: facts((cluster) => cluster.priorityClasses()),
    queuePriorityClasses: facts((cluster) => cluster.queuePriorityClasses()),
    async events(context, namespace, names) {
      if (names.length > maxEventNames) throw usageError(`At most ${maxEventNames} names at once.`);
      const cluster = await open(context, namespace);
      const own = await gates.readableNames(cluster);
      return cluster.events({ names: own === null ? names : names.filter((name) => own.has(name)) });
    },
    quotas: facts((cluster) => cluster.quotas()),
    async configMap(context, namespace, name) {
      const cluster = await open(context, namespace);
      const { job, jobsQueue } = (await parts.clusterSettings()).settings;
      const isNamed = name === job.userConfigmap || (name === jobsQueue.configmap && namespace === jobsQueue.namespace);
      if (!isNamed) throw forbiddenError(`the settings of the server do not name the ConfigMap ${name}`);
      return cluster.configMap(name);
    },
    watchJobs: streamed((cluster, query: ObjectQuery) => cluster.watchJobs(gates.readable(query))),
    logs: (context, namespace, pod, container, { resumeAfter, ...query }) =>
      untilLeft(async function* (signal) {
        const cluster = await open(context, namespace);
        await gates.jobOfPod(cluster, pod, 'read');
        const from = resumeAfter === undefined ? {} : { resumeAfter: Buffer.from(resumeAfter, 'base64') };
        yield* cluster.logs(pod, container, { ...query, ...from, signal });
      }),
  };
}

/** False for a user who may not use the cluster of the kubeconfig. */
async function isConfiguredFor(actor: Actor, parts: ClusterAccessParts): Promise<boolean> {
  if (!(await parts.isClusterConfigured())) return false;
  if (actor.clusters === undefined || actor.clusters === null) return true;
  try {
    return isAllowedCluster(actor.clusters, (await parts.cluster({ quiet: true })).context());
  } catch (error) {
    if (error instanceof JobmanError) return true;
    throw error;
  }
}

type RecordUse = (
  operation: string,
  object: AuditObject,
  more?: Partial<Pick<AuditEntry, 'outcome' | 'detail'>>,
) => Promise<void>;

function createChanges(
  actor: Actor,
  parts: ClusterAccessParts,
  gates: Gates,
  record: RecordUse,
): Pick<ClusterClient, 'submit' | 'perform'> {
  const ofActor: ClusterParts = { ...parts, client: async () => parts.client };
  return {
    async submit(context, namespace, { job: given, secrets, idempotencyKey }) {
      const key = idempotencyKey ?? randomUUID();
      requireIdempotencyKey(key);
      const job = requireJob(given);
      const { name } = job.metadata;
      requireName('job', name);
      const cluster = await gates.open(context, namespace);
      const [owner] = ownerLabels(actor);
      if (owner === undefined)
        throw forbiddenError(
          `the name ${actor.user} cannot be the label of an owner, so its user has no jobs in clusters`,
        );
      gates.require({ name, owner }, 'create');
      const request = digestOf(Buffer.from(JSON.stringify([actor.user, key, given])));
      // A repeated request changes nothing.
      const existing = idempotencyKey === undefined ? null : await cluster.raw(name);
      if (existing?.metadata?.annotations?.[requestAnnotation] !== request)
        await record('submit', objectOf(context, namespace, name));
      const submissions = await parts.clusterSubmissions();
      try {
        const at = cluster.context();
        const { installation, isArchived } = await beginArchive(ofActor, submissions, at);
        const { settings } = await parts.clusterSettings();
        const made = await submitJob(
          cluster,
          withOwnKeys(withOwnSecret(job), settings.job, {
            labels: ownLabels(name, { owner, installation }),
            annotations: { [requestAnnotation]: request },
          }),
          await secretDataOf(ofActor, job, secrets),
        );
        if (isArchived) await reportArchiveStart(submissions.recordSubmitted(at, made));
        return made as object as KubernetesObject;
      } finally {
        await submissions.close();
      }
    },

    perform: (context, namespace, name, command, uid, { onBehalfOf, ...options } = {}) =>
      untilLeft(async function* (signal): AsyncGenerator<CommandStep, void> {
        await gates.open(context, namespace);
        requireName('job', name);
        const { createClusterSource } = await import('./job-source.ts');
        const source = createClusterSource(ofActor, { context, namespace }, true);
        const found = await source.find({ text: name, isName: true }, 'change');
        if (found.cluster?.uid !== uid)
          throw new JobmanError(`Job ${name} was deleted meanwhile, and another job has its name.`, exitCode.notFound);
        const { job } = await source.record(found);
        const checked = gates.check(job, command, onBehalfOf);
        // A question whether to act for the owner is no refusal.
        if (checked.answer !== 'confirm')
          await record(command, objectOf(context, namespace, name), {
            outcome: checked.answer === 'allow' ? 'allowed' : 'denied',
          });
        if (checked.answer === 'allow') return yield* source.perform(found, command, { ...options, signal });
        yield {
          kind: 'result',
          id: name,
          ok: false,
          message: `${capitalize(checked.message)}.`,
          exitCode: exitCode.conflict,
          ...(job.owner === null ? {} : { refusedFor: job.owner }),
          ...(checked.answer === 'confirm' && { mayActForOwner: true as const }),
        };
      }),
  };
}

type NamedJob = V1Job & { readonly metadata: { readonly name: string } };

/** Without what would tie the Job to other objects. The cluster checks the rest. Throws JobmanError (2). */
function requireJob(given: KubernetesObject): NamedJob {
  const { metadata, spec, ...rest } = given as Partial<Record<'metadata' | 'spec', KubernetesObject>>;
  const isObject = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);
  const template = isObject(spec) ? spec?.['template'] : undefined;
  const { name, labels, annotations } = isObject(metadata) ? (metadata ?? {}) : {};
  if (!isObject(template) || typeof name !== 'string')
    throw usageError('The Job must have metadata.name and spec.template.');
  if (spec?.['selector'] !== undefined || spec?.['manualSelector'] !== undefined)
    throw usageError('The Job must not select pods: the cluster does.');
  const podLabels = (template as V1PodTemplateSpec).metadata?.labels ?? {};
  const taken = Object.keys(podLabels).find((label) =>
    /^(?:job-name|controller-uid|batch\.kubernetes\.io\/.*)$/.test(label),
  );
  if (taken !== undefined)
    throw usageError(`The pods of the Job must not have the label ${taken}: the cluster sets it.`);
  return { ...rest, spec, metadata: { name, labels, annotations } } as object as NamedJob;
}

/** With a Secret that no other Job has. The client names one, which might be that of another user. */
function withOwnSecret(job: NamedJob): V1Job {
  const secrets = jobSecretsOf(job);
  return secrets === null ? job : withOtherSecret(job, secrets);
}

/** Sets labels on the Job and its pods, and annotations on the Job. Removes the other keys of jobman that no client may set. */
function withOwnKeys(
  given: V1Job,
  { annotations, resources }: ClusterSettings['job'],
  own: Readonly<Record<'labels' | 'annotations', Readonly<Record<string, string>>>>,
): V1Job {
  const job = structuredClone(given);
  const sent = [secretsAnnotation, notifyAnnotation, resources.label, ...annotations.map(({ key }) => key)];
  const ofClient = (entries = {}, kept: readonly string[] = []): Record<string, string> =>
    Object.fromEntries(Object.entries<string>(entries).filter(([key]) => kept.includes(key) || !isOwnLabel(key)));
  job.metadata ??= {};
  job.metadata.annotations = { ...ofClient(job.metadata.annotations, sent), ...own.annotations };
  for (const part of [job, job.spec?.template]) {
    if (part === undefined) continue;
    part.metadata ??= {};
    part.metadata.labels = { ...ofClient(part.metadata.labels), ...own.labels };
  }
  return job;
}

/** The given values, and those of the actor's named secrets. Null for a job without secrets. */
async function secretDataOf(
  parts: Pick<ClusterParts, 'namedSecret'>,
  job: V1Job,
  given: SecretData = {},
): Promise<SecretData | null> {
  const secrets = jobSecretsOf(job);
  return secrets === null ? null : { ...given, ...(await namedData(parts, secrets, true)) };
}
