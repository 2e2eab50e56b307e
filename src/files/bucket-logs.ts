// Bucket logs: shares the logs of jobs with the other servers of a database through a bucket. The files of the home stay
// what jobman writes and reads: they are sent every few seconds, and what other servers have stored is added before a
// read (docs/decisions/server-data.md).
//
// In the bucket a file is a chain of chunks, `jobs/<job>/<file>/<offset of its first byte>`. Only its end changes: the
// last chunk is replaced by a longer one until it has `fullChunk` bytes, and then another one follows. Each write names
// the generation that it replaces, so of two servers that write at the same time, one is refused and reads first.

import { closeSync, existsSync, openSync, readdirSync, readSync, renameSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { createLimiter, mapConcurrent, withTimeout } from '../app/concurrency.ts';
import { messageOf, StoreError } from '../app/errors.ts';
import type { Bucket, BucketObject, JobFolders, LogFiles } from '../app/ports.ts';
import type { ArchivedLogs, ClusterJob } from '../app/cluster/objects.ts';
import type { Job } from '../core/model/job.ts';
import { minute, second, type Duration, type Instant } from '../core/model/time.ts';
import { archiveFolder, type ArchivedLogWriter } from './archived-logs.ts';
import { makeFolder, readRegularFile, writeAtomically, writeFileAt } from './files.ts';
import { folderOf } from './job-folder.ts';

/** A smaller last chunk is replaced by a longer one, so that a slow log has few chunks. */
const fullChunk = 256 * 1024;
const maxChunk = 8 * 1024 * 1024;
const maxConcurrent = 4;
/** Two servers that write one file at once refuse each other at most a few times. */
const maxConflicts = 10;

/** A reader sees what another server has sent after at most this time. */
const refreshInterval: Duration = 2 * second;
/** A server that has written within this time is the one that writes the logs of the job. */
const ownFor: Duration = 10 * second;
/** A reader waits this long for the bucket, and then gets what is here. */
const refreshTimeout: Duration = 5 * second;
/** A job that finished this long ago has no bytes in transit. */
const longFinished: Duration = 10 * minute;

export type BucketLogs = ReturnType<typeof createBucketLogs>;

export function createBucketLogs(parts: {
  readonly home: string;
  readonly bucket: Bucket;
  readonly now: () => Instant;
}) {
  const { home, bucket, now } = parts;
  const unsent = join(home, 'unsent');
  const copies = new Map<string, Copy>();
  /** By prefix, when this process wrote the last time. */
  const written = new Map<string, Instant>();
  const refreshed = new Map<string, { at: Instant; under: Promise<void> | null }>();

  /** The files of one job. Its operations run one after the other. */
  function copyOf(one: JobFolder): Copy {
    const known = copies.get(one.prefix) ?? createCopy(bucket, join(home, one.folder), one.prefix);
    copies.set(one.prefix, known);
    return known;
  }

  function folderIn(job: SharedJob): JobFolder {
    if ('uid' in job) {
      const folder = archiveFolder(home, job);
      return { folder: relative(home, folder), prefix: `clusters/${basename(folder)}/` };
    }
    // A restored database may give an id again.
    return { folder: relative(home, folderOf(home, job)), prefix: `jobs/${job.id}-${job.createdAt.toString(36)}/` };
  }

  const markerOf = ({ prefix }: JobFolder): string => join(unsent, prefix.split('/')[1] ?? '');

  function noteUnsent(one: JobFolder): void {
    const marker = markerOf(one);
    if (existsSync(marker)) return;
    makeFolder(unsent);
    writeAtomically(marker, JSON.stringify(one));
  }

  const send = (one: JobFolder): Promise<void> => copyOf(one).send(markerOf(one));

  async function receive(job: SharedJob): Promise<void> {
    const one = folderIn(job);
    const state = refreshed.get(one.prefix) ?? { at: 0, under: null };
    const finishedAt = 'uid' in job ? job.endedAt : (job.finish?.at ?? null);
    const isUpToDate = finishedAt !== null && state.at - finishedAt > longFinished;
    const age = Math.abs(now() - state.at);
    // The server that writes the logs of a job has them. It reads them once, after it took over.
    const isOwn = state.at > 0 && Math.abs(now() - (written.get(one.prefix) ?? 0)) < ownFor;
    if (isUpToDate || (state.under === null && (isOwn || age < refreshInterval))) return;
    refreshed.set(one.prefix, state);
    const begin = async (): Promise<void> => {
      try {
        await copyOf(one).receive(finishedAt !== null);
        state.at = now();
      } finally {
        state.under = null;
        if (finishedAt !== null && now() - finishedAt > longFinished) copies.delete(one.prefix);
      }
    };
    state.under ??= begin();
    const underway = state.under;
    underway.catch(() => undefined);
    await withTimeout(refreshTimeout, underway, () => {
      throw new StoreError('busy', `${bucket.address} does not answer within ${refreshTimeout / second} s.`);
    });
  }

  return {
    /** To call after each write to a file of the job. */
    noteWrite(job: SharedJob): void {
      const one = folderIn(job);
      written.set(one.prefix, now());
      noteUnsent(one);
    },

    /** Resolves once everything that was written before is in the bucket. Throws StoreError; it is then sent later. */
    send: (job: Job) => send(folderIn(job)),

    /** Adds what other servers have stored. Without files here, throws StoreError if the bucket cannot be read. */
    async refresh(job: SharedJob): Promise<void> {
      try {
        await receive(job);
      } catch (error) {
        if (!existsSync(join(home, folderIn(job).folder, 'uid' in job ? '' : 'logs'))) throw error;
      }
    },

    /** Sends what waits, also from an earlier process. Returns why something still waits, or null. Never rejects. */
    async sendWaiting(): Promise<string | null> {
      const problems = await mapConcurrent(waitingIn(unsent), maxConcurrent, (one) =>
        send(one).then(() => null, messageOf),
      );
      return problems.find((one) => one !== null) ?? null;
    },

    /** The number of jobs whose files wait to be sent. */
    waiting: () => waitingIn(unsent).length,

    async has(job: Job): Promise<boolean> {
      for await (const _ of bucket.list(folderIn(job).prefix)) return true;
      return false;
    },

    /** To call before `noteWrite` if the files of a copy of the working directory were replaced. */
    replaceWorkdir: (job: Job, copy: number) => copyOf(folderIn(job)).replace(`workdir/${copy}/`),

    async remove(job: SharedJob): Promise<void> {
      const one = folderIn(job);
      await copyOf(one).remove();
      for (const marker of [markerOf(one), sendingOf(markerOf(one))]) rmSync(marker, { force: true });
      copies.delete(one.prefix);
      refreshed.delete(one.prefix);
      written.delete(one.prefix);
    },
  };
}

/** A job of the store, or one of a cluster, of whose files the archive has the logs. */
type SharedJob = Job | ClusterJob;

/** The files of a job: their folder below the home, and the prefix of their names in the bucket. */
interface JobFolder {
  readonly folder: string;
  readonly prefix: string;
}

const sendingOf = (marker: string): string => `${marker}.sending`;

function waitingIn(unsent: string): readonly JobFolder[] {
  let names: readonly string[];
  try {
    names = readdirSync(unsent).filter((name) => !name.startsWith('.'));
  } catch {
    return [];
  }
  const found = names.flatMap((name) => {
    try {
      return [JSON.parse(readRegularFile(join(unsent, name)).toString('utf8')) as JobFolder];
    } catch {
      // Sent meanwhile.
      return [];
    }
  });
  return [...new Map(found.map((one) => [one.prefix, one])).values()];
}

interface Chunk extends Pick<BucketObject, 'name' | 'size' | 'generation'> {
  readonly offset: number;
}

/** The files of one job that are in the bucket: their chunks in order, from the first byte on and without a gap. */
type Chains = ReadonlyMap<string, readonly Chunk[]>;

const endOf = (chunk: Chunk | undefined): number => (chunk === undefined ? 0 : chunk.offset + chunk.size);

function namesIn(bucket: Bucket, prefix: string): Promise<readonly string[]> {
  return Array.fromAsync(bucket.list(prefix), ({ name }) => name);
}

async function readChains(bucket: Bucket, prefix: string): Promise<Chains> {
  const chains = new Map<string, Chunk[]>();
  for await (const { name, size, generation } of bucket.list(prefix)) {
    const [, file = '', digits] = /^(.+)\/(\d{15})$/.exec(name.slice(prefix.length)) ?? [];
    const chain = chains.get(file) ?? [];
    if (!isShared(file) || Number(digits) !== endOf(chain.at(-1))) continue;
    chain.push({ name, size, generation, offset: Number(digits) });
    chains.set(file, chain);
  }
  return chains;
}

type Copy = ReturnType<typeof createCopy>;

function createCopy(bucket: Bucket, folder: string, prefix: string) {
  const sent = openSentFile(join(folder, '.sent.json'), bucket.address);
  /** The last chunk of each file, as this process knows it; undefined before the first list. */
  let ends: Map<string, Chunk> | undefined;
  const inTurn = createLimiter(1);

  async function list(): Promise<Chains> {
    const chains = await readChains(bucket, prefix);
    ends = new Map([...chains].flatMap(([file, chain]) => chain.slice(-1).map((end) => [file, end] as const)));
    return chains;
  }

  /**
   * Adds the bytes of the bucket to the file. Its own bytes that are not sent yet come after them. Without a chain, those
   * of a new list.
   */
  async function receiveFile(path: string, given?: readonly Chunk[]): Promise<void> {
    let chain = given ?? (await list()).get(path) ?? [];
    // Another server replaces the last chunk while this one reads it.
    for (let conflicts = 0; !(await receiveChain(path, chain)); conflicts += 1) {
      if (conflicts === maxConflicts)
        throw new StoreError('busy', `Other servers write ${prefix}${path} all the time.`);
      chain = (await list()).get(path) ?? [];
    }
  }

  /** False if a chunk was replaced or removed meanwhile. */
  async function receiveChain(path: string, chain: readonly Chunk[]): Promise<boolean> {
    const file = join(folder, path);
    const end = endOf(chain.at(-1));
    for (;;) {
      const known = isOutput(path) ? sizeOf(file) : sent.of(path);
      const chunk = chain.find((one) => endOf(one) > known);
      if (chunk === undefined) break;
      const begin = known - chunk.offset;
      const bytes = await bucket.read(chunk, begin, Math.min(chunk.size - begin, maxChunk));
      if (bytes === null) return false;
      // From here on no other write of this process comes between.
      const own = isOutput(path) ? Buffer.alloc(0) : readBytes(file, known, sizeOf(file) - known);
      const common = commonLines(own, bytes);
      if (common < bytes.length) writeFileAt(file, Buffer.concat([bytes, own.subarray(common)]), known);
      sent.set(path, known + bytes.length);
    }
    if (isOutput(path)) sent.set(path, Math.max(sent.of(path), end));
    return true;
  }

  async function sendFile(path: string): Promise<void> {
    const file = join(folder, path);
    for (let conflicts = 0; ;) {
      const size = sizeOf(file);
      const end = ends?.get(path);
      // Bytes that were sent and are not in the bucket were removed there.
      if (size <= Math.max(sent.of(path), isOutput(path) ? endOf(end) : 0)) return;
      if (endOf(end) > sent.of(path) && !isOutput(path)) {
        await receiveFile(path);
        continue;
      }
      const replaced = end !== undefined && end.size < fullChunk ? end : undefined;
      const offset = replaced?.offset ?? endOf(end);
      const bytes = readBytes(file, offset, Math.min(size - offset, maxChunk));
      const name = `${prefix}${path}/${String(offset).padStart(15, '0')}`;
      const written = await bucket.write(name, bytes, replaced?.generation ?? null);
      if (written !== null) {
        ends?.set(path, { ...written, offset });
        sent.set(path, offset + bytes.length);
        continue;
      }
      conflicts += 1;
      if (conflicts > maxConflicts) throw new StoreError('busy', `Other servers write ${name} all the time.`);
      await receiveFile(path);
    }
  }

  return {
    /** The marker has another name meanwhile, so that a write sets it again. After a failure it stays. */
    send: (marker: string) =>
      inTurn(async () => {
        if (existsSync(marker)) renameSync(marker, sendingOf(marker));
        try {
          if (ends === undefined) await list();
          for (const path of sharedFiles(folder)) await sendFile(path);
          rmSync(sendingOf(marker), { force: true });
        } catch (error) {
          ends = undefined;
          throw error;
        } finally {
          sent.save();
        }
      }),

    receive: (isFinished: boolean) =>
      inTurn(async () => {
        const chains = await list();
        try {
          for (const [path, chain] of chains) await receiveFile(path, chain);
          // Another server has removed the files of the job.
          if (isFinished && chains.size === 0)
            for (const path of sharedFiles(folder))
              if (sizeOf(join(folder, path)) <= sent.of(path)) rmSync(join(folder, path), { force: true });
        } finally {
          sent.save();
        }
      }),

    remove: () =>
      inTurn(async () => {
        await mapConcurrent(await namesIn(bucket, prefix), maxConcurrent, (name) => bucket.remove(name));
      }),

    /** The files below that folder are other ones now. */
    replace: (below: string) =>
      inTurn(async () => {
        for (const name of await namesIn(bucket, prefix + below)) await bucket.remove(name);
        for (const path of sharedFiles(folder)) if (path.startsWith(below)) sent.set(path, 0);
        ends = undefined;
      }),
  };
}

/** The length of the lines with which both begin: those that this server has sent before it was killed. */
function commonLines(own: Buffer, bytes: Buffer): number {
  const most = Math.min(own.length, bytes.length);
  let common = 0;
  while (common < most && own[common] === bytes[common]) common += 1;
  return common === most ? common : own.subarray(0, common).lastIndexOf('\n') + 1;
}

/** A worker's output has the same bytes at the same offset for every server. Other files get lines of several servers. */
const isOutput = (path: string): boolean => /^logs\/attempt_\d+\/(?:command|metrics)_worker_[^/]+\.log$/.test(path);

/** The names come from a bucket, so no other path is accepted. */
const isShared = (path: string): boolean =>
  /^(?:logs\/(?:attempt_\d+\/)?[^/]+|workdir\/\d+\/(?:about\.json|changes\.diff)|[^/_]+_[^/_]+\.log)$/.test(path) &&
  !/(?:^|\/)\.\.?(?:\/|$)/.test(path);

function sharedFiles(folder: string): readonly string[] {
  return ['', 'logs', 'workdir'].flatMap((top) => {
    try {
      const entries = readdirSync(join(folder, top), { recursive: top !== '', withFileTypes: true });
      return entries
        .filter((entry) => entry.isFile())
        .map(({ parentPath, name }) => relative(folder, join(parentPath, name)))
        .filter(isShared)
        .toSorted();
    } catch {
      return [];
    }
  });
}

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}

