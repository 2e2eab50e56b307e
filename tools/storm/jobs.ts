// The jobs of a storm: a few kinds, each as somebody would write it, in turn.

import { join } from 'node:path';
import { programText, witnessVariable } from './program.ts';

/** What makes a job of a storm what it is. */
export type JobKind = 'local' | 'single' | 'four' | 'spot' | 'here';

/** The order in which kinds come, so that a handful of jobs has one of each. */
const turns: readonly JobKind[] = ['local', 'single', 'spot', 'four', 'here', 'local', 'single'];

/** The kind of the job of that number, counted from 0. */
export function kindOf(index: number): JobKind {
  return turns[index % turns.length] ?? 'local';
}

/** The TPU of each kind that has one; `workers` is how many hosts it has in Google's catalogue. */
const tpus: Readonly<Record<Exclude<JobKind, 'local'>, { readonly workers: number; readonly asks: object }>> = {
  single: { workers: 1, asks: { accelerator: 'v4-8', zone: 'us-central2-b', pricing: 'ondemand' } },
  here: { workers: 1, asks: { accelerator: 'v4-8', zone: 'us-central2-b', pricing: 'ondemand' } },
  spot: {
    workers: 2,
    asks: {
      accelerator: 'v4-16',
      zone: 'us-central2-b',
      pricing: 'spot',
      allocation_mode: 'queued-resources',
    },
  },
  four: { workers: 4, asks: { accelerator: 'v4-32', zone: 'us-central2-b', pricing: 'spot' } },
};

/** The workers on which the command of such a job runs, as the program is told their names. */
export function placesOf(kind: JobKind): readonly string[] {
  if (kind === 'local') return ['0'];
  if (kind === 'here') return ['here'];
  return Array.from({ length: tpus[kind].workers }, (_, worker) => String(worker));
}

/** Where things are that jobs of one storm share. */
export interface Shared {
  /** The folder of the built-in cloud's buckets. */
  readonly buckets: string;
  /** The folder that programs bear witness in. */
  readonly witness: string;
  /** How long a silent worker is waited for, in seconds. */
  readonly graceSeconds: number;
}

/** The manifest of one job, as a value that JSON, and with it YAML, can say. */
export function manifestOf(name: string, kind: JobKind, steps: number, shared: Shared): object {
  const isOnWorkers = kind !== 'local' && kind !== 'here';
  // Hosts mount the bucket; this machine has its folder.
  const checkpoints = isOnWorkers ? `~/bucket/checkpoints/${name}` : join(shared.buckets, 'storm', 'checkpoints', name);
  const rules = ['preempted', 'unreachable'].map((reason) => ({ reason, then: 'resume', on: 'new' }));
  return {
    job: { name, checkpoint_dir: checkpoints, env: { [witnessVariable]: shared.witness } },
    ...(kind === 'local' ? { local: {} } : { tpu: { project: 'emulator', ...tpus[kind].asks } }),
    ...(isOnWorkers ? { gcsfuse: { bucket_name: 'storm', mount_path: '~/bucket' } } : {}),
    command: { run: programText(steps), ...(kind === 'here' ? { runs_on: 'here' } : {}) },
    // A preset everywhere but on spot, which has rules of its own. Here and on this machine nothing is to go wrong at all.
    recovery: {
      preset: 'pre',
      ...(kind === 'spot' ? { rules } : {}),
      unreachable_grace: `${shared.graceSeconds}s`,
    },
  };
}
