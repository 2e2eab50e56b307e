/**
 * OpenSSH's sshd as the SSH server of a worker, in one of two forms:
 *
 * - As root with namespaces, sshd runs inside the host and knows the users of the host's /etc/passwd.
 * - Otherwise it runs outside the host as the emulator's user, the only user that it can admit without root. A forced
 *   command leads each session into the host.
 *
 * Both outlive the emulator, as the host does. A file with their process id identifies them.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { shellQuote } from './boot-script.ts';
import type { AuthorizedKey } from './keys.ts';
import type { SshEndpoint } from './ssh-server.ts';
import type { Isolation, Machine } from './machine.ts';
import { hostVariable, signal, startTicks, waitUntil } from './processes.ts';
import { loginShell } from './session.ts';

export interface SshdOptions {
  readonly program: string;
  readonly address: string;
  readonly port: number;
  readonly hostKey: string;
  readonly folder: string;
  readonly machine: Machine;
  readonly isolation: Isolation;
  /** The only user that sshd admits when it runs outside the host. */
  readonly ownUser: string;
  keys(): readonly AuthorizedKey[];
  readonly env: Readonly<Record<string, string>>;
  /** Created when missing. */
  home(user: string): string;
}

/** sshd must be started by its full path. */
const sshdPaths = ['/usr/sbin/sshd', '/usr/local/sbin/sshd', '/sbin/sshd', '/usr/bin/sshd'];

const sftpServers = ['/usr/lib/openssh/sftp-server', '/usr/libexec/openssh/sftp-server', '/usr/lib/ssh/sftp-server'];

export function findSshd(exists: (path: string) => boolean): string | undefined {
  return sshdPaths.find((path) => exists(path));
}

/** Starts sshd, or finds that of an earlier emulator. Rejects with its last log lines when it does not come up. */
export async function openSshd(options: SshdOptions): Promise<SshEndpoint> {
  const { address, port, machine } = options;
  const folder = join(options.folder, 'ssh');
  const isInside = options.isolation === 'root';
  mkdirSync(join(folder, 'keys'), { recursive: true });
  const pidFile = join(folder, 'pid');
  const config = join(folder, 'sshd_config');
  const log = join(folder, 'sshd.log');
  writeFileSync(join(folder, 'host_key'), options.hostKey, { mode: 0o600 });
  writeFileSync(join(folder, 'enter'), enterScript(options), { mode: 0o700 });
  writeFileSync(config, configText(options, folder, isInside));

  const externalPid = (): number | undefined => externalSshdPid(options.folder);
  const start = async (): Promise<void> => {
    if (await answers(address, port)) return;
    const argv = [options.program, '-f', config, '-E', log];
    // Inside, process ids are the host's, and the id of an earlier boot may belong to another process by now.
    rmSync(pidFile, { force: true });
    const [command = '', ...args] = isInside ? machine.wrapCommand(argv) : argv;
    await new Promise<void>((resolve, reject) => {
      const child = spawn(command, args, {
        stdio: 'ignore',
        cwd: '/',
        env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', [hostVariable]: options.folder },
      });
      child.on('error', reject);
      child.on('close', (code) =>
        code === 0 ? resolve() : reject(new Error(`sshd ended with ${String(code)}: ${lastLines(log)}`)),
      );
    });
    if (!(await waitUntil(() => readText(pidFile) !== '', 10_000))) {
      throw new Error(`sshd does not come up: ${lastLines(log)}`);
    }
    if (!isInside) {
      const pid = Number(readText(pidFile));
      writeFileSync(join(folder, 'external-pid'), `${String(pid)} ${startTicks(pid) ?? ''}`);
    }
  };
  /** Ends the listener. Sessions continue, as they do when an administrator stops the service. */
  const stop = async (): Promise<void> => {
    if (!isInside) {
      const pid = externalPid();
      if (pid !== undefined) await signal('TERM', [pid]);
    } else await run(machine.wrapCommand(['/bin/sh', '-c', 'kill "$(cat "$0")" 2>/dev/null', pidFile]));
    await waitUntil(() => readText(pidFile) === '', 2_000);
  };

  writeKeys(folder, options);
  await start();
  let isRefusing = false;
  return {
    async setRefusing(refusing) {
      if (refusing === isRefusing) return;
      isRefusing = refusing;
      await (refusing ? stop() : start());
    },
    async setHung(hung) {
      // Inside, sshd is frozen with the host. The kernel still accepts connections for it.
      const pid = isInside ? undefined : externalPid();
      if (pid !== undefined) await signal(hung ? 'STOP' : 'CONT', [-pid]);
    },
    keysChanged: () => writeKeys(folder, options),
    close: () => endSshd(options.folder),
  };
}

