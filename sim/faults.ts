// Faults: everything that goes wrong in a world, from one seed. Kinds and rates differ by seed.

import type { Chance } from './chance.ts';
import { hour, minute, second } from '../src/core/model/time.ts';
import type { CloudModel } from './cloud.ts';
import type { OwnerClient, Controllers, ControllerProcess } from './controllers.ts';
import type { DatabaseServer, Disk } from './outputs.ts';
import { killFromOutside } from './hosts.ts';
import type { InvariantChecker } from './invariants.ts';
import { interruptMachine, isAlive, loseMachine, restartHost, disconnectHost, removeMachine } from './world.ts';
import type { Machine, World } from './world.ts';

/** The clock of the controllers' machine, relative to the world's time. */
export interface WallClock {
  offset: number;
  /** The total by which it was set back. */
  setBack: number;
}

export interface FaultContext {
  readonly world: World;
  readonly cloudModel: CloudModel;
  readonly disk: Disk;
  readonly databaseServer: DatabaseServer;
  readonly wallClock: WallClock;
  readonly checker: InvariantChecker;
  readonly controllers: Controllers;
  /** Two controllers run at once, as servers of different machines with one database. */
  readonly hasServers: boolean;
  readonly client: Pick<OwnerClient, 'sendCommand'>;
  /** Splits off a generator for each purpose. */
  readonly chance: Chance;
  /** The owners' generator, which they also use elsewhere. */
  readonly owners: Chance;
  readonly ids: () => readonly string[];
}

export interface FaultIntensity {
  /** Probability that a controller is killed while it works. */
  readonly killProbability: number;
  readonly length: number;
}

export function drawFaultIntensity(chance: Chance): FaultIntensity {
  return { killProbability: chance.pick([0, 0.5, 0.9]), length: chance.between(3, 12) * minute };
}

/** Injects faults one after another until `isActive` returns false. */
export function startFaults(chance: Chance, parts: FaultContext, isActive: () => boolean): void {
  const { timeline } = parts.world;
  /**
   * A clock that goes back and two simultaneous controllers look the same, so a world has at most one
   * of them.
   */
  const hasSuspension = chance.yes(0.3) || parts.hasServers;
  const enabled = faultsOf(chance, parts).filter(([name]) => {
    const isRare = name.startsWith('clock') || name === 'dead host';
    if (name === 'suspension') return hasSuspension;
    if (name === 'clock backward' || name.startsWith('clock a day')) return !hasSuspension && chance.yes(0.2);
    return chance.yes(isRare ? 0.2 : 0.4);
  });

  // A generator of its own, so that other worlds keep their faults. Beyond ten graces, a TPU's worker would be given up.
  const ownChance = parts.chance.fork('own machine');
  function silenceOwnMachine(): void {
    const { world, ids } = parts;
    timeline.after(ownChance.between(1, 6) * minute, () => {
      if (!isActive()) return;
      const [host] = world.gpuMachine.hosts;
      if (host !== undefined && ids().length > 0) disconnectHost(world, host, ownChance.between(10, 2_400) * second);
      silenceOwnMachine();
    });
  }

  const databaseChance = parts.chance.fork('database');
  function disturbDatabase(): void {
    timeline.after(databaseChance.between(10, 240) * second, () => {
      if (!isActive()) return;
      parts.world.log('storm: the database server loses connections');
      parts.databaseServer.isUnsteady = true;
      timeline.after(databaseChance.between(5, 60) * second, () => {
        parts.databaseServer.isUnsteady = false;
        disturbDatabase();
      });
    });
  }

  const linkChance = parts.chance.fork('links');
  function disturbLink(): void {
    timeline.after(linkChance.between(5, 90) * second, () => {
      if (!isActive()) return;
      const alive = parts.controllers.processes.filter(
        ({ process, exitReason }) => !process.isDead && exitReason === null,
      );
      const { link = null, process } = alive.length === 0 ? {} : linkChance.pick(alive);
      const until = timeline.now + linkChance.between(2_000, 40_000);
      const isCut = linkChance.yes(0.7);
      if (link !== null) {
        parts.world.log(`storm: the database of ${process?.name} is ${isCut ? 'cut off' : 'slow'} until ${until}`);
        if (isCut) link.cutUntil = until;
        else link.slowUntil = until;
      }
      disturbLink();
    });
  }

  function nextFault(): void {
    timeline.after(chance.between(1, 60) * second, () => {
      if (!isActive()) return;
      if (enabled.length > 0) chance.pick(enabled)[1]();
      nextFault();
    });
  }
  nextFault();
  silenceOwnMachine();
  if (databaseChance.yes(0.4)) disturbDatabase();
  if (parts.hasServers) disturbLink();
}

