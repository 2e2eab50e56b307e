// Where the buckets of a project are: which server speaks for Storage there, and who we are to that.

import { bucketsWithin } from '../app/buckets.ts';
import type { BucketPort } from '../app/ports.ts';
import type { Services } from '../app/services.ts';
import { lookAtBucket } from '../backends/tpu/api.ts';
import { createCaller } from '../backends/tpu/call.ts';
import { createCredentials } from '../backends/tpu/credentials.ts';
import { isLoopback } from '../http/proxy.ts';
import { ensureEmulator, findEmulator, isServedByBuiltIn, startedText } from './emulator-service.ts';
import { createGoogleLogin } from './tpu-api.ts';

/** Where Google serves Cloud Storage. */
const google = 'https://storage.googleapis.com';

/** See `Services.buckets`. Asks about no bucket yet. */
export async function createBucketPort(
  services: Services,
  project: string,
  coming?: Parameters<Services['buckets']>[1],
): Promise<BucketPort> {
  const { io, home } = services;
  const inForce = await services.settings();
  const { endpoint: named } = inForce.tpu;
  const isBuiltIn = isServedByBuiltIn(inForce, project);
  // A server on this machine that takes the cloud's place has its own buckets, if any; those of Google are none of its.
  const isOnThisMachine = isBuiltIn || (named !== null && isLoopback(named));

  // Before anything is asked: an answer is waited for only briefly.
  if (isBuiltIn && coming !== undefined) {
    const { started, endpoint: begun } = await ensureEmulator(io, home, coming.spec);
    if (started) coming.say(startedText(begun));
  }

  async function endpoint(): Promise<string> {
    if (!isBuiltIn) return isOnThisMachine && named !== null ? named : google;
    const running = await findEmulator(home);
    if (running === undefined) throw new Error('the built-in cloud does not run');
    return running.url;
  }

  const login = createGoogleLogin({ io, settings: inForce, now: () => io.now() });
  const credentials = createCredentials({ endpoint, login });
  const caller = createCaller({ endpoint, credentials, env: io.env, within: bucketsWithin });
  return { look: (bucket) => lookAtBucket(caller, bucket, isOnThisMachine) };
}
