// Blobs: contents in a folder of this machine, each in a file that its digest names.

import { execFile } from 'node:child_process';
import { constants, existsSync, statSync, utimesSync } from 'node:fs';
import { open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { mapConcurrent } from '../app/concurrency.ts';
import { BlobError, isFileMissing, usageError } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import type { Blob, Blobs } from '../app/ports.ts';
import { digestOf, isDigest, type Digest } from '../catalogue/digest.ts';
import { hour, type Instant } from '../core/model/time.ts';
import { fileModeIn, makeFolder } from './files.ts';

const maxConcurrent = 16;
/** Files that are looked up in a row: some ten milliseconds. */
const maxInARow = 1000;

/** The time of use is not written again within this time, which is much shorter than the one for which `has` keeps a blob. */
const minUseAge = hour;

export function createBlobs(home: string): Blobs {
  const top = join(home, 'blobs');
  /** Throws BlobError for another text, which could be the path of another file. */
  const pathOf = (digest: Digest): string => {
    if (!isDigest(digest)) throw new BlobError(`${JSON.stringify(digest)} is no digest`);
    const name = digest.slice('sha256:'.length);
    return join(top, name.slice(0, 2), name);
  };

  function isStored(digest: Digest, size: number | undefined): boolean {
    if (!isDigest(digest)) return false;
    const path = pathOf(digest);
    const stats = statSync(path, { throwIfNoEntry: false });
    // A damaged one of another size is uploaded again. The same size is found by its next reader.
    if (size !== undefined && stats?.size !== size) return false;
    return stats?.isFile() === true && (Date.now() - stats.mtimeMs < minUseAge || setUsedNow(path));
  }

  return {
    async put(blobs) {
      requireDigests(blobs);
      const byDigest = new Map(blobs.map(({ digest, content }) => [digest, content]));
      const drafts: { readonly draft: string; readonly path: string }[] = [];
      try {
        for (const digest of byDigest.keys()) makeFolder(dirname(pathOf(digest)));
        const mode = fileModeIn(top);
        await mapConcurrent([...byDigest], maxConcurrent, async ([digest, content]) => {
          const draft = join(top, `new-${crypto.randomUUID()}`);
          drafts.push({ draft, path: pathOf(digest) });
          await writeDraft(draft, content, mode);
        });
        // Before the names: after a power failure a file with the name of a digest has its content.
        await writeThrough(
          top,
          drafts.map(({ draft }) => draft),
        );
        for (const { draft, path } of drafts) await rename(draft, path);
      } catch (error) {
        await Promise.all(drafts.map(({ draft }) => rm(draft, { force: true }).catch(() => undefined)));
        throw fileError(top, error);
      }
    },

    async has(digests, sizes) {
      const stored: Digest[] = [];
      for (const [at, digest] of digests.entries()) {
        // Other requests of a server are answered in between.
        if (at % maxInARow === maxInARow - 1) await turn();
        if (isStored(digest, sizes?.[at])) stored.push(digest);
      }
      return stored;
    },

    async collect(unusedSince, needed) {
      if (!existsSync(top)) return [];
      const unused: { readonly digest: Digest; readonly path: string }[] = [];
      for await (const { name, path, usedAt } of filesIn(top)) {
        if (usedAt >= unusedSince) continue;
        if (/^[0-9a-f]{64}$/.test(name)) unused.push({ digest: `sha256:${name}`, path });
        else await rm(path, { force: true });
      }
      const stillNeeded = unused.length === 0 ? new Set<Digest>() : await needed();
      const removed: Digest[] = [];
      for (const { digest, path } of unused) {
        // A needed blob is looked up again after another such time.
        if (stillNeeded.has(digest)) setUsedNow(path);
        else if (await removeUnlessUsed(path, unusedSince)) removed.push(digest);
      }
      return removed;
    },

    async read(digest) {
      const path = pathOf(digest);
      const content = await readIfRegular(path).catch((error: unknown) => {
        throw isFileMissing(error)
          ? new BlobError(`${digest} is missing: there is no file ${path}`)
          : fileError(path, error);
      });
      if (content !== undefined && digestOf(content) === digest) return content;
      // Out of the way of the next upload of this content.
      await rename(path, `${path}.damaged`).catch(() => undefined);
      throw new BlobError(`${digest} is damaged: ${path} had other bytes (now ${basename(path)}.damaged)`);
    },
  };
}

/** Throws JobmanError (2) if a content has another digest. */
export function requireDigests(blobs: readonly Blob[]): void {
  const wrong = blobs.find(({ digest, content }) => digestOf(content) !== digest);
  if (wrong !== undefined)
    throw usageError(`The content that was sent as ${wrong.digest} has another digest. Nothing was stored.`);
}

/** Undefined for a FIFO or a device. Never waits for a writer. */
async function readIfRegular(path: string): Promise<Buffer | undefined> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    return (await file.stat()).isFile() ? await file.readFile() : undefined;
  } finally {
    await file.close();
  }
}

/** The files in the folder with their times of use. A file that vanishes meanwhile is left out. */
async function* filesIn(top: string): AsyncIterable<{ readonly name: string; readonly path: string; usedAt: Instant }> {
  for (const entry of await readdir(top, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const stats = entry.isFile() ? await stat(path).catch(() => undefined) : undefined;
    if (stats !== undefined) yield { name: entry.name, path, usedAt: stats.mtimeMs };
  }
}

/** A client may find the blob and set its time of use until the file has another name. */
async function removeUnlessUsed(path: string, since: Instant): Promise<boolean> {
  const removing = `${path}.removing`;
  await rename(path, removing);
  if ((await stat(removing)).mtimeMs >= since) {
    await rename(removing, path);
    return false;
  }
  await rm(removing);
  return true;
}

/** False without the right to, or if the blob was just removed: it is uploaded again, as a file of this user. */
function setUsedNow(path: string): boolean {
  try {
    utimesSync(path, new Date(), new Date());
    return true;
  } catch {
    return false;
  }
}

async function writeDraft(path: string, content: Uint8Array, mode: number): Promise<void> {
  const file = await open(path, 'wx', mode);
  try {
    await file.writeFile(content);
  } finally {
    await file.close();
  }
}

/** One call for the whole file system is much faster than one for each of many files. */
async function writeThrough(folder: string, paths: readonly string[]): Promise<void> {
  if (paths.length > maxConcurrent) {
    const isDone = await promisify(execFile)('sync', ['-f', folder]).then(
      () => true,
      () => false,
    );
    if (isDone) return;
  }
  await mapConcurrent(paths, maxConcurrent, async (path) => {
    const file = await open(path, 'r');
    try {
      await file.sync();
    } finally {
      await file.close();
    }
  });
}
