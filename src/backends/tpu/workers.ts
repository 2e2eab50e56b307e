// The logins to the workers of a TPU: address, user, keys, `ssh-keys` metadata and host keys.

import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import type { LoginKey, WorkerLogin } from '../../app/worker-access.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { AllocationRef, WorkerRef } from '../../app/ports.ts';
import type { Host } from '../../core/model/job.ts';
import type { TpuSpec } from '../../core/model/spec.ts';
import { second, type Duration, type Instant } from '../../core/model/time.ts';
import { createHostKeys, ensureOwnKey, ownKeyFile, publicKeyIn } from '../../remote/ssh-keys.ts';
import { isHostName } from '../../remote/ssh-config.ts';
import { createSecretReader, type SecretSources } from '../../files/secret-store.ts';
import { createSshLogins } from '../../remote/ssh-logins.ts';
import type { SshPool, SshTransport } from '../../remote/ssh.ts';
import type { GuestAttributes, Location, TpuApi } from './api.ts';
import { nodeIds, locationOf, tpuSpecOf } from './resources.ts';

export interface TpuWorkersOptions extends LoginOptions, SshRoutesOptions {}

export type TpuWorkers = ReturnType<typeof createTpuWorkers>;

export function createTpuWorkers(options: TpuWorkersOptions) {
  const routes = createSshRoutes(options);
  const pins = createHostKeys(options.home);

  function machinesOf(ref: AllocationRef): WorkerHosts {
    const spec = tpuSpecOf(ref);
    const { id, owner } = ref.job;
    return {
      name: ref.allocation.name,
      location: locationOf(ref),
      nodeIds: nodeIds(ref),
      hosts: ref.allocation.hosts ?? [],
      user: loginUser(spec, options),
      privateKey: spec.privateKey === null ? null : { job: { id, owner }, secret: spec.privateKey },
      isExisting: spec.ownership === 'persistent',
      pinPrefix: pinPrefix(ref),
    };
  }

  const transport = async (ref: WorkerRef): Promise<SshTransport> =>
    routes.transport(machinesOf(ref), Number(ref.worker));

  return {
    transport,
    disconnect: (ref: AllocationRef): void =>
      routes.forget(pinPrefix(ref), { pins: ref.allocation.releasedAt !== null }),
    /** With the key that this machine has pinned, which the cloud is not asked for again. */
    async login(ref: WorkerRef): Promise<WorkerLogin> {
      const login = await routes.login(machinesOf(ref), Number(ref.worker));
      const pinned = await pins.pinned(login.pinName);
      return pinned === undefined ? login : { ...login, hostKeys: [pinned] };
    },
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
  readonly secretSources?: SecretSources | undefined;
}

export interface WorkerHosts {
  readonly name: string;
  readonly location: Location;
  /** The ids of its nodes in worker order; several for a multislice. */
  readonly nodeIds: readonly string[];
  readonly hosts: readonly Host[];
  readonly user: string;
  /** Null means jobman's own key. */
  readonly privateKey: LoginKey | null;
  /** True for a TPU that exists apart from jobs. It may know only its user's keys, so these are tried too. */
  readonly isExisting: boolean;
  /** Prefix of the names of its pinned host keys, before the worker's number. A recreated TPU has another prefix. */
  readonly pinPrefix: string;
}

export type SshRoutes = ReturnType<typeof createSshRoutes>;

/** The way to the workers of any TPU. Methods throw JobmanError when the worker is unreachable. */
export function createSshRoutes(options: SshRoutesOptions) {
  const { pool, apiFor, sshAccessFor, now } = options;
  const publishedKeys = createPublishedHostKeys({ apiFor, now, pins: createHostKeys(options.home) });
  const logins = createSshLogins(options);

  async function loginOf(machines: WorkerHosts, worker: number): Promise<WorkerLogin> {
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
    const access = await sshAccessFor(location.project);
    const hostKeys = await publishedKeys.hostKeysOf(machines, worker, pinName);
    const addKey = machines.isExisting ? addKeyCommand(machines) : null;
    return { worker, host, ...access, user, privateKey, pinName, hostKeys, addKey };
  }

  return {
    /** It may query the cloud for the host keys. Empty if this machine has pinned one. */
    login: loginOf,

    /** The transport to a worker. It does not connect. */
    transport: async (machines: WorkerHosts, worker: number) => logins.transport(await loginOf(machines, worker)),

    /** Closes the connections; with `pins` it also deletes the pinned host keys, because the machines are gone. */
    forget(pinPrefix: string, { pins: withPins }: { readonly pins: boolean }): void {
      publishedKeys.forget(pinPrefix);
      pool.forget(pinPrefix, { pins: withPins });
    },
  };
}

/** gcloud creates a missing key and adds it to the metadata of the project or the TPU. */
function addKeyCommand({ user, nodeIds, location }: WorkerHosts): string {
  const [node = ''] = nodeIds;
  return `gcloud compute tpus tpu-vm ssh ${user}@${node} --zone ${location.zone} --project ${location.project} --worker all --command true`;
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
    // The TPUs that no job created are never forgotten.
    for (const [prefix, { at }] of queries) if (now() - at >= hostKeyRetryInterval) queries.delete(prefix);
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
  readonly secretSources?: SecretSources | undefined;
}

type LoginSpec = Pick<TpuSpec, 'remoteUser' | 'privateKey' | 'publicKey'>;

function loginUser(spec: LoginSpec, { user }: LoginOptions): string {
  return spec.remoteUser ?? user;
}

/**
 * Jobman's key and the manifest's, of a job or of none. Google's guest agent creates the user from them; the project's lines
 * stay valid. Throws if jobman's key cannot be made, or if the manifest's cannot be read.
 */
export async function sshKeyLines(spec: LoginSpec, job: LoginKey['job'], options: LoginOptions): Promise<string> {
  const keys = [await ownPublicKey(options.home), ...(await loginPublicKey(spec, job, options))];
  // `USER:TYPE KEY COMMENT`, one line each.
  return keys.map((key) => `${loginUser(spec, options)}:${key}`).join('\n');
}

/** That of the `.pub` file, which a key with a passphrase needs, else that in the private key. */
async function loginPublicKey(
  { privateKey, publicKey }: LoginSpec,
  job: LoginKey['job'],
  { home, secretSources }: LoginOptions,
): Promise<readonly string[]> {
  if (publicKey !== undefined) return [publicKey];
  if (privateKey === null) return [];
  const file =
    privateKey.kind === 'localFile'
      ? privateKey.path
      : privateKey.kind === 'setting'
        ? (secretSources?.settingFile?.(privateKey.setting) ?? null)
        : null;
  const ofFile = file === null ? [] : await readPublicKey(file);
  if (ofFile.length > 0) return ofFile;
  const text = await createSecretReader(home, secretSources).read(job, privateKey);
  const derived = await publicKeyIn(Buffer.from(text));
  return derived === null ? [] : [derived];
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
