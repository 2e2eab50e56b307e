// Capacity: the section `tpu` or `local`, as what is asked for, and whether a cloud has it. Google adds types and zones faster than
// tables are renewed, so there a doubt is a warning; what the built-in cloud does not have it will never have, so there it is a
// problem.

import {
  accelerator as knownType,
  generationOf,
  accelerator,
  acceleratorMeant,
  spelledAs,
} from '../catalogue/accelerators.ts';
import { given } from '../core/given.ts';
import {
  jobIdMark,
  nodeNameMark,
  type CapacitySpec,
  type DataDisk,
  type LocalSpec,
  type TpuPlace,
  type TpuSpec,
  builtInProject,
} from '../core/spec.ts';
import { minute } from '../core/time.ts';
import { readText, pathHere, type Surroundings } from './files.ts';
import type { Section } from './keys.ts';
import type { Sections } from './sections.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { generationOfVersion, runtimeVersionMeant, runtimeVersions } from '../catalogue/runtime-versions.ts';
import { zoneMeant, zones, zonesOffering } from '../catalogue/zones.ts';

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
    sections.problem(
      [],
      'nothing says where the job runs: add a section tpu, local: {} for this machine, or kubernetes: {} for a cluster',
    );
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
  const isAskable = checkOffered(sections, { tpu, project, at: ['tpu'] });
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

  const pricing = tpu.pricing ?? (tpu.reservation === undefined ? 'spot' : 'ondemand');
  const own: TpuPlace = {
    zone: tpu.zone,
    accelerator: tpu.accelerator,
    pricing,
    runtimeVersion: version,
    ...(tpu.topology === undefined ? {} : { topology: tpu.topology }),
    pricePerHour: null,
  };
  const ownership = tpu.ownership ?? (tpu.adopt === true ? 'standing' : 'owned');
  checkTogether(sections, tpu);
  checkTopology(sections, own, ['tpu']);
  const alternatives = readAlternatives(sections, tpu, own, project);
  const places = [own, ...alternatives];

  // The cloud is asked before the node has its full name, so here the name stands as it was written.
  const named = (text: string): string => text.replaceAll(nodeNameMark, name);
  return {
    kind: 'tpu',
    ownership,
    mode: tpu.allocation_mode ?? 'queued-resources',
    project,
    zone: tpu.zone,
    accelerator: tpu.accelerator,
    name,
    runtimeVersion: version,
    pricing,
    startupScript: script,
    networkTags: [...new Set((tpu.tags ?? []).map(named))],
    metadata: Object.fromEntries(Object.entries(tpu.metadata ?? {}).map(([key, value]) => [key, named(value)])),
    remoteUser,
    privateKey: readLoginKey(sections, around),
    // The backend knows the price of a type; a manifest does not.
    pricePerHour: null,
    // A stored spec is as short as its manifest.
    ...given({ topology: tpu.topology }),
    ...(alternatives.length === 0 ? {} : { alternatives }),
    // A queue is no refusal: without an end to the wait the others would never be asked.
    ...(alternatives.length === 0 ? {} : { alternativesWait: tpu.alternatives_wait ?? 15 * minute }),
    ...given({
      reservation: tpu.reservation,
      network: tpu.network,
      subnetwork: tpu.subnetwork,
      serviceAccount: tpu.service_account,
      dataDisks: readDisks(sections, tpu, places),
    }),
    ...(tpu.node_count === undefined || tpu.node_count === 1 ? {} : { nodeCount: tpu.node_count }),
    ...given({ validUntil: tpu.valid_until }),
  };
}

type Tpu = Section<'tpu'>;

function checkTogether(sections: Sections, tpu: Tpu): void {
  const isQueued = (tpu.allocation_mode ?? 'queued-resources') === 'queued-resources';
  const isStanding = tpu.ownership === 'standing' || tpu.adopt === true;
  if (tpu.adopt === true && tpu.ownership === 'owned') {
    sections.problem(['tpu', 'adopt'], 'and ownership: owned contradict each other; remove one of them');
  }
  if (tpu.adopt === true && tpu.name === undefined && !sections.has(['tpu', 'name'])) {
    sections.problem(['tpu', 'name'], 'must be given with tpu.adopt: it is the exact name of the TPU that exists');
  }
  if (!isQueued && tpu.node_count !== undefined && tpu.node_count > 1) {
    sections.problem(
      ['tpu', 'node_count'],
      'needs allocation_mode: queued-resources; only the queue makes several TPUs as one',
    );
  }
  if (!isQueued && tpu.valid_until !== undefined) {
    sections.warning(['tpu', 'valid_until'], 'has no effect with allocation_mode: tpu-vm, which waits in no queue');
  }
  if (tpu.reservation !== undefined && tpu.pricing !== undefined && tpu.pricing !== 'ondemand') {
    sections.problem(
      ['tpu', 'pricing'],
      `is ${tpu.pricing}, and reserved capacity is never; remove it, or tpu.reservation`,
    );
  }
  if (isStanding && (tpu.alternatives?.length ?? 0) > 0) {
    sections.problem(['tpu', 'alternatives'], 'are for TPUs that are asked for; one that exists is in one place');
  }
  if (isStanding && (tpu.node_count ?? 1) > 1) {
    sections.problem(['tpu', 'node_count'], 'is for TPUs that are asked for; one that exists is one');
  }
  if (tpu.alternatives_wait !== undefined && (tpu.alternatives?.length ?? 0) === 0) {
    sections.warning(['tpu', 'alternatives_wait'], 'has no effect without tpu.alternatives');
  }
}

