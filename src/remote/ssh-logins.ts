// SSH logins: from the login of a worker to a connection in process, and to the options and the argv of the system's ssh.
// The keys and the pinned host keys are those of this machine.

import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import type { SshHost, WorkerLogin } from '../app/worker-access.ts';
import { quote } from '../catalogue/shell.ts';
import { second, type Duration } from '../core/model/time.ts';
import { makeFolder } from '../files/files.ts';
import { createSecretReader, type SecretSources } from '../files/secret-store.ts';
import type { SshConfig } from './ssh-config.ts';
import { createHostKeys, ensureOwnKey } from './ssh-keys.ts';
import type { SshPool, SshTarget, SshTransport } from './ssh.ts';

/**
 * Without these limits (ssh_config(5)) a shell on a hung host never ends. ssh tolerates three unanswered
 * ServerAliveIntervals, enough for half a minute of bad connection.
 */
const connectTimeout: Duration = 15 * second;
const serverAliveInterval: Duration = 15 * second;

/** Methods throw JobmanError if the key of the login cannot be used. */
export function createSshLogins(options: {
  readonly home: string;
  readonly pool: SshPool;
  readonly secretSources?: SecretSources | undefined;
}) {
  const { home, pool } = options;
  const secrets = createSecretReader(home, options.secretSources);
  const pins = createHostKeys(home);
  let ownKey: Promise<string> | undefined;

  function ownKeyFile(): Promise<string> {
    ownKey ??= ensureOwnKey(home).then(
      ({ file }) => file,
      (error: unknown) => {
        ownKey = undefined;
        throw error;
      },
    );
    return ownKey;
  }

  /** In a shared home jobman's own key may be unreadable for this login; the user's own keys may suffice. */
  async function ownKeyOrNull({ addKey }: WorkerLogin): Promise<string | null> {
    try {
      return await ownKeyFile();
    } catch (error) {
      if (addKey === null) throw error;
      return null;
    }
  }

  async function targetOf(login: WorkerLogin): Promise<SshTarget> {
    const { worker: _, privateKey, addKey, ...address } = login;
    const ownKey = login.verifiesKnownHosts === true ? () => null : () => ownKeyOrNull(login);
    const keyFile = privateKey === null ? await ownKey() : await secrets.fileOf(privateKey.job, privateKey.secret);
    return { ...address, keyFile, ...(addKey === null ? {} : { existing: { addKey } }) };
  }

  /** Writes the published host key to a file, which is all that the system's ssh reads. True if a key is pinned. */
  async function pinForSystemSsh({ pinName, hostKeys }: WorkerLogin): Promise<boolean> {
    const [key] = hostKeys;
    if (key === undefined) return (await pins.pinned(pinName)) !== undefined;
    await pins.pin(pinName, key);
    return true;
  }

  /**
   * The ssh options for a worker. A known host key is required; an unknown one is pinned without a question. For a
   * machine of the user, the terminal's ssh_config adds the rest.
   */
  async function terminalHost(login: WorkerLogin): Promise<SshHost> {
    const target = await targetOf(login);
    if (login.verifiesKnownHosts === true) {
      const { limits } = await pool.config(target);
      return { worker: login.worker, host: login.host, options: [...addressOptions(login), ...limitOptions(limits)] };
    }
    const file = pins.file(login.pinName);
    const [isKnown, { limits }, keyFiles] = await Promise.all([
      pinForSystemSsh(login),
      pool.config(target),
      pool.keyFiles(target),
    ]);
    // ssh warns about each missing key file. Keep that warning for an explicitly chosen file only.
    const identities = keyFiles.filter((path) => path === target.keyFile || existsSync(path));
    makeFolder(dirname(file));
    const options = sshOptions(login, { file, isKnown, limits, identities });
    return { worker: login.worker, host: login.host, options };
  }

  return {
    /** It does not connect yet. */
    transport: async (login: WorkerLogin): Promise<SshTransport> => pool.transport(await targetOf(login)),

    /** The same for a configuration file, which has nothing but these options. */
    async sshHost(login: WorkerLogin): Promise<SshHost> {
      if (login.verifiesKnownHosts !== true) return terminalHost(login);
      const { host, port, user, keyFiles, certificates, options, limits } = await pool.config(await targetOf(login));
      const address = addressOptions({ port, user });
      const found = [...pathOptions('IdentityFile', keyFiles), ...pathOptions('CertificateFile', certificates)];
      return { worker: login.worker, host, options: [...address, ...found, ...options, ...limitOptions(limits)] };
    },

    /** The ssh command for a worker. A single argument is a shell script, as for ssh; several are passed unchanged. */
    async sshArgv(login: WorkerLogin, command: readonly string[]): Promise<readonly string[]> {
      const { host, options } = await terminalHost(login);
      const commandText = command.length > 1 ? command.map(quote).join(' ') : command.join('');
      return [
        'ssh',
        ...(login.usesUserConfig ? [] : ['-F', 'none']),
        ...options.flatMap(([name, value]) => ['-o', `${name}=${value}`]),
        '--',
        host,
        ...(commandText === '' ? [] : [commandText]),
      ];
    },
  };
}

/** The complete ssh options, so that a configuration decides only about time limits. */
function sshOptions(
  target: WorkerLogin,
  login: Pick<SshConfig, 'limits'> & {
    readonly file: string;
    readonly isKnown: boolean;
    readonly identities: readonly string[];
  },
): SshHost['options'] {
  const { file, isKnown, limits, identities } = login;
  return [
    ...addressOptions(target),
    // As an option: `-i` checks for the file before it expands the name.
    ...identities.map((path) => ['IdentityFile', quoteConfigPath(path)] as const),
    // Without it ssh offers the agent's keys first, and a server disconnects after some refused keys.
    ...(target.addKey === null ? ([['IdentitiesOnly', 'yes']] as const) : []),
    ['HostKeyAlias', target.pinName],
    ['UserKnownHostsFile', quoteConfigPath(file)],
    ['GlobalKnownHostsFile', '/dev/null'],
    ['StrictHostKeyChecking', isKnown ? 'yes' : 'accept-new'],
    ['CheckHostIP', 'no'],
    ['HashKnownHosts', 'no'],
    ['UpdateHostKeys', 'no'],
    ...limitOptions(limits),
    // A jump host that the user's configuration names for all hosts does not reach the TPU emulator.
    ...(target.usesUserConfig ? [] : ([['ProxyCommand', 'none']] as const)),
  ];
}

/** ssh warns about each missing file. */
function pathOptions(name: string, paths: readonly string[]): SshHost['options'] {
  return paths.filter((path) => existsSync(path)).map((path) => [name, quoteConfigPath(path)] as const);
}

function addressOptions({ port, user }: Pick<WorkerLogin, 'port' | 'user'>): SshHost['options'] {
  return [
    ...(port === null ? [] : ([['Port', String(port)]] as const)),
    ...(user === null ? [] : ([['User', user]] as const)),
  ];
}

function limitOptions(limits: SshConfig['limits']): SshHost['options'] {
  return [
    ...(limits.connecting ? [] : ([['ConnectTimeout', String(connectTimeout / second)]] as const)),
    ...(limits.silence ? [] : ([['ServerAliveInterval', String(serverAliveInterval / second)]] as const)),
  ];
}

/** A path for ssh's configuration, where spaces separate arguments and `%` begins an expansion. */
function quoteConfigPath(path: string): string {
  return `"${path.replaceAll('%', '%%')}"`;
}
