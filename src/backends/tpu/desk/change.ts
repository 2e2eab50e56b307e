// Making a TPU, making it again, and deleting it: a few requests to the cloud with observations in between. A request without an
// answer does not count as done; an observation decides. A person who stops waiting reads what is true and how to continue.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { standingSpec } from '../../../lab/run.ts';
import type { ReapplyOptions, Say } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { idOf, isNotThere, type Answer, type Operation, type Place, type TpuNode } from '../api.ts';
import { outcomeOf, standingBody } from '../capacity.ts';
import { hostsOf } from '../meaning.ts';
import {
  cannotTell,
  failureOf,
  refusedBy,
  refuseOfOneJob,
  stateWord,
  teller,
  untilLetIn,
  untilNode,
  untilTrue,
  type ChangeParts,
  type FoundNode,
} from './progress.ts';

export async function applyTpu(parts: ChangeParts, tpu: LabTpu, say: Say, signal: AbortSignal): Promise<void> {
  const look = await parts.find(tpu);
  if (look.kind === 'there' || look.queued !== null) {
    const how = look.kind === 'there' ? `it is ${stateWord(look)}` : `it waits in Google's queue (${stateWord(look)})`;
    throw new JobmanError(`${tpu.name} is there already: ${how}.`, exitCode.conflict, [
      `tpu reapply ${tpu.name}    deletes it and makes it anew`,
    ]);
  }
  await make(parts, tpu, { seen: null }, say, signal);
  await untilLetIn(parts, tpu, say, signal);
}

