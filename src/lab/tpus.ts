// The lab's TPUs: what is known of each beside its cloud, and the short names that people use.

import { accelerator, generationOf, spelledAs } from '../catalogue/accelerators.ts';

/** A TPU that the lab shares. It exists by name before and after every job; who may use it is the lab's own affair. */
export interface LabTpu {
  /** The full name in the cloud: `kmh-tpuvm-v2-32-1`. */
  readonly name: string;
  /** Null: the one of the settings (`tpu.project`). */
  readonly project: string | null;
  /** Null while nobody has said it and no look has found it. */
  readonly zone: string | null;
  /** `v2-32`, `v5litepod-16`. */
  readonly accelerator: string;
  readonly pricing: 'ondemand' | 'preemptible' | 'spot';
  /** Null: what the accelerator wants by itself. */
  readonly runtimeVersion: string | null;
}

/** A type as people write it inside a name or by itself: `v2-32`, `v5e-8`, `v5litepod-16`, `tpu7x-8`. */
const typeWord = /(?:^|-)((?:v\d+(?:litepod|lite|[ep])?|tpu7x)-\d+)(?=-|$)/i;

/** The type of accelerator that a name tells, as the cloud calls it (`v5e-8` is `v5litepod-8`); null where it tells none. */
export function acceleratorIn(name: string): string | null {
  const word = typeWord.exec(name)?.[1];
  return word === undefined ? null : acceleratorCalled(word);
}

/** The type of that name or spelling, as the cloud calls it; null where it is no type that exists. */
export function acceleratorCalled(word: string): string | null {
  const spelled = spelledAs(word);
  if (spelled === undefined) return null;
  const type = `${spelled.generation.prefix}${spelled.size}`;
  return accelerator(type) === undefined ? null : type;
}

/** Whether a TPU can have that full name: https://cloud.google.com/tpu/docs/reference/rest/v2/projects.locations.nodes */
export function isTpuName(name: string): boolean {
  return /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(name);
}

/** The pricing that a name tells: `preemptible` and `spot` say so, everything else is on demand. */
export function pricingIn(name: string): LabTpu['pricing'] {
  if (/preempt|-pre(?=-|$)/i.test(name)) return 'preemptible';
  return /(?:^|-)spot(?=-|\d|$)/i.test(name) ? 'spot' : 'ondemand';
}

/** A TPU of that full name as far as the name tells of it; null where it does not tell the type, or can be no name of a TPU. */
export function tpuNamed(name: string): LabTpu | null {
  const type = isTpuName(name) ? acceleratorIn(name) : null;
  if (type === null) return null;
  return { name, project: null, zone: null, accelerator: type, pricing: pricingIn(name), runtimeVersion: null };
}

/**
 * The TPU whose full name ends in `-` and that word (`v2-32-preemptible-1`), as names are shown. Undefined where none or several
 * do, or where the word is a type or a number, or cuts the type off.
 */
export function tpuCalled(tpus: readonly LabTpu[], word: string): LabTpu | undefined {
  if (/^[\d-]*$/.test(word) || acceleratorCalled(word) !== null) return undefined;
  const [found, ...others] = tpus.filter(({ name }) => name.endsWith(`-${word}`));
  if (found === undefined || others.length > 0) return undefined;
  return acceleratorIn(found.name) !== null && acceleratorIn(word) === null ? undefined : found;
}

/** The aliases of the TPU with that full name, in their order; `aliases` are full names by alias. */
export function aliasesOf(name: string, aliases: ReadonlyMap<string, string>): readonly string[] {
  return [...aliases].flatMap(([alias, full]) => (full === name ? [alias] : []));
}

/** The name without what all names of the site begin with. */
export function shortName(name: string, prefix: string): string {
  return prefix !== '' && name.startsWith(prefix) && name.length > prefix.length ? name.slice(prefix.length) : name;
}

/** `v4` of `v4-16`, `v5e` of `v5litepod-8`; the type itself where no generation is known by it. */
export function generationName(type: string): string {
  return generationOf(type)?.name ?? type;
}
