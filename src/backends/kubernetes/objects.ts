// Objects: what is kept of a Job, a pod, an event and a node as an API server writes them. Everything is optional on the
// wire; what is missing reads as Kubernetes' own default.

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
import { second, type Instant } from '../../core/time.ts';
import type {
  ClusterCondition,
  ClusterContainer,
  ClusterEvent,
  ClusterJob,
  ClusterNode,
  ClusterPod,
  ClusterPriority,
  ClusterQuota,
} from '../../app/cluster/cluster.ts';
import { clusterLabels } from '../../app/cluster/job-object.ts';
import {
  addQuantities,
  compareQuantities,
  parseQuantity,
  quantityText,
  type Quantity,
  zero,
} from '../../app/cluster/quantity.ts';

/** The labels by which the Job controller marks its pods: today's, and that of clusters before 1.27. */
const jobNameLabels = ['batch.kubernetes.io/job-name', 'job-name'];
const jobUidLabels = ['batch.kubernetes.io/controller-uid', 'controller-uid'];

/** An object of the client library as JSON has it: any part may be missing, and a time is text. */
type Wire<T> = T extends Date
  ? string
  : T extends readonly (infer Item)[]
    ? readonly Wire<Item>[]
    : T extends object
      ? string extends keyof T
        ? { readonly [Key in keyof T]: Wire<T[Key]> }
        : { readonly [Key in keyof T]?: Wire<T[Key]> }
      : T;

/** A Job on the wire. */
export type RawJob = Wire<V1Job>;
/** A pod on the wire. */
export type RawPod = Wire<V1Pod>;
/** A ResourceQuota on the wire. */
export type RawQuota = Wire<V1ResourceQuota>;
type RawMeta = Wire<V1ObjectMeta>;
type RawPodSpec = Wire<V1PodSpec>;
type RawContainer = Wire<V1Container>;
type Amounts = Readonly<Record<string, string | number>>;

/** The requests of a Job's pods, so that ten thousand equal ones are added up once. */
const known = new Map<string, Readonly<Record<string, string>>>();
const knownMost = 1_000;
/** A Job that says little gives little; throws TypeError for values of the wrong kind. `flavorKey` is the annotation that holds the flavor's name. */
export function readJob(raw: RawJob, flavorKey: string): ClusterJob {
  const { metadata = {}, spec = {}, status = {} } = raw;
  const conditions = readConditions(status.conditions);
  const failed = conditions.find(({ type, status: holds }) => type === 'Failed' && holds === 'True');
  const pod = spec.template?.spec ?? {};
  const labels = metadata.labels ?? {};
  const isSetBy = labels[clusterLabels.managedBy] === 'jobman';
  return {
    name: text(metadata.name) ?? '',
    namespace: text(metadata.namespace) ?? '',
    uid: text(metadata.uid) ?? '',
    createdAt: instant(metadata.creationTimestamp) ?? 0,
    startedAt: instant(status.startTime),
    endedAt: instant(status.completionTime) ?? failed?.at ?? null,
    suspended: spec.suspend === true,
    parallelism: count(spec.parallelism) ?? 1,
    completions: count(spec.completions) ?? null,
    active: count(status.active) ?? 0,
    ready: count(status.ready) ?? 0,
    succeeded: count(status.succeeded) ?? 0,
    failed: count(status.failed) ?? 0,
    terminating: count(status.terminating) ?? 0,
    deadline: spec.activeDeadlineSeconds === undefined ? null : (count(spec.activeDeadlineSeconds) ?? 0) * second,
    conditions,
    flavor: text(metadata.annotations?.[flavorKey]) ?? null,
    owner: isSetBy ? (text(labels[clusterLabels.owner]) ?? null) : null,
    installation: isSetBy ? (text(labels[clusterLabels.installation]) ?? null) : null,
    requests: requestsOf(pod),
    images: (pod.containers ?? []).map(({ image }) => text(image) ?? ''),
    deleting: metadata.deletionTimestamp !== undefined,
    queueName: text(labels[clusterLabels.queue]) ?? null,
    queuePriority: text(labels[clusterLabels.queuePriority]) ?? null,
    priorityClass: text(pod.priorityClassName) ?? null,
  };
}

