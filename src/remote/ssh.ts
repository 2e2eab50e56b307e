// SSH in process: pooled connections per host, opened on first use and reopened on demand. A dead connection is noticed
// within ten seconds. Over one channel runs a script to its end, a script with followed output, or a session. There is
// no process per host and no blocked event loop; the system's ssh only reads the user's configuration and connects
// through a jump host.

import type { Duplex } from 'node:stream';
import type { Client, ClientChannel } from 'ssh2';
import type { Session, SessionEnd, SessionRequest, TerminalSize } from '../app/worker-access.ts';
import { messageOf } from '../app/errors.ts';
import { second, type Duration } from '../core/model/time.ts';
import { createOutputBuffer } from './process.ts';
import { maxDataBytes } from '../api/worker-stream.ts';
import { sessionScript, stopTimeoutMs, sessionCommands } from './session.ts';
import type { SshConfig, SshDefaults } from './ssh-config.ts';
import {
  closedReason,
  createConnector,
  onSilence,
  keyFilesOf,
  type Connection,
  type Problem,
} from './ssh-connection.ts';
import { createHostKeys } from './ssh-keys.ts';
import {
  skipToBeginMarker,
  wrapScript,
  type RunRequest,
  type RunResult,
  type StreamRequest,
  type Transport,
} from './transport.ts';

export interface SshTarget {
  readonly host: string;
  /** Null: from the user's configuration, else 22. */
  readonly port: number | null;
  /** Null: the user of the configuration, else the login that jobman runs as. */
  readonly user: string | null;
  /** The private key file. Null: the key files of the configuration. The agent's keys are tried after it. */
  readonly keyFile: string | null;
  /** For a machine not made by jobman: the user's own keys are tried too. `addKey` is the advice in messages. */
  readonly existing?: { readonly addKey: string };
  /** Pins the host's key. One name (letters, digits, `_.-`) per worker and allocation: addresses are reused. */
  readonly pinName: string;
  /** The host must show one of these keys (`type base64`). If empty, the first key is pinned. */
  readonly hostKeys: readonly string[];
  readonly usesUserConfig: boolean;
  /** The key must be in the user's known_hosts files, and nothing is pinned. */
  readonly verifiesKnownHosts?: true;
}

export interface SshTransport extends Transport {
  /** `entry` is the command that replaces the login shell; null means a plain sh. With a terminal it is the program. */
  session(request: Omit<SessionRequest, 'environment'>, entry: string | null): Session;
  /** To a port of the machine's loopback address. An open stream counts as one of the connection's sessions. */
  tunnel(port: number): Promise<Duplex | ChannelRefusal>;
}

export interface SshPool {
  /** Makes no connection by itself. Equal targets share connections. */
  transport(target: SshTarget): SshTransport;
  /** Asks the system's ssh, not the machine. */
  config(target: SshTarget): Promise<SshConfig>;
  /** In the order of use. Some may not exist. */
  keyFiles(target: SshTarget): Promise<readonly string[]>;
  /** By the prefix of the pin names. `pins` also deletes the pins, for machines that are gone for good. */
  forget(pinPrefix: string, options: { readonly pins: boolean }): void;
  close(): void;
}

export interface SshPoolOptions extends SshDefaults {
  readonly home: string;
  readonly maxConnecting?: number;
  readonly idleMs?: Duration;
}

