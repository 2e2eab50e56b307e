// The owner of a cloud resource by its labels, and Google's states as states of an allocation. jobman labels every
// resource it creates and never touches others. Labels are `[a-z0-9_-]`, up to 63 characters; keys begin with a letter.
// The nodes of a multislice are one allocation, in the state of the worst node. The cloud reports a stockout only in
// the create operation, often minutes after the call returned 200, and keeps operations for days. Sources:
// `Node.State`, `QueuedResourceState.State`.

import type { AllocationRef } from '../../app/ports.ts';
import { capacityOf, type Allocation, type Host } from '../../core/model/job.ts';
import type { AllocationStatus } from '../../core/model/observation.ts';
import type { SliceState } from '../../core/model/ready-periods.ts';
import type { TpuSpec } from '../../core/model/spec.ts';
import { parseInstant } from '../../core/model/time.ts';
import {
  classifyError,
  resourceId,
  type Operation,
  type Location,
  type QueuedResource,
  type StatusBody,
  type TpuNode,
} from './api.ts';

/** The newest create operation for a missing resource. Undefined if it succeeded or was not checked. */
export type CreateStatus = { readonly kind: 'pending' } | { readonly kind: 'failed'; readonly error: StatusBody };

/** The resources with an allocation's name. All fields come from successful observations: undefined means absent. */
export interface FoundResources {
  readonly node: TpuNode | undefined;
  readonly queued: QueuedResource | undefined;
  readonly createStatus: CreateStatus | undefined;
}

export function allocationStatus(ref: AllocationRef, found: FoundResources): AllocationStatus {
  const { node, queued } = ownResources(ref, found);
  if (wasRecreated(ref.allocation, node))
    return { state: 'absent', detail: 'another TPU of this name has replaced it' };
  if (node === undefined && queued === undefined) {
    if (found.node === undefined && found.queued === undefined) return missingStatus(found.createStatus);
    return {
      state: 'foreign',
      detail: 'a resource of this name exists that jobman did not create for this allocation',
    };
  }
  if (queued !== undefined) {
    const status = queuedResourceStatus(queued, node, ref);
    if (status !== undefined) return status;
  }
  if (node === undefined) return statusWithoutNode(queued, ref);
  // A multislice has no single creation time.
  const isSingleNode = ref.allocation.ownership === 'persistent' && sliceCount(ref) === 1;
  const creationTime = isSingleNode && node.createTime !== undefined ? { creationTime: node.createTime } : {};
  return { ...nodeStatus(node, ref, found.createStatus), ...creationTime };
}

/** Google charges a node while it is READY. */
export function sliceState({ state }: TpuNode): SliceState {
  if (state === 'READY') return 'ready';
  return state === 'PREEMPTED' || state === 'TERMINATED' ? 'preempted' : 'other';
}

/**
 * The status with the states of its nodes, in the order of `nodeIds`, if they do not follow from its own state. Without
 * a node, the reason of the loss decides: a user who deletes a node pays for it.
 */
export function withSlices(
  status: AllocationStatus,
  ref: AllocationRef,
  { nodes, queued }: { readonly nodes: readonly (TpuNode | undefined)[]; readonly queued: QueuedResource | undefined },
): AllocationStatus {
  const isByUser = queued?.state?.stateInitiator === 'USER';
  const lost: SliceState = status.cause === 'preempted' && !isByUser ? 'preempted' : 'other';
  const slices = nodes.map((found): SliceState => {
    if (status.state === 'foreign' || status.state === 'absent') return 'other';
    const { node } = ownResources(ref, { node: found, queued, createStatus: undefined });
    return node === undefined ? lost : sliceState(node);
  });
  const [first] = slices;
  const expected = status.state === 'ready' ? 'ready' : status.cause === 'preempted' ? 'preempted' : 'other';
  return slices.length === 1 && first === expected ? status : { ...status, slices };
}

/**
 * A persistent TPU belongs by name, not by label, unless another installation has created it for one of its jobs: the
 * program of that job runs there. A foreign node with our queued resource's name blocks our node.
 */
