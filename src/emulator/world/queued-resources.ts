// Queued resources: requests that wait for capacity, and what becomes of them. Facts: cloud-tpu.md section 4.

import type { Instant } from '../../core/time.ts';
import { regionOf } from '../../catalogue/zones.ts';
import { badField, type RpcStatus, texts } from '../wire/errors.ts';
import { durationMs, timestampText } from '../wire/json.ts';
import { type ApiVersion, type Data, messageOf, textOf } from '../wire/messages.ts';
import { takes } from './options.ts';
import { checkMaintainable, restartNode } from './maintenance.ts';
import { type Asked, checkNodeId, completeNode } from './node-requests.ts';
import { addNode, changeNode, maintenanceData, nodeName, removeNode } from './nodes.ts';
import { addressesExceeded, provisioningFailure, quotaExceeded, rateExceeded } from './limits.ts';
import { beginOperation, finishOperation } from './operations.ts';
import type { NodeRecord, OperationRecord, QueuedRecord, QueuedState } from './records.ts';
import { lookEvery, type Place, placeOf, slowness, strikes } from './temper.ts';
import type { World } from './world.ts';

/** POST queuedResources: the operation ends when the request is accepted, not when it has capacity. */
export function createQueued(world: World, where: Asked, queuedId: string | undefined, body: Data): OperationRecord {
  if (queuedId === undefined || !/^[A-Za-z0-9_.~+%-]+$/.test(queuedId)) {
    throw badField('queued_resource_id', `Invalid value at 'queued_resource_id', ${JSON.stringify(queuedId ?? '')}`);
  }
  const name = queuedName(where, queuedId);
  const tiers = ['spot', 'guaranteed', 'bestEffort'].filter((tier) => body[tier] !== undefined);
  if (tiers.length > 1) throw badField('tier', `Only one of the tiers ${tiers.join(', ')} may be set.`);
  const limits = Object.keys(messageOf(body, 'queueingPolicy'));
  if (limits.length > 1)
    throw badField('queued_resource.queueing_policy', `Only one of ${limits.join(', ')} may be set.`);
  checkRunDuration(body);
  const nodes = nodesAsked(world, where, queuedId, body);
  if (world.queued.get(name) !== undefined) throw texts.alreadyExists(name);
  for (const { nodeId } of nodes) {
    if (world.nodes.get(nodeName(where, nodeId)) !== undefined) throw texts.alreadyExists(nodeName(where, nodeId));
  }
  const place = placeOfRequest(where, name, nodes);
  const soon = rateExceeded(world, place);
  if (soon !== undefined) throw soon;
  const over = quotaExceeded(world, place, nodes.length);
  if (over !== undefined) throw texts.queuedQuota(over.name, over.limit, regionOf(where.zone));

  const operation = beginOperation(world, { ...where, target: name, verb: 'create' });
  if (body['provisioningModel'] === 'FLEX_START' && !flexGenerations.includes(place.generation)) {
    const error = texts.flexNotOffered(place.type, where.zone).rpc();
    world.later(takes(world, 'queued-refuse'), { kind: 'operation-failed', operation: operation.name, error });
    return operation;
  }
  const { state: _state, name: _name, createTime: _createTime, tpu: _tpu, ...asked } = body;
  const queued: QueuedRecord = {
    ...where,
    name,
    queuedId,
    uid: world.chance.hex(16),
    createTime: world.now(),
    asked,
    nodes,
    multislice: nodes.length > 1,
    state: 'CREATING',
    initiator: 'SERVICE',
    error: null,
    ...validity(world.now(), messageOf(body, 'queueingPolicy')),
  };
  world.queued.put(name, queued);
  world.later(takes(world, 'queued-accept'), {
    kind: 'queued-accepted',
    name,
    uid: queued.uid,
    operation: operation.name,
  });
  return operation;
}

/** Where flex-start is sold: the generations that its documents name. */
const flexGenerations: readonly string[] = ['v5e', 'v5p', 'v6e'];
const runLongest = 7 * 24 * 3_600_000;

