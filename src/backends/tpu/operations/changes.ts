// Creates, recreates and deletes a shared TPU. After a request without an answer, an observation decides.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { persistentTpuSpec } from '../../../lab/run-spec.ts';
import type { ReapplyOptions } from '../../../lab/tpu-operations.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { resourceId, isNotFound, type Answer, type Operation, type Location, type TpuNode } from '../api.ts';
import { outcomeOf, persistentTpuBody } from '../capacity.ts';
import { hostsOf } from '../resources.ts';
import {
  unknownStateError,
  operationError,
  refusalError,
  refuseTpuOfJob,
  stateName,
  skipRepeats,
  waitForLogin,
  waitForNode,
  waitUntil,
  type ChangeParts,
  type KnownNodeResult,
  bootIdScript,
  waitForWorkers,
} from './wait.ts';

export async function applyTpu(parts: ChangeParts, tpu: LabTpu): Promise<void> {
  const current = await parts.find(tpu);
  if (current.kind === 'present' || current.queued !== null) {
    const stateText =
      current.kind === 'present'
        ? `it is ${stateName(current)}`
        : `it is waiting in Google's queue (${stateName(current)})`;
    throw new JobmanError(`${tpu.name} exists: ${stateText}.`, exitCode.conflict, [
      `tpu reapply ${tpu.name}    deletes it and creates it again`,
    ]);
  }
  await createAndWait(parts, tpu, { foundAt: null });
  await waitForLogin(parts, tpu);
}

export async function reapplyTpu(
  parts: ChangeParts,
  tpu: LabTpu,
  { anyPricing = false, uid }: ReapplyOptions,
): Promise<void> {
  const current = await parts.find(tpu);
  if (current.kind === 'absent' && current.queued === null && uid === undefined) {
    parts.report(`${tpu.name} does not exist; creating it`);
    await createAndWait(parts, tpu, { foundAt: current.location, joinsOtherCreate: true });
    return waitForLogin(parts, tpu);
  }
  if (uid !== undefined && (current.kind !== 'present' || current.node.createTime !== uid)) {
    throw changedByOthersError(tpu, current);
  }
  // A node or queued resource was found in exactly one location.
  const location = current.location as Location;
  // Find mistakes in the new spec before anything is deleted.
  persistentTpuSpec(tpu, parts.site, { project: parts.project, foundZone: location.zone });
  refuseTpuOfJob(tpu, current);
  if (current.kind === 'present') refuseRegistryMismatch(tpu, current.node, anyPricing);
  await deleteAndWait(parts, tpu, current, {
    interruptedMessage: `${tpu.name} is being deleted and was not created again`,
    timeoutMessage: `${tpu.name} is not deleted yet and was not created again`,
    hint: `tpu apply ${tpu.name}    creates it once it is deleted`,
  });
  const owner = current.kind === 'present' ? current.node.metadata?.['owner'] : undefined;
  try {
    await createAndWait(parts, tpu, { foundAt: location, joinsOtherCreate: true, owner });
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code === exitCode.interrupted) throw error;
    throw new JobmanError(
      `${tpu.name} was deleted, but creating it again failed: ${error.message}`,
      error.code,
      [...error.lines.filter((line) => !line.startsWith('tpu ')), `tpu apply ${tpu.name}    creates it`],
      { cause: error },
    );
  }
  await waitForLogin(parts, tpu);
}

export async function deleteTpu(
  parts: ChangeParts,
  tpu: LabTpu,
  { uid }: Pick<ReapplyOptions, 'uid'>,
): Promise<boolean> {
  const current = await parts.find(tpu);
  if (current.kind === 'absent' && current.queued === null) return false;
  if (uid !== undefined && (current.kind !== 'present' || current.node.createTime !== uid))
    throw changedByOthersError(tpu, current);
  refuseTpuOfJob(tpu, current);
  await deleteAndWait(parts, tpu, current, {
    interruptedMessage: `The cloud is deleting ${tpu.name}; the deletion continues without this command`,
    timeoutMessage: `${tpu.name} is not deleted yet; the deletion continues without this command`,
    hint: `tpu describe ${tpu.name}    shows when it is deleted`,
  });
  return true;
}

function changedByOthersError(tpu: LabTpu, current: KnownNodeResult): JobmanError {
  return new JobmanError(
    `Another user has deleted or created ${tpu.name} in the meantime: it is ${stateName(current)} now. Nothing was changed.`,
    exitCode.conflict,
    [`tpu describe ${tpu.name}    shows its state and its users`],
  );
}

/** A recreated TPU follows the registry, so it would replace a different TPU. */
function refuseRegistryMismatch(tpu: LabTpu, node: TpuNode, anyPricing: boolean): void {
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
      `${tpu.name} is ${formatPricing(pricing)} in the cloud and ${formatPricing(tpu.pricing)} in the registry. Nothing was changed.`,
      exitCode.conflict,
      [`tpu register ${tpu.name} pricing=${pricing}    corrects the registry`],
    );
  }
}

/**
 * Creates the TPU in the registry's zone or at `foundAt`, and waits until it is ready. If another user creates it at
 * the same time: waits for it with `joinsOtherCreate`, otherwise throws JobmanError (conflict).
 */
