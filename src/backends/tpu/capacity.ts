// Observes, requests and releases Cloud TPUs, and finds orphans. It decides nothing about jobs and keeps no state
// between calls. An observation is one or two lists per zone; only a resource that should be listed and is missing is
// fetched by name. A failed call makes the state unknown, never absent. A repeated request has the effect of one,
// because the allocation owns its name. A release reads the labels first.

import { createHash } from 'node:crypto';
import type { Answer, Listing } from '../../app/google.ts';
import { messageOf } from '../../app/errors.ts';
import { mapConcurrent } from '../../app/concurrency.ts';
import type { AllocationRef, CapacityPort, Clock, Orphan } from '../../app/ports.ts';
import { generationOf } from '../../catalogue/accelerators.ts';
import { pricePerHour } from '../../catalogue/prices.ts';
import { isPermanent } from '../../core/decide/allocate.ts';
import type { CloudError, Job } from '../../core/model/job.ts';
import {
  known,
  unknown,
  type AllocationStatus,
  type Observed,
  type OutcomeResult,
  type Unknown,
} from '../../core/model/observation.ts';
import { alternativeOf, type DataDisk, type TpuSpec } from '../../core/model/spec.ts';
import { minute, second, type Duration, type Instant } from '../../core/model/time.ts';
import {
  classifyError,
  resourceId,
  isNotFound,
  statusName,
  unreachableText,
  type ApiVersion,
  type Operation,
  type Location,
  type QueuedResource,
  type StatusBody,
  type TpuApi,
  type TpuNode,
} from './api.ts';
import { findOrphans, shownTpu } from './inventory.ts';
import {
  allocationStatus,
  combineNodes,
  groupByLocation,
  createStatusOf,
  wasRecreated,
  withSlices,
  isSameOwner,
  labelsOf,
  nodeIds,
  nodeOwner,
  ownerOf,
  locationOf,
  queuedOwner,
  sharedLabels,
  sliceCount,
  tpuSpecOf,
  type CreateStatus,
  type ResourceOwner,
  type CreateTarget,
} from './resources.ts';

export interface TpuCapacityOptions {
  /** The API for a project: Google's, or the TPU emulator's. */
  readonly apiFor: (project: string) => TpuApi;
  /** Like `apiFor`, but never starts the emulator: orphan collection does not need it. Default: `apiFor`. */
  readonly runningApiFor?: (project: string) => TpuApi;
  readonly clock: Clock;
  /** Lines for the node's `ssh-keys` metadata, by which jobman logs in; see `workers.ts`. */
  readonly sshKeyLines: (spec: TpuSpec, job: Pick<Job, 'id' | 'owner'>) => Promise<string>;
}

export function createTpuCapacity(options: TpuCapacityOptions): CapacityPort {
  const { apiFor, sshKeyLines } = options;
  return {
    backend: 'tpu',
    observe: (refs) => observeAllocations(refs, options),
    async request(ref) {
      let sshKeys: string;
      try {
        sshKeys = await sshKeyLines(tpuSpecOf(ref), ref.job);
      } catch (error) {
        // A TPU without a login would only cost money.
        const raw = messageOf(error);
        return failed({ kind: 'internal', message: `the SSH keys cannot be read: ${raw}`, raw });
      }
      return requestAllocation(apiFor(locationOf(ref).project), ref, sshKeys);
    },
    release: (ref) => releaseAllocation(apiFor(locationOf(ref).project), ref),
    listLabelled: (refs) => findOrphans(refs, { clock: options.clock, apiFor: options.runningApiFor ?? apiFor }),
    releaseOrphan: (orphan) => releaseOrphan(apiFor, orphan),
    pricePerHour: ({ capacity }) => (capacity.kind === 'tpu' ? pricePerHour(capacity) : null),
  };
}

const maxConcurrentGets = 16;
/** Google creates a node within five minutes. After this time, check its create operation. */
const maxCreateTime: Duration = 15 * minute;

const notObserved = 'it was not observed';

type ListResult<T> =
  | { readonly ok: true; readonly items: ReadonlyMap<string, T> }
  | { readonly ok: false; readonly unknown: Unknown };

