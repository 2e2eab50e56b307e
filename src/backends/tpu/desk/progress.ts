// A change of a TPU under way: where the TPU is, waiting with pauses until the cloud has done it, a person interrupts, or it
// takes too long, and the messages for that. What could not be asked is unknown, and unknown is never absent.

import { setTimeout as pause } from 'node:timers/promises';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { isPermanent } from '../../../core/allocate.ts';
import type { CloudError } from '../../../core/job.ts';
import { minute, type Duration, type Instant } from '../../../core/time.ts';
import type { Site } from '../../../lab/site.ts';
import type { Say, WorkerAnswer } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { classify, isNotThere, type Place, type QueuedResource, type TpuApi, type TpuNode } from '../api.ts';
import type { SharedMaker } from '../capacity.ts';
import { nodeOwner, queuedOwner } from '../meaning.ts';
import type { Doors } from '../workers.ts';

export interface TpuDeskParts {
  /** Shared with nobody: `close` ends its connections. */
  readonly doors: Doors;
  readonly closeDoors: () => void;
  readonly apiFor: (project: string) => TpuApi;
  /** The project of a TPU that names none. */
  readonly project: string | null;
  readonly site: Pick<Site, 'zones' | 'remoteUser' | 'privateKey'>;
  /** The login on the workers where the site names none. */
  readonly user: string;
  /** Lines of metadata that let the desk log in on the workers of what it makes. */
  readonly sshKeys: () => Promise<string>;
  /** The installation and the person that the labels and the metadata of a new TPU name. */
  readonly maker: () => Promise<SharedMaker>;
  readonly now: () => Instant;
  /** How often a change under way is looked at. */
  readonly lookEvery: Duration;
}

/** The parts that a change of a TPU uses. */
export interface ChangeParts extends TpuDeskParts {
  /** Throws JobmanError where the state of the TPU cannot be told. */
  readonly find: (tpu: LabTpu) => Promise<FoundNode>;
  readonly onWorkers: (tpu: LabTpu, script: string, signal: AbortSignal) => Promise<readonly WorkerAnswer[]>;
  /** The machines of that one have gone for good. */
  readonly forget: (name: string, createTime: string | undefined) => void;
}

/** How long something under way is waited for. Google makes a node in five minutes, deletes one in three. */
const waitMost: Duration = 20 * minute;

interface Wait {
  readonly interrupted: string;
  readonly hint: string;
  readonly late: string;
  readonly most?: Duration;
  readonly isSo: () => Promise<boolean>;
}

/** Throws JobmanError: 130 when interrupted, 1 when it takes longer than any cloud does. */
export async function untilTrue(
  lookEvery: Duration,
  signal: AbortSignal,
  { interrupted, hint, late, most = waitMost, isSo }: Wait,
): Promise<void> {
  const end = performance.now() + most;
  while (performance.now() < end) {
    if (signal.aborted) throw new JobmanError(`Interrupted: ${interrupted}.`, exitCode.interrupted, [hint]);
    if (await isSo()) return;
    await pause(lookEvery, undefined, { signal }).catch(() => undefined);
  }
  throw new JobmanError(`${late}, after ${most / minute} minutes.`, exitCode.failed, [hint]);
}

interface NodeWait extends Omit<Wait, 'isSo'> {
  readonly place: Place;
  readonly name: string;
  readonly there: (node: TpuNode, state: string) => boolean | Promise<boolean>;
  readonly absent: () => boolean | Promise<boolean>;
}

/** Waits for a node, and says its state whenever that is another. Throws as `untilTrue`. */
export function untilNode(
  { apiFor, lookEvery }: ChangeParts,
  say: Say,
  signal: AbortSignal,
  { place, name, there, absent, ...wait }: NodeWait,
): Promise<void> {
  const told = teller(say);
  return untilTrue(lookEvery, signal, {
    ...wait,
    isSo: async () => {
      const node = await apiFor(place.project).getNode(place, name);
      if (node.ok) {
        const state = (node.value.state ?? 'STATE_UNSPECIFIED').toLowerCase();
        told(`${name} is ${state}`);
        return there(node.value, state);
      }
      if (isNotThere(node)) return absent();
      told(`the cloud does not say how it is: ${node.error.raw}`);
      return false;
    },
  });
}

export function teller(say: Say): Say {
  let last = '';
  return (line) => {
    if (line !== last) say(line);
    last = line;
  };
}

export type NodeLook =
  | { readonly kind: 'there'; readonly place: Place; readonly node: TpuNode }
  /** There is no node; perhaps a place in Google's queue of that name. `place` is null where several zones were asked. */
  | { readonly kind: 'absent'; readonly place: Place | null; readonly queued: QueuedResource | null }
  | { readonly kind: 'unknown'; readonly says: string };

export type FoundNode = Exclude<NodeLook, { readonly kind: 'unknown' }>;

