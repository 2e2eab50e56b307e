// Storm: everything that goes wrong in a world, from one seed. What is enabled, and how hard it blows, differs by seed.

import type { Chance } from './chance.ts';
import { hour, minute, second } from '../src/core/time.ts';
import type { Sky } from './cloud.ts';
import type { Client, Controllers, Life } from './controllers.ts';
import type { Disk } from './outputs.ts';
import { killFromOutside } from './hosts.ts';
import type { Judge } from './laws.ts';
import { interruptMachine, isAlive, loseMachine, restartHost, silenceHost, vanish } from './world.ts';
import type { Machine, World } from './world.ts';

/** The wall clock of the machine that the controllers run on, against the world's time. */
export interface Wall {
  offset: number;
  /** How far it was set back, all in all. */
  setBack: number;
}

export interface StormParts {
  readonly world: World;
  readonly sky: Sky;
  readonly disk: Disk;
  readonly wall: Wall;
  readonly judge: Judge;
  readonly controllers: Controllers;
  readonly client: Pick<Client, 'speak'>;
  /** Splits off a generator for each purpose. */
  readonly chance: Chance;
  /** The owners' own, which they also use elsewhere. */
  readonly owners: Chance;
  readonly ids: () => readonly string[];
}

export interface StormStrength {
  /** How probably a controller is killed while it works. */
  readonly killiness: number;
  readonly length: number;
}

export function drawStrength(storm: Chance): StormStrength {
  return { killiness: storm.pick([0, 0.5, 0.9]), length: storm.between(3, 12) * minute };
}

/** Accidents come one after another from now on, until `isStorm` says no. */
export function beginStorm(storm: Chance, parts: StormParts, isStorm: () => boolean): void {
  const { timeline } = parts.world;
  /** Clocks that go back and two controllers at a moment do not come together: nothing can tell them apart then. */
  const hasSuspension = storm.yes(0.3);
  const enabled = accidentsOf(storm, parts).filter(([name]) => {
    const isRare = name.startsWith('clock') || name === 'dead host';
    if (name === 'suspension') return hasSuspension;
    if (name === 'clock backward' || name.startsWith('clock a day')) return !hasSuspension && storm.yes(0.2);
    return storm.yes(isRare ? 0.2 : 0.4);
  });

  function nextAccident(): void {
    timeline.after(storm.between(1, 60) * second, () => {
      if (!isStorm()) return;
      if (enabled.length > 0) storm.pick(enabled)[1]();
      nextAccident();
    });
  }
  nextAccident();
}

