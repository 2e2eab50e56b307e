// One SSH connection: the route, the login, the trusted host key, and the pings that detect a dead peer.

import { connect as connectTcp } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import type { AnyAuthMethod, Client, ConnectConfig, ParsedKey, ServerHostKeyAlgorithm } from 'ssh2';
import { messageOf } from '../app/errors.ts';
import { createLimiter, withTimeout } from '../app/concurrency.ts';
import { second, type Duration } from '../core/model/time.ts';
import { processAsStream } from './process.ts';
import { createSshConfigReader, isHostName, defaultSshConfig, type SshConfig, type SshDefaults } from './ssh-config.ts';
import { fingerprint, keyFromWire, loadKey, loadSsh2, type HostKeys, type Ssh2 } from './ssh-keys.ts';
import { knownHostKeys } from './known-hosts.ts';
import type { SshTarget } from './ssh.ts';

/** Both are less than the eight seconds of an observation, so that the observation can report the cause. */
const tcpTimeout: Duration = 6 * second;
const handshakeTimeout: Duration = 7 * second;
/** After this time the next handshake begins, because a host that stops during its own must not delay the others. */
const handshakeTurn: Duration = second / 2;
/** The connection is dead when the third ping finds two unanswered: nine seconds after its last sign of life. */
const pingInterval: Duration = 3 * second;
const maxUnansweredPings = 2;
/**
 * A connection is silent when a ping and two more seconds have brought nothing. It stays open, because its sessions
 * would lose their work, but repeatable requests use another connection. A hanging host is detected after these five
 * seconds and `shortTimeout`: within ten, as promised to users.
 */
const silenceTimeout: Duration = 4.5 * second;
/** Checked a second time after this, because this process may have been the one that was blocked. */
const silenceRecheck: Duration = 0.5 * second;
/** Time that a host has to answer a new connection when another one has just fallen silent. */
const shortTimeout: Duration = 3.5 * second;

/** curve25519 first: it costs a tenth of the processor time of the others. Both its names are one method. */
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

/** The reason for which a closed pool opens no connection. */
export const closedReason = 'jobman is exiting';

export interface Problem {
  readonly problem: string;
  /** The command that repairs it. Absent: not known. */
  readonly remedy?: string;
}

export interface Connection {
  readonly client: Client;
  channels: number;
  isOpen: boolean;
  isSilent: boolean;
  readonly silenceListeners: Set<() => void>;
  closeReason: string;
  idleTimer: NodeJS.Timeout | undefined;
}

