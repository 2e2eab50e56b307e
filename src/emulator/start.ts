// Starts the emulator: state, ports, world, hosts, API. The order matters: nothing answers before everything exists.

import { createHash } from 'node:crypto';
import { accessSync, constants, existsSync, mkdirSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { serve } from '@hono/node-server';
import { wallClock } from './clock.ts';
import { type Emulator, type EmulatorOptions, EmulatorError } from './contract.ts';
import { bucketsFolder } from './hosts/boot-script.ts';
import { createFleet, type Fleet } from './hosts/fleet.ts';
import { listen, emulatorUser } from './hosts/ssh-server.ts';
import { type Isolation, probeIsolation } from './hosts/machine.ts';
import { findSshd } from './hosts/sshd.ts';
import { createFrontEnd } from './http/front-end.ts';
import { createStorage, createStorageFaultCheck } from './http/storage/storage.ts';
import { handleEvent } from './world/events.ts';
import { openBuckets } from './world/buckets.ts';
import { openDatabase } from './world/database.ts';
import { newAddress } from './world/nodes.ts';
import { startFaultSchedule, parseFaultSchedule, type FaultScheduleEntry } from './world/fault-schedule.ts';
import { createWorld, type World } from './world/world.ts';

/** Increases with each change that clients can see; `GET /emulator/info` returns it. */
const emulatorVersion = '1';

/**
 * Resolves when the API answers. Throws EmulatorError when an option, the folder or a port cannot be used. `openFleet`
 * opens the hosts; a measurement replaces it to have more hosts than this machine can run.
 */
export async function startEmulator(options: EmulatorOptions, openFleet = createFleet): Promise<Emulator> {
  const { seed = 1, clock = wallClock, log = () => undefined } = options;
  checkOptions(options);
  // Report a mistake in the schedule before anything starts.
  const faultSchedule = options.schedule === undefined ? undefined : readSchedule(options.schedule);
  checkPort('port', options.port);
  checkPort('ssh-port', options.sshPort);
  makeStateFolder(options.stateDir);
  // Hosts see their folder under its real path, without symbolic links.
  const stateDir = realpathSync(options.stateDir);
  const database = openDatabase(stateDir);
  const runSettings = database.table<RunSettings>('run_settings');
  const previousRun = runSettings.get('run_settings');
  const hostKind = options.hosts ?? previousRun?.hosts ?? 'process';
  const sshd = hostKind === 'sshd' ? findSshd(existsSync) : undefined;
  const gcsfuse = options.gcsfuse ?? previousRun?.gcsfuse;
  const speed = options.speed ?? previousRun?.speed ?? options.defaultSpeed ?? 1;
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
    checkFaults: createStorageFaultCheck(world),
  });
  const cleanups: (() => Promise<void> | void)[] = [() => database.close()];
  try {
    const anchor = await reserveAddresses(world, stateDir, options.sshPort);
    cleanups.unshift(() => closeServer(anchor.server));
    const isolation = chooseIsolation(options.isolation ?? 'auto', stateDir);
    log(isolationMessages[isolation]);
    if (gcsfuse !== undefined && isolation === 'none') {
      throw new EmulatorError(500, '--gcsfuse needs mount namespaces, which cannot be created on this machine.');
    }
    const user = emulatorUser(options.env);
    fleet = await openFleet({
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
    let idleFrom = clock.now();
    let wasEmpty = isEmpty(world);
    world.onChange(() => {
      const isNowEmpty = isEmpty(world);
      if (!isNowEmpty || !wasEmpty) idleFrom = clock.now();
      wasEmpty = isNowEmpty;
    });
    cleanups.unshift(() => hosts.close());
    world.change(() => startFaultSchedule(world, faultSchedule?.lines ?? [], faultSchedule?.text));
    world.start((event) => handleEvent(world, event));
    cleanups.unshift(() => world.stop());
    const front = createFrontEnd({
      world,
      storage,
      uid: user.uid,
      info: () => ({ version: emulatorVersion, sshPort: anchor.sshPort, isolation, stateDir }),
      waitForHosts: () => hosts.waitUntilSynced(),
      onActivity: () => {
        idleFrom = clock.now();
      },
    });
    const http = await openHttp(front.fetch, options.port, world.globals().port);
    cleanups.unshift(() => closeHttp(http.server));
    world.change(() => {
      world.setGlobals({ port: http.port });
      runSettings.put('run_settings', { hosts: hostKind, speed, ...(gcsfuse === undefined ? {} : { gcsfuse }) });
    });
    return {
      url: `http://127.0.0.1:${String(http.port)}`,
      sshPort: anchor.sshPort,
      idleSince: () => (isEmpty(world) ? idleFrom : null),
      async close() {
        if (cleanups.length > 0) world.change(() => runSettings.remove('run_settings'));
        for (const part of cleanups.splice(0)) await part();
      },
    };
  } catch (error) {
    for (const part of cleanups.splice(0)) await part();
    throw error;
  }
}

/** Stored while a run lasts: after a kill, the next caller may not know them, and its hosts keep their kind. */
interface RunSettings {
  readonly hosts: 'process' | 'sshd';
  readonly speed: number;
  readonly gcsfuse?: string;
}

function checkOptions({ hosts, speed, gcsfuse }: EmulatorOptions): void {
  if (gcsfuse !== undefined && !isProgram(gcsfuse))
    throw new EmulatorError(404, `Found no program ${gcsfuse}. --gcsfuse takes the path of Google's gcsfuse.`);
  if (hosts === 'sshd' && findSshd(existsSync) === undefined)
    throw new EmulatorError(
      400,
      "This machine has no sshd. Install OpenSSH's server (package openssh-server), or leave out --hosts.",
    );
  if (speed !== undefined && !(speed > 0))
    throw new EmulatorError(400, `The speed of the emulator must be greater than 0, not ${String(speed)}.`);
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
  throw new EmulatorError(400, `--${name}: port ${String(port)} does not exist; ports are 1 to 65535.`);
}

function makeStateFolder(folder: string): void {
  if (folder === '') throw new EmulatorError(400, 'The state folder must have a name.');
  try {
    // Not the folders above it: a home that was removed meanwhile must not come back.
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) mkdirSync(folder, { mode: 0o700 });
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new EmulatorError(
      500,
      `Could not write the emulator's state to ${folder}: ${reason}. Name another folder with --state.`,
      { cause: error },
    );
  }
}

