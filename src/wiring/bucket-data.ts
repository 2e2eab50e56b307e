// Bucket data: a bucket as the setting `server.data`, with the login and the address of Cloud Storage in the settings.

import type { Blobs, Bucket } from '../app/ports.ts';
import { createGoogleApiClient } from '../backends/tpu/api.ts';
import { createCredentials } from '../backends/tpu/credentials.ts';
import { minute, second, type Duration, type Instant } from '../core/model/time.ts';
import { createBucketBlobs } from '../files/bucket-blobs.ts';
import { createBucketLogs, type BucketLogs } from '../files/bucket-logs.ts';
import { createBucket } from '../google/bucket.ts';
import type { DataParts } from './data.ts';
import { createGoogleLogin, serviceEndpoint } from './google-api.ts';

export { openSharedCopy, shareArchivedLogs, shareJobFolders, shareLogFiles } from '../files/bucket-logs.ts';

export interface BucketData {
  readonly bucket: Bucket;
  readonly blobs: Blobs;
  readonly logs: BucketLogs;
}

const endpointAge: Duration = 2 * second;

export function openBucketData(
  { io, home, settings }: DataParts,
  address: { readonly bucket: string; readonly prefix: string },
): BucketData {
  const now = () => io.now();
  // With the project of the TPU emulator, the address of the emulator.
  let found: { readonly at: Instant; readonly url: Promise<string> } | undefined;
  // Finding the emulator takes a request, and a working directory has thousands of files.
  const endpoint = (): Promise<string> => {
    if (found === undefined || Math.abs(now() - found.at) > endpointAge)
      found = { at: now(), url: serviceEndpoint({ home, settings }, 'storage', settings.tpu.project ?? '') };
    return found.url;
  };
  const credentials = createCredentials({ endpoint, login: createGoogleLogin({ io, settings, now }) });
  const bucket = createBucket(createGoogleApiClient({ endpoint, env: io.env, credentials, timeout: minute }), address);
  return { bucket, blobs: createBucketBlobs(bucket, now), logs: createBucketLogs({ home, bucket, now }) };
}
