// Creates, recreates, deletes and restarts a shared TPU, and waits for each change. After a request without an answer, an
// observation decides. A failed observation is unknown, and unknown is never absent.

import { setTimeout as pause } from 'node:timers/promises';
import type { Answer } from '../../../app/google.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { isPermanent } from '../../../core/decide/allocate.ts';
import type { CloudError } from '../../../core/model/job.ts';
import { minute, type Duration, type Instant } from '../../../core/model/time.ts';
import { persistentTpuSpec } from '../../../lab/run-spec.ts';
import type { Site } from '../../../lab/site.ts';
import {
  formatTpuState,
  type ReapplyOptions,
  type ReportProgress,
  type WorkerAnswer,
} from '../../../lab/tpu-operations.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import {
  classifyError,
  resourceId,
  isNotFound,
  type Operation,
  type Location,
  type QueuedResource,
  type TpuApi,
  type TpuNode,
} from '../api.ts';
import { outcomeOf, persistentTpuBody, type SharedTpuCreator } from '../capacity.ts';
import { hostsOf, nodeOwner, queuedOwner } from '../resources.ts';
import type { SshRoutes } from '../workers.ts';

export interface TpuOperationsParts {
  /** Used by this object only: `close` ends its connections. */
  readonly routes: SshRoutes;
  readonly closeRoutes: () => void;
  readonly apiFor: (project: string) => TpuApi;
  readonly project: string | null;
  readonly site: Pick<Site, 'zones' | 'remoteUser' | 'privateKey'>;
  /** The login on the workers if the site names none. */
  readonly user: string;
  /** Lines of metadata that let this user log in on the workers of new TPUs. */
  readonly sshKeys: () => Promise<string>;
  /** The installation and user for the labels and metadata of a new TPU. */
  readonly creator: () => Promise<SharedTpuCreator>;
  readonly now: () => Instant;
  readonly checkInterval: Duration;
}

export interface ChangeParts extends TpuOperationsParts {
  readonly report: ReportProgress;
  readonly signal: AbortSignal;
  /** Throws JobmanError if the state of the TPU is unknown. */
  readonly find: (tpu: LabTpu) => Promise<KnownNodeResult>;
  readonly onWorkers: (tpu: LabTpu, script: string) => Promise<readonly WorkerAnswer[]>;
  readonly forget: (name: string, createTime: string | undefined) => void;
}

export type NodeSearchResult =
  | { readonly kind: 'present'; readonly location: Location; readonly node: TpuNode }
  /** No node, but perhaps a queued resource. `location` is null if several zones were checked. */
  | { readonly kind: 'absent'; readonly location: Location | null; readonly queued: QueuedResource | null }
  | { readonly kind: 'unknown'; readonly message: string };

export type KnownNodeResult = Exclude<NodeSearchResult, { readonly kind: 'unknown' }>;

/** Searches the zones concurrently. A node wins over an unknown zone, which wins over a queued resource. */
export async function findNode(
  api: TpuApi,
  name: string,
  { project, zones }: { readonly project: string; readonly zones: readonly string[] },
): Promise<NodeSearchResult> {
  const results = await Promise.all(zones.map((zone) => findNodeAt(api, { project, zone }, name)));
  const absent: NodeSearchResult = { kind: 'absent', location: null, queued: null };
  return (
    results.find(({ kind }) => kind === 'present') ??
    results.find(({ kind }) => kind === 'unknown') ??
    results.find((result) => result.kind === 'absent' && (result.queued !== null || zones.length === 1)) ??
    absent
  );
}

async function findNodeAt(api: TpuApi, location: Location, name: string): Promise<NodeSearchResult> {
  const node = await api.getNode(location, name);
  if (node.ok) return { kind: 'present', location, node: node.value };
  if (!isNotFound(node)) return { kind: 'unknown', message: node.error.raw };
  const queued = await api.getQueuedResource(location, name);
  if (!queued.ok && !isNotFound(queued)) return { kind: 'unknown', message: queued.error.raw };
  return { kind: 'absent', location, queued: queued.ok ? queued.value : null };
}

export function stateName(result: KnownNodeResult): string {
  if (result.kind === 'present') return nodeState(result.node);
  return result.queued === null ? 'absent' : (result.queued.state?.state ?? 'STATE_UNSPECIFIED').toLowerCase();
}