/** Conditions do not count: they are in the state and apply again after a restart. */
function isEmpty(world: World): boolean {
  const hasSchedule = world.events.values().some(({ kind }) => kind === 'scheduled-fault');
  return !hasSchedule && world.nodes.values().length === 0 && world.queued.values().length === 0;
}

function readSchedule(file: string): { readonly text: string; readonly lines: readonly FaultScheduleEntry[] } {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new EmulatorError(404, `Could not read the fault schedule: ${String(error)}.`, { cause: error });
  }
  return { text, lines: parseFaultSchedule(text, file) };
}

const isolationMessages: Readonly<Record<Isolation, string>> = {
  root: 'Hosts have their own namespaces; this machine is not changed.',
  user: 'Hosts have their own user namespaces; this machine is not changed.',
  none: 'Namespaces cannot be created here: hosts are folders, and buckets can be mounted only inside a home folder.',
};

function chooseIsolation(requested: 'auto' | 'namespaces' | 'none', stateDir: string): Isolation {
  if (requested === 'none') return 'none';
  const scratch = join(stateDir, 'probe');
  const found = probeIsolation(scratch);
  rmSync(scratch, { recursive: true, force: true });
  if (found === 'none' && requested === 'namespaces')
    throw new EmulatorError(500, 'Namespaces cannot be created on this machine.');
  return found;
}

/**
 * Reserves the workers' network 127.<octet>.0.0/16 and their common SSH port. The octet is a hash of the state folder.
 * A listener on 127.<octet>.0.1 detects another emulator with the same octet, and then the next one is tried. Nodes
 * keep their addresses if octet and port are unchanged, else they get new ones.
 */
async function reserveAddresses(
  world: World,
  stateDir: string,
  requestedPort: number | undefined,
): Promise<{ server: Server; sshPort: number }> {
  const before = world.globals();
  const hash = createHash('sha256').update(stateDir).digest();
  const preferred = before.octet === 0 ? 64 + ((hash[0] ?? 0) % 128) : before.octet;
  const ports = requestedPort === undefined || requestedPort === 0 ? [before.sshPort, 0] : [requestedPort];
  for (let tried = 0; tried < 128; tried += 1) {
    const octet = 64 + ((preferred - 64 + tried) % 128);
    for (const port of new Set(ports)) {
      const server = createServer((socket) => socket.destroy());
      try {
        await listen(server, port, `127.${String(octet)}.0.1`);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') continue;
        throw new EmulatorError(
          500,
          `Cannot listen on 127.${String(octet)}.0.1 port ${String(port)}: ${String(error)}`,
          {
            cause: error,
          },
        );
      }
      const address = server.address();
      const sshPort = address !== null && typeof address === 'object' ? address.port : port;
      world.change(() => {
        world.setGlobals({ octet, sshPort });
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
  throw new EmulatorError(
    500,
    `SSH port ${String(requestedPort ?? before.sshPort)} is in use on every loopback network that was tried. Name another with --ssh-port.`,
  );
}

type HttpServer = ReturnType<typeof serve>;

/** In milliseconds. Google's front end keeps connections for minutes; Node's five seconds cut a busy client's calls. */
const keepAliveTimeout = 120_000;

async function openHttp(
  fetch: Parameters<typeof serve>[0]['fetch'],
  requestedPort: number | undefined,
  before: number,
): Promise<{ server: HttpServer; port: number }> {
  const ports = requestedPort === undefined || requestedPort === 0 ? [before, 0] : [requestedPort];
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
  throw new EmulatorError(500, `Port ${String(requestedPort)} on this machine is in use. Choose another with --port.`);
}

function closeHttp(server: HttpServer): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    if ('closeAllConnections' in server) server.closeAllConnections();
  });
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve) => void server.close(() => resolve()));
}
