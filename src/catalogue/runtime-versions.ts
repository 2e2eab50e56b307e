// Runtime versions: the images that Google's machines with TPUs start from. New ones come with every release of a framework,
// so a name that is not here may be right; a name that is nearly one of these is most likely a slip.
// Source: the answers of the API's runtimeVersions, and Google's page of TPU software versions, read in 2026.

import { generations } from './accelerators.ts';
import { didYouMean } from './did-you-mean.ts';

/** The versions that were there when this was written; the built-in cloud offers no others. */
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

/** The older list of versions that the API still answers as `tensorflowVersions`. */
export const tensorflowVersions: readonly string[] = ['2.15.0', '2.16.1', '2.17.0', '2.18.0'];

/** The version that was most likely meant by one that is not known; undefined when it may well be one of its own. */
export function runtimeVersionMeant(version: string): string | undefined {
  // Images of frameworks differ in their numbers only: 2.19.0 is no slip of 2.18.0.
  if (/^tpu-vm-(tf|pt)-[\d.]+(-pod)?(-pjrt)?$/.test(version)) return undefined;
  const candidates = [...new Set([...generations.map((one) => one.runtimeVersion), ...runtimeVersions])];
  const begun = candidates.filter((one) => version.length > 3 && one.startsWith(version));
  return begun.length === 1 ? begun[0] : didYouMean(version, candidates);
}

/** The generation that a version is made for and no other; null for one that several share, or that is not known. */
export function generationOfVersion(version: string): string | null {
  const name = /^v2-alpha-tpu(v4|v5-lite|v5(?!-lite)|v6e|7)/.exec(version)?.[1];
  const names: Readonly<Record<string, string>> = { v4: 'v4', 'v5-lite': 'v5e', v5: 'v5p', v6e: 'v6e', '7': 'tpu7x' };
  return name === undefined ? null : (names[name] ?? null);
}
