// Lab actions: the commands of a lab's users.

import type { Job } from '../src/core/model/job.ts';
import { minute, second } from '../src/core/model/time.ts';
import { attemptKey, stageOf } from '../src/lab/lineage.ts';
import { defaultRule } from '../src/lab/run-spec.ts';
import type { LabJob } from '../src/lab/lab-store.ts';
import { specOf, holderOf, jobsOf, lookUp } from './lab-world.ts';
import type { Lab } from './lab-world.ts';
import type { PlannedLabRun } from './lab-people.ts';
import { maxPreemptionReportDelay } from './lab-invariants.ts';
import { endRun, interruptMachine, isAlive, loseMachine, restartHost, shutDown, disconnectHost } from './world.ts';
import type { Machine } from './world.ts';

interface Parent {
  readonly job: Job;
  readonly startMode: 'resume' | 'rerun';
  readonly baseStage: number;
}

/** `tpu run`: the TPU is checked, its holders are resolved, and then the job is created. */
export async function runOn(
  lab: Lab,
  planned: PlannedLabRun,
  tpuName: string,
  parent: Parent | null = null,
): Promise<void> {
  const { world, fault, labChecker, record, client, profiles, tpuOf, tpus, clock } = lab;
  const tpu = lookUp(tpus, tpuName);
  if (!(await claimTpu(lab, tpuName))) return;
  const usualSpec = specOf(tpu, planned.rule ?? defaultRule(tpu), `/code/${planned.user}`, fault === 'rule-recreates');
  const { failedCallTimeoutMs: _grace, ...patient } = usualSpec.limits;
  const spec = fault === 'hang-ignored' ? { ...usualSpec, limits: patient } : usualSpec;
  // The TPU may have been taken since the check: the database is read right before the write.
  const other = holderOf(lab, tpuName);
  if (other !== undefined) {
    world.log(`${planned.user}: ${tpuName} is now held by job ${other.id}`);
    return;
  }
  const job = await client.insert({ owner: planned.user, spec, manifest: '', at: clock.now() });
  profiles.set(job.id, planned.profile);
  tpuOf.set(job.id, tpuName);
  const labJob: LabJob = {
    job: job.id,
    user: planned.user,
    directory: `/code/${planned.user}`,
    directoryNumber: 1,
    tpu: tpuName,
    configs: [],
    tag: null,
    monitor: true,
    logStage: planned.logStage,
    parent:
      parent === null ? null : { job: parent.job.id, attempt: parent.job.attempts.length, startMode: parent.startMode },
    baseStage: parent === null || fault === 'stage-reset' ? 0 : parent.baseStage,
  };
  labChecker.jobCreated(job, labJob);
  await record.addJob(labJob);
  client.wake(job.id);
}

/** Checks the TPU and its holders, and repairs it if its users say so. False: not now. */
async function claimTpu(lab: Lab, tpuName: string): Promise<boolean> {
  const { tpuOperations, tpus, peopleChance } = lab;
  const tpu = lookUp(tpus, tpuName);
  const state = await tpuOperations.describe(tpu);
  if (state.kind === 'unknown') return false;
  const other = holderOf(lab, tpuName);
  if (other !== undefined) {
    if (!peopleChance.yes(0.15)) return false;
    await kill(lab, other.id);
    if (holderOf(lab, tpuName) !== undefined) return false;
  }
  if (state.state !== 'ready') {
    if (state.state === 'creating' || state.state === 'repairing' || state.state === 'deleting') return false;
    if (holderOf(lab, tpuName) !== undefined) return false;
    await tpuOperations.reapply(tpu);
    return (await tpuOperations.describe(tpu)).kind === 'known';
  }
  const { holders, unreachable } = await tpuOperations.holders(tpu);
  if (unreachable.length > 0) return false;
  if (holders.length === 0) return true;
  if (!peopleChance.yes(0.7)) return false;
  const ended = await tpuOperations.end(tpu, { folders: [], pids: holders, graceMs: 0 });
  return ended.unreachable.length === 0;
}

/** `tpu kill`: the job is cancelled, and its processes on the workers are ended. */
async function kill(lab: Lab, id: string): Promise<void> {
  const { fault, checker, labChecker, client, scriptSetup } = lab;
  const { timeline } = lab.world;
  if (fault === 'kill-as-stop') {
    labChecker.killed(id);
    if (await client.sendCommand('stop', id, {}))
      timeline.after(5 * minute, () => void client.sendCommand('resume', id, {}));
    return;
  }
  if (!(await client.sendCommand('cancel', id, {}))) return;
  labChecker.killed(id);
  for (let tries = 0; tries < 60 && checker.job(id).finish === null; tries += 1) await timeline.pause(5 * second);
  await scriptSetup.cleanUp(id, checker.job(id).attempts.length);
}

