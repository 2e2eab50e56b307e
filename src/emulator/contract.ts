/**
 * The contract of the built-in cloud: its options, what a started one offers, and how its refusals look.
 * `start.ts` starts it inside this process, `serve.ts` makes it a program of its own, `admin.ts` talks to a running one.
 */
import type { Duration, Instant } from '../core/time.ts';

/** Where the emulator's time comes from. A test may hand in a clock that it moves by hand. */
export interface EmulatorClock {
  now(): Instant;
  /** Calls back once, after that many milliseconds. The returned function takes the wish back. */
  after(length: Duration, call: () => void): () => void;
}

export interface EmulatorOptions {
  /** The port of the API on 127.0.0.1. Without it: last time's port when it is free, else any. */
  readonly port?: number;
  /** The SSH port that all workers have in common. Without it: last time's port when it is free, else any. */
  readonly sshPort?: number;
  /**
   * The SSH server of the workers: one of the emulator's own (`process`), or OpenSSH's (`sshd`). Without it: as it
   * was when the emulator of this folder was killed, else `process`.
   */
  readonly hosts?: 'process' | 'sshd';
  /**
   * The path of Google's own gcsfuse, which workers then have in place of the built-in one; it needs mount namespaces and
   * /dev/fuse. Without it: as it was when the emulator of this folder was killed, else none.
   */
  readonly gcsfuse?: string;
  /** All chance is drawn from it; the draws go on where they stopped after a restart. 1 when absent. */
  readonly seed?: number;
  /** How many times faster than Google's cloud things happen. Without it: as when it was killed, else `usualSpeed`. */
  readonly speed?: number;
  /** 1 when absent; see `embeddedSpeed`. */
  readonly usualSpeed?: number;
  /** The folder that holds everything: state, hosts, buckets. Made when it does not exist; one emulator at a time. */
  readonly stateDir: string;
  readonly clock?: EmulatorClock;
  /** A rehearsal file: verbs that are done at moments written down beforehand. See docs/built-in-cloud.md. */
  readonly schedule?: string;
  /** Told one sentence, without a line end, about each thing that happens. */
  readonly log?: (line: string) => void;
  /** Of this environment hosts get PATH, LANG and TZ; nothing else leaks into them. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /**
   * How a process host is kept apart from the machine. `auto`: Linux namespaces where they can be made, else `none`.
   * `none`: one folder per worker, and a mark in the environment of its processes.
   */
  readonly isolation?: 'auto' | 'namespaces' | 'none';
}

/** A running emulator. */
export interface Emulator {
  /** `http://127.0.0.1:PORT`, without a slash at the end. */
  readonly url: string;
  readonly sshPort: number;
  /**
   * Since when nothing exists here, nothing is on a rehearsal's agenda, and nobody asked for a change; null while
   * something does. Whoever only looks finds nothing, and may as well find nobody.
   */
  restingSince(): Instant | null;
  /** Ends all hosts and frees the ports. The state stays in the folder: a later start goes on with it. */
  close(): Promise<void>;
}

/** The effect of an admin verb, in a sentence for people and as data. */
export interface AdminReply {
  readonly message: string;
  readonly [field: string]: unknown;
}

/** The speed of the cloud that jobman starts by itself: a node is ready in two to three seconds. */
export const embeddedSpeed = 40;

/** The admin door said no. The message is a sentence that names what there is instead. */
export class EmulatorRefusal extends Error {
  override readonly name = 'EmulatorRefusal';
  /** The HTTP status: 400 a wrong option, 404 no such target or verb, 409 not possible now; 0 nobody answered. */
  readonly status: number;

  constructor(status: number, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}
