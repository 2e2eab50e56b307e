// Capacity: the section `tpu` or `local`. Google adds types and zones faster than our tables, so an unknown one is a
// warning. The TPU emulator offers exactly the tables, so there it is a problem.

import { findAccelerator, generationOf, suggestAccelerator, parseSpelling } from '../catalogue/accelerators.ts';
import { omitUndefined } from '../core/model/omit-undefined.ts';
import {
  jobIdPlaceholder,
  nodeNamePlaceholder,
  type CapacitySpec,
  type DataDisk,
  type HostName,
  type TpuAlternative,
  type TpuSpec,
  emulatorProject,
  hostNameProblem,
  ownHost,
} from '../core/model/spec.ts';
import { minute } from '../core/model/time.ts';
import { readNamedFile, readTextFile, localPath, type ManifestContext } from './files.ts';
import { readLoginKey } from './setup-modules.ts';
import type { Section } from './keys.ts';
import type { Sections } from './sections.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { generationOfVersion, suggestRuntimeVersion, runtimeVersions } from '../catalogue/runtime-versions.ts';
import { suggestZone, zones, zonesOffering } from '../catalogue/zones.ts';

/** The project in the examples of the documentation. */
export const placeholderProject = 'my-project';

/** Google's limit for the metadata of a node. */
const maxStartupScriptBytes = 256 * 1024;

/** Undefined when the manifest lacks a necessary value; the problem is then reported. */
export function readCapacity(
  sections: Sections,
  jobName: string,
  remoteUser: string | null,
  context: ManifestContext,
): CapacitySpec | undefined {
  const hasLocal = sections.isPresent('local');
  const hasHosts = sections.has(['hosts']);
  const hosts = readHosts(sections, context);
  const hasTpu = sections.has(['tpu']);
  if (hasLocal && hasTpu) {
    sections.problem(
      ['local'],
      'cannot be combined with tpu: a job runs on this machine or on a TPU; remove one of them',
    );
  }
  if (hasHosts && (hasTpu || hasLocal)) {
    const [other, meaning] = hasTpu
      ? ['tpu', 'a job runs on hosts or on a TPU']
      : ['local', 'it means hosts: [localhost]'];
    sections.problem(['hosts'], `cannot be combined with ${other}: ${meaning}; remove one of them`);
  }
  if (!hasLocal && !hasTpu && !hasHosts) {
    sections.problem(
      [],
      'the manifest has no section for where the job runs; add tpu, hosts: [gpu1] (your own machines), local: {} (this machine) or kubernetes: {} (a cluster)',
    );
  }
  if (hasTpu) return readTpu(sections, jobName, remoteUser, context);
  if (hasHosts && hosts === undefined) return undefined;
  return { kind: 'hosts', ownership: 'persistent', hosts: hosts ?? [ownHost] };
}

/** Undefined without any, or after a reported problem. */
function readHosts(sections: Sections, { hosts: known }: ManifestContext): readonly HostName[] | undefined {
  if (!sections.has(['hosts'])) return undefined;
  const hosts = sections.read('hosts');
  if (hosts?.length === 0) sections.problem(['hosts'], 'is empty; write the name of a host, such as [localhost]');
  const seen = new Set<HostName>();
  for (const [index, host] of (hosts ?? []).entries()) {
    const at = ['hosts', index];
    if (seen.has(host)) sections.problem(at, `names ${host} twice; a job has one slot on each host`);
    else if (known?.includes(host) === false) {
      const problem = hostNameProblem(host);
      const message =
        problem === null
          ? `there is no host "${host}"; add it: jobman hosts add ${host} --ssh ADDRESS`
          : `"${host}" ${problem}`;
      sections.problem(at, message, didYouMean(host, known));
    }
    seen.add(host);
  }
  return sections.isValid('hosts') && hosts?.length !== 0 ? hosts : undefined;
}

/** The folder in which a job on this machine starts. */
export function readLocalFolder(sections: Sections, { files, folder, home }: ManifestContext): string {
  const local = sections.read('local');
  const workdir = localPath(local?.workdir ?? '.', folder, home);
  const { kind } = local?.workdir === undefined ? { kind: 'folder' } : files.inspect(workdir);
  // A folder that the sender of the manifest cannot see may exist.
  if (kind !== 'folder' && kind !== 'elsewhere') {
    sections.problem(['local', 'workdir'], `the folder ${workdir} does not exist on this machine`);
  }
  return workdir;
}

