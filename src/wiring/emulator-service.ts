// The built-in cloud as a process of this machine, found by the note that it leaves in its folder.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { JobmanError, exitCode } from '../app/errors.ts';
import type { EmulatorService, Io, CloudTpu, CloudView } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { harmlessText } from '../cli/output.ts';
import { builtInProject, type JobSpec } from '../core/spec.ts';
import { minute, second } from '../core/time.ts';
import { admin, adminLook } from '../emulator/admin.ts';
import { EmulatorRefusal, embeddedSpeed } from '../emulator/contract.ts';
import type { Condition, NodeRecord, QueuedRecord } from '../emulator/world/records.ts';
import { startDetached, waitFor } from './processes.ts';

/** Whether the built-in cloud serves that project. A server that the settings name replaces it too, such as another emulator. */
export function isServedByBuiltIn(settings: Pick<Settings, 'tpu'>, project: string): boolean {
  return project === builtInProject && settings.tpu.endpoint === null;
}

/** Where a running emulator is. */
export interface Endpoint {
  readonly url: string;
  readonly sshPort: number;
  readonly pid: number;
}

/** A cloud with hundreds of hosts starts slowly after a crash. */
const startMost = 30_000;
const stopMost = 30_000;
/** A cloud that a command started leaves once it has been empty for this long; the next command that needs it starts it again. */
const idleExitMs = 10 * minute;
/** One that ended at once may have met another that was just started and is about to answer. */
const otherMost = 5_000;

function emulatorFolder(home: string): string {
  return join(home, 'emulator');
}