/** flex-start is for a limited time, of seven days at most. Throws CloudError. */
function checkRunDuration(body: Data): void {
  const length = textOf(messageOf(body, 'runDuration'), 'maxRunDuration');
  if (body['provisioningModel'] === 'FLEX_START' && length === '') {
    throw badField('queued_resource.run_duration', 'FLEX_START needs a run_duration.max_run_duration.');
  }
  if (length !== '' && durationMs(length) > runLongest) {
    throw badField('queued_resource.run_duration', 'The max_run_duration must be at most 604800s.');
  }
}

/** The full name of a queued resource. */
function queuedName(where: Asked, queuedId: string): string {
  return `projects/${where.project}/locations/${where.zone}/queuedResources/${queuedId}`;
}

/** The nodes that a request asks for, one entry each, completed. */
function nodesAsked(world: World, where: Asked, queuedId: string, body: Data): { nodeId: string; node: Data }[] {
  const specs = (messageOf(body, 'tpu')['nodeSpec'] ?? []) as Data[];
  if (specs.length === 0) throw badField('queued_resource.tpu.node_spec', 'At least one node_spec must be given.');
  return specs.flatMap((spec) => {
    const parent = `projects/${where.project}/locations/${where.zone}`;
    const asked = textOf(spec, 'parent');
    if (asked !== '' && asked !== parent) {
      throw badField(
        'queued_resource.tpu.node_spec.parent',
        `The parent of a node, '${asked}', must be that of the queued resource, '${parent}'.`,
      );
    }
    const given = messageOf(spec, 'node');
    const scheduling = { ...(given['schedulingConfig'] as Data | undefined), ...tierOf(body) };
    const complete = completeNode(world, where, { ...given, schedulingConfig: scheduling });
    return nodeIds(spec, queuedId).map((nodeId) => {
      checkNodeId(nodeId);
      return { nodeId, node: complete.asked };
    });
  });
}

/** How the whole is paid for, in the words of a node. */
function tierOf(body: Data): Data {
  if (body['spot'] !== undefined || body['provisioningModel'] === 'SPOT') return { spot: true };
  if (body['bestEffort'] !== undefined) return { preemptible: true };
  const reservationName = textOf(body, 'reservationName');
  const isReserved =
    messageOf(body, 'guaranteed')['reserved'] === true ||
    reservationName !== '' ||
    body['provisioningModel'] === 'RESERVATION_BOUND';
  return isReserved ? { reserved: true, reservationName } : {};
}

function nodeIds(spec: Data, queuedId: string): string[] {
  const params = (spec['multisliceParams'] ?? spec['multiNodeParams']) as Data | undefined;
  const nodeId = spec['nodeId'] as string | undefined;
  if ((params === undefined) === (nodeId === undefined || nodeId === '')) {
    throw badField('queued_resource.tpu.node_spec', 'Exactly one of node_id and multislice_params must be set.');
  }
  if (params === undefined) return [String(nodeId)];
  const count = Number(params['nodeCount'] ?? 0);
  if (count < 2)
    throw badField('queued_resource.tpu.node_spec.multislice_params.node_count', 'node_count must exceed 1.');
  const prefix = textOf(params, 'nodeIdPrefix') || queuedId;
  return Array.from({ length: count }, (_, index) => `${prefix}-${String(index)}`);
}

function validity(now: Instant, policy: Data): { validAfter: Instant | null; validUntil: Instant | null } {
  const at = (time: unknown): Instant | null => (typeof time === 'string' ? Date.parse(time) : null);
  const after = (length: unknown): Instant | null => (typeof length === 'string' ? now + durationMs(length) : null);
  const interval = messageOf(policy, 'validInterval');
  return {
    validAfter: after(policy['validAfterDuration']) ?? at(policy['validAfterTime']) ?? at(interval['startTime']),
    validUntil: after(policy['validUntilDuration']) ?? at(policy['validUntilTime']) ?? at(interval['endTime']),
  };
}

function placeOfRequest(where: Asked, name: string, nodes: QueuedRecord['nodes']): Place {
  const first = nodes[0];
  const node = first?.node ?? {};
  return placeOf(where, String(node['acceleratorType']), node, [
    name,
    ...nodes.map((each) => nodeName(where, each.nodeId)),
  ]);
}

function placeOfQueued(queued: QueuedRecord): Place {
  return placeOfRequest(queued, queued.name, queued.nodes);
}

