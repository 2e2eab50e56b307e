// The TPU operations over Google's API and SSH; src/lab/tpu-operations.ts documents each method.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { findAccelerator } from '../../../catalogue/accelerators.ts';
import type { SecretRef } from '../../../core/model/spec.ts';
import { second, type Duration, type Instant, parseInstant } from '../../../core/model/time.ts';
import { projectOf } from '../../../lab/run-spec.ts';
import {
  formatTpuState,
  type FoundTpu,
  type WorkerScriptOptions,
  type TpuOperations,
  type WorkerAnswer,
} from '../../../lab/tpu-operations.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { mapConcurrent } from '../../../app/concurrency.ts';
import type { Site } from '../../../lab/site.ts';
import { isNotFound, type Location, type QueuedResource, type TpuApi, type TpuNode } from '../api.ts';
import { hostsOf, nodeOwner, queuedOwner } from '../resources.ts';
import type { SshRoutes, WorkerHosts } from '../workers.ts';
import { endProgramsScript, holdersScript, parseEndResult, parseHolders, runScript } from './worker-scripts.ts';

const maxConcurrentWorkers = 64;
const holdersTimeout: Duration = 30 * second;
const endTimeout: Duration = 40 * second;
const addressCacheTime: Duration = 10 * second;

/** States in which the machines are unreachable even if their addresses are known. */
const statesWithoutWorkers = 'creating starting stopping stopped deleting preempted terminated hidden'.split(' ');

export interface TpuOperationsParts {
  /** Used by this object only: `close` ends its connections. */
  readonly transport: SshRoutes['transport'];
  readonly close: () => void;
  readonly apiFor: (project: string) => TpuApi;
  readonly project: string | null;
  readonly site: Pick<Site, 'zones' | 'remoteUser' | 'privateKey'>;
  /** The login on the workers if the site names none. */
  readonly user: string;
  readonly now: () => Instant;
}

type NodeSearchResult =
  | { readonly kind: 'present'; readonly location: Location; readonly node: TpuNode }
  /** No node, but perhaps a queued resource. `location` is null if several zones were checked. */
  | { readonly kind: 'absent'; readonly location: Location | null; readonly queued: QueuedResource | null }
  | { readonly kind: 'unknown'; readonly message: string };

type KnownNodeResult = Exclude<NodeSearchResult, { readonly kind: 'unknown' }>;

export function createTpuOperations(parts: TpuOperationsParts): TpuOperations {
  const { transport, apiFor, now, site } = parts;
  const cache = new Map<string, { readonly at: Instant; readonly result: NodeSearchResult }>();

  async function search(tpu: LabTpu): Promise<NodeSearchResult> {
    const project = projectOf(tpu, parts.project);
    const zones = tpu.zone === null ? site.zones : [tpu.zone];
    if (zones.length === 0) {
      throw new JobmanError(`The zone of ${tpu.name} is unknown.`, exitCode.usage, [
        `tpu register ${tpu.name} zone=us-central2-b    sets it`,
      ]);
    }
    const found = await findNode(apiFor(project), tpu.name, { project, zones });
    cache.set(tpu.name, { at: now(), result: found });
    return found;
  }

  async function find(tpu: LabTpu): Promise<KnownNodeResult> {
    const found = await search(tpu);
    if (found.kind === 'unknown')
      throw new JobmanError(`The state of ${tpu.name} is unknown now; nothing was changed.`, exitCode.unreachable, [
        found.message,
      ]);
    return found;
  }

  async function machinesOf(tpu: LabTpu): Promise<WorkerHosts> {
    const cached = cache.get(tpu.name);
    const isFresh = cached?.result.kind === 'present' && now() - cached.at < addressCacheTime;
    return workerHostsOf(tpu, isFresh ? cached.result : await find(tpu), parts);
  }

  async function runOnEach(
    tpu: LabTpu,
    scriptOf: (worker: number) => string | undefined,
    options: Pick<WorkerScriptOptions, 'secrets' | 'timeoutMs' | 'signal'> & { readonly activity: string },
  ): Promise<readonly WorkerAnswer[]> {
    const machines = await machinesOf(tpu);
    const runs = machines.hosts.flatMap((_, worker) => {
      const script = scriptOf(worker);
      return script === undefined ? [] : [{ worker, script }];
    });
    const answers = await mapConcurrent(runs, maxConcurrentWorkers, ({ worker, script }) =>
      runScript(worker, () => transport(machines, worker), { ...options, script }),
    );
    if (options.signal.aborted)
      throw new JobmanError(`Interrupted while ${options.activity} ${tpu.name}.`, exitCode.interrupted);
    return answers;
  }

  function onWorkers(
    tpu: LabTpu,
    script: string,
    { workers, ...options }: WorkerScriptOptions,
  ): Promise<readonly WorkerAnswer[]> {
    const scriptOf = (worker: number) => ((workers?.includes(worker) ?? true) ? script : undefined);
    return runOnEach(tpu, scriptOf, { ...options, activity: 'working on' });
  }

  return {
    async describe(tpu) {
      const found = await search(tpu);
      if (found.kind === 'unknown') return { kind: 'unknown', message: found.message };
      const zone = found.location?.zone ?? tpu.zone ?? '';
      const hosts = found.kind === 'present' ? hostsOf(found.node).length : 0;
      const workers = hosts > 0 || found.kind === 'absent' ? hosts : (findAccelerator(tpu.accelerator)?.workers ?? 0);
      const tpuFound = foundTpu(found);
      return { kind: 'known', state: stateName(found), zone, workers, ...(tpuFound !== null && { found: tpuFound }) };
    },
    onWorkers,

    async holders(tpu, signal) {
      const answers = await onWorkers(tpu, holdersScript, { timeoutMs: holdersTimeout, signal });
      return {
        holders: answers.flatMap((one) => readIfSucceeded(one, parseHolders) ?? []),
        unreachable: unreachableWorkers(answers),
      };
    },

    async endPrograms(tpu, request, signal) {
      const answers = await runOnEach(
        tpu,
        (worker) => {
          const pids = request.pids.filter((one) => one.worker === worker).map(({ pid }) => pid);
          return endProgramsScript(request, pids);
        },
        { timeoutMs: endTimeout + request.graceMs, signal, activity: 'ending programs on' },
      );
      const ends = answers.map((one) => readIfSucceeded(one, parseEndResult));
      return {
        ended: ends.flatMap((end) => end?.ended ?? []),
        left: ends.flatMap((end) => end?.left ?? []),
        unreachable: unreachableWorkers(answers),
      };
    },

    close: () => parts.close(),
  };
}

