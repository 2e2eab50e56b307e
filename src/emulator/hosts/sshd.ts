/**
 * The SSH door of a worker as OpenSSH's own server: what is true of sshd is then true of the host. Two forms:
 *
 * - As root with namespaces sshd runs inside the host and knows the users of the host's /etc/passwd.
 * - Elsewhere it runs beside the host as the emulator's user, lets only that user in, because that is all an sshd without
 *   root can do, and leads each session into the host by a forced command.
 *
 * Either outlives the emulator, as the host does, and is found again by the file with its number.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { quoted } from './boot-script.ts';
import type { AuthorizedKey } from './keys.ts';
import type { Login } from './login.ts';
import type { Isolation, Machine } from './machine.ts';
import { hostMark, signal, startTicks, until } from './processes.ts';
import { loginShell } from './session.ts';

export interface SshdFacts {
  readonly program: string;
  readonly address: string;
  readonly port: number;
  readonly hostKey: string;
  readonly folder: string;
  readonly machine: Machine;
  readonly isolation: Isolation;
  /** The name of the emulator's own user, the only one that sshd can let in where it is not inside the host. */
  readonly ownUser: string;
  keys(): readonly AuthorizedKey[];
  /** The environment of every session in addition to what sshd gives it. */
  readonly env: Readonly<Record<string, string>>;
  /** The home folder of a user, made when it is not there. */
  home(user: string): string;
}

/** Where Debian and others have it; it must be started by its full path. */
const places = ['/usr/sbin/sshd', '/usr/local/sbin/sshd', '/sbin/sshd', '/usr/bin/sshd'];

const sftpServers = ['/usr/lib/openssh/sftp-server', '/usr/libexec/openssh/sftp-server', '/usr/lib/ssh/sftp-server'];

/** The machine's own sshd; undefined where there is none. */
export function findSshd(exists: (path: string) => boolean): string | undefined {
  return places.find((path) => exists(path));
}

/** Starts sshd, or finds the one that an earlier emulator started. Rejects with its last words when it does not answer. */
export async function openSshd(facts: SshdFacts): Promise<Login> {
  const { address, port, machine } = facts;
  const folder = join(facts.folder, 'ssh');
  const isInside = facts.isolation === 'root';
  mkdirSync(join(folder, 'keys'), { recursive: true });
  const pidFile = join(folder, 'pid');
  const config = join(folder, 'sshd_config');
  const log = join(folder, 'sshd.log');
  writeFileSync(join(folder, 'host_key'), facts.hostKey, { mode: 0o600 });
  writeFileSync(join(folder, 'enter'), enterScript(facts), { mode: 0o700 });
  writeFileSync(config, configText(facts, folder, isInside));

  const beside = (): number | undefined => pidBeside(facts.folder);
  const start = async (): Promise<void> => {
    if (await answers(address, port)) return;
    const argv = [facts.program, '-f', config, '-E', log];
    // Inside, numbers of processes are the host's, and one of an earlier boot may be somebody else's by now.
    rmSync(pidFile, { force: true });
    const [command = '', ...words] = isInside ? machine.enter(argv) : argv;
    await new Promise<void>((resolve, reject) => {
      const child = spawn(command, words, {
        stdio: 'ignore',
        cwd: '/',
        env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', [hostMark]: facts.folder },
      });
      child.on('error', reject);
      child.on('close', (code) =>
        code === 0 ? resolve() : reject(new Error(`sshd ended with ${String(code)}: ${lastLines(log)}`)),
      );
    });
    if (!(await until(() => readText(pidFile) !== '', 10_000))) {
      throw new Error(`sshd does not come up: ${lastLines(log)}`);
    }
    if (!isInside) {
      const pid = Number(readText(pidFile));
      writeFileSync(join(folder, 'beside'), `${String(pid)} ${startTicks(pid) ?? ''}`);
    }
  };
  /** Ends the listener; sessions go on, as they do when an administrator stops the service. */
  const stop = async (): Promise<void> => {
    if (!isInside) {
      const pid = beside();
      if (pid !== undefined) await signal('TERM', [pid]);
    } else await run(machine.enter(['/bin/sh', '-c', 'kill "$(cat "$0")" 2>/dev/null', pidFile]));
    await until(() => readText(pidFile) === '', 2_000);
  };

  writeKeys(folder, facts);
  await start();
  let isRefusing = false;
  return {
    async setRefusing(refusing) {
      if (refusing === isRefusing) return;
      isRefusing = refusing;
      await (refusing ? stop() : start());
    },
    async setHung(hung) {
      // Inside, it stands still with the host. The kernel takes connections for it all the same.
      const pid = isInside ? undefined : beside();
      if (pid !== undefined) await signal(hung ? 'STOP' : 'CONT', [-pid]);
    },
    keysChanged: () => writeKeys(folder, facts),
    close: () => endSshd(facts.folder),
  };
}

