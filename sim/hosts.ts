// Hosts: machines as a controller reaches them, over a connection that may be cut.

import type { MachinePort, TailReceiver, TailRequest, WorkerRef } from '../src/app/ports.ts';
import { known, unknown } from '../src/core/model/observation.ts';
import type { Observed, OutcomeResult, RunStatus, WorkerStatus } from '../src/core/model/observation.ts';
import { isOnOwnHost } from '../src/backends/hosts/hosts.ts';
import { belongsTo, zoneOf } from './cloud.ts';
import type { PortOptions } from './cloud.ts';
import { brokenStep } from './jobs.ts';
import {
  endRun,
  findMachine,
  folderOf,
  hostName,
  outputOf,
  writtenBytes,
  lastPrintedAt,
  restartInstantly,
  startRun,
  stopRun,
} from './world.ts';
import type { Host, ProgramPlan, Run } from './world.ts';

export interface HostPortOptions extends PortOptions {
  readonly planFor: (job: string, attempt: number, worker: string) => ProgramPlan;
}

export function createMachinePort(parts: HostPortOptions): MachinePort {
  const { world, cloudModel, chance, watcher } = parts;
  const { timeline } = world;

  return {
    observe: (refs) => {
      for (const ref of refs) watcher.called('observe', ref, `${ref.worker}`);
      return Promise.all(refs.map((ref) => observeWorker(parts, ref)));
    },
    async runStep(ref, step) {
      watcher.called('step', ref, `${ref.worker}/${step.name}`);
      const before = reachableHost(parts, ref);
      await timeline.pause(isOnOwnHost(ref) ? chance.between(1, 1_000) : chance.between(300, 15_000));
      if (before !== undefined && reachableHost(parts, ref) !== before) {
        return { kind: 'unclear', evidence: { message: 'the connection broke during the step' } };
      }
      return send(parts, ref, (host) => {
        if (step.apply === brokenStep || chance.yes(cloudModel.faultRates.stepFails))
          return { kind: 'failed', evidence: { message: 'exit 1', exitCode: 1 } };
        folderOf(host, ref.job.id, `${ref.worker}`).proofs.add(`${ref.allocation.ordinal}/${step.key}/${host.bootId}`);
        world.log(`host: ${hostName(host)} has ${step.name} for ${ref.job.id}`);
        return undefined;
      });
    },
    start(ref, launch) {
      const attempt = launch.attempt.ordinal;
      watcher.called('start', ref, `${attempt}/${ref.worker}`);
      const { restartDuringStart } = cloudModel.faultRates;
      if (!isOnOwnHost(ref) && restartDuringStart > 0 && chance.yes(restartDuringStart)) {
        const host = reachableHost(parts, ref);
        if (host !== undefined) restartInstantly(world, host);
      }
      return send(parts, ref, (host) => {
        const isOther = launch.bootId !== undefined && launch.bootId !== host.bootId;
        if (isOther && !folderOf(host, ref.job.id, `${ref.worker}`).runs.has(attempt)) {
          return { kind: 'failed', evidence: { message: 'it was restarted' } };
        }
        const runOptions = {
          job: ref.job.id,
          attempt,
          worker: `${ref.worker}`,
          allocation: ref.allocation.ordinal,
          ...(launch.checkpointDir !== null && { checkpoints: launch }),
        };
        const plan = parts.planFor(ref.job.id, attempt, runOptions.worker);
        if (plan.leavesNoTrace === true) return undefined;
        const startDelay = chance.yes(cloudModel.faultRates.startSlow)
          ? chance.between(1_000, 9_000)
          : chance.between(0, 200);
        startRun(world, host, runOptions, { ...plan, startDelay });
        return undefined;
      });
    },
    stop(ref, attempt, signal) {
      watcher.called('stop', ref, `${attempt}/${ref.worker}/${signal}`);
      return send(parts, ref, (host) => {
        stopRun(world, host, ref.job.id, `${ref.worker}`, attempt, signal);
        return undefined;
      });
    },
    tail(ref, request, receiver) {
      let isOff = false;
      void followFile(parts, ref, request, receiver, () => isOff);
      return () => {
        isOff = true;
      };
    },
    isTailFree: isOnOwnHost,
    disconnect: () => undefined,
  };
}

