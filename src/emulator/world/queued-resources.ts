import type { Instant } from '../../core/model/time.ts';
import { regionOf } from '../../catalogue/zones.ts';
import { invalidField, type RpcStatus, cloudErrors } from '../wire/errors.ts';
import { durationMs, formatTimestamp } from '../wire/json.ts';
import { type ApiVersion, type Data, messageOf, textOf } from '../wire/messages.ts';
import { durationOf } from './options.ts';
import { checkMaintainable, restartNode } from './maintenance.ts';
import { type RequestScope, checkNodeId, completeNode } from './node-requests.ts';
import { addNode, changeNode, maintenanceData, nodeName, removeNode } from './nodes.ts';
import { addressesExceeded, provisioningFailure, quotaExceeded, rateExceeded } from './limits.ts';
import { beginOperation, finishOperation } from './operations.ts';
import type { NodeRecord, OperationRecord, QueuedResourceRecord, QueuedState } from './records.ts';
import { pollInterval, type FaultSubject, subjectOf, slowFactor, findCondition } from './faults.ts';
import type { World } from './world.ts';

/** POST queuedResources: the operation ends when the request is accepted, not when it has capacity. */
export function createQueued(
  world: World,
  scope: RequestScope,
  queuedId: string | undefined,
  body: Data,
): OperationRecord {
  if (queuedId === undefined || !/^[A-Za-z0-9_.~+%-]+$/.test(queuedId)) {
    throw invalidField(
      'queued_resource_id',
      `Invalid value at 'queued_resource_id', ${JSON.stringify(queuedId ?? '')}`,
    );
  }
  const name = queuedName(scope, queuedId);
  const tiers = ['spot', 'guaranteed', 'bestEffort'].filter((tier) => body[tier] !== undefined);
  if (tiers.length > 1) throw invalidField('tier', `Only one of the tiers ${tiers.join(', ')} may be set.`);
  const limits = Object.keys(messageOf(body, 'queueingPolicy'));
  if (limits.length > 1)
    throw invalidField('queued_resource.queueing_policy', `Only one of ${limits.join(', ')} may be set.`);
  checkRunDuration(body);
  const nodes = requestedNodes(world, scope, queuedId, body);
  if (world.queued.get(name) !== undefined) throw cloudErrors.alreadyExists(name);
  for (const { nodeId } of nodes) {
    if (world.nodes.get(nodeName(scope, nodeId)) !== undefined)
      throw cloudErrors.alreadyExists(nodeName(scope, nodeId));
  }
  const subject = requestSubject(scope, name, nodes);
  const rateError = rateExceeded(world, subject);
  if (rateError !== undefined) throw rateError;
  const exceededQuota = quotaExceeded(world, subject, nodes.length);
  if (exceededQuota !== undefined)
    throw cloudErrors.queuedQuota(exceededQuota.name, exceededQuota.limit, regionOf(scope.zone));

  const operation = beginOperation(world, { ...scope, target: name, verb: 'create' });
  if (body['provisioningModel'] === 'FLEX_START' && !flexGenerations.includes(subject.generation)) {
    const error = cloudErrors.flexNotOffered(subject.type, scope.zone).rpc();
    world.schedule(durationOf(world, 'queued-refuse'), { kind: 'operation-failed', operation: operation.name, error });
    return operation;
  }
  const { state: _state, name: _name, createTime: _createTime, tpu: _tpu, ...spec } = body;
  const queued: QueuedResourceRecord = {
    ...scope,
    name,
    queuedId,
    uid: world.random.hex(16),
    createTime: world.now(),
    spec,
    nodes,
    multislice: nodes.length > 1,
    state: 'CREATING',
    initiator: 'SERVICE',
    error: null,
    ...validity(world.now(), messageOf(body, 'queueingPolicy')),
  };
  world.queued.put(name, queued);
  world.schedule(durationOf(world, 'queued-accept'), {
    kind: 'queued-accepted',
    name,
    uid: queued.uid,
    operation: operation.name,
  });
  return operation;
}

/** The generations that Google's documents offer with flex-start. */
const flexGenerations: readonly string[] = ['v5e', 'v5p', 'v6e'];
const maxRunDuration = 7 * 24 * 3_600_000;

