// The records of the world. A record is a value: replace it, never change it.

import type { Duration, Instant } from '../../core/model/time.ts';
import type { RpcStatus } from '../wire/errors.ts';
import type { ApiVersion, Data } from '../wire/messages.ts';

type NodeState =
  | 'CREATING'
  | 'READY'
  | 'RESTARTING'
  | 'DELETING'
  | 'REPAIRING'
  | 'STOPPED'
  | 'STOPPING'
  | 'STARTING'
  | 'PREEMPTED'
  | 'TERMINATED';

export interface WorkerRecord {
  readonly index: number;
  readonly address: string;
  /** The host's private key (PEM). It survives a reboot, but not a new node. */
  readonly hostKey: string;
  /** The public half as an SSH base64 blob. */
  readonly hostKeyPublic: string;
  /** The number of the machine's boot. The fleet reboots a host whose running boot has another number. */
  readonly boot: number;
  /** False after `kill-host`: the node is READY, and the worker does not answer. */
  readonly power: boolean;
  /** True after `hang-host`: all processes are stopped and connections stay silent. */
  readonly hung: boolean;
  /** True after `fill-disk`. Absent in a state of an earlier emulator, like the next two. */
  readonly diskFull?: boolean;
  /** True after `ssh-refuse`: the machine runs, and its SSH server accepts no connection. */
  readonly sshRefused?: boolean;
  /** True from the worker's own `reboot` until it is up again. */
  readonly rebooting?: boolean;
  /** The guest attributes of its programs, by `namespace/key`; null for a deleted one. */
  readonly guestAttributes?: Readonly<Record<string, string | null>>;
}

export type HostFault = 'power' | 'hung' | 'diskFull' | 'sshRefused' | 'rebooting';

export interface NodeRecord {
  readonly name: string;
  readonly project: string;
  readonly zone: string;
  readonly nodeId: string;
  /** int64 as text, new for each creation: distinguishes a node from a later one of the same name. */
  readonly id: string;
  readonly createTime: Instant;
  readonly version: ApiVersion;
  /** The completed request: every field of the message that is not below. */
  readonly spec: Data;
  readonly type: string;
  readonly state: NodeState;
  readonly health: 'HEALTHY' | 'UNHEALTHY_MAINTENANCE' | null;
  readonly queuedResource: string | null;
  readonly multislice: boolean;
  readonly hostHash: string;
  readonly workers: readonly WorkerRecord[];
  /** The operation that creates or starts the node, until it has ended. */
  readonly operation: string | null;
  /** Absent in a state of an earlier emulator. */
  readonly maintenance?: Maintenance | null;
}

interface Maintenance {
  readonly type: 'SCHEDULED' | 'UNSCHEDULED';
  readonly from: Instant;
  readonly to: Instant;
  readonly status: 'PENDING' | 'ONGOING';
}

/** A worker without faults. A boot clears all faults, `diskFull` too. */
export const healthyHost = { power: true, hung: false, diskFull: false, sshRefused: false, rebooting: false } as const;

const liveStates: readonly NodeState[] = ['CREATING', 'READY', 'RESTARTING', 'REPAIRING', 'STARTING'];

export function isLive(node: NodeRecord): boolean {
  return liveStates.includes(node.state);
}

export type QueuedState =
  | 'CREATING'
  | 'PROVISIONING'
  | 'FAILED'
  | 'DELETING'
  | 'ACTIVE'
  | 'SUSPENDING'
  | 'SUSPENDED'
  | 'WAITING_FOR_RESOURCES';

export interface QueuedResourceRecord {
  readonly name: string;
  readonly project: string;
  readonly zone: string;
  readonly queuedId: string;
  /** Distinguishes the queued resource from a later one of the same name. */
  readonly uid: string;
  readonly createTime: Instant;
  readonly version: ApiVersion;
  readonly spec: Data;
  readonly nodes: readonly { readonly nodeId: string; readonly node: Data }[];
  readonly multislice: boolean;
  readonly state: QueuedState;
  readonly initiator: 'USER' | 'SERVICE';
  readonly error: RpcStatus | null;
  readonly validAfter: Instant | null;
  readonly validUntil: Instant | null;
  /** The end of a flex-start run, when Google takes the nodes back; set once ACTIVE. */
  readonly endsAt?: Instant | null;
}

