// Cloud TPU as a source of capacity: it looks, requests, releases and finds orphans. It decides nothing about jobs and
// remembers nothing between two calls. A look is one or two list calls per zone, however many jobs have something there. A
// resource is asked for by name only if it should be in the lists and is not. An unanswered question makes the fact unknown, never
// absent. A request that is repeated equals one request, since the name is the allocation's own.
// A release reads first what is there, so that its labels decide and not its name.

import { createHash } from 'node:crypto';
import { textOf } from '../../app/errors.ts';
import { fanOut } from '../../app/fan-out.ts';
import type { AllocationRef, CapacityPort, Clock, Stray } from '../../app/ports.ts';
import { generationOf } from '../../catalogue/accelerators.ts';
import { pricePerHour } from '../../catalogue/prices.ts';
import { isPermanent } from '../../core/allocate.ts';
import type { CloudError } from '../../core/job.ts';
import {
  known,
  unknown,
  type AllocationSeen,
  type Fact,
  type OutcomeResult,
  type Unknown,
} from '../../core/observation.ts';
import type { DataDisk, TpuSpec } from '../../core/spec.ts';
import { minute, second, type Duration, type Instant } from '../../core/time.ts';
import {
  classify,
  idOf,
  isNotThere,
  statusName,
  type Answer,
  type ApiVersion,
  type Listing,
  type Operation,
  type Place,
  type QueuedResource,
  type StatusBody,
  type TpuApi,
  type TpuNode,
} from './api.ts';
import { sweepPlaces } from './inventory.ts';
import {
  allocationSeen,
  asOne,
  byPlace,
  creationOf,
  isAnother,
  isSameOwner,
  labelsOf,
  nodeIds,
  nodeOwner,
  ownerOf,
  placeOf,
  queuedOwner,
  sharedLabels,
  sliceCount,
  tpuOf,
  type Creation,
  type Owner,
  type Target,
} from './meaning.ts';

export interface TpuCapacityOptions {
  /** The API that serves a project: Google's, a server that follows it, or the built-in cloud. */
  readonly apiFor: (project: string) => TpuApi;
  /** The same without starting anything: for the sweep, which asks about what nobody should miss. `apiFor` when absent. */
  readonly runningApiFor?: (project: string) => TpuApi;
  readonly clock: Clock;
  /** Lines of the node's `ssh-keys` metadata (`USER:TYPE KEY COMMENT`) which let jobman log in; see `ssh-keys.ts`. */
  readonly sshKeyLines: (spec: TpuSpec) => Promise<string>;
}

export function createTpuCapacity(options: TpuCapacityOptions): CapacityPort {
  const { apiFor, sshKeyLines } = options;
  return {
    backend: 'tpu',
    look: (refs) => lookAtAll(refs, options),
    async request(ref) {
      let sshKeys: string;
      try {
        sshKeys = await sshKeyLines(tpuOf(ref));
      } catch (error) {
        // Without a way to log in the machine would only cost money.
        const raw = textOf(error);
        return failed({ kind: 'internal', message: `the keys for logging in cannot be read: ${raw}`, raw });
      }
      return requestAllocation(apiFor(placeOf(ref).project), ref, sshKeys);
    },
    release: (ref) => releaseAllocation(apiFor(placeOf(ref).project), ref),
    sweep: (refs) => sweepPlaces(refs, { clock: options.clock, apiFor: options.runningApiFor ?? apiFor }),
    releaseStray: (stray) => releaseFound(apiFor, stray),
    pricePerHour: ({ capacity }) => (capacity.kind === 'tpu' ? pricePerHour(capacity) : null),
  };
}

/** Single questions under way at once in one zone. */
const questionsAtOnce = 16;
/** A node is made in five minutes at most; one that takes longer is asked about at its create. */
const creatingLongest: Duration = 15 * minute;

const notLooked = 'it was not looked at';

type Listed<T> =
  | { readonly ok: true; readonly items: ReadonlyMap<string, T> }
  | { readonly ok: false; readonly unknown: Unknown };