/** Observes all zones concurrently. The result has the order of `refs`. */
export async function observeAllocations(
  refs: readonly AllocationRef[],
  options: { readonly apiFor: (project: string) => TpuApi; readonly clock: Clock },
): Promise<readonly Observed<AllocationStatus>[]> {
  const observations = new Map<AllocationRef, Observed<AllocationStatus>>();
  await Promise.all(
    groupByLocation(refs).map(async ({ location, refs: group }) => {
      const observed = await observeLocation(options.apiFor(location.project), location, group, options.clock);
      for (const [index, ref] of group.entries())
        observations.set(ref, observed[index] ?? unknown(notObserved, options.clock.now()));
    }),
  );
  return refs.map((ref) => observations.get(ref) ?? unknown(notObserved, options.clock.now()));
}

async function observeLocation(
  api: TpuApi,
  location: Location,
  refs: readonly AllocationRef[],
  clock: Clock,
): Promise<readonly Observed<AllocationStatus>[]> {
  const since = clock.now();
  const needsQueue = refs.some((ref) => tpuSpecOf(ref).mode === 'queued-resources');
  // The queue first, so that a node which appears or is deleted between the two calls is still seen.
  const queue: ListResult<QueuedResource> = needsQueue
    ? listResultOf(await api.listQueuedResources(location), since)
    : { ok: true, items: new Map() };
  const nodes = listResultOf(await api.listNodes(location), since);
  // At most once per observation, and only for an accepted allocation that is missing or late.
  let operations: Promise<Answer<Listing<Operation>>> | undefined;
  const zoneClient: ZoneClient = {
    api,
    location,
    since,
    listOperations: () => (operations ??= api.listOperations(location)),
  };
  return mapConcurrent(refs, maxConcurrentGets, async (ref) => {
    if (!nodes.ok) return nodes.unknown;
    const isQueued = tpuSpecOf(ref).mode === 'queued-resources';
    if (isQueued && !queue.ok) return queue.unknown;
    const { name } = ref.allocation;
    const found = nodeIds(ref).map((id) => nodes.items.get(id));
    const node = combineNodes(found);
    // A persistent TPU may come from a queued resource with another name.
    const queuedId = ref.allocation.ownership === 'persistent' ? resourceId(node?.queuedResource ?? name) : name;
    const queued = isQueued && queue.ok ? queue.items.get(queuedId) : undefined;
    return observeAllocation(zoneClient, ref, { found, queued });
  });
}

interface ZoneClient {
  readonly api: TpuApi;
  readonly location: Location;
  readonly since: Instant;
  readonly listOperations: () => Promise<Answer<Listing<Operation>>>;
}

async function observeAllocation(
  zoneClient: ZoneClient,
  ref: AllocationRef,
  inLists: { readonly found: readonly (TpuNode | undefined)[]; readonly queued: QueuedResource | undefined },
): Promise<Observed<AllocationStatus>> {
  const { since } = zoneClient;
  let nodes = inLists.found;
  let node = combineNodes(nodes);
  let { queued } = inLists;
  const isMissing = inLists.found.every((one) => one === undefined) && queued === undefined;
  let createStatus: CreateStatus | undefined;
  if (isBeingCreated(ref) && (isMissing || isCreateOverdue(ref, node, since))) {
    const operations = await zoneClient.listOperations();
    if (!operations.ok) return unknownFromError(operations.error, since);
    createStatus = createStatusOf(
      operations.value.items,
      targetOf(ref),
      ref.allocation,
      isRestart(ref) ? 'start' : 'create',
    );
  }
  // A list may be incomplete, so confirm an absence by get. A pending or failed create confirms it too.
  const isNodeDue = queued?.state?.state === 'ACTIVE';
  const isGetNeeded = isMissing ? isExpected(ref) && createStatus === undefined : node === undefined && isNodeDue;
  if (isGetNeeded) {
    const found = [...inLists.found];
    for (const [index, id] of nodeIds(ref).entries()) {
      if (found[index] !== undefined) continue;
      const answer = await zoneClient.api.getNode(zoneClient.location, id);
      if (answer.ok) found[index] = answer.value;
      else if (answer.status !== 'NOT_FOUND') return unknownFromError(answer.error, since);
    }
    nodes = found;
    node = combineNodes(nodes);
  }
  if (isGetNeeded && isMissing && tpuSpecOf(ref).mode === 'queued-resources') {
    const answer = await zoneClient.api.getQueuedResource(zoneClient.location, ref.allocation.name);
    if (answer.ok) queued = answer.value;
    else if (answer.status !== 'NOT_FOUND') return unknownFromError(answer.error, since);
  }
  const status = allocationStatus(ref, { node, queued, createStatus });
  return known(
    isLateTpu(ref, node, queued) ? lateTpuStatus(ref, status) : withSlices(status, ref, { nodes, queued }),
    since,
  );
}

