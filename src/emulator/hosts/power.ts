/** Turns one host on and off with all its parts: machine, SSH server, metadata server, chips, scripts. */
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { checkPeer } from '../http/peer-access.ts';
import type { Storage } from '../http/storage/storage.ts';
import { writeGuestAttribute } from '../world/guest-attributes.ts';
import { sshKeysOf, workerHostName } from '../world/nodes.ts';
import type { NodeRecord, WorkerRecord } from '../world/records.ts';
import { formatTimestamp } from '../wire/json.ts';
import { rebootWorker, type World } from '../world/world.ts';
import { chipDeviceNames, makeChipFiles, metadataTree, userMetadata, type Multislice } from './metadata-tree.ts';
import { setDiskFull } from './disk.ts';
import { authorizedKeys } from './keys.ts';
import {
  ensureHome,
  openSshServer,
  passwdText,
  sshUsers,
  profileText,
  sshConfigText,
  type SshEndpoint,
} from './ssh-server.ts';
import { bootMachine, findMachine, type Isolation, type Machine } from './machine.ts';
import { type MetadataServer, openMetadataServer } from './metadata-server.ts';
import { hostVariable } from './processes.ts';
import { onReboot } from './reboot.ts';
import { runScript } from './boot-script.ts';
import { loginShell } from './session.ts';
import { openSshd } from './sshd.ts';

export interface RunningHost {
  readonly boot: number;
  readonly address: string;
  isAlive(): boolean;
  readonly faults: Readonly<Record<RunningHostFault, boolean>>;
  setFault(fault: RunningHostFault, on: boolean): Promise<void>;
  /** Call this at each change of the world: keys, metadata, preemption. Cheap when nothing of this host changed. */
  onWorldChange(): void;
  /** Gracefully: gives the programs time to end. Otherwise like a power cut. */
  turnOff(gracefully: boolean): Promise<void>;
}

/** The faults of a running host. A host without power is not running. */
export type RunningHostFault = 'hung' | 'diskFull' | 'sshRefused';

export interface HostOptions {
  readonly world: World;
  readonly storage: Storage;
  readonly stateDir: string;
  readonly sshPort: number;
  readonly isolation: Isolation;
  /** The path of OpenSSH's sshd; undefined for the emulator's own SSH server. */
  readonly sshd: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly ownUser: string;
  readonly uid: number;
  readonly programs: string;
}

export interface HostContext {
  readonly folder: string;
  /** The current records; undefined when the worker no longer exists. */
  records(): { node: NodeRecord; worker: WorkerRecord } | undefined;
  endLeftovers(): Promise<void>;
}

/** In milliseconds. The caller of `reboot` gets its exit status before the connection ends, as on a real machine. */
const rebootDelayMs = 500;

/** Google's time from the soft power-off to the power cut, in milliseconds. */
const shutdownGraceMs = 30_000;

