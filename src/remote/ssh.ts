// SSH in process: one pooled connection per host, opened when first needed, noticed within ten seconds when its line is
// dead, opened again on demand. No process per host and no blocked event loop; the system's ssh is only asked for the
// user's configuration and for the line through a jump host.

import { connect as connectTcp } from 'node:net';
import type { Duplex } from 'node:stream';
import type * as Ssh2Module from 'ssh2';
import type { AnyAuthMethod, Client, ClientChannel, ConnectConfig, ServerHostKeyAlgorithm } from 'ssh2';
import type { Session, SessionRequest } from '../app/by-hand.ts';
import { second } from '../core/time.ts';
import type { Duration } from '../core/time.ts';
import { createGate } from './fanout.ts';
import { gatherWrites } from './gather-writes.ts';
import { createHostKeys, fingerprint, keyFromWire } from './host-keys.ts';
import type { HostKeys } from './host-keys.ts';
import { keepFirst } from './keep-first.ts';
import { processAsStream } from './process.ts';
import { textOf } from './text-of.ts';
import { createSshConfigs, plainSshConfig } from './ssh-config.ts';
import type { SshConfig, SshDefaults } from './ssh-config.ts';
import { loadKey } from './ssh-keys.ts';
import { sessionOver } from './ssh-session.ts';
import { afterBeginMark, asProgram } from './transport.ts';
import type { RunRequest, RunResult, StreamRequest, Transport } from './transport.ts';

/** One machine, and how to log in there. */
export interface SshTarget {
  readonly host: string;
  /** Null: as the user's configuration says, else 22. */
  readonly port: number | null;
  /** Null: as the user's configuration says, else the user that jobman runs as. */
  readonly user: string | null;
  /** The private key file to log in with. Null: those of the configuration. The agent's keys are tried after it. */
  readonly keyFile: string | null;
  /**
   * The name that the host's key is pinned under, from letters, digits and `_.-`: one for each worker of each allocation,
   * since a new allocation is a new machine, perhaps on an old address.
   */
  readonly pin: string;
  /** Keys (`type base64`) of which the host must show one, when its maker has told them; empty pins the first that comes. */
  readonly hostKeys: readonly string[];
  /** Whether the user's ssh_config has a say. False for the built-in cloud. */
  readonly userConfig: boolean;
}

/** What SSH offers beside scripts. */
export interface SshTransport extends Transport {
  /** Runs a program while we listen. `entry` is what the login shell is asked to become; null means a plain sh. */
  session(request: Omit<SessionRequest, 'inside'>, entry: string | null): Session;
  /**
   * A connection to a port of that machine's own loopback address; it counts as one of the connection's sessions until it
   * is closed. `isReached` says whether the machine itself answered.
   */
  tunnel(port: number): Promise<Duplex | { readonly problem: string; readonly isReached: boolean }>;
}

export interface SshPool {
  /** The way to that machine. Makes no connection by itself. Equal targets share one. */
  transport(target: SshTarget): SshTransport;
  /** Closes the connections whose pin's name begins so, and forgets the pins when the machines are gone for good. */
  forget(pinPrefix: string, options: { readonly pins: boolean }): void;
  /** Closes everything; what is under way is dropped. */
  close(): void;
}

export interface SshPoolOptions extends SshDefaults {
  /** `$JOBMAN_HOME`: pinned host keys are kept below it. */
  readonly home: string;
  /** How many hosts may shake hands at once. */
  readonly connectingMost?: number;
  /** An idle connection is closed after this time. */
  readonly idleMs?: Duration;
}

/** TCP and the handshake each get less than the eight seconds of a look, so that the look can say what was wrong. */
const tcpTimeout: Duration = 6 * second;
const handshakeTimeout: Duration = 7 * second;
/**
 * A ping each three seconds, and the line is dead when the third finds two unanswered: nine seconds after its last sign
 * of life. Pings stop when an idle connection is closed.
 */
const pingInterval: Duration = 3 * second;
const pingsUnanswered = 2;
/** sshd allows ten sessions on a connection unless told otherwise (MaxSessions of sshd_config). */
const channelsMost = 8;

/**
 * curve25519 first: it costs a tenth of the processor time of the others. Both its names are one method.
 */
const keyExchange = [
  'curve25519-sha256',
  'curve25519-sha256@libssh.org',
  'ecdh-sha2-nistp256',
  'ecdh-sha2-nistp384',
  'ecdh-sha2-nistp521',
  'diffie-hellman-group-exchange-sha256',
  'diffie-hellman-group16-sha512',
  'diffie-hellman-group14-sha256',
] as const;