function nodesOf(world: World, queued: QueuedRecord): NodeRecord[] {
  return queued.nodes.flatMap(({ nodeId }) => {
    const node = world.nodes.get(nodeName(queued, nodeId));
    return node !== undefined && node.queuedResource === queued.name ? [node] : [];
  });
}

/** Changes a queued resource that is still the same one. */
function changeQueued(world: World, queued: QueuedRecord, change: Partial<QueuedRecord>): QueuedRecord | undefined {
  const current = world.queued.get(queued.name);
  if (current === undefined || current.uid !== queued.uid) return undefined;
  const next = { ...current, ...change };
  world.queued.put(next.name, next);
  if (next.state !== current.state) world.log(`${next.name} is ${next.state}`);
  return next;
}

/** The request is in the queue; its operation is done. */
export function queuedAccepted(world: World, queued: QueuedRecord, operation: string): void {
  if (queued.state !== 'CREATING') return;
  const next = changeQueued(world, queued, { state: 'WAITING_FOR_RESOURCES' });
  if (next === undefined) return;
  finishOperation(world, operation, { kind: 'QueuedResource', data: queuedData(next) });
  world.later(takes(world, 'queued-wait') * slowness(world, placeOfQueued(queued)), {
    kind: 'queued-look',
    name: queued.name,
    uid: queued.uid,
  });
}

/** The request looks for capacity. The order matters: a request whose time is over fails even while it is held. */
export function queuedLook(world: World, queued: QueuedRecord): void {
  if (queued.state !== 'WAITING_FOR_RESOURCES') return;
  const now = world.now();
  if (queued.validUntil !== null && queued.validUntil <= now) {
    const error = {
      code: 9,
      message: `The queued resource was not provisioned before its valid-until time. ${world.eid()}`,
    };
    changeQueued(world, queued, { state: 'FAILED', initiator: 'SERVICE', error });
    return;
  }
  const place = placeOfQueued(queued);
  const waits =
    (queued.validAfter !== null && queued.validAfter > now) ||
    strikes(world, 'hold', place) !== undefined ||
    provisioningFailure(world, place, queued.nodes[0]?.node ?? {}, queued.nodes.length) !== undefined;
  if (waits) {
    world.later(lookEvery(world), { kind: 'queued-look', name: queued.name, uid: queued.uid });
    return;
  }
  const unaddressed = addressesExceeded(world, place, queued.nodes[0]?.node ?? {}, queued.nodes.length);
  changeQueued(world, queued, { state: 'PROVISIONING', initiator: 'SERVICE' });
  for (const { nodeId, node } of queued.nodes) {
    const made = addNode(world, queued, {
      nodeId,
      type: String(node['acceleratorType']),
      asked: node,
      queuedResource: queued.name,
      multislice: queued.multislice,
    });
    const about = { name: made.name, id: made.id };
    if (unaddressed === undefined) {
      world.later(takes(world, 'create') * slowness(world, place), { kind: 'node-ready', ...about });
    } else {
      world.later(takes(world, 'stockout'), { kind: 'node-failed', ...about, error: unaddressed.rpc() });
    }
  }
}

/** One of its nodes is READY; when all are, the whole is ACTIVE. All or nothing. */
export function nodeOfQueuedReady(world: World, name: string): void {
  const queued = world.queued.get(name);
  if (queued === undefined || queued.state !== 'PROVISIONING') return;
  const nodes = nodesOf(world, queued);
  if (nodes.length === queued.nodes.length && nodes.every((node) => node.state === 'READY')) {
    const length = textOf(messageOf(queued.asked, 'runDuration'), 'maxRunDuration');
    const endsAt = length === '' ? null : world.now() + durationMs(length);
    changeQueued(world, queued, { state: 'ACTIVE', endsAt });
    if (endsAt !== null) world.later(endsAt - world.now(), { kind: 'queued-over', name, uid: queued.uid });
  }
}

/** The time that it was asked for is over: the machines go, and it stays listed as SUSPENDED. */
export function queuedOver(world: World, queued: QueuedRecord): void {
  if (queued.state === 'ACTIVE') suspendQueued(world, queued.name, 'SERVICE', undefined);
}

