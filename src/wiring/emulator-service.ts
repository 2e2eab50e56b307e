// The TPU emulator as a process of this machine, found by the endpoint file in its folder.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { withoutDatabasePassword } from '../app/database-url.ts';
import { JobmanError, exitCode } from '../app/errors.ts';
import type { EmulatorService, Io, EmulatorStatus, EmulatorTpu, Services } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { sanitizeText } from '../cli/output.ts';
import { makeHome } from '../files/files.ts';
import { emulatorProject, type JobSpec } from '../core/model/spec.ts';
import { minute, second } from '../core/model/time.ts';
import { runAdminVerb, queryEmulator } from '../emulator/admin.ts';
import { EmulatorError, embeddedSpeed } from '../emulator/contract.ts';
import type { FaultCondition, NodeRecord, QueuedResourceRecord } from '../emulator/world/records.ts';
import { otherOwnerOf } from './logins.ts';
import { databaseOf } from './paths.ts';
import { pollUntil, startInBackground, terminateProcess } from './processes.ts';

/** A server in the settings (tpu.endpoint), such as another emulator, replaces the TPU emulator. */
export function isServedByEmulator(settings: Pick<Settings, 'tpu'>, project: string): boolean {
  return project === emulatorProject && settings.tpu.endpoint === null;
}

export interface EmulatorEndpoint {
  readonly url: string;
  readonly sshPort: number;
  readonly pid: number;
}

const stopTimeout = 30_000;
/** An emulator that a command started exits after this time without TPUs; the next command starts it again. */
const idleExitMs = 10 * minute;

function emulatorFolder(home: string): string {
  return join(home, 'emulator');
}

/** Undefined when none runs. A killed emulator leaves its endpoint file behind; one that hangs still runs. */
export async function findEmulator(home: string): Promise<EmulatorEndpoint | undefined> {
  let endpoint: EmulatorEndpoint;
  try {
    endpoint = JSON.parse(await readFile(join(emulatorFolder(home), 'endpoint.json'), 'utf8')) as EmulatorEndpoint;
  } catch {
    return undefined;
  }
  try {
    const info = await queryEmulator(endpoint.url, 'info');
    // Another program, or another emulator, may use the port by now.
    return info['sshPort'] === endpoint.sshPort ? endpoint : undefined;
  } catch (error) {
    return error instanceof EmulatorError && error.status === 504 ? endpoint : undefined;
  }
}

/** Concurrent callers start only one emulator. `pendingSpec` is the job that needs it, if it is not stored yet. */
export async function ensureEmulator(
  io: Io,
  home: string,
  pendingSpec?: JobSpec,
): Promise<{ readonly started: boolean; readonly endpoint: EmulatorEndpoint }> {
  const found = await findEmulator(home);
  if (found !== undefined) return { started: false, endpoint: found };
  const owner = await otherOwnerOf(emulatorFolder(home));
  if (owner !== null && io.uid !== 0)
    throw new JobmanError(
      `The TPU emulator of ${home} belongs to the login ${owner}; only that login can start it and use its TPUs.`,
      exitCode.unreachable,
    );
  const endpoint = await startInBackground({
    io,
    home,
    name: 'The TPU emulator',
    args: ['emulator', 'serve', '--state', emulatorFolder(home), '--idle-exit', `${String(idleExitMs / second)}s`],
    logFile: join(home, 'emulator.log'),
    pendingSpec,
    find: () => findEmulator(home),
    timeoutMs: 30_000,
    failureCode: exitCode.unreachable,
  });
  return { started: true, endpoint };
}

export function formatEmulatorStarted({ url }: EmulatorEndpoint): string {
  return `Started the TPU emulator at ${url}. Its TPUs are simulated and free.`;
}