export function killFromOutside(
  parts: { readonly world: HostPortOptions['world'] },
  run: Run,
  leavesExit: boolean,
): void {
  run.killed = true;
  endRun(parts.world, run, leavesExit ? 137 : null);
}

function reachableHost(parts: HostPortOptions, ref: WorkerRef): Host | undefined {
  const { world, cloudModel } = parts;
  if (isOnOwnHost(ref)) return world.controllerMachine.hosts[0];
  if (ref.job.spec.capacity.kind === 'hosts') {
    const [host] = world.gpuMachine.hosts;
    return host?.isUp !== true || host.outage !== null || cloudModel.isNetworkCut ? undefined : host;
  }
  const machine = findMachine(world, zoneOf(ref), ref.allocation.name);
  if (machine === undefined || !belongsTo(machine, ref) || cloudModel.isNetworkCut) return undefined;
  const host = machine.hosts[Number(ref.worker)];
  if (host?.isUp !== true || host.outage !== null) return undefined;
  const key = `${ref.job.id}/${ref.allocation.ordinal}`;
  if (!world.trustedMachines.has(key)) world.trustedMachines.set(key, machine);
  return world.trustedMachines.get(key) === machine ? host : undefined;
}

async function observeWorker(parts: HostPortOptions, ref: WorkerRef): Promise<Observed<WorkerStatus>> {
  const { world, cloudModel, chance, clock } = parts;
  const { timeline } = world;
  const began = clock.now();
  await timeline.pause(isOnOwnHost(ref) ? 1 : chance.between(20, 400));
  const host = reachableHost(parts, ref);
  if (host === undefined || (!isOnOwnHost(ref) && chance.yes(cloudModel.faultRates.workerObserveFails))) {
    await timeline.pause(chance.between(1_000, 8_000));
    return unknown('the worker does not answer', began);
  }
  const folder = folderOf(host, ref.job.id, `${ref.worker}`);
  const proofs: string[] = [];
  for (const proof of folder.proofs) {
    const [allocation, key, boot] = proof.split('/');
    const isOfThis = allocation === `${ref.allocation.ordinal}` && boot === host.bootId;
    if (isOfThis && key !== undefined) proofs.push(key);
  }
  const runs = [...folder.runs.entries()]
    .toSorted(([a], [b]) => a - b)
    .map(([attempt, run]) => runStatusOf(parts, attempt, run));
  const reportedMetrics = [...folder.runs.entries()].flatMap(([attempt, run]) =>
    run !== null && writtenBytes(run, 'metrics', timeline.now) > 0 ? [attempt] : [],
  );
  return known({ bootId: host.bootId, proofs, runs, reportedMetrics }, clock.now());
}

/** Times are sent as ages and added to the reader's clock, as real workers do. */
function runStatusOf(parts: HostPortOptions, attempt: number, run: Run | null): RunStatus {
  const status = runStateOf(parts, attempt, run);
  if (run?.checkpoints?.resume !== true || run.startedAt === null) return status;
  const { name: entry = null, at = null } = run.resumedFrom ?? {};
  const age = at === null ? null : parts.world.timeline.now - at;
  return { ...status, resumedFrom: { entry, savedAt: age === null ? null : parts.clock.now() - age } };
}

function runStateOf(parts: HostPortOptions, attempt: number, run: Run | null): RunStatus {
  const { world, clock } = parts;
  const { timeline } = world;
  const { now } = timeline;
  const toReaderTime = (time: number): number => clock.now() - (now - time);
  if (run === null) return { attempt, state: 'vanished', detail: 'it was stopped before it started' };
  if (run.endedAt !== null) {
    if (run.exitCode === null) return { attempt, state: 'vanished', detail: 'its processes were killed from outside' };
    const failure = run.failure !== null && run.exitCode === 0 ? { failure: run.failure } : {};
    return { attempt, state: 'exited', exitCode: run.exitCode, endedAt: toReaderTime(run.endedAt), ...failure };
  }
  if (run.startedAt === null) return { attempt, state: 'starting', since: toReaderTime(run.createdAt) };
  return {
    attempt,
    state: 'running',
    startedAt: toReaderTime(run.startedAt),
    outputAt: toReaderTime(lastPrintedAt(run, now)),
  };
}

