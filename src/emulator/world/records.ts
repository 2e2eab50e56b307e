// The cloud's records. Every record is a value: it is replaced, never changed in place.

import type { Duration, Instant } from '../../core/time.ts';
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

/** One VM of a node. */
export interface WorkerRecord {
  readonly index: number;
  /** A loopback address of its own, 127.x.y.z. */
  readonly address: string;
  /** The host's private key (PEM), made once: it survives a reboot, not a new node. */
  readonly hostKey: string;
  /** The public half as an SSH base64 blob, which guest attributes publish. */
  readonly hostKeyPublic: string;
  /** Counts starts of the machine. Another number than the running one means: reboot. */
  readonly boot: number;
  /** False after `kill-host`: the cloud says READY, and nobody answers. */
  readonly power: boolean;
  /** True after `hang-host`: all processes stand still and connections stay silent. */
  readonly hung: boolean;
  /** True after `fill-disk`: nothing can be written there. Absent in a state that an earlier emulator wrote. */
  readonly diskFull?: boolean;
  /** True after `ssh-refuse`: the machine runs, and its SSH door takes no connection. Absent as above. */
  readonly sshRefused?: boolean;
  /** True from its own `reboot` until it is up again. Absent as above. */
  readonly rebooting?: boolean;
  /** The guest attributes that its programs wrote, by `namespace/key`; null for one that they deleted. Absent: none. */
  readonly guestAttributes?: Readonly<Record<string, string | null>>;
}

/** The troubles of a worker, as its record says them. */
export type HostTrouble = 'power' | 'hung' | 'diskFull' | 'sshRefused' | 'rebooting';

export interface NodeRecord {
  /** Full resource name, which is also the key. */
  readonly name: string;
  readonly project: string;
  readonly zone: string;
  readonly nodeId: string;
  /** int64 as text, new for each creation: tells a node from a later one of the same name. */
  readonly id: string;
  readonly createTime: Instant;
  readonly version: ApiVersion;
  /** The request, completed: every field of the message that is not below. */
  readonly asked: Data;
  readonly type: string;
  readonly state: NodeState;
  readonly health: 'HEALTHY' | 'UNHEALTHY_MAINTENANCE' | null;
  readonly queuedResource: string | null;
  readonly multislice: boolean;
  /** The eight digits in the workers' host names. */
  readonly hostHash: string;
  readonly workers: readonly WorkerRecord[];
  /** The operation that creates or starts it, until it has ended. */
  readonly operation: string | null;
  /** The maintenance that was announced or goes on. Absent in a state that an earlier emulator wrote. */
  readonly maintenance?: Maintenance | null;
}

/** Maintenance of a node, announced or going on. */
interface Maintenance {
  readonly type: 'SCHEDULED' | 'UNSCHEDULED';
  readonly from: Instant;
  readonly to: Instant;
  readonly status: 'PENDING' | 'ONGOING';
}

/** A worker with which nothing is the matter. A boot makes it so: whoever repairs the machine empties its disk. */
export const soundHost = { power: true, hung: false, diskFull: false, sshRefused: false, rebooting: false } as const;

/** States in which a node has machines that could be taken away. */
const livingStates: readonly NodeState[] = ['CREATING', 'READY', 'RESTARTING', 'REPAIRING', 'STARTING'];

