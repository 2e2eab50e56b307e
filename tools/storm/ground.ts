// The ground that a storm goes over: one world with a jobman of its own, and what faults and judge need to do and see there.

import { globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { adminLook } from '../../src/emulator/admin.ts';
import { jobman, type Ended } from '../../test/support/jobman.ts';
import { markVariable, processesOf, type RunningProcess } from '../../test/support/leaks.ts';
import type { World } from '../../test/support/world.ts';
import type { SmallDisk } from './small-disk.ts';

/** A worker of the built-in cloud that is switched on. */
export interface Host {
  /** The id of the job that holds its TPU. */
  readonly job: string;
  readonly node: string;
  readonly worker: number;
  /** Where its SSH door is. */
  readonly address: string;
  readonly isSpot: boolean;
}

export interface Ground {
  readonly world: World;
  /** The folder in which programs bear witness. */
  readonly witness: string;
  /** The folder of the built-in cloud's buckets. */
  readonly buckets: string;
  /** A command of a person, to its end; a failure is an answer, too. Their clock is the moved one, where it is moved. */
  readonly say: (words: readonly string[]) => Promise<Ended>;
  /** Whether a process of this jobman was started with those words. */
  isRunning(words: string): boolean;
  /** Sends SIGKILL to the processes of this jobman that were started with those words; how many there were. */
  kill(words: string): number;
  /** The workers of all TPUs that are READY; none when the cloud does not answer. */
  hosts(): Promise<readonly Host[]>;
  /** In which states TPUs are; none when the cloud does not answer. */
  nodeStates(): Promise<readonly string[]>;
  isCloudUp(): Promise<boolean>;
  /** How much of the programs' logs has been copied, of all jobs together. */
  copiedBytes(): number;
  /** The names of all that exists in the cloud. Throws when it does not answer. */
  inCloud(): Promise<readonly string[]>;
  /** The jobs that have two TPUs at once which are being made or are READY, with their names. */
  twoAtOnce(): Promise<readonly string[]>;
  /** The clock of whoever is started by `say`; null: it is never moved. */
  readonly clock: Pick<Clockwork, 'move' | 'pass'> | null;
  /** Lets nobody write to JOBMAN_HOME any more; false when that did not come about. Null where its disk is the machine's. */
  readonly fillHome: (() => boolean) | null;
  readonly emptyHome: (() => void) | null;
  /** Where the built-in cloud's workers are let in; undefined while it has none. */
  sshPort(): number | undefined;
  /** A line for whoever watches, and for the traces. */
  tell(line: string): void;
}

/** What the built-in cloud says of itself, as far as it is read here. */
interface CloudState {
  readonly nodes: readonly {
    readonly nodeId: string;
    readonly state: string;
    readonly asked: {
      readonly labels?: Readonly<Record<string, string>>;
      readonly schedulingConfig?: { readonly spot?: boolean };
    };
    readonly workers: readonly { readonly power: boolean; readonly address: string }[];
  }[];
  readonly queuedResources: readonly { readonly queuedId: string }[];
}

export function openGround(
  world: World,
  options: {
    readonly tell: (line: string) => void;
    readonly clock: Clockwork | null;
    readonly disk: SmallDisk | null;
  },
): Ground {
  const { clock, disk, tell } = options;
  const say = (words: readonly string[]): Promise<Ended> =>
    jobman(world, words, { env: clock?.env ?? {}, withinMs: 300_000 });

  function endpoint(): { readonly url: string; readonly sshPort: number } | undefined {
    try {
      const text = readFileSync(join(world.home, 'emulator', 'endpoint.json'), 'utf8');
      return JSON.parse(text) as { readonly url: string; readonly sshPort: number };
    } catch {
      return undefined;
    }
  }

  /** Not by a command: a storm looks often, and a look should cost next to nothing. */
  async function state(): Promise<CloudState | undefined> {
    const url = endpoint()?.url;
    if (url === undefined) return undefined;
    try {
      return (await adminLook(url, 'state')) as unknown as CloudState;
    } catch {
      // Storms kill it, too.
      return undefined;
    }
  }

  const startedWith = (words: string): readonly RunningProcess[] =>
    processesOf(world.env[markVariable] ?? '', world.folder).filter(({ command }) => command.includes(words));

  const buckets = join(world.home, 'emulator', 'buckets');
  return {
    world,
    // Of this machine's files the hosts share only the buckets; all else they write to a layer of their own.
    witness: join(buckets, 'witness'),
    buckets,
    say,
    tell,
    clock,
    fillHome: disk?.fill ?? null,
    emptyHome: disk?.empty ?? null,

    isRunning: (words) => startedWith(words).length > 0,

    kill(words) {
      const found = startedWith(words);
      for (const { pid } of found) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // It has just ended by itself.
        }
      }
      return found.length;
    },

    async hosts() {
      const nodes = (await state())?.nodes ?? [];
      return nodes
        .filter(({ state: is }) => is === 'READY')
        .flatMap(({ nodeId, asked, workers }) =>
          workers.flatMap(({ power, address }, worker) => {
            const job = asked.labels?.['jobman-job'];
            return power && job !== undefined
              ? [{ job, node: nodeId, worker, address, isSpot: asked.schedulingConfig?.spot === true }]
              : [];
          }),
        );
    },

    async inCloud() {
      const found = await state();
      if (found === undefined) throw new Error('the built-in cloud does not answer');
      return [
        ...found.nodes.map(({ nodeId, state: is }) => `${nodeId} (${is})`),
        ...found.queuedResources.map(({ queuedId }) => `${queuedId} (queued)`),
      ];
    },

    async nodeStates() {
      return ((await state())?.nodes ?? []).map(({ state: is }) => is);
    },

    async isCloudUp() {
      return (await state()) !== undefined;
    },

    async twoAtOnce() {
      const held = ((await state())?.nodes ?? []).filter(({ state: is }) => is === 'CREATING' || is === 'READY');
      const byJob = Map.groupBy(held, ({ asked }) => asked.labels?.['jobman-job'] ?? '');
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

/** A clock that can be moved for the programs that are started with `env`, and only for them. */
export interface Clockwork {
  readonly env: Readonly<Record<string, string>>;
  /** Puts it so far away from the time that it should show. */
  readonly move: (seconds: number) => void;
  /** Lets so much time be over at once, for good. */
  readonly pass: (seconds: number) => void;
  /** Takes away what those programs have left of it, once they have ended. */
  readonly tidy: () => void;
}
