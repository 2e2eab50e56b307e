// Starts the cloud: state, ports, world, hosts, API. The order matters: nothing answers before all of it is there.

import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { serve } from '@hono/node-server';
import { wallClock } from './clock.ts';
import { type Emulator, type EmulatorOptions, EmulatorRefusal } from './contract.ts';
import { bucketsFolder } from './hosts/boot-script.ts';
import { createFleet, type Fleet } from './hosts/fleet.ts';
import { listen, ownUser } from './hosts/login.ts';
import { type Isolation, probeIsolation } from './hosts/machine.ts';
import { findSshd } from './hosts/sshd.ts';
import { createFront } from './http/front.ts';
import { createStorage, storageWeather } from './http/storage/storage.ts';
import { happen } from './world/agenda.ts';
import { openBuckets } from './world/buckets.ts';
import { openDatabase } from './world/database.ts';
import { newAddress } from './world/nodes.ts';
import { beginRehearsal, readRehearsal, type RehearsalLine } from './world/rehearsal.ts';
import { createWorld, type World } from './world/world.ts';

/** Grows with what clients can see; `GET /emulator/info` says it. */
const emulatorVersion = '1';

/**
 * Starts the emulator inside this process; resolves when the API answers.
 * Throws a sentence when the folder is in use, a port is taken, or an option is not possible.
 */
export async function startEmulator(options: EmulatorOptions): Promise<Emulator> {
  const { seed = 1, clock = wallClock, log = () => undefined } = options;
  checkWishes(options);
  // A mistake in it is told before anything is begun.
  const rehearsal = options.schedule === undefined ? undefined : readSchedule(options.schedule);
  checkPort('port', options.port);
  checkPort('ssh-port', options.sshPort);
  makeStateFolder(options.stateDir);
  // Hosts see their folder under its real name, whatever links lead there.
  const stateDir = realpathSync(options.stateDir);
  const database = openDatabase(stateDir);
  const manners = database.shelf<Manner>('manner');
  const killed = manners.get('manner');
  const hostKind = options.hosts ?? killed?.hosts ?? 'process';
  const sshd = hostKind === 'sshd' ? findSshd(existsSync) : undefined;
  const gcsfuse = options.gcsfuse ?? killed?.gcsfuse;
  const speed = options.speed ?? killed?.speed ?? options.usualSpeed ?? 1;
  const buckets = openBuckets(bucketsFolder(stateDir));
  let fleet: Fleet | undefined;
  const world = createWorld({
    database,
    clock,
    speed,
    seed,
    log,
    buckets,
    isDown: (node) => fleet?.isDown(node) ?? true,
  });
  const storage = createStorage({
    buckets,
    folder: join(stateDir, 'storage'),
    log,
    weather: storageWeather(world),
  });
  const release: (() => Promise<void> | void)[] = [() => database.close()];
  try {
    const anchor = await takeAddresses(world, stateDir, options.sshPort);
    release.unshift(() => closeServer(anchor.server));
    const isolation = chooseIsolation(options.isolation ?? 'auto', stateDir);
    log(isolationSentence[isolation]);
    if (gcsfuse !== undefined && isolation === 'none') {
      throw new EmulatorRefusal(
        409,
        'A gcsfuse of its own can only be given to hosts in mount namespaces, and none can be made here.',
      );
    }
    const user = ownUser(options.env);
    fleet = await createFleet({
      world,
      stateDir,
      sshPort: anchor.sshPort,
      isolation,
      sshd,
      gcsfuse,
      user,
      storage,
      env: options.env,
    });
    const hosts = fleet;
    let restingFrom = clock.now();
    let wasEmpty = isEmpty(world);
    world.onChange(() => {
      const isSo = isEmpty(world);
      if (!isSo || !wasEmpty) restingFrom = clock.now();
      wasEmpty = isSo;
    });
    release.unshift(() => hosts.close());
    world.change(() => beginRehearsal(world, rehearsal?.lines ?? [], rehearsal?.text));
    world.start((what) => happen(world, what));
    release.unshift(() => world.stop());
    const front = createFront({
      world,
      storage,
      uid: user.uid,
      info: () => ({ version: emulatorVersion, sshPort: anchor.sshPort, isolation, stateDir }),
      hostsSettled: () => hosts.settled(),
      wanted: () => {
        restingFrom = clock.now();
      },
    });
    const http = await openHttp(front.fetch, options.port, world.general().port);
    release.unshift(() => closeHttp(http.server));
    world.change(() => {
      world.setGeneral({ port: http.port });
      manners.put('manner', { hosts: hostKind, speed, ...(gcsfuse === undefined ? {} : { gcsfuse }) });
    });
    return {
      url: `http://127.0.0.1:${String(http.port)}`,
      sshPort: anchor.sshPort,
      restingSince: () => (isEmpty(world) ? restingFrom : null),
      async close() {
        if (release.length > 0) world.change(() => manners.remove('manner'));
        for (const part of release.splice(0)) await part();
      },
    };
  } catch (error) {
    for (const part of release.splice(0)) await part();
    throw error;
  }
}