/** Asks every one of those zones side by side; the first that has a node of that name is where it is. */
export async function lookForNode(
  api: TpuApi,
  name: string,
  { project, zones }: { readonly project: string; readonly zones: readonly string[] },
): Promise<NodeLook> {
  const looks = await Promise.all(zones.map((zone) => lookIn(api, { project, zone }, name)));
  const there = looks.find(({ kind }) => kind === 'there');
  if (there !== undefined) return there;
  const unknown = looks.find(({ kind }) => kind === 'unknown');
  if (unknown !== undefined) return unknown;
  const queued = looks.find((look) => look.kind === 'absent' && look.queued !== null);
  if (queued !== undefined) return queued;
  return looks.length === 1 && looks[0] !== undefined ? looks[0] : { kind: 'absent', place: null, queued: null };
}

async function lookIn(api: TpuApi, place: Place, name: string): Promise<NodeLook> {
  const node = await api.getNode(place, name);
  if (node.ok) return { kind: 'there', place, node: node.value };
  if (!isNotThere(node)) return { kind: 'unknown', says: node.error.raw };
  const queued = await api.getQueuedResource(place, name);
  if (queued.ok) return { kind: 'absent', place, queued: queued.value };
  if (!isNotThere(queued)) return { kind: 'unknown', says: queued.error.raw };
  return { kind: 'absent', place, queued: null };
}

export function stateWord(look: FoundNode): string {
  if (look.kind === 'there') return (look.node.state ?? 'STATE_UNSPECIFIED').toLowerCase();
  return look.queued === null ? 'absent' : (look.queued.state?.state ?? 'STATE_UNSPECIFIED').toLowerCase();
}

/** Nobody knows how it is, so nothing is changed. */
export function cannotTell({ name }: Pick<LabTpu, 'name'>, says: string): JobmanError {
  return new JobmanError(`How ${name} is cannot be told now; nothing was changed.`, exitCode.unreachable, [says]);
}

/** Throws for a TPU that jobman made for one job: it belongs to that job, also where the registry names it. */
export function refuseOfOneJob({ name }: LabTpu, look: FoundNode): void {
  const owner = look.kind === 'there' ? nodeOwner(look.node) : queuedOwner(look.queued ?? undefined);
  if (owner === undefined) return;
  throw new JobmanError(
    `${name} was made by jobman for job ${owner.job} alone and goes with it; it is no TPU of the lab. Nothing was changed.`,
    exitCode.conflict,
    [`jobman cancel ${Number(owner.job)}    ends that job and releases its TPU`],
  );
}

/** How long machines that are new may take to let somebody in; one that nobody's key opens never does. */
const newWithin: Duration = 3 * minute;

export const bootScript = 'cat "${JOBMAN_BOOT_ID_FILE:-/proc/sys/kernel/random/boot_id}"';

/** Waits until every worker answers; with `isNew`, from another boot than before. */
export async function untilAnswering(
  parts: ChangeParts,
  tpu: LabTpu,
  say: Say,
  signal: AbortSignal,
  {
    isNew = () => true,
    most,
  }: { readonly isNew?: (worker: number, boot: string) => boolean; readonly most?: Duration } = {},
): Promise<void> {
  const told = teller(say);
  await untilTrue(parts.lookEvery, signal, {
    interrupted: `${tpu.name} is starting, and comes without this command`,
    hint: `tpu describe ${tpu.name}    says how it is`,
    late: `${tpu.name} does not answer by SSH yet`,
    ...(most === undefined ? {} : { most }),
    isSo: async () => {
      let answers: readonly WorkerAnswer[];
      try {
        answers = await parts.onWorkers(tpu, bootScript, signal);
      } catch (error) {
        // For a moment it may have no addresses.
        if (error instanceof JobmanError && error.code !== exitCode.interrupted) return false;
        throw error;
      }
      const there = answers.filter((one) => one.kind === 'ended' && isNew(one.worker, one.output.trim())).length;
      told(`${there} of ${answers.length} workers answer`);
      return there === answers.length;
    },
  });
}

/** The same for what has just been made. It is there, whether we can get in or not: then that is said, and nothing thrown. */
export async function untilLetIn(parts: ChangeParts, tpu: LabTpu, say: Say, signal: AbortSignal): Promise<void> {
  try {
    await untilAnswering(parts, tpu, say, signal, { most: newWithin });
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code !== exitCode.failed) throw error;
    say(`${tpu.name} is ready, and does not let us in by SSH; \`tpu solve ${tpu.name}\` looks why`);
  }
}

/** Why an operation has failed; undefined while it is under way, when it went well, and when nobody can tell. */
export async function failureOf(api: TpuApi, place: Place, operation: string): Promise<CloudError | undefined> {
  const answer = await api.getOperation(place, operation);
  if (!answer.ok || answer.value.done !== true || answer.value.error === undefined) return undefined;
  return classify(answer.value.error);
}

/** The change that was not made, in the cloud's words. */
export function refusedBy(what: string, error: CloudError): JobmanError {
  const hint = isPermanent(error.kind) ? [] : ['Later may be better; nothing waits for it.'];
  const code = error.kind === 'unreachable' ? exitCode.unreachable : exitCode.failed;
  return new JobmanError(`${what}: ${error.message}.`, code, [error.raw, ...hint]);
}
