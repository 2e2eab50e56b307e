// Lab acts: what the people of a lab do.

import type { Job } from '../src/core/job.ts';
import { minute, second } from '../src/core/time.ts';
import { nameOf, stageOf } from '../src/lab/lineage.ts';
import { usualRule } from '../src/lab/run.ts';
import type { LabJob } from '../src/lab/record.ts';
import { specOf, holding, jobsOf, known } from './lab-world.ts';
import type { Lab } from './lab-world.ts';
import type { LabWish } from './lab-people.ts';
import { lateWord } from './lab-laws.ts';
import { endRun, interruptMachine, isAlive, loseMachine, restartHost, shutDown, silenceHost } from './world.ts';
import type { Machine } from './world.ts';

interface Father {
  readonly job: Job;
  readonly how: 'resume' | 'rerun';
  readonly baseStage: number;
}

/** `tpu run`: the TPU is looked at, whoever holds it is asked about, and then the job is made. */
export async function runOn(lab: Lab, wish: LabWish, tpuName: string, father: Father | null = null): Promise<void> {
  const { world, fault, labJudge, record, client, natures, tpuOf, tpus, clock } = lab;
  const tpu = known(tpus, tpuName);
  if (!(await isMine(lab, tpuName))) return;
  const made = specOf(tpu, wish.rule ?? usualRule(tpu), `/code/${wish.user}`, fault === 'eager rule');
  const { troubleTimeout: _grace, ...patient } = made.limits;
  const spec = fault === 'patient rule' ? { ...made, limits: patient } : made;
  // The TPU may have been taken since it was checked: the record is read right before it is written.
  const other = holding(lab, tpuName);
  if (other !== undefined) {
    world.say(`${wish.user}: ${tpuName} is held by job ${other.id} now`);
    return;
  }
  const job = await client.insert({ owner: wish.user, spec, manifest: '', at: clock.now() });
  natures.set(job.id, wish.nature);
  tpuOf.set(job.id, tpuName);
  const labJob: LabJob = {
    job: job.id,
    user: wish.user,
    directory: `/code/${wish.user}`,
    directoryNumber: 1,
    tpu: tpuName,
    configs: [],
    tag: null,
    monitor: true,
    logStage: wish.logStage,
    father: father === null ? null : { job: father.job.id, attempt: father.job.attempts.length, how: father.how },
    baseStage: father === null || fault === 'forgets stages' ? 0 : father.baseStage,
  };
  labJudge.made(job, labJob);
  await record.addJob(labJob);
  client.tap(job.id);
}

/** Looks at the TPU and at who is on it, and has it put right if its people say so. False: not now. */
async function isMine(lab: Lab, tpuName: string): Promise<boolean> {
  const { desk, tpus, people } = lab;
  const tpu = known(tpus, tpuName);
  const state = await desk.describe(tpu);
  if (state.kind === 'unknown') return false;
  const other = holding(lab, tpuName);
  if (other !== undefined) {
    if (!people.yes(0.15)) return false;
    await kill(lab, other.id);
    if (holding(lab, tpuName) !== undefined) return false;
  }
  if (state.state !== 'ready') {
    if (state.state === 'creating' || state.state === 'repairing' || state.state === 'deleting') return false;
    if (holding(lab, tpuName) !== undefined) return false;
    await desk.reapply(tpu);
    return (await desk.describe(tpu)).kind === 'known';
  }
  const { holders, missed } = await desk.holders(tpu);
  if (missed.length > 0) return false;
  if (holders.length === 0) return true;
  if (!people.yes(0.7)) return false;
  const ended = await desk.end(tpu, { folders: [], pids: holders, graceMs: 0 });
  return ended.missed.length === 0;
}