export async function reapplyTpu(
  parts: ChangeParts,
  tpu: LabTpu,
  say: Say,
  signal: AbortSignal,
  { anyPricing = false, made }: ReapplyOptions,
): Promise<void> {
  const look = await parts.find(tpu);
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

export async function deleteTpu(
  parts: ChangeParts,
  tpu: LabTpu,
  say: Say,
  signal: AbortSignal,
  { made }: Pick<ReapplyOptions, 'made'>,
): Promise<boolean> {
  const look = await parts.find(tpu);
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

function isAnother(tpu: LabTpu, look: FoundNode): JobmanError {
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

/**
 * Makes it where the registry says, or where it was `seen`, and waits until it is ready. Where somebody else makes it at the
 * same moment, their order is waited for if `joins`, and (4) thrown otherwise. Throws JobmanError.
 */
async function make(
  parts: ChangeParts,
  tpu: LabTpu,
  {
    seen,
    joins = false,
    owner,
  }: {
    readonly seen: Place | null;
    readonly joins?: boolean;
    /** Of the TPU that this one replaces: a person who makes it again does not become its owner. */
    readonly owner?: string | undefined;
  },
  say: Say,
  signal: AbortSignal,
): Promise<void> {
  const { name } = tpu;
  const spec = standingSpec(tpu, parts.site, { project: parts.project, seenIn: seen?.zone ?? null });
  const place: Place = { project: spec.project, zone: spec.zone };
  const api = parts.apiFor(spec.project);
  const body = standingBody(spec, await parts.sshKeys(), {
    ...(await parts.maker()),
    ...(owner === undefined ? {} : { owner }),
  });
  if (signal.aborted) throw new JobmanError(`Interrupted before ${name} was asked for.`, exitCode.interrupted);
  say(`asking for ${name}: ${spec.accelerator}, ${pricingWord(spec.pricing)}, in ${spec.zone}`);
  const answer = await api.createNode(place, name, body);
  const outcome = outcomeOf(answer);
  const isOthers = !answer.ok && answer.status === 'ALREADY_EXISTS';
  if (isOthers && !joins) {
    throw new JobmanError(`${name} is there already: somebody else has made it just now.`, exitCode.conflict);
  }
  if (isOthers) say(`somebody else is making ${name}; waiting for it`);
  else if (!answer.ok && outcome.kind !== 'unclear') throw refusedBy(`${name} was not made`, answer.error);
  if (outcome.kind === 'unclear')
    say(`the cloud has not said whether it took the order (${outcome.evidence.detail}); looking`);
  const operation = answer.ok ? idOf(answer.value.name) : null;
  let missing = 0;
  await untilNode(parts, say, signal, {
    place,
    name,
    interrupted: `${name} is being made, and becomes ready without this command`,
    hint: `tpu check-status ${name}    says when it is ready`,
    late: `${name} is not ready yet`,
    there(node, state) {
      if (state === 'preempted' || state === 'terminated')
        throw new JobmanError(`${name} was ${state} before it was ready.`, exitCode.failed, [
          `tpu reapply ${name}    tries again`,
        ]);
      return state === 'ready' && hostsOf(node).length > 0;
    },
    async absent() {
      missing += 1;
      const failure = operation === null ? undefined : await failureOf(api, place, operation);
      if (failure !== undefined) throw refusedBy(`${name} was not made`, failure);
      // Nothing was taken in hand, or it shows late.
      if (operation === null && missing > 5)
        throw new JobmanError(`${name} was not made: the cloud knows nothing of it.`, exitCode.unreachable, [
          `tpu apply ${name}    tries again`,
        ]);
      return false;
    },
  });
}

function pricingWord(pricing: LabTpu['pricing']): string {
  return pricing === 'ondemand' ? 'on demand' : pricing;
}

async function remove(
  parts: ChangeParts,
  tpu: LabTpu,
  look: FoundNode,
  say: Say,
  signal: AbortSignal,
  /** Where the wait for its end is broken off, or takes too long: what is true then, and a line to type. */
  words: { readonly stopped: string; readonly late: string; readonly hint: string },
): Promise<void> {
  const { name } = tpu;
  // A node or queued resource was found in exactly one location.
  const place = look.place as Place;
  const api = parts.apiFor(place.project);
  const queuedId = look.kind === 'there' ? idOf(look.node.queuedResource ?? '') : name;
  let isQueued = queuedId !== '';
  if (look.kind === 'there' && isQueued) {
    const queued = await api.getQueuedResource(place, queuedId);
    if (!queued.ok && !isNotThere(queued)) throw cannotTell(tpu, queued.error.raw);
    isQueued = queued.ok;
    if (queued.ok && (queued.value.tpu?.nodeSpec?.length ?? 0) > 1)
      throw new JobmanError(
        `${name} is one of several TPUs of the queued resource ${queuedId}, which would all go with it. Nothing was changed.`,
        exitCode.conflict,
      );
  }
  if (signal.aborted) throw new JobmanError(`Interrupted; nothing was changed.`, exitCode.interrupted);
  const order = (): Promise<Answer<Operation>> =>
    isQueued ? api.deleteQueuedResource(place, queuedId) : api.deleteNode(place, name);
  say(`deleting ${name}, which is ${stateWord(look)}`);
  const ordered = await order();
  if (!ordered.ok && !isNotThere(ordered)) {
    const outcome = outcomeOf(ordered);
    if (outcome.kind !== 'unclear') throw refusedBy(`${name} was not deleted, and nothing was changed`, ordered.error);
    say(`the cloud has not said whether it took the order (${ordered.error.message}); looking`);
  }
  const told = teller(say);
  let turns = 0;
  await untilTrue(parts.lookEvery, signal, {
    interrupted: words.stopped,
    hint: words.hint,
    late: words.late,
    isSo: async () => {
      const node = await api.getNode(place, name);
      const queued = isQueued ? await api.getQueuedResource(place, queuedId) : undefined;
      const unknown = [node, queued].find((one) => one !== undefined && !one.ok && !isNotThere(one));
      if (unknown?.ok === false) {
        told(`the cloud does not say how it is: ${unknown.error.raw}`);
        return false;
      }
      if (!node.ok && queued?.ok !== true) return true;
      // Somebody else was quicker: what is there now is not what was to be deleted.
      if (node.ok && look.kind === 'there' && node.value.createTime !== look.node.createTime) return true;
      const state = node.ok ? node.value.state : queued?.ok === true ? queued.value.state?.state : undefined;
      told(`${name} is ${(state ?? 'STATE_UNSPECIFIED').toLowerCase()}`);
      turns += 1;
      // An order that came while something else was under way is taken and given up again in its operation.
      if (state !== 'DELETING' && state !== 'SUSPENDING' && turns % 10 === 0) await order();
      return false;
    },
  });
  say(`${name} is gone`);
  parts.forget(name, look.kind === 'there' ? look.node.createTime : undefined);
}