/** Every fault of the storm. A fault that is listed twice is twice as frequent. */
function faultsOf(chance: Chance, parts: FaultContext): readonly (readonly [string, () => void])[] {
  const { world, cloudModel, disk, controllers, checker, wallClock } = parts;
  const { timeline } = world;
  const commandChances = {
    variants: parts.chance.fork('command flags'),
    disableRecovery: parts.chance.fork('disabled recovery'),
  };

  function during(what: string, seconds: number, set: (on: boolean) => void): void {
    world.log(`storm: ${what} for ${seconds} s`);
    set(true);
    timeline.after(seconds * second, () => {
      set(false);
      world.log(`storm: over: ${what}`);
    });
  }

  function fillDisk(seconds: number): void {
    world.diskFullUntil = Math.max(world.diskFullUntil, timeline.now + seconds * second);
    during('the disk is full', seconds, (on) => (disk.isFull = on));
  }

  function cutNetwork(seconds: number): void {
    world.longestNetworkCut += seconds * second;
    world.networkCutUntil = Math.max(world.networkCutUntil, timeline.now + seconds * second);
    during('the connection to all hosts is cut', seconds, (on) => (cloudModel.isNetworkCut = on));
  }

  /**
   * Another controller takes the expired lease, and then the suspended process continues as if nothing had happened.
   */
  function suspend(): void {
    onController((controllerProcess) => {
      // A controller that takes the lease by force holds the machine's lock, and no other one starts.
      if (controllerProcess.leasedAt === null) return;
      world.log(`${controllerProcess.process.name} is suspended`);
      controllerProcess.process.suspend();
      timeline.after(chance.between(1, 20) * second, () => {
        if (controllerProcess.process.isDead || parts.hasServers) return;
        controllers.start('the last one does not answer', false);
      });
      timeline.after(chance.between(20, 90) * second, () => {
        world.log(`${controllerProcess.process.name} continues`);
        controllerProcess.process.resume();
      });
    });
  }

  function jump(length: number): void {
    world.log(`storm: the controller's clock jumps by ${length}`);
    wallClock.offset += length;
    wallClock.setBack += Math.max(0, -length);
    checker.clockJumped(length);
  }

  /** A user sets the wrong date, and corrects it later. */
  function dayAhead(length: number): void {
    jump(24 * hour);
    timeline.after(length, () => jump(-24 * hour));
  }

  function onMachine(apply: (machine: Machine) => void): void {
    const candidates = world.machines.filter(
      (one) => one !== world.controllerMachine && (one.state === 'ready' || one.state === 'provisioning'),
    );
    if (candidates.length > 0) apply(chance.pick(candidates));
  }

  function onRun(apply: (run: World['runs'][number]) => void): void {
    const alive = world.runs.filter(isAlive);
    if (alive.length > 0) apply(chance.pick(alive));
  }

  function onController(apply: (controllerProcess: ControllerProcess) => void): void {
    const alive = controllers.processes.filter(
      (controllerProcess) => !controllerProcess.process.isDead && controllerProcess.exitReason === null,
    );
    if (alive.length > 0) apply(chance.pick(alive));
  }

  return [
    ['preemption', () => onMachine((machine) => loseMachine(world, machine, 'preempted'))],
    ['failure', () => onMachine((machine) => loseMachine(world, machine, 'failed'))],
    ['disappearance', () => onMachine((machine) => machine.isPersistent || removeMachine(world, machine))],
    [
      'maintenance',
      () => onMachine((machine) => void interruptMachine(world, machine, chance.between(10, 180) * second)),
    ],
    ['restart', () => onMachine((machine) => void restartHost(world, chance.pick(machine.hosts)))],
    [
      'silence',
      () => onMachine((machine) => disconnectHost(world, chance.pick(machine.hosts), chance.between(5, 300) * second)),
    ],
    ['dead host', () => onMachine((machine) => disconnectHost(world, chance.pick(machine.hosts), Infinity))],
    ['kill', () => onRun((one) => killFromOutside({ world }, one, chance.yes(0.5)))],
    [
      'outage',
      () => during('the cloud is unreachable', chance.between(10, 300), (on) => (cloudModel.isCloudDown = on)),
    ],
    ['cut', () => cutNetwork(chance.between(10, 120))],
    ['stockout', () => during('there is no capacity', chance.between(10, 300), (on) => (world.hasCapacity = !on))],
    ['full disk', () => fillDisk(chance.between(5, 120))],
    ['death', () => onController((controllerProcess) => controllerProcess.process.crash())],
    ['suspension', suspend],
    ['clock forward', () => jump(chance.between(10, 3_600) * second)],
    ['clock backward', () => jump(-(chance.yes(0.5) ? chance.between(10, 900) * second : 24 * hour))],
    ['clock a day ahead for a while', () => dayAhead(chance.between(5, 240) * second)],
    ['command', () => giveCommand(parts, commandChances)],
    ['command', () => giveCommand(parts, commandChances)],
  ];
}

function giveCommand(
  { owners, client, ids }: FaultContext,
  { variants, disableRecovery }: { readonly variants: Chance; readonly disableRecovery: Chance },
): void {
  const all = ids();
  if (all.length === 0) return;
  const verb = owners.pick([
    'stop',
    'stop',
    'start',
    'resume',
    'rerun',
    'cancel',
    'delete',
    'resume',
    'start',
  ] as const);
  const id = owners.pick(all);
  // A generator of its own, so that older seeds keep their worlds.
  if (disableRecovery.yes(0.15)) void client.sendCommand('disable-recovery', id, {});
  else if (verb === 'stop') void client.sendCommand(verb, id, { release: owners.yes(0.4) });
  else if (verb === 'start') void client.sendCommand(verb, id, { commandOnly: variants.yes(0.3) });
  else void client.sendCommand(verb, id, verb === 'delete' ? { force: variants.yes(0.5) } : {});
}
