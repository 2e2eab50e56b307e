// Own blobs: the blobs that an actor may use. A digest is no secret, so a digest alone must not lead to a content.

import { isDigest } from '../catalogue/digest.ts';
import type { Instant } from '../core/model/time.ts';
import type { Actor, UserName } from '../core/model/user.ts';
import { createLimiter } from './concurrency.ts';
import { exitCode, JobmanError, usageError } from './errors.ts';
import { pluralize } from './format.ts';
import type { AccessStore, Blob, Blobs } from './ports.ts';

/** The methods for a new job. */
export type OwnBlobs = Pick<Blobs, 'put' | 'has' | 'read'>;

interface Parts {
  readonly blobs: () => Promise<Blobs>;
  readonly access: Pick<AccessStore, 'addUploads' | 'uploads' | 'uploadedBytes'>;
  readonly now: () => Instant;
}

const mebibyte = 1024 * 1024;

/** By user, because uploads at the same time would exceed the limit together. */
const turns = new Map<string, ReturnType<typeof createLimiter>>();

function takeTurn<T>(user: string, work: () => Promise<T>): Promise<T> {
  const turn = turns.get(user) ?? createLimiter(1);
  turns.set(user, turn);
  return turn(work);
}

/**
 * `has` throws JobmanError (2) for a text that is no digest. With a token, it knows only the blobs that the user has sent,
 * and `put` throws JobmanError (4) beyond the user's limit.
 * A login of this machine may use all, because it can read the files of the home anyway.
 */
export function ownBlobs(parts: Parts, actor: Actor): OwnBlobs {
  const { blobs, access, now } = parts;
  return {
    read: async (digest) => (await blobs()).read(digest),

    async has(digests, sizes) {
      const wrong = digests.find((digest) => !isDigest(digest));
      if (wrong !== undefined) throw usageError(`${JSON.stringify(wrong)} is not a digest.`);
      const stored = await (await blobs()).has(digests, sizes);
      if (actor.via === 'local' || stored.length === 0) return stored;
      const own = await access.uploads(actor.user, stored);
      return stored.filter((digest) => own.has(digest));
    },

    async put(given) {
      if (actor.via === 'local') return (await blobs()).put(given);
      const { user, filesMib = null } = actor;
      const store = async (): Promise<void> => {
        if (filesMib !== null) await requireRoom(parts, user, filesMib, given);
        await (await blobs()).put(given);
        // Only now, because `put` has checked that the user has sent these contents.
        await access.addUploads(
          user,
          given.map(({ digest, content }) => ({ digest, size: content.byteLength })),
          now(),
        );
      };
      return filesMib === null ? store() : takeTurn(user, store);
    },
  };
}

/** Throws JobmanError (4). Two servers of one database do not wait for each other's uploads. */
async function requireRoom({ access }: Parts, user: UserName, filesMib: number, given: readonly Blob[]): Promise<void> {
  const sizes = new Map(given.map(({ digest, content }) => [digest, content.byteLength]));
  for (const digest of await access.uploads(user, [...sizes.keys()])) sizes.delete(digest);
  const added = sizes.values().reduce((sum, size) => sum + size, 0);
  const bytes = (await access.uploadedBytes(user)) + added;
  if (added === 0 || bytes <= filesMib * mebibyte) return;
  throw new JobmanError(
    `Nothing was stored: ${user} would have ${Math.ceil(bytes / mebibyte)} MiB of uploaded files, and ${pluralize(filesMib, 'MiB is', 'MiB are')} allowed.`,
    exitCode.conflict,
    [
      'The server removes a file one day after the last job that needs it was deleted: jobman delete JOB',
      `An admin changes the limit: jobman user limit ${user} files-mib=N`,
    ],
    { reasons: ['user_limit'] },
  );
}