export function createEmulatorService(services: Pick<Services, 'io' | 'home'>): EmulatorService {
  const { io, home } = services;
  /** `v2-8-p1/0`, worker 0 of the TPU with that alias in the lab. */
  async function nodeOf(target: string): Promise<string> {
    const { openLabStore } = await import('../store/lab.ts');
    const { store, close } = openLabStore(databaseOf(services));
    const [, name = target, worker = ''] = /^(.+?)(\/\d+)?$/.exec(target) ?? [];
    try {
      return `${(await store.tpuAliases()).get(name) ?? name}${worker}`;
    } finally {
      await close();
    }
  }

  return {
    async serve(options) {
      const { serveEmulator } = await import('../emulator/serve.ts');
      const ended = Promise.withResolvers<void>();
      const stopListening = io.onSignal(() => ended.resolve());
      try {
        const { state, ...rest } = options;
        if (state === undefined) makeHome(home);
        const emulator = await serveEmulator({
          ...rest,
          // The emulator's own default is Google's speed.
          defaultSpeed: embeddedSpeed,
          stateDir: state ?? emulatorFolder(home),
          env: withoutDatabasePassword(io.env),
          pid: io.pid,
          write: (text) => io.stdout.write(sanitizeText(text)),
          log: (line) => io.stderr.write(`${sanitizeText(line)}\n`),
          onShouldClose: () => ended.resolve(),
        });
        await ended.promise;
        await emulator.close();
      } catch (error) {
        throw asJobmanError(error);
      } finally {
        stopListening();
      }
      return exitCode.ok;
    },

    async start() {
      const { started, endpoint } = await ensureEmulator(io, home);
      return { started, url: endpoint.url };
    },

    async stop() {
      const endpoint = await findEmulator(home);
      if (endpoint === undefined) return { stopped: false };
      await terminateProcess(endpoint.pid);
      const gone = await pollUntil(
        async () => ((await findEmulator(home)) === undefined ? true : undefined),
        stopTimeout,
      );
      if (gone === undefined) {
        throw new JobmanError(`The TPU emulator (process ${endpoint.pid}) does not stop.`, exitCode.failed);
      }
      return { stopped: true };
    },

    async status() {
      const endpoint = await findEmulator(home);
      if (endpoint === undefined)
        return { running: false, url: null, pid: null, speed: null, sshPort: null, tpus: [], activeFaults: [] };
      const { url, pid } = endpoint;
      try {
        const [info, state] = await Promise.all([queryEmulator(url, 'info'), queryEmulator(url, 'state')]);
        return { running: true, url, pid, ...cloudView(info, state) };
      } catch (error) {
        throw asJobmanError(error);
      }
    },

    async act(verb, target, options) {
      const { endpoint } = await ensureEmulator(io, home);
      const run = async (node: string | undefined): Promise<string> =>
        (await runAdminVerb(endpoint.url, verb, node, options)).message;
      try {
        return await run(target);
      } catch (error) {
        const node = target !== undefined && isNotFound(error) ? await nodeOf(target) : target;
        if (node === target) throw asJobmanError(error);
        return await run(node).catch((again: unknown) => {
          throw asJobmanError(again);
        });
      }
    },
  };
}

function isNotFound(error: unknown): boolean {
  return error instanceof EmulatorError && error.status === 404;
}

function asJobmanError(error: unknown): unknown {
  if (!(error instanceof EmulatorError)) return error;
  const codes: Readonly<Record<number, number>> = {
    0: exitCode.unreachable,
    404: exitCode.notFound,
    // Of a start, only this one means that another emulator is starting or runs (`startInBackground`).
    409: exitCode.conflict,
    500: exitCode.failed,
  };
  return new JobmanError(error.message, codes[error.status] ?? exitCode.usage, [], { cause: error });
}

type WithTextTime<T> = Omit<T, 'createTime'> & { readonly createTime: string };

interface EmulatorState {
  readonly nodes: readonly WithTextTime<NodeRecord>[];
  readonly queuedResources: readonly WithTextTime<QueuedResourceRecord>[];
  readonly conditions: readonly (FaultCondition & { readonly message: string })[];
}

function cloudView(
  info: Readonly<Record<string, unknown>>,
  state: Readonly<Record<string, unknown>>,
): Pick<EmulatorStatus, 'speed' | 'sshPort' | 'tpus' | 'activeFaults'> {
  // The emulator has this version, or one whose records this version can read.
  const { nodes, queuedResources, conditions } = state as unknown as EmulatorState;
  const queued = new Map(queuedResources.map((resource) => [resource.name, resource]));
  const tpus = nodes.map((node) => tpuOf(node, queued.get(node.queuedResource ?? '')));
  for (const { queuedResource } of nodes) queued.delete(queuedResource ?? '');
  return {
    speed: Number(info['speed']),
    sshPort: Number(info['sshPort']),
    tpus: [...tpus, ...[...queued.values()].map(queuedTpu)],
    activeFaults: conditions.map(({ message }) => message),
  };
}

function tpuOf(node: WithTextTime<NodeRecord>, queued: { readonly state: string } | undefined): EmulatorTpu {
  return {
    name: node.nodeId,
    zone: node.zone,
    accelerator: node.type,
    nodeState: node.state,
    queuedResourceState: queued?.state ?? null,
    workers: node.workers.map(workerState),
    job: jobLabelOf(node.spec),
    createdAt: Date.parse(node.createTime),
  };
}

function workerState({
  power,
  rebooting,
  hung,
  sshRefused,
  diskFull,
}: NodeRecord['workers'][number]): EmulatorTpu['workers'][number] {
  if (!power) return 'dead';
  if (rebooting === true) return 'rebooting';
  if (hung) return 'hung';
  if (sshRefused === true) return 'ssh_refused';
  return diskFull === true ? 'disk_full' : 'running';
}

function queuedTpu(queued: WithTextTime<QueuedResourceRecord>): EmulatorTpu {
  const [first] = queued.nodes;
  const type = first?.node['acceleratorType'];
  return {
    name: queued.queuedId,
    zone: queued.zone,
    accelerator: typeof type === 'string' ? type : '-',
    nodeState: null,
    queuedResourceState: queued.state,
    workers: [],
    job: jobLabelOf(first?.node ?? {}),
    createdAt: Date.parse(queued.createTime),
  };
}

function jobLabelOf(node: Readonly<Record<string, unknown>>): string | null {
  return (node['labels'] as Readonly<Record<string, string>> | undefined)?.['jobman-job'] ?? null;
}
