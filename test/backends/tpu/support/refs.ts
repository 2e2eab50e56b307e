// A job with one TPU allocation, as the adapter is handed it; and things in the cloud that carry its labels, or others.

import type { AllocationRef, Clock } from '../../../../src/app/ports.ts';
import type { QueuedResource, TpuNode } from '../../../../src/backends/tpu/api.ts';
import type { AllocationFields, Job } from '../../../../src/core/model/job.ts';
import type { RecoveryRule, TpuSpec } from '../../../../src/core/model/spec.ts';
import { minute, second } from '../../../../src/core/model/time.ts';
import { aJob, allocationOf, localSpec, tpuCapacity } from '../../../support/builders.ts';
import { parent, location } from './server.ts';

export const now = Date.parse('2026-05-01T12:00:00Z');

/** A clock that stands still; the adapter only reads it. */
export const fixedClock: Clock = { now: () => now, at: () => () => undefined };

export const name = 'llama-000007-1';

export interface RefOptions {
  readonly job?: Partial<Job>;
  readonly spec?: Partial<TpuSpec>;
  readonly allocation?: Partial<AllocationFields>;
  readonly rules?: readonly RecoveryRule[];
}

/** Requested and accepted a minute ago by default. */
export function tpuRef({ job = {}, spec = {}, allocation = {}, rules = [] }: RefOptions = {}): AllocationRef {
  const given = localSpec({ name: 'llama', capacity: tpuCapacity({ ...location, name: 'llama', ...spec }) });
  const baseJob = aJob(
    { ...given, recovery: { ...given.recovery, preset: 'custom', rules } },
    { id: '000007', installation: 'ab12cd', owner: 'alice', createdAt: now - 2 * minute, ...job },
  );
  const accepted = { requestedAt: now - minute, confirmedAt: now - minute + second };
  const requested = allocationOf(baseJob, allocation.ordinal ?? 1, { ...accepted, ...allocation });
  return { allocation: requested, job: { ...baseJob, startRequest: null, allocations: [requested], ...job } };
}

/** The labels of `tpuRef()`'s allocation. */
export const labels = {
  'jobman-installation': 'ab12cd',
  'jobman-job': '000007',
  'jobman-allocation': '1',
} as const;

export const endpoints = [
  { ipAddress: '10.128.0.5', port: 8470, accessConfig: { externalIp: '34.1.2.3' } },
  { ipAddress: '10.128.0.6', port: 8470, accessConfig: {} },
];

/** A ready node of ours by default. */
export function nodeOf(part: Partial<TpuNode> & { readonly id?: string } = {}): TpuNode {
  const { id = name, ...rest } = part;
  return { name: `${parent}/nodes/${id}`, state: 'READY', labels, networkEndpoints: endpoints, ...rest };
}

/** A queued resource of ours in that state; `node` is the node that it is to make. */
export function queuedOf(
  state: string,
  part: { readonly id?: string; readonly node?: Partial<TpuNode>; readonly more?: object } = {},
): QueuedResource {
  const { id = name, node = { labels }, more = {} } = part;
  return {
    name: `${parent}/queuedResources/${id}`,
    tpu: { nodeSpec: [{ nodeId: id, node }] },
    state: { state, stateInitiator: 'SERVICE', ...more },
  };
}
