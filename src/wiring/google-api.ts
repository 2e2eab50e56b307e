// Google API: the server and the login for the TPUs and the buckets of each project, built from settings.

import { existsSync } from 'node:fs';
import { bucketsWithin } from '../app/buckets.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { BucketPort } from '../app/ports.ts';
import type { Io, Services } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import { createCaller, createTpuApi, lookAtBucket, type Credentials, type TpuApi } from '../backends/tpu/api.ts';
import { createCredentials, createLogin } from '../backends/tpu/credentials.ts';
import type { Instant } from '../core/time.ts';
import { isLoopback } from '../http/client.ts';
import { runProcess } from '../remote/process.ts';
import { ensureEmulator, findEmulator, isServedByBuiltIn, startedText, type Endpoint } from './emulator-service.ts';

const tpuServer = 'https://tpu.googleapis.com';

export interface TpuApis {
  /** The API that serves a project. The built-in cloud is started for a question, as after a reboot. */
  readonly apiFor: (project: string) => TpuApi;
  /** The same without starting anything. */
  readonly runningApiFor: (project: string) => TpuApi;
  /** Whether the built-in cloud serves that project. */
  readonly usesBuiltIn: (project: string) => boolean;
}

/** Asks nobody yet. All projects share one login. */
export function createTpuApis(parts: {
  readonly io: Io;
  readonly home: string;
  readonly settings: Settings;
  readonly now: () => Instant;
  /** Is told when a question had the built-in cloud started. */
  readonly began?: (endpoint: Endpoint) => void;
}): TpuApis {
  const { io, home, settings, now, began } = parts;
  const login = createGoogleLogin({ io, settings, now });

  const usesBuiltIn = (project: string) => isServedByBuiltIn(settings, project);

  async function startedBuiltIn(): Promise<string> {
    // A controller notices late that its home was removed; a cloud that it started meanwhile would make the home again.
    if (!existsSync(home)) throw new Error(`${home} was removed`);
    const { started, endpoint } = await ensureEmulator(io, home);
    if (started) began?.(endpoint);
    return endpoint.url;
  }

  function apiOver(endpoint: () => Promise<string>): TpuApi {
    return createTpuApi(createCaller({ endpoint, env: io.env, credentials: createCredentials({ endpoint, login }) }));
  }

  const server = apiOver(async () => settings.tpu.endpoint ?? tpuServer);
  const builtIn = apiOver(startedBuiltIn);
  const builtInIfRunning = apiOver(() => runningEmulator(home));
  return {
    usesBuiltIn,
    apiFor: (project) => (usesBuiltIn(project) ? builtIn : server),
    runningApiFor: (project) => (usesBuiltIn(project) ? builtInIfRunning : server),
  };
}

async function runningEmulator(home: string): Promise<string> {
  const endpoint = await findEmulator(home);
  if (endpoint === undefined) throw new Error('the built-in cloud does not run');
  return endpoint.url;
}

/** See `Services.checkLogin`. */
export async function checkLogin(
  { io, settings }: { readonly io: Io; readonly settings: Settings },
  project: string,
  undone: string,
): Promise<void> {
  if (isServedByBuiltIn(settings, project)) return;
  const login = createGoogleLogin({ io, settings, now: () => io.now() });
  const endpoint = () => Promise.resolve(settings.tpu.endpoint ?? tpuServer);
  try {
    await createCredentials({ endpoint, login }).headers();
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    throw new JobmanError(`${undone}: ${error.message}`, exitCode.unreachable, [
      ...error.lines,
      'With --no-check the job is created now, and waits until there is a login.',
    ]);
  }
}

/** The login of this process at Google; fetches nothing yet. */
function createGoogleLogin(parts: {
  readonly io: Pick<Io, 'env'>;
  readonly settings: Settings;
  readonly now: () => Instant;
}): Credentials {
  const { io, settings, now } = parts;
  return createLogin({ run, now, tokenCommand: settings.tpu.tokenCommand });

  async function run(argv: readonly string[]): Promise<{ readonly ok: boolean; readonly output: string }> {
    const result = await runProcess({ argv, env: io.env, timeoutMs: 20_000, outputMost: 64_000 });
    const text = Buffer.from(result.exitCode === 0 ? result.stdout : result.stderr).toString('utf8');
    return { ok: result.exitCode === 0, output: result.error ?? text };
  }
}

const storageServer = 'https://storage.googleapis.com';

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
  // A server on this machine that replaces the cloud has its own buckets, if any.
  const isOnThisMachine = isBuiltIn || (named !== null && isLoopback(named));

  // First, because an answer is waited for only briefly.
  if (isBuiltIn && coming !== undefined) {
    const { started, endpoint: begun } = await ensureEmulator(io, home, coming.spec);
    if (started) coming.say(startedText(begun));
  }

  async function endpoint(): Promise<string> {
    if (isBuiltIn) return runningEmulator(home);
    return isOnThisMachine && named !== null ? named : storageServer;
  }

  const login = createGoogleLogin({ io, settings: inForce, now: () => io.now() });
  const credentials = createCredentials({ endpoint, login });
  const caller = createCaller({ endpoint, credentials, env: io.env, within: bucketsWithin });
  return { look: (bucket) => lookAtBucket(caller, bucket, isOnThisMachine) };
}
