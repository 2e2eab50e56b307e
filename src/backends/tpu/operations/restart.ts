// Restarts a TPU: by the cloud if it can stop this kind of TPU, otherwise by a reboot of each machine.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { resourceId } from '../api.ts';
import { outcomeOf } from '../capacity.ts';
import {
  bootIdScript,
  operationError,
  refusalError,
  refuseTpuOfJob,
  stateName,
  waitForWorkers,
  waitForNode,
  type ChangeParts,
} from './wait.ts';

export async function restartTpu(parts: ChangeParts, tpu: LabTpu): Promise<void> {
  const { name } = tpu;
  const current = await parts.find(tpu);
  const state = stateName(current);
  if (current.kind === 'absent') {
    throw new JobmanError(`${name} does not exist (${state}), so it cannot be restarted.`, exitCode.conflict, [
      `tpu apply ${name}    creates it`,
    ]);
  }
  if (state !== 'ready' && state !== 'stopped') {
    throw new JobmanError(`${name} is ${state}; only a ready or stopped TPU can be restarted.`, exitCode.conflict, [
      `tpu reapply ${name}    deletes it and creates it again`,
    ]);
  }
  refuseTpuOfJob(tpu, current);
  const { location } = current;
  const api = parts.apiFor(location.project);
  const retryHint = `tpu restart ${name}    tries again`;
  const waitForState = (wanted: string, interrupted: string, check = (): Promise<void> => Promise.resolve()) =>
    waitForNode(parts, {
      location,
      name,
      interruptedMessage: interrupted,
      hint: retryHint,
      timeoutMessage: `${name} is not ${wanted} yet`,
      onAbsent() {
        throw new JobmanError(`${name} no longer exists.`, exitCode.conflict);
      },
      async onFound(_node, state) {
        if (state !== wanted) await check();
        return state === wanted;
      },
    });
  if (state === 'ready') {
    parts.report(`stopping ${name}`);
    const stopped = await api.stopNode(location, name);
    if (!stopped.ok) {
      const outcome = outcomeOf(stopped);
      // The cloud cannot stop multi-host and preemptible TPUs: reboot their machines.
      if (outcome.kind === 'refused' || stopped.status === 'FAILED_PRECONDITION') {
        parts.report(`the cloud cannot stop this kind of TPU; rebooting its workers`);
        return reboot(parts, tpu);
      }
      if (outcome.kind !== 'unclear') throw refusalError(`${name} was not stopped`, stopped.error);
    }
    await waitForState('stopped', `${name} is being stopped and was not started again`);
  }
  parts.report(`starting ${name}`);
  const started = await api.startNode(location, name);
  if (!started.ok && outcomeOf(started).kind !== 'unclear') {
    const error = refusalError(`${name} was stopped, but starting it again failed`, started.error);
    throw new JobmanError(error.message, error.code, [...error.lines, retryHint]);
  }
  const operation = started.ok ? resourceId(started.value.name) : null;
  await waitForState('ready', `${name} is being started; it becomes ready without this command`, async () => {
    const failure = operation === null ? undefined : await operationError(api, location, operation);
    if (failure === undefined) return;
    const error = refusalError(`${name} was stopped, but starting it again failed`, failure);
    throw new JobmanError(error.message, error.code, [...error.lines, retryHint]);
  });
  await waitForWorkers(parts, tpu);
}

const rebootScript = `if [ "$(id -u)" -eq 0 ]; then systemctl reboot; else sudo -n systemctl reboot; fi 2>&1`;

async function reboot(parts: ChangeParts, tpu: LabTpu): Promise<void> {
  const { name } = tpu;
  const before = await parts.onWorkers(tpu, bootIdScript);
  const unreachable = before.find(({ kind }) => kind === 'no_answer');
  if (unreachable?.kind === 'no_answer') {
    throw new JobmanError(
      `${name} cannot be restarted: worker ${unreachable.worker} does not answer, and the cloud cannot stop this kind of TPU.`,
      exitCode.unreachable,
      [unreachable.message, `tpu reapply ${name}    deletes it and creates it again`],
    );
  }
  for (const answer of await parts.onWorkers(tpu, rebootScript)) {
    if (answer.kind === 'no_answer' || answer.code === 0) continue;
    throw new JobmanError(`${name} cannot be restarted: worker ${answer.worker} does not reboot.`, exitCode.failed, [
      answer.output.trim(),
      `tpu reapply ${name}    deletes it and creates it again`,
    ]);
  }
  const boots = new Map(before.map((one) => [one.worker, one.kind === 'ended' ? one.output.trim() : '']));
  await waitForWorkers(parts, tpu, { isNew: (worker, boot) => boots.get(worker) !== boot });
}
