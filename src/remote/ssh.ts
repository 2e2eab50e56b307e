// SSH in process: one pooled connection per host, opened on first use and reopened on demand; a dead connection is noticed
// within ten seconds. No process per host and no blocked event loop; the system's ssh is only asked for the
// user's configuration and for the line through a jump host.

import type { Duplex } from 'node:stream';
import type { Client, ClientChannel } from 'ssh2';
import { textOf } from '../app/errors.ts';
import type { Session, SessionRequest } from '../app/by-hand.ts';
import { second, type Duration } from '../core/time.ts';
import { createHostKeys } from './ssh-keys.ts';
import { createConnector, hearQuiet, keyFilesOf, type Connection, type Problem } from './ssh-connection.ts';
import type { SshConfig, SshDefaults } from './ssh-config.ts';
import { runOver, sessionOver, streamOver, type Shell } from './ssh-channel.ts';
import type { Transport } from './transport.ts';

export interface SshTarget {
  readonly host: string;
  /** Null: as the user's configuration says, else 22. */
  readonly port: number | null;
  /** Null: as the user's configuration says, else the user that jobman runs as. */
  readonly user: string | null;
  /** The private key file to log in with. Null: those of the configuration. The agent's keys are tried after it. */
  readonly keyFile: string | null;
  /**
   * For a machine that existed before jobman knew it: the user's own keys are tried after `keyFile` (userKeyFiles), and
   * the text says how the machine learns a key, for the message when it accepts none.
   */
  readonly existing?: { readonly addKey: string };
  /**
   * The name that the host's key is pinned under, from letters, digits and `_.-`: one for each worker of each allocation,
   * since a new allocation is a new machine, perhaps on an old address.
   */
  readonly pin: string;
  /** Keys (`type base64`) of which the host must show one, when its maker has told them; empty pins the first that comes. */
  readonly hostKeys: readonly string[];
  readonly userConfig: boolean;
}

export interface SshTransport extends Transport {
  /** Runs a program while we listen. `entry` is what the login shell is asked to become; null means a plain sh. */
  session(request: Omit<SessionRequest, 'inside'>, entry: string | null): Session;
  /**
   * A connection to a port of that machine's own loopback address; it counts as one of the connection's sessions until it
   * is closed. `isReached` says whether the machine itself answered.
   */
  tunnel(port: number): Promise<Duplex | Refused>;
}

export interface SshPool {
  /** The way to that machine. Makes no connection by itself. Equal targets share one. */
  transport(target: SshTarget): SshTransport;
  /** The user's ssh_config about that machine, or the defaults. Asks the system's ssh, not the machine. */
  config(target: SshTarget): Promise<SshConfig>;
  /** The key files to try on that machine, in order. Not all of them need exist. */
  keyFiles(target: SshTarget): Promise<readonly string[]>;
  /** Closes the connections whose pin's name begins so, and forgets the pins when the machines are gone for good. */
  forget(pinPrefix: string, options: { readonly pins: boolean }): void;
  close(): void;
}

export interface SshPoolOptions extends SshDefaults {
  readonly home: string;
  readonly connectingMost?: number;
  readonly idleMs?: Duration;
}

/** sshd allows ten sessions on a connection unless told otherwise (MaxSessions of sshd_config). */
const channelsMost = 8;

interface Line {
  readonly target: SshTarget;
  readonly connections: Connection[];
  opening: Promise<Connection | Problem> | undefined;
}

/** Why there is no channel. `isReached`: the machine itself refused it. */
interface Refused extends Problem {
  readonly isReached: boolean;
}

type Connect = (line: Line) => Promise<Connection | Problem>;

async function take(line: Line, connect: Connect, tries = 3): Promise<Connection | Problem> {
  const free = line.connections.find(({ isOpen, isQuiet, channels }) => isOpen && !isQuiet && channels < channelsMost);
  if (free !== undefined) {
    free.channels += 1;
    clearTimeout(free.idle);
    return free;
  }
  line.opening ??= connect(line).finally(() => {
    line.opening = undefined;
  });
  const opened = await line.opening;
  if ('problem' in opened) return opened;
  // Others waited for the same one, and it may be full by now, or closed again by a host that wants nobody.
  if (tries === 0)
    return { problem: opened.why === '' ? `${line.target.host} has no room for another session` : opened.why };
  return take(line, connect, opened.isOpen ? tries : tries - 1);
}

function giveBack(connection: Connection, idleMs: Duration): void {
  connection.channels -= 1;
  if (connection.channels > 0 || !connection.isOpen) return;
  connection.idle = setTimeout(() => {
    connection.isOpen = false;
    connection.client.end();
  }, idleMs);
  // An unused connection keeps no process alive by its timer.
  connection.idle.unref();
}

