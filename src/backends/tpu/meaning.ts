// The meaning of what the cloud shows: whose a node and its queued resource are, and what their states mean for an allocation, as
// tables from Google's states to ours. Everything that jobman makes in the cloud carries labels that name its owner; what
// carries others, or none, is never touched. Keys and values of Google's labels are `[a-z0-9_-]`, up to 63, keys begin with a letter.
// The nodes of a multislice are one allocation: they come and go together, and the whole is in the state of the worst of them.
// A stockout is reported only in the create call's operation, often minutes after the call itself returned 200. The cloud
// keeps operations for days, so a controller that was away in between still finds it.
// Facts: states of the node (proto `Node.State`) and of the queued resource (`QueuedResourceState.State`).

import type { AllocationRef } from '../../app/ports.ts';
import { capacityOf, type Allocation, type Host } from '../../core/job.ts';
import type { AllocationSeen } from '../../core/observation.ts';
import type { TpuSpec } from '../../core/spec.ts';
import {
  classify,
  idOf,
  type Operation,
  type Place,
  type QueuedResource,
  type StatusBody,
  type TpuNode,
} from './api.ts';

/**
 * How the newest create of that name stands, where the thing itself does not show: `pending`, or failed with these words.
 * Undefined when it was not asked about, or went well.
 */
export type Creation = { readonly kind: 'pending' } | { readonly kind: 'failed'; readonly error: StatusBody };

/** All that the cloud showed under one allocation's name. Only looks that succeeded: what is undefined was not there. */
export interface Shown {
  readonly node: TpuNode | undefined;
  readonly queued: QueuedResource | undefined;
  readonly creation: Creation | undefined;
}

export function allocationSeen(ref: AllocationRef, shown: Shown): AllocationSeen {
  const { node, queued } = ours(ref, shown);
  if (isAnother(ref.allocation, node)) return { state: 'absent', detail: 'another of its name was made in its place' };
  if (node === undefined && queued === undefined) {
    if (shown.node === undefined && shown.queued === undefined) return missingSeen(shown.creation);
    return { state: 'foreign', detail: 'something of this name exists that was not made for this allocation' };
  }
  if (queued !== undefined) {
    const seen = queuedSeen(queued, node, ref);
    if (seen !== undefined) return seen;
  }
  return node === undefined ? nodelessSeen(queued, ref) : nodeSeen(node, ref, shown.creation);
}

/**
 * The part of it that is this allocation's. A standing TPU is nobody's by label: it exists by name for all who may use it.
 * With a queued resource of ours there may be a foreign node of that name, which is the reason why ours cannot be made.
 */
function ours(ref: AllocationRef, { node, queued }: Shown): Pick<Shown, 'node' | 'queued'> {
  if (ref.allocation.ownership === 'standing') return { node, queued };
  const owner = ownerOf(ref);
  const isQueuedOurs = isSameOwner(queuedOwner(queued), owner);
  // Somebody may have changed a node's labels; what our queued resource has made is ours all the same.
  const isNodeOurs = isSameOwner(nodeOwner(node), owner) || (isQueuedOurs && node?.queuedResource === queued?.name);
  return { node: isNodeOurs ? node : undefined, queued: isQueuedOurs ? queued : undefined };
}

/**
 * True of a node that somebody has made anew, by hand or for another job, since this allocation was seen ready: it has the name
 * of a standing TPU and nothing else of it. The two are told apart by the cloud's own word, not by the clock of this machine.
 */
export function isAnother({ ownership, made }: AllocationRef['allocation'], node: TpuNode | undefined): boolean {
  if (ownership !== 'standing' || made === undefined || node?.createTime === undefined) return false;
  return node.createTime !== made;
}

function missingSeen(creation: Creation | undefined): AllocationSeen {
  if (creation?.kind === 'pending') return { state: 'provisioning', detail: 'being created' };
  // A create that failed leaves nothing behind; its operation is the only place that tells why.
  if (creation?.kind === 'failed') {
    return { state: 'absent', detail: 'its creation failed', error: classify(creation.error) };
  }
  return { state: 'absent', detail: 'not there' };
}

function queuedSeen(
  queued: QueuedResource,
  node: TpuNode | undefined,
  { allocation }: AllocationRef,
): AllocationSeen | undefined {
  const { state = 'STATE_UNSPECIFIED', stateInitiator, failedData } = queued.state ?? {};
  const wasReady = allocation.readyAt !== null;
  // People delete nodes too, and the queued resource is then suspended as if by a preemption. History should tell which.
  const detail = stateInitiator === 'USER' && state !== 'DELETING' ? `${state}, by a user` : state;
  switch (state) {
    case 'CREATING':
    // The older word for WAITING_FOR_RESOURCES.
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
        error: classify(failedData?.error ?? { message: 'the queued resource failed without a word' }),
      };
    case 'SUSPENDING':
      // Before it was ever ready: a node could not be made, and the service may still go back to making it.
      if (!wasReady && node?.state !== 'PREEMPTED') return { state: 'provisioning', detail };
      return { state: 'lost', cause: 'preempted', detail };
    case 'SUSPENDED':
      // It is never queued again; its node is gone or about to go.
      if (wasReady || node?.state === 'PREEMPTED') return { state: 'lost', cause: 'preempted', detail };
      return {
        state: 'lost',
        cause: 'failed',
        detail,
        error: { kind: 'stockout', message: 'the queued resource was suspended before it was ready', raw: detail },
      };
    default:
      // PROVISIONING and ACTIVE: the node tells. A word that we do not know is left to the node too.
      return undefined;
  }
}

