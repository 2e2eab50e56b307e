// Lab acts: what the people of a lab do.

import type { Job } from '../src/core/job.ts';
import { minute, second } from '../src/core/time.ts';
import { nameOf, stageOf } from '../src/lab/lineage.ts';
import { usualRule } from '../src/lab/run.ts';
import type { LabJob } from '../src/lab/record.ts';
import { specOf } from './lab-begin.ts';
import { holding, jobsOf, known } from './lab-parts.ts';
import type { Lab } from './lab-parts.ts';
import type { LabWish } from './lab-people.ts';

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

/** Somebody does something now and then, from now on. */
export function nextAct(lab: Lab): void {
  const { size, people } = lab;
  const { timeline } = lab.world;
  timeline.after(people.between(1, Math.ceil((1500 * 8) / size.users)) * second, () => {
    if (!lab.isLife) return;
    void act(lab);
    nextAct(lab);
  });
}
