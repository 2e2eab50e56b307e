// The SSH server of one worker: its own address, its own host key, and the keys of its node's metadata.

import { timingSafeEqual } from 'node:crypto';
import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import ssh2, { type AuthContext, type Connection, type PseudoTtyInfo, type ServerChannel, type Session } from 'ssh2';
import { authorizedKeys, type AuthorizedKey } from './keys.ts';
import type { Machine } from './machine.ts';
import { startSession, terminalOf, type RunningSession, type Terminal, type SessionRequest } from './session.ts';
import { serveSftp } from './sftp.ts';

export interface SshServerOptions {
  readonly address: string;
  readonly port: number;
  readonly hostKey: string;
  readonly folder: string;
  readonly machine: Machine;
  /** The keys that may log in, read at each attempt: keys may change while the host runs. */
  keys(): readonly AuthorizedKey[];
  /** The environment of a session of that user. Creates the home folder. */
  environment(user: string, client: { readonly address: string; readonly port: number }): Record<string, string>;
  log(line: string): void;
}

export interface SshEndpoint {
  /** A hung host accepts connections, as its kernel still does, and sends nothing. */
  setHung(hung: boolean): Promise<void>;
  /** Refuses new connections. Open ones continue. */
  setRefusing(refusing: boolean): Promise<void>;
  keysChanged(): void;
  close(): Promise<void>;
}

/** Rejects when the address is taken. */
export async function openSshServer(options: SshServerOptions): Promise<SshEndpoint> {
  const sockets = new Set<Socket>();
  let isHung = false;
  const server = new ssh2.Server({ hostKeys: [options.hostKey], ident: 'OpenSSH_9.2' }, (client, info) => {
    serve(options, client, { address: info.ip, port: info.port });
  });
  const listener = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    batchWrites(socket);
    if (isHung) waiting.add(socket);
    else server.injectSocket(socket);
  });
  /** Connections that arrived while the host hung; the host serves them when it resumes. */
  const waiting = new Set<Socket>();
  await listen(listener, options.port, options.address);
  return {
    async setHung(hung) {
      if (hung === isHung) return;
      isHung = hung;
      for (const socket of sockets) {
        if (hung) socket.pause();
        else if (!waiting.has(socket)) socket.resume();
      }
      if (!hung) {
        for (const socket of waiting) if (!socket.destroyed) server.injectSocket(socket);
        waiting.clear();
      }
    },
    async setRefusing(refusing) {
      if (refusing === !listener.listening) return;
      // The port closes at once. The callback of `close` would wait for open connections.
      if (refusing) listener.close();
      else await listen(listener, options.port, options.address);
    },
    keysChanged: () => undefined,
    close: () =>
      new Promise((resolve) => {
        listener.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
}

/** Combines the writes of one tick. The SSH library writes each packet alone, and the end of a session is three. */
function batchWrites(socket: Socket): void {
  const write = socket.write.bind(socket) as (...args: readonly unknown[]) => boolean;
  let isHeld = false;
  socket.write = (...args: readonly unknown[]): boolean => {
    if (!isHeld) {
      isHeld = true;
      socket.cork();
      queueMicrotask(() => {
        isHeld = false;
        socket.uncork();
      });
    }
    return write(...args);
  };
}

export function listen(server: Server, port: number, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, address, () => {
      server.off('error', reject);
      server.on('error', () => undefined);
      resolve();
    });
  });
}

function serve(options: SshServerOptions, client: Connection, from: { address: string; port: number }): void {
  let user = '';
  // A client that disconnects in the middle of a packet is not a failure of the host.
  client.on('error', () => undefined);
  client.on('authentication', (context) => {
    if (isAllowed(context, options.keys())) {
      user = context.username;
      context.accept();
    } else context.reject(['publickey']);
  });
  client.on('ready', () => {
    client.on('session', (accept) => serveSession(options, accept(), options.environment(user, from)));
    client.on('tcpip', (accept, reject, info) => {
      const host = info.destIP === 'localhost' ? '127.0.0.1' : info.destIP;
      const target = connect(info.destPort, host);
      let channel: ReturnType<typeof accept> | undefined;
      target.on('connect', () => {
        channel = accept();
        channel.on('error', () => undefined);
        channel.on('close', () => target.destroy());
        channel.pipe(target).pipe(channel);
      });
      target.on('error', () => {
        if (channel === undefined) reject();
        else channel.close();
      });
    });
  });
}

