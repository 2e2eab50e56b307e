// Parses the objects of an API server. A missing field gets Kubernetes' default. Values of the wrong type throw
// TypeError.

import type {
  CoreV1Event,
  V1Container,
  V1ContainerStateTerminated,
  V1ContainerStatus,
  V1Job,
  V1JobCondition,
  V1Node,
  V1ObjectMeta,
  V1Pod,
  V1PodSpec,
  V1PriorityClass,
  V1ResourceQuota,
} from '@kubernetes/client-node';
import { parseInstant, second } from '../../core/model/time.ts';
import type { ClusterNode, PriorityClass, ClusterQuota, PodUsage } from '../../app/cluster/cluster.ts';
import type {
  ClusterCondition,
  ClusterContainer,
  ClusterEvent,
  ClusterJob,
  ClusterPod,
} from '../../app/cluster/objects.ts';
import { clusterLabels, notifyAnnotation } from '../../app/cluster/job-object.ts';
import { parseNotifySpec } from '../../app/notifications/recipients.ts';
import {
  addQuantities,
  compareQuantities,
  parseQuantity,
  formatQuantity,
  type Quantity,
  quantityNumber,
  zero,
} from '../../app/cluster/quantity.ts';

/** The labels that the Job controller sets on its pods; the second of each pair is the one of clusters before 1.27. */
const jobNameLabels = ['batch.kubernetes.io/job-name', 'job-name'];
const jobUidLabels = ['batch.kubernetes.io/controller-uid', 'controller-uid'];

/** A type of the client library as JSON: every field may be missing, and a time is a string. */
type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? readonly Wire<Item>[]
    : T extends object
      ? string extends keyof T
        ? { readonly [Key in keyof T]: Wire<T[Key]> }
        : { readonly [Key in keyof T]?: Wire<T[Key]> }
      : T;

export type RawJob = Wire<V1Job>;
export type RawPod = Wire<V1Pod>;
export type RawQuota = Wire<V1ResourceQuota>;
type RawMeta = Wire<V1ObjectMeta>;
type RawPodSpec = Wire<V1PodSpec>;
type RawContainer = Wire<V1Container>;
type RawQuantities = Readonly<Record<string, string | number>>;

/** The summed requests per pod spec, so that ten thousand equal pods are summed once. */
const requestsCache = new Map<string, Readonly<Record<string, string>>>();
const maxCachedRequests = 1_000;
export function readJob(raw: RawJob, flavorKey: string): ClusterJob {
  const { metadata = {}, spec = {}, status = {} } = raw;
  const conditions = readConditions(status.conditions);
  const failed = conditions.find(({ type, status: value }) => type === 'Failed' && value === 'True');
  const pod = spec.template?.spec ?? {};
  const labels = metadata.labels ?? {};
  const isManagedByJobman = labels[clusterLabels.managedBy] === 'jobman';
  const notify = parseNotifySpec(metadata.annotations?.[notifyAnnotation]);
  return {
    name: optionalText(metadata.name) ?? '',
    namespace: optionalText(metadata.namespace) ?? '',
    uid: optionalText(metadata.uid) ?? '',
    createdAt: parseInstant(metadata.creationTimestamp) ?? 0,
    startedAt: parseInstant(status.startTime),
    endedAt: parseInstant(status.completionTime) ?? failed?.at ?? null,
    suspended: spec.suspend === true,
    parallelism: optionalInt(spec.parallelism) ?? 1,
    completions: optionalInt(spec.completions) ?? null,
    active: optionalInt(status.active) ?? 0,
    ready: optionalInt(status.ready) ?? 0,
    succeeded: optionalInt(status.succeeded) ?? 0,
    failed: optionalInt(status.failed) ?? 0,
    terminating: optionalInt(status.terminating) ?? 0,
    deadline: spec.activeDeadlineSeconds === undefined ? null : (optionalInt(spec.activeDeadlineSeconds) ?? 0) * second,
    conditions,
    flavor: optionalText(metadata.annotations?.[flavorKey]) ?? null,
    owner: isManagedByJobman ? (optionalText(labels[clusterLabels.owner]) ?? null) : null,
    installation: isManagedByJobman ? (optionalText(labels[clusterLabels.installation]) ?? null) : null,
    requests: requestsOf(pod),
    images: (pod.containers ?? []).map(({ image }) => optionalText(image) ?? ''),
    deleting: metadata.deletionTimestamp !== undefined,
    queueName: optionalText(labels[clusterLabels.queue]) ?? null,
    queuePriority: optionalText(labels[clusterLabels.queuePriority]) ?? null,
    priorityClass: optionalText(pod.priorityClassName) ?? null,
    ...(notify !== undefined && { notify }),
  };
}

