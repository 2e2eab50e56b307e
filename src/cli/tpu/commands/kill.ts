// kill: a job is ended with its processes on every host; and what else holds its TPU is shown, and ended when somebody says so.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { isSettledPhase, type Phase } from '../../../core/phase.ts';
import { holderSentences, holdersNow, jobsThere } from '../../../lab/holds.ts';
import { newestOf } from '../../../lab/lineage.ts';
import type { LabUser } from '../../../lab/people.ts';
import type { LabAttempt, LabJob } from '../../../lab/record.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { inertWord } from '../../../app/figures.ts';
import { bookAttempt } from '../begin-job.ts';
import { endJobs, endOnWorkers, foldersThere, jobId, labTpuOf, type TakeParts, withParts } from '../take.ts';
import { listOf, type ListOf, windowCalled } from '../windows.ts';
import { actingFor } from '../people.ts';
import { canAsk, saysYes } from '../terminal.ts';
import type { TpuCli, Words } from '../command.ts';

export async function kill(desk: TpuCli, words: Words): Promise<number> {
  const { user, by } = await actingFor(desk, words, 'kill a job');
  const list = await listOf(desk, await desk.services.client(), user);
  const jobs = await jobsMeant(desk, words, user, list);
  const live = jobs.filter(({ job }) => !isOver(list, job));
  let code: number = exitCode.ok;
  for (const { job } of jobs) {
    if (live.some((one) => one.job === job)) continue;
    const phase = list.phaseOf(job);
    // As cancel answers: to end twice is no mistake, but what has come to its own end cannot be ended.
    if (phase === 'succeeded' || phase === 'failed') code = exitCode.conflict;
    if (desk.json) {
      await printEnd(desk, user, job, { killed: false, phase });
      continue;
    }
    const word = phase === null ? 'was deleted' : phase === 'cancelled' ? 'was killed' : `has ${phase}`;
    desk.tell(inertWord(`${await windowOf(desk, job)} of ${user.name} ${word} already; there is nothing to end.`));
  }
  return Math.max(code, await endWithPrograms(desk, { user, by, jobs: live }));
}

async function jobsMeant(desk: TpuCli, words: Words, user: LabUser, list: ListOf): Promise<readonly LabJob[]> {
  const { tpu, windows } = words;
  if (tpu === null && windows.length === 0)
    throw new JobmanError('Which job? Say the number of its window, or a TPU.', exitCode.usage, [
      `tpu check ${user.name}    shows them`,
    ]);
  const found: LabAttempt[] = [];
  for (const number of windows) found.push(await windowCalled(desk, user, number));
  const there = tpu === null ? [] : list.jobs.filter((job) => job.tpu === tpu.name && !isOver(list, job.job));
  if (tpu !== null && there.length === 0)
    throw new JobmanError(`${user.name} has no job under way on ${tpu.name}.`, exitCode.notFound, [
      `tpu describe ${tpu.name}    shows who uses it`,
    ]);
  const jobs = new Map([...found.map(({ job }) => job), ...there].map((job) => [job.job, job]));
  return [...jobs.values()];
}

function isOver(list: ListOf, job: string): boolean {
  const phase = list.phaseOf(job);
  return phase === null || isSettledPhase(phase);
}

async function newestWindow(desk: TpuCli, job: string): Promise<number | null> {
  const windows = await desk.lab.record.windows({ jobs: [job], cleared: true });
  return newestOf(windows).get(job)?.window.window ?? null;
}

/** People type windows, so the answer names the window of the newest attempt. */
async function windowOf(desk: TpuCli, job: string): Promise<string> {
  const newest = await newestWindow(desk, job);
  return newest === null ? `Job ${job}` : `Window ${newest} (job ${job})`;
}

async function printEnd(
  desk: TpuCli,
  { name: user }: LabUser,
  job: string,
  end: { readonly killed: boolean; readonly phase: Phase | null },
): Promise<void> {
  desk.print(JSON.stringify({ window: await newestWindow(desk, job), job, user, ...end }));
}

export async function endWithPrograms(
  desk: TpuCli,
  { user, by, jobs }: { readonly user: LabUser; readonly by: string; readonly jobs: readonly LabJob[] },
): Promise<number> {
  if (jobs.length === 0) return exitCode.ok;
  return withParts(desk, async (parts) => {
    const ids = jobs.map(({ job }) => job);
    await endJobs(desk, parts.client, ids, { by, signal: parts.signal });
    // The end of its script does that; one that was killed before its script began has none.
    for (const job of jobs) await bookAttempt(desk, job, 'reserved', (sentence) => desk.note(inertWord(sentence)));
    for (const job of ids) {
      if (desk.json) await printEnd(desk, user, job, { killed: true, phase: 'cancelled' });
      else desk.tell(inertWord(`${await windowOf(desk, job)} of ${user.name} is killed.`));
    }
    let code: number = exitCode.ok;
    for (const [name, own] of Map.groupBy(jobs, ({ tpu }) => tpu)) {
      code = Math.max(code, await clearTpu(desk, parts, await labTpuOf(desk, name), own));
    }
    return code;
  });
}

async function clearTpu(desk: TpuCli, parts: TakeParts, tpu: LabTpu, own: readonly LabJob[]): Promise<number> {
  const { client, tpus, signal } = parts;
  try {
    const state = await tpus.describe(tpu);
    // Without machines nothing is left on them.
    if (state.kind === 'known' && state.state !== 'ready') return exitCode.ok;
    const ids = own.map(({ job }) => job);
    const folders = await foldersThere(desk, tpu, ids);
    await endOnWorkers(desk, tpus, tpu, { folders, pids: [] }, signal);
    // A job that is under way there has a right to it.
    const { rows } = await client.list({});
    const others = (await jobsThere(desk.lab.record, rows)).on(tpu.name);
    const theirs = await foldersThere(desk, tpu, others.map(jobId));
    const { holders, says } = await holdersNow(tpus, tpu, theirs, signal);
    for (const sentence of says) desk.note(inertWord(sentence));
    if (holders.length === 0) return exitCode.ok;
    for (const sentence of holderSentences(holders)) desk.complain(`On ${tpu.name} ${inertWord(sentence)}`);
    if (await isToEnd(desk, tpu)) await endOnWorkers(desk, tpus, tpu, { folders: [], pids: holders }, signal);
    return exitCode.ok;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    // The job is killed; that its workers could not be looked at is another matter.
    desk.complain(`What is left on ${tpu.name} could not be looked at: ${error.message}`);
    return error.code;
  }
}

/** Another holder of a device may be somebody's work, so it is ended only on a yes. */
async function isToEnd(desk: TpuCli, tpu: LabTpu): Promise<boolean> {
  if (desk.yes) return true;
  if (!canAsk(desk)) {
    desk.note(`That is none of the job's, and was left alone. To see to it: tpu solve ${tpu.name}`);
    return false;
  }
  desk.io.stderr.write("That is none of the job's. End it too? [y/N] ");
  return saysYes(desk);
}