/** flex-start is limited to seven days. Throws CloudError. */
function checkRunDuration(body: Data): void {
  const length = textOf(messageOf(body, 'runDuration'), 'maxRunDuration');
  if (body['provisioningModel'] === 'FLEX_START' && length === '') {
    throw invalidField('queued_resource.run_duration', 'FLEX_START needs a run_duration.max_run_duration.');
  }
  if (length !== '' && durationMs(length) > maxRunDuration) {
    throw invalidField('queued_resource.run_duration', 'The max_run_duration must be at most 604800s.');
  }
}

function queuedName(where: RequestScope, queuedId: string): string {
  return `projects/${where.project}/locations/${where.zone}/queuedResources/${queuedId}`;
}

function requestedNodes(
  world: World,
  where: RequestScope,
  queuedId: string,
  body: Data,
): { nodeId: string; node: Data }[] {
  const specs = (messageOf(body, 'tpu')['nodeSpec'] ?? []) as Data[];
  if (specs.length === 0) throw invalidField('queued_resource.tpu.node_spec', 'At least one node_spec must be given.');
  return specs.flatMap((spec) => {
    const parent = `projects/${where.project}/locations/${where.zone}`;
    const requestedParent = textOf(spec, 'parent');
    if (requestedParent !== '' && requestedParent !== parent) {
      throw invalidField(
        'queued_resource.tpu.node_spec.parent',
        `The parent of a node, '${requestedParent}', must be that of the queued resource, '${parent}'.`,
      );
    }
    const given = messageOf(spec, 'node');
    const scheduling = { ...(given['schedulingConfig'] as Data | undefined), ...tierOf(body) };
    const complete = completeNode(world, where, { ...given, schedulingConfig: scheduling });
    return nodeIds(spec, queuedId).map((nodeId) => {
      checkNodeId(nodeId);
      return { nodeId, node: complete.spec };
    });
  });
}

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
    throw invalidField('queued_resource.tpu.node_spec', 'Exactly one of node_id and multislice_params must be set.');
  }
  if (params === undefined) return [String(nodeId)];
  const count = Number(params['nodeCount'] ?? 0);
  if (count < 2)
    throw invalidField('queued_resource.tpu.node_spec.multislice_params.node_count', 'node_count must exceed 1.');
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

function requestSubject(where: RequestScope, name: string, nodes: QueuedResourceRecord['nodes']): FaultSubject {
  const first = nodes[0];
  const node = first?.node ?? {};
  return subjectOf(where, String(node['acceleratorType']), node, [
    name,
    ...nodes.map((each) => nodeName(where, each.nodeId)),
  ]);
}

function queuedSubject(queued: QueuedResourceRecord): FaultSubject {
  return requestSubject(queued, queued.name, queued.nodes);
}

function nodesOf(world: World, queued: QueuedResourceRecord): NodeRecord[] {
  return queued.nodes.flatMap(({ nodeId }) => {
    const node = world.nodes.get(nodeName(queued, nodeId));
    return node !== undefined && node.queuedResource === queued.name ? [node] : [];
  });
}

function changeQueued(
  world: World,
  queued: QueuedResourceRecord,
  change: Partial<QueuedResourceRecord>,
): QueuedResourceRecord | undefined {
  const current = world.queued.get(queued.name);
  if (current === undefined || current.uid !== queued.uid) return undefined;
  const next = { ...current, ...change };
  world.queued.put(next.name, next);
  if (next.state !== current.state) world.log(`${next.name} is ${next.state}`);
  return next;
}

export function queuedAccepted(world: World, queued: QueuedResourceRecord, operation: string): void {
  if (queued.state !== 'CREATING') return;
  const next = changeQueued(world, queued, { state: 'WAITING_FOR_RESOURCES' });
  if (next === undefined) return;
  finishOperation(world, operation, { kind: 'QueuedResource', data: queuedData(next) });
  world.schedule(durationOf(world, 'queued-wait') * slowFactor(world, queuedSubject(queued)), {
    kind: 'queued-provision',
    name: queued.name,
    uid: queued.uid,
  });
}