function nodelessSeen(queued: QueuedResource | undefined, { allocation }: AllocationRef): AllocationSeen {
  const detail = `${queued?.state?.state ?? 'STATE_UNSPECIFIED'}, no node`;
  // After it was ready the queued resource will say in a moment what became of it; until then nothing is concluded.
  return { state: allocation.readyAt === null ? 'provisioning' : 'interrupted', detail };
}

function nodeSeen(node: TpuNode, ref: AllocationRef, creation: Creation | undefined): AllocationSeen {
  const { state = 'STATE_UNSPECIFIED' } = node;
  const coming = ref.allocation.readyAt === null ? 'provisioning' : 'interrupted';
  switch (state) {
    case 'CREATING':
      // A failed create may leave its node behind, which would be waited for without end.
      if (creation?.kind === 'failed') {
        return {
          state: 'lost',
          cause: 'failed',
          detail: 'CREATING, and its creation failed',
          error: classify(creation.error),
        };
      }
      return { state: coming, detail: state };
    case 'STARTING':
      return { state: coming, detail: state };
    case 'READY': {
      const hosts = hostsOf(node);
      // Ready with nobody to talk to is not usable: a command on no workers would count as done.
      if (hosts.length === 0) return { state: coming, detail: `${state}, no addresses` };
      const isHealthy = node.health === undefined || node.health === 'HEALTHY';
      // Of a multislice it is now this node that stands for all, and now that one.
      const isOne = ref.allocation.ownership === 'standing' && sliceCount(ref) === 1;
      const made = isOne && node.createTime !== undefined ? { made: node.createTime } : {};
      const detail = isHealthy ? state : `${state}, ${node.health}`;
      return { state: 'ready', detail, workers: hosts.length, hosts, ...made };
    }
    case 'PREEMPTED':
    case 'TERMINATED':
      return { state: 'lost', cause: 'preempted', detail: state };
    case 'STOPPED':
    case 'STOPPING':
      // Somebody stopped it with the cloud's own tools. A standing one is theirs to start again; one of ours would be
      // waited for at nobody's word.
      if (ref.allocation.ownership === 'standing') return { state: 'interrupted', detail: state };
      return {
        state: 'lost',
        cause: 'failed',
        detail: state,
        error: { kind: 'internal', message: 'the node was stopped from outside', raw: state },
      };
    case 'DELETING':
      return { state: 'releasing', detail: state };
    default:
      // RESTARTING, REIMAGING, REPAIRING come back by themselves; HIDDEN, UNKNOWN and new words are waited for: nothing
      // destructive follows from not knowing.
      return { state: 'interrupted', detail: state };
  }
}

/** The workers' addresses in their order. With several network cards each worker has a group of endpoints, the first the main one. */
export function hostsOf({ networkEndpoints = [], networkConfigs = [] }: TpuNode): readonly Host[] {
  const each = Math.max(1, networkConfigs.length);
  return networkEndpoints
    .filter((_, index) => index % each === 0)
    .map((endpoint) => ({
      internalIp: endpoint.ipAddress ?? null,
      externalIp: endpoint.accessConfig?.externalIp ?? null,
    }));
}

/** From what can never be used again to what can be used now; words that are not here are between the last two. */
const order = ['PREEMPTED', 'TERMINATED', 'HIDDEN', 'STOPPED', 'STOPPING', 'DELETING'];

/**
 * The nodes as one, in the order of their workers, which are numbered through: in the state of the worst of them, with the
 * endpoints of all. A single one is itself. Undefined while one is missing of which nobody can say more, unless another is
 * past use already.
 */
export function asOne(nodes: readonly (TpuNode | undefined)[]): TpuNode | undefined {
  const there = nodes.filter((node) => node !== undefined);
  const [first] = there;
  if (first === undefined || nodes.length === 1) return first;
  const worst = there.reduce((bad, node) => (rank(node) < rank(bad) ? node : bad));
  if (there.length < nodes.length && rank(worst) >= order.length) return undefined;
  const unwell = there.find(({ health }) => health !== undefined && health !== 'HEALTHY');
  return {
    ...worst,
    name: first.name,
    ...(unwell?.health === undefined ? {} : { health: unwell.health }),
    // A slice without addresses leaves all of them without: worker numbers must not shift.
    networkEndpoints: there.some(({ networkEndpoints = [] }) => networkEndpoints.length === 0)
      ? []
      : there.flatMap(({ networkEndpoints = [] }) => networkEndpoints),
  };
}

function rank({ state = '' }: TpuNode): number {
  const at = order.indexOf(state);
  if (at >= 0) return at;
  return state === 'READY' ? order.length + 1 : order.length;
}

