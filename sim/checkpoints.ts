// Checkpoints: what the programs of a simulated world keep in storage that outlives every machine, and what a launcher names
// for a program to resume from. The rule is that of src/remote/launch.ts, whose shell text is tested with real shells.

import type { Launch } from '../src/core/prepare.ts';
import type { Run, World } from './world.ts';

/** How a program of the simulation keeps its checkpoints. */
export type CheckpointPlan = Pick<Launch, 'checkpointDir' | 'resume' | 'checkpointOwner' | 'resumeFrom'>;

/** One entry of a folder: who wrote it last, and when. */
export interface Checkpoint {
  readonly name: string;
  readonly writer: Run;
  readonly at: number;
}

/** A folder's record of the newest start from the beginning: its owner, and the times of the entries that existed then. */
interface FolderRecord {
  readonly owner: string;
  readonly before: ReadonlyMap<string, number>;
}

/** The folders of one world that have such a record. */
export type CheckpointRecords = Map<string, FolderRecord>;

const period = 15_000;

/** The entries of a folder. One worker of each attempt writes, every few seconds, and writes again the names of an earlier start. */
export function checkpointsIn(world: World, folder: string): readonly Checkpoint[] {
  const entries = new Map<string, Checkpoint>();
  for (const run of world.runs) {
    if (run.checkpoints?.checkpointDir !== folder || run.startedAt === null) continue;
    if (run.worker !== '0' && run.worker !== 'here') continue;
    const end = Math.min(world.timeline.now, run.endedAt ?? Infinity);
    for (let at = run.startedAt + period, step = run.firstStep + 1; at <= end; at += period, step += 1) {
      const name = `step_${step}`;
      const before = entries.get(name);
      if (before === undefined || before.at < at) entries.set(name, { name, writer: run, at });
    }
  }
  return [...entries.values()];
}

/** The checkpoint that the program resumes from: null for none; undefined if it needs one to begin and there is none. */
export function resumedFrom(world: World, plan: CheckpointPlan): Checkpoint | null | undefined {
  const { checkpointDir: folder, checkpointOwner: owner, resume, resumeFrom } = plan;
  if (folder === null) return null;
  const entries = checkpointsIn(world, folder);
  const record = world.checkpointRecords.get(folder);
  const counts = ({ name, at }: Checkpoint): boolean =>
    owner === undefined || (record?.owner === owner && record.before.get(name) !== at);
  if (owner !== undefined && record?.owner !== owner) {
    world.checkpointRecords.set(folder, { owner, before: new Map(entries.map(({ name, at }) => [name, at])) });
  }
  const own = resume ? newest(entries.filter(counts)) : undefined;
  if (own !== undefined || resumeFrom?.kind !== 'folder') return own ?? null;
  return newest(checkpointsIn(world, resumeFrom.path));
}

function newest(entries: readonly Checkpoint[]): Checkpoint | undefined {
  return entries.toSorted((one, other) => other.at - one.at)[0];
}