function nodeState({ state = 'STATE_UNSPECIFIED' }: TpuNode): string {
  return state.toLowerCase();
}

export function unknownStateError({ name }: Pick<LabTpu, 'name'>, reason: string): JobmanError {
  return new JobmanError(`The state of ${name} is unknown now; nothing was changed.`, exitCode.unreachable, [reason]);
}

export async function applyTpu(parts: ChangeParts, tpu: LabTpu): Promise<void> {
  const current = await parts.find(tpu);
  if (current.kind === 'present' || current.queued !== null) {
    const waits = current.kind === 'present' ? '' : "waiting in Google's queue, ";
    throw new JobmanError(
      `${tpu.name} exists: it is ${waits}${formatTpuState(stateName(current))}.`,
      exitCode.conflict,
      [`tpu reapply ${tpu.name}    deletes it and creates it again`],
    );
  }
  await createAndWait(parts, tpu, null);
}

export async function reapplyTpu(
  parts: ChangeParts,
  tpu: LabTpu,
  { anyPricing = false, uid }: ReapplyOptions,
): Promise<void> {
  const current = await parts.find(tpu);
  if (stateName(current) === 'absent' && uid === undefined) {
    parts.report(`${tpu.name} does not exist; creating it`);
    return createAndWait(parts, tpu, current.location);
  }
  requireSame(tpu, current, uid);
  // A node or queued resource was found in exactly one location.
  const location = current.location as Location;
  // Find mistakes in the new spec before anything is deleted.
  persistentTpuSpec(tpu, parts.site, { project: parts.project, foundZone: location.zone });
  if (current.kind === 'present') refuseRegistryMismatch(tpu, current.node, anyPricing);
  await deleteAndWait(parts, tpu, current, {
    activity: `${tpu.name} is being deleted and was not created again`,
    hint: `tpu apply ${tpu.name}    creates it once it is deleted`,
  });
  // The owner stays: only the machines are new.
  const owner = current.kind === 'present' ? current.node.metadata?.['owner'] : undefined;
  try {
    await createAndWait(parts, tpu, location, owner);
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code === exitCode.interrupted) throw error;
    throw new JobmanError(
      `${tpu.name} was deleted, but creating it again failed: ${error.message}`,
      error.code,
      [...error.lines.filter((line) => !line.startsWith('tpu ')), `tpu apply ${tpu.name}    creates it`],
      { cause: error },
    );
  }
}

export async function deleteTpu(
  parts: ChangeParts,
  tpu: LabTpu,
  { uid }: Pick<ReapplyOptions, 'uid'>,
): Promise<boolean> {
  const current = await parts.find(tpu);
  if (stateName(current) === 'absent') return false;
  requireSame(tpu, current, uid);
  await deleteAndWait(parts, tpu, current, {
    activity: `${tpu.name} is being deleted; the deletion continues without this command`,
    hint: `tpu describe ${tpu.name}    shows when it is deleted`,
  });
  return true;
}

/** Throws for another TPU than the one with `uid`, and for a TPU that jobman created for one job. */
function requireSame(tpu: LabTpu, current: KnownNodeResult, uid: string | undefined): void {
  if (uid !== undefined && (current.kind !== 'present' || current.node.createTime !== uid))
    throw new JobmanError(
      `Another user has deleted or created ${tpu.name} in the meantime: it is ${formatTpuState(stateName(current))} now. Nothing was changed.`,
      exitCode.conflict,
      [`tpu describe ${tpu.name}    shows its state and its users`],
    );
  const owner = current.kind === 'present' ? nodeOwner(current.node) : queuedOwner(current.queued ?? undefined);
  if (owner !== undefined)
    throw new JobmanError(
      `${tpu.name} belongs to job ${owner.job} and is released with it; it is not a TPU of the lab. Nothing was changed.`,
      exitCode.conflict,
      [`jobman cancel ${Number(owner.job)}    cancels the job and releases its TPU`],
    );
}