async function createAndWait(
  parts: ChangeParts,
  tpu: LabTpu,
  options: {
    readonly foundAt: Location | null;
    readonly joinsOtherCreate?: boolean;
    /** The owner of the replaced TPU: recreating it does not change the owner. */
    readonly owner?: string | undefined;
  },
): Promise<void> {
  const { name } = tpu;
  const { foundAt, joinsOtherCreate = false, owner } = options;
  const spec = persistentTpuSpec(tpu, parts.site, { project: parts.project, foundZone: foundAt?.zone ?? null });
  const location: Location = { project: spec.project, zone: spec.zone };
  const api = parts.apiFor(spec.project);
  const body = persistentTpuBody(spec, await parts.sshKeys(), {
    ...(await parts.creator()),
    ...(owner === undefined ? {} : { owner }),
  });
  if (parts.signal.aborted) throw new JobmanError(`Interrupted before ${name} was requested.`, exitCode.interrupted);
  parts.report(`requesting ${name}: ${spec.accelerator}, ${formatPricing(spec.pricing)}, in ${spec.zone}`);
  const answer = await api.createNode(location, name, body);
  const outcome = outcomeOf(answer);
  const isAlreadyCreated = !answer.ok && answer.status === 'ALREADY_EXISTS';
  if (isAlreadyCreated && !joinsOtherCreate) {
    throw new JobmanError(`${name} exists: another user has just created it.`, exitCode.conflict);
  }
  if (isAlreadyCreated) parts.report(`another user is creating ${name}; waiting for it`);
  else if (!answer.ok && outcome.kind !== 'unclear') throw refusalError(`${name} was not created`, answer.error);
  if (outcome.kind === 'unclear')
    parts.report(`the cloud did not confirm the request (${outcome.evidence.message}); checking`);
  const operation = answer.ok ? resourceId(answer.value.name) : null;
  let missingChecks = 0;
  await waitForNode(parts, {
    location,
    name,
    interruptedMessage: `${name} is being created; the creation continues without this command`,
    hint: `tpu check-status ${name}    shows when it is ready`,
    timeoutMessage: `${name} is not ready yet`,
    onFound(node, state) {
      if (state === 'preempted' || state === 'terminated')
        throw new JobmanError(`${name} was ${state} before it was ready.`, exitCode.failed, [
          `tpu reapply ${name}    tries again`,
        ]);
      return state === 'ready' && hostsOf(node).length > 0;
    },
    async onAbsent() {
      missingChecks += 1;
      const failure = operation === null ? undefined : await operationError(api, location, operation);
      if (failure !== undefined) throw refusalError(`${name} was not created`, failure);
      // The cloud did not accept the request, or the node is not visible yet.
      if (operation === null && missingChecks > 5)
        throw new JobmanError(`${name} was not created: it does not exist in the cloud.`, exitCode.unreachable, [
          `tpu apply ${name}    tries again`,
        ]);
      return false;
    },
  });
}

function formatPricing(pricing: LabTpu['pricing']): string {
  return pricing === 'ondemand' ? 'on demand' : pricing;
}

async function deleteAndWait(
  parts: ChangeParts,
  tpu: LabTpu,
  current: KnownNodeResult,
  messages: { readonly interruptedMessage: string; readonly timeoutMessage: string; readonly hint: string },
): Promise<void> {
  const { name } = tpu;
  // A node or queued resource was found in exactly one location.
  const location = current.location as Location;
  const api = parts.apiFor(location.project);
  const queuedId = current.kind === 'present' ? resourceId(current.node.queuedResource ?? '') : name;
  let isQueued = queuedId !== '';
  if (current.kind === 'present' && isQueued) {
    const queued = await api.getQueuedResource(location, queuedId);
    if (!queued.ok && !isNotFound(queued)) throw unknownStateError(tpu, queued.error.raw);
    isQueued = queued.ok;
    if (queued.ok && (queued.value.tpu?.nodeSpec?.length ?? 0) > 1)
      throw new JobmanError(
        `${name} is one of several TPUs of the queued resource ${queuedId}, which would all be deleted. Nothing was changed.`,
        exitCode.conflict,
      );
  }
  if (parts.signal.aborted) throw new JobmanError(`Interrupted; nothing was changed.`, exitCode.interrupted);
  const requestDelete = (): Promise<Answer<Operation>> =>
    isQueued ? api.deleteQueuedResource(location, queuedId) : api.deleteNode(location, name);
  parts.report(`deleting ${name}, which is ${stateName(current)}`);
  const answer = await requestDelete();
  if (!answer.ok && !isNotFound(answer)) {
    const outcome = outcomeOf(answer);
    if (outcome.kind !== 'unclear') throw refusalError(`${name} was not deleted and nothing was changed`, answer.error);
    parts.report(`the cloud did not confirm the request (${answer.error.message}); checking`);
  }
  const reportChange = skipRepeats(parts.report);
  let checks = 0;
  await waitUntil(parts.checkInterval, parts.signal, {
    ...messages,
    isDone: async () => {
      const node = await api.getNode(location, name);
      const queued = isQueued ? await api.getQueuedResource(location, queuedId) : undefined;
      const unknown = [node, queued].find((one) => one !== undefined && !one.ok && !isNotFound(one));
      if (unknown?.ok === false) {
        reportChange(`the cloud does not report its state: ${unknown.error.raw}`);
        return false;
      }
      if (!node.ok && queued?.ok !== true) return true;
      // Another user has recreated it: the TPU to delete is gone.
      if (node.ok && current.kind === 'present' && node.value.createTime !== current.node.createTime) return true;
      const state = node.ok ? node.value.state : queued?.ok === true ? queued.value.state?.state : undefined;
      reportChange(`${name} is ${(state ?? 'STATE_UNSPECIFIED').toLowerCase()}`);
      checks += 1;
      // The cloud accepts a delete during another change and drops it in its operation, so repeat it.
      if (state !== 'DELETING' && state !== 'SUSPENDING' && checks % 10 === 0) await requestDelete();
      return false;
    },
  });
  parts.report(`${name} is deleted`);
  parts.forget(name, current.kind === 'present' ? current.node.createTime : undefined);
}

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
