// The Cloud TPU backend, built from settings: which server speaks for a project, who we are to it, and how its workers are reached.

import { readFile } from 'node:fs/promises';
import type { Backend } from '../app/ports.ts';
import { createTpuApi } from '../backends/tpu/api.ts';
import { createCaller } from '../backends/tpu/call.ts';
import type { TpuApi } from '../backends/tpu/api.ts';
import { createTpuCapacity } from '../backends/tpu/capacity.ts';
import { createCredentials } from '../backends/tpu/credentials.ts';
import { sshKeyLines } from '../backends/tpu/login.ts';
import { createTpuWorkers } from '../backends/tpu/workers.ts';
import type { TpuWorkers } from '../backends/tpu/workers.ts';
import { createMachines } from '../backends/machines.ts';
import { runProcess } from '../remote/process.ts';
import { remoteRoot } from '../remote/run-folder.ts';
import { createSshPool } from '../remote/ssh.ts';
import type { BackendParts } from './backends.ts';
import { ensureEmulator, findEmulator } from './emulator-service.ts';

/** Where Google serves the Cloud TPU API. */
const google = 'https://tpu.googleapis.com';
const sshPortOfGoogle = 22;
/** The one project name that stands for the built-in cloud. */
export const emulatorProject = 'emulator';

export interface TpuBackend {
  readonly backend: Backend;
  readonly workers: TpuWorkers;
  readonly close: () => void;
}

export function createTpuBackend(parts: Omit<BackendParts, 'changed'>): TpuBackend {
  const { io, home, settings, clock, logFiles } = parts;
  const now = () => clock.now();

  // A server that the settings name does in the built-in cloud's place too: that is how another emulator is tried.
  const usesBuiltIn = (project: string) => project === emulatorProject && settings.tpu.endpoint === null;

  /** A look at a job that lives in the built-in cloud brings the cloud back, as after a reboot. */
  async function startedBuiltIn(): Promise<string> {
    return (await ensureEmulator(io, home)).endpoint.url;
  }

  /** A sweep is about what nobody should miss, so it wakes nobody. */
  async function runningBuiltIn(): Promise<string> {
    const endpoint = await findEmulator(home);
    if (endpoint === undefined) throw new Error('the built-in cloud does not run');
    return endpoint.url;
  }

  function apiOver(endpoint: () => Promise<string>): TpuApi {
    return createTpuApi(createCaller({ endpoint, credentials: createCredentials({ endpoint, run, now }) }));
  }

  const apis = new Map<string, TpuApi>();
  function apiFor(project: string): TpuApi {
    let api = apis.get(project);
    if (api === undefined) {
      api = apiOver(usesBuiltIn(project) ? startedBuiltIn : async () => settings.tpu.endpoint ?? google);
      apis.set(project, api);
    }
    return api;
  }
  const builtInIfRunning = apiOver(runningBuiltIn);

  const pool = createSshPool({
    home,
    user: io.user,
    userHome: io.userHome,
    agent: io.env['SSH_AUTH_SOCK'] ?? null,
    sshArgs: [],
  });
  const login = { home, user: io.user };
  const workers = createTpuWorkers({
    ...login,
    pool,
    apiFor,
    now,
    async sshFor(project) {
      if (!usesBuiltIn(project)) return { port: settings.tpu.sshPort ?? sshPortOfGoogle, userConfig: true };
      return { port: (await ensureEmulator(io, home)).endpoint.sshPort, userConfig: false };
    },
  });
  return {
    workers,
    backend: {
      capacity: createTpuCapacity({
        apiFor,
        runningApiFor: (project) => (usesBuiltIn(project) ? builtInIfRunning : apiFor(project)),
        clock,
        sshKeyLines: (spec) => sshKeyLines(spec, login),
      }),
      machines: createMachines({
        reach: (ref) => workers.reach(ref),
        root: (ref) => remoteRoot(ref.job),
        stepLog: logFiles.step.bind(logFiles),
        readFile: (path) => readFile(path),
        now,
        forget: (ref) => workers.forget(ref),
      }),
    },
    close: () => pool.close(),
  };

  async function run(argv: readonly string[]): Promise<{ readonly ok: boolean; readonly output: string }> {
    const result = await runProcess({ argv, env: io.env, timeoutMs: 20_000, outputMost: 64_000 });
    const text = Buffer.from(result.exitCode === 0 ? result.stdout : result.stderr).toString('utf8');
    return { ok: result.exitCode === 0, output: result.error ?? text };
  }
}
