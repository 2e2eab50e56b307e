// What a node and its queued resource mean for an allocation: tables from Google's words to ours, first match wins.
// Facts: states of the node (proto `Node.State`) and of the queued resource (`QueuedResourceState.State`).

import type { Allocation } from '../../core/job.ts';
import type { AllocationSeen } from '../../core/observation.ts';
import type { TpuSpec } from '../../core/spec.ts';
import type { QueuedResource, TpuNode } from './api.ts';
import { classify } from './errors.ts';
import type { StatusBody } from './errors.ts';

/** The labels that say whose a node is. They travel in the node itself, also inside a queued resource. */
export interface Ownership {
  readonly installation: string;
  readonly job: string;
  readonly allocation: number;
}

export function labelsOf(owner: Ownership): Readonly<Record<string, string>> {
  return {
    'jobman-installation': owner.installation,
    'jobman-job': owner.job,
    'jobman-allocation': String(owner.allocation),
  };
}

/** Whose a node is; undefined when it carries no labels of a jobman. */
export function ownerOf(node: TpuNode | undefined): Ownership | undefined {
  const labels = node?.labels;
  const installation = labels?.['jobman-installation'];
  const job = labels?.['jobman-job'];
  const allocation = Number(labels?.['jobman-allocation']);
  if (installation === undefined || job === undefined || !Number.isInteger(allocation)) return undefined;
  return { installation, job, allocation };
}

/** The node that a queued resource asks for, as it was asked; it carries our labels before any machine exists. */
export function askedNode(queued: QueuedResource | undefined): TpuNode | undefined {
  return queued?.tpu?.nodeSpec?.[0]?.node;
}

export function isSame(a: Ownership | undefined, b: Ownership): boolean {
  return a !== undefined && a.installation === b.installation && a.job === b.job && a.allocation === b.allocation;
}

/** All that the cloud showed for one allocation. `createError` is how its create operation ended, when it failed. */
export interface Shown {
  readonly node: TpuNode | undefined;
  readonly queued: QueuedResource | undefined;
  readonly createError: StatusBody | undefined;
}

/** Turns what was shown into one word. Only called with looks that succeeded: what is undefined here was not there. */
export function allocationSeen(spec: TpuSpec, allocation: Allocation, owner: Ownership, shown: Shown): AllocationSeen {
  const { node, queued, createError } = shown;
  if (node === undefined && queued === undefined) {
    // A create that failed leaves nothing behind; its operation is the only place that tells why.
    if (createError !== undefined && allocation.releasedAt === null) {
      return { state: 'lost', cause: 'failed', detail: 'create failed', error: classify(createError) };
    }
    return { state: 'absent', detail: 'not there' };
  }
  // A standing TPU is not ours by label: it exists by name for everybody who may use it.
  if (spec.ownership === 'owned' && !isSame(ownerOf(node ?? askedNode(queued)), owner)) {
    return { state: 'foreign', detail: 'something of this name exists that this jobman did not make for this job' };
  }
  if (queued !== undefined) {
    const seen = queuedSeen(queued, node, allocation);
    if (seen !== undefined) return seen;
  }
  if (node === undefined) return { state: 'provisioning', detail: queued?.state?.state ?? 'no node yet' };
  return nodeSeen(node);
}

/** What the queued resource decides before its node is asked; undefined when the node is to tell. */
function queuedSeen(
  queued: QueuedResource,
  node: TpuNode | undefined,
  allocation: Allocation,
): AllocationSeen | undefined {
  const state = queued.state?.state ?? 'STATE_UNSPECIFIED';
  switch (state) {
    case 'CREATING':
    case 'ACCEPTED':
    case 'WAITING_FOR_RESOURCES':
      return { state: 'waiting', detail: state };
    case 'DELETING':
      return { state: 'releasing', detail: state };
    case 'FAILED': {
      const failure = queued.state?.failedData?.error;
      return {
        state: 'lost',
        cause: 'failed',
        detail: state,
        error:
          failure === undefined
            ? { kind: 'internal', message: 'the queued resource failed without a word', raw: state }
            : classify(failure),
      };
    }
    case 'SUSPENDING':
    case 'SUSPENDED':
      // A suspended queued resource is never queued again. Before it was ever ready this is a failed provisioning, which
      // may still go back to making nodes while it is SUSPENDING.
      if (allocation.readyAt === null && node?.state !== 'PREEMPTED') {
        if (state === 'SUSPENDING') return { state: 'provisioning', detail: state };
        return {
          state: 'lost',
          cause: 'failed',
          detail: state,
          error: { kind: 'stockout', message: 'the queued resource was suspended before it was ready', raw: state },
        };
      }
      return { state: 'lost', cause: 'preempted', detail: state };
    default:
      // PROVISIONING and ACTIVE: the node tells. An unknown word is left to the node too.
      return undefined;
  }
}

function nodeSeen(node: TpuNode): AllocationSeen {
  const state = node.state ?? 'STATE_UNSPECIFIED';
  switch (state) {
    case 'CREATING':
    case 'STARTING':
      return { state: 'provisioning', detail: state };
    case 'READY': {
      const endpoints = node.networkEndpoints ?? [];
      return {
        state: 'ready',
        detail: node.health === undefined || node.health === 'HEALTHY' ? state : `${state}, ${node.health}`,
        workers: endpoints.length,
        hosts: endpoints.map((endpoint) => ({
          internalIp: endpoint.ipAddress ?? null,
          externalIp: endpoint.accessConfig?.externalIp ?? null,
        })),
      };
    }
    case 'PREEMPTED':
    case 'TERMINATED':
      return { state: 'lost', cause: 'preempted', detail: state };
    case 'STOPPED':
    case 'STOPPING':
      // Somebody stopped it with the cloud's own tools: it will not come back by itself.
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
