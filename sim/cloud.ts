// Cloud: the simulated cloud as a controller sees it. world.ts has the truth; this file decides the answers, their
// delays and the effects of requests whose reply is lost.

import type { AllocationRef, CapacityPort, Clock, Orphan } from '../src/app/ports.ts';
import { capacityOf } from '../src/core/model/job.ts';
import type { CloudErrorKind } from '../src/core/model/job.ts';
import { known, unknown } from '../src/core/model/observation.ts';
import type { AllocationStatus, Observed, OutcomeResult } from '../src/core/model/observation.ts';
import type { BackendName, JobSpec } from '../src/core/model/spec.ts';
import type { Chance, FaultRates } from './chance.ts';
import { findMachine, requestMachine, newMachine, releaseMachine } from './world.ts';
import type { Machine, MachineState, World } from './world.ts';

/** The zone of an allocation in the simulated cloud; see `withAlternatives` in jobs.ts. */
export function zoneOf({ job, allocation }: AllocationRef): string {
  const capacity = capacityOf(job, allocation);
  return capacity.kind === 'tpu' ? capacity.zone : '';
}

function resourceOf({ zone, name }: Machine): string {
  return `projects/simulated/locations/${zone}/nodes/${name}`;
}

export interface CloudModel {
  faultRates: FaultRates;
  isCloudDown: boolean;
  /** No host of the cloud is reachable: our own connection is cut. */
  isNetworkCut: boolean;
}

/** Called for each call as it arrives, before it has an effect; `deletes` just before a release deletes a machine. */
interface CallWatcher {
  deletes?(machine: Machine, ref: AllocationRef): void;
  called(kind: 'request' | 'release' | 'step' | 'start' | 'stop' | 'observe', ref: AllocationRef, detail: string): void;
  orphanReleased(orphan: Orphan): void;
}

export interface PortOptions {
  readonly world: World;
  readonly cloudModel: CloudModel;
  readonly chance: Chance;
  readonly clock: Clock;
  readonly watcher: CallWatcher;
  readonly installation: string;
  /** Number of workers of a new machine for this job. */
  readonly workersOf: (job: string) => number;
}