export function createConnector(
  hostKeys: HostKeys,
  options: SshDefaults & {
    readonly maxConnecting: number;
  },
) {
  const configs = createSshConfigReader(options);
  const gate = createLimiter(options.maxConnecting);
  // Addresses that did not finish their last handshake have a limiter of their own, so that they delay no other host.
  const unfinished = new Set<string>();
  const unfinishedGate = createLimiter(options.maxConnecting);
  const handshaking = new Set<Client>();
  const parseKey = createKeyParser();
  let isClosed = false;

  async function configOf({ host, port, user, usesUserConfig }: SshTarget): Promise<SshConfig> {
    const query = { host, port, user };
    return usesUserConfig ? configs(query) : defaultSshConfig(query, options);
  }

  /** Never throws. `isUrgent`: another connection to that host has just fallen silent. */
  async function connect(target: SshTarget, isUrgent: boolean): Promise<Connection | Problem> {
    if (isClosed) return { problem: closedReason };
    const began = performance.now();
    if (!isHostName(target.host)) return { problem: `${target.host} is not a host name` };
    const ssh2 = await loadSsh2();
    const config = await configOf(target);
    const login = await loginMethods(target, config, options.userHome, (file, text) => parseKey(ssh2, file, text));
    if (login.methods.length === 0) {
      const notes = [login.notes.join('; ') || 'no key file and no agent', ...howToAddKey(target)];
      return { problem: `there is no SSH key for ${config.host}: ${notes.join('; ')}`, ...remedyOf(login) };
    }
    let pinned: string | undefined;
    let accepted: readonly string[];
    try {
      pinned = target.verifiesKnownHosts === true ? undefined : await hostKeys.pinned(target.pinName);
      accepted =
        target.verifiesKnownHosts === true
          ? await knownHostKeys(config)
          : pinned === undefined
            ? target.hostKeys
            : [pinned];
    } catch (error) {
      return { problem: `the known host keys of ${config.host} cannot be read: ${messageOf(error)}` };
    }
    if (target.verifiesKnownHosts === true && accepted.length === 0) {
      // A host that does not answer is the first thing to repair.
      const socket = await openSocket(config, isUrgent ? shortTimeout : tcpTimeout);
      if ('problem' in socket) return socket;
      socket.stream.destroy();
      const message = `the host key of ${config.host} is not in your known_hosts, so jobman sent nothing`;
      return { problem: `${message}; connect once and compare the key: ${sshCommand(target)}` };
    }
    // A server hangs up after a few refused keys (MaxAuthTries of sshd_config); the remaining keys are offered on
    // another connection.
    for (let from = 0; ;) {
      const rest = { ...login, methods: login.methods.slice(from) };
      const opened = await attempt({ ssh2, target, config, login: rest, pinned, accepted, isUrgent, began });
      if (!('offered' in opened) || opened.offered === 0 || from + opened.offered >= login.methods.length) {
        return 'offered' in opened ? { problem: refusal(target, config, login), ...remedyOf(login) } : opened;
      }
      from += opened.offered;
    }
  }

  async function attempt(
    plan: LoginPlan & { readonly isUrgent: boolean; readonly began: number },
  ): Promise<ConnectResult> {
    const { config, isUrgent, began } = plan;
    const address = `${config.host}:${config.port}`;
    // Only the handshake waits for the limiter, so that a host that is down does not delay the others.
    const socket = await openSocket(config, isUrgent ? shortTimeout : tcpTimeout);
    if ('problem' in socket) return socket;
    // A socket that breaks while it waits for the limiter is noticed at the handshake.
    socket.stream.on('error', ignore);
    // A hanging host must not delay the others either: its kernel accepts connections, but nothing answers on them.
    const patience = isUrgent ? shortTimeout - (performance.now() - began) : handshakeTimeout;
    if (!(await sendsAnything(socket.stream, patience))) {
      const errorOutput = await socket.errorOutput();
      socket.stream.destroy();
      return {
        problem: `${config.host} did not finish the SSH handshake in time${errorOutput === '' ? '' : ` (${errorOutput})`}`,
      };
    }
    const begun = Promise.withResolvers<ConnectResult>();
    await (unfinished.has(address) ? unfinishedGate : gate)(() => {
      begun.resolve(handshake(plan, socket, { hostKeys, handshaking, isClosed: () => isClosed }));
      return withTimeout(handshakeTurn, begun.promise, () => undefined);
    });
    const result = await begun.promise;
    if ('problem' in result) unfinished.add(address);
    else unfinished.delete(address);
    return result;
  }

  return {
    config: configOf,
    connect,
    close(): void {
      isClosed = true;
      for (const client of handshaking) client.destroy();
    },
  };
}

