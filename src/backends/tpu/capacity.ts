// Cloud TPU as a source of capacity: looks in batches, asks, lets go, sweeps. It decides nothing about jobs.

import { known, unknown } from '../../core/observation.ts';
import type { AllocationSeen, Fact, OutcomeResult } from '../../core/observation.ts';

import type { TpuSpec } from '../../core/spec.ts';
import type { AllocationRef, CapacityPort, Clock, Stray } from '../../app/ports.ts';
import type { Answer, Operation, Place, QueuedResource, TpuApi, TpuNode } from './api.ts';
import { classify, isPermanent } from './errors.ts';
import type { StatusBody } from './errors.ts';
import { allocationSeen, askedNode, isSame, labelsOf, ownerOf } from './look.ts';
import type { Ownership } from './look.ts';
import { pricePerHour } from './prices.ts';

export interface TpuCapacityOptions {
  /** The API that serves a project: Google's, a server that follows it, or the built-in cloud. */
  readonly apiFor: (project: string) => TpuApi;
  readonly clock: Clock;
  /** A line of the node's `ssh-keys` metadata (`USER:TYPE KEY COMMENT`) which lets jobman log in. */
  readonly sshKeyLine: (spec: TpuSpec) => Promise<string>;
}

/** The adapter to Cloud TPU, with the contract of CapacityPort. */
export function createTpuCapacity(options: TpuCapacityOptions): CapacityPort {
  const { apiFor, clock } = options;

  /** Everything of one zone in one or two lists, however many jobs have something there. */
  async function lookAtPlace(place: Place, refs: readonly AllocationRef[]): Promise<readonly Fact<AllocationSeen>[]> {
    const api = apiFor(place.project);
    const since = clock.now();
    const wantsQueue = refs.some((ref) => tpuOf(ref).mode === 'queued-resources');
    // The queue first: a node that appears between the two lists is then seen, and one that goes is seen going.
    const queue = wantsQueue ? await api.listQueuedResources(place) : undefined;
    const nodes = await api.listNodes(place);
    const failed = !nodes.ok ? nodes : queue !== undefined && !queue.ok ? queue : undefined;
    if (failed !== undefined) {
      const fact = unknown(failed.error.raw, since);
      return refs.map(() => fact);
    }
    const unreachable = [
      ...(nodes.ok ? nodes.value.unreachable : []),
      ...(queue?.ok === true ? queue.value.unreachable : []),
    ];
    if (unreachable.length > 0) {
      const fact = unknown(
        `the list of ${place.zone} is not whole: ${unreachable.join(', ')} could not be asked`,
        since,
      );
      return refs.map(() => fact);
    }
    const nodesById = new Map((nodes.ok ? nodes.value.items : []).map((node) => [lastPart(node.name), node]));
    const queueById = new Map((queue?.ok === true ? queue.value.items : []).map((item) => [lastPart(item.name), item]));
    return Promise.all(refs.map((ref) => lookAtOne(place, ref, nodesById, queueById)));
  }

  async function lookAtOne(
    place: Place,
    ref: AllocationRef,
    nodes: ReadonlyMap<string, TpuNode>,
    queue: ReadonlyMap<string, QueuedResource>,
  ): Promise<Fact<AllocationSeen>> {
    const api = apiFor(place.project);
    const spec = tpuOf(ref);
    const id = ref.allocation.name;
    let node = nodes.get(id);
    let queued = spec.mode === 'queued-resources' ? queue.get(id) : undefined;
    let createError: StatusBody | undefined;
    // A list that misses something is asked again by name: lists may be partial, and "absent" has consequences.
    if (node === undefined && queued === undefined) {
      const again = await api.getNode(place, id);
      if (again.ok) node = again.value;
      else if (again.status !== 'NOT_FOUND') return unknown(again.error.raw, clock.now());
      if (spec.mode === 'queued-resources') {
        const queuedAgain = await api.getQueuedResource(place, id);
        if (queuedAgain.ok) queued = queuedAgain.value;
        else if (queuedAgain.status !== 'NOT_FOUND') return unknown(queuedAgain.error.raw, clock.now());
      }
      if (
        node === undefined &&
        queued === undefined &&
        ref.allocation.requestedAt !== null &&
        ref.allocation.readyAt === null
      ) {
        createError = await createErrorOf(place, ref);
      }
    }
    return known(allocationSeen(spec, ref.allocation, ownershipOf(ref), { node, queued, createError }), clock.now());
  }

  /** How the newest create of that name ended, when it failed. The cloud keeps operations for days. */
  async function createErrorOf(place: Place, ref: AllocationRef): Promise<StatusBody | undefined> {
    const operations = await apiFor(place.project).listOperations(place);
    if (!operations.ok) return undefined;
    // The clocks of the cloud and of this machine differ; a name is used for one request only, so a minute does no harm.
    const asked = (ref.allocation.requestedAt ?? 0) - 60_000;
    const lastFailure = ref.allocation.lastFailure?.at ?? 0;
    let newest: { readonly at: number; readonly operation: Operation } | undefined;
    for (const operation of operations.value.items) {
      if (lastPart(operation.metadata?.target ?? '') !== ref.allocation.name || operation.metadata?.verb !== 'create')
        continue;
      const at = Date.parse(operation.metadata?.createTime ?? '');
      if (at >= asked && (newest === undefined || at > newest.at)) newest = { at, operation };
    }
    if (newest === undefined || newest.operation.done !== true) return undefined;
    // A failure that the record has answered already is not told again: the next request is under way or due.
    return newest.at > lastFailure ? newest.operation.error : undefined;
  }

  return {
    backend: 'tpu',

    async look(refs) {
      const byPlace = new Map<string, { place: Place; refs: AllocationRef[] }>();
      for (const ref of refs) {
        const place = placeOf(tpuOf(ref));
        const key = `${place.project}/${place.zone}`;
        const group = byPlace.get(key) ?? { place, refs: [] };
        group.refs.push(ref);
        byPlace.set(key, group);
      }
      const facts = new Map<AllocationRef, Fact<AllocationSeen>>();
      await Promise.all(
        [...byPlace.values()].map(async ({ place, refs: group }) => {
          const seen = await lookAtPlace(place, group);
          group.forEach((ref, index) => facts.set(ref, seen[index] ?? unknown('not looked at', clock.now())));
        }),
      );
      return refs.map((ref) => facts.get(ref) ?? unknown('not looked at', clock.now()));
    },

    async request(ref) {
      const spec = tpuOf(ref);
      const place = placeOf(spec);
      const api = apiFor(place.project);
      const id = ref.allocation.name;
      const node = nodeBody(spec, ownershipOf(ref), await options.sshKeyLine(spec));
      const answer =
        spec.mode === 'tpu-vm'
          ? await api.createNode(place, id, { ...node, schedulingConfig: schedulingOf(spec) })
          : await api.createQueuedResource(
              place,
              id,
              queuedBody(spec, place, id, node),
              spec.pricing === 'preemptible' ? 'v2alpha1' : 'v2',
            );
      if (!answer.ok && answer.status === 'ALREADY_EXISTS') return existing(place, ref);
      if (answer.ok && answer.value.error !== undefined) return refusal(answer.value.error);
      return outcomeOf(answer);
    },

    async release(ref) {
      const spec = tpuOf(ref);
      const place = placeOf(spec);
      return releaseByName(place, ref.allocation.name, ownershipOf(ref), spec.mode === 'queued-resources');
    },

    async sweep(places) {
      const strays: Stray[] = [];
      const seen = new Set<string>();
      for (const ref of places) {
        const place = placeOf(tpuOf(ref));
        const key = `${place.project}/${place.zone}`;
        if (seen.has(key)) continue;
        seen.add(key);
        const api = apiFor(place.project);
        const since = clock.now();
        const queue = await api.listQueuedResources(place);
        if (!queue.ok) return unknown(queue.error.raw, since);
        const nodes = await api.listNodes(place);
        if (!nodes.ok) return unknown(nodes.error.raw, since);
        if (queue.value.unreachable.length + nodes.value.unreachable.length > 0)
          return unknown(`${key} was not listed whole`, since);
        for (const item of queue.value.items) {
          const owner = ownerOf(askedNode(item));
          if (owner?.installation === ref.job.installation) strays.push(strayOf(item.name, owner, item.state?.state));
        }
        for (const node of nodes.value.items) {
          const owner = ownerOf(node);
          // A node of a queued resource goes with it.
          if (owner?.installation === ref.job.installation && node.queuedResource === undefined) {
            strays.push(strayOf(node.name, owner, node.state));
          }
        }
      }
      return known(strays, clock.now());
    },

    async releaseStray(stray) {
      const match = /^projects\/([^/]+)\/locations\/([^/]+)\/(nodes|queuedResources)\/([^/]+)$/.exec(stray.resource);
      if (match === null)
        return {
          kind: 'refused',
          evidence: { detail: `${stray.resource} is not the name of a node or queued resource` },
        };
      const [, project = '', zone = '', collection, id = ''] = match;
      const owner = { installation: stray.installation, job: stray.job, allocation: stray.allocation };
      return releaseByName({ project, zone }, id, owner, collection === 'queuedResources');
    },

    pricePerHour: (spec) => (spec.capacity.kind === 'tpu' ? pricePerHour(spec.capacity) : null),
  };

  /** Something of that name is there already: ours is `done` (the reply to an earlier request was lost), another's is refused. */
  async function existing(place: Place, ref: AllocationRef): Promise<OutcomeResult> {
    const api = apiFor(place.project);
    const queuedMode = tpuOf(ref).mode === 'queued-resources';
    const owner = ownershipOf(ref);
    if (queuedMode) {
      const queued = await api.getQueuedResource(place, ref.allocation.name);
      if (queued.ok)
        return isSame(ownerOf(askedNode(queued.value)), owner) ? { kind: 'done' } : foreign(ref.allocation.name);
    }
    const node = await api.getNode(place, ref.allocation.name);
    if (node.ok) return isSame(ownerOf(node.value), owner) ? { kind: 'done' } : foreign(ref.allocation.name);
    // It went in between, or could not be read: the next look tells.
    return {
      kind: 'unclear',
      evidence: { detail: 'the name was taken, and then could not be read', raw: node.error.raw },
    };
  }

  /** Deletes the queued resource and the node of that name, each only when its labels say that it is this allocation. */
  async function releaseByName(
    place: Place,
    id: string,
    owner: Ownership,
    queuedMode: boolean,
  ): Promise<OutcomeResult> {
    const api = apiFor(place.project);
    if (queuedMode) {
      const queued = await api.getQueuedResource(place, id);
      if (queued.ok) {
        if (!isSame(ownerOf(askedNode(queued.value)), owner)) return foreign(id);
        if (queued.value.state?.state === 'DELETING') return { kind: 'done' };
        // With force the nodes go first; a refusal while it is provisioning comes back in the operation, and the next look sees it still there.
        return deletion(await api.deleteQueuedResource(place, id));
      }
      if (queued.status !== 'NOT_FOUND') return outcomeOf(queued);
    }
    const node = await api.getNode(place, id);
    if (!node.ok) return node.status === 'NOT_FOUND' ? { kind: 'done' } : outcomeOf(node);
    if (!isSame(ownerOf(node.value), owner)) return foreign(id);
    if (node.value.state === 'DELETING') return { kind: 'done' };
    return deletion(await api.deleteNode(place, id));
  }

  function deletion(answer: Answer<Operation>): OutcomeResult {
    if (!answer.ok && answer.status === 'NOT_FOUND') return { kind: 'done' };
    // A release is never given up: whatever was refused now is asked again, since settled means empty.
    const result = outcomeOf(answer);
    return result.kind === 'refused' ? { ...result, kind: 'failed' } : result;
  }
}