export function createCloudPort(parts: PortOptions): CapacityPort {
  const { world, cloudModel, chance, clock, watcher } = parts;
  const { timeline } = world;

  /** A zone without permission cannot be listed either. */
  const unlisted = (since: number): Observed<AllocationStatus> => ({
    ...unknown('403 PERMISSION_DENIED', since),
    refused: 'permission',
  });

  return {
    backend: 'tpu',
    async observe(refs) {
      for (const ref of refs) watcher.called('observe', ref, '');
      const began = clock.now();
      await timeline.pause(chance.between(20, 600));
      if (cloudModel.isCloudDown || chance.yes(cloudModel.faultRates.observeFails)) {
        await timeline.pause(chance.between(0, 9_000));
        return refs.map((): Observed<AllocationStatus> => unknown('503 the list failed', began));
      }
      return refs.map((ref) =>
        world.forbiddenZones.has(zoneOf(ref)) ? unlisted(began) : known(observedStatus(parts, ref), clock.now()),
      );
    },
    async request(ref) {
      watcher.called('request', ref, '');
      const { allocation, job } = ref;
      const existing = findMachine(world, zoneOf(ref), allocation.name);
      if (existing !== undefined) {
        await timeline.pause(chance.between(20, 500));
        if (belongsTo(existing, ref)) return { kind: 'done' };
        const error = { kind: 'invalid' as const, message: `${allocation.name} is taken`, raw: '409 ALREADY_EXISTS' };
        return { kind: 'refused', evidence: { message: error.message }, error };
      }
      const refused = drawRefusal(parts, ref);
      if (refused !== undefined) {
        await timeline.pause(chance.between(20, 2_000));
        return cloudModel.isCloudDown ? { kind: 'failed', evidence: { message: 'connection refused' } } : refused;
      }
      return send(parts, () => {
        if (findMachine(world, zoneOf(ref), allocation.name) !== undefined) return;
        const labels = { installation: job.installation, job: job.id, allocation: allocation.ordinal };
        const isPersistent = allocation.ownership === 'persistent';
        const workers = parts.workersOf(job.id);
        requestMachine(
          world,
          newMachine({ name: allocation.name, labels, isPersistent, workers, at: timeline.now, zone: zoneOf(ref) }),
        );
      });
    },
    async release(ref) {
      watcher.called('release', ref, '');
      if (world.forbiddenZones.has(zoneOf(ref)) && !cloudModel.isCloudDown) {
        await timeline.pause(chance.between(20, 2_000));
        return permissionDenied();
      }
      return send(parts, () => {
        const machine = findMachine(world, zoneOf(ref), ref.allocation.name);
        if (machine === undefined || !belongsTo(machine, ref) || wasRecreated(machine, ref)) return;
        watcher.deletes?.(machine, ref);
        releaseMachine(world, machine);
      });
    },
    async listLabelled(locations) {
      await timeline.pause(chance.between(50, 1_000));
      const first = locations[0];
      if (
        first === undefined ||
        cloudModel.isCloudDown ||
        chance.yes(cloudModel.faultRates.observeFails) ||
        world.forbiddenZones.has(zoneOf(first))
      ) {
        return unknown('503 the list failed', clock.now());
      }
      world.listedAt.set(zoneOf(first), timeline.now);
      const orphans = world.machines.flatMap((machine): Orphan[] => {
        if (machine.zone !== zoneOf(first)) return [];
        const { labels } = machine;
        if (machine.state === 'gone' || labels?.installation !== parts.installation) return [];
        const slice = machine.state === 'ready' ? 'ready' : machine.cause === 'preempted' ? 'preempted' : 'other';
        const resource = resourceOf(machine);
        return [{ backend: 'tpu', resource, ...labels, state: machine.state, slices: [slice] }];
      });
      return known(orphans, clock.now());
    },
    async releaseOrphan(orphan) {
      watcher.orphanReleased(orphan);
      return send(parts, () => {
        const machine = world.machines.find((one) => one.state !== 'gone' && resourceOf(one) === orphan.resource);
        const labels = machine?.labels;
        if (machine === undefined || labels === null || labels === undefined) return;
        if (labels.job !== orphan.job || labels.allocation !== orphan.allocation) return;
        releaseMachine(world, machine);
      });
    },
    pricePerHour: (_spec: JobSpec) => 1,
  };
}

export function createLocalPort(clock: Clock, world: World): CapacityPort {
  const done = async (): Promise<OutcomeResult> => ({ kind: 'done' });
  return {
    backend: 'hosts' satisfies BackendName,
    observe: async (refs) => {
      await world.timeline.pause(1);
      return refs.map(({ job: { spec } }) => {
        const workers = spec.capacity.kind === 'hosts' ? spec.capacity.hosts.length : 1;
        return known<AllocationStatus>({ state: 'ready', detail: 'here', workers }, clock.now());
      });
    },
    request: done,
    release: done,
    listLabelled: async () => known<readonly Orphan[]>([], clock.now()),
    releaseOrphan: done,
    pricePerHour: () => null,
  };
}

function lastMachineOf(world: World, ref: AllocationRef): Machine | undefined {
  return world.machines.findLast(({ name, zone }) => name === ref.allocation.name && zone === zoneOf(ref));
}

function permissionDenied(): OutcomeResult {
  const error = { kind: 'permission' as const, message: 'no permission', raw: '403 PERMISSION_DENIED' };
  return { kind: 'refused', evidence: { message: error.message }, error };
}

/** True if the machine can be this allocation: an ephemeral one by its labels, a persistent one by its name. */
export function belongsTo(machine: Machine, ref: AllocationRef): boolean {
  if (ref.allocation.ownership === 'persistent') return true;
  const { labels } = machine;
  return (
    labels !== null &&
    labels.installation === ref.job.installation &&
    labels.job === ref.job.id &&
    labels.allocation === ref.allocation.ordinal
  );
}

/**
 * True if a user has recreated the machine since that persistent allocation was seen ready: only the name is the same.
 */
function wasRecreated(machine: Machine, { allocation }: AllocationRef): boolean {
  return allocation.creationTime !== undefined && allocation.creationTime !== creationTimeOf(machine);
}

export function creationTimeOf({ createdAt }: Machine): string {
  return `${createdAt}`;
}

