/** The TPU emulator in the process of a test, and jobman's client of it. */
import { join } from 'node:path';
import { createGoogleApiClient, createTpuApi, type TpuApi } from '../../src/backends/tpu/api.ts';
import { createCredentials, createLogin } from '../../src/backends/tpu/credentials.ts';
import { runAdminVerb } from '../../src/emulator/admin.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { createSshPool, type SshPool } from '../../src/remote/ssh.ts';
import { openWorld, type Scope, type World } from './world.ts';

type AdminCall = (verb: string, target?: string, options?: Readonly<Record<string, unknown>>) => Promise<unknown>;

export interface InProcessEmulator {
  readonly world: World;
  readonly url: string;
  readonly api: TpuApi;
  readonly pool: SshPool;
  /** The user whose keys the workers accept. */
  readonly login: { readonly home: string; readonly user: string };
  readonly sshFor: () => Promise<{ readonly port: number; readonly usesUserConfig: boolean }>;
  /** Runs an admin verb. */
  readonly admin: AdminCall;
}

/** Starts the emulator at 200 times Google's speed; it ends with its world. */
export async function openInProcessEmulator(scope: Scope, isolation?: 'none'): Promise<InProcessEmulator> {
  const world = openWorld(scope, { patienceMs: 10_000 });
  const stateDir = join(world.folder, 'cloud');
  const isolationOption = isolation === undefined ? {} : { isolation };
  const emulator = await startEmulator({ stateDir, env: world.env, speed: 200, seed: 7, ...isolationOption });
  world.atEnd(() => emulator.close());
  const endpoint = () => Promise.resolve(emulator.url);
  const run = () => Promise.reject(new Error('this machine accepts no logins'));
  const credentials = createCredentials({ endpoint, login: createLogin({ run, now: Date.now }) });
  const login = { home: world.home, user: 'zephyr' };
  const pool = createSshPool({ ...login, userHome: world.folder, agent: null, sshArgs: [] });
  world.atEnd(() => pool.close());
  return {
    world,
    url: emulator.url,
    api: createTpuApi(createGoogleApiClient({ env: {}, endpoint, credentials })),
    pool,
    login,
    sshFor: () => Promise.resolve({ port: emulator.sshPort, usesUserConfig: false }),
    admin: (verb, target, options) => runAdminVerb(emulator.url, verb, target, options),
  };
}