function handshake(plan: LoginPlan, socket: Socket, shared: HandshakeContext): Promise<ConnectResult> {
  if (shared.isClosed()) {
    socket.stream.destroy();
    return Promise.resolve({ problem: closedReason });
  }
  const { ssh2, config, login, accepted } = plan;
  const { handshaking } = shared;
  const client = new ssh2.Client();
  const hostKey = createHostKeyCheck(plan, shared.hostKeys);
  const connection: Connection = {
    client,
    channels: 0,
    isOpen: false,
    isSilent: false,
    silenceListeners: new Set(),
    closeReason: '',
    idleTimer: undefined,
  };
  const offer = createOffer(login.methods);
  let isRefused = false;
  handshaking.add(client);
  return new Promise((resolve) => {
    // The proxy program's error output explains the failure better than the end of the connection.
    const fail = async (): Promise<void> => {
      const errorOutput = await socket.errorOutput();
      socket.stream.destroy();
      if (isRefused) resolve({ offered: offer.count() });
      else
        resolve({
          problem: errorOutput === '' ? connection.closeReason : `${connection.closeReason} (${errorOutput})`,
        });
    };
    watchConnection(connection, socket.stream, config.host, hostKey.problem);
    const onError = (error: Error & { level?: string }): void => {
      if (error.level === 'agent') return void login.notes.push(`the SSH agent cannot be used: ${error.message}`);
      isRefused = hostKey.problem() === undefined && isLoginRefused(error);
      void fail();
    };
    let isOver = false;
    const onClose = (): void => {
      isOver = true;
      handshaking.delete(client);
      void fail();
    };
    client.on('error', onError).on('close', onClose);
    client.once('ready', () => {
      void hostKey.pin().then((problem) => {
        if (problem !== undefined || shared.isClosed()) {
          connection.closeReason = problem ?? closedReason;
          client.destroy();
          return;
        }
        // The host may have closed the connection while the key was being pinned.
        if (isOver) return;
        handshaking.delete(client);
        connection.isOpen = true;
        client.off('error', onError).off('close', onClose);
        watchForSilence(connection, socket.stream);
        dropHandshakeState(client);
        resolve(connection);
      });
    });
    const settings: ConnectConfig = {
      sock: socket.stream,
      username: config.user,
      // The declared type lacks the `false` that ends the login.
      authHandler: offer.next as never,
      readyTimeout: handshakeTimeout,
      keepaliveInterval: pingInterval,
      keepaliveCountMax: maxUnansweredPings,
      algorithms: { kex: [...keyExchange], serverHostKey: orderedTypes(accepted) },
      hostVerifier: hostKey.accepts,
    };
    try {
      client.connect(settings);
    } catch (error) {
      connection.closeReason = messageOf(error);
      void fail();
    }
  });
}

/**
 * Notices the end of the connection, during the handshake and after it. The listeners of the handshake itself keep much
 * more, so they are removed at its end.
 */
function watchConnection(
  connection: Connection,
  stream: Duplex,
  host: string,
  hostKeyProblem: () => string | undefined,
): void {
  const lose = (reason: string): void => {
    if (connection.isOpen) stream.destroy();
    connection.isOpen = false;
    connection.closeReason = reason;
  };
  connection.client.on('error', (error: Error & { level?: string }) => {
    // An agent that does not answer is only one key source less.
    if (error.level !== 'agent') lose(hostKeyProblem() ?? connectionProblem(error, host));
  });
  connection.client.on('close', () => {
    lose(connection.closeReason === '' ? `${host} closed the connection` : connection.closeReason);
    clearTimeout(connection.idleTimer);
  });
}

/** Offers one method after another. */
function createOffer(methods: readonly AnyAuthMethod[]) {
  let offered = 0;
  return {
    count: () => offered,
    next: (_left: unknown, _isPartial: unknown, answer: (method: AnyAuthMethod | false) => void): void => {
      const method = methods[offered];
      if (method !== undefined) offered += 1;
      answer(method ?? false);
    },
  };
}

/** Private fields of ssh2, whose names may change: a field that is missing is left alone. */
interface HandshakeState {
  /** The offered algorithms, which only a key exchange reads and nothing changes. */
  _offer?: { readonly lists?: { readonly all?: Buffer } };
  /** The last key exchange. Nothing reads its keys once it has finished. */
  readonly _kex?: { readonly _finished?: boolean; _keys?: unknown };
}

/** The offered algorithms of all connections, by their bytes: equal ones are kept once. */
const offers = new Map<string, NonNullable<HandshakeState['_offer']>>();

/**
 * Drops what ssh2 would keep of the handshake for as long as the connection lives: its own copy of the offered algorithms,
 * and the keys of the exchange.
 */
function dropHandshakeState(client: Client): void {
  const { _protocol: protocol } = client as Client & { readonly _protocol?: HandshakeState };
  const bytes = protocol?._offer?.lists?.all?.toString('latin1');
  if (protocol?._offer !== undefined && bytes !== undefined) {
    const offer = offers.get(bytes) ?? protocol._offer;
    offers.set(bytes, offer);
    protocol._offer = offer;
  }
  // The server may have begun another exchange.
  if (protocol?._kex?._finished === true) protocol._kex._keys = undefined;
}

/** At the top level, so that a listener keeps no variables of the function that adds it. */
function ignore(): void {}