/** `tpu resume` or `tpu rerun`, on the same TPU or on another. */
async function restartJob(lab: Lab, user: string, startMode: 'resume' | 'rerun', isOnOtherTpu: boolean): Promise<void> {
  const { plan, labChecker, record, client, profiles, tpuOf, peopleChance } = lab;
  const over = jobsOf(lab, user).filter(({ finish, attempts }) => finish !== null && attempts.length > 0);
  if (over.length === 0) return;
  const job = peopleChance.pick(over);
  if (isOnOtherTpu) {
    const labJob = await record.job(job.id);
    if (labJob === null) return;
    const profile = lookUp(profiles, job.id);
    const baseStage = startMode === 'resume' ? stageOf(labJob, job, job.attempts.length) + 1 : 0;
    const planned = { at: 0, user, rule: null, logStage: labJob.logStage, profile, isDuplicated: false };
    await runOn(lab, planned, peopleChance.pick(plan.tpus).name, { job, startMode, baseStage });
    return;
  }
  const tpu = lookUp(tpuOf, job.id);
  if (!(await claimTpu(lab, tpu)) || holderOf(lab, tpu) !== undefined) return;
  if (await client.sendCommand(startMode, job.id, {})) labChecker.restartRequested(job.id, startMode);
}

/** A user closes the tmux window of an attempt: `tpu __closed` reports it. */
async function closeWindow(lab: Lab, job: Job): Promise<void> {
  const { world, fault, labChecker, record, client, clock } = lab;
  const attempt = job.attempts.length;
  const [shown] = (await record.windows({ jobs: [job.id] })).filter(({ window }) => window.attempt === attempt);
  if (shown === undefined) return;
  world.log(`${job.owner}: closes window ${shown.window.window}`);
  await record.setWindowState([{ job: job.id, attempt }], 'closed', clock.now());
  if (fault === 'closing-ignored' || (await client.sendCommand('disable-recovery', job.id, {})))
    labChecker.closed(job.id);
}

/** `tpu clean`: removes finished windows from the list. */
async function clean(lab: Lab, user: string): Promise<void> {
  const { world, checker, labChecker, record, clock } = lab;
  const shown = await record.windows({ user });
  const over = shown.filter(({ window }) => checker.job(window.job).finish !== null);
  world.log(`${user}: clears ${over.map(({ window }) => attemptKey(window)).join(' ')}`);
  await record.setWindowState(
    over.map(({ window: { job, attempt } }) => ({ job, attempt })),
    'cleared',
    clock.now(),
  );
  await labChecker.listChanged(record, user);
}

const actions = [
  'kill',
  'kill',
  'close',
  'resume',
  'resume',
  'rerun',
  'move',
  'move',
  'move and rerun',
  'clean',
] as const;

async function takeAction(lab: Lab): Promise<void> {
  const { plan, peopleChance } = lab;
  const user = peopleChance.pick(plan.users).name;
  const running = jobsOf(lab, user).filter(({ finish }) => finish === null);
  switch (peopleChance.pick(actions)) {
    case 'kill':
      return running.length === 0 ? undefined : kill(lab, peopleChance.pick(running).id);
    case 'close':
      return running.length === 0 ? undefined : closeWindow(lab, peopleChance.pick(running));
    case 'resume':
      return restartJob(lab, user, 'resume', false);
    case 'rerun':
      return restartJob(lab, user, 'rerun', false);
    case 'move':
      return restartJob(lab, user, 'resume', true);
    case 'move and rerun':
      return restartJob(lab, user, 'rerun', true);
    case 'clean':
      return clean(lab, user);
  }
}

export function scheduleAction(lab: Lab): void {
  const { size, peopleChance } = lab;
  const { timeline } = lab.world;
  timeline.after(peopleChance.between(1, Math.ceil((1500 * 8) / size.users)) * second, () => {
    if (!lab.hasFaults) return;
    void takeAction(lab);
    scheduleAction(lab);
  });
}

// ------------------------------------------------------------------------------------------ faults

function during(lab: Lab, what: string, length: number, set: (on: boolean) => void): void {
  const { world } = lab;
  const { timeline } = lab.world;
  world.log(`storm: ${what} for ${length}`);
  set(true);
  timeline.after(length, () => set(false));
}

