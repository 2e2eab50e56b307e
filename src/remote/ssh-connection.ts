// One SSH connection: the route, the login, which host key is trusted, and the pings that detect a dead peer.

import { connect as connectTcp } from 'node:net';
import { join } from 'node:path';
import type { Duplex, Writable } from 'node:stream';
import type * as Ssh2Module from 'ssh2';
import type { AnyAuthMethod, Client, ConnectConfig, ServerHostKeyAlgorithm } from 'ssh2';
import { textOf } from '../app/errors.ts';
import { createGate } from '../app/fan-out.ts';
import { second, type Duration } from '../core/time.ts';
import { processAsStream } from './process.ts';
import { createSshConfigs, isHostName, plainSshConfig, type SshConfig, type SshDefaults } from './ssh-config.ts';
import { fingerprint, keyFromWire, loadKey, type HostKeys } from './ssh-keys.ts';
import type { SshTarget } from './ssh.ts';

/** TCP and the handshake each get less than the eight seconds of a look, so that the look can say what was wrong. */
const tcpTimeout: Duration = 6 * second;
const handshakeTimeout: Duration = 7 * second;
/**
 * A ping each three seconds, and the line is dead when the third finds two unanswered: nine seconds after its last sign
 * of life. Pings stop when an idle connection is closed.
 */
const pingInterval: Duration = 3 * second;
const pingsUnanswered = 2;
/**
 * A line that a ping and two seconds have brought nothing on is doubted. It lives on, since whoever works over it would lose
 * his work with it, but what may be asked again is asked over another one. A host that hangs is known to be silent after
 * these five seconds and the hurry below: within ten, which is what people are told.
 */
const quietMost: Duration = 4.5 * second;
/** Once more, with a turn of the event loop in between: it may have been us who stood still. */
const quietMore: Duration = 0.5 * second;
/** How long the way to a host is tried that another line was just doubted of, until it speaks. */
const hurry: Duration = 3.5 * second;

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

export interface Problem {
  readonly problem: string;
}

export interface Connection {
  readonly client: Client;
  channels: number;
  isOpen: boolean;
  /** Nothing has come over it for so long that it is doubted. It may speak again. */
  isQuiet: boolean;
  /** Called each time when it begins to be doubted. */
  readonly whenQuiet: Set<() => void>;
  why: string;
  idle: NodeJS.Timeout | undefined;
}

export function createConnector(
  hostKeys: HostKeys,
  options: SshDefaults & {
    readonly connectingMost: number;
  },
) {
  const configs = createSshConfigs(options);
  const gate = createGate(options.connectingMost);
  const shaking = new Set<Client>();
  let loaded: Promise<Ssh2> | undefined;
  let isClosed = false;

  async function configOf({ host, port, user, userConfig }: SshTarget): Promise<SshConfig> {
    const question = { host, port, user };
    return userConfig ? configs(question) : plainSshConfig(question, options);
  }

  /** Logs in there. `isHurried` when a line to that host has just fallen quiet. Never throws. */
  async function connect(target: SshTarget, isHurried: boolean): Promise<Connection | Problem> {
    const began = performance.now();
    if (!isHostName(target.host)) return { problem: `${target.host} is not a host name` };
    loaded ??= import('ssh2').then((module) => ('default' in module ? (module.default as Ssh2) : module));
    const ssh2 = await loaded;
    const config = await configOf(target);
    const login = await loginMethods(target, config, ssh2, options.userHome);
    if (login.methods.length === 0) {
      const notes = [login.notes.join('; ') || 'no key file and no agent', ...howToAdd(target)];
      return { problem: `there is no key to log in to ${config.host} with: ${notes.join('; ')}` };
    }
    let pinned: string | undefined;
    try {
      pinned = await hostKeys.pinned(target.pin);
    } catch (error) {
      return { problem: `the pinned host key of ${config.host} cannot be read: ${textOf(error)}` };
    }
    // A server hangs up after some refused keys (MaxAuthTries of sshd_config); the rest is offered on another connection.
    for (let from = 0; ;) {
      const rest = { ...login, methods: login.methods.slice(from) };
      const opened = await attempt({ ssh2, target, config, login: rest, pinned, isHurried, began });
      if (!('offered' in opened) || opened.offered === 0 || from + opened.offered >= login.methods.length) {
        return 'offered' in opened ? { problem: refusal(target, config, login) } : opened;
      }
      from += opened.offered;
    }
  }

  async function attempt(way: Way & { readonly isHurried: boolean; readonly began: number }): Promise<Outcome> {
    const { config, isHurried, began } = way;
    // A host that is down must not stand in the way of those that answer: only the handshake has to wait for its turn.
    const socket = await openSocket(config, isHurried ? hurry : tcpTimeout);
    if ('problem' in socket) return socket;
    // A line that breaks while it waits for its turn is noticed at the handshake.
    socket.stream.on('error', () => undefined);
    // Nor must one that hangs: its kernel takes connections, and nobody says a word on them.
    const patience = isHurried ? hurry - (performance.now() - began) : handshakeTimeout;
    if (!(await speaks(socket.stream, patience))) {
      const said = await socket.words();
      socket.stream.destroy();
      return { problem: `${config.host} did not finish the SSH handshake in time${said === '' ? '' : ` (${said})`}` };
    }
    return gate(() => handshake(way, socket, { hostKeys, shaking, isClosed: () => isClosed }));
  }

  return {
    config: configOf,
    connect,
    close(): void {
      isClosed = true;
      for (const client of shaking) client.destroy();
    },
  };
}

