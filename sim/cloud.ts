// Cloud: capacity as a controller sees it. Truth is in world.ts; here is what is answered, and when, and what becomes of
// a message whose reply is lost.

import type { AllocationRef, CapacityPort, Clock, Stray } from '../src/app/ports.ts';
import { capacityOf } from '../src/core/job.ts';
import type { CloudErrorKind } from '../src/core/job.ts';
import { known, unknown } from '../src/core/observation.ts';
import type { AllocationSeen, Fact, OutcomeResult } from '../src/core/observation.ts';
import type { BackendName, JobSpec } from '../src/core/spec.ts';
import type { Chance, Weather } from './chance.ts';
import { findMachine, makeMachine, newMachine, releaseMachine } from './world.ts';
import type { Machine, MachineState, World } from './world.ts';

/** Which zone of the pretend cloud an allocation is in; see `withPlaces` in jobs.ts. */
export function zoneOf({ job, allocation }: AllocationRef): string {
  const capacity = capacityOf(job, allocation);
  return capacity.kind === 'tpu' ? capacity.zone : '';
}

function resourceOf({ zone, name }: Machine): string {
  return `projects/pretend/locations/${zone}/nodes/${name}`;
}

export interface Sky {
  weather: Weather;
  cloudIsDown: boolean;
  /** Nobody reaches any host of the cloud: the line at our end is cut. */
  lineIsCut: boolean;
}

/** Told of each call as it arrives, before anything comes of it. */
interface CallWatcher {
  called(kind: 'request' | 'release' | 'step' | 'start' | 'stop' | 'look', ref: AllocationRef, detail: string): void;
  strayReleased(stray: Stray): void;
}

export interface PortParts {
  readonly world: World;
  readonly sky: Sky;
  readonly chance: Chance;
  readonly clock: Clock;
  readonly watcher: CallWatcher;
  readonly installation: string;
  /** How many workers a new machine for this job has. */
  readonly workersOf: (job: string) => number;
}

export function createCloud(parts: PortParts): CapacityPort {
  const { world, sky, chance, clock, watcher } = parts;
  const { timeline } = world;

  /** A zone that is closed to us is not listed, either. */
  const unlisted = (since: number): Fact<AllocationSeen> => ({
    ...unknown('403 PERMISSION_DENIED', since),
    refused: 'permission',
  });

  return {
    backend: 'tpu',
    async look(refs) {
      for (const ref of refs) watcher.called('look', ref, '');
      const began = clock.now();
      await timeline.pause(chance.between(20, 600));
      if (sky.cloudIsDown || chance.yes(sky.weather.lookFails)) {
        await timeline.pause(chance.between(0, 9_000));
        return refs.map((): Fact<AllocationSeen> => unknown('503 the list could not be made', began));
      }
      return refs.map((ref) =>
        world.closed.has(zoneOf(ref)) ? unlisted(began) : known(seen(parts, ref), clock.now()),
      );
    },
    async request(ref) {
      watcher.called('request', ref, '');
      const { allocation, job } = ref;
      const existing = findMachine(world, zoneOf(ref), allocation.name);
      if (existing !== undefined) {
        await timeline.pause(chance.between(20, 500));
        if (isTheirs(existing, ref)) return { kind: 'done' };
        const error = { kind: 'invalid' as const, message: `${allocation.name} is taken`, raw: '409 ALREADY_EXISTS' };
        return { kind: 'refused', evidence: { detail: error.message }, error };
      }
      const refused = refusal(parts, ref);
      if (refused !== undefined) {
        await timeline.pause(chance.between(20, 2_000));
        return sky.cloudIsDown ? { kind: 'failed', evidence: { detail: 'connection refused' } } : refused;
      }
      return send(parts, () => {
        if (findMachine(world, zoneOf(ref), allocation.name) !== undefined) return;
        const labels = { installation: job.installation, job: job.id, allocation: allocation.ordinal };
        const isStanding = allocation.ownership === 'standing';
        const workers = parts.workersOf(job.id);
        makeMachine(
          world,
          newMachine({ name: allocation.name, labels, isStanding, workers, at: timeline.now, zone: zoneOf(ref) }),
        );
      });
    },
    async release(ref) {
      watcher.called('release', ref, '');
      if (world.closed.has(zoneOf(ref)) && !sky.cloudIsDown) {
        await timeline.pause(chance.between(20, 2_000));
        return forbidden();
      }
      return send(parts, () => {
        const machine = findMachine(world, zoneOf(ref), ref.allocation.name);
        if (machine !== undefined && isTheirs(machine, ref) && !isAnother(machine, ref)) releaseMachine(world, machine);
      });
    },
    async sweep(places) {
      await timeline.pause(chance.between(50, 1_000));
      const first = places[0];
      if (
        first === undefined ||
        sky.cloudIsDown ||
        chance.yes(sky.weather.lookFails) ||
        world.closed.has(zoneOf(first))
      ) {
        return unknown('503 the list could not be made', clock.now());
      }
      const strays = world.machines.flatMap((machine): Stray[] => {
        if (machine.zone !== zoneOf(first)) return [];
        const { labels } = machine;
        if (machine.state === 'gone' || labels?.installation !== parts.installation) return [];
        return [{ backend: 'tpu', resource: resourceOf(machine), ...labels, state: machine.state }];
      });
      return known(strays, clock.now());
    },
    async releaseStray(stray) {
      watcher.strayReleased(stray);
      return send(parts, () => {
        const machine = world.machines.find((one) => one.state !== 'gone' && resourceOf(one) === stray.resource);
        const labels = machine?.labels;
        if (machine === undefined || labels === null || labels === undefined) return;
        if (labels.job !== stray.job || labels.allocation !== stray.allocation) return;
        releaseMachine(world, machine);
      });
    },
    pricePerHour: (_spec: JobSpec) => 1,
  };
}

