// An isolated jobman for a chaos test, and the operations that faults and invariants need.

import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { queryEmulator } from '../../src/emulator/admin.ts';
import { jobman, type JobmanResult } from '../../test/support/jobman.ts';
import { testIdVariable, processesOf, type RunningProcess } from '../../test/support/leaks.ts';
import type { World } from '../../test/support/world.ts';
import type { SmallDisk } from './small-disk.ts';

/** A running worker of the TPU emulator. */
export interface Host {
  /** The job that holds its TPU. */
  readonly job: string;
  readonly node: string;
  readonly worker: number;
  readonly sshAddress: string;
  readonly isSpot: boolean;
}

export interface ChaosContext {
  readonly world: World;
  readonly reportFolder: string;
  /** The folder of the TPU emulator's buckets. */
  readonly buckets: string;
  /** Runs a user's command to its end, with the movable clock; a failure is a result too. */
  readonly run: (args: readonly string[]) => Promise<JobmanResult>;
  /** True when a process of this jobman has these arguments. */
  isRunning(args: string): boolean;
  /** Sends SIGKILL to the processes of this jobman with these arguments; returns their number. */
  kill(args: string): number;
  /** Workers of all READY TPUs; empty when the cloud does not answer. */
  hosts(): Promise<readonly Host[]>;
  /** States of all TPUs; empty when the cloud does not answer. */
  nodeStates(): Promise<readonly string[]>;
  isEmulatorUp(): Promise<boolean>;
  copiedBytes(): number;
  /** Names of all resources in the cloud. Throws when it does not answer. */
  listResources(): Promise<readonly string[]>;
  /** Jobs with two TPUs that are being created or READY, with their names. */
  jobsWithTwoTpus(): Promise<readonly string[]>;
  /** The clock of commands started by `run`; null when it is never moved. */
  readonly clock: Pick<MovableClock, 'setOffset' | 'advance'> | null;
  /** Fills the disk of JOBMAN_HOME; false when that fails. Null when it has no disk of its own. */
  readonly fillHome: (() => boolean) | null;
  readonly emptyHome: (() => void) | null;
  /** The SSH port of the TPU emulator's workers; undefined before there is one. */
  sshPort(): number | undefined;
  report(line: string): void;
}

interface EmulatorState {
  readonly nodes: readonly {
    readonly nodeId: string;
    readonly state: string;
    readonly spec: {
      readonly labels?: Readonly<Record<string, string>>;
      readonly schedulingConfig?: { readonly spot?: boolean };
    };
    readonly workers: readonly { readonly power: boolean; readonly address: string }[];
  }[];
  readonly queuedResources: readonly { readonly queuedId: string }[];
}

export function createChaosContext(
  world: World,
  options: {
    readonly report: (line: string) => void;
    readonly clock: MovableClock | null;
    readonly disk: SmallDisk | null;
  },
): ChaosContext {
  const { clock, disk, report } = options;
  const run = (args: readonly string[]): Promise<JobmanResult> =>
    jobman(world, args, { env: clock?.env ?? {}, withinMs: 300_000 });

  function endpoint(): { readonly url: string; readonly sshPort: number } | undefined {
    try {
      const text = readFileSync(join(world.home, 'emulator', 'endpoint.json'), 'utf8');
      return JSON.parse(text) as { readonly url: string; readonly sshPort: number };
    } catch {
      return undefined;
    }
  }

  /** A direct request, because the test checks often and a command would take more time. */
  async function state(): Promise<EmulatorState | undefined> {
    const url = endpoint()?.url;
    if (url === undefined) return undefined;
    try {
      return (await queryEmulator(url, 'state')) as unknown as EmulatorState;
    } catch {
      // A fault may have killed the emulator.
      return undefined;
    }
  }

  const startedWith = (args: string): readonly RunningProcess[] =>
    processesOf(world.env[testIdVariable] ?? '', world.folder).filter(({ command }) => command.includes(args));

  const buckets = join(world.home, 'emulator', 'buckets');
  return {
    world,
    // Hosts share only the buckets with this machine; other files go to a separate layer.
    reportFolder: join(buckets, 'reports'),
    buckets,
    run,
    report,
    clock,
    fillHome: disk?.fill ?? null,
    emptyHome: disk?.empty ?? null,

    isRunning: (args) => startedWith(args).length > 0,

    kill(args) {
      const found = startedWith(args);
      for (const { pid } of found) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // The process has just ended.
        }
      }
      return found.length;
    },

    async hosts() {
      const nodes = (await state())?.nodes ?? [];
      return nodes
        .filter(({ state: nodeState }) => nodeState === 'READY')
        .flatMap(({ nodeId, spec, workers }) =>
          workers.flatMap(({ power, address }, worker) => {
            const job = spec.labels?.['jobman-job'];
            return power && job !== undefined
              ? [{ job, node: nodeId, worker, sshAddress: address, isSpot: spec.schedulingConfig?.spot === true }]
              : [];
          }),
        );
    },

    async listResources() {
      const found = await state();
      if (found === undefined) throw new Error('the TPU emulator does not answer');
      return [
        ...found.nodes.map(({ nodeId, state: nodeState }) => `${nodeId} (${nodeState})`),
        ...found.queuedResources.map(({ queuedId }) => `${queuedId} (queued)`),
      ];
    },

    async nodeStates() {
      return ((await state())?.nodes ?? []).map(({ state: nodeState }) => nodeState);
    },

    async isEmulatorUp() {
      return (await state()) !== undefined;
    },

    async jobsWithTwoTpus() {
      const held = ((await state())?.nodes ?? []).filter(
        ({ state: nodeState }) => nodeState === 'CREATING' || nodeState === 'READY',
      );
      const byJob = Map.groupBy(held, ({ spec }) => spec.labels?.['jobman-job'] ?? '');
      return [...byJob]
        .filter(([, nodes]) => nodes.length > 1)
        .map(([job, nodes]) => `${job}: ${nodes.map(({ nodeId }) => nodeId).join(', ')}`);
    },

    copiedBytes() {
      const logs = globSync('jobs/*/*/logs/attempt_*/command_worker_*.log', { cwd: world.home });
      return logs.reduce(
        (sum, file) => sum + (statSync(join(world.home, file), { throwIfNoEntry: false })?.size ?? 0),
        0,
      );
    },

    sshPort: () => endpoint()?.sshPort,
  };
}

/** Moves the clock of the programs that get `env`, and no other. */
export interface MovableClock {
  readonly env: Readonly<Record<string, string>>;
  /** Difference from the correct time. */
  readonly setOffset: (seconds: number) => void;
  /** Moves the correct time forward, permanently. */
  readonly advance: (seconds: number) => void;
  /** Deletes the remaining files of ended programs. */
  readonly cleanUp: () => void;
}