/** A recreated TPU follows the registry, so it would replace a different TPU. */
function refuseRegistryMismatch(tpu: LabTpu, node: TpuNode, anyPricing: boolean): void {
  const { acceleratorType: type = tpu.accelerator } = node;
  const { spot = false, preemptible = false } = node.schedulingConfig ?? {};
  const pricing = spot ? 'spot' : preemptible ? 'preemptible' : 'ondemand';
  const differences = [
    ['type', type, tpu.accelerator, `a ${type}`, `a ${tpu.accelerator}`],
    ['pricing', anyPricing ? tpu.pricing : pricing, tpu.pricing, formatPricing(pricing), formatPricing(tpu.pricing)],
  ] as const;
  for (const [key, found, registered, inCloud, inRegistry] of differences)
    if (found !== registered)
      throw new JobmanError(
        `${tpu.name} is ${inCloud} in the cloud and ${inRegistry} in the registry. Nothing was changed.`,
        exitCode.conflict,
        [`tpu register ${tpu.name} ${key}=${found}    corrects the registry`],
      );
}

/** Creates the TPU in the registry's zone or at `foundAt`, and waits until it is ready and accepts a login. */
async function createAndWait(parts: ChangeParts, tpu: LabTpu, foundAt: Location | null, owner?: string): Promise<void> {
  const { name } = tpu;
  const spec = persistentTpuSpec(tpu, parts.site, { project: parts.project, foundZone: foundAt?.zone ?? null });
  const location: Location = { project: spec.project, zone: spec.zone };
  const body = persistentTpuBody(spec, await parts.sshKeys(), {
    ...(await parts.creator()),
    ...(owner !== undefined && { owner }),
  });
  if (parts.signal.aborted) throw new JobmanError(`Interrupted before ${name} was requested.`, exitCode.interrupted);
  parts.report(`requesting ${name}: ${spec.accelerator}, ${formatPricing(spec.pricing)}, in ${spec.zone}`);
  const answer = await parts.apiFor(spec.project).createNode(location, name, body);
  const isAlreadyCreated = !answer.ok && answer.status === 'ALREADY_EXISTS';
  if (isAlreadyCreated) parts.report(`another user is creating ${name}; waiting for it`);
  const failed = `${name} was not created`;
  const operation = isAlreadyCreated ? null : requireAccepted(parts, answer, failed);
  let missingChecks = 0;
  await waitForNode(parts, location, name, {
    activity: `${name} is being created; the creation continues without this command`,
    hint: `tpu check-status ${name}    shows when it is ready`,
    async isDone(node) {
      if (node !== null) {
        const state = nodeState(node);
        if (state !== 'preempted' && state !== 'terminated') return state === 'ready' && hostsOf(node).length > 0;
        throw new JobmanError(`${name} was ${state} before it was ready.`, exitCode.failed, [
          `tpu reapply ${name}    tries again`,
        ]);
      }
      missingChecks += 1;
      await requireRunning(parts, location, operation, failed);
      // The cloud did not accept the request, or the node is not visible yet.
      if (operation === null && missingChecks > 5)
        throw new JobmanError(`${failed}: it does not exist in the cloud.`, exitCode.unreachable, [
          `tpu apply ${name}    tries again`,
        ]);
      return false;
    },
  });
  await waitForLogin(parts, tpu);
}

function formatPricing(pricing: LabTpu['pricing']): string {
  return pricing === 'ondemand' ? 'on demand' : pricing;
}