function readAlternatives(sections: Sections, tpu: Tpu, own: TpuPlace, project: string): readonly TpuPlace[] {
  const places: TpuPlace[] = [];
  for (const [index, part] of (tpu.alternatives ?? []).entries()) {
    const at = ['tpu', 'alternatives', index];
    const asked = {
      zone: part.zone ?? own.zone,
      accelerator: part.accelerator ?? own.accelerator,
      version: part.version,
    };
    if (!checkOffered(sections, { tpu: asked, project, at })) continue;
    const runtimeVersion = part.version ?? imageFor(asked.accelerator, own);
    if (runtimeVersion === undefined) {
      const message = `must be given: jobman does not know ${asked.accelerator}, and so not which runtime version it wants`;
      sections.problem([...at, 'version'], message);
      continue;
    }
    const wired = part.topology ?? (asked.accelerator === own.accelerator ? own.topology : undefined);
    const place: TpuPlace = {
      zone: asked.zone,
      accelerator: asked.accelerator,
      pricing: part.pricing ?? own.pricing,
      runtimeVersion,
      ...(wired === undefined ? {} : { topology: wired }),
      pricePerHour: null,
    };
    checkTopology(sections, place, at);
    const isTwice = [own, ...places].some(
      (other) =>
        other.zone === place.zone &&
        other.accelerator === place.accelerator &&
        other.pricing === place.pricing &&
        other.topology === place.topology,
    );
    if (isTwice) sections.warning(at, 'is a place that is named before already, and is asked twice in each round');
    places.push(place);
  }
  return places;
}

/** The image for a type at another place: the section's own within a generation, else the one that Google names. */
function imageFor(type: string, own: TpuPlace): string | undefined {
  const generation = generationOf(type);
  if (type === own.accelerator || generation === generationOf(own.accelerator)) return own.runtimeVersion;
  return generation?.runtimeVersion;
}

function checkTopology(
  sections: Sections,
  { accelerator, topology }: TpuPlace,
  at: readonly (string | number)[],
): void {
  const known = knownType(accelerator);
  if (topology === undefined || known === undefined) return;
  const chips = topology.split('x').reduce((product, side) => product * Number(side), 1);
  if (chips === known.chips) return;
  const message = `${topology} is ${chips} chips, and ${accelerator} has ${known.chips}`;
  sections.problem([...at, 'topology'], message, known.topology);
}

/** The machines of a slice are several, and only what nobody writes to can be shared. */
function readDisks(sections: Sections, tpu: Tpu, places: readonly TpuPlace[]): readonly DataDisk[] | undefined {
  if (tpu.data_disks === undefined || tpu.data_disks.length === 0) return undefined;
  const machines =
    Math.max(...places.map(({ accelerator }) => knownType(accelerator)?.workers ?? 1)) * (tpu.node_count ?? 1);
  return tpu.data_disks.flatMap(({ source, mode }, index) => {
    if (source === undefined) return [];
    if (mode === 'read-write' && machines > 1) {
      const message = `is read-write, and ${machines} workers can share a disk only with read-only`;
      sections.problem(['tpu', 'data_disks', index, 'mode'], message);
    }
    return [{ source, mode: mode ?? (machines > 1 ? 'read-only' : 'read-write') }];
  });
}

function readStartupScript(sections: Sections, path: string, { door, folder, home }: Surroundings): string | undefined {
  const file = pathHere(path, folder, home);
  // Reading a FIFO or a device might never end.
  const isFile = door.look(file).kind !== 'stream';
  const read = isFile ? readText(door, file, startupScriptMost) : { why: 'is not a regular file' };
  if ('text' in read) return read.text;
  sections.problem(['tpu', 'startup_script'], `the file ${file} ${read.why}`);
  return undefined;
}