function readTpu(
  sections: Sections,
  jobName: string,
  remoteUser: string | null,
  context: ManifestContext,
): TpuSpec | undefined {
  const tpu = sections.read('tpu');
  if (tpu === undefined) return undefined;

  const project = tpu.project ?? context.project;
  if (project === null && !sections.has(['tpu', 'project'])) {
    const answers = '`project: <your Google Cloud project>`, or `project: emulator` for the free TPU emulator';
    sections.problem(['tpu', 'project'], `is required, because the settings have no default project; write ${answers}`);
  }
  const pricing = tpu.pricing ?? (tpu.reservation === undefined ? 'spot' : 'ondemand');
  const own = readRequest(sections, ['tpu'], { ...tpu, pricing }, project);
  const name = tpu.name ?? tpuNameFrom(jobName);
  // In other keys the placeholder means this name, so here it is a cycle.
  if (name.includes(nodeNamePlaceholder)) sections.problem(['tpu', 'name'], 'refers to itself');
  const script = readNamedFile(sections, ['tpu', 'startup_script'], tpu.startup_script, maxStartupScriptBytes, context);
  if (own === undefined || project === null || script === undefined) return undefined;

  const ownership = tpu.ownership ?? (tpu.adopt === true ? 'persistent' : 'ephemeral');
  checkTpuKeys(sections, tpu);
  const alternatives = readAlternatives(sections, tpu, own, project);
  const login = readLoginKey(sections, context);
  const publicKey = readLoginPublicKey(sections.read('ssh')?.private_key, context);

  // The request needs these values before the node has its full name, so they get the name as written.
  const withNodeName = (text: string): string => text.replaceAll(nodeNamePlaceholder, name);
  return {
    kind: 'tpu',
    ...own,
    ownership,
    mode: tpu.allocation_mode ?? 'queued-resources',
    project,
    name,
    startupScript: script,
    networkTags: [...new Set((tpu.tags ?? []).map(withNodeName))],
    metadata: Object.fromEntries(Object.entries(tpu.metadata ?? {}).map(([key, value]) => [key, withNodeName(value)])),
    remoteUser,
    privateKey: login?.privateKey ?? null,
    ...(publicKey !== null && { publicKey }),
    // A queued request is not refused: without a limit on the wait, the next alternative would never be tried.
    ...(alternatives.length > 0 && { alternatives, alternativesWaitMs: tpu.alternatives_wait ?? 15 * minute }),
    // Absent keys stay absent, so that a stored spec is as short as its manifest.
    ...omitUndefined({
      reservation: tpu.reservation,
      network: tpu.network,
      subnetwork: tpu.subnetwork,
      serviceAccount: tpu.service_account,
      dataDisks: readDisks(sections, tpu, [own, ...alternatives]),
      nodeCount: tpu.node_count === 1 ? undefined : tpu.node_count,
      validForMs: tpu.valid_until,
    }),
  };
}

/** The line of the `.pub` file next to the key; null without one, because the project's metadata may have it already. */
function readLoginPublicKey(written: string | undefined, { files, folder, home }: ManifestContext): string | null {
  if (written === undefined || written.startsWith('secret:')) return null;
  const read = readTextFile(files, `${localPath(written, folder, home)}.pub`, 64 * 1024);
  const line = 'text' in read ? read.text.trim() : '';
  return line === '' || line.includes('\n') ? null : line;
}

type TpuSection = Section<'tpu'>;

function checkTpuKeys(sections: Sections, tpu: TpuSection): void {
  const refuse = (key: keyof TpuSection, message: string): void => sections.problem(['tpu', key], message);
  const warn = (key: keyof TpuSection, message: string): void => sections.warning(['tpu', key], message);
  const isQueued = (tpu.allocation_mode ?? 'queued-resources') === 'queued-resources';
  const isPersistent = tpu.ownership === 'persistent' || tpu.adopt === true;
  const isMultislice = (tpu.node_count ?? 1) > 1;
  const hasAlternatives = (tpu.alternatives?.length ?? 0) > 0;
  if (tpu.adopt === true && tpu.ownership === 'ephemeral')
    refuse('adopt', 'contradicts ownership: ephemeral; remove one of them');
  if (tpu.adopt === true && tpu.name === undefined && !sections.has(['tpu', 'name']))
    refuse('name', 'is required with tpu.adopt: the exact name of the existing TPU');
  if (!isQueued && isMultislice)
    refuse('node_count', 'requires allocation_mode: queued-resources, which alone supports multislice');
  if (!isQueued && tpu.valid_until !== undefined)
    warn('valid_until', 'has no effect with allocation_mode: tpu-vm, which does not use a queue');
  if (tpu.reservation !== undefined && tpu.pricing !== undefined && tpu.pricing !== 'ondemand')
    refuse('pricing', `is ${tpu.pricing}, but reserved capacity is always ondemand; remove it, or tpu.reservation`);
  if (isPersistent && hasAlternatives) refuse('alternatives', 'have no meaning for an existing TPU; remove them');
  if (isPersistent && isMultislice) refuse('node_count', 'has no meaning for an existing TPU; remove it');
  if (tpu.alternatives_wait !== undefined && !hasAlternatives)
    warn('alternatives_wait', 'has no effect without tpu.alternatives');
}

