// How the workers of a TPU are reached by ssh, in process and by the system's own client: for a job's TPU (TpuWorkers) and for
// any TPU (Doors). With it the login: the user, the key, the metadata that makes workers accept it, and their host keys.

import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { SshHost } from '../../app/by-hand.ts';
import { exitCode, JobmanError, textOf } from '../../app/errors.ts';
import { makeFolder } from '../../app/files.ts';
import type { AllocationRef, WorkerRef } from '../../app/ports.ts';
import type { Host } from '../../core/job.ts';
import type { TpuSpec } from '../../core/spec.ts';
import { second, type Duration, type Instant } from '../../core/time.ts';
import { createHostKeys, ensureOwnKey } from '../../remote/ssh-keys.ts';
import { quote } from '../../remote/run-folder.ts';
import { isHostName, type SshConfig } from '../../remote/ssh-config.ts';
import type { SshPool, SshTarget, SshTransport } from '../../remote/ssh.ts';
import type { Reach } from '../../remote/transport.ts';
import type { GuestAttributes, Place, TpuApi } from './api.ts';
import { nodeIds, placeOf, tpuOf } from './meaning.ts';

export interface TpuWorkersOptions extends LoginOptions, DoorsOptions {}

export type TpuWorkers = ReturnType<typeof createTpuWorkers>;

/** The ways to the workers of a job's TPU; see createDoors. */
export function createTpuWorkers(options: TpuWorkersOptions) {
  const doors = createDoors(options);

  function machinesOf(ref: AllocationRef): Machines {
    const spec = tpuOf(ref);
    return {
      name: ref.allocation.name,
      place: placeOf(ref),
      nodeIds: nodeIds(ref),
      hosts: ref.allocation.hosts ?? [],
      user: userOf(spec, options),
      privateKey: spec.privateKey,
      isExisting: spec.ownership === 'standing',
      pinPrefix: pinPrefix(ref),
    };
  }

  const transport = async (ref: WorkerRef): Promise<SshTransport> =>
    doors.transport(machinesOf(ref), Number(ref.worker));

  return {
    /** For `MachinesParts.reach`. */
    async reach(ref: WorkerRef): Promise<Reach> {
      try {
        return { kind: 'open', transport: await transport(ref) };
      } catch (error) {
        return { kind: 'closed', reason: textOf(error) };
      }
    },
    transport,
    forget: (ref: AllocationRef): void => doors.forget(pinPrefix(ref), { pins: ref.allocation.releasedAt !== null }),
    sshHost: async (ref: WorkerRef) => doors.sshHost(machinesOf(ref), Number(ref.worker)),
    sshArgv: async (ref: WorkerRef, command: readonly string[]) =>
      doors.sshArgv(machinesOf(ref), Number(ref.worker), command),
  };
}

function pinPrefix({ job, allocation }: AllocationRef): string {
  return `${job.installation}-${job.id}-${allocation.ordinal}-w`;
}

export interface SshWay {
  /** 22 at Google; the built-in cloud has one port for all of its workers. */
  readonly port: number;
  /** Whether the user's own ssh_config has a say (a jump host, a tunnel). Not for the built-in cloud. */
  readonly userConfig: boolean;
}

export interface DoorsOptions {
  /** `$JOBMAN_HOME`, where jobman's own key and the pinned host keys are, or will be made. */
  readonly home: string;
  readonly pool: SshPool;
  readonly apiFor: (project: string) => TpuApi;
  /** Rejects with a sentence when it cannot be told now (the built-in cloud does not run). */
  readonly sshFor: (project: string) => Promise<SshWay>;
  readonly now: () => Instant;
}

export interface Machines {
  readonly name: string;
  readonly place: Place;
  /** Its nodes, in the order of their workers; more than one are a multislice. */
  readonly nodeIds: readonly string[];
  readonly hosts: readonly Host[];
  readonly user: string;
  /** The file of the private key; null means jobman's own key. */
  readonly privateKey: string | null;
  /** The TPU exists apart from any job, so it may know only keys of its user: those are tried too. */
  readonly isExisting: boolean;
  /** The beginning of the names of its pinned host keys; a worker's number follows. A TPU that is made again has another. */
  readonly pinPrefix: string;
}

interface TpuTarget extends SshTarget {
  readonly port: number;
  readonly user: string;
}

/**
 * Time limits that end the system's ssh when a host goes silent: ConnectTimeout until the prompt, and a question each
 * ServerAliveInterval, of which ssh lets three go unanswered. Long enough for a line that is bad for half a minute; without
 * them a shell on a host that hangs never ends (ssh_config(5)).
 */
const connectMost: Duration = 15 * second;
const askAliveEvery: Duration = 15 * second;

export type Doors = ReturnType<typeof createDoors>;