const hostKeyTypes: readonly ServerHostKeyAlgorithm[] = [
  'ssh-ed25519',
  'ecdsa-sha2-nistp256',
  'ecdsa-sha2-nistp384',
  'ecdsa-sha2-nistp521',
  'rsa-sha2-512',
  'rsa-sha2-256',
];

type Ssh2 = typeof Ssh2Module;

interface Connection {
  readonly client: Client;
  channels: number;
  isOpen: boolean;
  /** Why it ended, for whoever is on it; empty while it is well. */
  why: string;
  idle: NodeJS.Timeout | undefined;
}

interface Line {
  readonly target: SshTarget;
  readonly connections: Connection[];
  opening: Promise<Connection | { readonly problem: string }> | undefined;
}

export function createSshPool(options: SshPoolOptions): SshPool {
  const hostKeys = createHostKeys(options.home);
  const configs = createSshConfigs(options);
  const gate = createGate(options.connectingMost ?? 16);
  const idleMs = options.idleMs ?? 60 * second;
  const lines = new Map<string, Line>();
  /** Those that shake hands now, to be ended with the pool. */
  const shaking = new Set<Client>();
  let loaded: Promise<Ssh2> | undefined;
  let isClosed = false;

  async function open(line: Line): Promise<Connection | { readonly problem: string }> {
    const { target } = line;
    if (!/^[A-Za-z0-9_][A-Za-z0-9_.:%-]*$/u.test(target.host)) return { problem: `${target.host} is no host name` };
    loaded ??= import('ssh2').then((module) => ('default' in module ? (module.default as Ssh2) : module));
    const ssh2 = await loaded;
    const question = { host: target.host, port: target.port, user: target.user };
    const config = target.userConfig ? await configs(question) : plainSshConfig(question, options);
    const login = await loginMethods(target, config, ssh2);
    if (login.methods.length === 0) {
      return {
        problem: `there is no key to log in on ${config.host} with: ${login.notes.join('; ') || 'no key file and no agent'}`,
      };
    }
    let pinned: string | undefined;
    try {
      pinned = await hostKeys.pinned(target.pin);
    } catch (error) {
      return { problem: `the pinned host key of ${config.host} cannot be read: ${textOf(error)}` };
    }
    // A host that is down must not stand in the way of those that answer: only the handshake has to wait for its turn.
    const socket = await openSocket(config);
    if ('problem' in socket) return socket;
    // A line that breaks while it waits for its turn is noticed at the handshake.
    socket.stream.on('error', () => undefined);
    return gate(() => handshake(ssh2, line, { config, login, pinned, socket }));
  }

  function handshake(
    ssh2: Ssh2,
    line: Line,
    way: { config: SshConfig; login: Login; pinned: string | undefined; socket: Socket },
  ): Promise<Connection | { readonly problem: string }> {
    const { target } = line;
    const { config, login, pinned, socket } = way;
    const client = new ssh2.Client();
    const connection: Connection = {
      client,
      channels: 0,
      isOpen: false,
      why: '',
      idle: undefined,
    };
    const accepted = pinned === undefined ? target.hostKeys : [pinned];
    let shown: string | undefined;
    let keyProblem: string | undefined;
    let isOver = false;
    shaking.add(client);
    return new Promise((resolve) => {
      // The program that makes the line knows better what was wrong with it than the line's end here.
      const fail = async (): Promise<void> => {
        const said = await socket.words();
        socket.stream.destroy();
        resolve({ problem: said === '' ? connection.why : `${connection.why} (${said})` });
      };
      client.on('error', (error) => {
        connection.isOpen = false;
        connection.why = problemOf(error, { config, login, keyProblem });
        void fail();
      });
      client.on('close', () => {
        isOver = true;
        shaking.delete(client);
        connection.isOpen = false;
        if (connection.why === '') connection.why = `${config.host} closed the connection`;
        clearTimeout(connection.idle);
        const at = line.connections.indexOf(connection);
        if (at >= 0) line.connections.splice(at, 1);
        void fail();
      });
      client.on('ready', () => {
        void pinShown(hostKeys, target.pin, shown ?? '').then((problem) => {
          if (problem !== undefined || isClosed) {
            connection.why = problem ?? 'jobman is ending';
            client.destroy();
            return;
          }
          // The host may have closed it while the key was being pinned.
          if (isOver) return;
          shaking.delete(client);
          connection.isOpen = true;
          line.connections.push(connection);
          resolve(connection);
        });
      });
      const settings: ConnectConfig = {
        sock: socket.stream,
        username: config.user,
        // The declared type lacks the list of methods which ssh2's own documentation shows.
        authHandler: login.methods as never,
        readyTimeout: handshakeTimeout,
        keepaliveInterval: pingInterval,
        keepaliveCountMax: pingsUnanswered,
        algorithms: { kex: [...keyExchange], serverHostKey: orderedTypes(accepted) },
        hostVerifier: (bytes: Buffer): boolean => {
          shown = keyFromWire(bytes);
          if (accepted.length === 0 || accepted.includes(shown)) return true;
          keyProblem =
            pinned === undefined
              ? `${config.host} shows the host key ${fingerprint(shown)}, which is not the one that it was made with; nothing was sent`
              : `the host key of ${config.host} has changed within one allocation: pinned is ${fingerprint(pinned)}, shown is ${fingerprint(shown)}; ` +
                `nothing was sent. If you know why it changed, remove ${hostKeys.file(target.pin)}`;
          return false;
        },
      };
      try {
        client.connect(settings);
      } catch (error) {
        connection.why = textOf(error);
        void fail();
      }
    });
  }

  /** A connection with room for one more channel, with that room taken. */
  async function take(line: Line, tries = 3): Promise<Connection | { readonly problem: string }> {
    if (isClosed) return { problem: 'jobman is ending' };
    const free = line.connections.find((connection) => connection.isOpen && connection.channels < channelsMost);
    if (free !== undefined) {
      free.channels += 1;
      clearTimeout(free.idle);
      return free;
    }
    if (line.opening === undefined) {
      line.opening = open(line).finally(() => {
        line.opening = undefined;
      });
    }
    const opened = await line.opening;
    if ('problem' in opened) return opened;
    // Others waited for the same one, and it may be full by now, or closed again by a host that wants nobody.
    if (tries === 0)
      return { problem: opened.why === '' ? `${line.target.host} has no room for another session` : opened.why };
    return take(line, opened.isOpen ? tries : tries - 1);
  }

  function giveBack(connection: Connection): void {
    connection.channels -= 1;
    if (connection.channels > 0 || !connection.isOpen) return;
    connection.idle = setTimeout(() => {
      connection.isOpen = false;
      connection.client.end();
    }, idleMs);
    // A connection that nobody uses keeps no process alive by its timer.
    connection.idle.unref();
  }

  /** A shell on that machine, ready for a program on its standard input. */
  async function openShell(
    line: Line,
    // The login shell's part is over with this: whatever shell the account has, it becomes sh.
    entry = 'exec /bin/sh -s',
  ): Promise<{ channel: ClientChannel; connection: Connection } | { problem: string }> {
    const connection = await take(line);
    if ('problem' in connection) return connection;
    return new Promise((resolve) => {
      const fail = (error: unknown): void => {
        giveBack(connection);
        resolve({
          problem: connection.isOpen ? `${line.target.host} opened no session: ${textOf(error)}` : connection.why,
        });
      };
      try {
        connection.client.exec(entry, (error, channel) => {
          if (error !== undefined) {
            fail(error);
            return;
          }
          channel.once('close', () => {
            giveBack(connection);
          });
          resolve({ channel, connection });
        });
      } catch (error) {
        fail(error);
      }
    });
  }

  async function openTunnel(
    line: Line,
    port: number,
  ): Promise<Duplex | { readonly problem: string; readonly isReached: boolean }> {
    const connection = await take(line);
    if ('problem' in connection) return { ...connection, isReached: false };
    return new Promise((resolve) => {
      const fail = (error: unknown): void => {
        giveBack(connection);
        const isReached = connection.isOpen;
        resolve({ problem: isReached ? textOf(error) : connection.why, isReached });
      };
      try {
        connection.client.forwardOut('127.0.0.1', 0, '127.0.0.1', port, (error, channel) => {
          if (error !== undefined) {
            fail(error);
            return;
          }
          channel.once('close', () => {
            giveBack(connection);
          });
          resolve(channel);
        });
      } catch (error) {
        fail(error);
      }
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
      run: (request) => runOver(target, () => openShell(lineTo(target)), request),
      stream: (request) => streamOver(() => openShell(lineTo(target)), request),
      session: (request, entry) =>
        sessionOver(async () => {
          const shell = await openShell(lineTo(target), entry ?? undefined);
          return 'problem' in shell ? shell : { channel: shell.channel, why: () => shell.connection.why };
        }, request),
      tunnel: (port) => openTunnel(lineTo(target), port),
    };
  }

  return {
    transport,
    forget(pinPrefix, { pins }) {
      for (const [key, line] of lines) {
        if (!line.target.pin.startsWith(pinPrefix)) continue;
        for (const connection of line.connections) connection.client.end();
        lines.delete(key);
      }
      // What cannot be removed is forgotten at the next try; a pin too many harms nobody.
      if (pins) hostKeys.forget(pinPrefix).catch(() => undefined);
    },
    close() {
      isClosed = true;
      for (const client of shaking) client.destroy();
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

type OpenShell = () => Promise<{ channel: ClientChannel; connection: Connection } | { problem: string }>;

async function runOver(target: SshTarget, openShell: OpenShell, request: RunRequest): Promise<RunResult> {
  return new Promise((resolve) => {
    let sent = false;
    let isOver = false;
    let channel: ClientChannel | undefined;
    const finish = (result: RunResult): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      resolve(result);
    };
    const timer = setTimeout(() => {
      const reason = `${target.host} did not answer within ${Math.round(request.timeoutMs / second)} s`;
      finish({ kind: 'no_answer', reason, sent, timedOut: true });
      channel?.close();
    }, request.timeoutMs);
    void openShell().then((shell) => {
      if ('problem' in shell) {
        finish({ kind: 'no_answer', reason: shell.problem, sent: false, timedOut: false });
        return;
      }
      if (isOver) {
        shell.channel.close();
        return;
      }
      ({ channel } = shell);
      const kept = { stdout: keepFirst(request.outputMost), stderr: keepFirst(request.outputMost) };
      const whole = receive(channel, {
        async stdout(chunk) {
          kept.stdout.add(chunk);
          if (!isOver) await request.onOutput?.(chunk);
        },
        stderr: (chunk) => {
          kept.stderr.add(chunk);
        },
      });
      sent = true;
      channel.end(asProgram(request.script));
      void whole.then((exitCode) => {
        if (exitCode === undefined) {
          finish({ kind: 'no_answer', reason: shell.connection.why, sent: true, timedOut: false });
          return;
        }
        finish({
          kind: 'ended',
          exitCode,
          stdout: kept.stdout.bytes(),
          stderr: kept.stderr.bytes(),
          cut: kept.stdout.isCut() || kept.stderr.isCut(),
        });
      });
    });
  });
}

function streamOver(openShell: OpenShell, request: StreamRequest): () => void {
  let isOff = false;
  let channel: ClientChannel | undefined;
  void openShell().then((shell) => {
    if ('problem' in shell) {
      if (!isOff) request.onEnd({ kind: 'dropped', reason: shell.problem });
      return;
    }
    ({ channel } = shell);
    if (isOff) {
      channel.close();
      return;
    }
    const words = keepFirst(4_096);
    const whole = receive(channel, {
      async stdout(chunk) {
        if (!isOff) await request.onBytes(chunk);
      },
      stderr: (chunk) => {
        words.add(chunk);
      },
    });
    // The input stays open: its end is how the script there learns that we have gone.
    channel.write(asProgram(request.script));
    void whole.then((exitCode) => {
      if (isOff) return;
      if (exitCode === undefined) request.onEnd({ kind: 'dropped', reason: shell.connection.why });
      else request.onEnd({ kind: 'ended', exitCode, stderr: new TextDecoder().decode(words.bytes()) });
    });
  });
  return () => {
    isOff = true;
    channel?.close();
  };
}

/**
 * Takes a channel's output, one chunk at a time: while one is awaited no more is asked of the host. Resolves when all
 * was taken, with the exit code, or undefined when the line broke before there was one. 128 stands for a shell that was
 * itself ended by a signal.
 */
function receive(
  channel: ClientChannel,
  taker: { stdout(chunk: Uint8Array): Promise<void>; stderr(chunk: Uint8Array): void },
): Promise<number | undefined> {
  const body = afterBeginMark();
  let exitCode: number | undefined;
  let taking: Promise<void> = Promise.resolve();
  channel.on('data', (chunk: Buffer) => {
    const bytes = body(chunk);
    if (bytes.length === 0) return;
    channel.pause();
    taking = taking
      .then(() => taker.stdout(bytes))
      .finally(() => {
        channel.resume();
      });
  });
  channel.stderr.on('data', (chunk: Buffer) => {
    taker.stderr(chunk);
  });
  channel.on('exit', (code: number | null) => {
    exitCode = code ?? 128;
  });
  channel.on('error', () => undefined);
  return new Promise((resolve, reject) => {
    channel.once('close', () => {
      taking.then(() => {
        resolve(exitCode);
      }, reject);
    });
  });
}

interface Login {
  readonly methods: readonly AnyAuthMethod[];
  /** Why a key was not tried. */
  readonly notes: readonly string[];
}

async function loginMethods(target: SshTarget, config: SshConfig, ssh2: Ssh2): Promise<Login> {
  const methods: AnyAuthMethod[] = [];
  const notes: string[] = [];
  const files = target.keyFile === null ? config.keyFiles : [target.keyFile];
  for (const file of files) {
    const loaded = await loadKey(file, (text) => {
      const parsed = ssh2.utils.parseKey(text);
      return Array.isArray(parsed) ? (parsed[0] ?? new Error('no key in it')) : parsed;
    });
    if (loaded === undefined) {
      if (target.keyFile !== null) notes.push(`there is no key file ${file}`);
    } else if ('problem' in loaded) notes.push(loaded.problem);
    else methods.push({ type: 'publickey', username: config.user, key: loaded.key });
  }
  if (config.certificates.length > 0) {
    notes.push(
      `the certificate ${config.certificates.join(', ')} can be used only through an agent: add its key with ssh-add`,
    );
  }
  if (config.agent !== null) methods.push({ type: 'agent', username: config.user, agent: config.agent });
  return { methods, notes };
}

interface Socket {
  readonly stream: Duplex;
  /** What the program that makes the line has said so far. */
  readonly words: () => Promise<string>;
}

function openSocket(config: SshConfig): Promise<Socket | { readonly problem: string }> {
  if (config.proxy !== null) return Promise.resolve(processAsStream(config.proxy));
  return new Promise((resolve) => {
    const socket = connectTcp({ host: config.host, port: config.port, noDelay: true });
    const at = `${config.host}:${config.port}`;
    const timer = setTimeout(() => {
      socket.destroy();
      resolve({ problem: `${at} does not answer` });
    }, tcpTimeout);
    gatherWrites(socket);
    socket.once('connect', () => {
      clearTimeout(timer);
      resolve({ stream: socket, words: () => Promise.resolve('') });
    });
    socket.once('error', (error) => {
      clearTimeout(timer);
      resolve({
        problem: /ECONNREFUSED/u.test(error.message)
          ? `${at} refuses connections`
          : `${at} cannot be reached: ${error.message}`,
      });
    });
  });
}

/** Pins what was shown once the login has succeeded: before, nobody has proven to hold that key. */
async function pinShown(hostKeys: HostKeys, name: string, shown: string): Promise<string | undefined> {
  try {
    const pinned = await hostKeys.pin(name, shown);
    return pinned === shown
      ? undefined
      : `another host key was pinned for ${name} in the same moment: ${fingerprint(pinned)}`;
  } catch (error) {
    return `the host key cannot be pinned: ${textOf(error)}`;
  }
}

/** The accepted key's own type first, so that a host with several keys shows the one that is known. */
function orderedTypes(accepted: readonly string[]): ServerHostKeyAlgorithm[] {
  const known = accepted.map((key) => key.split(' ')[0]).map((type) => (type === 'ssh-rsa' ? 'rsa-sha2-512' : type));
  return hostKeyTypes.toSorted((a, b) => Number(known.includes(b)) - Number(known.includes(a)));
}

function problemOf(
  error: Error & { level?: string },
  facts: { config: SshConfig; login: Login; keyProblem: string | undefined },
): string {
  const { config, login } = facts;
  if (facts.keyProblem !== undefined) return facts.keyProblem;
  if (error.level === 'client-authentication') {
    const notes = login.notes.length === 0 ? '' : `; ${login.notes.join('; ')}`;
    return `${config.host} accepts none of our keys for ${config.user}${notes}`;
  }
  if (error.message === 'Keepalive timeout') return `${config.host} has stopped answering`;
  if (error.level === 'client-timeout') return `${config.host} did not finish the SSH handshake in time`;
  return `the connection to ${config.host} broke: ${error.message}`;
}
