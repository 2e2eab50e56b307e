/** A real OpenSSH server on loopback with a configuration, host key and login keys of its own. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/ports.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { openWorld } from '../support/world.ts';
import type { World } from '../support/world.ts';

export interface Sshd {
  readonly world: World;
  readonly host: string;
  readonly port: number;
  readonly user: string;
  /** The private key that the server accepts. */
  readonly keyFile: string;
  /** The home folder of its sessions. */
  readonly home: string;
  readonly bootIdFile: string;
  /** The server's process; its sessions are its children. */
  readonly pid: number;
  /** Its host key as `type base64`. */
  readonly hostKey: string;
  /** Ends the server, and starts it again with a new host key when asked to. */
  restart(options: { readonly newHostKey: boolean }): Promise<void>;
  /** The content of its log so far. */
  log(): string;
}

/** Undefined where the machine has no sshd: the test was skipped then. */
export async function openSshd(t: TestContext, settings: readonly string[] = []): Promise<Sshd | undefined> {
  const program = findProgram('sshd');
  if (!requireReal(t, 'sshd', program) || program === undefined) return undefined;
  const world = openWorld(t);
  const folder = join(world.folder, 'sshd');
  const home = join(world.folder, 'a home');
  const bootIdFile = join(world.folder, 'boot_id');
  const keyFile = join(folder, 'login');
  const hostKeyFile = join(folder, 'host');
  mkdirSync(folder);
  mkdirSync(home);
  writeFileSync(bootIdFile, 'boot-one\n');
  makeKey(keyFile);
  makeKey(hostKeyFile);
  // A server that runs as root insists on the empty folder that the system's own start-up makes for it.
  if (userInfo().uid === 0) mkdirSync('/run/sshd', { recursive: true, mode: 0o755 });
  const port = await freePort();
  const environment = { ...world.env, HOME: home, JOBMAN_BOOT_ID_FILE: bootIdFile };
  writeFileSync(
    join(folder, 'config'),
    [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${hostKeyFile}`,
      `AuthorizedKeysFile ${keyFile}.pub`,
      `PidFile none`,
      'StrictModes no',
      'UsePAM no',
      'PasswordAuthentication no',
      'KbdInteractiveAuthentication no',
      'PermitRootLogin prohibit-password',
      'PrintMotd no',
      'PrintLastLog no',
      'MaxStartups 200',
      `SetEnv ${Object.entries(environment)
        .map(([name, value]) => `"${name}=${value}"`)
        .join(' ')}`,
      ...settings,
      '',
    ].join('\n'),
  );
  let output = '';
  const start = async (): Promise<ReturnType<typeof spawn>> => {
    const server = spawn(program, ['-D', '-e', '-f', join(folder, 'config')], {
      env: world.env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    server.stderr?.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    const answers = await eventually(() => server.exitCode === null && isListening(port));
    if (answers !== true) throw new Error(`sshd did not start: ${output}`);
    return server;
  };
  const end = async (): Promise<void> => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    server.kill('SIGTERM');
    await once(server, 'exit');
  };
  let server = await start();
  world.atEnd(end);
  return {
    world,
    host: '127.0.0.1',
    port,
    user: userInfo().username,
    keyFile,
    home,
    bootIdFile,
    get pid() {
      return server.pid ?? 0;
    },
    get hostKey() {
      return readFileSync(`${hostKeyFile}.pub`, 'utf8').split(' ').slice(0, 2).join(' ').trim();
    },
    async restart({ newHostKey }) {
      await end();
      if (newHostKey) makeKey(hostKeyFile);
      server = await start();
    },
    log: () => output,
  };
}

/** A new ed25519 key, with a passphrase when one is given. */
export function makeKey(file: string, passphrase = ''): void {
  for (const old of [file, `${file}.pub`]) if (existsSync(old)) spawnSync('rm', [old]);
  const made = spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', passphrase, '-C', 'test', '-f', file], {
    encoding: 'utf8',
  });
  if (made.status !== 0) throw new Error(`ssh-keygen failed: ${made.stderr}`);
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => {
      resolve(false);
    });
  });
}
