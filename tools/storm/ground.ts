// The ground that a storm goes over: one world with a jobman of its own, and what faults and judge need to do and see there.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { jobman, type Ended } from '../../test/support/jobman.ts';
import { markVariable, processesOf } from '../../test/support/leaks.ts';
import type { World } from '../../test/support/world.ts';

/** A worker of the built-in cloud that is switched on. */
export interface Host {
  /** The id of the job that holds its TPU. */
  readonly job: string;
  readonly node: string;
  readonly worker: number;
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
  /** Sends SIGKILL to the processes of this jobman that were started with those words; how many there were. */
  kill(words: string): number;
  /** The workers of all TPUs that are READY; none when the cloud does not answer. */
  hosts(): Promise<readonly Host[]>;
  /** The names of all that exists in the cloud. Throws when it does not answer. */
  inCloud(): Promise<readonly string[]>;
  /** Moves the clock of whoever is started by `say`, so many seconds away from the true time; null: it is never moved. */
  readonly moveClock: ((seconds: number) => void) | null;
  /** Where the built-in cloud's workers are let in; undefined while it has none. */
  sshPort(): number | undefined;
  /** A line for whoever watches, and for the traces. */
  tell(line: string): void;
}

/** What `emulator status --json` says, as far as it is read here. */
interface CloudState {
  readonly nodes: readonly {
    readonly nodeId: string;
    readonly state: string;
    readonly asked: {
      readonly labels?: Readonly<Record<string, string>>;
      readonly schedulingConfig?: { readonly spot?: boolean };
    };
    readonly workers: readonly { readonly power: boolean }[];
  }[];
  readonly queuedResources: readonly { readonly queuedId: string }[];
}

export function openGround(
  world: World,
  options: { readonly tell: (line: string) => void; readonly clock: Clockwork | null },
): Ground {
  const { clock, tell } = options;
  const say = (words: readonly string[]): Promise<Ended> =>
    jobman(world, words, { env: clock?.env ?? {}, withinMs: 300_000 });

  async function state(): Promise<CloudState | undefined> {
    const { code, stdout } = await jobman(world, ['emulator', 'status', '--json']);
    return code === 0 ? (JSON.parse(stdout) as CloudState) : undefined;
  }

  const buckets = join(world.home, 'emulator', 'buckets');
  return {
    world,
    // Of this machine's files the hosts share only the buckets; all else they write to a layer of their own.
    witness: join(buckets, 'witness'),
    buckets,
    say,
    tell,
    moveClock: clock?.move ?? null,

    kill(words) {
      const found = processesOf(world.env[markVariable] ?? '', world.folder).filter(({ command }) =>
        command.includes(words),
      );
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
          workers.flatMap(({ power }, worker) => {
            const job = asked.labels?.['jobman-job'];
            return power && job !== undefined
              ? [{ job, node: nodeId, worker, isSpot: asked.schedulingConfig?.spot === true }]
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

    sshPort() {
      try {
        const text = readFileSync(join(world.home, 'emulator', 'endpoint.json'), 'utf8');
        return (JSON.parse(text) as { readonly sshPort: number }).sshPort;
      } catch {
        return undefined;
      }
    },
  };
}

/** A clock that can be moved for the programs that are started with `env`, and only for them. */
export interface Clockwork {
  readonly env: Readonly<Record<string, string>>;
  readonly move: (seconds: number) => void;
  /** Takes away what those programs have left of it, once they have ended. */
  readonly tidy: () => void;
}
