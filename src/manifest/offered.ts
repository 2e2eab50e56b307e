// Offered: whether a cloud has what the section `tpu` asks for. Google adds types and zones faster than tables are
// renewed, so there a doubt is a warning; what the built-in cloud does not have it will never have, so there it is a problem.

import { accelerator, acceleratorMeant, generationOf, spelledAs } from '../catalogue/accelerators.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { generationOfVersion, runtimeVersionMeant, runtimeVersions } from '../catalogue/runtime-versions.ts';
import { builtInProject } from '../core/spec.ts';
import { zoneMeant, zones, zonesOffering } from '../catalogue/zones.ts';
import type { Section } from './keys.ts';
import type { Sections } from './sections.ts';

/** A request to a cloud. The project is null when none is named anywhere, which is a problem of its own. */
interface Asked {
  readonly tpu: Partial<Pick<Section<'tpu'>, 'accelerator' | 'zone' | 'version'>>;
  readonly project: string | null;
  /** The path of the request in the manifest. */
  readonly at: readonly (string | number)[];
}

/**
 * Says what the cloud of that project most likely does not have. Answers whether the type may be asked for: one that no
 * table knows may be, of Google, where the manifest names the runtime version that we could not know either.
 */
export function checkOffered(sections: Sections, { tpu, project, at }: Asked): boolean {
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

/** A few of them, and how many more. */
function listed(names: readonly string[]): string {
  const shown = names.slice(0, 4).join(', ');
  return names.length > 4 ? `${shown} and ${names.length - 4} more` : shown;
}