/** A container without a status counts as waiting. */
export function readPod({ metadata = {}, spec = {}, status = {} }: RawPod): ClusterPod {
  const index = metadata.annotations?.['batch.kubernetes.io/job-completion-index'];
  const readContainers = (
    list: readonly RawContainer[] = [],
    statuses: readonly Wire<V1ContainerStatus>[] = [],
    init: boolean,
  ) =>
    list.map((container) =>
      readContainer(
        container,
        statuses.find(({ name }) => name === container.name),
        init,
      ),
    );
  return {
    name: optionalText(metadata.name) ?? '',
    namespace: optionalText(metadata.namespace) ?? '',
    ...jobOfPod(metadata),
    uid: optionalText(metadata.uid) ?? '',
    phase: optionalText(status.phase) ?? 'Unknown',
    reason: optionalText(status.reason) ?? null,
    message: optionalText(status.message) ?? null,
    node: optionalText(spec.nodeName) ?? null,
    index: index !== undefined && /^\d{1,9}$/.test(index) ? Number(index) : null,
    createdAt: parseInstant(metadata.creationTimestamp) ?? 0,
    startedAt: parseInstant(status.startTime),
    requests: requestsOf(spec),
    limits: limitsOf(spec),
    containers: [
      ...readContainers(spec.initContainers, status.initContainerStatuses, true),
      ...readContainers(spec.containers, status.containerStatuses, false),
    ],
    conditions: readConditions(status.conditions),
    deleting: metadata.deletionTimestamp !== undefined,
  };
}

/** The namespace and the job of a pod; the metadata of the pod is enough. */
export function readPodOwner({ metadata = {} }: Pick<RawPod, 'metadata'>): Pick<ClusterPod, 'namespace' | 'job'> {
  return { namespace: optionalText(metadata.namespace) ?? '', job: jobOfPod(metadata).job };
}

/** By the reference that the Job controller sets. Labels count only without owners, because every client may set them. */
function jobOfPod(metadata: RawMeta): { readonly job: string | null; readonly jobUid: string | null } {
  const owners = metadata.ownerReferences ?? [];
  if (owners.length === 0)
    return { job: firstLabel(metadata, jobNameLabels), jobUid: firstLabel(metadata, jobUidLabels) };
  const owner = owners.find(
    ({ apiVersion, kind, controller }) => controller === true && kind === 'Job' && apiVersion?.startsWith('batch/'),
  );
  return { job: optionalText(owner?.name) ?? null, jobUid: optionalText(owner?.uid) ?? null };
}

function firstLabel({ labels = {} }: RawMeta, names: readonly string[]): string | null {
  return names.map((name) => optionalText(labels[name])).find((value) => value !== undefined) ?? null;
}

type Termination = NonNullable<ClusterContainer['lastEnd']>;

function readTermination({ reason, exitCode, signal }: Wire<V1ContainerStateTerminated>): Termination {
  return {
    reason: optionalText(reason) ?? null,
    exitCode: optionalInt(exitCode) ?? null,
    signal: optionalInt(signal) ?? null,
  };
}

function readContainer(
  { name = '', image = '' }: RawContainer,
  status: Wire<V1ContainerStatus> | undefined,
  init: boolean,
): ClusterContainer {
  const { waiting, running, terminated } = status?.state ?? {};
  const last = status?.lastState?.terminated;
  return {
    name: optionalText(name) ?? '',
    image: optionalText(image) ?? '',
    state: terminated !== undefined ? 'terminated' : running !== undefined ? 'running' : 'waiting',
    ...readTermination(terminated ?? {}),
    reason: optionalText(terminated?.reason ?? waiting?.reason) ?? null,
    message: optionalText(terminated?.message ?? waiting?.message) ?? null,
    restarts: optionalInt(status?.restartCount) ?? 0,
    lastEnd: last === undefined ? null : readTermination(last),
    startedAt: parseInstant(terminated?.startedAt ?? running?.startedAt),
    endedAt: parseInstant(terminated?.finishedAt),
    init,
  };
}

export function readEvent(raw: Wire<CoreV1Event>): ClusterEvent {
  const { kind = '', name = '', uid = '' } = raw.involvedObject ?? {};
  const first =
    parseInstant(raw.firstTimestamp) ??
    parseInstant(raw.eventTime) ??
    parseInstant(raw.metadata?.creationTimestamp) ??
    0;
  return {
    object: { kind: optionalText(kind) ?? '', name: optionalText(name) ?? '', uid: optionalText(uid) ?? '' },
    type: raw.type === 'Warning' ? 'Warning' : 'Normal',
    reason: optionalText(raw.reason) ?? '',
    message: optionalText(raw.message) ?? '',
    count: optionalInt(raw.series?.count ?? raw.count) ?? 1,
    firstAt: first,
    lastAt: parseInstant(raw.series?.lastObservedTime) ?? parseInstant(raw.lastTimestamp) ?? first,
  };
}