export function createSshPool(options: SshPoolOptions): SshPool {
  const hostKeys = createHostKeys(options.home);
  const connector = createConnector(hostKeys, { ...options, maxConnecting: options.maxConnecting ?? 16 });
  const idleMs = options.idleMs ?? 60 * second;
  const hosts = new Map<string, HostConnections>();

  async function connect(host: HostConnections): Promise<Connection | Problem> {
    const isUrgent = host.connections.some((connection) => connection.isSilent);
    const opened = await connector.connect(host.target, isUrgent);
    if ('problem' in opened || !opened.isOpen) return opened;
    host.connections.push(opened);
    opened.client.on('close', () => {
      const at = host.connections.indexOf(opened);
      if (at >= 0) host.connections.splice(at, 1);
    });
    return opened;
  }

  async function openShell(
    host: HostConnections,
    // Replaces the login shell by sh, whatever shell the account has.
    entry = 'exec /bin/sh -s',
    { terminal, tries = 2 }: { readonly terminal?: TerminalSize; readonly tries?: number } = {},
  ): Promise<Shell | Problem> {
    const connection = await acquireConnection(host, connect);
    if ('problem' in connection) return connection;
    const opening = openChannel(connection, idleMs, (client, done) =>
      client.exec(entry, terminal === undefined ? {} : { pty: ptyOf(terminal) }, done),
    );
    let removeListener = (): void => undefined;
    const silence = new Promise<'silent'>((resolve) => {
      removeListener = onSilence(connection, () => resolve('silent'));
    });
    const channel = await Promise.race([opening, silence]).finally(removeListener);
    if (channel === 'silent') {
      // The program has not been sent, so another connection can serve as well.
      void opening.then((late) => 'problem' in late || late.close());
      return tries > 1
        ? openShell(host, entry, { ...(terminal === undefined ? {} : { terminal }), tries: tries - 1 })
        : { problem: `${host.target.host} no longer answers` };
    }
    if (!('problem' in channel)) return { channel, connection };
    return {
      problem: channel.isReached ? `${host.target.host} refused a session: ${channel.problem}` : channel.problem,
    };
  }

  async function openTunnel(host: HostConnections, port: number): Promise<Duplex | ChannelRefusal> {
    const connection = await acquireConnection(host, connect);
    if ('problem' in connection) return { ...connection, isReached: false };
    return openChannel(connection, idleMs, (client, done) =>
      client.forwardOut('127.0.0.1', 0, '127.0.0.1', port, done),
    );
  }

  function connectionsTo(target: SshTarget): HostConnections {
    const key = JSON.stringify(target);
    const host = hosts.get(key) ?? { target, connections: [], opening: undefined };
    hosts.set(key, host);
    return host;
  }

  function transport(target: SshTarget): SshTransport {
    return {
      run: (request) => runScript(target.host, () => openShell(connectionsTo(target)), request),
      stream: (request) => streamScript(target.host, () => openShell(connectionsTo(target)), request),
      session(request, entry) {
        const { terminal } = request;
        const open = () => openShell(connectionsTo(target), entry ?? undefined, terminal ? { terminal } : {});
        return terminal ? startTerminal(open, request) : startSession(open, request);
      },
      tunnel: (port) => openTunnel(connectionsTo(target), port),
    };
  }

  return {
    transport,
    config: (target) => connector.config(target),
    keyFiles: async (target) => keyFilesOf(target, await connector.config(target), options.userHome),
    forget(pinPrefix, { pins }) {
      for (const [key, host] of hosts) {
        if (!host.target.pinName.startsWith(pinPrefix)) continue;
        for (const connection of host.connections) connection.client.end();
        hosts.delete(key);
      }
      // A file that cannot be removed is removed at the next try; an extra pin is harmless.
      if (pins) hostKeys.forget(pinPrefix).catch(() => undefined);
    },
    close() {
      connector.close();
      for (const host of hosts.values()) {
        for (const connection of host.connections) {
          connection.closeReason = closedReason;
          connection.client.destroy();
        }
      }
      hosts.clear();
    },
  };
}

/** sshd allows ten sessions on a connection by default (MaxSessions of sshd_config). */
const maxChannels = 8;

interface HostConnections {
  readonly target: SshTarget;
  readonly connections: Connection[];
  opening: Promise<Connection | Problem> | undefined;
}

interface ChannelRefusal extends Problem {
  readonly isReached: boolean;
}

type Connect = (host: HostConnections) => Promise<Connection | Problem>;

async function acquireConnection(host: HostConnections, connect: Connect, tries = 3): Promise<Connection | Problem> {
  const free = host.connections.find(({ isOpen, isSilent, channels }) => isOpen && !isSilent && channels < maxChannels);
  if (free !== undefined) {
    free.channels += 1;
    clearTimeout(free.idleTimer);
    return free;
  }
  host.opening ??= connect(host).finally(() => {
    host.opening = undefined;
  });
  const opened = await host.opening;
  if ('problem' in opened) return opened;
  // Other callers waited for the same connection, and it may be full or closed again by now.
  if (tries === 0)
    return {
      problem: opened.closeReason === '' ? `${host.target.host} accepts no further sessions` : opened.closeReason,
    };
  return acquireConnection(host, connect, opened.isOpen ? tries : tries - 1);
}