function readAlternatives(
  sections: Sections,
  tpu: TpuSection,
  own: TpuAlternative,
  project: string,
): readonly TpuAlternative[] {
  const alternatives: TpuAlternative[] = [];
  const seen = new Set([keyOf(own)]);
  for (const [index, entry] of (tpu.alternatives ?? []).entries()) {
    const at = ['tpu', 'alternatives', index];
    const { zone = own.zone, accelerator = own.accelerator, pricing = own.pricing, version } = entry;
    const topology = entry.topology ?? (accelerator === own.accelerator ? own.topology : undefined);
    const alternative = readRequest(sections, at, { zone, accelerator, pricing, version, topology }, project, own);
    if (alternative === undefined) continue;
    if (seen.has(keyOf(alternative)))
      sections.warning(at, 'repeats an earlier alternative, so jobman requests it twice in each round');
    seen.add(keyOf(alternative));
    alternatives.push(alternative);
  }
  return alternatives;
}

function keyOf({ zone, accelerator, pricing, topology }: TpuAlternative): string {
  return JSON.stringify([zone, accelerator, pricing, topology]);
}

/** `own` is the job's first request, for an alternative to it. */
function readRequest(
  sections: Sections,
  path: readonly (string | number)[],
  tpu: Partial<TpuSection> & Pick<TpuAlternative, 'pricing'>,
  project: string | null,
  own?: TpuAlternative,
): TpuAlternative | undefined {
  const { zone, accelerator, pricing, topology } = tpu;
  if (!checkIsOffered(sections, path, tpu, project) || accelerator === undefined) return undefined;
  // Images work within one generation only; another generation needs the one that Google recommends.
  const generation = generationOf(accelerator);
  const isOfOwn = accelerator === own?.accelerator || generation === generationOf(own?.accelerator ?? '');
  const runtimeVersion = tpu.version ?? (isOfOwn ? own?.runtimeVersion : undefined) ?? generation?.runtimeVersion;
  if (runtimeVersion === undefined && !sections.has([...path, 'version'])) {
    const message = `is required: jobman does not know the runtime version of ${accelerator}`;
    sections.problem([...path, 'version'], message);
  }
  if (zone === undefined || runtimeVersion === undefined) return undefined;
  // Only the backend knows the price.
  const request = { zone, accelerator, pricing, runtimeVersion, ...omitUndefined({ topology }), pricePerHourUsd: null };
  checkTopology(sections, request, path);
  return request;
}

function checkTopology(
  sections: Sections,
  { accelerator, topology }: TpuAlternative,
  at: readonly (string | number)[],
): void {
  const known = findAccelerator(accelerator);
  if (topology === undefined || known === undefined) return;
  const chips = topology.split('x').reduce((product, side) => product * Number(side), 1);
  if (chips === known.chips) return;
  const message = `${topology} has ${chips} chips, but ${accelerator} has ${known.chips}`;
  sections.problem([...at, 'topology'], message, known.topology);
}

/** Several machines can share only a read-only disk. */
function readDisks(
  sections: Sections,
  tpu: TpuSection,
  alternatives: readonly TpuAlternative[],
): readonly DataDisk[] | undefined {
  if (tpu.data_disks === undefined || tpu.data_disks.length === 0) return undefined;
  const machines =
    Math.max(...alternatives.map(({ accelerator }) => findAccelerator(accelerator)?.workers ?? 1)) *
    (tpu.node_count ?? 1);
  return tpu.data_disks.flatMap(({ source, mode }, index) => {
    if (source === undefined) return [];
    if (mode === 'read-write' && machines > 1) {
      const message = `is read-write, but ${machines} workers can only share a disk that is read-only`;
      sections.problem(['tpu', 'data_disks', index, 'mode'], message);
    }
    return [{ source, mode: mode ?? (machines > 1 ? 'read-only' : 'read-write') }];
  });
}

function tpuNameFrom(jobName: string): string {
  const plain = jobName
    .replaceAll(jobIdPlaceholder, '')
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+/, '')
    .slice(0, 40)
    .replace(/-+$/, '');
  return plain === '' ? 'job' : plain;
}

/**
 * Reports values that the project's cloud most likely does not offer. Returns whether the type may be requested. The
 * project is null when none is named, which is reported separately.
 */
