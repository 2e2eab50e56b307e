// Jobs for tests: a spec with every field, and what may be changed in it.

import type { JobSpec, TpuSpec } from '../../src/core/spec.ts';
import { hour, minute, second } from '../../src/core/time.ts';

export const noon = Date.UTC(2026, 10, 20, 12);

/** A job on this machine. */
export function localSpec(changes: Partial<JobSpec> = {}): JobSpec {
  return {
    version: 1,
    name: 'iris',
    tags: [],
    capacity: { kind: 'local', ownership: 'standing', workdir: '/srv/iris' },
    steps: [],
    command: {
      script: 'python3 train.py',
      place: 'workers',
      workers: 'all',
      env: {},
      workdir: null,
      checkpointDir: null,
    },
    recovery: {
      preset: 'pass',
      rules: [],
      budget: { preemptions: 100, failures: 3 },
      delay: 10 * second,
      delayMax: 10 * minute,
      unreachableGrace: 3 * minute,
    },
    limits: { maxRuntime: null, silenceTimeout: null, capacityWait: null, setupTries: 3 },
    stop: { signal: 'TERM', grace: 30 * second },
    finish: { capacity: 'release', keepFor: null },
    ...changes,
  };
}

/** A job on a spot TPU with 4 dollars an hour, its steps and rules. */
export function tpuSpec(changes: Partial<JobSpec> = {}, capacity: Partial<TpuSpec> = {}): JobSpec {
  return localSpec({
    name: 'vit',
    capacity: {
      kind: 'tpu',
      ownership: 'owned',
      mode: 'queued-resources',
      project: 'lab',
      zone: 'us-west4-a',
      accelerator: 'v5litepod-16',
      name: 'vit',
      runtimeVersion: 'tpu-ubuntu2204-base',
      pricing: 'spot',
      startupScript: 'echo booted',
      networkTags: [],
      metadata: { note: 'kept' },
      remoteUser: null,
      privateKey: null,
      pricePerHour: 4,
      ...capacity,
    },
    steps: [
      { name: 'ssh', key: 'ssh-1', check: null, apply: 'true', files: [], timeout: minute },
      {
        name: 'docker',
        key: 'docker-1',
        check: 'command -v docker',
        apply: 'install docker',
        files: [],
        timeout: hour,
      },
    ],
    recovery: {
      preset: 'pre',
      rules: [
        { reason: 'preempted', answer: { then: 'resume', on: 'new' } },
        { reason: 'unreachable', answer: { then: 'resume', on: 'same' } },
        { reason: 'succeeded', answer: { then: 'done', on: 'same' } },
      ],
      budget: { preemptions: 100, failures: 3 },
      delay: 10 * second,
      delayMax: 10 * minute,
      unreachableGrace: 3 * minute,
    },
    ...changes,
  });
}