/** A pod, trimmed. A container without a status waits. */
export function readPod({ metadata = {}, spec = {}, status = {} }: RawPod): ClusterPod {
  const index = metadata.annotations?.['batch.kubernetes.io/job-completion-index'];
  const part = (list: readonly RawContainer[] = [], seen: readonly Wire<V1ContainerStatus>[] = [], init: boolean) =>
    list.map((container) =>
      readContainer(
        container,
        seen.find(({ name }) => name === container.name),
        init,
      ),
    );
  return {
    name: text(metadata.name) ?? '',
    ...readPodOwner({ metadata }),
    jobUid: labelled(metadata, jobUidLabels),
    uid: text(metadata.uid) ?? '',
    phase: text(status.phase) ?? 'Unknown',
    reason: text(status.reason) ?? null,
    message: text(status.message) ?? null,
    node: text(spec.nodeName) ?? null,
    index: index !== undefined && /^\d{1,9}$/.test(index) ? Number(index) : null,
    createdAt: instant(metadata.creationTimestamp) ?? 0,
    startedAt: instant(status.startTime),
    requests: requestsOf(spec),
    limits: limitsOf(spec),
    containers: [
      ...part(spec.initContainers, status.initContainerStatuses, true),
      ...part(spec.containers, status.containerStatuses, false),
    ],
    conditions: readConditions(status.conditions),
    deleting: metadata.deletionTimestamp !== undefined,
  };
}

/** Whose a pod is, which its metadata alone tell. */
export function readPodOwner({ metadata = {} }: Pick<RawPod, 'metadata'>): Pick<ClusterPod, 'namespace' | 'job'> {
  return { namespace: text(metadata.namespace) ?? '', job: labelled(metadata, jobNameLabels) };
}

function labelled({ labels = {} }: RawMeta, names: readonly string[]): string | null {
  return names.map((name) => text(labels[name])).find((value) => value !== undefined) ?? null;
}

type RunEnd = NonNullable<ClusterContainer['lastEnd']>;

function readEnd({ reason, exitCode, signal }: Wire<V1ContainerStateTerminated>): RunEnd {
  return { reason: text(reason) ?? null, exitCode: count(exitCode) ?? null, signal: count(signal) ?? null };
}

function readContainer(
  { name = '', image = '' }: RawContainer,
  seen: Wire<V1ContainerStatus> | undefined,
  init: boolean,
): ClusterContainer {
  const { waiting, running, terminated } = seen?.state ?? {};
  const last = seen?.lastState?.terminated;
  return {
    name: text(name) ?? '',
    image: text(image) ?? '',
    state: terminated !== undefined ? 'terminated' : running !== undefined ? 'running' : 'waiting',
    ...readEnd(terminated ?? {}),
    reason: text(terminated?.reason ?? waiting?.reason) ?? null,
    message: text(terminated?.message ?? waiting?.message) ?? null,
    restarts: count(seen?.restartCount) ?? 0,
    lastEnd: last === undefined ? null : readEnd(last),
    startedAt: instant(terminated?.startedAt ?? running?.startedAt),
    endedAt: instant(terminated?.finishedAt),
    init,
  };
}

/** An event, trimmed. */
export function readEvent(raw: Wire<CoreV1Event>): ClusterEvent {
  const { kind = '', name = '', uid = '' } = raw.involvedObject ?? {};
  const first = instant(raw.firstTimestamp) ?? instant(raw.eventTime) ?? instant(raw.metadata?.creationTimestamp) ?? 0;
  return {
    object: { kind: text(kind) ?? '', name: text(name) ?? '', uid: text(uid) ?? '' },
    type: raw.type === 'Warning' ? 'Warning' : 'Normal',
    reason: text(raw.reason) ?? '',
    message: text(raw.message) ?? '',
    count: count(raw.series?.count ?? raw.count) ?? 1,
    firstAt: first,
    lastAt: instant(raw.series?.lastObservedTime) ?? instant(raw.lastTimestamp) ?? first,
  };
}

/** A node, trimmed. */
export function readNode({ metadata = {}, spec = {}, status = {} }: Wire<V1Node>): ClusterNode {
  const closed = (spec.taints ?? []).filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute');
  return {
    name: text(metadata.name) ?? '',
    ready: readConditions(status.conditions).some(({ type, status: holds }) => type === 'Ready' && holds === 'True'),
    unschedulable: spec.unschedulable === true,
    taints: closed.map(({ key }) => text(key) ?? ''),
    labels: metadata.labels ?? {},
    allocatable: readAmounts(status.allocatable),
  };
}

