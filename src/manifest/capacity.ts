// Capacity: the section `tpu` or `local`, as what is asked for.

import { generationOf } from '../core/accelerators.ts';
import { nodeNameMark } from '../core/spec.ts';
import type { CapacitySpec, LocalSpec, TpuSpec } from '../core/spec.ts';
import { readText } from './door.ts';
import { checkOffered } from './offered.ts';
import { pathHere } from './paths.ts';
import type { Sections } from './sections.ts';
import type { Surroundings } from './surroundings.ts';

/** The metadata of a node may be this large. */
const startupScriptMost = 256 * 1024;

/** Undefined when the manifest does not say enough; what is wrong has then been said. */
export function readCapacity(
  sections: Sections,
  jobName: string,
  remoteUser: string | null,
  around: Surroundings,
): CapacitySpec | undefined {
  const hasLocal = sections.stands('local');
  const hasTpu = sections.has(['tpu']);
  if (hasLocal && hasTpu) {
    sections.problem(
      ['local'],
      'stands beside tpu; a job runs either on this machine or on a TPU, so remove one of them',
    );
  }
  if (!hasLocal && !hasTpu) {
    sections.problem([], 'nothing says where the job runs: add a section tpu, or local: {} for this machine');
  }
  const local = hasLocal ? readLocal(sections, around) : undefined;
  return hasTpu ? readTpu(sections, jobName, remoteUser, around) : local;
}

function readLocal(sections: Sections, { door, folder, home }: Surroundings): LocalSpec {
  const local = sections.read('local');
  const workdir = pathHere(local?.workdir ?? '.', folder, home);
  if (local?.workdir !== undefined && door.look(workdir).kind !== 'folder') {
    sections.problem(['local', 'workdir'], `there is no folder ${workdir} on this machine`);
  }
  return { kind: 'local', ownership: 'standing', workdir };
}

function readTpu(
  sections: Sections,
  jobName: string,
  remoteUser: string | null,
  around: Surroundings,
): TpuSpec | undefined {
  const tpu = sections.read('tpu');
  if (tpu === undefined) return undefined;

  const project = tpu.project ?? around.project;
  if (project === null && !sections.has(['tpu', 'project'])) {
    const answers =
      '`project: <your Google Cloud project>`, or `project: emulator` for the built-in cloud, which costs nothing';
    sections.problem(['tpu', 'project'], `no project is named here or in the settings; write ${answers}`);
  }
  const isAskable = checkOffered(sections, { tpu, project });
  const version = tpu.version ?? (isAskable ? generationOf(tpu.accelerator ?? '')?.runtimeVersion : undefined);
  if (isAskable && version === undefined && !sections.has(['tpu', 'version'])) {
    const message = `must be given: jobman does not know ${tpu.accelerator}, and so not which runtime version it wants`;
    sections.problem(['tpu', 'version'], message);
  }
  const name = tpu.name ?? nameFrom(jobName);
  // Elsewhere the mark stands for this very name, so it can only have come round in a circle.
  if (name.includes(nodeNameMark)) sections.problem(['tpu', 'name'], 'refers to itself');
  const script = tpu.startup_script === undefined ? null : readStartupScript(sections, tpu.startup_script, around);
  if (!isAskable || tpu.accelerator === undefined || version === undefined) return undefined;
  if (tpu.zone === undefined || project === null || script === undefined) return undefined;

  // The cloud is asked before the node has its full name, so here the name stands as it was written.
  const named = (text: string): string => text.replaceAll(nodeNameMark, name);
  return {
    kind: 'tpu',
    ownership: tpu.ownership ?? 'owned',
    mode: tpu.allocation_mode ?? 'queued-resources',
    project,
    zone: tpu.zone,
    accelerator: tpu.accelerator,
    name,
    runtimeVersion: version,
    pricing: tpu.pricing ?? 'spot',
    startupScript: script,
    networkTags: [...new Set((tpu.tags ?? []).map(named))],
    metadata: Object.fromEntries(Object.entries(tpu.metadata ?? {}).map(([key, value]) => [key, named(value)])),
    remoteUser,
    privateKey: readLoginKey(sections, around),
    // What a type costs is known to the backend, not to a manifest.
    pricePerHour: null,
  };
}

function readStartupScript(sections: Sections, path: string, { door, folder, home }: Surroundings): string | undefined {
  const file = pathHere(path, folder, home);
  const read = readText(door, file, startupScriptMost);
  if ('text' in read) return read.text;
  sections.problem(['tpu', 'startup_script'], `the file ${file} ${read.why}`);
  return undefined;
}

/** The key that jobman logs in with, whether or not the workers are given any; null means its own. */
function readLoginKey(sections: Sections, { folder, home }: Surroundings): string | null {
  const key = sections.read('ssh')?.private_key;
  return key === undefined ? null : pathHere(key, folder, home);
}

/** The job's name as the first part of a node's: small letters, digits and hyphens, beginning with a letter. */
export function nameFrom(jobName: string): string {
  const plain = jobName
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+/, '')
    .slice(0, 40)
    .replace(/-+$/, '');
  return plain === '' ? 'job' : plain;
}
