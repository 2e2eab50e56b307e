// Uploads: the statements about who has sent which blobs. The bytes are files, or objects of a bucket.

import type { Upload } from '../app/ports.ts';
import type { Digest } from '../catalogue/digest.ts';
import type { Instant } from '../core/model/time.ts';
import type { UserName } from '../core/model/user.ts';
import { isOneOf, sql, type Database } from './sql.ts';

/** Of one statement. */
const batch = 1000;

export function addUploads(db: Database, owner: UserName, uploads: readonly Upload[], at: Instant): Promise<void> {
  return db.runAll(
    uploads.map(
      ({ digest, size }) => sql`
        insert into blob_upload (owner, digest, size, sent_at) values (${owner}, ${digest}, ${size}, ${at})
        on conflict (owner, digest) do update set sent_at = excluded.sent_at`,
    ),
  );
}

/** Those of the digests that the user has sent. */
export async function readUploads(
  db: Database,
  owner: UserName,
  digests: readonly Digest[],
): Promise<ReadonlySet<Digest>> {
  const found = new Set<Digest>();
  for (const part of inBatches(digests)) {
    const { rows } = await sql<{ digest: Digest }>`
      select digest from blob_upload where owner = ${owner} and ${isOneOf(sql`digest`, part)}`.execute(db);
    for (const { digest } of rows) found.add(digest);
  }
  return found;
}

/** The bytes of all stored blobs that the user has sent. */
export async function readUploadedBytes(db: Database, owner: UserName): Promise<number> {
  const { rows } = await sql<{ bytes: number }>`
    select cast(coalesce(sum(size), 0) as bigint) as bytes from blob_upload where owner = ${owner}`.execute(db);
  return rows[0]?.bytes ?? 0;
}

/** Of all users. A blob that one of them has sent since then is stored again. */
export function removeUploads(db: Database, digests: readonly Digest[], since: Instant): Promise<void> {
  return db.runAll(
    inBatches(digests).map(
      (part) => sql`delete from blob_upload where ${isOneOf(sql`digest`, part)} and sent_at < ${since}`,
    ),
  );
}

function inBatches(digests: readonly Digest[]): readonly (readonly Digest[])[] {
  return Array.from({ length: Math.ceil(digests.length / batch) }, (_, at) =>
    digests.slice(at * batch, (at + 1) * batch),
  );
}