function releaseConnection(connection: Connection, idleMs: Duration): void {
  connection.channels -= 1;
  if (connection.channels > 0 || !connection.isOpen) return;
  connection.idleTimer = setTimeout(() => {
    connection.isOpen = false;
    connection.client.end();
  }, idleMs);
  connection.idleTimer.unref();
}

/** A function of its own, because its listener keeps the variables of the function around it as long as the channel is open. */
function releaseAtClose(connection: Connection, channel: ClientChannel, idleMs: Duration): void {
  channel.once('close', () => releaseConnection(connection, idleMs));
}

function openChannel(
  connection: Connection,
  idleMs: Duration,
  begin: (client: Client, done: (error: Error | undefined, channel: ClientChannel) => void) => void,
): Promise<ClientChannel | ChannelRefusal> {
  return new Promise((resolve) => {
    const fail = (error: unknown): void => {
      releaseConnection(connection, idleMs);
      const isReached = connection.isOpen;
      resolve({ problem: isReached ? messageOf(error) : connection.closeReason, isReached });
    };
    try {
      begin(connection.client, (error, channel) => {
        if (error !== undefined) {
          fail(error);
          return;
        }
        releaseAtClose(connection, channel, idleMs);
        resolve(channel);
      });
    } catch (error) {
      fail(error);
    }
  });
}

interface Shell {
  readonly channel: ClientChannel;
  readonly connection: Connection;
}

type OpenShell = () => Promise<Shell | Problem>;

/** When the connection falls silent, a repeatable script is sent once more over another one, within the timeout. */
async function runScript(host: string, openShell: OpenShell, request: RunRequest): Promise<RunResult> {
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
      const reason = `${host} did not answer within ${Math.round(request.timeoutMs / second)} s`;
      finish({ kind: 'no_answer', reason, sent, timedOut: true });
      channel?.close();
    }, request.timeoutMs);
    async function ask(triesLeft: number): Promise<void> {
      const shell = await openShell();
      if ('problem' in shell) {
        // A script that was already sent over the silent connection may have run.
        const { problem: reason, ...remedy } = shell;
        finish({ kind: 'no_answer', reason, ...remedy, sent, timedOut: false });
        return;
      }
      if (isOver) {
        shell.channel.close();
        return;
      }
      const own = shell.channel;
      channel = own;
      const kept = {
        stdout: createOutputBuffer(request.maxOutputBytes),
        stderr: createOutputBuffer(request.maxOutputBytes),
      };
      let isAbandoned = false;
      const whole = receiveScript(own, async (chunk, name) => {
        kept[name].add(chunk);
        if (name === 'stdout' && !isOver && !isAbandoned) await request.onOutput?.(chunk);
      });
      if (request.isRepeatable === true && triesLeft > 0) {
        const removeListener = onSilence(shell.connection, () => {
          removeListener();
          if (isOver || isAbandoned) return;
          isAbandoned = true;
          own.close();
          void ask(triesLeft - 1);
        });
        own.once('close', removeListener);
      }
      sent = true;
      own.end(wrapScript(request.script));
      const exitCode = await whole;
      if (isAbandoned) return;
      if (exitCode === undefined) {
        finish({ kind: 'no_answer', reason: shell.connection.closeReason, sent: true, timedOut: false });
        return;
      }
      finish({
        kind: 'ended',
        exitCode,
        stdout: kept.stdout.bytes(),
        stderr: kept.stderr.bytes(),
        truncated: kept.stdout.isTruncated() || kept.stderr.isTruncated(),
      });
    }

    void ask(1);
  });
}

