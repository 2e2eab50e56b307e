// Waits for changes of a TPU. A failed observation is unknown, and unknown is never absent.

import { setTimeout as pause } from 'node:timers/promises';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { isPermanent } from '../../../core/decide/allocate.ts';
import type { CloudError } from '../../../core/model/job.ts';
import { minute, type Duration, type Instant } from '../../../core/model/time.ts';
import type { Site } from '../../../lab/site.ts';
import type { ReportProgress, WorkerAnswer } from '../../../lab/tpu-operations.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { classifyError, isNotFound, type Location, type QueuedResource, type TpuApi, type TpuNode } from '../api.ts';
import type { SharedTpuCreator } from '../capacity.ts';
import { nodeOwner, queuedOwner } from '../resources.ts';
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

/** Google creates a node in five minutes and deletes one in three. */
const defaultWaitTimeout: Duration = 20 * minute;

interface WaitOptions {
  readonly interruptedMessage: string;
  readonly hint: string;
  readonly timeoutMessage: string;
  readonly timeout?: Duration;
  readonly isDone: () => Promise<boolean>;
}

/** Throws JobmanError: 130 after an interruption, 1 after the time-out. */
export async function waitUntil(
  checkInterval: Duration,
  signal: AbortSignal,
  { interruptedMessage, hint, timeoutMessage, timeout = defaultWaitTimeout, isDone }: WaitOptions,
): Promise<void> {
  const deadline = performance.now() + timeout;
  while (performance.now() < deadline) {
    if (signal.aborted) throw new JobmanError(`Interrupted: ${interruptedMessage}.`, exitCode.interrupted, [hint]);
    if (await isDone()) return;
    await pause(checkInterval, undefined, { signal }).catch(() => undefined);
  }
  throw new JobmanError(`${timeoutMessage}, after ${timeout / minute} minutes.`, exitCode.failed, [hint]);
}

interface NodeWaitOptions extends Omit<WaitOptions, 'isDone'> {
  readonly location: Location;
  readonly name: string;
  readonly onFound: (node: TpuNode, state: string) => boolean | Promise<boolean>;
  readonly onAbsent: () => boolean | Promise<boolean>;
}

/** Waits for a node and reports each change of its state. Throws like `waitUntil`. */
export function waitForNode(
  { apiFor, checkInterval, report, signal }: ChangeParts,
  { location, name, onFound, onAbsent, ...wait }: NodeWaitOptions,
): Promise<void> {
  const reportChange = skipRepeats(report);
  return waitUntil(checkInterval, signal, {
    ...wait,
    isDone: async () => {
      const node = await apiFor(location.project).getNode(location, name);
      if (node.ok) {
        const state = (node.value.state ?? 'STATE_UNSPECIFIED').toLowerCase();
        reportChange(`${name} is ${state}`);
        return onFound(node.value, state);
      }
      if (isNotFound(node)) return onAbsent();
      reportChange(`the cloud does not report its state: ${node.error.raw}`);
      return false;
    },
  });
}

export function skipRepeats(report: ReportProgress): ReportProgress {
  let last = '';
  return (line) => {
    if (line !== last) report(line);
    last = line;
  };
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
  const found = results.find(({ kind }) => kind === 'present');
  if (found !== undefined) return found;
  const unknown = results.find(({ kind }) => kind === 'unknown');
  if (unknown !== undefined) return unknown;
  const queued = results.find((result) => result.kind === 'absent' && result.queued !== null);
  if (queued !== undefined) return queued;
  return results.length === 1 && results[0] !== undefined
    ? results[0]
    : { kind: 'absent', location: null, queued: null };
}

async function findNodeAt(api: TpuApi, location: Location, name: string): Promise<NodeSearchResult> {
  const node = await api.getNode(location, name);
  if (node.ok) return { kind: 'present', location, node: node.value };
  if (!isNotFound(node)) return { kind: 'unknown', message: node.error.raw };
  const queued = await api.getQueuedResource(location, name);
  if (queued.ok) return { kind: 'absent', location, queued: queued.value };
  if (!isNotFound(queued)) return { kind: 'unknown', message: queued.error.raw };
  return { kind: 'absent', location, queued: null };
}