export interface OperationRecord {
  readonly name: string;
  readonly project: string;
  readonly zone: string;
  readonly version: ApiVersion;
  readonly target: string;
  readonly verb: string;
  readonly createTime: Instant;
  readonly endTime: Instant | null;
  readonly response: { readonly kind: 'Node' | 'QueuedResource' | 'Empty'; readonly data: Data } | null;
  readonly error: RpcStatus | null;
  readonly cancelRequested: boolean;
}

/** The `id` of a node and the `uid` of a queued resource exclude a later one of the same name. */
export type ScheduledEvent = { readonly key: string; readonly at: Instant } & (
  | { readonly kind: 'node-ready'; readonly name: string; readonly id: string }
  | { readonly kind: 'node-failed'; readonly name: string; readonly id: string; readonly error: RpcStatus }
  | { readonly kind: 'node-stopped'; readonly name: string; readonly id: string; readonly operation: string }
  | { readonly kind: 'node-deleted'; readonly name: string; readonly id: string; readonly operation: string | null }
  | { readonly kind: 'node-restarted'; readonly name: string; readonly id: string; readonly operation: string | null }
  | { readonly kind: 'node-max-age'; readonly name: string; readonly id: string }
  | { readonly kind: 'node-preempted'; readonly name: string; readonly id: string }
  | {
      readonly kind: 'host-recovered';
      readonly name: string;
      readonly id: string;
      readonly worker: number;
      /** The fault that ends; all of them when absent. */
      readonly fault?: HostFault;
    }
  | { readonly kind: 'operation-done'; readonly operation: string }
  | { readonly kind: 'operation-failed'; readonly operation: string; readonly error: RpcStatus }
  | { readonly kind: 'queued-accepted'; readonly name: string; readonly uid: string; readonly operation: string }
  | { readonly kind: 'queued-provision'; readonly name: string; readonly uid: string }
  | { readonly kind: 'queued-suspended'; readonly name: string; readonly uid: string; readonly error: RpcStatus | null }
  | { readonly kind: 'queued-deleted'; readonly name: string; readonly uid: string; readonly operation: string }
  | { readonly kind: 'queued-expired'; readonly name: string; readonly uid: string }
  | { readonly kind: 'node-maintenance'; readonly name: string; readonly id: string; readonly from: Instant }
  | {
      readonly kind: 'scheduled-fault';
      readonly verb: string;
      readonly given: Readonly<Record<string, string | number | boolean>>;
      readonly every: readonly [atLeast: Duration, atMost: Duration] | null;
      readonly probability: number;
      /** The position of the entry's own random stream. Absent in a state of an earlier emulator. */
      readonly randomState?: number;
    }
  | { readonly kind: 'queued-reset'; readonly name: string; readonly uid: string; readonly operation: string }
);

/** A lasting fault, the result of a verb such as `stockout`, `quota` or `hold`. */
export interface FaultCondition {
  readonly key: string;
  readonly verb: string;
  /** As given to the verb; `*` means everything. */
  readonly target: string;
  readonly options: Readonly<Record<string, string | number | boolean>>;
  readonly since: Instant;
  /** Null until it is cleared. */
  readonly until: Instant | null;
  /** The number of remaining uses; null without limit. */
  readonly remaining: number | null;
}

export interface BillRecord {
  readonly name: string;
  readonly id: string;
  readonly project: string;
  readonly zone: string;
  readonly type: string;
  readonly pricing: 'spot' | 'ondemand' | 'reserved';
  /** READY time up to `since`, in milliseconds of this machine. */
  readonly readyMs: Duration;
  /** The start of the current READY period; null while the node is not READY. */
  readonly since: Instant | null;
  /** True when the node was preempted within its first minute, which Google does not charge. */
  readonly free: boolean;
}

/** A project in Compute: the metadata that all its machines share. */
export interface ProjectRecord {
  readonly name: string;
  readonly items: readonly { readonly key: string; readonly value: string }[];
  /** The number of changes so far; the fingerprint is derived from it. */
  readonly changes: number;
}