/** True while a node has machines that could be taken away. */
export function isLiving(node: NodeRecord): boolean {
  return livingStates.includes(node.state);
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

export interface QueuedRecord {
  readonly name: string;
  readonly project: string;
  readonly zone: string;
  readonly queuedId: string;
  /** Tells it from a later one of the same name. */
  readonly uid: string;
  readonly createTime: Instant;
  readonly version: ApiVersion;
  readonly asked: Data;
  /** One for each node, with the whole of what was asked for it. */
  readonly nodes: readonly { readonly nodeId: string; readonly node: Data }[];
  readonly multislice: boolean;
  readonly state: QueuedState;
  readonly initiator: 'USER' | 'SERVICE';
  readonly error: RpcStatus | null;
  readonly validAfter: Instant | null;
  readonly validUntil: Instant | null;
  /** When what was asked for a limited time (flex-start) is taken back; set once it is ACTIVE. */
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

/** Something that is due at a moment. `id` of a node or `uid` of a queued resource keep it off a later namesake. */
export type Happening = { readonly key: string; readonly at: Instant } & (
  | { readonly kind: 'node-ready'; readonly name: string; readonly id: string }
  | { readonly kind: 'node-failed'; readonly name: string; readonly id: string; readonly error: RpcStatus }
  | { readonly kind: 'node-stopped'; readonly name: string; readonly id: string; readonly operation: string }
  | { readonly kind: 'node-gone'; readonly name: string; readonly id: string; readonly operation: string | null }
  | { readonly kind: 'node-back'; readonly name: string; readonly id: string; readonly operation: string | null }
  | { readonly kind: 'node-aged'; readonly name: string; readonly id: string }
  | { readonly kind: 'node-preempted'; readonly name: string; readonly id: string }
  | {
      readonly kind: 'host-back';
      readonly name: string;
      readonly id: string;
      readonly worker: number;
      /** The trouble that ends; without it, all of them. */
      readonly trouble?: HostTrouble;
    }
  | { readonly kind: 'operation-done'; readonly operation: string }
  | { readonly kind: 'operation-failed'; readonly operation: string; readonly error: RpcStatus }
  | { readonly kind: 'queued-accepted'; readonly name: string; readonly uid: string; readonly operation: string }
  | { readonly kind: 'queued-look'; readonly name: string; readonly uid: string }
  | { readonly kind: 'queued-settled'; readonly name: string; readonly uid: string; readonly error: RpcStatus | null }
  | { readonly kind: 'queued-gone'; readonly name: string; readonly uid: string; readonly operation: string }
  | { readonly kind: 'queued-over'; readonly name: string; readonly uid: string }
  | { readonly kind: 'node-maintained'; readonly name: string; readonly id: string; readonly from: Instant }
  | {
      readonly kind: 'rehearsal';
      readonly verb: string;
      readonly given: Readonly<Record<string, string | number | boolean>>;
      readonly every: readonly [atLeast: Duration, atMost: Duration] | null;
      /** From 0 to 1: how likely it is to happen when its moment comes. */
      readonly chance: number;
      /** Where the line's own chance stands. Absent in a state that an earlier emulator wrote. */
      readonly stream?: number;
    }
  | { readonly kind: 'queued-reset'; readonly name: string; readonly uid: string; readonly operation: string }
);

/** A standing piece of temper: what `stockout`, `quota`, `hold` and their like leave behind. */
export interface Condition {
  readonly key: string;
  readonly verb: string;
  /** As it was said; `*` means everything. */
  readonly target: string;
  readonly options: Readonly<Record<string, string | number | boolean>>;
  readonly since: Instant;
  /** Null means until it is cleared. */
  readonly until: Instant | null;
  /** How many more times it strikes; null means without limit. */
  readonly remaining: number | null;
}

/** The cost of one node, kept beyond its end. */
export interface BillRecord {
  readonly name: string;
  readonly id: string;
  readonly project: string;
  readonly zone: string;
  readonly type: string;
  readonly pricing: 'spot' | 'ondemand' | 'reserved';
  /** Milliseconds here that it was READY in, up to `since`. */
  readonly readyMs: Duration;
  /** Since when it is READY now; null while it is not. */
  readonly since: Instant | null;
  /** True once it was preempted within its first minute, for which Google takes nothing. */
  readonly free: boolean;
}

/** A project as Compute keeps it: the metadata that all its machines share. */
export interface ProjectRecord {
  readonly name: string;
  readonly items: readonly { readonly key: string; readonly value: string }[];
  /** Grows with each change; the fingerprint is made of it. */
  readonly changes: number;
}
