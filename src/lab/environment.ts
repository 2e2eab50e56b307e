// Whether the Python of a TPU's workers sees its devices: one short program on all of them side by side, since a slice opens its
// devices together, and what its answers mean.

import { second } from '../core/time.ts';
import type { Duration } from '../core/time.ts';
import { shellWord } from './shell-words.ts';
import type { Site } from './site.ts';
import type { WorkerAnswer } from './tpu-desk.ts';

/** `file error`: there is no such Python, or a file that it needs is not there, as when a share is not mounted. */
export type EnvironmentClass = 'success' | 'file error' | 'occupied' | 'timeout' | 'unknown';

export interface Environment {
  readonly class: EnvironmentClass;
  /** The line that says it; of `success` the devices of worker 0. */
  readonly says: string;
  readonly worker: number;
}

/** How long Python may take: libtpu waits for the other workers of a slice. */
const pythonWithin: Duration = 120 * second;
/** For the shell around it too. */
export const environmentWithin: Duration = pythonWithin + 30 * second;

/** Prints the devices as JAX names them: `[TpuDevice(id=0, ...)]`. */
export function environmentScript({ python }: Pick<Site, 'python'>): string {
  const program = shellWord(python ?? 'python3');
  return `command -v ${program} >/dev/null 2>&1 || { echo ${shellWord(`${python ?? 'python3'}: No such file or directory`)}; exit 127; }
timeout -k 5 ${pythonWithin / second} ${program} -c 'import jax; print(jax.local_devices())' 2>&1
`;
}

/** In order: the first that any worker shows says how the environment is. */
const signs: readonly (readonly [EnvironmentClass, RegExp])[] = [
  ['occupied', /The TPU is already in use|libtpu_lockfile|Device or resource busy/],
  ['file error', /No such file or directory/],
];

/** What the workers' answers mean together. */
export function environmentOf(answers: readonly WorkerAnswer[]): Environment {
  const each = answers.map(classOf);
  const worst = (['occupied', 'file error', 'timeout', 'unknown'] as const)
    .map((one) => each.find((environment) => environment.class === one))
    .find((found) => found !== undefined);
  return worst ?? each[0] ?? { class: 'unknown', says: 'there are no workers', worker: 0 };
}

function classOf(answer: WorkerAnswer): Environment {
  const { worker } = answer;
  if (answer.kind === 'no_answer') {
    return {
      class: /did not (end|answer) within/.test(answer.says) ? 'timeout' : 'unknown',
      says: answer.says,
      worker,
    };
  }
  const lines = answer.output
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  for (const [name, pattern] of signs) {
    const line = lines.find((one) => pattern.test(one));
    if (line !== undefined) return { class: name, says: line, worker };
  }
  if (answer.code === 124 || answer.code === 137) {
    return { class: 'timeout', says: `Python did not end within ${pythonWithin / second} s`, worker };
  }
  // A Python that finds no TPU is content with the processor.
  const devices = lines.find((line) => /TpuDevice|TPU_\d|TPU v/.test(line));
  if (answer.code === 0 && devices !== undefined) return { class: 'success', says: devices, worker };
  return { class: 'unknown', says: lines.at(-1) ?? `Python ended with ${answer.code} and said nothing`, worker };
}
