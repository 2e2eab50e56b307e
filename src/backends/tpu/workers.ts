// The workers of a TPU: how each is reached by ssh, in process and by the system's own client.

import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { AllocationRef, WorkerRef } from '../../app/ports.ts';
import type { SshHost } from '../../app/by-hand.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { second } from '../../core/time.ts';
import type { Duration, Instant } from '../../core/time.ts';
import { createHostKeys } from '../../remote/host-keys.ts';
import { quote } from '../../remote/quote.ts';
import { ensureOwnKey } from '../../remote/ssh-keys.ts';
import type { SshPool, SshTarget, SshTransport } from '../../remote/ssh.ts';
import type { Reach } from '../../remote/transport.ts';
import type { GuestAttributes, TpuApi } from './api.ts';
import { userOf } from './login.ts';
import type { LoginOptions } from './login.ts';
import { nodeIds, placeOf, tpuOf } from './places.ts';

/** How the workers of one project are reached. */
export interface SshWay {
  /** 22 at Google; the built-in cloud has one port for all of its workers. */
  readonly port: number;
  /** Whether the user's own ssh_config has a say (a jump host, a tunnel). Not for the built-in cloud. */
  readonly userConfig: boolean;
}

export interface TpuWorkersOptions extends LoginOptions {
  readonly pool: SshPool;
  readonly apiFor: (project: string) => TpuApi;
  /** Rejects with a sentence when it cannot be told now (the built-in cloud does not run). */
  readonly sshFor: (project: string) => Promise<SshWay>;
  readonly now: () => Instant;
}

export interface TpuWorkers {
  /** The way to that worker, for `MachinesParts.reach`. Makes no connection by itself; asks the cloud once for the host keys. */
  reach(ref: WorkerRef): Promise<Reach>;
  /** The same way for a person's own hands. Throws JobmanError when there is none. */
  transport(ref: WorkerRef): Promise<SshTransport>;
  /** Closes the connections to that allocation's workers; of one that was released the pinned host keys go too. */
  forget(ref: AllocationRef): void;
  /**
   * What the system's ssh is to be told about that worker. It asks nothing about host keys: the one we know must be shown,
   * and where none is known yet the first is pinned. Throws JobmanError when the worker cannot be reached.
   */
  sshHost(ref: WorkerRef): Promise<SshHost>;
  /**
   * The system's ssh for that worker, as an argv. One word of `command` is a shell's text, as with ssh; several are one
   * program with its arguments, which arrive as they are. Throws JobmanError when the worker cannot be reached.
   */
  sshArgv(ref: WorkerRef, command: readonly string[]): Promise<readonly string[]>;
}

/** Everything about the way is told; nothing is left to a configuration. */
interface TpuTarget extends SshTarget {
  readonly port: number;
  readonly user: string;
  readonly keyFile: string;
}

/** Host keys that the cloud did not tell are asked for again, no sooner than this. */
const askAgainAfter: Duration = 30 * second;
/**
 * What ends the system's ssh when a host goes silent: ConnectTimeout for the way to the prompt, and a question each
 * ServerAliveInterval, of which ssh lets three go unanswered. Long enough for a line that is bad for half a minute; without
 * them a shell on a host that hangs never ends (ssh_config(5)).
 */
const connectMost: Duration = 15 * second;
const askAliveEvery: Duration = 15 * second;
/** What takes longer than this to be told is not known this time. */
const answerWithin: Duration = 3 * second;