/**
 * True for a TPU that an earlier request, in another alternative of the same zone, has made late. The job wants another
 * one, and orphan collection releases this one. A job that uses a TPU observes it, whatever its type.
 */
function isLateTpu(
  { job, allocation }: AllocationRef,
  node: TpuNode | undefined,
  queued: QueuedResource | undefined,
): boolean {
  const { alternative = 0, readyAt } = allocation;
  return readyAt === null && alternativeOf(job.spec.capacity, alternative, shownTpu(node, queued)) !== alternative;
}

/** Absent until the job releases its allocation; then it exists, and orphan collection records its ready time. */
function lateTpuStatus(ref: AllocationRef, status: AllocationStatus): AllocationStatus {
  if (ref.allocation.releasedAt === null) return { state: 'absent', detail: lateTpuText(ref) };
  return { ...status, state: status.state === 'ready' ? 'provisioning' : status.state, slices: ['other'] };
}

function lateTpuText({ allocation }: AllocationRef): string {
  return `${allocation.name} is still the TPU of an earlier request in another alternative, and is being released`;
}

/** A resource with an entry of an unexpected form is not in the items, so it is requested by its name. */
function listResultOf<T extends { readonly name: string }>(answer: Answer<Listing<T>>, since: Instant): ListResult<T> {
  if (!answer.ok) return { ok: false, unknown: unknownFromError(answer.error, since) };
  const { items, unreachable } = answer.value;
  if (unreachable.length > 0) return { ok: false, unknown: unknown(unreachableText(unreachable), since) };
  return { ok: true, items: new Map(items.map((item) => [resourceId(item.name), item])) };
}

/** A refusal stays in the unknown status: a resource that the cloud does not show is not absent. */
function unknownFromError({ kind, raw, noLogin }: CloudError, since: Instant): Unknown {
  const refused = isPermanent(kind) && { refused: kind };
  return { ...unknown(raw, since), ...refused, ...(noLogin === true && { noLogin }) };
}

/** True if an absence has consequences. An unconfirmed request is repeated anyway, which finds a missed resource. */
function isExpected({ allocation }: AllocationRef): boolean {
  if (allocation.requestedAt === null || allocation.goneAt !== null) return false;
  return allocation.confirmedAt !== null || allocation.ownership === 'persistent';
}

function isBeingCreated({ allocation }: AllocationRef): boolean {
  return allocation.confirmedAt !== null && allocation.readyAt === null && allocation.releasedAt === null;
}

function isCreateOverdue({ allocation }: AllocationRef, node: TpuNode | undefined, now: Instant): boolean {
  return node?.state === 'CREATING' && now - (allocation.confirmedAt ?? now) > maxCreateTime;
}

function targetOf(ref: AllocationRef): CreateTarget {
  return tpuSpecOf(ref).mode === 'tpu-vm' ? `nodes/${ref.allocation.name}` : `queuedResources/${ref.allocation.name}`;
}

export async function requestAllocation(api: TpuApi, ref: AllocationRef, sshKeys: string): Promise<OutcomeResult> {
  const location = locationOf(ref);
  const { name } = ref.allocation;
  if (isRestart(ref)) return requestStart(api, location, name);
  const answer =
    tpuSpecOf(ref).mode === 'tpu-vm'
      ? await api.createNode(location, name, {
          ...allocationNodeBody(ref, sshKeys),
          schedulingConfig: schedulingOf(tpuSpecOf(ref)),
        })
      : await api.createQueuedResource(location, name, queuedResourceBody(ref, location, sshKeys), {
          version: queuedApiVersion(tpuSpecOf(ref)),
          requestId: requestIdOf(ref),
        });
  const refusal = answer.ok ? answer.value.error : undefined;
  const status = answer.ok ? (refusal === undefined ? '' : statusName(refusal)) : answer.status;
  if (status === 'ALREADY_EXISTS') return outcomeOfExisting(api, location, ref);
  return refusal === undefined ? outcomeOf(answer) : outcomeOfError(refusal);
}

function isRestart(ref: AllocationRef): boolean {
  return tpuSpecOf(ref).operation?.kind === 'restart';
}

