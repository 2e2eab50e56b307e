// The methods of long-running operations, and of the changes that begin one.

import type { Writing } from '../../wire/encode.ts';
import type { Data } from '../../wire/messages.ts';
import { cancelOperation } from '../../world/node-life.ts';
import { operationReply } from '../../world/operations.ts';
import type { OperationRecord } from '../../world/records.ts';
import type { World } from '../../world/world.ts';
import { known, zonedReply } from './lists.ts';
import { all, both, type Call, type Methods, page, type Target } from './method.ts';

export const operationMethods: Methods = {
  'GET operations': {
    versions: both,
    query: [...page, 'filter', 'returnPartialSuccess'],
    answer: (world, target, call, writing) =>
      zonedReply('operations', world, world.operations.values(), target, call, (operation) =>
        operationReply(operation, writing),
      ),
  },
  'GET operations/id': {
    versions: all,
    answer: (world, target, _call, writing) => operationReply(known(world.operations, target), writing),
  },
  'POST operations/id:cancel': {
    versions: both,
    changes: true,
    answer(world, target) {
      cancelOperation(world, known(world.operations, target));
      return {};
    },
  },
  'DELETE operations/id': {
    versions: both,
    changes: true,
    answer(world, target) {
      world.operations.remove(known(world.operations, target).name);
      return {};
    },
  },
};

/** Answers a repeated `requestId` with the operation that the first one began. */
export function once(world: World, target: Target, call: Call, writing: Writing, act: () => OperationRecord): Data {
  const requestId = call.query['requestId'];
  // The name of what is made is its parent's: with the collection it is one method's, and another may use the same id.
  const method = `${call.method} ${target.collection} ${target.name}`;
  const key = requestId === undefined || requestId === '' ? undefined : `${method} ${requestId}`;
  const before = key === undefined ? undefined : world.requests.get(key);
  const known = before === undefined ? undefined : world.operations.get(before.operation);
  if (known !== undefined) return operationReply(known, writing);
  const operation = act();
  if (key !== undefined) world.requests.put(key, { operation: operation.name });
  return operationReply(operation, writing);
}