/** Tries to get capacity. The order matters: a request after its valid-until time fails even under `hold`. */
export function tryProvision(world: World, queued: QueuedResourceRecord): void {
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
  const subject = queuedSubject(queued);
  const mustWait =
    (queued.validAfter !== null && queued.validAfter > now) ||
    findCondition(world, 'hold', subject) !== undefined ||
    provisioningFailure(world, subject, queued.nodes[0]?.node ?? {}, queued.nodes.length) !== undefined;
  if (mustWait) {
    world.schedule(pollInterval(world), { kind: 'queued-provision', name: queued.name, uid: queued.uid });
    return;
  }
  const addressError = addressesExceeded(world, subject, queued.nodes[0]?.node ?? {}, queued.nodes.length);
  changeQueued(world, queued, { state: 'PROVISIONING', initiator: 'SERVICE' });
  for (const { nodeId, node } of queued.nodes) {
    const made = addNode(world, queued, {
      nodeId,
      type: String(node['acceleratorType']),
      spec: node,
      queuedResource: queued.name,
      multislice: queued.multislice,
    });
    const about = { name: made.name, id: made.id };
    if (addressError === undefined) {
      world.schedule(durationOf(world, 'create') * slowFactor(world, subject), { kind: 'node-ready', ...about });
    } else {
      world.schedule(durationOf(world, 'stockout'), { kind: 'node-failed', ...about, error: addressError.rpc() });
    }
  }
}

export function queuedNodeReady(world: World, name: string): void {
  const queued = world.queued.get(name);
  if (queued === undefined || queued.state !== 'PROVISIONING') return;
  const nodes = nodesOf(world, queued);
  if (nodes.length === queued.nodes.length && nodes.every((node) => node.state === 'READY')) {
    const length = textOf(messageOf(queued.spec, 'runDuration'), 'maxRunDuration');
    const endsAt = length === '' ? null : world.now() + durationMs(length);
    changeQueued(world, queued, { state: 'ACTIVE', endsAt });
    if (endsAt !== null) world.schedule(endsAt - world.now(), { kind: 'queued-expired', name, uid: queued.uid });
  }
}

/** The end of a flex-start run: removes the nodes. The queued resource stays listed as SUSPENDED. */
export function queuedExpired(world: World, queued: QueuedResourceRecord): void {
  if (queued.state === 'ACTIVE') suspendQueued(world, queued.name, 'SERVICE', undefined);
}

/** One node cannot be created: SUSPENDING, then FAILED with the reason. Removes all nodes. */
export function queuedNodeFailed(world: World, name: string, error: RpcStatus): void {
  const queued = world.queued.get(name);
  if (queued === undefined || queued.state !== 'PROVISIONING') return;
  changeQueued(world, queued, { state: 'SUSPENDING', initiator: 'SERVICE' });
  for (const node of nodesOf(world, queued)) removeNode(world, node, null);
  world.schedule(durationOf(world, 'queued-suspend'), { kind: 'queued-suspended', name, uid: queued.uid, error });
}

/** A node was lost: SUSPENDING, then SUSPENDED. The lost node stays visible until then; the others are removed. */
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
  world.schedule(durationOf(world, 'queued-suspend'), { kind: 'queued-suspended', name, uid: queued.uid, error: null });
}

export function queuedSuspended(world: World, queued: QueuedResourceRecord, error: RpcStatus | null): void {
  if (queued.state !== 'SUSPENDING') return;
  if (!removeEndedNodes(world, queued)) {
    world.schedule(pollInterval(world), { kind: 'queued-suspended', name: queued.name, uid: queued.uid, error });
    return;
  }
  changeQueued(world, queued, { state: error === null ? 'SUSPENDED' : 'FAILED', error });
}

/** Removes all nodes whose machines have ended; false while one has not. */
function removeEndedNodes(world: World, queued: QueuedResourceRecord): boolean {
  let all = true;
  for (const node of nodesOf(world, queued)) {
    if (node.state !== 'DELETING' && node.state !== 'PREEMPTED') changeNode(world, node, { state: 'DELETING' });
    if (world.isDown(node)) world.nodes.remove(node.name);
    else all = false;
  }
  return all;
}