/** Boots the host, or takes over one that an earlier emulator left running. */
export async function turnOn(
  options: HostOptions,
  host: HostContext,
  node: NodeRecord,
  worker: WorkerRecord,
): Promise<RunningHost> {
  const { world, isolation, sshPort } = options;
  const { folder } = host;
  const current = (): { node: NodeRecord; worker: WorkerRecord } => host.records() ?? { node, worker };
  const profile = profileText(options.programs);
  const chips = chipDeviceNames(node);
  const found = findMachine(folder, worker.boot, isolation);
  if (found === undefined) await host.endLeftovers();
  if (isolation === 'none') makeChipFiles(folder, chips);
  for (const user of sshUsers(sshKeysOf(options.world, node))) ensureHome(folder, user, profile);

  const cleanups: (() => Promise<void>)[] = [];
  try {
    const metadata = await openMetadataServer({
      address: worker.address,
      tree() {
        const now = host.records();
        return now === undefined ? undefined : metadataTree(now.node, now.worker, multisliceOf(world, now.node));
      },
      isAllowed: ({ socket }: IncomingMessage) => checkPeer(socket, options.uid) !== 'denied',
      storage: (request, response) => options.storage(request, response, node.zone),
      writeGuestAttribute(path, value) {
        const now = host.records();
        if (now === undefined) return 'absent';
        return world.change(() => writeGuestAttribute(world, now.node, now.worker, path, value));
      },
    });
    cleanups.push(() => metadata.close());
    const env = baseEnvironment(options, node, worker, folder, metadata);
    const machine =
      found ??
      (await bootMachine(
        {
          stateDir: options.stateDir,
          folder,
          hostName: workerHostName(node, worker.index),
          boot: worker.boot,
          bootId: randomUUID(),
          files: {
            hosts: hostsText(node, worker),
            passwd: passwdText(folder, sshUsers(sshKeysOf(options.world, node)), loginShell),
            profile,
            // For the region of a bucket that is first used here (programs.ts).
            zone: `${node.zone}\n`,
            ssh_config: sshConfigText(`${worker.address.split('.').slice(0, 2).join('.')}.*`, sshPort),
          },
          chips,
          env: { PATH: `${machinePath(options.env)}:/usr/sbin:/sbin:/usr/bin:/bin` },
        },
        isolation,
      ));
    cleanups.unshift(() => machine.end());
    const login = await openSshEndpoint(options, host, current, machine, worker, env, profile);
    cleanups.push(() => login.close());
    const root = { ...env, HOME: '/root', USER: 'root', LOGNAME: 'root' };
    const heading = (what: string): string =>
      `${formatTimestamp(world.now())} ${what} of ${workerHostName(node, worker.index)}, boot ${String(worker.boot)}`;
    const startup = userMetadata(node)['startup-script'];
    if (found === undefined && startup !== undefined && startup !== '') {
      const name = 'startup-script';
      void runScript({ machine, folder, name, text: startup, env: root, heading: heading(name) });
    }
    return createRunningHost({ options, host, node, worker, machine, login, metadata, env: root, heading });
  } catch (error) {
    for (const end of cleanups) await end();
    throw error;
  }
}

interface HostParts {
  readonly options: HostOptions;
  readonly host: HostContext;
  readonly node: NodeRecord;
  readonly worker: WorkerRecord;
  readonly machine: Machine;
  readonly login: SshEndpoint;
  readonly metadata: MetadataServer;
  readonly env: Readonly<Record<string, string>>;
  readonly heading: (what: string) => string;
}

function createRunningHost({
  options,
  host,
  node: first,
  worker,
  machine,
  login,
  metadata,
  env,
  heading,
}: HostParts): RunningHost {
  const { world, isolation } = options;
  const { folder } = host;
  const faults = { hung: false, diskFull: false, sshRefused: false };
  let keys = sshKeysOf(world, first);
  let shutdownScript = userMetadata(first)['shutdown-script'];
  const stopRebootWatch = onReboot(folder, rebootDelayMs, () => {
    const now = host.records();
    if (now?.worker.boot === worker.boot) world.change(() => rebootWorker(world, now.node, worker.index));
  });
  return {
    boot: worker.boot,
    address: worker.address,
    faults,
    isAlive: () => machine.isAlive(),
    async setFault(which, on) {
      faults[which] = on;
      switch (which) {
        case 'hung':
          await login.setHung(on);
          await (on ? machine.freeze() : machine.thaw());
          return;
        case 'sshRefused':
          return login.setRefusing(on);
        case 'diskFull':
          if (isolation === 'none') {
            world.log(
              `${folder} has no file system of its own, so its disk cannot be filled: namespaces cannot be created here.`,
            );
          } else await setDiskFull(machine, folder, isolation === 'user', on);
      }
    },
    onWorldChange() {
      const node = host.records()?.node;
      if (node !== undefined) {
        shutdownScript = userMetadata(node)['shutdown-script'];
        const now = sshKeysOf(world, node);
        if (now !== keys) {
          keys = now;
          // Keep the same file: it is mounted as the host's /etc/passwd.
          writeFileSync(join(folder, 'passwd'), passwdText(folder, sshUsers(now), loginShell));
          login.keysChanged();
        }
      }
      metadata.notifyChange();
    },
    async turnOff(gracefully) {
      stopRebootWatch();
      // A stopped process handles no signal.
      if (gracefully && !faults.hung) {
        const text = shutdownScript;
        const name = 'shutdown-script';
        const shutdownTask =
          text === undefined || text === ''
            ? undefined
            : () => runScript({ machine, folder, name, text, env, heading: heading(name) });
        await machine.shutDown(shutdownGraceMs / world.speed, shutdownTask);
      }
      // End the processes first: a program must not see its connections close and start something new.
      await machine.end();
      await login.close();
      await metadata.close();
    },
  };
}

