// Google API: the server and the login for the TPUs and the buckets of each project, built from settings.

import { existsSync } from 'node:fs';
import { bucketCheckTimeout } from '../app/buckets.ts';
import type { GoogleApi } from '../app/google.ts';
import type { BucketPort } from '../app/ports.ts';
import type { Io } from '../app/services.ts';
import type { Settings } from '../app/settings.ts';
import {
  createGoogleApiClient,
  createTpuApi,
  observeBucket,
  type Credentials,
  type TpuApi,
} from '../backends/tpu/api.ts';
import { createCredentials, createLogin } from '../backends/tpu/credentials.ts';
import { omitUndefined } from '../core/model/omit-undefined.ts';
import type { Duration, Instant } from '../core/model/time.ts';
import { isLoopback } from '../http/client.ts';
import { runProcess } from '../remote/process.ts';
import { ensureEmulator, findEmulator, isServedByEmulator, type EmulatorEndpoint } from './emulator-service.ts';

const tpuServer = 'https://tpu.googleapis.com';

export interface TpuApis {
  /** Starts the TPU emulator if it is needed, as after a reboot. */
  readonly apiFor: (project: string) => TpuApi;
  /** Starts nothing. */
  readonly runningApiFor: (project: string) => TpuApi;
  readonly usesEmulator: (project: string) => boolean;
}

/** Sends no request yet. All projects share one login. */
export function createTpuApis(parts: {
  readonly io: Io;
  readonly home: string;
  readonly settings: Settings;
  readonly now: () => Instant;
  readonly onEmulatorStarted?: (endpoint: EmulatorEndpoint) => void;
  /** Of each request. */
  readonly timeout?: Duration;
}): TpuApis {
  const { io, home, settings, now, onEmulatorStarted, timeout } = parts;
  const login = createGoogleLogin({ io, settings, now });

  const usesEmulator = (project: string) => isServedByEmulator(settings, project);

  async function startedEmulatorUrl(): Promise<string> {
    // A controller notices late that its home was removed; a new emulator would create the home again.
    if (!existsSync(home)) throw new Error(`${home} was removed`);
    const { started, endpoint } = await ensureEmulator(io, home);
    if (started) onEmulatorStarted?.(endpoint);
    return endpoint.url;
  }

  function apiOver(endpoint: () => Promise<string>): TpuApi {
    const credentials = createCredentials({ endpoint, login });
    return createTpuApi(createGoogleApiClient({ endpoint, env: io.env, credentials, ...omitUndefined({ timeout }) }));
  }

  const server = apiOver(async () => serverOf(settings, 'tpu'));
  const emulatorApi = apiOver(startedEmulatorUrl);
  const runningEmulatorApi = apiOver(() => runningEmulatorUrl(home));
  return {
    usesEmulator,
    apiFor: (project) => (usesEmulator(project) ? emulatorApi : server),
    runningApiFor: (project) => (usesEmulator(project) ? runningEmulatorApi : server),
  };
}

async function runningEmulatorUrl(home: string): Promise<string> {
  const endpoint = await findEmulator(home);
  if (endpoint === undefined) throw new Error('the TPU emulator is not running');
  return endpoint.url;
}

/** See `Client.checkLogin`. */
export async function checkLogin(
  { io, settings }: { readonly io: Io; readonly settings: Settings },
  project: string,
): Promise<void> {
  if (isServedByEmulator(settings, project)) return;
  const login = createGoogleLogin({ io, settings, now: () => io.now() });
  const endpoint = () => Promise.resolve(serverOf(settings, 'tpu'));
  await createCredentials({ endpoint, login }).headers();
}

/** By process and token command: each login starts programs, and several parts of a command need one. */
const logins = new WeakMap<Pick<Io, 'env'>, Map<string | null, Credentials>>();