function readBytes(path: string, from: number, length: number): Buffer {
  if (length <= 0) return Buffer.alloc(0);
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.allocUnsafe(length);
    return bytes.subarray(0, readSync(file, bytes, 0, length, from));
  } finally {
    closeSync(file);
  }
}

/** The number of bytes of each file that are in the bucket. Numbers that a kill has lost follow from a comparison with the bucket. */
function openSentFile(path: string, address: string) {
  let sizes: Record<string, number> | undefined;
  let isChanged = false;
  const load = (): Record<string, number> => {
    try {
      const saved = JSON.parse(readRegularFile(path).toString('utf8')) as { address: string; sizes: typeof sizes };
      // Another bucket has nothing yet.
      return saved.address === address ? { ...saved.sizes } : {};
    } catch {
      return {};
    }
  };
  return {
    of: (file: string): number => (sizes ??= load())[file] ?? 0,
    set(file: string, size: number): void {
      sizes ??= load();
      isChanged ||= sizes[file] !== size;
      sizes[file] = size;
    },
    save(): void {
      if (!isChanged || !existsSync(dirname(path))) return;
      writeAtomically(path, JSON.stringify({ address, sizes }));
      isChanged = false;
    },
  };
}

// ------------------------------------------------------------------------------------------ the ports

/** Writes as `files`, and sends what was written. */
export function shareLogFiles(files: LogFiles, logs: BucketLogs): LogFiles {
  const noted = <A extends readonly unknown[]>(write: (job: Job, ...rest: A) => Promise<void>) => {
    return async (job: Job, ...rest: A): Promise<void> => {
      try {
        await write(job, ...rest);
      } finally {
        logs.noteWrite(job);
      }
    };
  };
  return {
    ...files,
    async length(job, output) {
      // Without the bucket the worker sends again what is not here: its output has the same bytes.
      await logs.refresh(job).catch(() => undefined);
      return files.length(job, output);
    },
    append: noted(files.append.bind(files)),
    recordArrivals: noted(files.recordArrivals.bind(files)),
    appendStepLog: noted(files.appendStepLog.bind(files)),
    note: noted(files.note.bind(files)),
    store: (job) => logs.send(job),
  };
}

