// Making a TPU: asked for once, then looked at until it is ready. An order that got lost is not taken for done; a look decides.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { standingSpec } from '../../../lab/run.ts';
import type { Say } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { idOf } from '../api.ts';
import type { Place } from '../api.ts';
import { hostsOf } from '../meaning.ts';
import { outcomeOf } from '../outcomes.ts';
import { standingBody } from '../request.ts';
import type { ChangeParts } from './parts.ts';
import { failureOf, refusedBy } from './refusal.ts';
import { untilNode } from './wait.ts';

/**
 * Makes it where the registry says, or where it was `seen`, and waits until it is ready. Where somebody else makes it at the
 * same moment, their order is waited for if `joins`, and (4) thrown otherwise. Throws JobmanError.
 */
export async function make(
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

/** How it is paid for, in words. */
export function pricingWord(pricing: LabTpu['pricing']): string {
  return pricing === 'ondemand' ? 'on demand' : pricing;
}