/**
 * How an emulator runs; kept for as long as it does. Whoever starts the next one after a kill may know nothing of it, as jobman
 * does when it misses its cloud, and the machines that it finds would be of another kind all at once.
 */
interface Manner {
  readonly hosts: 'process' | 'sshd';
  readonly speed: number;
  readonly gcsfuse?: string;
}

/** Throws a sentence about a wish that cannot be granted here. */
function checkWishes({ hosts, speed, gcsfuse }: EmulatorOptions): void {
  if (gcsfuse !== undefined && !isProgram(gcsfuse))
    throw new EmulatorRefusal(404, `There is no program ${gcsfuse}; --gcsfuse is the path of Google's gcsfuse.`);
  if (hosts === 'sshd' && findSshd(existsSync) === undefined)
    throw new EmulatorRefusal(
      400,
      "This machine has no sshd, so hosts cannot be reached by it. Install OpenSSH's server (openssh-server), or leave `hosts` out.",
    );
  if (speed !== undefined && !(speed > 0))
    throw new EmulatorRefusal(400, `The speed of the emulator must be more than 0; it is ${String(speed)}.`);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function checkPort(name: string, port: number | undefined): void {
  if (port === undefined || (Number.isInteger(port) && port >= 0 && port <= 65_535)) return;
  throw new EmulatorRefusal(400, `--${name}: there is no port ${String(port)}; they are 1 to 65535.`);
}

/** Makes the folder of the state, for our user only. Throws a sentence where that cannot be. */
function makeStateFolder(folder: string): void {
  if (folder === '') throw new EmulatorRefusal(400, 'The folder of the state has no name.');
  try {
    makeFolder(resolve(folder));
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new EmulatorRefusal(
      409,
      `The state of the cloud cannot be kept in ${folder}: ${reason}. Name another folder with --state.`,
      { cause: error },
    );
  }
}

/** Node's own way to make a folder with those above it tries without end where none can be made, as in /proc. */
function makeFolder(folder: string): void {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true) return;
  const above = dirname(folder);
  if (above !== folder) makeFolder(above);
  mkdirSync(folder, { mode: 0o700 });
}

/** True when there is nothing that would be missed. Conditions stand in the state, and are in force again afterwards. */
function isEmpty(world: World): boolean {
  const rehearses = world.agenda.values().some(({ kind }) => kind === 'rehearsal');
  return !rehearses && world.nodes.values().length === 0 && world.queued.values().length === 0;
}

function readSchedule(file: string): { readonly text: string; readonly lines: readonly RehearsalLine[] } {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new EmulatorRefusal(404, `The rehearsal file cannot be read: ${String(error)}.`, { cause: error });
  }
  return { text, lines: readRehearsal(text, file) };
}