export function createTpuWorkers(options: TpuWorkersOptions): TpuWorkers {
  const { pool, apiFor, sshFor, now } = options;
  const pins = createHostKeys(options.home);
  /** Of each allocation, what its workers said about themselves, and when they were asked. */
  const asked = new Map<string, { readonly at: Instant; readonly attributes: Promise<readonly GuestAttributes[]> }>();
  /** Of each worker, the keys that it was found to have. The same from then on: equal targets share a connection. */
  const found = new Map<string, readonly string[]>();

  let ownKey: Promise<string> | undefined;

  /** Made or read once; a failure is not remembered. */
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

  function attributesOf(ref: AllocationRef): Promise<readonly GuestAttributes[]> {
    const key = pinPrefix(ref);
    const before = asked.get(key);
    if (before !== undefined && now() - before.at < askAgainAfter) return before.attributes;
    const place = placeOf(ref);
    const api = apiFor(place.project);
    const answered = Promise.all(nodeIds(ref).map((id) => api.getGuestAttributes(place, id))).then((answers) =>
      // What one slice does not tell would give every later worker the keys of another.
      answers.every((answer) => answer.ok) ? answers.flatMap((answer) => answer.value) : [],
    );
    // A worker that does not answer has to be noticed within ten seconds, and the cloud may not answer at all.
    const late = pause(answerWithin, [], { ref: false });
    const attributes = Promise.race([answered, late]);
    asked.set(key, { at: now(), attributes });
    return attributes;
  }

  /** The keys of which the worker must show one. None when it is pinned, and none when nobody could tell: then the first is pinned. */
  async function hostKeysOf(ref: WorkerRef, pin: string): Promise<readonly string[]> {
    const before = found.get(pin);
    if (before !== undefined) return before;
    const isPinned = (await pins.pinned(pin)) !== undefined;
    const keys = isPinned ? [] : hostKeysIn((await attributesOf(ref))[Number(ref.worker)]);
    if (isPinned || keys.length > 0) found.set(pin, keys);
    return keys;
  }

  async function targetOf(ref: WorkerRef): Promise<TpuTarget> {
    const { allocation, worker } = ref;
    const address = allocation.hosts?.[Number(worker)];
    const host = address?.externalIp ?? address?.internalIp ?? null;
    if (host === null)
      throw new JobmanError(
        `the cloud has told no address of worker ${worker} of ${allocation.name} yet`,
        exitCode.unreachable,
      );
    const spec = tpuOf(ref);
    const pin = `${pinPrefix(ref)}${worker}`;
    const [way, keyFile, hostKeys] = await Promise.all([
      sshFor(spec.project),
      spec.privateKey ?? ownKeyFile(),
      hostKeysOf(ref, pin),
    ]);
    return { host, ...way, user: userOf(spec, options), keyFile, pin, hostKeys };
  }

  /** The system's ssh reads pins from the file only, so what the cloud has told is written there. True when it holds one. */
  async function pinForSystem({ pin, hostKeys }: TpuTarget): Promise<boolean> {
    const [key] = hostKeys;
    if (key === undefined) return (await pins.pinned(pin)) !== undefined;
    await pins.pin(pin, key);
    return true;
  }

  async function hostOf(ref: WorkerRef): Promise<SshHost> {
    const target = await targetOf(ref);
    const file = pins.file(target.pin);
    const [isKnown, { limits }] = await Promise.all([pinForSystem(target), pool.config(target)]);
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    return {
      worker: Number(ref.worker),
      host: target.host,
      options: [
        ['Port', String(target.port)],
        ['User', target.user],
        // As an option and not as `-i`, which looks for the file before it expands its name.
        ['IdentityFile', pathWord(target.keyFile)],
        ['IdentitiesOnly', 'yes'],
        ['HostKeyAlias', target.pin],
        ['UserKnownHostsFile', pathWord(file)],
        ['GlobalKnownHostsFile', '/dev/null'],
        ['StrictHostKeyChecking', isKnown ? 'yes' : 'accept-new'],
        ['CheckHostIP', 'no'],
        ['HashKnownHosts', 'no'],
        ['UpdateHostKeys', 'no'],
        // What the user has written about it is meant so.
        ...(limits.connecting ? [] : ([['ConnectTimeout', String(connectMost / second)]] as const)),
        ...(limits.silence ? [] : ([['ServerAliveInterval', String(askAliveEvery / second)]] as const)),
        // No jump host that the user's configuration names for every host leads to the built-in cloud.
        ...(target.userConfig ? [] : ([['ProxyCommand', 'none']] as const)),
      ],
    };
  }

  return {
    async reach(ref) {
      try {
        return { kind: 'open', transport: pool.transport(await targetOf(ref)) };
      } catch (error) {
        return { kind: 'closed', reason: error instanceof Error ? error.message : String(error) };
      }
    },

    forget(ref) {
      const prefix = pinPrefix(ref);
      asked.delete(prefix);
      for (const pin of found.keys()) if (pin.startsWith(prefix)) found.delete(pin);
      pool.forget(prefix, { pins: ref.allocation.releasedAt !== null });
    },

    transport: async (ref) => pool.transport(await targetOf(ref)),

    sshHost: hostOf,

    async sshArgv(ref, command) {
      const { host, options: told } = await hostOf(ref);
      const words = command.length > 1 ? command.map(quote).join(' ') : command.join('');
      const way = await sshFor(tpuOf(ref).project);
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

/** What the names of all pins of an allocation begin with; a worker's number follows. */
function pinPrefix({ job, allocation }: AllocationRef): string {
  return `${job.installation}-${job.id}-${allocation.ordinal}-w`;
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

/** A path in ssh's configuration: blanks separate words, and `%` with the letter that follows is expanded. */
function pathWord(path: string): string {
  return `"${path.replaceAll('%', '%%')}"`;
}