async function requestStart(api: TpuApi, location: Location, name: string): Promise<OutcomeResult> {
  const node = await api.getNode(location, name);
  if (!node.ok) return outcomeOf(node);
  return node.value.state === 'STOPPED' ? outcomeOf(await api.startNode(location, name)) : done;
}

async function requestStop(api: TpuApi, location: Location, name: string): Promise<OutcomeResult> {
  const node = await api.getNode(location, name);
  if (!node.ok) return isNotFound(node) ? done : failed(node.error);
  return node.value.state === 'READY' ? outcomeOf(await api.stopNode(location, name)) : done;
}

/** The name exists: ours, because the reply to an earlier request was lost, or a foreign resource. */
async function outcomeOfExisting(api: TpuApi, location: Location, ref: AllocationRef): Promise<OutcomeResult> {
  if (ref.allocation.ownership === 'persistent') return done;
  const { name } = ref.allocation;
  if (tpuSpecOf(ref).mode === 'queued-resources') {
    const queued = await api.getQueuedResource(location, name);
    if (queued.ok) return outcomeOfOwner(ref, queuedOwner(queued.value), undefined, queued.value);
    if (queued.status !== 'NOT_FOUND') return unclear(queued);
  }
  const node = await api.getNode(location, nodeIds(ref)[0] ?? name);
  if (node.ok) return outcomeOfOwner(ref, nodeOwner(node.value), node.value, undefined);
  // It was deleted in between, or is not visible yet: the next observation decides.
  return unclear(node);
}

function outcomeOfOwner(
  ref: AllocationRef,
  owner: ResourceOwner | undefined,
  node: TpuNode | undefined,
  queued: QueuedResource | undefined,
): OutcomeResult {
  if (!isSameOwner(owner, ownerOf(ref))) return nameTaken(ref.allocation.name);
  if (!isLateTpu(ref, node, queued)) return done;
  return failed({ kind: 'internal', message: lateTpuText(ref), raw: 'ALREADY_EXISTS' });
}

function nameTaken(name: string): OutcomeResult {
  return refused({
    kind: 'invalid',
    message: `the name ${name} belongs to a resource that jobman did not create for this job`,
    raw: `${name} already exists`,
  });
}

/** The tier belongs to the queued resource, so the node's body has none. */
function queuedResourceBody(ref: AllocationRef, location: Location, sshKeys: string): object {
  const spec = tpuSpecOf(ref);
  const { pricing, reservation, validForMs } = spec;
  return {
    tpu: {
      nodeSpec: [
        {
          parent: locationName(location),
          ...nodeSelection(ref),
          node: allocationNodeBody(ref, sshKeys),
        },
      ],
    },
    ...(pricing === 'spot' ? { spot: {} } : {}),
    ...(pricing === 'preemptible' ? { bestEffort: {} } : {}),
    ...(reservation === undefined
      ? {}
      : { guaranteed: {}, reservationName: qualifiedName(reservation, `${locationName(location)}/reservations`) }),
    ...(validForMs === undefined ? {} : { queueingPolicy: { validUntilDuration: `${validForMs / second}s` } }),
  };
}

/** One node by name, or several by a name prefix; v2 and v2alpha1 have different keys for the latter. */
function nodeSelection(ref: AllocationRef): object {
  const nodeCount = sliceCount(ref);
  const { name } = ref.allocation;
  if (nodeCount === 1) return { nodeId: name };
  const params = { nodeCount, nodeIdPrefix: name };
  return queuedApiVersion(tpuSpecOf(ref)) === 'v2' ? { multisliceParams: params } : { multiNodeParams: params };
}

function allocationNodeBody(ref: AllocationRef, sshKeys: string): object {
  const { job, allocation } = ref;
  const spec = tpuSpecOf(ref);
  if (allocation.ownership === 'ephemeral') return nodeBody(spec, sshKeys, { labels: labelsOf(ownerOf(ref)) });
  // The labels of a shared TPU name no job, so that the TPU outlives the job.
  const shared = { ...spec, metadata: { owner: job.owner, ...spec.metadata } };
  return nodeBody(shared, sshKeys, { labels: sharedLabels(job.installation) });
}