/** The ways to the workers of any TPU. Each throws JobmanError when the worker cannot be reached. */
export function createDoors(options: DoorsOptions) {
  const { pool, apiFor, sshFor, now } = options;
  const pins = createHostKeys(options.home);
  const told = createToldKeys({ apiFor, now, pins });
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

  /** In a home that a group shares jobman's own key may be closed to this login; the user's keys may do without it. */
  async function ownKeyOrUsers({ isExisting }: Machines): Promise<string | null> {
    try {
      return await ownKeyFile();
    } catch (error) {
      if (!isExisting) throw error;
      return null;
    }
  }

  async function targetOf(machines: Machines, worker: number): Promise<TpuTarget> {
    const { name, place, hosts, user, privateKey, pinPrefix } = machines;
    const address = hosts[worker];
    const host = address?.externalIp ?? address?.internalIp ?? null;
    if (host === null)
      throw new JobmanError(`the cloud has told no address of worker ${worker} of ${name} yet`, exitCode.unreachable);
    if (!isHostName(host))
      throw new JobmanError(
        `the cloud reports the address ${JSON.stringify(host)} of worker ${worker} of ${name}, which is not a host name`,
        exitCode.unreachable,
      );
    const pin = `${pinPrefix}${worker}`;
    // One after the other: when the first has failed, nothing goes on behind it that may still make a key in this home.
    const way = await sshFor(place.project);
    const keyFile = privateKey ?? (await ownKeyOrUsers(machines));
    const hostKeys = await told.hostKeysOf(machines, worker, pin);
    const existing = machines.isExisting ? { existing: { addKey: addKeyCommand(machines) } } : {};
    return { host, ...way, user, keyFile, pin, hostKeys, ...existing };
  }

  /** The system's ssh reads pins from the file only, so what the cloud has told is written there. True when it holds one. */
  async function pinForSystem({ pin, hostKeys }: TpuTarget): Promise<boolean> {
    const [key] = hostKeys;
    if (key === undefined) return (await pins.pinned(pin)) !== undefined;
    await pins.pin(pin, key);
    return true;
  }

  async function hostOf(machines: Machines, worker: number): Promise<SshHost> {
    const target = await targetOf(machines, worker);
    const file = pins.file(target.pin);
    const [isKnown, { limits }, keyFiles] = await Promise.all([
      pinForSystem(target),
      pool.config(target),
      pool.keyFiles(target),
    ]);
    // ssh warns of each file that is named and missing; one that was chosen is worth the warning.
    const identities = keyFiles.filter((path) => path === target.keyFile || existsSync(path));
    makeFolder(dirname(file));
    return { worker, host: target.host, options: sshOptions(target, { file, isKnown, limits, identities }) };
  }

  return {
    /** The way to that worker. Makes no connection by itself; asks the cloud once for the host keys. */
    transport: async (machines: Machines, worker: number) => pool.transport(await targetOf(machines, worker)),

    /** Closes the connections to those workers; with `pins` the pinned host keys go too, as the machines have. */
    forget(pinPrefix: string, { pins: withPins }: { readonly pins: boolean }): void {
      told.forget(pinPrefix);
      pool.forget(pinPrefix, { pins: withPins });
    },

    /**
     * The options of the system's ssh for that worker. It asks nothing about host keys: the one we know must be shown, and where
     * none is known yet the first is pinned.
     */
    sshHost: hostOf,

    /**
     * The system's ssh for that worker, as an argv. One word of `command` is a shell's text, as with ssh; several are one
     * program with its arguments, which arrive as they are.
     */
    async sshArgv(machines: Machines, worker: number, command: readonly string[]): Promise<readonly string[]> {
      const { host, options: told } = await hostOf(machines, worker);
      const words = command.length > 1 ? command.map(quote).join(' ') : command.join('');
      const way = await sshFor(machines.place.project);
      return [
        'ssh',
        ...(way.userConfig ? [] : ['-F', 'none']),
        ...told.flatMap(([name, value]) => ['-o', `${name}=${value}`]),
        '--',
        host,
        ...(words === '' ? [] : [words]),
      ];
    },
  };
}

/** The options of the system's ssh for that target, which leave nothing to a configuration but its time limits. */
function sshOptions(
  target: TpuTarget,
  {
    file,
    isKnown,
    limits,
    identities,
  }: Pick<SshConfig, 'limits'> & {
    readonly file: string;
    readonly isKnown: boolean;
    readonly identities: readonly string[];
  },
): SshHost['options'] {
  return [
    ['Port', String(target.port)],
    ['User', target.user],
    // As an option and not as `-i`, which looks for the file before it expands its name.
    ...identities.map((path) => ['IdentityFile', pathWord(path)] as const),
    // Without it ssh offers the agent's keys first, and a server hangs up after some refused keys.
    ...(target.existing === undefined ? ([['IdentitiesOnly', 'yes']] as const) : []),
    ['HostKeyAlias', target.pin],
    ['UserKnownHostsFile', pathWord(file)],
    ['GlobalKnownHostsFile', '/dev/null'],
    ['StrictHostKeyChecking', isKnown ? 'yes' : 'accept-new'],
    ['CheckHostIP', 'no'],
    ['HashKnownHosts', 'no'],
    ['UpdateHostKeys', 'no'],
    ...(limits.connecting ? [] : ([['ConnectTimeout', String(connectMost / second)]] as const)),
    ...(limits.silence ? [] : ([['ServerAliveInterval', String(askAliveEvery / second)]] as const)),
    // No jump host that the user's configuration names for every host leads to the built-in cloud.
    ...(target.userConfig ? [] : ([['ProxyCommand', 'none']] as const)),
  ];
}

