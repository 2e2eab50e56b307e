// Restarting a TPU: by the cloud where it stops TPUs of that kind, else by a reboot of each of its machines.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { Say } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { idOf } from '../api.ts';
import { outcomeOf } from '../capacity.ts';
import {
  bootScript,
  failureOf,
  refusedBy,
  refuseOfOneJob,
  stateWord,
  untilAnswering,
  untilNode,
  type ChangeParts,
} from './progress.ts';

export async function restartTpu(parts: ChangeParts, tpu: LabTpu, say: Say, signal: AbortSignal): Promise<void> {
  const { name } = tpu;
  const look = await parts.find(tpu);
  const state = stateWord(look);
  if (look.kind === 'absent') {
    throw new JobmanError(`${name} is not there (${state}), so there is nothing to restart.`, exitCode.conflict, [
      `tpu apply ${name}    makes it`,
    ]);
  }
  if (state !== 'ready' && state !== 'stopped') {
    throw new JobmanError(`${name} is ${state}; only what is ready or stopped can be restarted.`, exitCode.conflict, [
      `tpu reapply ${name}    deletes it and makes it anew`,
    ]);
  }
  refuseOfOneJob(tpu, look);
  const { place } = look;
  const api = parts.apiFor(place.project);
  const goOn = `tpu restart ${name}    goes on from here`;
  const untilState = (wanted: string, interrupted: string, check = (): Promise<void> => Promise.resolve()) =>
    untilNode(parts, say, signal, {
      place,
      name,
      interrupted,
      hint: goOn,
      late: `${name} is not ${wanted} yet`,
      absent() {
        throw new JobmanError(`${name} is not there any more.`, exitCode.conflict);
      },
      async there(_node, state) {
        if (state !== wanted) await check();
        return state === wanted;
      },
    });
  if (state === 'ready') {
    say(`stopping ${name}`);
    const stopped = await api.stopNode(place, name);
    if (!stopped.ok) {
      const outcome = outcomeOf(stopped);
      // Slices of several machines, and what may be preempted, cannot be stopped: their machines are told to begin again.
      if (outcome.kind === 'refused' || stopped.status === 'FAILED_PRECONDITION') {
        say(`the cloud stops no TPU of this kind; rebooting its machines`);
        return reboot(parts, tpu, say, signal);
      }
      if (outcome.kind !== 'unclear') throw refusedBy(`${name} was not stopped`, stopped.error);
    }
    await untilState('stopped', `${name} is being stopped, and was not started again`);
  }
  say(`starting ${name}`);
  const started = await api.startNode(place, name);
  if (!started.ok && outcomeOf(started).kind !== 'unclear') {
    const error = refusedBy(`${name} was stopped, and starting it again failed`, started.error);
    throw new JobmanError(error.message, error.code, [...error.lines, goOn]);
  }
  const operation = started.ok ? idOf(started.value.name) : null;
  await untilState('ready', `${name} is being started, and comes without this command`, async () => {
    const failure = operation === null ? undefined : await failureOf(api, place, operation);
    if (failure === undefined) return;
    const error = refusedBy(`${name} was stopped, and starting it again failed`, failure);
    throw new JobmanError(error.message, error.code, [...error.lines, goOn]);
  });
  await untilAnswering(parts, tpu, say, signal);
}

const rebootScript = `if [ "$(id -u)" -eq 0 ]; then systemctl reboot; else sudo -n systemctl reboot; fi 2>&1`;

async function reboot(parts: ChangeParts, tpu: LabTpu, say: Say, signal: AbortSignal): Promise<void> {
  const { name } = tpu;
  const before = await parts.onWorkers(tpu, bootScript, signal);
  const silent = before.find(({ kind }) => kind === 'no_answer');
  if (silent?.kind === 'no_answer') {
    throw new JobmanError(
      `${name} cannot be restarted: worker ${silent.worker} does not answer, and the cloud stops no TPU of this kind.`,
      exitCode.unreachable,
      [silent.says, `tpu reapply ${name}    deletes it and makes it anew`],
    );
  }
  for (const answer of await parts.onWorkers(tpu, rebootScript, signal)) {
    if (answer.kind === 'no_answer' || answer.code === 0) continue;
    throw new JobmanError(`${name} cannot be restarted: worker ${answer.worker} does not reboot.`, exitCode.failed, [
      answer.output.trim(),
      `tpu reapply ${name}    deletes it and makes it anew`,
    ]);
  }
  const boots = new Map(before.map((one) => [one.worker, one.kind === 'ended' ? one.output.trim() : '']));
  await untilAnswering(parts, tpu, say, signal, { isNew: (worker, boot) => boots.get(worker) !== boot });
}