/** Looks at all of them, zone by zone, side by side. The answer is in the order of the question. */
export async function lookAtAll(
  refs: readonly AllocationRef[],
  options: { readonly apiFor: (project: string) => TpuApi; readonly clock: Clock },
): Promise<readonly Fact<AllocationSeen>[]> {
  const facts = new Map<AllocationRef, Fact<AllocationSeen>>();
  await Promise.all(
    byPlace(refs).map(async ({ place, refs: group }) => {
      const seen = await lookAtPlace(options.apiFor(place.project), place, group, options.clock);
      for (const [index, ref] of group.entries())
        facts.set(ref, seen[index] ?? unknown(notLooked, options.clock.now()));
    }),
  );
  return refs.map((ref) => facts.get(ref) ?? unknown(notLooked, options.clock.now()));
}

async function lookAtPlace(
  api: TpuApi,
  place: Place,
  refs: readonly AllocationRef[],
  clock: Clock,
): Promise<readonly Fact<AllocationSeen>[]> {
  const since = clock.now();
  const isQueueAsked = refs.some((ref) => tpuOf(ref).mode === 'queued-resources');
  // The queue first: a node that appears between the two lists is then seen, and one that goes is seen going.
  const queue: Listed<QueuedResource> = isQueueAsked
    ? listed(await api.listQueuedResources(place), since)
    : { ok: true, items: new Map() };
  const nodes = listed(await api.listNodes(place), since);
  // Asked for at most once a look, and only by an allocation that was accepted and cannot be seen.
  let operations: Promise<Answer<Listing<Operation>>> | undefined;
  const asker: Asker = { api, place, since, operations: () => (operations ??= api.listOperations(place)) };
  return fanOut(refs, questionsAtOnce, async (ref) => {
    if (!nodes.ok) return nodes.unknown;
    const isQueued = tpuOf(ref).mode === 'queued-resources';
    if (isQueued && !queue.ok) return queue.unknown;
    const { name } = ref.allocation;
    const found = nodeIds(ref).map((id) => nodes.items.get(id));
    const node = asOne(found);
    // A standing TPU may be the work of a queued resource with a name of its own.
    const queuedId = ref.allocation.ownership === 'standing' ? idOf(node?.queuedResource ?? name) : name;
    const queued = isQueued && queue.ok ? queue.items.get(queuedId) : undefined;
    return lookAtOne(asker, ref, { found, queued });
  });
}

interface Asker {
  readonly api: TpuApi;
  readonly place: Place;
  readonly since: Instant;
  readonly operations: () => Promise<Answer<Listing<Operation>>>;
}

async function lookAtOne(
  asker: Asker,
  ref: AllocationRef,
  inLists: { readonly found: readonly (TpuNode | undefined)[]; readonly queued: QueuedResource | undefined },
): Promise<Fact<AllocationSeen>> {
  const { since } = asker;
  let node = asOne(inLists.found);
  let { queued } = inLists;
  const isMissing = inLists.found.every((one) => one === undefined) && queued === undefined;
  let creation: Creation | undefined;
  if (isBeingMade(ref) && (isMissing || isLate(ref, node, since))) {
    const operations = await asker.operations();
    if (!operations.ok) return unanswered(operations.error, since);
    creation = creationOf(operations.value.items, targetOf(ref), ref.allocation);
  }
  // Lists may be partial, and "absent" has consequences. A create that is pending or failed is a second witness by itself.
  const isNodeDue = queued?.state?.state === 'ACTIVE';
  const isNodeAsked = isMissing ? isAwaited(ref) && creation === undefined : node === undefined && isNodeDue;
  if (isNodeAsked) {
    const found = [...inLists.found];
    for (const [index, id] of nodeIds(ref).entries()) {
      if (found[index] !== undefined) continue;
      const again = await asker.api.getNode(asker.place, id);
      if (again.ok) found[index] = again.value;
      else if (again.status !== 'NOT_FOUND') return unanswered(again.error, since);
    }
    node = asOne(found);
  }
  if (isNodeAsked && isMissing && tpuOf(ref).mode === 'queued-resources') {
    const again = await asker.api.getQueuedResource(asker.place, ref.allocation.name);
    if (again.ok) queued = again.value;
    else if (again.status !== 'NOT_FOUND') return unanswered(again.error, since);
  }
  return known(allocationSeen(ref, { node, queued, creation }), since);
}