function ownResources(ref: AllocationRef, { node, queued }: FoundResources): Pick<FoundResources, 'node' | 'queued'> {
  const owner = ownerOf(ref);
  if (ref.allocation.ownership === 'persistent') {
    const { installation } = nodeOwner(node) ?? queuedOwner(queued) ?? owner;
    return installation === owner.installation ? { node, queued } : { node: undefined, queued: undefined };
  }
  const isQueuedOurs = isSameOwner(queuedOwner(queued), owner);
  // A user may have changed the node's labels; a node of our queued resource is still ours.
  const isNodeOurs = isSameOwner(nodeOwner(node), owner) || (isQueuedOurs && node?.queuedResource === queued?.name);
  return { node: isNodeOurs ? node : undefined, queued: isQueuedOurs ? queued : undefined };
}

/** True for a node created after the allocation was ready. Compares the cloud's times, because our clock may differ. */
export function wasRecreated(
  { ownership, creationTime }: AllocationRef['allocation'],
  node: TpuNode | undefined,
): boolean {
  if (ownership !== 'persistent' || creationTime === undefined || node?.createTime === undefined) return false;
  return node.createTime !== creationTime;
}

function missingStatus(createStatus: CreateStatus | undefined): AllocationStatus {
  if (createStatus?.kind === 'pending') return { state: 'provisioning', detail: 'being created' };
  // A failed create leaves nothing except its operation.
  if (createStatus?.kind === 'failed') {
    return { state: 'absent', detail: 'its creation failed', error: classifyError(createStatus.error) };
  }
  return { state: 'absent', detail: 'does not exist' };
}

function queuedResourceStatus(
  queued: QueuedResource,
  node: TpuNode | undefined,
  { allocation }: AllocationRef,
): AllocationStatus | undefined {
  const { state = 'STATE_UNSPECIFIED', stateInitiator, failedData } = queued.state ?? {};
  const wasReady = allocation.readyAt !== null;
  // If a user deletes the node, its queued resource is suspended as after a preemption. The detail separates the two.
  const detail = stateInitiator === 'USER' && state !== 'DELETING' ? `${state}, by a user` : state;
  switch (state) {
    case 'CREATING':
    // The older name of WAITING_FOR_RESOURCES.
    case 'ACCEPTED':
    case 'WAITING_FOR_RESOURCES':
      return { state: 'waiting', detail };
    case 'DELETING':
      return { state: 'releasing', detail };
    case 'FAILED':
      return {
        state: 'lost',
        cause: 'failed',
        detail,
        error: classifyError(failedData?.error ?? { message: 'the queued resource failed without a reason' }),
      };
    case 'SUSPENDING':
      // Never ready so far: a node could not be created, and the service may retry.
      if (!wasReady && node?.state !== 'PREEMPTED') return { state: 'provisioning', detail };
      return { state: 'lost', cause: 'preempted', detail };
    case 'SUSPENDED':
      // A suspended queued resource never returns to the queue, and its node is gone or about to go.
      if (wasReady || node?.state === 'PREEMPTED') return { state: 'lost', cause: 'preempted', detail };
      return {
        state: 'lost',
        cause: 'failed',
        detail,
        error: { kind: 'stockout', message: 'the queued resource was suspended before it was ready', raw: detail },
      };
    default:
      // PROVISIONING, ACTIVE and unknown states: the node decides.
      return undefined;
  }
}

function statusWithoutNode(queued: QueuedResource | undefined, { allocation }: AllocationRef): AllocationStatus {
  const detail = `${queued?.state?.state ?? 'STATE_UNSPECIFIED'}, no node`;
  // After it was ready, the queued resource soon reports the reason. Until then conclude nothing.
  return { state: allocation.readyAt === null ? 'provisioning' : 'interrupted', detail };
}