/** True as soon as the other side has sent data or closed; false when it sends nothing for that long. Reads nothing. */
function sendsAnything(stream: Duplex, patience: Duration): Promise<boolean> {
  return new Promise((resolve) => {
    const settle = (answer: boolean): void => {
      clearTimeout(timer);
      stream.off('readable', onData).off('close', onData);
      resolve(answer);
    };
    const onData = (): void => settle(true);
    const timer = setTimeout(() => settle(false), patience);
    stream.on('readable', onData).on('close', onData);
  });
}

export function onSilence({ silenceListeners }: Connection, call: () => void): () => void {
  silenceListeners.add(call);
  return () => void silenceListeners.delete(call);
}

/** Sets `isSilent` while nothing comes over the stream. Its timers keep no process alive. */
function watchForSilence(connection: Connection, stream: Duplex): void {
  let isDoubted = false;
  const first = setTimeout(() => {
    isDoubted = true;
    again.refresh();
  }, silenceTimeout).unref();
  const again = setTimeout(() => {
    if (!isDoubted || !connection.isOpen) return;
    connection.isSilent = true;
    for (const call of connection.silenceListeners) call();
  }, silenceRecheck).unref();
  stream.on('data', () => {
    isDoubted = false;
    connection.isSilent = false;
    first.refresh();
  });
  connection.client.on('close', () => {
    clearTimeout(first);
    clearTimeout(again);
  });
}

interface LoginPlan {
  readonly ssh2: Ssh2;
  readonly target: SshTarget;
  readonly config: SshConfig;
  readonly login: Login;
  readonly pinned: string | undefined;
  /** Empty: any key. */
  readonly accepted: readonly string[];
}

interface HandshakeContext {
  readonly hostKeys: HostKeys;
  readonly handshaking: Set<Client>;
  readonly isClosed: () => boolean;
}

type ConnectResult = Connection | Problem | { readonly offered: number };

interface Login {
  readonly methods: readonly AnyAuthMethod[];
  readonly names: readonly string[];
  readonly notes: string[];
  /** A key that cannot be used without an agent. */
  readonly needsAgent: boolean;
}

function remedyOf({ needsAgent }: Login): Pick<Problem, 'remedy'> {
  return needsAgent ? { remedy: 'ssh-add' } : {};
}

/**
 * The key files to try, in order. On a machine that existed before jobman knew it, the keys of the user's ssh_config
 * and gcloud's key follow: the machine's creator most likely authorized one of them.
 */
export function keyFilesOf(target: SshTarget, config: SshConfig, userHome: string): readonly string[] {
  const own = target.keyFile === null ? config.keyFiles : [target.keyFile];
  if (target.existing === undefined) return own;
  return [...new Set([...own, ...config.keyFiles, join(userHome, '.ssh', 'google_compute_engine')])];
}

/** The command that a user types. */
export function sshCommand({ host, port, user }: Pick<SshTarget, 'host' | 'port' | 'user'>): string {
  return `ssh ${port === null ? '' : `-p ${port} `}${user === null ? '' : `${user}@`}${host}`;
}

function howToAddKey({ existing }: SshTarget): readonly string[] {
  return existing === undefined ? [] : [`to add one: ${existing.addKey}`];
}

function refusal(target: SshTarget, config: SshConfig, { names, notes }: Login): string {
  const tried = target.existing === undefined ? [] : [`tried ${names.join(', ')}`];
  return [
    `${config.host} accepts no available SSH key for the user ${config.user}`,
    ...tried,
    ...notes,
    ...howToAddKey(target),
  ].join('; ');
}

/** True also when the server hangs up before every key was offered. */
function isLoginRefused(error: Error & { level?: string }): boolean {
  return error.level === 'client-authentication' || /too many authentication failures/iu.test(error.message);
}

/** Connections with the same key file share its parsed key. */
function createKeyParser() {
  const parsed = new Map<string, { readonly text: Buffer; readonly key: ParsedKey | Error }>();
  return ({ utils }: Ssh2, file: string, text: Buffer): ParsedKey | Error => {
    const before = parsed.get(file);
    if (before?.text.equals(text) === true) return before.key;
    const found = utils.parseKey(text);
    const key = Array.isArray(found) ? (found[0] ?? new Error('no key in it')) : found;
    parsed.set(file, { text, key });
    return key;
  };
}