/** Full name of what the create was to make, from `nodes/` or `queuedResources/` on. */
export type Target = `nodes/${string}` | `queuedResources/${string}`;

/**
 * The outcome of the newest create of that target. A failure that the record has answered already is not reported again: its
 * words, which name the operation, are those of the allocation's last failure.
 */
export function creationOf(
  operations: readonly Operation[],
  target: Target,
  allocation: Allocation,
): Creation | undefined {
  const newest = operations
    .filter(({ metadata }) => metadata?.verb === 'create' && metadata.target?.endsWith(`/${target}`) === true)
    .reduce<Operation | undefined>(
      (best, one) => (best !== undefined && bornAt(best) > bornAt(one) ? best : one),
      undefined,
    );
  if (newest === undefined) return undefined;
  if (newest.done !== true) return { kind: 'pending' };
  if (newest.error === undefined) return undefined;
  const operation = idOf(newest.name);
  if (allocation.lastFailure?.error.raw.includes(operation) === true) return undefined;
  return { kind: 'failed', error: { ...newest.error, message: `${newest.error.message ?? ''} (${operation})` } };
}

/** By the cloud's clock alone: ours may differ, and two operations are compared with each other only. */
function bornAt({ metadata }: Operation): number {
  const at = Date.parse(metadata?.createTime ?? '');
  return Number.isNaN(at) ? 0 : at;
}

// Whose a thing is, by its labels; and where an allocation's things are and what they are called.

export interface Owner {
  readonly installation: string;
  readonly job: string;
  readonly allocation: number;
}

export function ownerOf({ job, allocation }: AllocationRef): Owner {
  return { installation: job.installation, job: job.id, allocation: allocation.ordinal };
}

/** The labels of a node made for that owner; inside a queued resource too, before any machine exists. */
export function labelsOf(owner: Owner): Readonly<Record<string, string>> {
  return {
    'jobman-installation': owner.installation,
    'jobman-job': owner.job,
    'jobman-allocation': String(owner.allocation),
  };
}

/**
 * The labels of a TPU that a lab shares (`tpu apply`, or a re-apply by the rule of a job): which jobman made it, and no job. So
 * nothing that deletes with a job can take it for a job's own.
 */
export function sharedLabels(installation: string): Readonly<Record<string, string>> {
  return { 'jobman-installation': installation, 'jobman-shared': 'true' };
}

/** The installation that made a shared TPU; undefined for a job's own TPU and for one that no jobman made. */
export function sharedMaker(node: Partial<TpuNode> | undefined): string | undefined {
  const { 'jobman-installation': installation, 'jobman-shared': shared } = node?.labels ?? {};
  return shared === 'true' ? installation : undefined;
}

/** The owner of a node; undefined when it carries no labels of a jobman, or not all of them. */
export function nodeOwner(node: Partial<TpuNode> | undefined): Owner | undefined {
  const {
    'jobman-installation': installation,
    'jobman-job': job,
    'jobman-allocation': allocation = '',
  } = node?.labels ?? {};
  if (installation === undefined || job === undefined || !/^[1-9]\d*$/.test(allocation)) return undefined;
  return { installation, job, allocation: Number(allocation) };
}

export function queuedOwner(queued: QueuedResource | undefined): Owner | undefined {
  return nodeOwner(queued?.tpu?.nodeSpec?.[0]?.node);
}

/** True for the same installation, job and allocation: a late message for allocation 1 cannot touch allocation 2. */
export function isSameOwner(owner: Owner | undefined, other: Owner): boolean {
  return owner?.installation === other.installation && owner.job === other.job && owner.allocation === other.allocation;
}

/** The TPU that is asked for at the allocation's place. A job of another kind here is a mistake in the wiring. */
export function tpuOf({ job, allocation }: AllocationRef): TpuSpec {
  const capacity = capacityOf(job, allocation);
  if (capacity.kind !== 'tpu')
    throw new Error(`job ${job.id} asks for ${capacity.kind} and was handed to the TPU backend`);
  return capacity;
}

export function placeOf(ref: AllocationRef): Place {
  const { project, zone } = tpuOf(ref);
  return { project, zone };
}

export function sliceCount(ref: AllocationRef): number {
  return tpuOf(ref).nodeCount ?? 1;
}

/** The ids of its nodes, in the order of their workers. Google numbers those of a multislice behind the queued resource's id. */
export function nodeIds(ref: AllocationRef): readonly string[] {
  const { name } = ref.allocation;
  const count = sliceCount(ref);
  return count === 1 ? [name] : Array.from({ length: count }, (_, index) => `${name}-${index}`);
}

export function byPlace(
  refs: readonly AllocationRef[],
): readonly { readonly place: Place; readonly refs: readonly AllocationRef[] }[] {
  const groups = new Map<string, { readonly place: Place; readonly refs: AllocationRef[] }>();
  for (const ref of refs) {
    const place = placeOf(ref);
    const key = `${place.project}/${place.zone}`;
    const group = groups.get(key) ?? { place, refs: [] };
    group.refs.push(ref);
    groups.set(key, group);
  }
  return [...groups.values()];
}
