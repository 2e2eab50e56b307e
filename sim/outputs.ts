// Outputs: the files that outlive every machine and controller of a simulated world: the log files of its home, whose
// disk may be full, and the checkpoints of its programs.

import { StoreError } from '../src/app/errors.ts';
import type { CopiedOutput, LogFiles } from '../src/app/ports.ts';
import type { Job } from '../src/core/model/job.ts';
import type { Chance } from './chance.ts';
import type { Launch } from '../src/core/decide/launch.ts';
import type { Run, World } from './world.ts';

export interface Disk {
  isFull: boolean;
}

/** While it is unsteady, a statement may fail, and a commit may succeed without an answer. */
export interface DatabaseServer {
  isUnsteady: boolean;
  readonly chance: Chance;
}

/**
 * The connection of one of two servers to their database, in the world's time. While it is cut, no answer arrives; a
 * statement that was sent is lost, or takes effect at the end of the cut, after its sender has given up.
 */
export interface DatabaseLink {
  cutUntil: number;
  slowUntil: number;
  readonly chance: Chance;
}

export interface LogCopies extends LogFiles {
  readonly files: ReadonlyMap<string, LogCopy>;
}

export interface LogCopy {
  readonly chunks: Uint8Array[];
  bytes: number;
}

export function diskFullError(): StoreError {
  return new StoreError('full', 'the disk is full');
}

export function connectionLostError(): StoreError {
  return new StoreError('broken', 'the connection to the database was lost');
}

export function createLogCopies(disk: Disk, chance: Chance): LogCopies {
  const files = new Map<string, LogCopy>();
  const fileOf = (job: Job, output: CopiedOutput): LogCopy => {
    const key = copyKey(job.id, output);
    let file = files.get(key);
    if (file === undefined) {
      file = { chunks: [], bytes: 0 };
      files.set(key, file);
    }
    return file;
  };
  const write = (file: LogCopy, chunk: Uint8Array): void => {
    file.chunks.push(chunk);
    file.bytes += chunk.length;
  };
  return {
    files,
    length: async (job, output) => fileOf(job, output).bytes,
    async append(job, output, chunk) {
      if (disk.isFull) {
        // A nearly full disk takes only a part of the chunk.
        if (chance.yes(0.3)) write(fileOf(job, output), chunk.slice(0, chance.between(0, chunk.length - 1)));
        throw diskFullError();
      }
      write(fileOf(job, output), chunk);
    },
    async recordArrivals() {
      if (disk.isFull) throw diskFullError();
    },
    async readEnd(job, attempt, worker, most) {
      const bytes = contentOf(fileOf(job, { attempt, worker, file: 'log' }));
      return bytes.slice(Math.max(0, bytes.length - most));
    },
    async note() {
      if (disk.isFull) throw diskFullError();
    },
    async appendStepLog() {
      if (disk.isFull) throw diskFullError();
    },
    async store() {
      if (disk.isFull) throw diskFullError();
    },
    async mirror() {
      if (disk.isFull) throw diskFullError();
    },
  };
}

/** The key of a copy in `LogCopies.files`. */
export function copyKey(
  job: string,
  { attempt, worker, file }: Omit<CopiedOutput, 'worker'> & { readonly worker: string | number },
): string {
  return `${job}/${attempt}/${worker}${file === 'log' ? '' : `/${file}`}`;
}

export function contentOf(copy: LogCopy): Uint8Array {
  const bytes = new Uint8Array(copy.bytes);
  let at = 0;
  for (const chunk of copy.chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

// ------------------------------------------------------------------------------------------ checkpoints

export type CheckpointPlan = Pick<Launch, 'checkpointDir' | 'resume' | 'checkpointOwner' | 'resumeFrom'>;

/** One entry of a folder, with its last writer and time. */
export interface Checkpoint {
  readonly name: string;
  readonly writer: Run;
  readonly at: number;
}

/**
 * A folder's record of the newest start from the beginning: its owner, and the entries that existed then with their
 * times.
 */
interface FolderRecord {
  readonly owner: string;
  readonly existing: ReadonlyMap<string, number>;
}

export type CheckpointRecords = Map<string, FolderRecord>;

/** Long enough that some starts from the beginning end before their first checkpoint, while older ones exist. */
const checkpointPeriod = 45_000;

/**
 * The entries of a folder. One worker of each attempt writes regularly, and overwrites the names of an earlier
 * start.
 */
export function checkpointsIn(world: World, folder: string): readonly Checkpoint[] {
  const entries = new Map<string, Checkpoint>();
  for (const run of world.runs) {
    if (run.checkpoints?.checkpointDir !== folder || run.startedAt === null) continue;
    if (run.worker !== '0' && run.worker !== 'controller') continue;
    const end = Math.min(world.timeline.now, run.endedAt ?? Infinity);
    for (
      let at = run.startedAt + checkpointPeriod, step = run.firstStep + 1;
      at <= end;
      at += checkpointPeriod, step += 1
    ) {
      const name = `step_${step}`;
      const before = entries.get(name);
      if (before === undefined || before.at < at) entries.set(name, { name, writer: run, at });
    }
  }
  return [...entries.values()];
}

/** The checkpoint from which the program resumes: null for none; undefined if it needs one and there is none. */
export function resumedFrom(world: World, plan: CheckpointPlan): Checkpoint | null | undefined {
  const { checkpointDir: folder, checkpointOwner: owner, resume, resumeFrom } = plan;
  if (folder === null) return null;
  const entries = checkpointsIn(world, folder);
  const record = world.checkpointRecords.get(folder);
  const counts = ({ name, at }: Checkpoint): boolean =>
    owner === undefined || (record?.owner === owner && record.existing.get(name) !== at);
  if (owner !== undefined && record?.owner !== owner) {
    world.checkpointRecords.set(folder, { owner, existing: new Map(entries.map(({ name, at }) => [name, at])) });
  }
  const own = resume ? newest(entries.filter(counts)) : undefined;
  if (own !== undefined || resumeFrom?.kind !== 'folder') return own ?? null;
  return newest(checkpointsIn(world, resumeFrom.path));
}

function newest(entries: readonly Checkpoint[]): Checkpoint | undefined {
  return entries.toSorted((one, other) => other.at - one.at)[0];
}