function listed<T extends { readonly name: string }>(answer: Answer<Listing<T>>, since: Instant): Listed<T> {
  if (!answer.ok) return { ok: false, unknown: unanswered(answer.error, since) };
  const { items, unreachable } = answer.value;
  if (unreachable.length > 0) {
    const reason = `the list is not whole: ${unreachable.join(', ')} could not be asked`;
    return { ok: false, unknown: unknown(reason, since) };
  }
  return { ok: true, items: new Map(items.map((item) => [idOf(item.name), item])) };
}

/** A refusal travels in the unknown fact: what the cloud does not show is not absent. */
function unanswered({ kind, raw, noLogin }: CloudError, since: Instant): Unknown {
  const refused = isPermanent(kind) && { refused: kind };
  return { ...unknown(raw, since), ...refused, ...(noLogin === true && { noLogin }) };
}

/**
 * True while its absence would mean something: somebody has confirmed a request or release, or it was there before.
 * An unconfirmed request is repeated in any case, and that finds what the list missed.
 */
function isAwaited({ allocation }: AllocationRef): boolean {
  if (allocation.requestedAt === null || allocation.goneAt !== null) return false;
  return allocation.acceptedAt !== null || allocation.ownership === 'standing';
}

function isBeingMade({ allocation }: AllocationRef): boolean {
  return allocation.acceptedAt !== null && allocation.readyAt === null && allocation.releasedAt === null;
}

function isLate({ allocation }: AllocationRef, node: TpuNode | undefined, now: Instant): boolean {
  return node?.state === 'CREATING' && now - (allocation.acceptedAt ?? now) > creatingLongest;
}

function targetOf(ref: AllocationRef): Target {
  return tpuOf(ref).mode === 'tpu-vm' ? `nodes/${ref.allocation.name}` : `queuedResources/${ref.allocation.name}`;
}

