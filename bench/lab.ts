// Lab: additional time of a short `tpu` command over an idle Node, with a thousand jobs and a hundred TPUs. `upd-log`
// and `finish-job` write while a training waits for them; the others only read.

import { join } from 'node:path';
import { openStore } from '../src/store/store.ts';
import { aLabJob, aUser } from '../test/support/lab-builders.ts';
import { node, root, withHome, type Home } from './home.ts';
import { writeDatabase } from './sample-database.ts';
import type { Result } from './result.ts';
import { quantile, startTimes, type Program } from './start-times.ts';

const rounds = 40;
const jobCount = 1_000;
const tpuCount = 100;
const userCount = 8;
/** Jobs on all users' lists; the others were cleared. */
const listedCount = 100;

const tpu = join(root, 'bin/tpu');
const bareNode: Program = [node, '-e', '0'];

interface MeasuredCommand {
  readonly program: Program;
  readonly budgetMs: number;
}

/** Window 1 of the first user. Each round reports new values, because repeated values are not written. */
const measuredCommands: Readonly<Record<string, MeasuredCommand>> = {
  '`upd-log`': {
    program: (round) => [tpu, 'upd-log', 'user0:1', `/logs/${round}`, '/stage', 'tpu-1', '20261122_071500'],
    budgetMs: 40,
  },
  '`finish-job`': { program: (round) => [tpu, 'finish-job', `user1:${round + 2}`], budgetMs: 40 },
  '`ls`': { program: [tpu, 'ls', 'user0'], budgetMs: 60 },
  '`get-settings`': { program: [tpu, 'get-settings', 'user0'], budgetMs: 60 },
  '`list-users`': { program: [tpu, 'list-users'], budgetMs: 60 },
  '`-lta`, 100 TPUs': { program: [tpu, '-lta'], budgetMs: 60 },
  '`check-rules`': { program: [tpu, 'check-rules'], budgetMs: 60 },
  '`check`, 80 windows': { program: [tpu, 'check', 'user2'], budgetMs: 60 },
  '`find`, 100 TPUs': { program: [tpu, 'find', 'v2'], budgetMs: 60 },
  '`news --peek`': { program: [tpu, 'news', 'user2', '--peek'], budgetMs: 60 },
  '`tldr`': { program: [tpu, 'tldr'], budgetMs: 60 },
  '`help`': { program: [tpu, 'help'], budgetMs: 60 },
  'completion of a TPU': { program: [tpu, '__complete', 'run', 'user0', 'v2-'], budgetMs: 60 },
};

export function measureLab(): Promise<readonly Result[]> {
  return withHome(async (home) => {
    await writeLab(home);
    const programs = Object.fromEntries(Object.entries(measuredCommands).map(([name, { program }]) => [name, program]));
    const times: Readonly<Record<string, readonly number[]>> = startTimes(
      { bare: bareNode, 'bare sh': ['/bin/sh', '-c', ':'], ...programs },
      rounds,
      home,
    );
    return Object.entries(measuredCommands).map(([name, { budgetMs }]) => resultOf(name, budgetMs, times));
  });
}

function resultOf(name: string, budgetMs: number, times: Readonly<Record<string, readonly number[]>>): Result {
  const median = (of: string): number => quantile(times[of] ?? [], 0.5);
  const over = median(name) - median('bare');
  const overAtTenth = quantile(times[name] ?? [], 0.1) - quantile(times['bare'] ?? [], 0.1);
  return {
    name: `tpu ${name}`,
    measured: `+${over.toFixed(0)} ms`,
    budget: `+${budgetMs} ms`,
    comparison: `bare Node ${median('bare').toFixed(0)} ms, tenth percentile +${overAtTenth.toFixed(0)} ms; an empty sh ${median('bare sh').toFixed(1)} ms`,
    isWithinBudget: over <= budgetMs,
  };
}

async function writeLab(home: Pick<Home, 'path'>): Promise<void> {
  await writeDatabase(home.path, jobCount, listedCount);
  const store = openStore({ file: join(home.path, 'state.db') });
  const { jobs } = await store.list({ maxFinished: null });
  const { lab } = store;
  for (let index = 0; index < userCount; index += 1) {
    await lab.addUser(aUser(`user${index}`, { directories: { 1: '/srv/code', 2: '/srv/other' } }));
  }
  for (let index = 0; index < tpuCount; index += 1) {
    const name = `lab-tpuvm-v2-32-${index}`;
    const facts = { zone: 'europe-west4-a', pricing: 'preemptible' } as const;
    await lab.changeTpu(name, { kind: 'register', facts }, `v2-32-${index}`);
  }
  const cleared: { job: string; attempt: number }[] = [];
  for (const [index, { id, owner }] of jobs.entries()) {
    await lab.addJob(aLabJob(id, owner, { tpu: `lab-tpuvm-v2-32-${index % tpuCount}` }));
    await lab.openWindow(id, 1, Date.now());
    if (index >= rounds * userCount * 2) cleared.push({ job: id, attempt: 1 });
  }
  await lab.setWindowState(cleared, 'cleared', Date.now());
  await store.close();
}