function nodeStatus(node: TpuNode, ref: AllocationRef, createStatus: CreateStatus | undefined): AllocationStatus {
  const { state = 'STATE_UNSPECIFIED' } = node;
  const pendingState = ref.allocation.readyAt === null ? 'provisioning' : 'interrupted';
  switch (state) {
    case 'CREATING':
      // A failed create may leave its node behind, which would never become ready.
      if (createStatus?.kind === 'failed') {
        return {
          state: 'lost',
          cause: 'failed',
          detail: 'CREATING, but the create operation failed',
          error: classifyError(createStatus.error),
        };
      }
      return { state: pendingState, detail: state };
    case 'STARTING':
      return { state: pendingState, detail: state };
    case 'READY': {
      const hosts = hostsOf(node);
      // Without addresses it is unusable: a command on zero workers would count as done.
      if (hosts.length === 0) return { state: pendingState, detail: `${state}, no addresses` };
      const isHealthy = node.health === undefined || node.health === 'HEALTHY';
      const detail = isHealthy ? state : `${state}, ${node.health}`;
      return { state: 'ready', detail, workers: hosts.length, hosts };
    }
    case 'PREEMPTED':
    case 'TERMINATED':
      return { state: 'lost', cause: 'preempted', detail: state };
    case 'STOPPED':
    case 'STOPPING':
      // The job's own restart: a stopped TPU is released, and its request starts it.
      if (tpuSpecOf(ref).operation?.kind === 'restart')
        return state === 'STOPPED' ? { state: 'absent', detail: state } : { state: 'releasing', detail: state };
      // A user stopped it with Google's tools. Users can start a persistent TPU again; an ephemeral one would wait
      // forever.
      if (ref.allocation.ownership === 'persistent') return { state: 'interrupted', detail: state };
      return {
        state: 'lost',
        cause: 'failed',
        detail: state,
        error: { kind: 'internal', message: 'a user stopped the node with another tool', raw: state },
      };
    case 'DELETING':
      return { state: 'releasing', detail: state };
    default:
      // RESTARTING, REIMAGING and REPAIRING end by themselves. Unknown states wait too: nothing destructive may follow
      // from them.
      return { state: 'interrupted', detail: state };
  }
}

/** The workers' addresses, in order. With several network cards a worker has several endpoints, the main one first. */
export function hostsOf({ networkEndpoints = [], networkConfigs = [] }: TpuNode): readonly Host[] {
  const endpointsPerHost = Math.max(1, networkConfigs.length);
  return networkEndpoints
    .filter((_, index) => index % endpointsPerHost === 0)
    .map((endpoint) => ({
      internalIp: endpoint.ipAddress ?? null,
      externalIp: endpoint.accessConfig?.externalIp ?? null,
    }));
}

/** States from worst to best. READY is best; all other states are between this list and READY. */
const stateOrder = ['PREEMPTED', 'TERMINATED', 'HIDDEN', 'STOPPED', 'STOPPING', 'DELETING'];

/** One node for a whole multislice, in its worst state. Undefined while a node is missing and no other is unusable. */
export function combineNodes(nodes: readonly (TpuNode | undefined)[]): TpuNode | undefined {
  const present = nodes.filter((node) => node !== undefined);
  const [first] = present;
  if (first === undefined || nodes.length === 1) return first;
  const worst = present.reduce((worstSoFar, node) => (stateRank(node) < stateRank(worstSoFar) ? node : worstSoFar));
  if (present.length < nodes.length && stateRank(worst) >= stateOrder.length) return undefined;
  const unhealthy = present.find(({ health }) => health !== undefined && health !== 'HEALTHY');
  return {
    ...worst,
    name: first.name,
    ...(unhealthy?.health === undefined ? {} : { health: unhealthy.health }),
    // If one slice has no addresses, report none: worker numbers must not shift.
    networkEndpoints: present.some(({ networkEndpoints = [] }) => networkEndpoints.length === 0)
      ? []
      : present.flatMap(({ networkEndpoints = [] }) => networkEndpoints),
  };
}

function stateRank({ state = '' }: TpuNode): number {
  const index = stateOrder.indexOf(state);
  if (index >= 0) return index;
  return state === 'READY' ? stateOrder.length + 1 : stateOrder.length;
}

export type CreateTarget = `nodes/${string}` | `queuedResources/${string}`;

/**
 * A failure that is the allocation's last error is omitted; its message has the operation's name for this comparison.
 */