/** DELETE. In a transitional state, the call succeeds and the operation fails shortly after, even with force. */
export function deleteQueued(
  world: World,
  version: ApiVersion,
  queued: QueuedResourceRecord,
  force: boolean,
): OperationRecord {
  const transitional: readonly QueuedState[] = ['CREATING', 'PROVISIONING', 'SUSPENDING', 'DELETING'];
  const isTransitional = transitional.includes(queued.state);
  const hasNodes = nodesOf(world, queued).length > 0;
  if (!isTransitional && !force && hasNodes) throw cloudErrors.notDeletable(queued.name, queued.state, world.eid());
  const operation = beginOperation(world, { ...queued, version, target: queued.name, verb: 'delete' });
  if (isTransitional) {
    const error = cloudErrors.notDeletable(queued.name, queued.state, world.eid()).rpc();
    world.schedule(durationOf(world, 'queued-refuse'), { kind: 'operation-failed', operation: operation.name, error });
    return operation;
  }
  changeQueued(world, queued, { state: 'DELETING', initiator: 'USER' });
  for (const node of nodesOf(world, queued)) {
    if (node.state !== 'DELETING') removeNode(world, node, null);
  }
  world.schedule(durationOf(world, hasNodes ? 'queued-remove' : 'queued-accept'), {
    kind: 'queued-deleted',
    name: queued.name,
    uid: queued.uid,
    operation: operation.name,
  });
  return operation;
}

export function queuedDeleted(world: World, queued: QueuedResourceRecord, operation: string): void {
  if (!removeEndedNodes(world, queued)) {
    world.schedule(pollInterval(world), { kind: 'queued-deleted', name: queued.name, uid: queued.uid, operation });
    return;
  }
  world.queued.remove(queued.name);
  world.log(`${queued.name} was deleted`);
  const begun = world.operations.get(operation);
  finishOperation(
    world,
    operation,
    begun?.version === 'v2alpha1' ? { kind: 'QueuedResource', data: queuedData(queued) } : null,
  );
}

/** `:reset`: every machine of an ACTIVE queued resource reboots; the state does not change. */
export function resetQueued(world: World, version: ApiVersion, queued: QueuedResourceRecord): OperationRecord {
  if (queued.state !== 'ACTIVE') throw cloudErrors.notResettable(queued.name, queued.state, world.eid());
  return restartNodes(world, version, queued, nodesOf(world, queued), 'reset');
}

/** `:performMaintenanceQueuedResource`: performs announced maintenance now, for the named nodes or for all. */
export function maintainQueued(
  world: World,
  version: ApiVersion,
  queued: QueuedResourceRecord,
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
  queued: QueuedResourceRecord,
  nodes: readonly NodeRecord[],
  why: 'reset' | 'maintenance',
): OperationRecord {
  const { name, uid } = queued;
  const verb = why === 'reset' ? 'reset' : 'update';
  const operation = beginOperation(world, { ...queued, version, target: name, verb });
  for (const node of nodes) restartNode(world, node, why, null);
  world.schedule(durationOf(world, why), { kind: 'queued-reset', name, uid, operation: operation.name });
  return operation;
}

function nodeNamed(nodes: readonly NodeRecord[], name: string): NodeRecord {
  const found = nodes.find((node) => node.name === name || node.nodeId === name);
  if (found === undefined) throw cloudErrors.notFound(name);
  return found;
}

export function maintenanceOf(world: World, queued: QueuedResourceRecord): Data {
  return {
    nodeUpcomingMaintenances: nodesOf(world, queued).flatMap((node) => {
      const upcomingMaintenance = maintenanceData(node);
      return upcomingMaintenance === null ? [] : [{ nodeName: node.name, nodeUid: node.id, upcomingMaintenance }];
    }),
  };
}

/** Ends a reset or maintenance once all nodes are back. */
export function queuedReset(world: World, queued: QueuedResourceRecord, operation: string): void {
  if (nodesOf(world, queued).some((node) => node.state === 'RESTARTING' || node.state === 'REPAIRING')) {
    world.schedule(pollInterval(world), { kind: 'queued-reset', name: queued.name, uid: queued.uid, operation });
    return;
  }
  finishOperation(world, operation, { kind: 'QueuedResource', data: queuedData(queued) });
}

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

export function queuedData(queued: QueuedResourceRecord): Data {
  const { endsAt } = queued;
  const ends = endsAt === undefined || endsAt === null ? {} : { terminationTime: formatTimestamp(endsAt) };
  return {
    ...queued.spec,
    ...('runDuration' in queued.spec ? { runDuration: { ...messageOf(queued.spec, 'runDuration'), ...ends } } : {}),
    name: queued.name,
    createTime: formatTimestamp(queued.createTime),
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
