/**
 * Guest attributes: small texts by namespace and key, which the programs of a worker publish and others read through the
 * API. Conduct: Google's page "Set and query guest attributes"; names by the pattern that gcloud takes for a query path.
 */
import type { Data } from '../wire/messages.ts';
import { workerHostName } from './nodes.ts';
import { changeWorker, type World } from './world.ts';
import type { NodeRecord, WorkerRecord } from './records.ts';

/** One attribute of a worker. */
export interface GuestAttribute extends Data {
  readonly namespace: string;
  readonly key: string;
  readonly value: string;
}

/** The result of a write: `absent` where there is nothing to delete, `misnamed` for a path that no attribute can have. */
export type GuestWrite = 'done' | 'absent' | 'misnamed' | 'too-large';

/** How much one worker may publish altogether, in bytes of paths and values. It is decided here: the facts name no limit. */
export const guestBytesMax = 256 * 1024;

/** `namespace/key`. */
const pathPattern = /^[\w-]{1,128}\/[\w-]{1,128}$/;

/** All that one worker has published, in order of namespace and key. */
export function guestAttributesOf(node: NodeRecord, worker: WorkerRecord): GuestAttribute[] {
  const all = { ...publishedByAgent(node, worker), ...worker.guestAttributes };
  return Object.entries(all)
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .flatMap(([path, value]) => {
      const [namespace = '', key = ''] = path.split('/');
      return value === null ? [] : [{ namespace, key, value }];
    });
}

/** The attributes that a query path means: `namespace/key` one, `namespace/` or `namespace` all of it, nothing at all all. */
export function guestAttributesAt(node: NodeRecord, worker: WorkerRecord, queryPath: string): GuestAttribute[] {
  const [wanted = '', wantedKey = ''] = queryPath.split('/');
  return guestAttributesOf(node, worker).filter(
    ({ namespace, key }) =>
      (wanted === '' || namespace === wanted) && (wantedKey === '' || `${namespace}/${key}` === queryPath),
  );
}

/** Sets one attribute of a worker, or deletes it (`null`). The node must be as the world has it now. */
export function writeGuestAttribute(
  world: World,
  node: NodeRecord,
  worker: WorkerRecord,
  path: string,
  value: string | null,
): GuestWrite {
  if (!pathPattern.test(path)) return 'misnamed';
  const isThere = guestAttributesAt(node, worker, path).length > 0;
  if (value === null && !isThere) return 'absent';
  const { [path]: _before, ...others } = worker.guestAttributes ?? {};
  // An attribute that the agent publishes by itself is only gone where that is remembered.
  const isForgotten = value === null && !Object.hasOwn(publishedByAgent(node, worker), path);
  const next = isForgotten ? others : { ...others, [path]: value };
  const bytes = Object.entries(next).reduce((sum, [name, text]) => sum + Buffer.byteLength(name + (text ?? '')), 0);
  if (value !== null && bytes > guestBytesMax) return 'too-large';
  changeWorker(world, node, worker.index, { guestAttributes: next });
  return 'done';
}

/** The attributes that the guest agent publishes by itself, its host key and its name, once the machine has booted. */
function publishedByAgent(node: NodeRecord, worker: WorkerRecord): Readonly<Record<string, string>> {
  if (node.state !== 'READY') return {};
  const name = workerHostName(node, worker.index);
  return {
    'hostkeys/ssh-ed25519': worker.hostKeyPublic,
    'guestInventory/Hostname': name,
    'hostname/hostname': name,
  };
}