function nodeBody(spec: TpuSpec, sshKeys: string, labels: object): object {
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
    // Without a scope the account's programs could do nothing; the account's roles limit them.
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

/** The API accepts either an accelerator type, or a generation and a topology. */
function acceleratorOf({ accelerator, topology }: TpuSpec): object {
  const generation = generationOf(accelerator);
  if (topology === undefined || generation === undefined) return { acceleratorType: accelerator };
  return { acceleratorConfig: { type: generation.configType, topology } };
}

/** Disks belong to Compute Engine, whose names contain `zones` instead of `locations`. */
function diskBody({ source, mode }: DataDisk, { project, zone }: TpuSpec): object {
  return {
    sourceDisk: qualifiedName(source, `projects/${project}/zones/${zone}/disks`),
    mode: mode === 'read-only' ? 'READ_ONLY' : 'READ_WRITE',
  };
}

function qualifiedName(name: string, collection: string): string {
  return name.includes('/') ? name : `${collection}/${name}`;
}

function locationName({ project, zone }: Location): string {
  return `projects/${project}/locations/${zone}`;
}

/** Here the API cannot name a reservation, so it uses any reservation of the project. */
function schedulingOf({ pricing, reservation }: TpuSpec): object {
  if (reservation !== undefined) return { reserved: true };
  return pricing === 'ondemand' ? {} : { [pricing]: true };
}

function queuedApiVersion({ pricing }: TpuSpec): ApiVersion {
  return pricing === 'preemptible' ? 'v2alpha1' : 'v2';
}

/** The same UUID for repetitions, another after an error: for an hour the cloud repeats its first answer to an id. */
function requestIdOf({ job, allocation }: AllocationRef): string {
  const input = [job.installation, job.id, allocation.ordinal, allocation.errorCount].join('/');
  const hex = createHash('sha256').update(input).digest('hex');
  // The digits 8 and a identify a custom UUID (RFC 9562).
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  );
}

export function releaseAllocation(api: TpuApi, ref: AllocationRef): Promise<OutcomeResult> {
  if (ref.allocation.ownership === 'persistent') return releasePersistent(api, ref);
  const target = {
    id: ref.allocation.name,
    nodeIds: nodeIds(ref),
    isQueued: tpuSpecOf(ref).mode === 'queued-resources',
  };
  return releaseEphemeral(api, locationOf(ref), target, ownerOf(ref));
}