function readLoginKey(sections: Sections, { folder, home }: Surroundings): string | null {
  const key = sections.read('ssh')?.private_key;
  return key === undefined ? null : pathHere(key, folder, home);
}

function nameFrom(jobName: string): string {
  const plain = jobName
    .replaceAll(jobIdMark, '')
    .normalize('NFKD')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+/, '')
    .slice(0, 40)
    .replace(/-+$/, '');
  return plain === '' ? 'job' : plain;
}

// ------------------------------------------------------------------------------------------ what a cloud has

/** A request to a cloud. The project is null when none is named anywhere, which is a problem of its own. */
interface Asked {
  readonly tpu: Partial<Pick<Section<'tpu'>, 'accelerator' | 'zone' | 'version'>>;
  readonly project: string | null;
  readonly at: readonly (string | number)[];
}

/** Reports what the cloud of that project most likely does not have. Answers whether the type may be requested. */
function checkOffered(sections: Sections, { tpu, project, at }: Asked): boolean {
  const isGoogles = project !== null && project !== builtInProject;
  const doubt = isGoogles ? sections.warning : sections.problem;
  const has = isGoogles
    ? 'that jobman knows; Google is asked for it all the same'
    : project === null
      ? 'that jobman knows'
      : 'of the built-in cloud';
  if (isGoogles && at.length === 1) checkProject(sections, project);

  const { accelerator: type, zone, version } = tpu;
  const known = type === undefined ? undefined : accelerator(type);
  if (type !== undefined && known === undefined) {
    const isWrong = isMisspelt(type);
    const message = `"${type}" is no type of TPU ${isWrong ? 'that jobman knows' : has}`;
    (isWrong ? sections.problem : doubt)([...at, 'accelerator'], message, acceleratorMeant(type));
  }
  if (zone !== undefined) {
    const offering = known === undefined ? [] : zonesOffering(known);
    if (!zones.includes(zone)) {
      doubt([...at, 'zone'], `"${zone}" is no zone with TPUs ${has}`, zoneMeant(zone, offering));
    } else if (known !== undefined && !offering.includes(zone) && (offering.length > 0 || !isGoogles)) {
      const where = offering.length === 0 ? 'no zone has any' : `it is offered in ${listed(offering)}`;
      const near = offering.length === 1 ? offering[0] : didYouMean(zone, offering);
      doubt(
        [...at, 'zone'],
        `${zone} has no ${known.type}${isGoogles ? ', as far as jobman knows' : ''}: ${where}`,
        near,
      );
    }
  }
  // A type that is newer than the tables has an image that is.
  if (version !== undefined && (known !== undefined || !isGoogles)) {
    checkVersion(sections, [...at, 'version'], { version, generation: known?.generation.name, isGoogles });
  }
  return type !== undefined && (known !== undefined || (isGoogles && !isMisspelt(type)));
}

/** Nobody is kept from a project of Google's that is called nearly like the built-in cloud; but it is told. */
function checkProject(sections: Sections, project: string): void {
  if (project.includes(builtInProject) || didYouMean(project, [builtInProject]) === undefined) return;
  const message = `"${project}" is taken for a project of Google Cloud, where TPUs cost money; the built-in cloud is called otherwise`;
  sections.warning(['tpu', 'project'], message, builtInProject);
}

/** No name of Google's, whatever it may add: letters and a number with a hyphen between, and no other word for one we know. */
function isMisspelt(type: string): boolean {
  if (!/^[a-z][a-z0-9]*-[1-9]\d*$/.test(type)) return true;
  return generationOf(type) === undefined && spelledAs(type) !== undefined;
}

function checkVersion(
  sections: Sections,
  at: readonly (string | number)[],
  asked: { readonly version: string; readonly generation: string | undefined; readonly isGoogles: boolean },
): void {
  const { version, generation, isGoogles } = asked;
  const meant = runtimeVersionMeant(version);
  const madeFor = generationOfVersion(version);
  if (!isGoogles && !runtimeVersions.includes(version)) {
    sections.problem(
      at,
      `"${version}" is no runtime version of the built-in cloud; leave it out for the usual one`,
      meant,
    );
  } else if (madeFor !== null) {
    if (generation === undefined || madeFor === generation) return;
    const message = `"${version}" is made for ${madeFor}, and the TPU is a ${generation}: programs may not find its chips`;
    sections.warning(at, message);
  } else if (!runtimeVersions.includes(version) && meant !== undefined) {
    const message = `"${version}" is no runtime version that jobman knows; Google is asked for it all the same`;
    sections.warning(at, message, meant);
  }
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, 4).join(', ');
  return names.length > 4 ? `${shown} and ${names.length - 4} more` : shown;
}
