// Lab storm: what goes wrong in the life of a lab.

import { minute, second } from '../src/core/time.ts';
import { lateWord } from './lab-laws.ts';
import type { Lab } from './lab-parts.ts';
import { endRun, interruptMachine, isAlive, loseMachine, restartHost, shutDown, silenceHost } from './world.ts';
import type { Machine } from './world.ts';

function during(lab: Lab, what: string, length: number, turn: (on: boolean) => void): void {
  const { world } = lab;
  const { timeline } = lab.world;
  world.say(`storm: ${what} for ${length}`);
  turn(true);
  timeline.after(length, () => turn(false));
}

/** The login machine goes down with every controller, and comes back. */
export function reboot(lab: Lab): void {
  const { world, controllers, login } = lab;
  const { timeline } = lab.world;
  world.say('storm: the login machine is rebooted');
  for (const life of controllers.lives) life.incarnation.die();
  void restartHost(world, login);
  timeline.after(3 * minute, () => controllers.ensureAlive('the login machine is back'));
}

/** A colleague deletes it and makes it anew, whoever has a job on it. */
function makeAnew(lab: Lab, machine: Machine): void {
  const { world, plan, labJudge, desk } = lab;
  const tpu = plan.tpus.find(({ name }) => name === machine.name);
  if (tpu === undefined) return;
  world.say(`storm: ${tpu.name} is made anew by hand`);
  labJudge.madeAnew(machine);
  void desk.reapply(tpu);
}

/** Its machines go down, and the cloud says so some time after. */
function takeAway(lab: Lab, machine: Machine): void {
  const { world, storm } = lab;
  const { timeline } = lab.world;
  world.say(`storm: ${machine.name} is taken away`);
  machine.troubledAt = timeline.now;
  for (const host of machine.hosts) shutDown(world, host);
  timeline.after(storm.between(0, lateWord), () => loseMachine(world, machine, 'preempted'));
}

function cutLine(lab: Lab, length: number): void {
  const { world, sky } = lab;
  const { timeline } = lab.world;
  world.lineCutLongest += length;
  world.lineCutUntil = Math.max(world.lineCutUntil, timeline.now + length);
  during(lab, 'the line to all TPUs is cut', length, (on) => (sky.lineIsCut = on));
}

/** Somebody kills a script on the login machine, or it runs out of memory. */
function killScript(lab: Lab): void {
  const { world, storm } = lab;
  const alive = world.runs.filter(isAlive);
  if (alive.length === 0) return;
  const run = storm.pick(alive);
  run.killed = true;
  world.say(`storm: somebody kills the script of ${run.job}/${run.attempt}`);
  endRun(world, run, storm.yes(0.5) ? 137 : null);
}

/** Accidents come from now on, about as many an hour as there are jobs on preemptible TPUs to hit. */
export function beginAccidents(lab: Lab): void {
  nextAccident(
    lab,
    accidentsOf(lab).flatMap(([weight, hit]) => Array.from({ length: weight }, () => hit)),
  );
}

function nextAccident(lab: Lab, weights: readonly (() => void)[]): void {
  const { size, storm } = lab;
  const { timeline } = lab.world;
  timeline.after(storm.between(1, Math.ceil((1200 * 30) / size.tpus / 4)) * second, () => {
    if (!lab.isLife) return;
    storm.pick(weights)();
    nextAccident(lab, weights);
  });
}

/** Each with how often it comes. */
function accidentsOf(lab: Lab): readonly (readonly [weight: number, hit: () => void])[] {
  const { world, sky, storm, controllers, tpus } = lab;
  const onMachine = (hit: (machine: Machine) => void, isMeant: (machine: Machine) => boolean = () => true): void => {
    const there = world.machines.filter((one) => one !== world.here && one.state === 'ready' && isMeant(one));
    if (there.length > 0) hit(storm.pick(there));
  };
  const isPreemptible = ({ name }: Machine): boolean => tpus.get(name)?.pricing !== 'ondemand';
  return [
    [10, () => onMachine((machine) => takeAway(lab, machine), isPreemptible)],
    [1, () => onMachine((machine) => loseMachine(world, machine, 'failed'))],
    [2, () => onMachine((machine) => void interruptMachine(world, machine, storm.between(30, 600) * second))],
    [2, () => onMachine(({ hosts }) => void restartHost(world, storm.pick(hosts)))],
    [3, () => onMachine(({ hosts }) => silenceHost(world, storm.pick(hosts), storm.between(5, 900) * second))],
    [1, () => during(lab, 'the cloud is out of reach', storm.between(1, 10) * minute, (on) => (sky.cloudIsDown = on))],
    [1, () => cutLine(lab, storm.between(10, 240) * second)],
    [1, () => during(lab, 'there is no capacity', storm.between(5, 60) * minute, (on) => (world.hasCapacity = !on))],
    [2, () => controllers.lives.at(-1)?.incarnation.die()],
    [1, () => killScript(lab)],
    [2, () => onMachine((machine) => makeAnew(lab, machine))],
  ];
}
