// SSH access to the workers of a TPU, in process and through the system's ssh, with the login: user, keys, `ssh-keys`
// metadata and host keys.

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { SshHost } from '../../app/worker-access.ts';
import { exitCode, JobmanError, messageOf } from '../../app/errors.ts';
import { makeFolder } from '../../files/files.ts';
import type { AllocationRef, WorkerRef } from '../../app/ports.ts';
import type { Host } from '../../core/model/job.ts';
import type { TpuSpec } from '../../core/model/spec.ts';
import { second, type Duration, type Instant } from '../../core/model/time.ts';
import { createHostKeys, ensureOwnKey, ownKeyFile } from '../../remote/ssh-keys.ts';
import { quote } from '../../catalogue/shell.ts';
import { isHostName, type SshConfig } from '../../remote/ssh-config.ts';
import type { SshPool, SshTarget, SshTransport } from '../../remote/ssh.ts';
import type { TransportResult } from '../../remote/transport.ts';
import type { GuestAttributes, Location, TpuApi } from './api.ts';
import { nodeIds, locationOf, tpuSpecOf } from './resources.ts';

export interface TpuWorkersOptions extends LoginOptions, SshRoutesOptions {}

export type TpuWorkers = ReturnType<typeof createTpuWorkers>;

export function createTpuWorkers(options: TpuWorkersOptions) {
  const routes = createSshRoutes(options);

  function machinesOf(ref: AllocationRef): WorkerHosts {
    const spec = tpuSpecOf(ref);
    return {
      name: ref.allocation.name,
      location: locationOf(ref),
      nodeIds: nodeIds(ref),
      hosts: ref.allocation.hosts ?? [],
      user: loginUser(spec, options),
      privateKey: spec.privateKey,
      isExisting: spec.ownership === 'persistent',
      pinPrefix: pinPrefix(ref),
    };
  }

  const transport = async (ref: WorkerRef): Promise<SshTransport> =>
    routes.transport(machinesOf(ref), Number(ref.worker));

  return {
    async findTransport(ref: WorkerRef): Promise<TransportResult> {
      try {
        return { kind: 'open', transport: await transport(ref) };
      } catch (error) {
        return { kind: 'closed', reason: messageOf(error) };
      }
    },
    transport,
    disconnect: (ref: AllocationRef): void =>
      routes.forget(pinPrefix(ref), { pins: ref.allocation.releasedAt !== null }),
    sshHost: async (ref: WorkerRef) => routes.sshHost(machinesOf(ref), Number(ref.worker)),
    sshArgv: async (ref: WorkerRef, command: readonly string[]) =>
      routes.sshArgv(machinesOf(ref), Number(ref.worker), command),
  };
}

function pinPrefix({ job, allocation }: AllocationRef): string {
  return `${job.installation}-${job.id}-${allocation.ordinal}-w`;
}

export interface SshAccess {
  /** 22 at Google; the TPU emulator has one port for all of its workers. */
  readonly port: number;
  /** True if the user's ssh_config applies (a jump host, a tunnel). False for the TPU emulator. */
  readonly usesUserConfig: boolean;
}

export interface SshRoutesOptions {
  /** `$JOBMAN_HOME`, with jobman's own key and the pinned host keys. */
  readonly home: string;
  readonly pool: SshPool;
  readonly apiFor: (project: string) => TpuApi;
  /** Rejects with a message if the access is unknown now (the TPU emulator does not run). */
  readonly sshAccessFor: (project: string) => Promise<SshAccess>;
  readonly now: () => Instant;
}

export interface WorkerHosts {
  readonly name: string;
  readonly location: Location;
  /** The ids of its nodes in worker order; several for a multislice. */
  readonly nodeIds: readonly string[];
  readonly hosts: readonly Host[];
  readonly user: string;
  /** Null means jobman's own key. */
  readonly privateKey: string | null;
  /** True for a TPU that exists apart from jobs. It may know only its user's keys, so these are tried too. */
  readonly isExisting: boolean;
  /** Prefix of the names of its pinned host keys, before the worker's number. A recreated TPU has another prefix. */
  readonly pinPrefix: string;
}

interface WorkerTarget extends SshTarget {
  readonly port: number;
  readonly user: string;
}

/**
 * Without these limits (ssh_config(5)) a shell on a hung host never ends. ssh tolerates three unanswered
 * ServerAliveIntervals, enough for half a minute of bad connection.
 */
const connectTimeout: Duration = 15 * second;
const serverAliveInterval: Duration = 15 * second;

export type SshRoutes = ReturnType<typeof createSshRoutes>;