function tpuOf(ref: AllocationRef): TpuSpec {
  const capacity = ref.job.spec.capacity;
  if (capacity.kind !== 'tpu')
    throw new Error(`job ${ref.job.id} was handed to the TPU backend but asks for ${capacity.kind}`);
  return capacity;
}

function placeOf(spec: TpuSpec): Place {
  return { project: spec.project, zone: spec.zone };
}

function ownershipOf(ref: AllocationRef): Ownership {
  return { installation: ref.job.installation, job: ref.job.id, allocation: ref.allocation.ordinal };
}

function lastPart(name: string): string {
  return name.slice(name.lastIndexOf('/') + 1);
}

function strayOf(resource: string, owner: Ownership, state: string | undefined): Stray {
  return {
    backend: 'tpu',
    resource,
    installation: owner.installation,
    job: owner.job,
    allocation: owner.allocation,
    state: state ?? 'unknown',
  };
}

function foreign(id: string): OutcomeResult {
  return {
    kind: 'refused',
    evidence: { detail: `${id} exists and was not made for this allocation; it is left alone` },
    error: { kind: 'invalid', message: 'the name is taken by something that is not ours', raw: `${id} already exists` },
  };
}

function refusal(body: StatusBody): OutcomeResult {
  return outcomeOf({ ok: false, status: '', error: classify(body) });
}