/** One of its nodes cannot be made: SUSPENDING, then FAILED with the reason; nothing of the nodes stays. */
export function nodeOfQueuedFailed(world: World, name: string, error: RpcStatus): void {
  const queued = world.queued.get(name);
  if (queued === undefined || queued.state !== 'PROVISIONING') return;
  changeQueued(world, queued, { state: 'SUSPENDING', initiator: 'SERVICE' });
  for (const node of nodesOf(world, queued)) removeNode(world, node, null);
  world.later(takes(world, 'queued-suspend'), { kind: 'queued-settled', name, uid: queued.uid, error });
}

/**
 * A node of it was taken or deleted: SUSPENDING, then SUSPENDED. The node that was taken stays visible meanwhile, the
 * others go with it.
 */
export function suspendQueued(
  world: World,
  name: string,
  initiator: 'USER' | 'SERVICE',
  lost: NodeRecord | undefined,
): void {
  const queued = world.queued.get(name);
  if (queued === undefined || (queued.state !== 'ACTIVE' && queued.state !== 'PROVISIONING')) return;
  changeQueued(world, queued, { state: 'SUSPENDING', initiator });
  for (const node of nodesOf(world, queued)) {
    if (node.id !== lost?.id && node.state !== 'DELETING') removeNode(world, node, null);
  }
  world.later(takes(world, 'queued-suspend'), { kind: 'queued-settled', name, uid: queued.uid, error: null });
}

/** The suspension ends: what is left of its nodes is removed first. */
export function queuedSettled(world: World, queued: QueuedRecord, error: RpcStatus | null): void {
  if (queued.state !== 'SUSPENDING') return;
  if (!takeNodesOff(world, queued)) {
    world.later(lookEvery(world), { kind: 'queued-settled', name: queued.name, uid: queued.uid, error });
    return;
  }
  changeQueued(world, queued, { state: error === null ? 'SUSPENDED' : 'FAILED', error });
}

/** Takes all nodes off whose machines have ended; false while one has not. */
function takeNodesOff(world: World, queued: QueuedRecord): boolean {
  let all = true;
  for (const node of nodesOf(world, queued)) {
    if (node.state !== 'DELETING' && node.state !== 'PREEMPTED') changeNode(world, node, { state: 'DELETING' });
    if (world.isDown(node)) world.nodes.remove(node.name);
    else all = false;
  }
  return all;
}

/** DELETE. What is between two states accepts the call and fails the operation a moment later, even with force. */
export function deleteQueued(world: World, version: ApiVersion, queued: QueuedRecord, force: boolean): OperationRecord {
  const unsettled: readonly QueuedState[] = ['CREATING', 'PROVISIONING', 'SUSPENDING', 'DELETING'];
  const isUnsettled = unsettled.includes(queued.state);
  const hasNodes = nodesOf(world, queued).length > 0;
  if (!isUnsettled && !force && hasNodes) throw texts.notDeletable(queued.name, queued.state, world.eid());
  const operation = beginOperation(world, { ...queued, version, target: queued.name, verb: 'delete' });
  if (isUnsettled) {
    const error = texts.notDeletable(queued.name, queued.state, world.eid()).rpc();
    world.later(takes(world, 'queued-refuse'), { kind: 'operation-failed', operation: operation.name, error });
    return operation;
  }
  changeQueued(world, queued, { state: 'DELETING', initiator: 'USER' });
  for (const node of nodesOf(world, queued)) {
    if (node.state !== 'DELETING') removeNode(world, node, null);
  }
  world.later(takes(world, hasNodes ? 'queued-remove' : 'queued-accept'), {
    kind: 'queued-gone',
    name: queued.name,
    uid: queued.uid,
    operation: operation.name,
  });
  return operation;
}

/** The deletion ends: nodes first, then the request itself. */
export function queuedGone(world: World, queued: QueuedRecord, operation: string): void {
  if (!takeNodesOff(world, queued)) {
    world.later(lookEvery(world), { kind: 'queued-gone', name: queued.name, uid: queued.uid, operation });
    return;
  }
  world.queued.remove(queued.name);
  world.log(`${queued.name} is gone`);
  const begun = world.operations.get(operation);
  finishOperation(
    world,
    operation,
    begun?.version === 'v2alpha1' ? { kind: 'QueuedResource', data: queuedData(queued) } : null,
  );
}