/** Ends the sshd outside the host of that folder, with all its connections. An sshd inside ends with its host. */
export async function endSshd(folder: string): Promise<void> {
  const pid = externalSshdPid(folder);
  // The listener leads the process group of all its connections.
  if (pid !== undefined) await signal('KILL', [-pid]);
  rmSync(join(folder, 'ssh', 'external-pid'), { force: true });
}

/** The process id of that sshd. The start time distinguishes it from a later process with the same id. */
function externalSshdPid(folder: string): number | undefined {
  const [pid = '', ticks = ''] = readText(join(folder, 'ssh', 'external-pid')).split(' ');
  return ticks !== '' && startTicks(Number(pid)) === ticks ? Number(pid) : undefined;
}

function configText(options: SshdOptions, folder: string, isInside: boolean): string {
  // Inside, sshd serves SFTP itself. Outside, the forced command needs a program that it can run inside the host.
  const sftp = isInside ? 'internal-sftp' : (sftpServers.find((path) => existsSync(path)) ?? 'sftp-server');
  // sshd uses only the first SetEnv line, so all variables are on one.
  const env = Object.entries(options.env).map(([name, value]) => `"${name}=${value.replaceAll('"', '')}"`);
  return `# Written by the emulator when it starts the SSH server of this worker.
ListenAddress ${options.address}
Port ${String(options.port)}
HostKey ${folder}/host_key
PidFile ${folder}/pid
AuthorizedKeysFile ${folder}/keys/%u
# The folder may be below one that others can write to, such as /tmp.
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
MaxStartups 200
MaxSessions 200
AcceptEnv LANG LC_*
LogLevel ERROR
Subsystem sftp ${sftp}
${isInside ? `SetEnv ${env.join(' ')}\n` : `ForceCommand ${shellQuote(`${folder}/enter`)}\n`}`;
}

/** The forced command of an sshd outside the host: enters the host, then runs the requested command. */
function enterScript(options: SshdOptions): string {
  const home = options.home(options.ownUser);
  const env = { ...options.env, HOME: home, USER: options.ownUser, LOGNAME: options.ownUser, SHELL: loginShell };
  const exports = Object.entries(env).map(([name, value]) => `export ${name}=${shellQuote(value)}`);
  const enter = options.machine.wrapCommand([]).map(shellQuote).join(' ');
  return `#!/bin/sh
# Written by the emulator: leads a session of sshd into its host.
${exports.join('\n')}
if [ -n "$SSH_ORIGINAL_COMMAND" ]; then
  exec ${enter} /bin/sh -c 'cd "$HOME" 2>/dev/null; exec "$@"' sh ${loginShell} -c "$SSH_ORIGINAL_COMMAND"
fi
exec ${enter} /bin/sh -c 'cd "$HOME" 2>/dev/null; exec "$@"' sh ${loginShell} -l
`;
}

/** One file of keys per user. Removes the files of users without a key. */
function writeKeys(folder: string, options: SshdOptions): void {
  const byUser = new Map<string, string[]>();
  for (const { user, type, blob } of options.keys()) {
    if (user.includes('/') || user.startsWith('.')) continue;
    byUser.set(user, [...(byUser.get(user) ?? []), `${type} ${blob}\n`]);
    options.home(user);
  }
  const keys = join(folder, 'keys');
  for (const user of readdirSync(keys)) if (!byUser.has(user)) rmSync(join(keys, user), { force: true });
  for (const [user, lines] of byUser) writeFileSync(join(keys, user), lines.join(''), { mode: 0o600 });
}

function answers(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, address);
    const finish = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('connect', () => finish(true)).on('error', () => finish(false));
  });
}

function run(argv: readonly string[]): Promise<void> {
  const [command = '', ...args] = argv;
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: 'ignore', cwd: '/' });
    child.on('error', () => resolve());
    child.on('close', () => resolve());
  });
}

function lastLines(path: string): string {
  return readText(path).split('\n').slice(-3).join(' ') || 'it printed nothing';
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}