/** Changes folders as `folders`, and what the bucket has of them. */
export function shareJobFolders(folders: JobFolders, logs: BucketLogs): JobFolders {
  return {
    ...folders,
    async draft(owner, files) {
      const draft = await folders.draft(owner, files);
      return {
        ...draft,
        async moveTo(job) {
          await draft.moveTo(job);
          logs.noteWrite(job);
        },
      };
    },
    async describeWorkdir(job, copy, description) {
      await folders.describeWorkdir(job, copy, description);
      await logs.replaceWorkdir(job, copy);
      logs.noteWrite(job);
    },
    has: async (job) => (await folders.has(job)) || logs.has(job),
    async remove(job, options) {
      const wasShared = await logs.has(job);
      // First, because files here show that the command can be repeated.
      await logs.remove(job);
      return (await folders.remove(job, options)) || wasShared;
    },
  };
}

/** Reads and removes files as `files`, and what the bucket has of them. */
export function shareArchivedLogs(files: ArchivedLogs, logs: BucketLogs): ArchivedLogs {
  return {
    ...files,
    async list(archived) {
      await logs.refresh(archived.job);
      return files.list(archived);
    },
    async remove(archived) {
      await logs.remove(archived.job);
      await files.remove(archived);
    },
  };
}

/** Continues a copy of the archive that another server has begun, and sends what is added. */
export async function openSharedCopy(
  job: ClusterJob,
  open: () => ArchivedLogWriter,
  logs: BucketLogs,
): Promise<ArchivedLogWriter> {
  // Without the bucket the log is copied from its beginning.
  await logs.refresh(job).catch(() => undefined);
  const writer = open();
  return {
    ...writer,
    append(lines) {
      writer.append(lines);
      logs.noteWrite(job);
    },
  };
}