export async function releaseOrphan(apiFor: (project: string) => TpuApi, orphan: Orphan): Promise<OutcomeResult> {
  const [, project, zone, collection, id] =
    /^projects\/([^/]+)\/locations\/([^/]+)\/(nodes|queuedResources)\/([^/]+)$/.exec(orphan.resource) ?? [];
  if (project === undefined || zone === undefined || id === undefined) {
    const message = `${orphan.resource} is not the name of a node or a queued resource`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  const owner: ResourceOwner = { installation: orphan.installation, job: orphan.job, allocation: orphan.allocation };
  const target = { id, nodeIds: [id], isQueued: collection === 'queuedResources' };
  return releaseEphemeral(apiFor(project), { project, zone }, target, owner);
}

async function releaseEphemeral(
  api: TpuApi,
  location: Location,
  target: { readonly id: string; readonly nodeIds: readonly string[]; readonly isQueued: boolean },
  owner: ResourceOwner,
): Promise<OutcomeResult> {
  if (target.isQueued) {
    const queued = await api.getQueuedResource(location, target.id);
    if (queued.ok && isSameOwner(queuedOwner(queued.value), owner))
      return deleteQueuedResource(api, location, queued.value);
    if (!queued.ok && !isNotFound(queued)) return failed(queued.error);
  }
  // A multislice without its queued resource may have some nodes left.
  for (const nodeId of target.nodeIds) {
    const node = await api.getNode(location, nodeId);
    if (!node.ok && !isNotFound(node)) return failed(node.error);
    if (!node.ok || !isSameOwner(nodeOwner(node.value), owner)) continue;
    const deleted = await deleteNode(api, location, node.value);
    if (deleted.kind !== 'done') return deleted;
  }
  return done;
}

/**
 * Deletes a persistent TPU only if the job is an operation that does so, or a rule of the job requests a new one
 * (re-apply), and the release is in the database; not if a user has recreated it since, and not if it was created for
 * one job.
 */
async function releasePersistent(api: TpuApi, ref: AllocationRef): Promise<OutcomeResult> {
  const { job, allocation } = ref;
  const operation = tpuSpecOf(ref).operation?.kind;
  const isReapplied = job.spec.recovery.rules.some(({ answer }) => answer.on === 'new');
  const mayDelete = isReapplied || operation === 'recreate' || operation === 'delete';
  if (!(mayDelete || isRestart(ref)) || allocation.releasedAt === null) {
    const message = `${allocation.name} is a persistent TPU, and no recovery rule of this job allows jobman to create it again`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  const location = locationOf(ref);
  if (isRestart(ref)) return requestStop(api, location, allocation.name);
  const node = await api.getNode(location, allocation.name);
  if (!node.ok) return isNotFound(node) ? releaseWithoutNode(api, location, ref) : failed(node.error);
  if (nodeOwner(node.value) !== undefined) {
    const message = `a jobman created ${allocation.name} for another job, so this job does not delete it`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  if (wasRecreated(allocation, node.value)) return done;
  if (Date.parse(node.value.createTime ?? '') > allocation.releasedAt) return done;
  const queuedId = resourceId(node.value.queuedResource ?? '');
  if (queuedId === '') return deleteNode(api, location, node.value);
  const queued = await api.getQueuedResource(location, queuedId);
  if (!queued.ok) return queued.status === 'NOT_FOUND' ? deleteNode(api, location, node.value) : failed(queued.error);
  if ((queued.value.tpu?.nodeSpec?.length ?? 0) > 1) {
    const message = `${allocation.name} is one of several TPUs of the queued resource ${queuedId}, which would all be deleted`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  return deleteQueuedResource(api, location, queued.value);
}

/** Only the queued resource, which may still wait, has the name of the persistent TPU. */
async function releaseWithoutNode(api: TpuApi, location: Location, ref: AllocationRef): Promise<OutcomeResult> {
  const { name, releasedAt } = ref.allocation;
  const queued = await api.getQueuedResource(location, name);
  if (!queued.ok) return isNotFound(queued) ? done : failed(queued.error);
  const isLater = Date.parse(queued.value.createTime ?? '') > (releasedAt ?? 0);
  if (isLater || queuedOwner(queued.value) !== undefined) return done;
  return deleteQueuedResource(api, location, queued.value);
}

/** With force, its nodes too. During provisioning the cloud accepts and drops it; the next check repeats it. */
function deleteQueuedResource(api: TpuApi, location: Location, queued: QueuedResource): Promise<OutcomeResult> {
  return runDelete(queued.state?.state, () => api.deleteQueuedResource(location, resourceId(queued.name)));
}

function deleteNode(api: TpuApi, location: Location, node: TpuNode): Promise<OutcomeResult> {
  return runDelete(node.state, () => api.deleteNode(location, resourceId(node.name)));
}

/** A finished job holds nothing, so a refused delete counts as a failure and is retried. */
async function runDelete(
  state: string | undefined,
  requestDelete: () => Promise<Answer<Operation>>,
): Promise<OutcomeResult> {
  if (state === 'DELETING') return done;
  const answer = await requestDelete();
  if (!answer.ok && answer.status === 'NOT_FOUND') return done;
  const outcome =
    answer.ok && answer.value.error !== undefined ? outcomeOfError(answer.value.error) : outcomeOf(answer);
  return outcome.kind === 'refused' ? { ...outcome, kind: 'failed' } : outcome;
}

const done: OutcomeResult = { kind: 'done' };

/** Errors after which a change may have been made: the cloud failed in the middle, or the reply was lost. */
const uncertainStatuses = ['NO_ANSWER', 'INTERNAL', 'UNKNOWN', 'DEADLINE_EXCEEDED', 'UNAVAILABLE'];

function outcomeOf(answer: Answer<unknown>): OutcomeResult {
  if (answer.ok) return done;
  if (uncertainStatuses.includes(answer.status)) return unclear(answer);
  return isPermanent(answer.error.kind) ? refused(answer.error) : failed(answer.error);
}

function outcomeOfError(body: StatusBody): OutcomeResult {
  const error = classifyError(body);
  return isPermanent(error.kind) ? refused(error) : failed(error);
}

function refused(error: CloudError): OutcomeResult {
  return { kind: 'refused', evidence: evidenceOf(error), error };
}

function failed(error: CloudError): OutcomeResult {
  return { kind: 'failed', evidence: evidenceOf(error), error };
}

function unclear({ error }: { readonly error: CloudError }): OutcomeResult {
  return { kind: 'unclear', evidence: evidenceOf(error) };
}

function evidenceOf({ message, raw }: CloudError): { readonly message: string; readonly raw: string } {
  return { message, raw };
}