function isAllowed(context: AuthContext, keys: readonly AuthorizedKey[]): boolean {
  if (context.method !== 'publickey') return false;
  const offered = context.key.data;
  const found = keys.find((key) => {
    const known = Buffer.from(key.blob, 'base64');
    return key.user === context.username && known.length === offered.length && timingSafeEqual(known, offered);
  });
  if (found === undefined) return false;
  // Without a signature, the client only asks whether the key is acceptable.
  if (context.signature === undefined || context.blob === undefined) return true;
  const parsed = ssh2.utils.parseKey(`${found.type} ${found.blob}`);
  if (parsed instanceof Error) return false;
  return parsed.verify(context.blob, context.signature, context.hashAlgo) === true;
}

function serveSession(options: SshServerOptions, session: Session, base: Readonly<Record<string, string>>): void {
  const env = { ...base };
  let terminal: Terminal | undefined;
  let running: RunningSession | undefined;
  // `accept` is undefined when the client wants no answer; the types do not say so.
  type Answer = (() => unknown) | undefined;
  session.on('env', (accept: Answer, reject: Answer, info: { key: string; val: string }) => {
    // The variables that Debian's sshd accepts.
    if (/^(LANG|LC_[A-Z]+)$/.test(info.key)) {
      env[info.key] = info.val;
      accept?.();
    } else reject?.();
  });
  session.on('pty', (accept: Answer, _reject: Answer, info: PseudoTtyInfo) => {
    terminal = terminalOf(info);
    accept?.();
  });
  session.on('window-change', (accept: Answer, _reject: Answer, info) => {
    running?.resize(info);
    accept?.();
  });
  session.on('signal', (accept: Answer, _reject: Answer, info) => {
    running?.signal(info.name);
    accept?.();
  });
  const run = (channel: ServerChannel, request: SessionRequest): void => {
    running = startSession({ ...options, env }, request, terminal, channel);
  };
  session.on('exec', (accept, _reject, info) => run(accept(), { kind: 'command', command: info.command }));
  session.on('shell', (accept) => run(accept(), { kind: 'shell' }));
  session.on('sftp', (accept) => serveSftp(accept(), { root: options.machine.root, home: env['HOME'] ?? '/' }));
  session.on('subsystem', (_accept, reject, info) => {
    options.log(`a client requested the SSH subsystem ${info.name}; a host has only sftp`);
    reject();
  });
}

/** The user of the emulator. In a container the uid often has no account, so read it from /proc. */
export function emulatorUser(env: Readonly<Record<string, string | undefined>>): {
  readonly name: string;
  readonly uid: number;
} {
  try {
    const { username, uid } = userInfo();
    return { name: username, uid };
  } catch {
    const { uid } = statSync('/proc/self');
    return { name: env['USER'] ?? String(uid), uid };
  }
}

/** The users in a node's `ssh-keys`, each once, in the order of their first key. Skips invalid user names. */
export function sshUsers(sshKeys: string | undefined): string[] {
  const names = authorizedKeys(sshKeys).map(({ user }) => user);
  return [...new Set(names)].filter((name) => /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/.test(name));
}

export function ensureHome(folder: string, user: string, profile: string): string {
  const home = join(folder, 'home', user);
  if (mkdirSync(home, { recursive: true }) !== undefined) writeFileSync(join(home, '.profile'), profile);
  return home;
}

/** The text of /etc/passwd. The node's users come first: all have uid 0, and programs show its first name. */
export function passwdText(folder: string, users: readonly string[], shell: string): string {
  let own = 'root:x:0:0:root:/root:/bin/sh\n';
  try {
    own = readFileSync('/etc/passwd', 'utf8');
  } catch {
    // A machine without the file still has root.
  }
  const lines = users.map((user) => `${user}:*:0:0::${join(folder, 'home', user)}:${shell}`);
  // The machine's own user of that name has another number and another home.
  const others = own.split('\n').filter((line) => line !== '' && !users.includes(line.slice(0, line.indexOf(':'))));
  return `${[...lines, ...others].join('\n')}\n`;
}

/** The file that login shells read. Debian's /etc/profile resets PATH, and our programs must come first on it. */
export function profileText(programs: string): string {
  return `# The programs of this worker (sudo, apt-get, gcsfuse and so on) come first.
case ":$PATH:" in *':${programs}:'*) ;; *) PATH='${programs}':$PATH ;; esac
export PATH
`;
}

/** The ssh_config of a host: workers reach each other by name and address, as at Google, but the SSH port is not 22. */
export function sshConfigText(octetNetwork: string, port: number): string {
  return `# The workers of this cloud share one SSH port.
Host t1v-n-* ${octetNetwork}
  Port ${String(port)}
`;
}
