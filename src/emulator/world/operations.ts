// Long-running operations: the immediate reply to a change, which clients poll until it is done.

import type { RpcStatus } from '../wire/errors.ts';
import { encode, formatTimestamp, type EncodeOptions } from '../wire/json.ts';
import { type ApiVersion, type Data, node as nodeMessage, queuedResource as queuedMessage } from '../wire/messages.ts';
import type { OperationRecord } from './records.ts';
import type { World } from './world.ts';

const retentionMs = 7 * 24 * 60 * 60 * 1000;

/** Begins an operation on a resource. The caller ends it, now or by an event. */
export function beginOperation(
  world: World,
  about: {
    readonly project: string;
    readonly zone: string;
    readonly version: ApiVersion;
    readonly target: string;
    readonly verb: string;
  },
): OperationRecord {
  const now = world.now();
  for (const old of world.operations.values()) {
    if (old.endTime !== null && old.endTime < now - retentionMs) world.operations.remove(old.name);
  }
  const { random } = world;
  const id = `operation-${String(now)}-${random.hex(13)}-${random.hex(8)}-${random.hex(8)}`;
  const operation: OperationRecord = {
    ...about,
    name: `projects/${about.project}/locations/${about.zone}/operations/${id}`,
    createTime: now,
    endTime: null,
    response: null,
    error: null,
    cancelRequested: false,
  };
  world.operations.put(operation.name, operation);
  return operation;
}

/** Does nothing when it has ended or does not exist. */
export function finishOperation(world: World, name: string | null, response: OperationRecord['response']): void {
  endOperation(world, name, { response: response ?? { kind: 'Empty', data: {} } });
}

export function failOperation(world: World, name: string | null, error: RpcStatus): void {
  endOperation(world, name, { error });
}

function endOperation(world: World, name: string | null, result: Partial<OperationRecord>): void {
  const operation = name === null ? undefined : world.operations.get(name);
  if (operation === undefined || operation.endTime !== null) return;
  world.operations.put(operation.name, { ...operation, ...result, endTime: world.now() });
}

/** The operation as a reply in the version of the reader, which need not be the version of the request. */
export function operationReply(operation: OperationRecord, writing: EncodeOptions): Data {
  const { version } = writing;
  const type = (name: string): string => `type.googleapis.com/google.cloud.tpu.${version}.${name}`;
  return {
    name: operation.name,
    metadata: {
      '@type': type('OperationMetadata'),
      createTime: formatTimestamp(operation.createTime),
      ...(operation.endTime === null ? {} : { endTime: formatTimestamp(operation.endTime) }),
      target: operation.target,
      verb: operation.verb,
      ...(operation.cancelRequested ? { cancelRequested: true } : {}),
      apiVersion: operation.version,
    },
    ...(operation.endTime === null ? {} : { done: true }),
    ...(operation.error === null ? {} : { error: operation.error }),
    ...(operation.response === null ? {} : { response: responseOf(operation.response, writing, type) }),
  };
}

function responseOf(
  response: NonNullable<OperationRecord['response']>,
  writing: EncodeOptions,
  type: (name: string) => string,
): Data {
  switch (response.kind) {
    case 'Node':
      return { '@type': type('Node'), ...encode(nodeMessage, response.data, writing) };
    case 'QueuedResource':
      return { '@type': type('QueuedResource'), ...encode(queuedMessage, response.data, writing) };
    case 'Empty':
      return { '@type': 'type.googleapis.com/google.protobuf.Empty' };
  }
}