const isolationSentence: Readonly<Record<Isolation, string>> = {
  root: 'Hosts have namespaces of their own; the machine stays as it is.',
  user: 'Hosts have user namespaces of their own; the machine stays as it is.',
  none: 'No namespaces can be made here: hosts are folders, and buckets can only be inside a home folder.',
};

function chooseIsolation(wish: 'auto' | 'namespaces' | 'none', stateDir: string): Isolation {
  if (wish === 'none') return 'none';
  const scratch = join(stateDir, 'probe');
  const found = probeIsolation(scratch);
  rmSync(scratch, { recursive: true, force: true });
  if (found === 'none' && wish === 'namespaces')
    throw new EmulatorRefusal(409, 'No namespaces can be made on this machine.');
  return found;
}

/**
 * Finds the part of the loopback range that this emulator's workers live in, 127.<octet>.0.0/16, and the SSH port that
 * they share. The octet is derived from the state folder, so emulators rarely meet; a listener on 127.<octet>.0.1, held
 * as long as we run, tells when they do, and then the next octet is tried. Nodes of an earlier run keep their addresses
 * when the same octet and port are free, else they get new ones, as after a move to another network.
 */
async function takeAddresses(
  world: World,
  stateDir: string,
  wishedPort: number | undefined,
): Promise<{ server: Server; sshPort: number }> {
  const before = world.general();
  const hash = createHash('sha256').update(stateDir).digest();
  const preferred = before.octet === 0 ? 64 + ((hash[0] ?? 0) % 128) : before.octet;
  const ports = wishedPort === undefined || wishedPort === 0 ? [before.sshPort, 0] : [wishedPort];
  for (let tried = 0; tried < 128; tried += 1) {
    const octet = 64 + ((preferred - 64 + tried) % 128);
    for (const port of new Set(ports)) {
      const server = createServer((socket) => socket.destroy());
      try {
        await listen(server, port, `127.${String(octet)}.0.1`);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') continue;
        throw new EmulatorRefusal(
          409,
          `Cannot listen on 127.${String(octet)}.0.1 port ${String(port)}: ${String(error)}`,
          {
            cause: error,
          },
        );
      }
      const address = server.address();
      const sshPort = address !== null && typeof address === 'object' ? address.port : port;
      world.change(() => {
        world.setGeneral({ octet, sshPort });
        if (octet === before.octet || before.octet === 0) return;
        for (const node of world.nodes.values()) {
          world.nodes.put(node.name, {
            ...node,
            workers: node.workers.map((worker) => ({ ...worker, address: newAddress(world) })),
          });
        }
      });
      return { server, sshPort };
    }
  }
  throw new EmulatorRefusal(
    409,
    `The SSH port ${String(wishedPort ?? before.sshPort)} is taken on every loopback network that was tried. Name another with --ssh-port.`,
  );
}

type Http = ReturnType<typeof serve>;

/**
 * How long a connection is kept that nobody uses, in milliseconds. Google's front end keeps them for minutes; Node's own five
 * seconds end while a busy client is about to use one, and its call is then cut without an answer.
 */
const keepAliveTimeout = 120_000;

/** Opens the API on the wished port; without a wish on last time's, or any when that is taken. */
async function openHttp(
  fetch: Parameters<typeof serve>[0]['fetch'],
  wished: number | undefined,
  before: number,
): Promise<{ server: Http; port: number }> {
  const ports = wished === undefined || wished === 0 ? [before, 0] : [wished];
  for (const port of new Set(ports)) {
    try {
      return await new Promise((resolve, reject) => {
        const server = serve({ fetch, port, hostname: '127.0.0.1', serverOptions: { keepAliveTimeout } }, (info) =>
          resolve({ server, port: info.port }),
        );
        server.on('error', reject);
      });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    }
  }
  throw new EmulatorRefusal(409, `Port ${String(wished)} of this machine is taken. Name another with --port.`);
}

function closeHttp(server: Http): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => void server.close(() => resolve()));
}
