// Upload: stores the contents that a new job names by digest, before the job is created.

import { digestOf, type Digest } from '../catalogue/digest.ts';
import type { Client } from './client.ts';
import type { Blob } from './ports.ts';

/** Sends the blobs that are not stored yet. Returns the digests of all. */
export async function upload(
  client: Pick<Client, 'putBlobs' | 'hasBlobs'>,
  contents: readonly Uint8Array[],
): Promise<readonly Digest[]> {
  const blobs: readonly Blob[] = contents.map((content) => ({ digest: digestOf(content), content }));
  const digests = blobs.map(({ digest }) => digest);
  if (blobs.length === 0) return digests;
  const stored = new Set(
    await client.hasBlobs(
      digests,
      contents.map(({ byteLength }) => byteLength),
    ),
  );
  const missing = blobs.filter(({ digest }) => !stored.has(digest));
  if (missing.length > 0) await client.putBlobs(missing);
  return digests;
}