/** gcloud makes a key where there is none, and adds it to the metadata of the project or of the TPU. */
function addKeyCommand({ user, nodeIds, place }: Machines): string {
  const [node = ''] = nodeIds;
  return `gcloud compute tpus tpu-vm ssh ${user}@${node} --zone ${place.zone} --project ${place.project} --worker all --command true`;
}

/** A path in ssh's configuration: blanks separate words, and `%` with the letter that follows is expanded. */
function pathWord(path: string): string {
  return `"${path.replaceAll('%', '%%')}"`;
}

/** Host keys that the cloud did not tell are asked for again, no sooner than this. */
const askAgainAfter: Duration = 30 * second;
/** If the answer takes longer than this, the keys are unknown this time. */
const answerWithin: Duration = 3 * second;

function createToldKeys({
  apiFor,
  now,
  pins,
}: Pick<DoorsOptions, 'apiFor' | 'now'> & { readonly pins: ReturnType<typeof createHostKeys> }) {
  /** Of each TPU, what its workers said about themselves, and when they were asked. */
  const asked = new Map<string, { readonly at: Instant; readonly attributes: Promise<readonly GuestAttributes[]> }>();
  /** Of each worker, the keys that it was found to have. The same from then on: equal targets share a connection. */
  const found = new Map<string, readonly string[]>();

  function attributesOf({ pinPrefix, place, nodeIds }: Machines): Promise<readonly GuestAttributes[]> {
    const before = asked.get(pinPrefix);
    if (before !== undefined && now() - before.at < askAgainAfter) return before.attributes;
    const api = apiFor(place.project);
    const answered = Promise.all(nodeIds.map((id) => api.getGuestAttributes(place, id))).then((answers) =>
      // If one slice does not answer, every later worker would get the keys of another.
      answers.every((answer) => answer.ok) ? answers.flatMap((answer) => answer.value) : [],
    );
    // A worker that does not answer has to be noticed within ten seconds, and the cloud may not answer at all.
    const late = pause(answerWithin, [], { ref: false });
    const attributes = Promise.race([answered, late]);
    asked.set(pinPrefix, { at: now(), attributes });
    return attributes;
  }

  return {
    async hostKeysOf(machines: Machines, worker: number, pin: string): Promise<readonly string[]> {
      const before = found.get(pin);
      if (before !== undefined) return before;
      const isPinned = (await pins.pinned(pin)) !== undefined;
      const keys = isPinned ? [] : hostKeysIn((await attributesOf(machines))[worker]);
      if (isPinned || keys.length > 0) found.set(pin, keys);
      return keys;
    },
    forget(pinPrefix: string): void {
      asked.delete(pinPrefix);
      for (const pin of found.keys()) if (pin.startsWith(pinPrefix)) found.delete(pin);
    },
  };
}

/** The types that both sshd and our client know, the cheapest first; the guest agent publishes each under its name. */
const hostKeyTypes = ['ssh-ed25519', 'ecdsa-sha2-nistp256', 'ssh-rsa'];

function hostKeysIn(attributes: GuestAttributes | undefined): readonly string[] {
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

function userOf(spec: LoginSpec, { user }: LoginOptions): string {
  return spec.remoteUser ?? user;
}

/**
 * The node's `ssh-keys` metadata: jobman's own key, and the manifest's where its public half lies beside it. Google's guest
 * agent makes the user and its authorized_keys from them. The project's own lines count as well and are not touched.
 * Throws when jobman's own key cannot be made.
 */
export async function sshKeyLines(spec: LoginSpec, options: LoginOptions): Promise<string> {
  const keys = [await ownPublicKey(options.home)];
  if (spec.privateKey !== null) keys.push(...(await publicHalf(spec.privateKey)));
  // `USER:TYPE KEY COMMENT`, a line each.
  return keys.map((key) => `${userOf(spec, options)}:${key}`).join('\n');
}

/** In a home that a group shares the key is its first login's; the public half is for all. */
async function ownPublicKey(home: string): Promise<string> {
  try {
    return (await ensureOwnKey(home)).publicKey;
  } catch (error) {
    const [shared] = await publicHalf(join(home, 'ssh', 'id_ed25519'));
    if (shared === undefined) throw error;
    return shared;
  }
}

/** The key of that file's `.pub`, if there is one: the project's metadata may hold it already. */
async function publicHalf(privateKey: string): Promise<readonly string[]> {
  try {
    const line = (await readFile(`${privateKey}.pub`, 'utf8')).trim();
    return line === '' || line.includes('\n') ? [] : [line];
  } catch {
    return [];
  }
}
