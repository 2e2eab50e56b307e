import type { Duration, Instant } from '../core/model/time.ts';

/** The emulator's source of time. A test may pass a clock that it advances itself. */
export interface EmulatorClock {
  now(): Instant;
  /** Calls back once, after `length` milliseconds. The returned function cancels the call. */
  after(length: Duration, call: () => void): () => void;
}

export interface EmulatorOptions {
  /** The port of the API on 127.0.0.1. Default: the previous run's port if it is free, else any. */
  readonly port?: number;
  /** The SSH port that all workers share. Default: the previous run's port if it is free, else any. */
  readonly sshPort?: number;
  /** The workers' SSH server. Default: the setting of an emulator killed in this folder, else `process`. */
  readonly hosts?: 'process' | 'sshd';
  /** Google's gcsfuse; needs mount namespaces and /dev/fuse. Default: as before a kill, else the emulator's own. */
  readonly gcsfuse?: string;
  /** The seed of all random draws; 1 when absent. A restart continues the sequence of draws. */
  readonly seed?: number;
  /** Relative to Google's cloud. Default: the speed of an emulator killed in this folder, else `defaultSpeed`. */
  readonly speed?: number;
  /** 1 when absent; see `embeddedSpeed`. */
  readonly defaultSpeed?: number;
  /** The folder of all data: state, hosts, buckets. Created when missing; one emulator at a time. */
  readonly stateDir: string;
  readonly clock?: EmulatorClock;
  /** The path of a fault schedule; docs/emulator.md has the format. */
  readonly schedule?: string;
  /** Receives one sentence per event, without a line end. */
  readonly log?: (line: string) => void;
  /** Hosts get PATH, LANG and TZ from this environment, and nothing else. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** `none`: one folder per worker. `auto`: Linux namespaces if they can be created, else `none`. */
  readonly isolation?: 'auto' | 'namespaces' | 'none';
}

export interface Emulator {
  /** `http://127.0.0.1:PORT`, without a slash at the end. */
  readonly url: string;
  readonly sshPort: number;
  /**
   * Start of the idle time, with no resource, scheduled fault or request for a change; null while not idle. Reads do
   * not count, because closing an empty emulator costs their clients nothing.
   */
  idleSince(): Instant | null;
  /** Ends all hosts and frees the ports. The state stays in the folder, and a later start continues with it. */
  close(): Promise<void>;
}

export interface AdminReply {
  readonly message: string;
  readonly [field: string]: unknown;
}

/** The speed of the emulator that jobman starts itself: a node is ready in two to three seconds. */
export const embeddedSpeed = 40;

/** A refused option or admin verb. The message is for people. */
export class EmulatorError extends Error {
  override readonly name = 'EmulatorError';
  /**
   * The HTTP status: 400 invalid option, 404 no such target or verb, 409 not possible now, also because another emulator uses the
   * state folder, 500 the emulator cannot start here, 504 it hangs; 0 no answer.
   */
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}
