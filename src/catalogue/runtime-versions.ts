// Runtime versions of TPU machines. Every release of a framework adds some, so an unknown name may be right; a name
// similar to one of these is most likely a mistake.
// Source: the responses of the API's runtimeVersions, and Google's page of TPU software versions, read in 2026.

import { generations } from './accelerators.ts';
import { didYouMean } from './did-you-mean.ts';

/** The versions known in 2026. The TPU emulator offers exactly these. */
export const runtimeVersions: readonly string[] = [
  'tpu-ubuntu2204-base',
  'tpu-vm-base',
  'tpu-vm-tf-2.15.0',
  'tpu-vm-tf-2.15.0-pod',
  'tpu-vm-tf-2.16.1-pjrt',
  'tpu-vm-tf-2.16.1-pod-pjrt',
  'tpu-vm-tf-2.17.0-pjrt',
  'tpu-vm-tf-2.17.0-pod-pjrt',
  'tpu-vm-tf-2.18.0-pjrt',
  'tpu-vm-tf-2.18.0-pod-pjrt',
  'v2-alpha-tpuv4',
  'v2-alpha-tpuv4-pod',
  'v2-alpha-tpuv5',
  'v2-alpha-tpuv5-lite',
  'v2-alpha-tpuv6e',
];

/** The older list of versions that the API still returns as `tensorflowVersions`. */
export const tensorflowVersions: readonly string[] = ['2.15.0', '2.16.1', '2.17.0', '2.18.0'];

/** The known version that `version` most likely means; undefined when it may be a correct new one. */
export function suggestRuntimeVersion(version: string): string | undefined {
  // Images of frameworks differ only in their numbers: 2.19.0 is not a mistyped 2.18.0.
  if (/^tpu-vm-(tf|pt)-[\d.]+(-pod)?(-pjrt)?$/.test(version)) return undefined;
  const candidates = [...new Set([...generations.map((one) => one.runtimeVersion), ...runtimeVersions])];
  const withPrefix = candidates.filter((one) => version.length > 3 && one.startsWith(version));
  return withPrefix.length === 1 ? withPrefix[0] : didYouMean(version, candidates);
}

/** The only generation that a version is made for; null for a version of several generations or an unknown one. */
export function generationOfVersion(version: string): string | null {
  const name = /^v2-alpha-tpu(v4|v5-lite|v5(?!-lite)|v6e|7)/.exec(version)?.[1];
  const names: Readonly<Record<string, string>> = { v4: 'v4', 'v5-lite': 'v5e', v5: 'v5p', v6e: 'v6e', '7': 'tpu7x' };
  return name === undefined ? null : (names[name] ?? null);
}
