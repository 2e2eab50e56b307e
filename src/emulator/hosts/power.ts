/**
 * Switching one host on and off, with all that belongs to it: the machine, its SSH door, its metadata server, its chips,
 * its scripts. When that is to happen is the fleet's business.
 */
import { randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { join } from 'node:path';
import { neighbourOf } from '../http/neighbours.ts';
import type { Storage } from '../http/storage/storage.ts';
import { writeGuestAttribute } from '../world/guest-attributes.ts';
import { sshKeysOf, workerHostName } from '../world/nodes.ts';
import type { NodeRecord, WorkerRecord } from '../world/records.ts';
import { timestampText } from '../wire/json.ts';
import { rebootWorker, type World } from '../world/world.ts';
import { chipNames, makeChips, metadataTree, userMetadata, type Multislice } from './metadata-tree.ts';
import { setDiskFull } from './disk.ts';
import { authorizedKeys } from './keys.ts';
import { homeOf, openLogin, passwdText, peopleOf, profileText, sshConfigText, type Login } from './login.ts';
import { bootMachine, findMachine, type Isolation, type Machine } from './machine.ts';
import { type MetadataServer, openMetadataServer } from './metadata-server.ts';
import { hostMark } from './processes.ts';
import { onReboot } from './reboot.ts';
import { runScript } from './boot-script.ts';
import { loginShell } from './session.ts';
import { openSshd } from './sshd.ts';

/** A host that is on. */
export interface PoweredHost {
  readonly boot: number;
  readonly address: string;
  isAlive(): boolean;
  /** Its trouble now, as far as the host itself must do something about it. */
  readonly trouble: Readonly<Record<HostSideTrouble, boolean>>;
  setTrouble(trouble: HostSideTrouble, on: boolean): Promise<void>;
  /** To be called at each change of the world: keys, metadata, preemption. Cheap when nothing of this host changed. */
  changed(): void;
  /** Switches it off: softly, with time for its programs to end, or as a cut of the power does. */
  turnOff(softly: boolean): Promise<void>;
}

/** Troubles that a running host has; `power` is the lack of one. */
export type HostSideTrouble = 'hung' | 'diskFull' | 'sshRefused';

export interface PowerOptions {
  readonly world: World;
  readonly storage: Storage;
  readonly stateDir: string;
  readonly sshPort: number;
  readonly isolation: Isolation;
  /** The SSH server: that of this process, or OpenSSH's at that path. */
  readonly sshd: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The name and number of the user that the emulator runs as. */
  readonly ownUser: string;
  readonly uid: number;
  /** The folder of the programs that come first on a host's PATH. */
  readonly programs: string;
}

export interface HostToTurnOn {
  readonly folder: string;
  /** The records as they are now; undefined when the worker is no more. */
  records(): { node: NodeRecord; worker: WorkerRecord } | undefined;
  /** Ends processes that an earlier emulator left in a host that cannot be taken over. */
  clear(): Promise<void>;
}

/**
 * Milliseconds in which the caller of a reboot hears the end of that command before the line is cut: services end one
 * after the other in earnest.
 */
const answerMs = 500;

/** How long Google's cloud waits after the soft power-off before it cuts the power, in milliseconds. */
const noticeMs = 30_000;

/** Switches a host on, or takes over the one that an earlier emulator has left running. */
export async function turnOn(
  options: PowerOptions,
  host: HostToTurnOn,
  node: NodeRecord,
  worker: WorkerRecord,
): Promise<PoweredHost> {
  const { world, isolation, sshPort } = options;
  const { folder } = host;
  const current = (): { node: NodeRecord; worker: WorkerRecord } => host.records() ?? { node, worker };
  const profile = profileText(options.programs);
  const chips = chipNames(node);
  const found = findMachine(folder, worker.boot, isolation);
  if (found === undefined) await host.clear();
  if (isolation === 'none') makeChips(folder, chips);
  for (const user of peopleOf(sshKeysOf(options.world, node))) homeOf(folder, user, profile);

  const parts: (() => Promise<void>)[] = [];
  try {
    const metadata = await openMetadataServer({
      address: worker.address,
      tree() {
        const now = host.records();
        return now === undefined ? undefined : metadataTree(now.node, now.worker, multisliceOf(world, now.node));
      },
      mayAsk: ({ socket }: IncomingMessage) => neighbourOf(socket, options.uid) !== 'stranger',
      storage: (request, response) => options.storage(request, response, node.zone),
      writeGuestAttribute(path, value) {
        const now = host.records();
        if (now === undefined) return 'absent';
        return world.change(() => writeGuestAttribute(world, now.node, now.worker, path, value));
      },
    });
    parts.push(() => metadata.close());
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
            passwd: passwdText(folder, peopleOf(sshKeysOf(options.world, node)), loginShell),
            profile,
            // A bucket that is first used here is in this zone's region (programs.ts).
            zone: `${node.zone}\n`,
            ssh_config: sshConfigText(`${worker.address.split('.').slice(0, 2).join('.')}.*`, sshPort),
          },
          chips,
          env: { PATH: `${machinePath(options.env)}:/usr/sbin:/sbin:/usr/bin:/bin` },
        },
        isolation,
      ));
    parts.unshift(() => machine.end());
    const login = await openDoor(options, host, current, machine, worker, env, profile);
    parts.push(() => login.close());
    const root = { ...env, HOME: '/root', USER: 'root', LOGNAME: 'root' };
    const heading = (what: string): string =>
      `${timestampText(world.now())} ${what} of ${workerHostName(node, worker.index)}, boot ${String(worker.boot)}`;
    const startup = userMetadata(node)['startup-script'];
    if (found === undefined && startup !== undefined && startup !== '') {
      const name = 'startup-script';
      void runScript({ machine, folder, name, text: startup, env: root, heading: heading(name) });
    }
    return powered({ options, host, node, worker, machine, login, metadata, env: root, heading });
  } catch (error) {
    for (const end of parts) await end();
    throw error;
  }
}