async function loginMethods(
  target: SshTarget,
  config: SshConfig,
  userHome: string,
  parse: (file: string, text: Buffer) => ParsedKey | Error,
): Promise<Login> {
  const methods: AnyAuthMethod[] = [];
  const names: string[] = [];
  const notes: string[] = [];
  let needsAgent = config.certificates.length > 0;
  for (const file of keyFilesOf(target, config, userHome)) {
    const loaded = await loadKey(file, (text) => parse(file, text));
    if (loaded === undefined) {
      if (file === target.keyFile) notes.push(`the key file ${file} does not exist`);
    } else if ('problem' in loaded) {
      notes.push(loaded.problem);
      needsAgent ||= loaded.needsAgent === true;
    } else {
      methods.push({ type: 'publickey', username: config.user, key: loaded.key });
      names.push(file);
    }
  }
  if (config.certificates.length > 0) {
    notes.push(`the certificate ${config.certificates.join(', ')} requires an SSH agent: add its key with ssh-add`);
  }
  if (config.agent !== null) {
    methods.push({ type: 'agent', username: config.user, agent: config.agent });
    names.push('the SSH agent');
  }
  return { methods, names, notes, needsAgent };
}

interface Socket {
  readonly stream: Duplex;
  readonly errorOutput: () => Promise<string>;
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
    socket.once('connect', () => {
      clearTimeout(timer);
      resolve({ stream: socket, errorOutput: () => Promise.resolve('') });
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

/** Compares the key of the host with the accepted ones, before the login. */
function createHostKeyCheck({ target, config, pinned, accepted }: LoginPlan, hostKeys: HostKeys) {
  let presentedKey = '';
  let problem: string | undefined;

  function problemOf(key: string): string {
    if (target.verifiesKnownHosts === true)
      return `${config.host} presents the host key ${fingerprint(key)}, which is not the one in your known_hosts; jobman sent nothing. If the change is expected: ssh-keygen -R '${config.knownHosts.name}', then ${sshCommand(target)}`;
    if (pinned === undefined)
      return `${config.host} presents the host key ${fingerprint(key)}, which is not the key that the cloud reports; jobman sent nothing`;
    return (
      `the host key of ${config.host} has changed from ${fingerprint(pinned)} to ${fingerprint(key)} within one allocation; ` +
      `jobman sent nothing. If the change is expected, remove ${hostKeys.file(target.pinName)}`
    );
  }

  return {
    accepts: (bytes: Buffer): boolean => {
      presentedKey = keyFromWire(bytes);
      const isAccepted = accepted.length === 0 || accepted.includes(presentedKey);
      if (!isAccepted) problem = problemOf(presentedKey);
      return isAccepted;
    },
    /** The reason why a key was not accepted. */
    problem: () => problem,
    /**
     * Pins the key, unless the user's own known_hosts has it. Call it after the login: before that, the host has not
     * proven that it holds the key. Resolves with the problem if there is one.
     */
    async pin(): Promise<string | undefined> {
      const name = target.pinName;
      if (target.verifiesKnownHosts === true) return undefined;
      try {
        const found = await hostKeys.pin(name, presentedKey);
        if (found === presentedKey) return undefined;
        return `another process pinned a different host key for ${name} at the same time: ${fingerprint(found)}`;
      } catch (error) {
        return `the host key cannot be pinned: ${messageOf(error)}`;
      }
    },
  };
}

/** The accepted key's type first, so that a host with several keys shows the known one. */
function orderedTypes(accepted: readonly string[]): ServerHostKeyAlgorithm[] {
  const known = accepted.map((key) => key.split(' ')[0]).map((type) => (type === 'ssh-rsa' ? 'rsa-sha2-512' : type));
  return hostKeyTypes.toSorted((a, b) => Number(known.includes(b)) - Number(known.includes(a)));
}

function connectionProblem(error: Error & { level?: string }, host: string): string {
  if (error.message === 'Keepalive timeout') return `${host} no longer answers`;
  if (error.level === 'client-timeout') return `${host} did not finish the SSH handshake in time`;
  return `the connection to ${host} was lost: ${error.message}`;
}