/** `tpu kill`: the job is cancelled, and what it has left on the workers is ended. */
async function kill(lab: Lab, id: string): Promise<void> {
  const { fault, judge, labJudge, client, beginning } = lab;
  const { timeline } = lab.world;
  if (fault === 'deaf to kill') {
    labJudge.killed(id);
    if (await client.speak('stop', id, {})) timeline.after(5 * minute, () => void client.speak('resume', id, {}));
    return;
  }
  if (!(await client.speak('cancel', id, {}))) return;
  labJudge.killed(id);
  for (let tries = 0; tries < 60 && judge.job(id).settled === null; tries += 1) await timeline.pause(5 * second);
  await beginning.tidy(id, judge.job(id).attempts.length);
}

/** `tpu resume` or `tpu rerun`, on the same TPU or on another. */
async function again(lab: Lab, user: string, how: 'resume' | 'rerun', isElsewhere: boolean): Promise<void> {
  const { plan, labJudge, record, client, natures, tpuOf, people } = lab;
  const over = jobsOf(lab, user).filter(({ settled, attempts }) => settled !== null && attempts.length > 0);
  if (over.length === 0) return;
  const job = people.pick(over);
  if (isElsewhere) {
    const labJob = await record.job(job.id);
    if (labJob === null) return;
    const nature = known(natures, job.id);
    const baseStage = how === 'resume' ? stageOf(labJob, job, job.attempts.length) + 1 : 0;
    const wish = { at: 0, user, rule: null, logStage: labJob.logStage, nature, isTwice: false };
    await runOn(lab, wish, people.pick(plan.tpus).name, { job, how, baseStage });
    return;
  }
  const tpu = known(tpuOf, job.id);
  if (!(await isMine(lab, tpu)) || holding(lab, tpu) !== undefined) return;
  if (await client.speak(how, job.id, {})) labJudge.wanted(job.id, how);
}

/** The tmux window of something that runs is closed by hand: `tpu __closed` says so. */
async function close(lab: Lab, job: Job): Promise<void> {
  const { world, fault, labJudge, record, client, clock } = lab;
  const attempt = job.attempts.length;
  const [shown] = (await record.windows({ jobs: [job.id] })).filter(({ window }) => window.attempt === attempt);
  if (shown === undefined) return;
  world.say(`${job.owner}: closes window ${shown.window.window}`);
  await record.markWindows([{ job: job.id, attempt }], 'closed', clock.now());
  if (fault === 'deaf to closing' || (await client.speak('last', job.id, {}))) labJudge.closed(job.id);
}

/** `tpu clean`: what is over leaves the list. */
async function clean(lab: Lab, user: string): Promise<void> {
  const { world, judge, labJudge, record, clock } = lab;
  const shown = await record.windows({ user });
  const over = shown.filter(({ window }) => judge.job(window.job).settled !== null);
  world.say(`${user}: clears ${over.map(({ window }) => nameOf(window)).join(' ')}`);
  await record.markWindows(
    over.map(({ window: { job, attempt } }) => ({ job, attempt })),
    'cleared',
    clock.now(),
  );
  await labJudge.listChanged(record, user);
}

const things = ['kill', 'kill', 'close', 'resume', 'resume', 'rerun', 'move', 'move', 'move anew', 'clean'] as const;

async function act(lab: Lab): Promise<void> {
  const { plan, people } = lab;
  const user = people.pick(plan.users).name;
  const running = jobsOf(lab, user).filter(({ settled }) => settled === null);
  switch (people.pick(things)) {
    case 'kill':
      return running.length === 0 ? undefined : kill(lab, people.pick(running).id);
    case 'close':
      return running.length === 0 ? undefined : close(lab, people.pick(running));
    case 'resume':
      return again(lab, user, 'resume', false);
    case 'rerun':
      return again(lab, user, 'rerun', false);
    case 'move':
      return again(lab, user, 'resume', true);
    case 'move anew':
      return again(lab, user, 'rerun', true);
    case 'clean':
      return clean(lab, user);
  }
}

export function nextAct(lab: Lab): void {
  const { size, people } = lab;
  const { timeline } = lab.world;
  timeline.after(people.between(1, Math.ceil((1500 * 8) / size.users)) * second, () => {
    if (!lab.isLife) return;
    void act(lab);
    nextAct(lab);
  });
}

// ------------------------------------------------------------------------------------------ what goes wrong

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