/** Searches the zones concurrently. A node wins over an unknown zone, which wins over a queued resource. */
async function findNode(
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

function stateName(result: KnownNodeResult): string {
  if (result.kind === 'present') return (result.node.state ?? 'STATE_UNSPECIFIED').toLowerCase();
  return result.queued === null ? 'absent' : (result.queued.state?.state ?? 'STATE_UNSPECIFIED').toLowerCase();
}

function foundTpu(result: KnownNodeResult): FoundTpu | null {
  if (result.kind === 'absent') {
    const { queued } = result;
    return queued === null ? null : { creationTime: null, job: queuedOwner(queued)?.job ?? null };
  }
  const { node } = result;
  const { acceleratorType: accelerator, createTime: creationTime = null, schedulingConfig = {} } = node;
  const owner = node.metadata?.['owner'];
  return {
    creationTime,
    pricing: schedulingConfig.spot ? 'spot' : schedulingConfig.preemptible ? 'preemptible' : 'ondemand',
    job: nodeOwner(node)?.job ?? null,
    ...(accelerator !== undefined && { accelerator }),
    ...(owner !== undefined && { owner }),
  };
}

function workerHostsOf(
  tpu: LabTpu,
  found: KnownNodeResult,
  { site, user }: Pick<TpuOperationsParts, 'site' | 'user'>,
): WorkerHosts {
  const state = stateName(found);
  if (found.kind === 'absent') {
    throw new JobmanError(`${tpu.name} does not exist (${state}), so it has no workers.`, exitCode.conflict, [
      `tpu apply ${tpu.name}    creates it`,
    ]);
  }
  const hosts = hostsOf(found.node);
  if (statesWithoutWorkers.includes(state) || hosts.length === 0) {
    throw new JobmanError(
      `${tpu.name} is ${formatTpuState(state)}, so its workers cannot be reached.`,
      exitCode.conflict,
      [`tpu describe ${tpu.name}    shows its state`],
    );
  }
  return {
    name: tpu.name,
    location: found.location,
    nodeIds: [tpu.name],
    hosts,
    user: site.remoteUser ?? user,
    privateKey: site.privateKey === null ? null : { job: { id: '', owner: '' }, secret: labKey },
    isExisting: true,
    pinPrefix: pinPrefix(tpu.name, found.node.createTime),
  };
}

/** Includes the creation time: a recreated TPU has other machines, even with the same name and address. */
function pinPrefix(name: string, createTime: string | undefined): string {
  return `desk-${name}-${parseInstant(createTime) ?? 0}-w`;
}

const labKey: SecretRef = { kind: 'setting', setting: 'lab.privateKey' };

function readIfSucceeded<Read>(answer: WorkerAnswer, read: (worker: number, output: string) => Read): Read | undefined {
  return answer.kind === 'ended' && answer.code === 0 ? read(answer.worker, answer.output) : undefined;
}

function unreachableWorkers(answers: readonly WorkerAnswer[]): { readonly worker: number; readonly message: string }[] {
  return answers.flatMap((one) => {
    const { worker } = one;
    if (one.kind === 'no_answer') return [{ worker, message: one.message }];
    const lastLine = one.output.trim().split('\n').at(-1);
    return one.code === 0 ? [] : [{ worker, message: lastLine || `the shell exited with code ${one.code}` }];
  });
}