/** The login machine goes down with every controller, and returns. */
export function reboot(lab: Lab): void {
  const { world, controllers, loginHost } = lab;
  const { timeline } = lab.world;
  world.log('storm: the login machine is rebooted');
  for (const controllerProcess of controllers.processes) controllerProcess.process.crash();
  void restartHost(world, loginHost);
  timeline.after(3 * minute, () => controllers.ensureAlive('the login machine is back'));
}

function recreateTpu(lab: Lab, machine: Machine): void {
  const { world, plan, labChecker, tpuOperations } = lab;
  const tpu = plan.tpus.find(({ name }) => name === machine.name);
  if (tpu === undefined) return;
  world.log(`storm: ${tpu.name} is recreated manually`);
  labChecker.recreated(machine);
  void tpuOperations.reapply(tpu);
}

/** Its machines go down, and the cloud reports it some time later. */
function preempt(lab: Lab, machine: Machine): void {
  const { world, faultChance } = lab;
  const { timeline } = lab.world;
  world.log(`storm: ${machine.name} is preempted`);
  machine.disruptedAt = timeline.now;
  for (const host of machine.hosts) shutDown(world, host);
  timeline.after(faultChance.between(0, maxPreemptionReportDelay), () => loseMachine(world, machine, 'preempted'));
}

function cutNetwork(lab: Lab, length: number): void {
  const { world, cloudModel } = lab;
  const { timeline } = lab.world;
  world.longestNetworkCut += length;
  world.networkCutUntil = Math.max(world.networkCutUntil, timeline.now + length);
  during(lab, 'the connection to all TPUs is cut', length, (on) => (cloudModel.isNetworkCut = on));
}

function killScript(lab: Lab): void {
  const { world, faultChance } = lab;
  const alive = world.runs.filter(isAlive);
  if (alive.length === 0) return;
  const run = faultChance.pick(alive);
  run.killed = true;
  world.log(`storm: a user kills the script of ${run.job}/${run.attempt}`);
  endRun(world, run, faultChance.yes(0.5) ? 137 : null);
}

/** Faults from now on, about as many per hour as there are jobs on preemptible TPUs. */
export function startLabFaults(lab: Lab): void {
  scheduleFault(
    lab,
    labFaultsOf(lab).flatMap(([weight, hit]) => Array.from({ length: weight }, () => hit)),
  );
}

function scheduleFault(lab: Lab, weights: readonly (() => void)[]): void {
  const { size, faultChance } = lab;
  const { timeline } = lab.world;
  timeline.after(faultChance.between(1, Math.ceil((1200 * 30) / size.tpus / 4)) * second, () => {
    if (!lab.hasFaults) return;
    faultChance.pick(weights)();
    scheduleFault(lab, weights);
  });
}

function labFaultsOf(lab: Lab): readonly (readonly [weight: number, hit: () => void])[] {
  const { world, cloudModel, faultChance, controllers, tpus } = lab;
  const onMachine = (apply: (machine: Machine) => void, isMeant: (machine: Machine) => boolean = () => true): void => {
    const there = world.machines.filter(
      (one) => one !== world.controllerMachine && one.state === 'ready' && isMeant(one),
    );
    if (there.length > 0) apply(faultChance.pick(there));
  };
  const isPreemptible = ({ name }: Machine): boolean => tpus.get(name)?.pricing !== 'ondemand';
  return [
    [10, () => onMachine((machine) => preempt(lab, machine), isPreemptible)],
    [1, () => onMachine((machine) => loseMachine(world, machine, 'failed'))],
    [2, () => onMachine((machine) => void interruptMachine(world, machine, faultChance.between(30, 600) * second))],
    [2, () => onMachine(({ hosts }) => void restartHost(world, faultChance.pick(hosts)))],
    [
      3,
      () =>
        onMachine(({ hosts }) => disconnectHost(world, faultChance.pick(hosts), faultChance.between(5, 900) * second)),
    ],
    [
      1,
      () =>
        during(
          lab,
          'the cloud is unreachable',
          faultChance.between(1, 10) * minute,
          (on) => (cloudModel.isCloudDown = on),
        ),
    ],
    [1, () => cutNetwork(lab, faultChance.between(10, 240) * second)],
    [
      1,
      () => during(lab, 'there is no capacity', faultChance.between(5, 60) * minute, (on) => (world.hasCapacity = !on)),
    ],
    [2, () => controllers.processes.at(-1)?.process.crash()],
    [1, () => killScript(lab)],
    [2, () => onMachine((machine) => recreateTpu(lab, machine))],
  ];
}
