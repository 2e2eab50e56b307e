// Asking for a TPU: what is sent, and what comes of it. Asked twice equals asked once: the name is the allocation's own.

import { createHash } from 'node:crypto';
import type { AllocationRef } from '../../app/ports.ts';
import type { OutcomeResult } from '../../core/observation.ts';
import type { TpuSpec } from '../../core/spec.ts';
import type { ApiVersion, Place, TpuApi } from './api.ts';
import { statusName } from './errors.ts';
import { isSameOwner, labelsOf, nodeOwner, ownerOf, queuedOwner } from './ownership.ts';
import { couldNotTell, done, outcomeOf, refused, refusedBy } from './outcomes.ts';
import { placeOf, tpuOf } from './places.ts';

/** Asks for the allocation. `sshKeys` are lines for the node's metadata which let jobman log in. */
export async function requestAllocation(api: TpuApi, ref: AllocationRef, sshKeys: string): Promise<OutcomeResult> {
  const place = placeOf(ref);
  const { name } = ref.allocation;
  const answer =
    tpuOf(ref).mode === 'tpu-vm'
      ? await api.createNode(place, name, nodeBody(ref, sshKeys))
      : await api.createQueuedResource(place, name, queuedBody(ref, place, sshKeys), {
          version: queuedVersion(tpuOf(ref)),
          requestId: requestIdOf(ref),
        });
  const refusal = answer.ok ? answer.value.error : undefined;
  const status = answer.ok ? (refusal === undefined ? '' : statusName(refusal)) : answer.status;
  if (status === 'ALREADY_EXISTS') return whatExists(api, place, ref);
  return refusal === undefined ? outcomeOf(answer) : refusedBy(refusal);
}

/** Something of that name is there: ours, because the reply to an earlier request was lost, or somebody else's. */
async function whatExists(api: TpuApi, place: Place, ref: AllocationRef): Promise<OutcomeResult> {
  if (ref.allocation.ownership === 'standing') return done;
  const { name } = ref.allocation;
  const owner = ownerOf(ref);
  if (tpuOf(ref).mode === 'queued-resources') {
    const queued = await api.getQueuedResource(place, name);
    if (queued.ok) return isSameOwner(queuedOwner(queued.value), owner) ? done : taken(name);
    if (queued.status !== 'NOT_FOUND') return couldNotTell(queued);
  }
  const node = await api.getNode(place, name);
  if (node.ok) return isSameOwner(nodeOwner(node.value), owner) ? done : taken(name);
  // It went in between, or does not show yet: the next look tells.
  return couldNotTell(node);
}

function taken(name: string): OutcomeResult {
  return refused({
    kind: 'invalid',
    message: `the name ${name} is taken by something that jobman did not make for this job`,
    raw: `${name} already exists`,
  });
}

/**
 * The node as it is asked for in `tpu-vm` mode. A standing TPU stays nobody's: labels of ours would make it look like
 * something that goes with the job.
 */
function nodeBody(ref: AllocationRef, sshKeys: string): object {
  return { ...commonBody(ref, sshKeys), schedulingConfig: schedulingOf(tpuOf(ref)) };
}

/** In the queue the tier is the queued resource's, and the node's body has none. */
function queuedBody(ref: AllocationRef, { project, zone }: Place, sshKeys: string): object {
  const { pricing } = tpuOf(ref);
  return {
    tpu: {
      nodeSpec: [
        {
          parent: `projects/${project}/locations/${zone}`,
          nodeId: ref.allocation.name,
          node: commonBody(ref, sshKeys),
        },
      ],
    },
    ...(pricing === 'spot' ? { spot: {} } : {}),
    ...(pricing === 'preemptible' ? { bestEffort: {} } : {}),
  };
}

function commonBody(ref: AllocationRef, sshKeys: string): object {
  const spec = tpuOf(ref);
  const keys = [spec.metadata['ssh-keys'] ?? '', sshKeys].map((lines) => lines.trim()).filter((lines) => lines !== '');
  return {
    acceleratorType: spec.accelerator,
    runtimeVersion: spec.runtimeVersion,
    networkConfig: { enableExternalIps: true },
    ...(ref.allocation.ownership === 'standing' ? {} : { labels: labelsOf(ownerOf(ref)) }),
    ...(spec.networkTags.length === 0 ? {} : { tags: spec.networkTags }),
    metadata: {
      ...spec.metadata,
      ...(spec.startupScript === null ? {} : { 'startup-script': spec.startupScript }),
      ...(keys.length === 0 ? {} : { 'ssh-keys': keys.join('\n') }),
    },
  };
}

function schedulingOf({ pricing }: TpuSpec): object {
  return pricing === 'ondemand' ? {} : { [pricing]: true };
}

function queuedVersion({ pricing }: TpuSpec): ApiVersion {
  return pricing === 'preemptible' ? 'v2alpha1' : 'v2';
}

/**
 * The same for a repetition of one request, another after the cloud has answered it with an error: within an hour the
 * same id is answered with the first operation, which would tell the old error again. In the form of a UUID.
 */
function requestIdOf({ job, allocation }: AllocationRef): string {
  const words = [job.installation, job.id, allocation.ordinal, allocation.requestFailures].join('/');
  const hex = createHash('sha256').update(words).digest('hex');
  // The digits 8 and a say "made by a rule of our own" (RFC 9562).
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  );
}