export function stateName(result: KnownNodeResult): string {
  if (result.kind === 'present') return (result.node.state ?? 'STATE_UNSPECIFIED').toLowerCase();
  return result.queued === null ? 'absent' : (result.queued.state?.state ?? 'STATE_UNSPECIFIED').toLowerCase();
}

export function unknownStateError({ name }: Pick<LabTpu, 'name'>, reason: string): JobmanError {
  return new JobmanError(`The state of ${name} is unknown now; nothing was changed.`, exitCode.unreachable, [reason]);
}

/** Throws for a TPU that jobman created for one job, even if the registry names it. */
export function refuseTpuOfJob({ name }: LabTpu, result: KnownNodeResult): void {
  const owner = result.kind === 'present' ? nodeOwner(result.node) : queuedOwner(result.queued ?? undefined);
  if (owner === undefined) return;
  throw new JobmanError(
    `${name} belongs to job ${owner.job} and is released with it; it is not a TPU of the lab. Nothing was changed.`,
    exitCode.conflict,
    [`jobman cancel ${Number(owner.job)}    cancels the job and releases its TPU`],
  );
}

/** New machines may take some time to accept a login; with no accepted key they never do. */
const newTpuLoginTimeout: Duration = 3 * minute;

export const bootIdScript = 'cat "${JOBMAN_BOOT_ID_FILE:-/proc/sys/kernel/random/boot_id}"';

/** Waits until every worker answers; with `isNew`, until each has rebooted. */
export async function waitForWorkers(
  parts: ChangeParts,
  tpu: LabTpu,
  options: { readonly isNew?: (worker: number, boot: string) => boolean; readonly timeout?: Duration } = {},
): Promise<void> {
  const { isNew = () => true, timeout } = options;
  const reportChange = skipRepeats(parts.report);
  await waitUntil(parts.checkInterval, parts.signal, {
    interruptedMessage: `${tpu.name} is starting; it becomes ready without this command`,
    hint: `tpu describe ${tpu.name}    shows its state`,
    timeoutMessage: `${tpu.name} does not answer over SSH yet`,
    ...(timeout === undefined ? {} : { timeout }),
    isDone: async () => {
      let answers: readonly WorkerAnswer[];
      try {
        answers = await parts.onWorkers(tpu, bootIdScript);
      } catch (error) {
        // It may have no addresses for a short time.
        if (error instanceof JobmanError && error.code !== exitCode.interrupted) return false;
        throw error;
      }
      const answeringCount = answers.filter(
        (one) => one.kind === 'ended' && isNew(one.worker, one.output.trim()),
      ).length;
      reportChange(`${answeringCount} of ${answers.length} workers answer`);
      return answeringCount === answers.length;
    },
  });
}

/** Waits for the login on a new TPU. A time-out is only reported, because the TPU exists anyway. */
export async function waitForLogin(parts: ChangeParts, tpu: LabTpu): Promise<void> {
  try {
    await waitForWorkers(parts, tpu, { timeout: newTpuLoginTimeout });
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code !== exitCode.failed) throw error;
    parts.report(`${tpu.name} is ready, but refuses the SSH login; find out why: tpu solve ${tpu.name}`);
  }
}

/** The error of a failed operation; undefined if it runs, succeeded, or is unknown. */
export async function operationError(
  api: TpuApi,
  location: Location,
  operation: string,
): Promise<CloudError | undefined> {
  const answer = await api.getOperation(location, operation);
  if (!answer.ok || answer.value.done !== true || answer.value.error === undefined) return undefined;
  return classifyError(answer.value.error);
}

export function refusalError(sentence: string, error: CloudError): JobmanError {
  const hint = isPermanent(error.kind) ? [] : ['Try again later; jobman does not retry this.'];
  const code = error.kind === 'unreachable' ? exitCode.unreachable : exitCode.failed;
  return new JobmanError(`${sentence}: ${error.message}.`, code, [error.raw, ...hint]);
}
