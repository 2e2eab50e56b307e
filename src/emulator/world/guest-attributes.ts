/**
 * Small texts that a worker's programs publish. Source: Google's page "Set and query guest attributes"; names follow
 * gcloud's pattern for a query path.
 */
import type { Data } from '../wire/messages.ts';
import { workerHostName } from './nodes.ts';
import { changeWorker, type World } from './world.ts';
import type { NodeRecord, WorkerRecord } from './records.ts';

export interface GuestAttribute extends Data {
  readonly namespace: string;
  readonly key: string;
  readonly value: string;
}

/** The result of a write. `absent`: nothing to delete; `invalid-name`: the path is not `namespace/key`. */
export type GuestWriteResult = 'done' | 'absent' | 'invalid-name' | 'too-large';

/** The limit of one worker, in bytes of paths and values. Our choice: Google documents no limit. */
export const maxGuestBytes = 256 * 1024;

const pathPattern = /^[\w-]{1,128}\/[\w-]{1,128}$/;

export function guestAttributesOf(node: NodeRecord, worker: WorkerRecord): GuestAttribute[] {
  const all = { ...publishedByAgent(node, worker), ...worker.guestAttributes };
  return Object.entries(all)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([path, value]) => {
      const [namespace = '', key = ''] = path.split('/');
      return value === null ? [] : [{ namespace, key, value }];
    });
}

/** The attributes of a query path: `namespace/key`, `namespace/`, `namespace`, or the empty string for all. */
export function guestAttributesAt(node: NodeRecord, worker: WorkerRecord, queryPath: string): GuestAttribute[] {
  const [wanted = '', wantedKey = ''] = queryPath.split('/');
  return guestAttributesOf(node, worker).filter(
    ({ namespace, key }) =>
      (wanted === '' || namespace === wanted) && (wantedKey === '' || `${namespace}/${key}` === queryPath),
  );
}

/** Sets one attribute of a worker, or deletes it (`null`). `node` must be the current record. */
export function writeGuestAttribute(
  world: World,
  node: NodeRecord,
  worker: WorkerRecord,
  path: string,
  value: string | null,
): GuestWriteResult {
  if (!pathPattern.test(path)) return 'invalid-name';
  const isThere = guestAttributesAt(node, worker, path).length > 0;
  if (value === null && !isThere) return 'absent';
  const { [path]: _before, ...others } = worker.guestAttributes ?? {};
  // To delete an attribute of the guest agent, store null, because the agent publishes it again.
  const isForgotten = value === null && !Object.hasOwn(publishedByAgent(node, worker), path);
  const next = isForgotten ? others : { ...others, [path]: value };
  const bytes = Object.entries(next).reduce((sum, [name, text]) => sum + Buffer.byteLength(name + (text ?? '')), 0);
  if (value !== null && bytes > maxGuestBytes) return 'too-large';
  changeWorker(world, node, worker.index, { guestAttributes: next });
  return 'done';
}

/** The guest agent publishes its host key and its name once the machine has booted. */
function publishedByAgent(node: NodeRecord, worker: WorkerRecord): Readonly<Record<string, string>> {
  if (node.state !== 'READY') return {};
  const name = workerHostName(node, worker.index);
  return {
    'hostkeys/ssh-ed25519': worker.hostKeyPublic,
    'guestInventory/Hostname': name,
    'hostname/hostname': name,
  };
}
