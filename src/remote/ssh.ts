// SSH in process: one pooled connection per host, opened on first use and reopened on demand; a dead connection is noticed
// within ten seconds. And what runs over one channel of it: a script to its end, a script whose output is followed, and a
// session. No process per host and no blocked event loop; the system's ssh is only asked for the user's configuration and for
// the line through a jump host.

import type { Duplex } from 'node:stream';
import type { Client, ClientChannel } from 'ssh2';
import type { Session, SessionEnd, SessionRequest } from '../app/by-hand.ts';
import { textOf } from '../app/errors.ts';
import { second, type Duration } from '../core/time.ts';
import { keepFirst } from './process.ts';
import { dataMost, sessionScript, stopMost, word } from './session.ts';
import type { SshConfig, SshDefaults } from './ssh-config.ts';
import { createConnector, hearQuiet, keyFilesOf, type Connection, type Problem } from './ssh-connection.ts';
import { createHostKeys } from './ssh-keys.ts';
import {
  afterBeginMark,
  asProgram,
  type RunRequest,
  type RunResult,
  type StreamRequest,
  type Transport,
} from './transport.ts';

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

interface Shell {
  readonly channel: ClientChannel;
  readonly connection: Connection;
}

type OpenShell = () => Promise<Shell | Problem>;

/**
 * Runs a script to its end. One that may be run again is asked over another connection when its own falls quiet, since what
 * is to be known is then known sooner; once, and within the same time.
 */
async function runOver(host: string, openShell: OpenShell, request: RunRequest): Promise<RunResult> {
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
        // Of a script that was sent before, over the line that fell quiet, nothing is known.
        finish({ kind: 'no_answer', reason: shell.problem, sent, timedOut: false });
        return;
      }
      if (isOver) {
        shell.channel.close();
        return;
      }
      const own = shell.channel;
      channel = own;
      const kept = { stdout: keepFirst(request.outputMost), stderr: keepFirst(request.outputMost) };
      let isLeft = false;
      const whole = receiveScript(own, {
        async stdout(chunk) {
          kept.stdout.add(chunk);
          if (!isOver && !isLeft) await request.onOutput?.(chunk);
        },
        stderr: (chunk) => {
          kept.stderr.add(chunk);
        },
      });
      if (request.isRepeatable === true && triesLeft > 0) {
        const unhear = hearQuiet(shell.connection, () => {
          unhear();
          if (isOver || isLeft) return;
          isLeft = true;
          own.close();
          void ask(triesLeft - 1);
        });
        own.once('close', unhear);
      }
      sent = true;
      own.end(asProgram(request.script));
      const exitCode = await whole;
      if (isLeft) return;
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
    }

    void ask(1);
  });
}

/**
 * Runs a script and hands over its output. A line that falls quiet drops it: whoever follows an output goes on from where
 * he is, and the sooner he tells of the silence the better.
 */
function streamOver(host: string, openShell: OpenShell, request: StreamRequest): () => void {
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
    const own = channel;
    const unhear = hearQuiet(shell.connection, () => {
      if (isOff) return;
      isOff = true;
      own.close();
      request.onEnd({ kind: 'dropped', reason: `${host} has stopped answering` });
    });
    own.once('close', unhear);
    const words = keepFirst(4_096);
    const whole = receiveScript(channel, {
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
function receiveScript(
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

function sessionOver(open: OpenShell, request: Omit<SessionRequest, 'inside'>): Session {
  let channel: ClientChannel | undefined;
  let isStopped = false;
  let isOver = false;
  let patience: NodeJS.Timeout | undefined;

  const opened = open();
  // The shell there reads its script in blocks: what we say before it has all of it would be taken for a part of it.
  let begin: () => void = () => undefined;
  const begun = new Promise<void>((resolve) => (begin = resolve));

  async function toEnd(): Promise<SessionEnd> {
    const shell = await opened;
    if ('problem' in shell) return { kind: 'no_answer', reason: shell.problem, sent: false };
    if (isStopped) {
      shell.channel.close();
      return { kind: 'no_answer', reason: 'stopped before it had begun', sent: false };
    }
    ({ channel } = shell);
    channel.write(asProgram(sessionScript(request.program, request.receives)));
    const end = await receiveSession(channel, request, begin);
    clearTimeout(patience);
    if (end !== undefined) return { kind: 'ended', ...end };
    const reason = shell.connection.why || 'the line was closed';
    return { kind: 'no_answer', reason, sent: true };
  }

  const ended = toEnd().finally(() => {
    isOver = true;
  });

  async function write(bytes: Uint8Array): Promise<void> {
    const shell = await opened;
    if ('problem' in shell) return;
    await Promise.race([begun, ended]);
    if (isOver || isStopped) return;
    for (let from = 0; from < bytes.length; from += dataMost) {
      const part = bytes.subarray(from, from + dataMost);
      shell.channel.write(word.data(part.length));
      await Promise.race([ended, new Promise((resolve) => shell.channel.write(part, resolve))]);
    }
  }

  return {
    write,
    end() {
      void begun.then(() => {
        if (!isOver && !isStopped) channel?.write(word.end);
      });
    },
    stop() {
      if (isStopped || isOver) return;
      isStopped = true;
      if (channel === undefined) return;
      void begun.then(() => channel?.write(word.stop));
      // A program that does not answer even then is left to the watcher there, which sees the line end.
      patience = setTimeout(() => channel?.close(), stopMost);
    },
    ended,
  };
}

const reasonMost = 4_096;

/** Hands on all that comes; resolves with how the program ended, or undefined when the line broke before it was told. */
async function receiveSession(
  channel: ClientChannel,
  request: Pick<SessionRequest, 'onBytes'>,
  begun: () => void,
): Promise<{ readonly exitCode: number | null; readonly signal: string | null } | undefined> {
  let end: { readonly exitCode: number | null; readonly signal: string | null } | undefined;
  let taking: Promise<void> = Promise.resolve();
  let unsaid = (): Uint8Array => new Uint8Array(0);
  const take = (name: 'stdout' | 'stderr', stream: ClientChannel | ClientChannel['stderr']): void => {
    // The output of a login shell's start-up files is none of the program's.
    let isBegun = false;
    const body = afterBeginMark(() => {
      isBegun = true;
      begun();
    });
    let before = Buffer.alloc(0);
    if (name === 'stderr') unsaid = () => (isBegun ? new Uint8Array(0) : before);
    stream.on('data', (chunk: Buffer) => {
      const bytes = body(chunk);
      if (!isBegun && before.length < reasonMost) before = Buffer.concat([before, chunk]).subarray(0, reasonMost);
      if (bytes.length === 0) return;
      stream.pause();
      taking = taking
        .then(() => request.onBytes(bytes, name))
        .finally(() => {
          stream.resume();
        });
    });
  };
  take('stdout', channel);
  take('stderr', channel.stderr);
  channel.on('exit', (code: number | null, signal?: string) => {
    end = { exitCode: code, signal: code === null ? (signal ?? 'SIGKILL').replace(/^SIG/u, '') : null };
  });
  channel.on('error', () => undefined);
  // Our side stays open for the watcher's words, and is closed with the other.
  channel.on('end', () => {
    channel.end();
  });
  await new Promise<void>((resolve) => {
    channel.once('close', resolve);
  });
  await taking;
  // A program that never began leaves only the reason of whatever should have begun it.
  const reason = unsaid();
  if (reason.length > 0) await request.onBytes(reason, 'stderr');
  return end;
}
