// Asking for a TPU: what is sent, and what comes of it. Asked twice equals asked once: the name is the allocation's own.

import { createHash } from 'node:crypto';
import type { AllocationRef } from '../../app/ports.ts';
import type { OutcomeResult } from '../../core/observation.ts';
import { generationOf } from '../../catalogue/accelerators.ts';
import type { DataDisk, TpuSpec } from '../../core/spec.ts';
import { second } from '../../core/time.ts';
import type { ApiVersion, Place, TpuApi } from './api.ts';
import { statusName } from './errors.ts';
import { isSameOwner, labelsOf, nodeOwner, ownerOf, queuedOwner, sharedLabels } from './ownership.ts';
import { couldNotTell, done, outcomeOf, refused, refusedBy } from './outcomes.ts';
import { nodeIds, placeOf, sliceCount, tpuOf } from './places.ts';

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
  const node = await api.getNode(place, nodeIds(ref)[0] ?? name);
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

/** The node as it is asked for in `tpu-vm` mode. */
function nodeBody(ref: AllocationRef, sshKeys: string): object {
  return { ...commonBody(ref, sshKeys), schedulingConfig: schedulingOf(tpuOf(ref)) };
}

/** The maker of a shared TPU: this installation, null without a record, and the person that it is made for. */
export interface SharedMaker {
  readonly installation: string | null;
  readonly owner: string;
}

/** A shared TPU as a person requests it, without a job. The metadata entry `owner` names the person for the others. */
export function standingBody(spec: TpuSpec, sshKeys: string, maker: SharedMaker): object {
  return { ...sharedBody(spec, sshKeys, maker), schedulingConfig: schedulingOf(spec) };
}

function sharedBody(spec: TpuSpec, sshKeys: string, { installation, owner }: SharedMaker): object {
  const labels = installation === null ? {} : { labels: sharedLabels(installation) };
  return bodyOf({ ...spec, metadata: { owner, ...spec.metadata } }, sshKeys, labels);
}

/** In the queue the tier is the queued resource's, and the node's body has none. */
function queuedBody(ref: AllocationRef, place: Place, sshKeys: string): object {
  const spec = tpuOf(ref);
  const { pricing, reservation, validUntil } = spec;
  return {
    tpu: {
      nodeSpec: [
        {
          parent: inPlace(place),
          ...nodesAsked(ref),
          node: commonBody(ref, sshKeys),
        },
      ],
    },
    ...(pricing === 'spot' ? { spot: {} } : {}),
    ...(pricing === 'preemptible' ? { bestEffort: {} } : {}),
    ...(reservation === undefined
      ? {}
      : { guaranteed: {}, reservationName: fullName(reservation, `${inPlace(place)}/reservations`) }),
    ...(validUntil === undefined ? {} : { queueingPolicy: { validUntilDuration: `${validUntil / second}s` } }),
  };
}

/** One node by its name, or several by what their names begin with; v2 and v2alpha1 call the latter differently. */
function nodesAsked(ref: AllocationRef): object {
  const nodeCount = sliceCount(ref);
  const { name } = ref.allocation;
  if (nodeCount === 1) return { nodeId: name };
  const params = { nodeCount, nodeIdPrefix: name };
  return queuedVersion(tpuOf(ref)) === 'v2' ? { multisliceParams: params } : { multiNodeParams: params };
}

function commonBody(ref: AllocationRef, sshKeys: string): object {
  const { job, allocation } = ref;
  // The labels of a shared TPU name no job: it must not go when this job ends.
  if (allocation.ownership === 'standing')
    return sharedBody(tpuOf(ref), sshKeys, { installation: job.installation, owner: job.owner });
  return bodyOf(tpuOf(ref), sshKeys, { labels: labelsOf(ownerOf(ref)) });
}

function bodyOf(spec: TpuSpec, sshKeys: string, labels: object): object {
  const { network, subnetwork, serviceAccount, dataDisks } = spec;
  const keys = [spec.metadata['ssh-keys'] ?? '', sshKeys].map((lines) => lines.trim()).filter((lines) => lines !== '');
  return {
    ...acceleratorOf(spec),
    runtimeVersion: spec.runtimeVersion,
    networkConfig: {
      enableExternalIps: true,
      ...(network === undefined ? {} : { network }),
      ...(subnetwork === undefined ? {} : { subnetwork }),
    },
    // Without a scope the programs of the account could do nothing; what it may do is its own roles' to say.
    ...(serviceAccount === undefined ? {} : { serviceAccount: { email: serviceAccount, scope: [cloudPlatform] } }),
    ...(dataDisks === undefined ? {} : { dataDisks: dataDisks.map((disk) => diskBody(disk, spec)) }),
    ...labels,
    ...(spec.networkTags.length === 0 ? {} : { tags: spec.networkTags }),
    metadata: {
      ...spec.metadata,
      ...(spec.startupScript === null ? {} : { 'startup-script': spec.startupScript }),
      ...(keys.length === 0 ? {} : { 'ssh-keys': keys.join('\n') }),
    },
  };
}

const cloudPlatform = 'https://www.googleapis.com/auth/cloud-platform';

/** A type by its name; with a topology, the generation and that: the API takes one of the two and works out the other. */
function acceleratorOf({ accelerator, topology }: TpuSpec): object {
  const generation = generationOf(accelerator);
  if (topology === undefined || generation === undefined) return { acceleratorType: accelerator };
  return { acceleratorConfig: { type: generation.configType, topology } };
}

/** Disks are Compute Engine's, whose names have `zones` where those of TPUs have `locations`. */
function diskBody({ source, mode }: DataDisk, { project, zone }: TpuSpec): object {
  return {
    sourceDisk: fullName(source, `projects/${project}/zones/${zone}/disks`),
    mode: mode === 'read-only' ? 'READ_ONLY' : 'READ_WRITE',
  };
}

/** A full name stays as it is; a short one is a name in that collection. */
function fullName(name: string, collection: string): string {
  return name.includes('/') ? name : `${collection}/${name}`;
}

function inPlace({ project, zone }: Place): string {
  return `projects/${project}/locations/${zone}`;
}

/** Only the newer version of the API can name the reservation here; the older takes any that the project has. */
function schedulingOf({ pricing, reservation }: TpuSpec): object {
  if (reservation !== undefined) return { reserved: true };
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