/** `:reset`: every machine of an ACTIVE queued resource reboots; its state stays what it is. */
export function resetQueued(world: World, version: ApiVersion, queued: QueuedRecord): OperationRecord {
  if (queued.state !== 'ACTIVE') throw texts.notResettable(queued.name, queued.state, world.eid());
  return restartNodes(world, version, queued, nodesOf(world, queued), 'reset');
}

/** `:performMaintenanceQueuedResource`: what was announced for those nodes (without names, for all) is done now. */
export function maintainQueued(
  world: World,
  version: ApiVersion,
  queued: QueuedRecord,
  names: readonly string[],
): OperationRecord {
  const all = nodesOf(world, queued);
  const chosen = names.length === 0 ? all : names.map((name) => nodeNamed(all, name));
  for (const node of chosen) checkMaintainable(world, node);
  return restartNodes(world, version, queued, chosen, 'maintenance');
}

function restartNodes(
  world: World,
  version: ApiVersion,
  queued: QueuedRecord,
  nodes: readonly NodeRecord[],
  why: 'reset' | 'maintenance',
): OperationRecord {
  const { name, uid } = queued;
  const verb = why === 'reset' ? 'reset' : 'update';
  const operation = beginOperation(world, { ...queued, version, target: name, verb });
  for (const node of nodes) restartNode(world, node, why, null);
  world.later(takes(world, why), { kind: 'queued-reset', name, uid, operation: operation.name });
  return operation;
}

function nodeNamed(nodes: readonly NodeRecord[], name: string): NodeRecord {
  const found = nodes.find((node) => node.name === name || node.nodeId === name);
  if (found === undefined) throw texts.notFound(name);
  return found;
}

/** `:getMaintenanceInfo`: the nodes of it for which there is something to tell. */
export function maintenanceOf(world: World, queued: QueuedRecord): Data {
  return {
    nodeUpcomingMaintenances: nodesOf(world, queued).flatMap((node) => {
      const upcomingMaintenance = maintenanceData(node);
      return upcomingMaintenance === null ? [] : [{ nodeName: node.name, nodeUid: node.id, upcomingMaintenance }];
    }),
  };
}

/** A reset or maintenance of the whole ends when all its nodes are back. */
export function queuedReset(world: World, queued: QueuedRecord, operation: string): void {
  if (nodesOf(world, queued).some((node) => node.state === 'RESTARTING' || node.state === 'REPAIRING')) {
    world.later(lookEvery(world), { kind: 'queued-reset', name: queued.name, uid: queued.uid, operation });
    return;
  }
  finishOperation(world, operation, { kind: 'QueuedResource', data: queuedData(queued) });
}

/** The field of the state message that belongs to each state. */
const stateFields: Readonly<Record<QueuedState, string>> = {
  CREATING: 'creatingData',
  WAITING_FOR_RESOURCES: 'acceptedData',
  PROVISIONING: 'provisioningData',
  FAILED: 'failedData',
  DELETING: 'deletingData',
  ACTIVE: 'activeData',
  SUSPENDING: 'suspendingData',
  SUSPENDED: 'suspendedData',
};

/** The queued resource as a message. */
export function queuedData(queued: QueuedRecord): Data {
  const { endsAt } = queued;
  const ends = endsAt === undefined || endsAt === null ? {} : { terminationTime: timestampText(endsAt) };
  return {
    ...queued.asked,
    ...('runDuration' in queued.asked ? { runDuration: { ...messageOf(queued.asked, 'runDuration'), ...ends } } : {}),
    name: queued.name,
    createTime: timestampText(queued.createTime),
    tpu: {
      nodeSpec: queued.nodes.map(({ nodeId, node }) => ({
        parent: `projects/${queued.project}/locations/${queued.zone}`,
        nodeId,
        node,
      })),
    },
    state: {
      state: queued.state,
      stateInitiator: queued.initiator,
      [stateFields[queued.state]]: queued.error === null ? {} : { error: queued.error },
    },
  };
}
