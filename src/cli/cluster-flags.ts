// Flags of a job for a cluster, as `submit` takes them: what each word means is decided in manifest/kubernetes-words.ts,
// for manifests too. Each throws an Error whose message says what was expected, which is told behind the flag.

import { parseQuantity } from '../app/cluster/quantity.ts';
import {
  isVariableName,
  readGpus,
  readJobName,
  readObjectName,
  readSecret,
  readVolume,
  type GpuWish,
  type Reading,
  type SecretWish,
  type VolumeWish,
} from '../manifest/kubernetes-words.ts';

function taken<T>(reading: Reading<T>): T {
  if ('value' in reading) return reading.value;
  throw new Error(`it ${reading.wrong}${reading.meant === undefined ? '' : ` (did you mean ${reading.meant}?)`}`);
}

/** `-j`: a name for the Job. */
export function parseJobName(text: string): string {
  return taken(readJobName(text));
}

/** The name of anything else in a cluster. */
export function parseObjectName(text: string): string {
  return taken(readObjectName(text));
}

/** `--gpus 2:NVIDIA-A100-SXM4-80GB`. */
export function parseGpus(text: string): GpuWish {
  return taken(readGpus(text));
}

/** `--volume datasets:/data:ro`. */
export function parseVolume(text: string): VolumeWish {
  return taken(readVolume(text));
}

/** `--secret wandb:api-key=WANDB_API_KEY`. */
export function parseSecret(text: string): SecretWish {
  return taken(readSecret(text));
}

/** `--shm 8G`. */
export function parseAmount(text: string): string {
  if (parseQuantity(text) === undefined) throw new Error('expected an amount: 8G, 512Mi');
  return text;
}

/** A whole number from 1 on. */
export function parsePods(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new Error('expected a whole number from 1 on');
  return Number(text);
}

/** A variable and its value; null: the value that it has here. */
export type VariableWish = readonly [name: string, value: string | null];

/** `--env SEED=7`, or `--env WANDB_MODE` for the value that it has here. */
export function parseVariable(text: string): VariableWish {
  const at = text.indexOf('=');
  const name = at < 0 ? text : text.slice(0, at);
  if (!isVariableName(name)) throw new Error('expected NAME=VALUE, or the NAME of a variable that is set here');
  return [name, at < 0 ? null : text.slice(at + 1)];
}
