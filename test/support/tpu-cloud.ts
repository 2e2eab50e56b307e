/** The built-in cloud in the process of a test, and jobman's own way to it. */
import { join } from 'node:path';
import { createCaller, createTpuApi, type TpuApi } from '../../src/backends/tpu/api.ts';
import { createCredentials, createLogin } from '../../src/backends/tpu/credentials.ts';
import { admin } from '../../src/emulator/admin.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { createSshPool, type SshPool } from '../../src/remote/ssh.ts';
import { openWorld, type Scope, type World } from './world.ts';

type Act = (verb: string, target?: string, options?: Readonly<Record<string, unknown>>) => Promise<unknown>;

export interface TpuCloud {
  readonly world: World;
  readonly url: string;
  readonly api: TpuApi;
  readonly pool: SshPool;
  /** Whose keys the workers know. */
  readonly login: { readonly home: string; readonly user: string };
  readonly sshFor: () => Promise<{ readonly port: number; readonly userConfig: boolean }>;
  /** Does something to the cloud. */
  readonly act: Act;
}

/** 200 times as fast as Google's; ended with the world, which is one of its own. */
export async function openTpuCloud(scope: Scope, isolation?: 'none'): Promise<TpuCloud> {
  const world = openWorld(scope, { patienceMs: 10_000 });
  const stateDir = join(world.folder, 'cloud');
  const apart = isolation === undefined ? {} : { isolation };
  const emulator = await startEmulator({ stateDir, env: world.env, speed: 200, seed: 7, ...apart });
  world.atEnd(() => emulator.close());
  const endpoint = () => Promise.resolve(emulator.url);
  const run = () => Promise.reject(new Error('nobody logs in to this machine'));
  const credentials = createCredentials({ endpoint, login: createLogin({ run, now: Date.now }) });
  const login = { home: world.home, user: 'zephyr' };
  const pool = createSshPool({ ...login, userHome: world.folder, agent: null, sshArgs: [] });
  world.atEnd(() => pool.close());
  return {
    world,
    url: emulator.url,
    api: createTpuApi(createCaller({ env: {}, endpoint, credentials })),
    pool,
    login,
    sshFor: () => Promise.resolve({ port: emulator.sshPort, userConfig: false }),
    act: (verb, target, options) => admin(emulator.url, verb, target, options),
  };
}