export function createStatusOf(
  operations: readonly Operation[],
  target: CreateTarget,
  allocation: Allocation,
  verb: 'create' | 'start' = 'create',
): CreateStatus | undefined {
  const newest = operations
    .filter(({ metadata }) => metadata?.verb === verb && metadata.target?.endsWith(`/${target}`) === true)
    .reduce<Operation | undefined>(
      (best, one) => (best !== undefined && createdAt(best) > createdAt(one) ? best : one),
      undefined,
    );
  if (newest === undefined) return undefined;
  if (newest.done !== true) return { kind: 'pending' };
  if (newest.error === undefined) return undefined;
  const operation = resourceId(newest.name);
  if (allocation.lastError?.error.raw.includes(operation) === true) return undefined;
  return { kind: 'failed', error: { ...newest.error, message: `${newest.error.message ?? ''} (${operation})` } };
}

/** The cloud's clock only; it orders operations and is not compared with ours. */
function createdAt({ metadata }: Operation): number {
  return parseInstant(metadata?.createTime) ?? 0;
}

export interface ResourceOwner {
  readonly installation: string;
  readonly job: string;
  readonly allocation: number;
}

export function ownerOf({ job, allocation }: AllocationRef): ResourceOwner {
  return { installation: job.installation, job: job.id, allocation: allocation.ordinal };
}

/** The labels of an owner's node; also inside a queued resource, before any machine exists. */
export function labelsOf(owner: ResourceOwner): Readonly<Record<string, string>> {
  return {
    'jobman-installation': owner.installation,
    'jobman-job': owner.job,
    'jobman-allocation': String(owner.allocation),
  };
}

/** The labels of a lab's shared TPU. They name no job, so that no job's release can delete it. */
export function sharedLabels(installation: string): Readonly<Record<string, string>> {
  return { 'jobman-installation': installation, 'jobman-shared': 'true' };
}

/** The installation that created a shared TPU; undefined for a job's TPU and for one not created by jobman. */
export function sharedTpuInstallation(node: Partial<TpuNode> | undefined): string | undefined {
  const { 'jobman-installation': installation, 'jobman-shared': shared } = node?.labels ?? {};
  return shared === 'true' ? installation : undefined;
}

/** Undefined without the complete labels of a jobman. */
export function nodeOwner(node: Partial<TpuNode> | undefined): ResourceOwner | undefined {
  const {
    'jobman-installation': installation,
    'jobman-job': job,
    'jobman-allocation': allocation = '',
  } = node?.labels ?? {};
  if (installation === undefined || job === undefined || !/^[1-9]\d*$/.test(allocation)) return undefined;
  return { installation, job, allocation: Number(allocation) };
}

export function queuedOwner(queued: QueuedResource | undefined): ResourceOwner | undefined {
  return nodeOwner(queued?.tpu?.nodeSpec?.[0]?.node);
}

/** Compares the allocation too: a late message for allocation 1 must not affect allocation 2. */
export function isSameOwner(owner: ResourceOwner | undefined, other: ResourceOwner): boolean {
  return owner?.installation === other.installation && owner.job === other.job && owner.allocation === other.allocation;
}

/** The TPU spec of the allocation's alternative. Throws for a job without a TPU, which is a wiring bug. */
export function tpuSpecOf({ job, allocation }: AllocationRef): TpuSpec {
  const capacity = capacityOf(job, allocation);
  if (capacity.kind !== 'tpu') throw new Error(`job ${job.id} with capacity ${capacity.kind} reached the TPU backend`);
  return capacity;
}

export function locationOf(ref: AllocationRef): Location {
  const { project, zone } = tpuSpecOf(ref);
  return { project, zone };
}

export function sliceCount(ref: AllocationRef): number {
  return tpuSpecOf(ref).nodeCount ?? 1;
}

/** The ids of its nodes in worker order. Google appends a number to the queued resource's id for a multislice. */
export function nodeIds(ref: AllocationRef): readonly string[] {
  const { name } = ref.allocation;
  const count = sliceCount(ref);
  return count === 1 ? [name] : Array.from({ length: count }, (_, index) => `${name}-${index}`);
}

export function groupByLocation(
  refs: readonly AllocationRef[],
): readonly { readonly location: Location; readonly refs: readonly AllocationRef[] }[] {
  const groups = new Map<string, { readonly location: Location; readonly refs: AllocationRef[] }>();
  for (const ref of refs) {
    const location = locationOf(ref);
    const key = `${location.project}/${location.zone}`;
    const group = groups.get(key) ?? { location, refs: [] };
    group.refs.push(ref);
    groups.set(key, group);
  }
  return [...groups.values()];
}