/** The login of this process; all parts with the same `io` share it. */
export function createGoogleLogin(parts: {
  readonly io: Pick<Io, 'env'>;
  readonly settings: Settings;
  readonly now: () => Instant;
}): Credentials {
  const { io, settings, now } = parts;
  const { tokenCommand } = settings.tpu;
  const known = logins.get(io) ?? new Map<string | null, Credentials>();
  logins.set(io, known);
  const login = known.get(tokenCommand) ?? createLogin({ run, now, tokenCommand });
  known.set(tokenCommand, login);
  return login;

  async function run(argv: readonly string[]): Promise<{ readonly ok: boolean; readonly output: string }> {
    const result = await runProcess({ argv, env: io.env, timeoutMs: 20_000, maxOutputBytes: 64_000 });
    const text = Buffer.from(result.exitCode === 0 ? result.stdout : result.stderr).toString('utf8');
    return { ok: result.exitCode === 0, output: result.error ?? text };
  }
}

export const serviceServers = {
  monitoring: 'https://monitoring.googleapis.com',
  quota: 'https://cloudquotas.googleapis.com',
  resourceManager: 'https://cloudresourcemanager.googleapis.com',
  storage: 'https://storage.googleapis.com',
} as const;

/** The server on this machine that replaces Google's cloud, with its own buckets, if any. Null without one. */
export function localCloud({ tpu: { endpoint } }: Settings): string | null {
  return endpoint !== null && isLoopback(endpoint) ? endpoint : null;
}

/**
 * The running TPU emulator for the emulator's project, else the setting `google.endpoints`, else a local server in
 * `tpu.endpoint`, else Google. Rejects while the emulator does not run.
 */
export async function serviceEndpoint(
  { home, settings }: { readonly home: string; readonly settings: Settings },
  name: keyof typeof serviceServers,
  project: string,
): Promise<string> {
  return isServedByEmulator(settings, project) ? runningEmulatorUrl(home) : serverOf(settings, name);
}

/** The address for projects that the TPU emulator does not serve. */
export function serverOf(settings: Settings, name: keyof typeof serviceServers | 'tpu'): string {
  if (name === 'tpu') return settings.tpu.endpoint ?? tpuServer;
  return settings.google.endpoints[name] ?? localCloud(settings) ?? serviceServers[name];
}

/** An API that Google accounts to the project itself, at its `serviceEndpoint`. Sends no request yet. */
export function createGoogleService(parts: {
  readonly io: Io;
  readonly home: string;
  readonly settings: Settings;
  readonly now: () => Instant;
  readonly name: keyof typeof serviceServers;
  /** Of each request. */
  readonly timeout?: Duration;
}): (project: string) => GoogleApi {
  const { io, home, settings, now, name, timeout } = parts;
  const login = createGoogleLogin({ io, settings, now });
  return (project) => {
    const endpoint = () => serviceEndpoint({ home, settings }, name, project);
    const credentials = createCredentials({ endpoint, login });
    // The login of gcloud belongs to a project of Google, in which most APIs are off.
    const accounted: Credentials = {
      ...credentials,
      async headers() {
        const headers = await credentials.headers();
        return headers['authorization'] === undefined ? headers : { 'x-goog-user-project': project, ...headers };
      },
    };
    return createGoogleApiClient({ endpoint, env: io.env, credentials: accounted, ...omitUndefined({ timeout }) });
  };
}

/** Sends no request yet. */
export function createBucketPort(
  { io, home, settings }: { readonly io: Io; readonly home: string; readonly settings: Settings },
  project: string,
): BucketPort {
  const endpoint = () => serviceEndpoint({ home, settings }, 'storage', project);
  const login = createGoogleLogin({ io, settings, now: () => io.now() });
  const credentials = createCredentials({ endpoint, login });
  const caller = createGoogleApiClient({ endpoint, credentials, env: io.env, timeout: bucketCheckTimeout });
  const isLocal = isServedByEmulator(settings, project) || localCloud(settings) !== null;
  return { observe: (bucket) => observeBucket(caller, bucket, isLocal) };
}
