// Making a TPU, and making it anew. Each is a few orders to the cloud with looks in between. Whoever stops waiting is told what
// stands and how to go on.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { standingSpec } from '../../../lab/run.ts';
import type { ReapplyOptions, Say } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import type { Place, TpuNode } from '../api.ts';
import { untilLetIn } from './answering.ts';
import { cannotTell, refuseOfOneJob, stateWord } from './look.ts';
import { make, pricingWord } from './make.ts';
import type { NodeLook } from './look.ts';
import type { ChangeParts } from './parts.ts';
import { remove } from './remove.ts';

/** See TpuDesk.apply. */
export async function applyTpu(parts: ChangeParts, tpu: LabTpu, say: Say, signal: AbortSignal): Promise<void> {
  const look = await parts.look(tpu);
  if (look.kind === 'unknown') throw cannotTell(tpu, look.says);
  if (look.kind === 'there' || look.queued !== null) {
    const how = look.kind === 'there' ? `it is ${stateWord(look)}` : `it waits in Google's queue (${stateWord(look)})`;
    throw new JobmanError(`${tpu.name} is there already: ${how}.`, exitCode.conflict, [
      `tpu reapply ${tpu.name}    deletes it and makes it anew`,
    ]);
  }
  await make(parts, tpu, { seen: null }, say, signal);
  await untilLetIn(parts, tpu, say, signal);
}

/** See TpuDesk.reapply. */
export async function reapplyTpu(
  parts: ChangeParts,
  tpu: LabTpu,
  say: Say,
  signal: AbortSignal,
  { anyPricing = false, made }: ReapplyOptions,
): Promise<void> {
  const look = await parts.look(tpu);
  if (look.kind === 'unknown') throw cannotTell(tpu, look.says);
  if (look.kind === 'absent' && look.queued === null && made === undefined) {
    say(`${tpu.name} is not there; making it`);
    await make(parts, tpu, { seen: look.place, joins: true }, say, signal);
    return untilLetIn(parts, tpu, say, signal);
  }
  if (made !== undefined && (look.kind !== 'there' || look.node.createTime !== made)) {
    throw isAnother(tpu, look);
  }
  // A node or queued resource was found in exactly one location.
  const place = look.place as Place;
  // A mistake in the new TPU is found before anything is deleted.
  standingSpec(tpu, parts.site, { project: parts.project, seenIn: place.zone });
  refuseOfOneJob(tpu, look);
  if (look.kind === 'there') checkNode(tpu, look.node, anyPricing);
  await remove(parts, tpu, look, say, signal, {
    stopped: `${tpu.name} is being deleted, and was not created again`,
    late: `${tpu.name} is not gone yet, and was not created again`,
    hint: `tpu apply ${tpu.name}    creates it once it is gone`,
  });
  const named = look.kind === 'there' ? look.node.metadata?.['owner'] : undefined;
  try {
    await make(parts, tpu, { seen: place, joins: true, owner: named }, say, signal);
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code === exitCode.interrupted) throw error;
    throw new JobmanError(
      `${tpu.name} was deleted, and making it anew failed: ${error.message}`,
      error.code,
      [...error.lines.filter((line) => !line.startsWith('tpu ')), `tpu apply ${tpu.name}    goes on from here`],
      { cause: error },
    );
  }
  await untilLetIn(parts, tpu, say, signal);
}

/** See TpuDesk.delete. */
export async function deleteTpu(
  parts: ChangeParts,
  tpu: LabTpu,
  say: Say,
  signal: AbortSignal,
  { made }: Pick<ReapplyOptions, 'made'>,
): Promise<boolean> {
  const look = await parts.look(tpu);
  if (look.kind === 'unknown') throw cannotTell(tpu, look.says);
  if (look.kind === 'absent' && look.queued === null) return false;
  if (made !== undefined && (look.kind !== 'there' || look.node.createTime !== made)) throw isAnother(tpu, look);
  refuseOfOneJob(tpu, look);
  await remove(parts, tpu, look, say, signal, {
    stopped: `The cloud is deleting ${tpu.name}; the deletion continues without this command`,
    late: `${tpu.name} is not gone yet; the deletion continues without this command`,
    hint: `tpu describe ${tpu.name}    shows when it is gone`,
  });
  return true;
}

function isAnother(tpu: LabTpu, look: Exclude<NodeLook, { readonly kind: 'unknown' }>): JobmanError {
  return new JobmanError(
    `${tpu.name} was deleted or created again by another user meanwhile: it is ${stateWord(look)} now. Nothing was changed.`,
    exitCode.conflict,
    [`tpu describe ${tpu.name}    says how it is and who uses it`],
  );
}

/** Deleting what is another thing than the registry says would exchange it for something else. */
function checkNode(tpu: LabTpu, node: TpuNode, anyPricing: boolean): void {
  const { acceleratorType: type, schedulingConfig: { spot = false, preemptible = false } = {} } = node;
  const pricing = spot ? 'spot' : preemptible ? 'preemptible' : 'ondemand';
  if (type !== undefined && type !== tpu.accelerator) {
    throw new JobmanError(
      `${tpu.name} is a ${type} in the cloud and a ${tpu.accelerator} in the registry. Nothing was changed.`,
      exitCode.conflict,
      [`tpu register ${tpu.name} type=${type}    corrects the registry`],
    );
  }
  if (pricing !== tpu.pricing && !anyPricing) {
    throw new JobmanError(
      `${tpu.name} is ${pricingWord(pricing)} in the cloud and ${pricingWord(tpu.pricing)} in the registry. Nothing was changed.`,
      exitCode.conflict,
      [`tpu register ${tpu.name} pricing=${pricing}    corrects the registry`],
    );
  }
}