/** Keeps only the taints that keep pods away. */
export function readNode({ metadata = {}, spec = {}, status = {} }: Wire<V1Node>): ClusterNode {
  const blockingTaints = (spec.taints ?? []).filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');
  return {
    name: optionalText(metadata.name) ?? '',
    ready: readConditions(status.conditions).some(({ type, status: value }) => type === 'Ready' && value === 'True'),
    unschedulable: spec.unschedulable === true,
    taints: blockingTaints.map(({ key }) => optionalText(key) ?? ''),
    labels: metadata.labels ?? {},
    allocatable: readQuantities(status.allocatable),
  };
}

export function readPriority({
  metadata = {},
  value = 0,
  globalDefault = false,
}: Wire<V1PriorityClass>): PriorityClass {
  return { name: optionalText(metadata.name) ?? '', value: optionalInt(value) ?? 0, isDefault: globalDefault };
}

export function readQuota({ metadata = {}, status = {} }: RawQuota): ClusterQuota {
  return {
    name: optionalText(metadata.name) ?? '',
    hard: readQuantities(status.hard),
    used: readQuantities(status.used),
  };
}

function readQuantities(raw: RawQuantities = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(raw).flatMap(([name, written]) => {
      const quantity = parseQuantity(written);
      return quantity === undefined ? [] : [[name, formatQuantity(quantity)]];
    }),
  );
}

function readConditions(raw: readonly Wire<V1JobCondition>[] = []): readonly ClusterCondition[] {
  return raw.map(({ type = '', status = 'Unknown', reason, message, lastTransitionTime }) => ({
    type: optionalText(type) ?? '',
    status: optionalText(status) ?? '',
    reason: optionalText(reason) ?? null,
    message: optionalText(message) ?? null,
    at: parseInstant(lastTransitionTime),
  }));
}

/** A limit without a request is the request. https://kubernetes.io/docs/concepts/workloads/pods/init-containers/ */
function requestsOf({ containers = [], initContainers = [] }: RawPodSpec): Readonly<Record<string, string>> {
  const key = JSON.stringify(
    [containers, initContainers].map((list) => list.map(({ resources, restartPolicy }) => [resources, restartPolicy])),
  );
  const cached = requestsCache.get(key);
  if (cached !== undefined) return cached;
  const sum = new Map<string, Quantity>();
  const [initOnly, sidecars] = [initContainers.filter((one) => !isSidecar(one)), initContainers.filter(isSidecar)];
  for (const container of [...containers, ...sidecars]) {
    for (const [name, quantity] of quantitiesOf(container))
      sum.set(name, addQuantities(sum.get(name) ?? zero, quantity));
  }
  for (const container of initOnly) {
    for (const [name, quantity] of quantitiesOf(container)) {
      const current = sum.get(name);
      if (current === undefined || compareQuantities(quantity, current) > 0) sum.set(name, quantity);
    }
  }
  const requests = Object.fromEntries(
    [...sum]
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, quantity]) => [name, formatQuantity(quantity)]),
  );
  if (requestsCache.size >= maxCachedRequests) requestsCache.clear();
  requestsCache.set(key, requests);
  return requests;
}

function limitsOf({ containers = [] }: RawPodSpec): Readonly<Record<string, string>> {
  const found = containers.flatMap(({ name = '', resources }) => {
    const memory = parseQuantity(resources?.limits?.['memory'] ?? '');
    return memory === undefined ? [] : [[optionalText(name) ?? '', formatQuantity(memory)] as const];
  });
  return Object.fromEntries(found);
}

function isSidecar({ restartPolicy }: RawContainer): boolean {
  return restartPolicy === 'Always';
}

function quantitiesOf({ resources = {} }: RawContainer): readonly (readonly [name: string, amount: Quantity])[] {
  return Object.entries({ ...resources.limits, ...resources.requests }).flatMap(([name, written]) => {
    const quantity = parseQuantity(written);
    return quantity === undefined ? [] : [[name, quantity] as const];
  });
}

function optionalText(written: string | null | undefined): string | undefined {
  if (written === null || written === undefined) return undefined;
  if (typeof written !== 'string') throw new TypeError('not a text');
  return written;
}

/** Throws for 1e400, which is a number in JSON but not a count. */
function optionalInt(written: number | null | undefined): number | undefined {
  if (written === null || written === undefined) return undefined;
  if (!Number.isSafeInteger(written)) throw new TypeError('not a whole number');
  return written;
}

/** PodMetrics: https://kubernetes.io/docs/reference/external-api/metrics.v1beta1/. */
export interface RawPodUsage {
  readonly metadata?: { readonly name?: string };
  readonly timestamp?: string;
  readonly containers?: readonly { readonly usage?: Readonly<Record<string, string>> }[] | null;
}

export function readPodUsage({ metadata, timestamp, containers }: RawPodUsage): PodUsage {
  const total = (resource: string): number =>
    (containers ?? []).reduce(
      (sum, { usage }) => sum + quantityNumber(parseQuantity(usage?.[resource] ?? '') ?? zero),
      0,
    );
  return {
    pod: metadata?.name ?? '',
    cpus: total('cpu'),
    memoryBytes: total('memory'),
    at: Date.parse(timestamp ?? ''),
  };
}