function handshake({ ssh2, target, config, login, pinned }: Way, socket: Socket, shared: Shared): Promise<Outcome> {
  const { hostKeys, shaking } = shared;
  const client = new ssh2.Client();
  const connection: Connection = {
    client,
    channels: 0,
    isOpen: false,
    isQuiet: false,
    whenQuiet: new Set(),
    why: '',
    idle: undefined,
  };
  const accepted = pinned === undefined ? target.hostKeys : [pinned];
  let shown: string | undefined;
  let keyProblem: string | undefined;
  let isOver = false;
  let offered = 0;
  let isRefused = false;
  shaking.add(client);
  return new Promise((resolve) => {
    // The program that makes the line knows better what was wrong with it than the line's end here.
    const fail = async (): Promise<void> => {
      const said = await socket.words();
      socket.stream.destroy();
      if (isRefused) resolve({ offered });
      else resolve({ problem: said === '' ? connection.why : `${connection.why} (${said})` });
    };
    client.on('error', (error: Error & { level?: string }) => {
      // An agent that does not answer is one key source less.
      if (error.level === 'agent') return void login.notes.push(`the SSH agent cannot be used: ${error.message}`);
      isRefused = keyProblem === undefined && isLoginRefused(error);
      connection.isOpen = false;
      connection.why = problemOf(error, { config, keyProblem });
      void fail();
    });
    client.on('close', () => {
      isOver = true;
      shaking.delete(client);
      connection.isOpen = false;
      if (connection.why === '') connection.why = `${config.host} closed the connection`;
      clearTimeout(connection.idle);
      void fail();
    });
    client.on('ready', () => {
      void pinShown(hostKeys, target.pin, shown ?? '').then((problem) => {
        if (problem !== undefined || shared.isClosed()) {
          connection.why = problem ?? 'jobman is ending';
          client.destroy();
          return;
        }
        // The host may have closed it while the key was being pinned.
        if (isOver) return;
        shaking.delete(client);
        connection.isOpen = true;
        watchForQuiet(connection, socket.stream);
        resolve(connection);
      });
    });
    const settings: ConnectConfig = {
      sock: socket.stream,
      username: config.user,
      // The declared type lacks the `false` that ends the login.
      authHandler: ((_left: unknown, _isPartial: unknown, next: (method: AnyAuthMethod | false) => void) => {
        const method = login.methods[offered];
        if (method !== undefined) offered += 1;
        next(method ?? false);
      }) as never,
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

/** True as soon as the other side has said something, or is gone; false when it says nothing for so long. Reads nothing. */
function speaks(stream: Duplex, patience: Duration): Promise<boolean> {
  return new Promise((resolve) => {
    const settle = (answer: boolean): void => {
      clearTimeout(timer);
      stream.off('readable', said).off('close', said);
      resolve(answer);
    };
    const said = (): void => settle(true);
    const timer = setTimeout(() => settle(false), patience);
    stream.on('readable', said).on('close', said);
  });
}

export function hearQuiet({ whenQuiet }: Connection, call: () => void): () => void {
  whenQuiet.add(call);
  return () => void whenQuiet.delete(call);
}

/** Doubts the connection while nothing comes over its stream. Its timers keep no process alive. */
function watchForQuiet(connection: Connection, stream: Duplex): void {
  let isDoubted = false;
  const first = setTimeout(() => {
    isDoubted = true;
    again.refresh();
  }, quietMost).unref();
  const again = setTimeout(() => {
    if (!isDoubted || !connection.isOpen) return;
    connection.isQuiet = true;
    for (const call of connection.whenQuiet) call();
  }, quietMore).unref();
  stream.on('data', () => {
    isDoubted = false;
    connection.isQuiet = false;
    first.refresh();
  });
  connection.client.on('close', () => {
    clearTimeout(first);
    clearTimeout(again);
  });
}

interface Way {
  readonly ssh2: Ssh2;
  readonly target: SshTarget;
  readonly config: SshConfig;
  readonly login: Login;
  readonly pinned: string | undefined;
}

interface Shared {
  readonly hostKeys: HostKeys;
  readonly shaking: Set<Client>;
  readonly isClosed: () => boolean;
}

/** `offered`: so many login methods were offered, and the server accepted none of them. */
type Outcome = Connection | Problem | { readonly offered: number };

interface Login {
  readonly methods: readonly AnyAuthMethod[];
  readonly names: readonly string[];
  readonly notes: string[];
}

/**
 * The key files to try on a machine, in order. On a machine that existed before jobman knew it, those of the user's ssh_config
 * and the one that gcloud makes follow jobman's: its maker most likely authorized one of them.
 */
export function keyFilesOf(target: SshTarget, config: SshConfig, userHome: string): readonly string[] {
  const own = target.keyFile === null ? config.keyFiles : [target.keyFile];
  if (target.existing === undefined) return own;
  return [...new Set([...own, ...config.keyFiles, join(userHome, '.ssh', 'google_compute_engine')])];
}

function howToAdd({ existing }: SshTarget): readonly string[] {
  return existing === undefined ? [] : [`to add one: ${existing.addKey}`];
}

function refusal(target: SshTarget, config: SshConfig, { names, notes }: Login): string {
  const tried = target.existing === undefined ? [] : [`tried ${names.join(', ')}`];
  return [`${config.host} accepts none of our keys for ${config.user}`, ...tried, ...notes, ...howToAdd(target)].join(
    '; ',
  );
}

/** Also when the server hangs up before every key was offered. */
function isLoginRefused(error: Error & { level?: string }): boolean {
  return error.level === 'client-authentication' || /too many authentication failures/iu.test(error.message);
}

async function loginMethods(target: SshTarget, config: SshConfig, ssh2: Ssh2, userHome: string): Promise<Login> {
  const methods: AnyAuthMethod[] = [];
  const names: string[] = [];
  const notes: string[] = [];
  for (const file of keyFilesOf(target, config, userHome)) {
    const loaded = await loadKey(file, (text) => {
      const parsed = ssh2.utils.parseKey(text);
      return Array.isArray(parsed) ? (parsed[0] ?? new Error('no key in it')) : parsed;
    });
    if (loaded === undefined) {
      if (file === target.keyFile) notes.push(`there is no key file ${file}`);
    } else if ('problem' in loaded) notes.push(loaded.problem);
    else {
      methods.push({ type: 'publickey', username: config.user, key: loaded.key });
      names.push(file);
    }
  }
  if (config.certificates.length > 0) {
    notes.push(
      `the certificate ${config.certificates.join(', ')} can be used only through an agent: add its key with ssh-add`,
    );
  }
  if (config.agent !== null) {
    methods.push({ type: 'agent', username: config.user, agent: config.agent });
    names.push('the SSH agent');
  }
  return { methods, names, notes };
}

interface Socket {
  readonly stream: Duplex;
  readonly words: () => Promise<string>;
}

function openSocket(config: SshConfig, patience: Duration): Promise<Socket | Problem> {
  if (config.proxy !== null) return Promise.resolve(processAsStream(config.proxy));
  return new Promise((resolve) => {
    const socket = connectTcp({ host: config.host, port: config.port, noDelay: true });
    const at = `${config.host}:${config.port}`;
    const timer = setTimeout(() => {
      socket.destroy();
      resolve({ problem: `${at} does not answer` });
    }, patience);
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
  facts: { config: SshConfig; keyProblem: string | undefined },
): string {
  const { config } = facts;
  if (facts.keyProblem !== undefined) return facts.keyProblem;
  if (error.message === 'Keepalive timeout') return `${config.host} has stopped answering`;
  if (error.level === 'client-timeout') return `${config.host} did not finish the SSH handshake in time`;
  return `the connection to ${config.host} broke: ${error.message}`;
}

/**
 * Makes a stream hold what is written to it until the code that writes has come to its end, and send it as one. The SSH
 * library writes each of its packets by itself; on a socket every one of them is a call of the kernel here and a wakeup there.
 */
export function gatherWrites(stream: Writable): void {
  const write = stream.write.bind(stream) as (...words: readonly unknown[]) => boolean;
  let isHeld = false;
  stream.write = (...words: readonly unknown[]): boolean => {
    if (!isHeld) {
      isHeld = true;
      stream.cork();
      queueMicrotask(() => {
        isHeld = false;
        stream.uncork();
      });
    }
    return write(...words);
  };
}