function outcomeOf(answer: Answer<unknown>): OutcomeResult {
  if (answer.ok) return { kind: 'done' };
  const evidence = { detail: answer.error.message, raw: answer.error.raw };
  if (answer.status === 'NO_ANSWER') return { kind: 'unclear', evidence };
  return isPermanent(answer.error.kind)
    ? { kind: 'refused', evidence, error: answer.error }
    : { kind: 'failed', evidence, error: answer.error };
}

/** The node as it is asked for, the same in both modes but for the tier. */
function nodeBody(spec: TpuSpec, owner: Ownership, sshKeyLine: string): Record<string, unknown> {
  const sshKeys = [spec.metadata['ssh-keys'], sshKeyLine]
    .filter((line) => line !== undefined && line !== '')
    .join('\n');
  return {
    acceleratorType: spec.accelerator,
    runtimeVersion: spec.runtimeVersion,
    networkConfig: { enableExternalIps: true },
    labels: labelsOf(owner),
    ...(spec.networkTags.length === 0 ? {} : { tags: spec.networkTags }),
    metadata: {
      ...spec.metadata,
      ...(spec.startupScript === null ? {} : { 'startup-script': spec.startupScript }),
      'ssh-keys': sshKeys,
    },
  };
}

function schedulingOf(spec: TpuSpec): Record<string, boolean> {
  if (spec.pricing === 'spot') return { spot: true };
  if (spec.pricing === 'preemptible') return { preemptible: true };
  return {};
}

function queuedBody(spec: TpuSpec, place: Place, id: string, node: Record<string, unknown>): object {
  return {
    tpu: { nodeSpec: [{ parent: `projects/${place.project}/locations/${place.zone}`, nodeId: id, node }] },
    ...(spec.pricing === 'spot' ? { spot: {} } : {}),
    ...(spec.pricing === 'preemptible' ? { bestEffort: {} } : {}),
  };
}