/** The emulator that answers now, or undefined. A killed one leaves its note behind. */
export async function findEmulator(home: string): Promise<Endpoint | undefined> {
  let endpoint: Endpoint;
  try {
    endpoint = JSON.parse(await readFile(join(emulatorFolder(home), 'endpoint.json'), 'utf8')) as Endpoint;
  } catch {
    return undefined;
  }
  try {
    const info = await adminLook(endpoint.url, 'info');
    // Another program, or another emulator, may have the port by now.
    return info['sshPort'] === endpoint.sshPort ? endpoint : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The emulator of this home, started in the background when it is not there. Several callers at once start one. `coming` is
 * the job that it is wanted for, when that is not on record yet.
 */
export async function ensureEmulator(
  io: Io,
  home: string,
  coming?: JobSpec,
): Promise<{ readonly started: boolean; readonly endpoint: Endpoint }> {
  const found = await findEmulator(home);
  if (found !== undefined) return { started: false, endpoint: found };
  const log = join(home, 'emulator.log');
  const words = ['emulator', 'serve', '--idle-exit', `${String(idleExitMs / second)}s`];
  const { endedFor, lastWords } = await startDetached({ io, home, coming }, words, log);
  const hasFailed = (): boolean => endedFor() > otherMost;
  const endpoint = await waitFor(() => findEmulator(home), startMost, hasFailed);
  if (endpoint === undefined) {
    throw new JobmanError(
      hasFailed()
        ? `The built-in cloud ended as soon as it was started; its log is ${log}.`
        : `The built-in cloud was started and does not answer; its log is ${log}.`,
      exitCode.unreachable,
      lastWords(),
    );
  }
  return { started: true, endpoint };
}

export function startedText({ url }: Endpoint): string {
  return `Started the built-in cloud at ${url}; its TPUs are pretended and cost nothing.`;
}

/** See EmulatorService. */
export function createEmulatorService({ io, home }: { readonly io: Io; readonly home: string }): EmulatorService {
  return {
    async serve(options) {
      const { serveEmulator } = await import('../emulator/serve.ts');
      const ended = Promise.withResolvers<void>();
      const unhear = io.onSignal(() => ended.resolve());
      try {
        const { state, ...rest } = options;
        const emulator = await serveEmulator({
          ...rest,
          // The emulator's own default is Google's pace.
          usualSpeed: embeddedSpeed,
          stateDir: state ?? emulatorFolder(home),
          env: io.env,
          pid: io.pid,
          write: (text) => io.stdout.write(harmlessText(text)),
          log: (line) => io.stderr.write(`${harmlessText(line)}\n`),
          gone: () => ended.resolve(),
        });
        await ended.promise;
        await emulator.close();
      } catch (error) {
        throw refusedBy(error);
      } finally {
        unhear();
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
      const { endProcess } = await import('./processes.ts');
      await endProcess(endpoint.pid);
      const gone = await waitFor(async () => ((await findEmulator(home)) === undefined ? true : undefined), stopMost);
      if (gone === undefined) {
        throw new JobmanError(
          `The built-in cloud (pid ${endpoint.pid}) was asked to end and still answers.`,
          exitCode.failed,
        );
      }
      return { stopped: true };
    },

    async status() {
      const endpoint = await findEmulator(home);
      if (endpoint === undefined) return { running: false, url: null, pid: null, cloud: null };
      const { url, pid } = endpoint;
      const [info, state] = await Promise.all([adminLook(url, 'info'), adminLook(url, 'state')]);
      return { running: true, url, pid, cloud: cloudView(info, state) };
    },

    async act(verb, target, options) {
      const { endpoint } = await ensureEmulator(io, home);
      try {
        return (await admin(endpoint.url, verb, target, options)).message;
      } catch (error) {
        throw refusedBy(error);
      }
    },
  };
}

/** A refusal of the emulator with the exit code that it means; any other error as it is. */
function refusedBy(error: unknown): unknown {
  if (!(error instanceof EmulatorRefusal)) return error;
  const codes: Readonly<Record<number, number>> = {
    0: exitCode.unreachable,
    404: exitCode.notFound,
    409: exitCode.conflict,
  };
  return new JobmanError(error.message, codes[error.status] ?? exitCode.usage, [], { cause: error });
}

// The state of the built-in cloud, in the words of the terminal's table.

/** The answer of `/emulator/state`, as far as it is read here. */
interface State {
  readonly nodes: readonly NodeRecord[];
  readonly queuedResources: readonly QueuedRecord[];
  readonly conditions: readonly (Condition & { readonly says: string })[];
}

/** `info` and `state` are the answers of the emulator's admin door. */
function cloudView(info: Readonly<Record<string, unknown>>, state: Readonly<Record<string, unknown>>): CloudView {
  // Both were made by this very version of the emulator, or by one whose records this one still reads.
  const { nodes, queuedResources, conditions } = state as unknown as State;
  const named = new Set(nodes.map((node) => node.queuedResource));
  return {
    speed: Number(info['speed']),
    sshPort: Number(info['sshPort']),
    tpus: [
      ...nodes.map((node) =>
        tpuOf(
          node,
          queuedResources.find(({ name }) => name === node.queuedResource),
        ),
      ),
      ...queuedResources.filter(({ name }) => !named.has(name)).map(waiting),
    ],
    inForce: conditions.map(({ says }) => says),
    raw: state,
  };
}

function tpuOf(node: NodeRecord, queued: QueuedRecord | undefined): CloudTpu {
  return {
    name: node.nodeId,
    zone: node.zone,
    type: node.type,
    node: node.state,
    queued: queued?.state ?? null,
    workers: node.workers.map(workerWord),
    job: jobIn(node.asked),
    createdAt: node.createTime,
  };
}

function workerWord({
  power,
  rebooting,
  hung,
  sshRefused,
  diskFull,
}: NodeRecord['workers'][number]): CloudTpu['workers'][number] {
  if (!power) return 'is dead';
  if (rebooting === true) return 'reboots';
  if (hung) return 'hangs';
  if (sshRefused === true) return 'refuses SSH';
  return diskFull === true ? 'has a full disk' : 'runs';
}

function waiting(queued: QueuedRecord): CloudTpu {
  const [first] = queued.nodes;
  const type = first?.node['acceleratorType'];
  return {
    name: queued.queuedId,
    zone: queued.zone,
    type: typeof type === 'string' ? type : '-',
    node: null,
    queued: queued.state,
    workers: [],
    job: jobIn(first?.node ?? {}),
    createdAt: queued.createTime,
  };
}

function jobIn(asked: Readonly<Record<string, unknown>>): string | null {
  return (asked['labels'] as Readonly<Record<string, string>> | undefined)?.['jobman-job'] ?? null;
}
