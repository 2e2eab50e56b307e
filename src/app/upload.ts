// Upload: stores the contents that a new job names by digest, before the job is created.

import { digestOf } from '../catalogue/digest.ts';
import type { Client } from './client.ts';
import type { Blob } from './ports.ts';

/** Sends only those that are not stored. */
export async function upload(
  client: Pick<Client, 'putBlobs' | 'hasBlobs'>,
  contents: readonly Uint8Array[],
): Promise<void> {
  const blobs: readonly Blob[] = contents.map((content) => ({ digest: digestOf(content), content }));
  if (blobs.length === 0) return;
  const stored = new Set(await client.hasBlobs(blobs.map(({ digest }) => digest)));
  const missing = blobs.filter(({ digest }) => !stored.has(digest));
  if (missing.length > 0) await client.putBlobs(missing);
}
