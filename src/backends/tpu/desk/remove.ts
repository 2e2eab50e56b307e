// Deleting a TPU that people share, as the first half of a re-apply or for good.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { Say } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { idOf } from '../api.ts';
import type { Operation, Place } from '../api.ts';
import type { Answer } from '../call.ts';
import { isNotThere } from '../errors.ts';
import { outcomeOf } from '../outcomes.ts';
import { cannotTell, stateWord } from './look.ts';
import type { NodeLook } from './look.ts';
import type { ChangeParts } from './parts.ts';
import { refusedBy } from './refusal.ts';
import { teller, untilTrue } from './wait.ts';

/** Deletes it, with the queued resource that made it, and sees it gone. Throws JobmanError, saying what stands. */
export async function remove(
  parts: ChangeParts,
  tpu: LabTpu,
  look: Exclude<NodeLook, { readonly kind: 'unknown' }>,
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