/** Sends a script with an effect. If no host is reachable nothing happens, which the sender cannot always see. */
async function send(
  parts: HostPortOptions,
  ref: WorkerRef,
  effect: (host: Host) => OutcomeResult | undefined,
): Promise<OutcomeResult> {
  const { world, cloudModel, chance } = parts;
  const { timeline } = world;
  const { faultRates } = cloudModel;
  const lost: OutcomeResult = { kind: 'unclear', evidence: { message: 'the connection broke' } };
  await timeline.pause(isOnOwnHost(ref) ? 2 : chance.between(50, 900));
  const host = reachableHost(parts, ref);
  if (host === undefined) {
    await timeline.pause(chance.between(2_000, 10_000));
    return { kind: 'failed', evidence: { message: 'the worker does not answer' } };
  }
  if (!isOnOwnHost(ref)) {
    if (chance.yes(faultRates.requestLost)) {
      await timeline.pause(chance.between(2_000, 10_000));
      return lost;
    }
    if (chance.yes(faultRates.effectLate)) {
      timeline.after(chance.between(1_000, 25_000), () => {
        if (host.isUp) effect(host);
      });
      await timeline.pause(chance.between(2_000, 10_000));
      return lost;
    }
  }
  const result = effect(host) ?? { kind: 'done' };
  if (!isOnOwnHost(ref) && chance.yes(faultRates.replyLost)) {
    await timeline.pause(chance.between(2_000, 10_000));
    return lost;
  }
  await timeline.pause(isOnOwnHost(ref) ? 1 : chance.between(20, 300));
  return result;
}

async function followFile(
  parts: HostPortOptions,
  ref: WorkerRef,
  { attempt, file, from: begin }: TailRequest,
  receiver: TailReceiver,
  isOff: () => boolean,
): Promise<void> {
  const { world, cloudModel, chance } = parts;
  const { timeline } = world;
  let from = begin;
  await timeline.pause(isOnOwnHost(ref) ? 1 : chance.between(50, 500));
  for (;;) {
    if (isOff()) return;
    const host = reachableHost(parts, ref);
    if (host === undefined) {
      await timeline.pause(chance.between(2_000, 10_000));
      if (!isOff()) receiver.dropped('the connection broke');
      return;
    }
    const run = folderOf(host, ref.job.id, `${ref.worker}`).runs.get(attempt);
    if (run === undefined) {
      receiver.dropped('there is no such attempt');
      return;
    }
    const available = run === null ? 0 : writtenBytes(run, file, timeline.now);
    if (run !== null && from < available) {
      const to = Math.min(available, from + chance.between(1, 300));
      const chunk = outputOf(run, from, to);
      if (!isOnOwnHost(ref) && chance.yes(cloudModel.faultRates.tailSlow))
        await timeline.pause(chance.between(200, 2_000));
      if (isOff()) return;
      await receiver.bytes(chunk);
      from = to;
      continue;
    }
    if (run === null || run.endedAt !== null) {
      receiver.ended();
      return;
    }
    if (!isOnOwnHost(ref) && chance.yes(cloudModel.faultRates.tailDrops)) {
      receiver.dropped('the connection broke');
      return;
    }
    await nextOutput(parts, run);
  }
}

function nextOutput(parts: HostPortOptions, run: Run): Promise<void> {
  const { timeline } = parts.world;
  return new Promise((resolve) => {
    const done = (): void => {
      callOff();
      run.listeners.delete(done);
      resolve();
    };
    const callOff = timeline.after(Math.max(run.plan.linePeriod, 10_000), done);
    run.listeners.add(done);
  });
}
