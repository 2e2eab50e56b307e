// The lab's TPUs: registered facts and short names.

import { usageError } from '../app/errors.ts';
import { escapeLine } from '../app/format.ts';
import { findAccelerator, generationOf, parseSpelling } from '../catalogue/accelerators.ts';
import { omitUndefined } from '../core/model/omit-undefined.ts';
import type { TpuChange, TpuFacts } from './service.ts';

/** A persistent TPU that the lab shares. The lab itself decides who may use it. */
export interface LabTpu {
  /** The full name in the cloud: `kmh-tpuvm-v2-32-1`. */
  readonly name: string;
  /** Null: the `tpu.project` of the settings. */
  readonly project: string | null;
  /** Null until a user or an observation provides it. */
  readonly zone: string | null;
  /** `v2-32`, `v5litepod-16`. */
  readonly accelerator: string;
  readonly pricing: 'ondemand' | 'preemptible' | 'spot';
  /** Null: the accelerator's default. */
  readonly runtimeVersion: string | null;
}

/** A type alone or inside a name: `v2-32`, `v5e-8`, `v5litepod-16`, `tpu7x-8`. */
const typePattern = /(?:^|-)((?:v\d+(?:litepod|lite|[ep])?|tpu7x)-\d+)(?=-|$)/i;

/** The cloud's type in a name (`v5e-8` is `v5litepod-8`), or null. */
export function acceleratorFromName(name: string): string | null {
  const text = typePattern.exec(name)?.[1];
  return text === undefined ? null : parseAccelerator(text);
}

/** The cloud's name of a type in any spelling; null if no such type exists. */
export function parseAccelerator(text: string): string | null {
  const spelled = parseSpelling(text);
  if (spelled === undefined) return null;
  const type = `${spelled.generation.prefix}${spelled.size}`;
  return findAccelerator(type) === undefined ? null : type;
}

/** https://cloud.google.com/tpu/docs/reference/rest/v2/projects.locations.nodes */
export function isTpuName(name: string): boolean {
  return /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(name);
}

/** The pricing in a name: `preemptible`, `spot`, otherwise on demand. */
export function pricingFromName(name: string): LabTpu['pricing'] {
  if (/preempt|-pre(?=-|$)/i.test(name)) return 'preemptible';
  return /(?:^|-)spot(?=-|\d|$)/i.test(name) ? 'spot' : 'ondemand';
}

/** A TPU from its full name alone. Null if the name is invalid or contains no type. */
export function tpuFromName(name: string): LabTpu | null {
  const type = isTpuName(name) ? acceleratorFromName(name) : null;
  if (type === null) return null;
  return { name, project: null, zone: null, accelerator: type, pricing: pricingFromName(name), runtimeVersion: null };
}

/** The facts of a command line. Throws JobmanError (2). */
export function parseTpuFacts(name: string, given: Readonly<Record<string, string | undefined>>): TpuFacts {
  const { zone, type, pricing, project, version: runtimeVersion } = given;
  if (!isTpuName(name))
    throw usageError(`\`${escapeLine(name)}\` is not a TPU name: at most 63 lower-case letters, digits and dashes.`);
  if (zone !== undefined && !/^[a-z]+(-[a-z]+)+\d+-[a-z]$/.test(zone))
    throw usageError(`\`${escapeLine(zone)}\` is not a zone such as us-central2-b.`);
  const accelerator = type === undefined ? undefined : parseAccelerator(type);
  if (accelerator === null) throw usageError(`\`${escapeLine(type ?? '')}\` is not a TPU type such as v2-32 or v5e-8.`);
  // The command's row allows no other pricing.
  return omitUndefined({
    zone,
    accelerator,
    pricing: pricing as LabTpu['pricing'] | undefined,
    project,
    runtimeVersion,
  });
}

const unknownFields = { project: null, zone: null, pricing: 'ondemand', runtimeVersion: null } as const;

/** Null: not registered. Throws JobmanError (2) if the type of a new TPU is not known. */
export function changedTpu(name: string, stored: LabTpu | null, change: TpuChange): LabTpu | null {
  switch (change.kind) {
    case 'register': {
      const { facts } = change;
      const { accelerator } = facts;
      const named = accelerator === undefined ? null : { ...unknownFields, name, accelerator };
      const base = stored ?? tpuFromName(name) ?? named;
      if (base !== null) return { ...base, ...facts };
      throw usageError(
        `The name ${name} does not contain the type of the TPU. Add it: type=v2-32. Nothing was changed.`,
      );
    }
    case 'observe_zone':
      return stored && { ...stored, zone: stored.zone ?? change.zone };
    case 'set_pricing':
      return stored && { ...stored, pricing: change.pricing };
    case 'add':
      return stored ?? change.tpu;
  }
}

/** The only TPU whose full name ends in `-` and the suffix (`v2-32-preemptible-1`), as names are shown. */
export function findTpuBySuffix(tpus: readonly LabTpu[], text: string): LabTpu | undefined {
  if (/^[\d-]*$/.test(text) || parseAccelerator(text) !== null) return undefined;
  const [found, ...others] = tpus.filter(({ name }) => name.endsWith(`-${text}`));
  if (found === undefined || others.length > 0) return undefined;
  return acceleratorFromName(found.name) !== null && acceleratorFromName(text) === null ? undefined : found;
}

/** The TPU's aliases in order. `aliases` has full names by alias. */
export function aliasesOf(name: string, aliases: ReadonlyMap<string, string>): readonly string[] {
  return [...aliases].flatMap(([alias, full]) => (full === name ? [alias] : []));
}

/** The name without the prefix of the site's TPU names. */
export function shortName(name: string, prefix: string): string {
  return prefix !== '' && name.startsWith(prefix) && name.length > prefix.length ? name.slice(prefix.length) : name;
}

/** `v4` for `v4-16`, `v5e` for `v5litepod-8`; the type itself if its generation is unknown. */
export function generationName(type: string): string {
  return generationOf(type)?.name ?? type;
}