function statusOf(machine: Machine, state: MachineState): AllocationStatus {
  switch (state) {
    case 'waiting':
      return { state, detail: 'WAITING_FOR_RESOURCES' };
    case 'provisioning':
      return { state, detail: 'CREATING' };
    case 'ready':
      return {
        state,
        detail: 'READY',
        workers: machine.hosts.length,
      };
    case 'interrupted':
      return { state, detail: 'REPAIRING' };
    case 'lost': {
      const cause = machine.cause ?? 'failed';
      if (cause === 'preempted') return { state, detail: 'PREEMPTED', cause };
      return { state, detail: 'FAILED', cause, error: { kind: 'internal', message: 'it failed', raw: 'FAILED' } };
    }
    case 'releasing':
      return { state, detail: 'DELETING' };
    case 'gone':
      return { state: 'absent', detail: 'not found' };
  }
}

function drawRefusal(parts: PortOptions, ref: AllocationRef): OutcomeResult | undefined {
  const { world, cloudModel, chance } = parts;
  const zone = zoneOf(ref);
  const { faultRates } = cloudModel;
  const draw = (kind: CloudErrorKind, raw: string): OutcomeResult => {
    const error = { kind, message: `the cloud refused: ${kind}`, raw };
    return { kind: 'failed', evidence: { message: error.message }, error };
  };
  if (world.forbiddenZones.has(zone)) return permissionDenied();
  if (world.emptyZones.has(zone)) return draw('stockout', '429 no more capacity in the zone');
  if (chance.yes(faultRates.permission)) return permissionDenied();
  if (!world.hasCapacity && chance.yes(0.5)) return draw('stockout', '429 no more capacity in the zone');
  if (chance.yes(faultRates.stockout)) return draw('stockout', '429 no more capacity in the zone');
  if (chance.yes(faultRates.quota)) return draw('quota', '429 quota exceeded');
  if (chance.yes(faultRates.rateLimited)) return draw('rate_limited', '429 slow down');
  if (chance.yes(faultRates.internal)) return draw('internal', '500 internal');
  return undefined;
}

/** Sends a message with an effect. The reply may be correct, wrong or missing. */
async function send(parts: PortOptions, effect: () => void): Promise<OutcomeResult> {
  const { world, cloudModel, chance } = parts;
  const { timeline } = world;
  const { faultRates } = cloudModel;
  await timeline.pause(chance.between(20, 800));
  const lost: OutcomeResult = { kind: 'unclear', evidence: { message: 'no reply in time' } };
  if (cloudModel.isCloudDown) {
    await timeline.pause(chance.between(1_000, 10_000));
    return { kind: 'failed', evidence: { message: 'connection refused' } };
  }
  if (chance.yes(faultRates.effectLate)) {
    timeline.after(chance.between(5_000, 240_000), effect);
    await timeline.pause(chance.between(5_000, 20_000));
    return lost;
  }
  if (chance.yes(faultRates.requestLost)) {
    await timeline.pause(chance.between(5_000, 20_000));
    return lost;
  }
  effect();
  if (chance.yes(faultRates.replyLost)) {
    await timeline.pause(chance.between(5_000, 20_000));
    return lost;
  }
  await timeline.pause(chance.between(20, 500));
  return { kind: 'done' };
}

function observedStatus(parts: PortOptions, ref: AllocationRef): AllocationStatus {
  const { world, cloudModel, chance } = parts;
  const { timeline } = world;
  const machine = findMachine(world, zoneOf(ref), ref.allocation.name) ?? lastMachineOf(world, ref);
  if (machine === undefined) return { state: 'absent', detail: 'not found' };
  if (!belongsTo(machine, ref)) return { state: 'foreign', detail: 'not ours' };
  if (wasRecreated(machine, ref)) return { state: 'absent', detail: 'another TPU of this name has replaced it' };
  const isStale = timeline.now - machine.stateSince < 4_000 && chance.yes(cloudModel.faultRates.listStale);
  if (isStale && machine.stateBefore === null) return { state: 'absent', detail: 'not found' };
  if (machine.state !== 'gone' && !machine.wasOmitted && chance.yes(cloudModel.faultRates.listPartial)) {
    machine.wasOmitted = true;
    return { state: 'absent', detail: 'not found' };
  }
  const status = statusOf(machine, isStale && machine.stateBefore !== null ? machine.stateBefore : machine.state);
  return machine.isPersistent ? { ...status, creationTime: creationTimeOf(machine) } : status;
}