/** A silent connection drops the stream at once, because the receiver can continue from its own position. */
function streamScript(host: string, openShell: OpenShell, { script, onBytes, onEnd }: StreamRequest): () => void {
  let input = wrapScript(script);
  let isCancelled = false;
  let channel: ClientChannel | undefined;
  void openShell().then((shell) => {
    if ('problem' in shell) {
      if (!isCancelled) onEnd({ kind: 'dropped', reason: shell.problem });
      return;
    }
    ({ channel } = shell);
    if (isCancelled) {
      channel.close();
      return;
    }
    const own = channel;
    const removeListener = onSilence(shell.connection, () => {
      if (isCancelled) return;
      isCancelled = true;
      own.close();
      onEnd({ kind: 'dropped', reason: `${host} no longer answers` });
    });
    own.once('close', removeListener);
    const errors = createOutputBuffer(4_096);
    const whole = receiveScript(channel, async (chunk, name) => {
      if (name === 'stderr') errors.add(chunk);
      else if (!isCancelled) await onBytes(chunk);
    });
    // The input stays open: its end shows the script that we have gone.
    channel.write(input);
    // A stream may last for months, so it does not keep its script.
    input = '';
    void whole.then((exitCode) => {
      if (isCancelled) return;
      if (exitCode === undefined) onEnd({ kind: 'dropped', reason: shell.connection.closeReason });
      else onEnd({ kind: 'ended', exitCode, stderr: new TextDecoder().decode(errors.bytes()) });
    });
  });
  return () => {
    isCancelled = true;
    channel?.close();
  };
}

type OutputHandler = (chunk: Buffer, name: 'stdout' | 'stderr') => void | Promise<void>;

/** Pauses the channel while a chunk is awaited. Resolves after all output; undefined when the connection broke. */
async function receiveOutput(
  channel: ClientChannel,
  onBytes: OutputHandler,
): Promise<{ readonly exitCode: number | null; readonly signal: string | null } | undefined> {
  let end: { readonly exitCode: number | null; readonly signal: string | null } | undefined;
  let taking: Promise<void> = Promise.resolve();
  const take = (stream: ClientChannel | ClientChannel['stderr'], name: 'stdout' | 'stderr'): void =>
    void stream.on('data', (chunk: Buffer) => {
      stream.pause();
      taking = taking.then(() => onBytes(chunk, name)).finally(() => stream.resume());
    });
  take(channel, 'stdout');
  take(channel.stderr, 'stderr');
  channel.on('exit', (code: number | null, signal?: string) => {
    end = { exitCode: code, signal: code === null ? (signal ?? 'SIGKILL').replace(/^SIG/u, '') : null };
  });
  channel.on('error', () => undefined);
  // ssh2 closes the channel at the end of the standard output, even if it still has error output.
  await Promise.all([channel, channel.stderr].map((one) => new Promise<void>((resolve) => one.once('close', resolve))));
  await taking;
  return end;
}

/** As `receiveOutput`, without the output before the script. 128 means that a signal ended the shell itself. */
async function receiveScript(channel: ClientChannel, onBytes: OutputHandler): Promise<number | undefined> {
  const body = skipToBeginMarker();
  const end = await receiveOutput(channel, (chunk, name) => {
    const bytes = name === 'stdout' ? Buffer.from(body(chunk)) : chunk;
    return bytes.length === 0 ? undefined : onBytes(bytes, name);
  });
  return end === undefined ? undefined : (end.exitCode ?? 128);
}