/** Access to the workers of any TPU. Methods throw JobmanError when the worker is unreachable. */
export function createSshRoutes(options: SshRoutesOptions) {
  const { pool, apiFor, sshAccessFor, now } = options;
  const pins = createHostKeys(options.home);
  const publishedKeys = createPublishedHostKeys({ apiFor, now, pins });
  let ownKey: Promise<string> | undefined;

  function ownKeyFile(): Promise<string> {
    ownKey ??= ensureOwnKey(options.home).then(
      ({ file }) => file,
      (error: unknown) => {
        ownKey = undefined;
        throw error;
      },
    );
    return ownKey;
  }

  /** In a shared home jobman's own key may be unreadable for this login; the user's own keys may suffice. */
  async function ownKeyOrNull({ isExisting }: WorkerHosts): Promise<string | null> {
    try {
      return await ownKeyFile();
    } catch (error) {
      if (!isExisting) throw error;
      return null;
    }
  }

  async function targetOf(machines: WorkerHosts, worker: number): Promise<WorkerTarget> {
    const { name, location, hosts, user, privateKey, pinPrefix } = machines;
    const address = hosts[worker];
    const host = address?.externalIp ?? address?.internalIp ?? null;
    if (host === null)
      throw new JobmanError(`the cloud reports no address of worker ${worker} of ${name} yet`, exitCode.unreachable);
    if (!isHostName(host))
      throw new JobmanError(
        `the cloud reports the address ${JSON.stringify(host)} of worker ${worker} of ${name}, which is not a host name`,
        exitCode.unreachable,
      );
    const pinName = `${pinPrefix}${worker}`;
    // In sequence: after the first failure nothing may still create a key in this home.
    const access = await sshAccessFor(location.project);
    const keyFile = privateKey ?? (await ownKeyOrNull(machines));
    const hostKeys = await publishedKeys.hostKeysOf(machines, worker, pinName);
    const existing = machines.isExisting ? { existing: { addKey: addKeyCommand(machines) } } : {};
    return { host, ...access, user, keyFile, pinName, hostKeys, ...existing };
  }

  /** Writes the published host key to a file, which is all that the system's ssh reads. True if a key is pinned. */
  async function pinForSystemSsh({ pinName, hostKeys }: WorkerTarget): Promise<boolean> {
    const [key] = hostKeys;
    if (key === undefined) return (await pins.pinned(pinName)) !== undefined;
    await pins.pin(pinName, key);
    return true;
  }

  async function hostOf(machines: WorkerHosts, worker: number): Promise<SshHost> {
    const target = await targetOf(machines, worker);
    const file = pins.file(target.pinName);
    const [isKnown, { limits }, keyFiles] = await Promise.all([
      pinForSystemSsh(target),
      pool.config(target),
      pool.keyFiles(target),
    ]);
    // ssh warns about each missing key file. Keep that warning for an explicitly chosen file only.
    const identities = keyFiles.filter((path) => path === target.keyFile || existsSync(path));
    makeFolder(dirname(file));
    return { worker, host: target.host, options: sshOptions(target, { file, isKnown, limits, identities }) };
  }

  return {
    /** The transport to a worker. It does not connect, but may query the cloud for the host keys. */
    transport: async (machines: WorkerHosts, worker: number) => pool.transport(await targetOf(machines, worker)),

    /** Closes the connections; with `pins` it also deletes the pinned host keys, because the machines are gone. */
    forget(pinPrefix: string, { pins: withPins }: { readonly pins: boolean }): void {
      publishedKeys.forget(pinPrefix);
      pool.forget(pinPrefix, { pins: withPins });
    },

    /** The ssh options for a worker. A known host key is required; an unknown one is pinned without a question. */
    sshHost: hostOf,

    /** The ssh command for a worker. A single argument is a shell script, as for ssh; several are passed unchanged. */
    async sshArgv(machines: WorkerHosts, worker: number, command: readonly string[]): Promise<readonly string[]> {
      const { host, options } = await hostOf(machines, worker);
      const commandText = command.length > 1 ? command.map(quote).join(' ') : command.join('');
      const access = await sshAccessFor(machines.location.project);
      return [
        'ssh',
        ...(access.usesUserConfig ? [] : ['-F', 'none']),
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
  target: WorkerTarget,
  login: Pick<SshConfig, 'limits'> & {
    readonly file: string;
    readonly isKnown: boolean;
    readonly identities: readonly string[];
  },
): SshHost['options'] {
  const { file, isKnown, limits, identities } = login;
  return [
    ['Port', String(target.port)],
    ['User', target.user],
    // As an option: `-i` checks for the file before it expands the name.
    ...identities.map((path) => ['IdentityFile', quoteConfigPath(path)] as const),
    // Without it ssh offers the agent's keys first, and a server disconnects after some refused keys.
    ...(target.existing === undefined ? ([['IdentitiesOnly', 'yes']] as const) : []),
    ['HostKeyAlias', target.pinName],
    ['UserKnownHostsFile', quoteConfigPath(file)],
    ['GlobalKnownHostsFile', '/dev/null'],
    ['StrictHostKeyChecking', isKnown ? 'yes' : 'accept-new'],
    ['CheckHostIP', 'no'],
    ['HashKnownHosts', 'no'],
    ['UpdateHostKeys', 'no'],
    ...(limits.connecting ? [] : ([['ConnectTimeout', String(connectTimeout / second)]] as const)),
    ...(limits.silence ? [] : ([['ServerAliveInterval', String(serverAliveInterval / second)]] as const)),
    // A jump host that the user's configuration names for all hosts does not reach the TPU emulator.
    ...(target.usesUserConfig ? [] : ([['ProxyCommand', 'none']] as const)),
  ];
}

/** gcloud creates a missing key and adds it to the metadata of the project or the TPU. */
function addKeyCommand({ user, nodeIds, location }: WorkerHosts): string {
  const [node = ''] = nodeIds;
  return `gcloud compute tpus tpu-vm ssh ${user}@${node} --zone ${location.zone} --project ${location.project} --worker all --command true`;
}

/** A path for ssh's configuration, where spaces separate arguments and `%` begins an expansion. */
function quoteConfigPath(path: string): string {
  return `"${path.replaceAll('%', '%%')}"`;
}

const hostKeyRetryInterval: Duration = 30 * second;
const hostKeyAnswerTimeout: Duration = 3 * second;

function createPublishedHostKeys({
  apiFor,
  now,
  pins,
}: Pick<SshRoutesOptions, 'apiFor' | 'now'> & { readonly pins: ReturnType<typeof createHostKeys> }) {
  const queries = new Map<string, { readonly at: Instant; readonly attributes: Promise<readonly GuestAttributes[]> }>();
  /** The host keys per worker. They do not change, because equal targets share a connection. */
  const keysByPin = new Map<string, readonly string[]>();

  function attributesOf({ pinPrefix, location, nodeIds }: WorkerHosts): Promise<readonly GuestAttributes[]> {
    const cached = queries.get(pinPrefix);
    if (cached !== undefined && now() - cached.at < hostKeyRetryInterval) return cached.attributes;
    const api = apiFor(location.project);
    const answered = Promise.all(nodeIds.map((id) => api.getGuestAttributes(location, id))).then((answers) =>
      // If one slice does not answer, the later workers would get another worker's keys.
      answers.every((answer) => answer.ok) ? answers.flatMap((answer) => answer.value) : [],
    );
    // An unreachable worker must be noticed within ten seconds, even if the cloud does not answer.
    const timeout = pause(hostKeyAnswerTimeout, [], { ref: false });
    const attributes = Promise.race([answered, timeout]);
    queries.set(pinPrefix, { at: now(), attributes });
    return attributes;
  }

  return {
    async hostKeysOf(machines: WorkerHosts, worker: number, pinName: string): Promise<readonly string[]> {
      const cached = keysByPin.get(pinName);
      if (cached !== undefined) return cached;
      const isPinned = (await pins.pinned(pinName)) !== undefined;
      const keys = isPinned ? [] : parseHostKeys((await attributesOf(machines))[worker]);
      if (isPinned || keys.length > 0) keysByPin.set(pinName, keys);
      return keys;
    },
    forget(pinPrefix: string): void {
      queries.delete(pinPrefix);
      for (const pinName of keysByPin.keys()) if (pinName.startsWith(pinPrefix)) keysByPin.delete(pinName);
    },
  };
}

/** The types that sshd and our client share, cheapest first. The guest agent publishes each under its name. */
const hostKeyTypes = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ssh-rsa'];

function parseHostKeys(attributes: GuestAttributes | undefined): readonly string[] {
  const items = attributes?.queryValue?.items ?? [];
  return hostKeyTypes.flatMap((type) => {
    const value = items.find((item) => item.namespace === 'hostkeys' && item.key === type)?.value?.trim() ?? '';
    return /^[A-Za-z0-9+/]+=*$/.test(value) ? [`${type} ${value}`] : [];
  });
}

export interface LoginOptions {
  readonly home: string;
  readonly user: string;
}

type LoginSpec = Pick<TpuSpec, 'remoteUser' | 'privateKey'>;

function loginUser(spec: LoginSpec, { user }: LoginOptions): string {
  return spec.remoteUser ?? user;
}

/**
 * Jobman's key, and the manifest's if its `.pub` file exists. Google's guest agent creates the user from them; the
 * project's lines stay valid. Throws if jobman's key cannot be made.
 */
export async function sshKeyLines(spec: LoginSpec, options: LoginOptions): Promise<string> {
  const keys = [await ownPublicKey(options.home)];
  if (spec.privateKey !== null) keys.push(...(await readPublicKey(spec.privateKey)));
  // `USER:TYPE KEY COMMENT`, one line each.
  return keys.map((key) => `${loginUser(spec, options)}:${key}`).join('\n');
}

/** In a shared home the private key belongs to the first login; the public key is readable for all. */
async function ownPublicKey(home: string): Promise<string> {
  try {
    return (await ensureOwnKey(home)).publicKey;
  } catch (error) {
    const [shared] = await readPublicKey(ownKeyFile(home));
    if (shared === undefined) throw error;
    return shared;
  }
}

/** The public key next to a private key; none is fine, because the project's metadata may have it already. */
async function readPublicKey(privateKey: string): Promise<readonly string[]> {
  try {
    const line = (await readFile(`${privateKey}.pub`, 'utf8')).trim();
    return line === '' || line.includes('\n') ? [] : [line];
  } catch {
    return [];
  }
}