/** Every accident of the storm, each as often as it is in the list. */
function accidentsOf(storm: Chance, parts: StormParts): readonly (readonly [string, () => void])[] {
  const { world, sky, disk, controllers, judge, wall } = parts;
  const { timeline } = world;
  const words = {
    ways: parts.chance.fork('ways of saying it'),
    lasts: parts.chance.fork('words that nothing is to follow'),
  };

  function during(what: string, seconds: number, turn: (on: boolean) => void): void {
    world.say(`storm: ${what} for ${seconds} s`);
    turn(true);
    timeline.after(seconds * second, () => {
      turn(false);
      world.say(`storm: over: ${what}`);
    });
  }

  function fillDisk(seconds: number): void {
    world.diskFullUntil = Math.max(world.diskFullUntil, timeline.now + seconds * second);
    during('the disk is full', seconds, (on) => (disk.isFull = on));
  }

  function cutLine(seconds: number): void {
    world.lineCutLongest += seconds * second;
    world.lineCutUntil = Math.max(world.lineCutUntil, timeline.now + seconds * second);
    during('the line to all hosts is cut', seconds, (on) => (sky.lineIsCut = on));
  }

  /** The process stands still, another takes the lease when it has run out, and the first goes on as if nothing had been. */
  function suspend(): void {
    onLife((life) => {
      // Who takes the lease by force holds the machine's lock, and nobody else begins beside it.
      if (!life.hasBegun) return;
      world.say(`${life.incarnation.name} is suspended`);
      life.incarnation.freeze();
      timeline.after(storm.between(1, 20) * second, () => {
        if (life.incarnation.isDead) return;
        controllers.begin('the last one does not answer', false);
      });
      timeline.after(storm.between(20, 90) * second, () => {
        world.say(`${life.incarnation.name} goes on`);
        life.incarnation.thaw();
      });
    });
  }

  function jump(length: number): void {
    world.say(`storm: the controller's clock jumps by ${length}`);
    wall.offset += length;
    wall.setBack += Math.max(0, -length);
    if (length > 0) judge.clockJumpedForward();
  }

  /** Somebody sets the wrong date, and right again. */
  function dayAhead(length: number): void {
    jump(24 * hour);
    timeline.after(length, () => jump(-24 * hour));
  }

  function onMachine(hit: (machine: Machine) => void): void {
    const candidates = world.machines.filter(
      (one) => one !== world.here && (one.state === 'ready' || one.state === 'provisioning'),
    );
    if (candidates.length > 0) hit(storm.pick(candidates));
  }

  function onRun(hit: (run: World['runs'][number]) => void): void {
    const alive = world.runs.filter(isAlive);
    if (alive.length > 0) hit(storm.pick(alive));
  }

  function onLife(hit: (life: Life) => void): void {
    const alive = controllers.lives.filter((life) => !life.incarnation.isDead && life.hasLeft === null);
    if (alive.length > 0) hit(storm.pick(alive));
  }

  return [
    ['preemption', () => onMachine((machine) => loseMachine(world, machine, 'preempted'))],
    ['failure', () => onMachine((machine) => loseMachine(world, machine, 'failed'))],
    ['disappearance', () => onMachine((machine) => machine.isStanding || vanish(world, machine))],
    [
      'maintenance',
      () => onMachine((machine) => void interruptMachine(world, machine, storm.between(10, 180) * second)),
    ],
    ['restart', () => onMachine((machine) => void restartHost(world, storm.pick(machine.hosts)))],
    [
      'silence',
      () => onMachine((machine) => silenceHost(world, storm.pick(machine.hosts), storm.between(5, 300) * second)),
    ],
    ['dead host', () => onMachine((machine) => silenceHost(world, storm.pick(machine.hosts), Infinity))],
    ['kill', () => onRun((one) => killFromOutside({ world }, one, storm.yes(0.5)))],
    ['outage', () => during('the cloud is out of reach', storm.between(10, 300), (on) => (sky.cloudIsDown = on))],
    ['cut', () => cutLine(storm.between(10, 120))],
    ['stockout', () => during('there is no capacity', storm.between(10, 300), (on) => (world.hasCapacity = !on))],
    ['full disk', () => fillDisk(storm.between(5, 120))],
    ['death', () => onLife((life) => life.incarnation.die())],
    ['suspension', suspend],
    ['clock forward', () => jump(storm.between(10, 3_600) * second)],
    ['clock backward', () => jump(-(storm.yes(0.5) ? storm.between(10, 900) * second : 24 * hour))],
    ['clock a day ahead for a while', () => dayAhead(storm.between(5, 240) * second)],
    ['word', () => sayWord(parts, words)],
    ['word', () => sayWord(parts, words)],
  ];
}

function sayWord(
  { owners, client, ids }: StormParts,
  { ways, lasts }: { readonly ways: Chance; readonly lasts: Chance },
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
  // Of a chance of its own, so that older worlds stay what they were.
  if (lasts.yes(0.15)) void client.speak('last', id, {});
  else if (verb === 'stop') void client.speak(verb, id, { release: owners.yes(0.4) });
  else if (verb === 'start') void client.speak(verb, id, { commandOnly: ways.yes(0.3) });
  else void client.speak(verb, id, verb === 'delete' ? { force: ways.yes(0.5) } : {});
}