/** Ends the sshd that runs beside the host of that folder, with all its connections. One inside ends with its host. */
export async function endSshd(folder: string): Promise<void> {
  const pid = pidBeside(folder);
  // The listener leads the group of all its connections.
  if (pid !== undefined) await signal('KILL', [-pid]);
  rmSync(join(folder, 'ssh', 'beside'), { force: true });
}

/** Its number; it is told from a later process of that number by when it began. */
function pidBeside(folder: string): number | undefined {
  const [pid = '', ticks = ''] = readText(join(folder, 'ssh', 'beside')).split(' ');
  return ticks !== '' && startTicks(Number(pid)) === ticks ? Number(pid) : undefined;
}

function configText(facts: SshdFacts, folder: string, isInside: boolean): string {
  // Inside, sshd serves SFTP itself. Next to the host it cannot enter the host for that, so a program has to be entered.
  const sftp = isInside ? 'internal-sftp' : (sftpServers.find((path) => existsSync(path)) ?? 'sftp-server');
  // Of several lines SetEnv the first counts, so all variables stand in one.
  const env = Object.entries(facts.env).map(([name, value]) => `"${name}=${value.replaceAll('"', '')}"`);
  return `# Written by the emulator when this worker's SSH door is opened.
ListenAddress ${facts.address}
Port ${String(facts.port)}
HostKey ${folder}/host_key
PidFile ${folder}/pid
AuthorizedKeysFile ${folder}/keys/%u
# The folder may lie below one that others can write to, such as /tmp.
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
${isInside ? `SetEnv ${env.join(' ')}\n` : `ForceCommand ${quoted(`${folder}/enter`)}\n`}`;
}

/** The command of every session where sshd is outside the host: enter it, then do what was asked for. */
function enterScript(facts: SshdFacts): string {
  const home = facts.home(facts.ownUser);
  const env = { ...facts.env, HOME: home, USER: facts.ownUser, LOGNAME: facts.ownUser, SHELL: loginShell };
  const exports = Object.entries(env).map(([name, value]) => `export ${name}=${quoted(value)}`);
  const enter = facts.machine.enter([]).map(quoted).join(' ');
  return `#!/bin/sh
# Written by the emulator: leads a session of sshd into its host.
${exports.join('\n')}
if [ -n "$SSH_ORIGINAL_COMMAND" ]; then
  exec ${enter} /bin/sh -c 'cd "$HOME" 2>/dev/null; exec "$@"' sh ${loginShell} -c "$SSH_ORIGINAL_COMMAND"
fi
exec ${enter} /bin/sh -c 'cd "$HOME" 2>/dev/null; exec "$@"' sh ${loginShell} -l
`;
}

/** One file of keys for each user, and none for those who have no key any more. */
function writeKeys(folder: string, facts: SshdFacts): void {
  const byUser = new Map<string, string[]>();
  for (const { user, type, blob } of facts.keys()) {
    if (user.includes('/') || user.startsWith('.')) continue;
    byUser.set(user, [...(byUser.get(user) ?? []), `${type} ${blob}\n`]);
    facts.home(user);
  }
  const keys = join(folder, 'keys');
  for (const user of readdirSync(keys)) if (!byUser.has(user)) rmSync(join(keys, user), { force: true });
  for (const [user, lines] of byUser) writeFileSync(join(keys, user), lines.join(''), { mode: 0o600 });
}

function answers(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, address);
    const say = (answer: boolean): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('connect', () => say(true)).on('error', () => say(false));
  });
}

function run(argv: readonly string[]): Promise<void> {
  const [command = '', ...words] = argv;
  return new Promise((resolve) => {
    const child = spawn(command, words, { stdio: 'ignore', cwd: '/' });
    child.on('error', () => resolve());
    child.on('close', () => resolve());
  });
}

function lastLines(path: string): string {
  return readText(path).split('\n').slice(-3).join(' ') || 'it said nothing';
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return '';
  }
}