interface Parts {
  readonly options: PowerOptions;
  readonly host: HostToTurnOn;
  readonly node: NodeRecord;
  readonly worker: WorkerRecord;
  readonly machine: Machine;
  readonly login: Login;
  readonly metadata: MetadataServer;
  readonly env: Readonly<Record<string, string>>;
  readonly heading: (what: string) => string;
}

function powered({ options, host, node: first, worker, machine, login, metadata, env, heading }: Parts): PoweredHost {
  const { world, isolation } = options;
  const { folder } = host;
  const trouble = { hung: false, diskFull: false, sshRefused: false };
  let keys = sshKeysOf(world, first);
  let shutdownScript = userMetadata(first)['shutdown-script'];
  const forgetReboot = onReboot(folder, answerMs, () => {
    const now = host.records();
    if (now?.worker.boot === worker.boot) world.change(() => rebootWorker(world, now.node, worker.index));
  });
  return {
    boot: worker.boot,
    address: worker.address,
    trouble,
    isAlive: () => machine.isAlive(),
    async setTrouble(which, on) {
      trouble[which] = on;
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
              `${folder} has no file system of its own, so its disk cannot be full: no namespaces can be made here.`,
            );
          } else await setDiskFull(machine, folder, isolation === 'user', on);
      }
    },
    changed() {
      const node = host.records()?.node;
      if (node !== undefined) {
        shutdownScript = userMetadata(node)['shutdown-script'];
        const now = sshKeysOf(world, node);
        if (now !== keys) {
          keys = now;
          // In place: the host's /etc/passwd is this very file.
          writeFileSync(join(folder, 'passwd'), passwdText(folder, peopleOf(now), loginShell));
          login.keysChanged();
        }
      }
      metadata.changed();
    },
    async turnOff(softly) {
      forgetReboot();
      // A stopped process hears no signal.
      if (softly && !trouble.hung) {
        const text = shutdownScript;
        const name = 'shutdown-script';
        const last =
          text === undefined || text === ''
            ? undefined
            : () => runScript({ machine, folder, name, text, env, heading: heading(name) });
        await machine.shutDown(noticeMs / world.speed, last);
      }
      // The processes first: a program must not see its own connections go and start something new.
      await machine.end();
      await login.close();
      await metadata.close();
    },
  };
}