function startSession(open: OpenShell, request: Omit<SessionRequest, 'environment'>): Session {
  let channel: ClientChannel | undefined;
  let isStopped = false;
  let isOver = false;
  let stopTimer: NodeJS.Timeout | undefined;

  // Throws before the channel is open, for a program that no shell can get.
  const script = wrapScript(sessionScript(request.program, request.hasInput));
  const opened = open();
  // The remote shell reads its script in blocks: bytes sent before it has read the whole script would become a part of
  // it.
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));

  async function toEnd(): Promise<SessionEnd> {
    const shell = await opened;
    if ('problem' in shell) return { kind: 'unreachable', reason: shell.problem, mayHaveRun: false };
    if (isStopped) {
      shell.channel.close();
      return { kind: 'unreachable', reason: 'stopped before it started', mayHaveRun: false };
    }
    ({ channel } = shell);
    channel.write(script);
    const end = await receiveSession(channel, request, begin);
    clearTimeout(stopTimer);
    if (end !== undefined) return { kind: 'ended', ...end };
    const reason = shell.connection.closeReason || 'the connection was closed';
    return { kind: 'unreachable', reason, mayHaveRun: true };
  }

  const ended = toEnd().finally(() => {
    isOver = true;
  });

  async function write(bytes: Uint8Array): Promise<void> {
    const shell = await opened;
    if ('problem' in shell) return;
    await Promise.race([begun, ended]);
    if (isOver || isStopped) return;
    for (let from = 0; from < bytes.length; from += maxDataBytes) {
      const part = bytes.subarray(from, from + maxDataBytes);
      shell.channel.write(sessionCommands.data(part.length));
      await Promise.race([ended, new Promise((resolve) => shell.channel.write(part, resolve))]);
    }
  }

  return {
    write,
    end() {
      void begun.then(() => {
        if (!isOver && !isStopped) channel?.write(sessionCommands.end);
      });
    },
    resize: () => undefined,
    stop() {
      if (isStopped || isOver) return;
      isStopped = true;
      if (channel === undefined) return;
      void begun.then(() => channel?.write(sessionCommands.stop));
      // If the program does not end, the watcher on the worker ends it when it sees the connection close.
      stopTimer = setTimeout(() => channel?.close(), stopTimeoutMs);
    },
    ended,
  };
}

/** Understood by the terminals of people and by the hosts of clouds. */
const terminalType = 'xterm-256color';

function ptyOf({ columns, rows }: TerminalSize) {
  return { cols: columns, rows, term: terminalType };
}

/** The connection is the terminal: its end hangs up, as that of a modem does, and so ends the program. */
function startTerminal(open: OpenShell, { onBytes }: Pick<SessionRequest, 'onBytes'>): Session {
  let isStopped = false;
  const opened = open();
  const later = async (call: (channel: ClientChannel) => void): Promise<void> => {
    const shell = await opened;
    if (!('problem' in shell)) call(shell.channel);
  };
  async function toEnd(): Promise<SessionEnd> {
    const shell = await opened;
    if ('problem' in shell) return { kind: 'unreachable', reason: shell.problem, mayHaveRun: false };
    if (isStopped) shell.channel.close();
    const end = await receiveOutput(shell.channel, onBytes);
    if (end !== undefined) return { kind: 'ended', ...end };
    const reason = shell.connection.closeReason || 'the connection was closed';
    return { kind: 'unreachable', reason, mayHaveRun: true };
  }
  const ended = toEnd();
  return {
    async write(bytes) {
      const shell = await opened;
      if ('problem' in shell) return;
      await Promise.race([ended, new Promise((resolve) => shell.channel.write(bytes, resolve))]);
    },
    end: () => void later((channel) => channel.end()),
    resize: ({ columns, rows }) => void later((channel) => channel.setWindow(rows, columns, 0, 0)),
    stop() {
      isStopped = true;
      void later((channel) => channel.close());
    },
    ended,
  };
}

const maxReasonBytes = 4_096;

/** As `receiveOutput`, without the output of the login shell's start-up files. `begun` is called when they are over. */
async function receiveSession(
  channel: ClientChannel,
  request: Pick<SessionRequest, 'onBytes'>,
  begun: () => void,
): Promise<Awaited<ReturnType<typeof receiveOutput>>> {
  let earlyErrors: Buffer | null = Buffer.alloc(0);
  const bodies = {
    stdout: skipToBeginMarker(begun),
    stderr: skipToBeginMarker(() => {
      earlyErrors = null;
      begun();
    }),
  };
  // Our side stays open for commands to the watcher. Before the program's end, the watcher would end the program.
  channel.once('exit', () => channel.end());
  const end = await receiveOutput(channel, (chunk, name) => {
    const bytes = bodies[name](chunk);
    if (name === 'stderr' && earlyErrors !== null)
      earlyErrors = Buffer.concat([earlyErrors, chunk]).subarray(0, maxReasonBytes);
    return bytes.length === 0 ? undefined : request.onBytes(bytes, name);
  });
  // If the program never began, the early error output has the reason.
  if (earlyErrors !== null && earlyErrors.length > 0) await request.onBytes(earlyErrors, 'stderr');
  return end;
}