async function openSshEndpoint(
  options: HostOptions,
  host: HostContext,
  current: () => { node: NodeRecord; worker: WorkerRecord },
  machine: Machine,
  worker: WorkerRecord,
  env: Readonly<Record<string, string>>,
  profile: string,
): Promise<SshEndpoint> {
  const { folder } = host;
  const common = {
    address: worker.address,
    port: options.sshPort,
    hostKey: worker.hostKey,
    folder,
    machine,
    keys: () => authorizedKeys(sshKeysOf(options.world, current().node)),
  };
  if (options.sshd !== undefined) {
    return openSshd({
      ...common,
      program: options.sshd,
      isolation: options.isolation,
      ownUser: options.ownUser,
      env,
      home: (user) => ensureHome(folder, user, profile),
    });
  }
  return openSshServer({
    ...common,
    environment: (user, client) => ({
      ...env,
      HOME: ensureHome(folder, user, profile),
      USER: user,
      LOGNAME: user,
      SSH_CLIENT: `${client.address} ${String(client.port)} ${String(options.sshPort)}`,
      SSH_CONNECTION: `${client.address} ${String(client.port)} ${worker.address} ${String(options.sshPort)}`,
    }),
    log: (line) => options.world.log(line),
  });
}

function baseEnvironment(
  { programs, env, isolation }: HostOptions,
  node: NodeRecord,
  worker: WorkerRecord,
  folder: string,
  metadata: MetadataServer,
): Record<string, string> {
  return {
    PATH: `${programs}:${machinePath(env)}`,
    SHELL: loginShell,
    [hostVariable]: folder,
    TPU_WORKER_ID: String(worker.index),
    TPU_ACCELERATOR_TYPE: node.type,
    // Without namespaces /proc shows the machine's boot id; jobman finds the host's own by this variable.
    ...(isolation === 'none' ? { JOBMAN_BOOT_ID_FILE: join(folder, 'boot_id') } : {}),
    GCE_METADATA_HOST: metadata.host,
    GCE_METADATA_IP: metadata.host,
    // Cloud Storage is at the same address. Google's libraries expect the scheme.
    STORAGE_EMULATOR_HOST: `http://${metadata.host}`,
    ...(env['LANG'] === undefined ? {} : { LANG: env['LANG'] }),
    ...(env['TZ'] === undefined ? {} : { TZ: env['TZ'] }),
  };
}

function machinePath(env: Readonly<Record<string, string | undefined>>): string {
  return env['PATH'] || '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin';
}

function multisliceOf(world: World, node: NodeRecord): Multislice | undefined {
  if (!node.multislice || node.queuedResource === null) return undefined;
  const slices = (world.queued.get(node.queuedResource)?.nodes ?? []).map(({ nodeId }) => nodeId);
  const parent = node.name.slice(0, node.name.lastIndexOf('/'));
  return {
    slice: slices.indexOf(node.nodeId),
    coordinators: slices.map((id) => world.nodes.get(`${parent}/${id}`)?.workers[0]?.address ?? ''),
  };
}

function hostsText(node: NodeRecord, worker: WorkerRecord): string {
  let own = '127.0.0.1 localhost\n';
  try {
    own = readFileSync('/etc/hosts', 'utf8');
  } catch {
    // A machine without the file still has localhost.
  }
  const workers = node.workers.map(({ address, index }) => {
    const name = workerHostName(node, index);
    return `${address} ${name}.${node.zone}.c.${node.project}.internal ${name}`;
  });
  return `${own.trimEnd()}\n${workers.join('\n')}\n${worker.address} metadata.google.internal metadata\n`;
}