async function openDoor(
  options: PowerOptions,
  host: HostToTurnOn,
  current: () => { node: NodeRecord; worker: WorkerRecord },
  machine: Machine,
  worker: WorkerRecord,
  env: Readonly<Record<string, string>>,
  profile: string,
): Promise<Login> {
  const { folder } = host;
  const facts = {
    address: worker.address,
    port: options.sshPort,
    hostKey: worker.hostKey,
    folder,
    machine,
    keys: () => authorizedKeys(sshKeysOf(options.world, current().node)),
  };
  if (options.sshd !== undefined) {
    return openSshd({
      ...facts,
      program: options.sshd,
      isolation: options.isolation,
      ownUser: options.ownUser,
      env,
      home: (user) => homeOf(folder, user, profile),
    });
  }
  return openLogin({
    ...facts,
    environment: (user, client) => ({
      ...env,
      HOME: homeOf(folder, user, profile),
      USER: user,
      LOGNAME: user,
      SSH_CLIENT: `${client.address} ${String(client.port)} ${String(options.sshPort)}`,
      SSH_CONNECTION: `${client.address} ${String(client.port)} ${worker.address} ${String(options.sshPort)}`,
    }),
    log: (line) => options.world.log(line),
  });
}

function baseEnvironment(
  { programs, env, isolation }: PowerOptions,
  node: NodeRecord,
  worker: WorkerRecord,
  folder: string,
  metadata: MetadataServer,
): Record<string, string> {
  return {
    PATH: `${programs}:${machinePath(env)}`,
    SHELL: loginShell,
    [hostMark]: folder,
    TPU_WORKER_ID: String(worker.index),
    TPU_ACCELERATOR_TYPE: node.type,
    // Without namespaces /proc tells the machine's boot; jobman and its kind find the host's own by this.
    ...(isolation === 'none' ? { JOBMAN_BOOT_ID_FILE: join(folder, 'boot_id') } : {}),
    GCE_METADATA_HOST: metadata.host,
    GCE_METADATA_IP: metadata.host,
    // Cloud Storage answers there too. Google's libraries take the name with its scheme.
    STORAGE_EMULATOR_HOST: `http://${metadata.host}`,
    ...(env['LANG'] === undefined ? {} : { LANG: env['LANG'] }),
    ...(env['TZ'] === undefined ? {} : { TZ: env['TZ'] }),
  };
}

function machinePath(env: Readonly<Record<string, string | undefined>>): string {
  return env['PATH'] || '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin';
}

/** Where the node stands among the slices that its queued resource has made. */
function multisliceOf(world: World, node: NodeRecord): Multislice | undefined {
  if (!node.multislice || node.queuedResource === null) return undefined;
  const slices = (world.queued.get(node.queuedResource)?.nodes ?? []).map(({ nodeId }) => nodeId);
  const parent = node.name.slice(0, node.name.lastIndexOf('/'));
  return {
    slice: slices.indexOf(node.nodeId),
    coordinators: slices.map((id) => world.nodes.get(`${parent}/${id}`)?.workers[0]?.address ?? ''),
  };
}

/** The machine's own names, those of the node's workers, so that they find each other, and that of the metadata server. */
function hostsText(node: NodeRecord, worker: WorkerRecord): string {
  let own = '127.0.0.1 localhost\n';
  try {
    own = readFileSync('/etc/hosts', 'utf8');
  } catch {
    // A machine without the file still knows itself.
  }
  const workers = node.workers.map(({ address, index }) => {
    const name = workerHostName(node, index);
    return `${address} ${name}.${node.zone}.c.${node.project}.internal ${name}`;
  });
  return `${own.trimEnd()}\n${workers.join('\n')}\n${worker.address} metadata.google.internal metadata\n`;
}