/** A PriorityClass, trimmed. */
export function readPriority({
  metadata = {},
  value = 0,
  globalDefault = false,
}: Wire<V1PriorityClass>): ClusterPriority {
  return { name: text(metadata.name) ?? '', value: count(value) ?? 0, isDefault: globalDefault };
}

/** A ResourceQuota, trimmed. */
export function readQuota({ metadata = {}, status = {} }: RawQuota): ClusterQuota {
  return { name: text(metadata.name) ?? '', hard: readAmounts(status.hard), used: readAmounts(status.used) };
}

function readAmounts(amounts: Amounts = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(amounts).flatMap(([name, amount]) => {
      const quantity = parseQuantity(amount);
      return quantity === undefined ? [] : [[name, quantityText(quantity)]];
    }),
  );
}

function readConditions(raw: readonly Wire<V1JobCondition>[] = []): readonly ClusterCondition[] {
  return raw.map(({ type = '', status = 'Unknown', reason, message, lastTransitionTime }) => ({
    type: text(type) ?? '',
    status: text(status) ?? '',
    reason: text(reason) ?? null,
    message: text(message) ?? null,
    at: instant(lastTransitionTime),
  }));
}

/**
 * The resources that a pod takes on a node: all of its containers together, or the largest init container. Of a resource
 * with a limit and no request the limit is the request. Source: "Resource sharing within containers" in
 * https://kubernetes.io/docs/concepts/workloads/pods/init-containers/
 */
function requestsOf({ containers = [], initContainers = [] }: RawPodSpec): Readonly<Record<string, string>> {
  const key = JSON.stringify(
    [containers, initContainers].map((list) => list.map(({ resources, restartPolicy }) => [resources, restartPolicy])),
  );
  const found = known.get(key);
  if (found !== undefined) return found;
  const sum = new Map<string, Quantity>();
  const [before, beside] = [initContainers.filter((one) => !isSidecar(one)), initContainers.filter(isSidecar)];
  for (const container of [...containers, ...beside]) {
    for (const [name, amount] of amountsOf(container)) sum.set(name, addQuantities(sum.get(name) ?? zero, amount));
  }
  for (const container of before) {
    for (const [name, amount] of amountsOf(container)) {
      const so = sum.get(name);
      if (so === undefined || compareQuantities(amount, so) > 0) sum.set(name, amount);
    }
  }
  const requests = Object.fromEntries(
    [...sum].toSorted(([one], [other]) => (one < other ? -1 : 1)).map(([name, amount]) => [name, quantityText(amount)]),
  );
  if (known.size >= knownMost) known.clear();
  known.set(key, requests);
  return requests;
}

function limitsOf({ containers = [] }: RawPodSpec): Readonly<Record<string, string>> {
  const found = containers.flatMap(({ name = '', resources }) => {
    const memory = parseQuantity(resources?.limits?.['memory'] ?? '');
    return memory === undefined ? [] : [[text(name) ?? '', quantityText(memory)] as const];
  });
  return Object.fromEntries(found);
}

function isSidecar({ restartPolicy }: RawContainer): boolean {
  return restartPolicy === 'Always';
}

function amountsOf({ resources = {} }: RawContainer): readonly (readonly [name: string, amount: Quantity])[] {
  return Object.entries({ ...resources.limits, ...resources.requests }).flatMap(([name, written]) => {
    const quantity = parseQuantity(written);
    return quantity === undefined ? [] : [[name, quantity] as const];
  });
}

/** Throws TypeError for a value of another kind: such an answer is not that of an API server. */
function text(written: string | null | undefined): string | undefined {
  if (written === null || written === undefined) return undefined;
  if (typeof written !== 'string') throw new TypeError('not a text');
  return written;
}

/** The same of whole numbers: 1e400 is a number in JSON, and no count. */
function count(written: number | null | undefined): number | undefined {
  if (written === null || written === undefined) return undefined;
  if (!Number.isSafeInteger(written)) throw new TypeError('not a whole number');
  return written;
}

function instant(written: string | null | undefined): Instant | null {
  const at = Date.parse(written ?? '');
  return Number.isNaN(at) ? null : at;
}