export async function requestAllocation(api: TpuApi, ref: AllocationRef, sshKeys: string): Promise<OutcomeResult> {
  const place = placeOf(ref);
  const { name } = ref.allocation;
  const answer =
    tpuOf(ref).mode === 'tpu-vm'
      ? await api.createNode(place, name, { ...commonBody(ref, sshKeys), schedulingConfig: schedulingOf(tpuOf(ref)) })
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

export function releaseAllocation(api: TpuApi, ref: AllocationRef): Promise<OutcomeResult> {
  if (ref.allocation.ownership === 'standing') return releaseStanding(api, ref);
  const what = { id: ref.allocation.name, nodeIds: nodeIds(ref), isQueued: tpuOf(ref).mode === 'queued-resources' };
  return releaseOwned(api, placeOf(ref), what, ownerOf(ref));
}

export async function releaseFound(apiFor: (project: string) => TpuApi, stray: Stray): Promise<OutcomeResult> {
  const [, project, zone, collection, id] =
    /^projects\/([^/]+)\/locations\/([^/]+)\/(nodes|queuedResources)\/([^/]+)$/.exec(stray.resource) ?? [];
  if (project === undefined || zone === undefined || id === undefined) {
    const message = `${stray.resource} is not the name of a node or a queued resource`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  const owner: Owner = { installation: stray.installation, job: stray.job, allocation: stray.allocation };
  const what = { id, nodeIds: [id], isQueued: collection === 'queuedResources' };
  return releaseOwned(apiFor(project), { project, zone }, what, owner);
}

async function releaseOwned(
  api: TpuApi,
  place: Place,
  {
    id,
    nodeIds: ids,
    isQueued,
  }: { readonly id: string; readonly nodeIds: readonly string[]; readonly isQueued: boolean },
  owner: Owner,
): Promise<OutcomeResult> {
  if (isQueued) {
    const queued = await api.getQueuedResource(place, id);
    if (queued.ok && isSameOwner(queuedOwner(queued.value), owner)) return deleteQueued(api, place, queued.value);
    if (!queued.ok && !isNotThere(queued)) return failed(queued.error);
  }
  // Of a multislice whose queued resource has gone there may be one node left, or several.
  for (const nodeId of ids) {
    const node = await api.getNode(place, nodeId);
    if (!node.ok && !isNotThere(node)) return failed(node.error);
    if (!node.ok || !isSameOwner(nodeOwner(node.value), owner)) continue;
    const deleted = await deleteNode(api, place, node.value);
    if (deleted.kind !== 'done') return deleted;
  }
  return done;
}

/**
 * A standing TPU belongs to all who use it. It is deleted in one case only: the job's own rules say that a new one is to
 * be made (a re-apply), and the record has committed to that. Even then not when somebody has made it anew since, and
 * not when it is the owned allocation of some job.
 */
async function releaseStanding(api: TpuApi, ref: AllocationRef): Promise<OutcomeResult> {
  const { job, allocation } = ref;
  const isReapplied = job.spec.recovery.rules.some(({ answer }) => answer.on === 'new');
  if (!isReapplied || allocation.releasedAt === null) {
    const message = `${allocation.name} is a standing TPU, and no rule of this job says that it may be made anew`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  const place = placeOf(ref);
  const node = await api.getNode(place, allocation.name);
  if (!node.ok) return node.status === 'NOT_FOUND' ? done : failed(node.error);
  if (nodeOwner(node.value) !== undefined) {
    const message = `${allocation.name} was made by a jobman for one job and is no standing TPU; it is left alone`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  // It is the next one already: another than the job had, or made after it was to go.
  if (isAnother(allocation, node.value)) return done;
  if (Date.parse(node.value.createTime ?? '') > allocation.releasedAt) return done;
  const queuedId = idOf(node.value.queuedResource ?? '');
  if (queuedId === '') return deleteNode(api, place, node.value);
  const queued = await api.getQueuedResource(place, queuedId);
  if (!queued.ok) return queued.status === 'NOT_FOUND' ? deleteNode(api, place, node.value) : failed(queued.error);
  if ((queued.value.tpu?.nodeSpec?.length ?? 0) > 1) {
    const message = `${allocation.name} is one of several TPUs of the queued resource ${queuedId}, which would all go with it`;
    return refused({ kind: 'invalid', message, raw: message });
  }
  return deleteQueued(api, place, queued.value);
}

/**
 * With force its nodes go first. While it is being provisioned the cloud takes the order and gives it up two seconds later,
 * in the operation; a look then finds it as before, and it is asked again.
 */
function deleteQueued(api: TpuApi, place: Place, queued: QueuedResource): Promise<OutcomeResult> {
  return deletion(queued.state?.state, () => api.deleteQueuedResource(place, idOf(queued.name)));
}

function deleteNode(api: TpuApi, place: Place, node: TpuNode): Promise<OutcomeResult> {
  return deletion(node.state, () => api.deleteNode(place, idOf(node.name)));
}

/** A release is never given up: a finished job holds nothing, so a refusal counts as a failure that is tried again. */
async function deletion(state: string | undefined, order: () => Promise<Answer<Operation>>): Promise<OutcomeResult> {
  if (state === 'DELETING') return done;
  const answer = await order();
  if (!answer.ok && answer.status === 'NOT_FOUND') return done;
  const outcome = answer.ok && answer.value.error !== undefined ? refusedBy(answer.value.error) : outcomeOf(answer);
  return outcome.kind === 'refused' ? { ...outcome, kind: 'failed' } : outcome;
}

const done: OutcomeResult = { kind: 'done' };

/** Errors after which a change may have been made all the same: the cloud failed while it was at it, or the reply was lost. */
const mayHaveHappened = ['NO_ANSWER', 'INTERNAL', 'UNKNOWN', 'DEADLINE_EXCEEDED', 'UNAVAILABLE'];

export function outcomeOf(answer: Answer<unknown>): OutcomeResult {
  if (answer.ok) return done;
  if (mayHaveHappened.includes(answer.status)) return couldNotTell(answer);
  return isPermanent(answer.error.kind) ? refused(answer.error) : failed(answer.error);
}

/** Of an operation that has ended with this error: the cloud itself says that it did not happen. */
function refusedBy(body: StatusBody): OutcomeResult {
  const error = classify(body);
  return isPermanent(error.kind) ? refused(error) : failed(error);
}

function refused(error: CloudError): OutcomeResult {
  return { kind: 'refused', evidence: evidenceOf(error), error };
}

function failed(error: CloudError): OutcomeResult {
  return { kind: 'failed', evidence: evidenceOf(error), error };
}

function couldNotTell({ error }: { readonly error: CloudError }): OutcomeResult {
  return { kind: 'unclear', evidence: evidenceOf(error) };
}

function evidenceOf({ message, raw }: CloudError): { readonly detail: string; readonly raw: string } {
  return { detail: message, raw };
}
