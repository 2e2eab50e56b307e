import { join } from 'node:path';
import { programScript, reportFolderVariable } from './program.ts';

export type JobKind = 'local' | 'single' | 'four' | 'spot' | 'controller';

/** In this order a few jobs already have one of each kind. */
const kindOrder: readonly JobKind[] = ['local', 'single', 'spot', 'four', 'controller', 'local', 'single'];

export function kindOf(index: number): JobKind {
  return kindOrder[index % kindOrder.length] ?? 'local';
}

/** `workers` is the number of hosts in the catalogue. */
const tpus: Readonly<Record<Exclude<JobKind, 'local'>, { readonly workers: number; readonly request: object }>> = {
  single: { workers: 1, request: { accelerator: 'v4-8', zone: 'us-central2-b', pricing: 'ondemand' } },
  controller: { workers: 1, request: { accelerator: 'v4-8', zone: 'us-central2-b', pricing: 'ondemand' } },
  spot: {
    workers: 2,
    request: {
      accelerator: 'v4-16',
      zone: 'us-central2-b',
      pricing: 'spot',
      allocation_mode: 'queued-resources',
    },
  },
  four: { workers: 4, request: { accelerator: 'v4-32', zone: 'us-central2-b', pricing: 'spot' } },
};

/** Workers that run the command, by the names that the program receives. */
export function workersOf(kind: JobKind): readonly string[] {
  if (kind === 'local') return ['0'];
  if (kind === 'controller') return ['controller'];
  return Array.from({ length: tpus[kind].workers }, (_, worker) => String(worker));
}

export interface SharedSettings {
  readonly buckets: string;
  readonly reportFolder: string;
  /** In seconds. */
  readonly graceSeconds: number;
}

/** A manifest as a JSON value, which is valid YAML. */
export function manifestOf(name: string, kind: JobKind, steps: number, shared: SharedSettings): object {
  const isOnWorkers = kind !== 'local' && kind !== 'controller';
  // The hosts mount the bucket; this machine has its folder.
  const checkpoints = isOnWorkers ? `~/bucket/checkpoints/${name}` : join(shared.buckets, 'chaos', 'checkpoints', name);
  const rules = ['preempted', 'unreachable'].map((reason) => ({ reason, then: 'resume', on: 'new' }));
  return {
    job: { name, checkpoint_dir: checkpoints, env: { [reportFolderVariable]: shared.reportFolder } },
    ...(kind === 'local' ? { local: {} } : { tpu: { project: 'emulator', ...tpus[kind].request } }),
    ...(isOnWorkers ? { gcsfuse: { bucket_name: 'chaos', mount_path: '~/bucket' } } : {}),
    command: { run: programScript(steps), ...(kind === 'controller' ? { runs_on: 'here' } : {}) },
    // Spot jobs test rules of their own in addition to the preset. Jobs on this machine must not lose an attempt.
    recovery: {
      preset: 'pre',
      ...(kind === 'spot' ? { rules } : {}),
      unreachable_grace: `${shared.graceSeconds}s`,
    },
  };
}