/** Opens a channel in the room that was taken on that connection; the room is given back when the channel closes. */
function openChannel(
  connection: Connection,
  idleMs: Duration,
  begin: (client: Client, done: (error: Error | undefined, channel: ClientChannel) => void) => void,
): Promise<ClientChannel | Refused> {
  return new Promise((resolve) => {
    const fail = (error: unknown): void => {
      giveBack(connection, idleMs);
      const isReached = connection.isOpen;
      resolve({ problem: isReached ? textOf(error) : connection.why, isReached });
    };
    try {
      begin(connection.client, (error, channel) => {
        if (error !== undefined) {
          fail(error);
          return;
        }
        channel.once('close', () => giveBack(connection, idleMs));
        resolve(channel);
      });
    } catch (error) {
      fail(error);
    }
  });
}

export function createSshPool(options: SshPoolOptions): SshPool {
  const hostKeys = createHostKeys(options.home);
  const connector = createConnector(hostKeys, { ...options, connectingMost: options.connectingMost ?? 16 });
  const idleMs = options.idleMs ?? 60 * second;
  const lines = new Map<string, Line>();
  let isClosed = false;

  async function connect(line: Line): Promise<Connection | Problem> {
    if (isClosed) return { problem: 'jobman is ending' };
    const isHurried = line.connections.some((connection) => connection.isQuiet);
    const opened = await connector.connect(line.target, isHurried);
    if ('problem' in opened || !opened.isOpen) return opened;
    line.connections.push(opened);
    opened.client.on('close', () => {
      const at = line.connections.indexOf(opened);
      if (at >= 0) line.connections.splice(at, 1);
    });
    return opened;
  }

  async function openShell(
    line: Line,
    // The login shell's part is over with this: whatever shell the account has, it becomes sh.
    entry = 'exec /bin/sh -s',
    tries = 2,
  ): Promise<Shell | Problem> {
    const connection = await take(line, connect);
    if ('problem' in connection) return connection;
    const opening = openChannel(connection, idleMs, (client, done) => client.exec(entry, done));
    let unhear = (): void => undefined;
    const quiet = new Promise<'quiet'>((resolve) => {
      unhear = hearQuiet(connection, () => resolve('quiet'));
    });
    const channel = await Promise.race([opening, quiet]).finally(unhear);
    if (channel === 'quiet') {
      // The program has not been sent, so another connection may serve as well.
      void opening.then((late) => 'problem' in late || late.close());
      return tries > 1 ? openShell(line, entry, tries - 1) : { problem: `${line.target.host} has stopped answering` };
    }
    if (!('problem' in channel)) return { channel, connection };
    return {
      problem: channel.isReached ? `${line.target.host} opened no session: ${channel.problem}` : channel.problem,
    };
  }

  async function openTunnel(line: Line, port: number): Promise<Duplex | Refused> {
    const connection = await take(line, connect);
    if ('problem' in connection) return { ...connection, isReached: false };
    return openChannel(connection, idleMs, (client, done) => {
      client.forwardOut('127.0.0.1', 0, '127.0.0.1', port, done);
    });
  }

  /** Looked up for each call: a line that was forgotten in between is made anew. */
  function lineTo(target: SshTarget): Line {
    const key = JSON.stringify(target);
    const line = lines.get(key) ?? { target, connections: [], opening: undefined };
    lines.set(key, line);
    return line;
  }

  function transport(target: SshTarget): SshTransport {
    return {
      run: (request) => runOver(target.host, () => openShell(lineTo(target)), request),
      stream: (request) => streamOver(target.host, () => openShell(lineTo(target)), request),
      session: (request, entry) => sessionOver(() => openShell(lineTo(target), entry ?? undefined), request),
      tunnel: (port) => openTunnel(lineTo(target), port),
    };
  }

  return {
    transport,
    config: (target) => connector.config(target),
    keyFiles: async (target) => keyFilesOf(target, await connector.config(target), options.userHome),
    forget(pinPrefix, { pins }) {
      for (const [key, line] of lines) {
        if (!line.target.pin.startsWith(pinPrefix)) continue;
        for (const connection of line.connections) connection.client.end();
        lines.delete(key);
      }
      // A file that cannot be removed is forgotten at the next try; a pin too many harms nobody.
      if (pins) hostKeys.forget(pinPrefix).catch(() => undefined);
    },
    close() {
      isClosed = true;
      connector.close();
      for (const line of lines.values()) {
        for (const connection of line.connections) {
          connection.why = 'jobman is ending';
          connection.client.destroy();
        }
      }
      lines.clear();
    },
  };
}
