// What a TPU of the registry is as a capacity: for the job that runs on it, and for whoever makes it anew by hand.

import { exitCode, JobmanError } from '../app/errors.ts';
import { accelerator, generationOf } from '../catalogue/accelerators.ts';
import type { TpuSpec } from '../core/spec.ts';
import { zonesOffering } from '../catalogue/zones.ts';
import type { Site } from './site.ts';
import type { LabTpu } from './tpus.ts';

/**
 * The capacity of a job on that TPU: standing, by its full name. `project` is the one of the settings, for a TPU that names none;
 * `seenIn` the zone that a look has found it in. Throws JobmanError (2) where the project or the zone cannot be told.
 */
export function standingSpec(
  tpu: LabTpu,
  site: Pick<Site, 'zones' | 'remoteUser' | 'privateKey'>,
  known: { readonly project: string | null; readonly seenIn?: string | null },
): TpuSpec {
  return {
    kind: 'tpu',
    ownership: 'standing',
    mode: 'tpu-vm',
    project: projectOf(tpu, known.project),
    zone: tpu.zone ?? known.seenIn ?? onlyZone(tpu, site.zones),
    accelerator: tpu.accelerator,
    name: tpu.name,
    runtimeVersion: tpu.runtimeVersion ?? runtimeVersionOf(tpu),
    pricing: tpu.pricing,
    startupScript: null,
    networkTags: [],
    metadata: {},
    remoteUser: site.remoteUser,
    privateKey: site.privateKey,
    pricePerHour: null,
  };
}

/** The project of that TPU. Throws JobmanError (2) where neither the registry nor the settings name one. */
export function projectOf({ name, project }: LabTpu, usual: string | null): string {
  const found = project ?? usual;
  if (found !== null) return found;
  throw new JobmanError(`Nothing says in which Google Cloud project ${name} is.`, exitCode.usage, [
    'jobman settings set tpu.project MY-PROJECT    the one of this lab; `emulator` is the built-in cloud',
  ]);
}

function onlyZone({ name, accelerator: type }: LabTpu, zones: readonly string[]): string {
  const [only, ...others] = zones;
  if (only !== undefined && others.length === 0) return only;
  const known = accelerator(type);
  const offering = known === undefined ? [] : zonesOffering(known);
  const [likely, ...more] = zones.filter((zone) => offering.includes(zone));
  if (likely !== undefined && more.length === 0) return likely;
  throw new JobmanError(`Nothing says in which zone ${name} is to be.`, exitCode.usage, [
    `tpu register ${name} zone=${likely ?? offering[0] ?? zones[0] ?? 'us-central2-b'}    says it`,
  ]);
}

function runtimeVersionOf({ name, accelerator: type }: LabTpu): string {
  const version = generationOf(type)?.runtimeVersion;
  if (version !== undefined) return version;
  throw new JobmanError(`${name} is a ${type}, which is no type of TPU that jobman knows.`, exitCode.usage, [
    'Types are like v4-8, v5litepod-16 or v6e-8; `jobman zones` lists them.',
  ]);
}