export function createHere(clock: Clock, world: World): CapacityPort {
  const done = async (): Promise<OutcomeResult> => ({ kind: 'done' });
  return {
    backend: 'local' satisfies BackendName,
    look: async (refs) => {
      await world.timeline.pause(1);
      return refs.map(() => known<AllocationSeen>({ state: 'ready', detail: 'here', workers: 1 }, clock.now()));
    },
    request: done,
    release: done,
    sweep: async () => known<readonly Stray[]>([], clock.now()),
    releaseStray: done,
    pricePerHour: () => null,
  };
}

function lastOf(world: World, ref: AllocationRef): Machine | undefined {
  return world.machines.findLast(({ name, zone }) => name === ref.allocation.name && zone === zoneOf(ref));
}

function forbidden(): OutcomeResult {
  const error = { kind: 'permission' as const, message: 'the cloud said permission', raw: '403 PERMISSION_DENIED' };
  return { kind: 'refused', evidence: { detail: error.message }, error };
}

/** Whether that allocation may speak of that machine: an owned one by its labels, a standing one by its name. */
export function isTheirs(machine: Machine, ref: AllocationRef): boolean {
  if (ref.allocation.ownership === 'standing') return true;
  const { labels } = machine;
  return (
    labels !== null &&
    labels.installation === ref.job.installation &&
    labels.job === ref.job.id &&
    labels.allocation === ref.allocation.ordinal
  );
}

/** Whether somebody has made it anew since that allocation was seen ready: it has the name of a standing one and nothing else of it. */
function isAnother(machine: Machine, { allocation }: AllocationRef): boolean {
  return allocation.made !== undefined && allocation.made !== wordOf(machine);
}

function wordOf({ madeAt }: Machine): string {
  return `${madeAt}`;
}

function seenAs(machine: Machine, state: MachineState): AllocationSeen {
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
        ...(machine.isStanding ? { made: wordOf(machine) } : {}),
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

function refusal(parts: PortParts, ref: AllocationRef): OutcomeResult | undefined {
  const { world, sky, chance } = parts;
  const zone = zoneOf(ref);
  const { weather } = sky;
  const draw = (kind: CloudErrorKind, raw: string): OutcomeResult => {
    const error = { kind, message: `the cloud said ${kind}`, raw };
    return { kind: 'failed', evidence: { detail: error.message }, error };
  };
  if (world.closed.has(zone)) return forbidden();
  if (world.bare.has(zone)) return draw('stockout', '429 no more capacity in the zone');
  if (chance.yes(weather.permission)) return forbidden();
  if (!world.hasCapacity && chance.yes(0.5)) return draw('stockout', '429 no more capacity in the zone');
  if (chance.yes(weather.stockout)) return draw('stockout', '429 no more capacity in the zone');
  if (chance.yes(weather.quota)) return draw('quota', '429 quota exceeded');
  if (chance.yes(weather.rateLimited)) return draw('rate_limited', '429 slow down');
  if (chance.yes(weather.internal)) return draw('internal', '500 internal');
  return undefined;
}

/** Sends a message that has an effect; what comes back may tell, mislead or be silent. */
async function send(parts: PortParts, effect: () => void): Promise<OutcomeResult> {
  const { world, sky, chance } = parts;
  const { timeline } = world;
  const { weather } = sky;
  await timeline.pause(chance.between(20, 800));
  const lost: OutcomeResult = { kind: 'unclear', evidence: { detail: 'no reply in time' } };
  if (sky.cloudIsDown) {
    await timeline.pause(chance.between(1_000, 10_000));
    return { kind: 'failed', evidence: { detail: 'connection refused' } };
  }
  if (chance.yes(weather.effectLate)) {
    timeline.after(chance.between(5_000, 240_000), effect);
    await timeline.pause(chance.between(5_000, 20_000));
    return lost;
  }
  if (chance.yes(weather.requestLost)) {
    await timeline.pause(chance.between(5_000, 20_000));
    return lost;
  }
  effect();
  if (chance.yes(weather.replyLost)) {
    await timeline.pause(chance.between(5_000, 20_000));
    return lost;
  }
  await timeline.pause(chance.between(20, 500));
  return { kind: 'done' };
}

function seen(parts: PortParts, ref: AllocationRef): AllocationSeen {
  const { world, sky, chance } = parts;
  const { timeline } = world;
  const machine = findMachine(world, zoneOf(ref), ref.allocation.name) ?? lastOf(world, ref);
  if (machine === undefined) return { state: 'absent', detail: 'not found' };
  if (!isTheirs(machine, ref)) return { state: 'foreign', detail: 'not ours' };
  if (isAnother(machine, ref)) return { state: 'absent', detail: 'another of its name was made in its place' };
  const isStale = timeline.now - machine.stateSince < 4_000 && chance.yes(sky.weather.listStale);
  if (isStale && machine.stateBefore === null) return { state: 'absent', detail: 'not found' };
  if (machine.state !== 'gone' && !machine.wasMissed && chance.yes(sky.weather.listPartial)) {
    machine.wasMissed = true;
    return { state: 'absent', detail: 'not found' };
  }
  return seenAs(machine, isStale && machine.stateBefore !== null ? machine.stateBefore : machine.state);
}