async function deleteAndWait(
  parts: ChangeParts,
  tpu: LabTpu,
  current: KnownNodeResult,
  messages: Pick<WaitOptions, 'activity' | 'hint'>,
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
  parts.report(`deleting ${name}, which is ${formatTpuState(stateName(current))}`);
  const answer = await requestDelete();
  if (answer.ok || !isNotFound(answer))
    requireAccepted(parts, answer, `${name} was not deleted and nothing was changed`);
  let checks = 0;
  await waitForNode(parts, location, name, {
    ...messages,
    async isDone(node) {
      // Another user has recreated it: the TPU to delete is gone.
      if (node !== null && current.kind === 'present' && node.createTime !== current.node.createTime) return true;
      const queued = isQueued ? await api.getQueuedResource(location, queuedId) : null;
      if (node === null && (queued === null || (!queued.ok && isNotFound(queued)))) return true;
      const state = node?.state ?? (queued?.ok === true ? queued.value.state?.state : undefined);
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
  if (current.kind === 'absent' || (state !== 'ready' && state !== 'stopped'))
    throw new JobmanError(
      `${name} is ${formatTpuState(state)}; only a ready or stopped TPU can be restarted.`,
      exitCode.conflict,
      [
        state === 'absent'
          ? `tpu apply ${name}    creates it`
          : `tpu reapply ${name}    deletes it and creates it again`,
      ],
    );
  requireSame(tpu, current, undefined);
  const { location } = current;
  const api = parts.apiFor(location.project);
  const hint = `tpu restart ${name}    tries again`;
  const waitForState = (wanted: string, activity: string, check?: () => Promise<void>) =>
    waitForNode(parts, location, name, {
      activity,
      hint,
      async isDone(node) {
        if (node === null) throw new JobmanError(`${name} no longer exists.`, exitCode.conflict);
        const isReached = nodeState(node) === wanted;
        if (!isReached) await check?.();
        return isReached;
      },
    });
  if (state === 'ready') {
    parts.report(`stopping ${name}`);
    const stopped = await api.stopNode(location, name);
    // The cloud cannot stop multi-host and preemptible TPUs: reboot their machines.
    if (!stopped.ok && (outcomeOf(stopped).kind === 'refused' || stopped.status === 'FAILED_PRECONDITION')) {
      parts.report(`the cloud cannot stop this kind of TPU; rebooting its workers`);
      return reboot(parts, tpu);
    }
    requireAccepted(parts, stopped, `${name} was not stopped`);
    await waitForState('stopped', `${name} is being stopped and was not started again`);
  }
  parts.report(`starting ${name}`);
  const failed = `${name} was stopped, but starting it again failed`;
  const operation = requireAccepted(parts, await api.startNode(location, name), failed, hint);
  await waitForState('ready', `${name} is being started; it becomes ready without this command`, () =>
    requireRunning(parts, location, operation, failed, hint),
  );
  await waitForWorkers(parts, tpu);
}

const bootIdScript = 'cat "${JOBMAN_BOOT_ID_FILE:-/proc/sys/kernel/random/boot_id}"';
const rebootScript = `if [ "$(id -u)" -eq 0 ]; then systemctl reboot; else sudo -n systemctl reboot; fi 2>&1`;

async function reboot(parts: ChangeParts, tpu: LabTpu): Promise<void> {
  const { name } = tpu;
  const cannotRestart = (worker: number, reason: string, code: number): JobmanError =>
    new JobmanError(`${name} cannot be restarted: worker ${worker} does not reboot.`, code, [
      reason,
      `tpu reapply ${name}    deletes it and creates it again`,
    ]);
  const boots = new Map<number, string>();
  for (const answer of await parts.onWorkers(tpu, bootIdScript)) {
    if (answer.kind === 'no_answer') throw cannotRestart(answer.worker, answer.message, exitCode.unreachable);
    boots.set(answer.worker, answer.output.trim());
  }
  for (const answer of await parts.onWorkers(tpu, rebootScript))
    if (answer.kind === 'ended' && answer.code !== 0)
      throw cannotRestart(answer.worker, answer.output.trim(), exitCode.failed);
  await waitForWorkers(parts, tpu, { isNew: (worker, boot) => boots.get(worker) !== boot });
}

/** The operation of the request; null if the cloud did not confirm it. Throws JobmanError after a refusal. */
function requireAccepted(
  parts: ChangeParts,
  answer: Answer<Operation>,
  sentence: string,
  hint?: string,
): string | null {
  if (answer.ok) return resourceId(answer.value.name);
  if (outcomeOf(answer).kind !== 'unclear') throw refusalError(sentence, answer.error, hint);
  parts.report(`the cloud did not confirm the request (${answer.error.message}); checking`);
  return null;
}

async function requireRunning(
  { apiFor }: ChangeParts,
  location: Location,
  operation: string | null,
  sentence: string,
  hint?: string,
): Promise<void> {
  if (operation === null) return;
  const answer = await apiFor(location.project).getOperation(location, operation);
  if (answer.ok && answer.value.done === true && answer.value.error !== undefined)
    throw refusalError(sentence, classifyError(answer.value.error), hint);
}

function refusalError(sentence: string, error: CloudError, hint?: string): JobmanError {
  const code = error.kind === 'unreachable' ? exitCode.unreachable : exitCode.failed;
  return new JobmanError(`${sentence}: ${error.message}.`, code, [
    error.raw,
    ...(isPermanent(error.kind) ? [] : ['Try again later; jobman does not retry this.']),
    ...(hint === undefined ? [] : [hint]),
  ]);
}

/** Google creates a node in five minutes and deletes one in three. */
const defaultWaitTimeout: Duration = 20 * minute;

interface WaitOptions {
  /** A sentence without its full stop about the work that remains after an interruption or the time-out. */
  readonly activity: string;
  readonly hint: string;
  readonly timeout?: Duration;
}

/** Throws JobmanError: 130 after an interruption, 1 after the time-out. */
async function waitUntil(
  { checkInterval, signal }: ChangeParts,
  { activity, hint, timeout = defaultWaitTimeout }: WaitOptions,
  isDone: () => Promise<boolean>,
): Promise<void> {
  const deadline = performance.now() + timeout;
  while (performance.now() < deadline) {
    if (signal.aborted) throw new JobmanError(`Interrupted: ${activity}.`, exitCode.interrupted, [hint]);
    if (await isDone()) return;
    await pause(checkInterval, undefined, { signal }).catch(() => undefined);
  }
  throw new JobmanError(`After ${timeout / minute} minutes ${activity}.`, exitCode.failed, [hint]);
}

/** Waits for a node, which is null while it is absent, and reports each change of its state. Throws like `waitUntil`. */
function waitForNode(
  parts: ChangeParts,
  location: Location,
  name: string,
  { isDone, ...wait }: WaitOptions & { readonly isDone: (node: TpuNode | null) => Promise<boolean> },
): Promise<void> {
  const reportChange = skipRepeats(parts.report);
  return waitUntil(parts, wait, async () => {
    const node = await parts.apiFor(location.project).getNode(location, name);
    if (node.ok) reportChange(`${name} is ${formatTpuState(nodeState(node.value))}`);
    if (node.ok || isNotFound(node)) return isDone(node.ok ? node.value : null);
    reportChange(`the cloud does not report its state: ${node.error.raw}`);
    return false;
  });
}

function skipRepeats(report: ReportProgress): ReportProgress {
  let last = '';
  return (line) => {
    if (line !== last) report(line);
    last = line;
  };
}

/** Waits until every worker answers; with `isNew`, until each has rebooted. */
async function waitForWorkers(
  parts: ChangeParts,
  tpu: LabTpu,
  options: { readonly isNew?: (worker: number, boot: string) => boolean; readonly timeout?: Duration } = {},
): Promise<void> {
  const { isNew = () => true, ...timeout } = options;
  const reportChange = skipRepeats(parts.report);
  const wait = {
    activity: `the workers of ${tpu.name} do not all answer over SSH yet`,
    hint: `tpu describe ${tpu.name}    shows its state`,
    ...timeout,
  };
  await waitUntil(parts, wait, async () => {
    let answers: readonly WorkerAnswer[];
    try {
      answers = await parts.onWorkers(tpu, bootIdScript);
    } catch (error) {
      // It may have no addresses for a short time.
      if (error instanceof JobmanError && error.code !== exitCode.interrupted) return false;
      throw error;
    }
    const ready = answers.filter((one) => one.kind === 'ended' && isNew(one.worker, one.output.trim()));
    reportChange(`${ready.length} of ${answers.length} workers answer`);
    return ready.length === answers.length;
  });
}

/** New machines may take some time to accept a login; with no accepted key they never do. */
const newTpuLoginTimeout: Duration = 3 * minute;

/** Waits for the login on a new TPU. A time-out is only reported, because the TPU exists anyway. */
async function waitForLogin(parts: ChangeParts, tpu: LabTpu): Promise<void> {
  try {
    await waitForWorkers(parts, tpu, { timeout: newTpuLoginTimeout });
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code !== exitCode.failed) throw error;
    parts.report(`${tpu.name} is ready, but refuses the SSH login; find out why: tpu solve ${tpu.name}`);
  }
}