function checkIsOffered(
  sections: Sections,
  path: readonly (string | number)[],
  { accelerator: type, zone, version }: Partial<Pick<TpuSection, 'accelerator' | 'zone' | 'version'>>,
  project: string | null,
): boolean {
  const isGoogleProject = project !== null && project !== emulatorProject;
  const reportDoubt = isGoogleProject ? sections.warning : sections.problem;
  const qualifier = isGoogleProject
    ? 'that jobman knows; jobman requests it from Google anyway'
    : project === null
      ? 'that jobman knows'
      : 'of the TPU emulator';
  if (isGoogleProject && path.length === 1) checkProject(sections, project);

  const known = type === undefined ? undefined : findAccelerator(type);
  if (type !== undefined && known === undefined) {
    const at = [...path, 'accelerator'];
    const isMisspelled = isMisspelledType(type);
    const suggestion = suggestAccelerator(type);
    const example = suggestion === undefined && isMisspelled ? '; write a type and a size, such as v4-8' : '';
    const message = `"${type}" is not a TPU type ${isMisspelled ? 'that jobman knows' : qualifier}${example}`;
    if (gpuPattern.test(type))
      sections.problem(
        at,
        `"${type}" is a GPU, and this section is for TPUs; for GPUs see docs/hosts.md and docs/kubernetes.md`,
      );
    else (isMisspelled ? sections.problem : reportDoubt)(at, message, suggestion);
  }
  if (zone !== undefined) {
    const offering = known === undefined ? [] : zonesOffering(known);
    if (!zones.includes(zone)) {
      reportDoubt([...path, 'zone'], `"${zone}" is not a zone with TPUs ${qualifier}`, suggestZone(zone, offering));
    } else if (known !== undefined && !offering.includes(zone) && (offering.length > 0 || !isGoogleProject)) {
      const where =
        offering.length === 0
          ? 'no zone offers it'
          : offering.length === 1
            ? `only ${offering[0]} offers it`
            : `the zones that offer it are ${formatNames(offering)}`;
      const suggestion = offering.length === 1 ? undefined : didYouMean(zone, offering);
      reportDoubt(
        [...path, 'zone'],
        `${zone} has no ${known.type}${isGoogleProject ? ', as far as jobman knows' : ''}: ${where}`,
        suggestion,
      );
    }
  }
  // For an unknown type, which may be newer than the tables, an unknown version may be right too.
  if (version !== undefined && (known !== undefined || !isGoogleProject)) {
    checkVersion(sections, [...path, 'version'], version, known?.generation.name, isGoogleProject);
  }
  return type !== undefined && (known !== undefined || (isGoogleProject && !isMisspelledType(type)));
}

function checkProject(sections: Sections, project: string): void {
  if (project === placeholderProject) {
    sections.warning(['tpu', 'project'], `${project} is a placeholder; write the id of your Google Cloud project`);
    return;
  }
  if (project.includes(emulatorProject) || didYouMean(project, [emulatorProject]) === undefined) return;
  const message = `"${project}" is a Google Cloud project, where TPUs cost money, and not the TPU emulator`;
  sections.warning(['tpu', 'project'], message, emulatorProject);
}

/** Models of NVIDIA and AMD as other tools write them: `A100:8`, `nvidia-l4`, `H100-80GB`. */
const gpuPattern = /^(?:nvidia\b|gpu|rtx|[tpk]\d{1,3}|[abhl]\d{1,3}s?|v100|gb?\d{3}|gh200|mi\d{3}x?)(?:[^a-z0-9].*)?$/i;

/** Every type of Google's has letters, a hyphen and a number. Another spelling of a known type is a mistake too. */
function isMisspelledType(type: string): boolean {
  if (!/^[a-z][a-z0-9]*-[1-9]\d*$/.test(type)) return true;
  return generationOf(type) === undefined && parseSpelling(type) !== undefined;
}

function checkVersion(
  sections: Sections,
  at: readonly (string | number)[],
  version: string,
  generation: string | undefined,
  isGoogleProject: boolean,
): void {
  const suggestion = suggestRuntimeVersion(version);
  const madeFor = generationOfVersion(version);
  if (!isGoogleProject && !runtimeVersions.includes(version)) {
    sections.problem(
      at,
      `"${version}" is not a runtime version of the TPU emulator; remove it to use the default`,
      suggestion,
    );
  } else if (madeFor !== null) {
    if (generation === undefined || madeFor === generation) return;
    const message = `"${version}" is for ${madeFor}, but the TPU is a ${generation}; programs may not find its chips`;
    sections.warning(at, message);
  } else if (!runtimeVersions.includes(version) && suggestion !== undefined) {
    const message = `"${version}" is not a runtime version that jobman knows; jobman requests it from Google anyway`;
    sections.warning(at, message, suggestion);
  }
}

function formatNames(names: readonly string[]): string {
  const shown = names.slice(0, 4).join(', ');
  return names.length > 4 ? `${shown} and ${names.length - 4} more` : shown;
}
