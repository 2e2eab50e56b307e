// kill: ends a job with its processes on every host. Then lists other holders of its TPU, and ends them after a
// confirmation.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { isFinishedPhase, type Phase } from '../../../core/decide/phase.ts';
import { formatHolders } from '../../../lab/tpu-usage.ts';
import { newestWindows } from '../../../lab/lineage.ts';
import type { LabUser } from '../../../lab/users.ts';
import type { WindowWithJob, LabJob } from '../../../lab/lab-store.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { capitalize, escapeLine } from '../../../app/format.ts';
import {
  endJobs,
  endOnWorkers,
  readUsage,
  runFoldersOn,
  resolveTpu,
  toEnd,
  type ClaimContext,
  withTpus,
} from '../claim-tpu.ts';
import { readUserWindows, type UserWindows, findWindow } from '../user-windows.ts';
import { resolveActingUser } from '../resolve-user.ts';
import { canAsk, confirm } from '../../prompt.ts';
import type { TpuCli, ParsedArguments } from '../command.ts';

export async function kill(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const user = await resolveActingUser(cli, args, 'kill a job');
  const list = await readUserWindows(cli, await cli.services.client(), user);
  const jobs = await selectJobs(cli, args, user, list);
  const live = jobs.filter(({ job }) => !isFinished(list, job));
  let code: number = exitCode.ok;
  for (const { job } of jobs) {
    if (live.some((one) => one.job === job)) continue;
    const phase = list.phaseOf(job);
    // Like cancel: ending a job twice is not an error, but a job that finished by itself cannot be ended.
    if (phase === 'succeeded' || phase === 'failed') code = exitCode.conflict;
    const state = phase === null ? 'was deleted' : phase === 'cancelled' ? 'was killed' : `has ${phase}`;
    const message = (window: string): string => `${capitalize(window)} of ${user.name} ${state} already.`;
    await printKilled(cli, user, job, { killed: false, phase }, message);
  }
  // The command that killed a job may have ended before it checked the workers.
  const killed = jobs.filter(({ job }) => list.phaseOf(job) === 'cancelled');
  return Math.max(code, await endJobsAndPrograms(cli, user, live, killed));
}

async function selectJobs(
  cli: TpuCli,
  args: ParsedArguments,
  user: LabUser,
  list: UserWindows,
): Promise<readonly LabJob[]> {
  const { tpu, windows } = args;
  if (tpu === null && windows.length === 0)
    throw new JobmanError('Which job? Give the number of its window, or a TPU.', exitCode.usage, [
      `tpu check ${user.name}    shows the windows`,
    ]);
  const found: WindowWithJob[] = [];
  for (const number of windows) found.push(await findWindow(cli, user, number));
  const there = tpu === null ? [] : list.jobs.filter((job) => job.tpu === tpu.name && !isFinished(list, job.job));
  if (tpu !== null && there.length === 0)
    throw new JobmanError(`${user.name} has no unfinished job on ${tpu.name}.`, exitCode.notFound, [
      `tpu describe ${tpu.name}    shows who uses it`,
    ]);
  const jobs = new Map([...found.map(({ job }) => job), ...there].map((job) => [job.job, job]));
  return [...jobs.values()];
}

function isFinished(list: UserWindows, job: string): boolean {
  const phase = list.phaseOf(job);
  return phase === null || isFinishedPhase(phase);
}

/** Users type window numbers, so the answer names the window of the newest attempt. */
async function printKilled(
  cli: TpuCli,
  { name: user }: LabUser,
  job: string,
  end: { readonly killed: boolean; readonly phase: Phase | null },
  message: (window: string) => string,
): Promise<void> {
  const windows = await cli.lab.store.windows({ jobs: [job], cleared: true });
  const window = newestWindows(windows).get(job)?.window.window ?? null;
  const called = window === null ? `job ${job}` : `window ${window} (job ${job})`;
  cli.printResult({ window, job, user, ...end }, message(called));
}

/** `killed` are jobs that have ended already. Only what they left on the workers is ended. */
export async function endJobsAndPrograms(
  cli: TpuCli,
  user: LabUser,
  jobs: readonly LabJob[],
  killed: readonly LabJob[] = [],
): Promise<number> {
  if (jobs.length + killed.length === 0) return exitCode.ok;
  return withTpus(cli, user, async (parts) => {
    const ids = jobs.map(({ job }) => job);
    await endJobs(cli, parts, jobs.map(toEnd));
    for (const job of ids)
      await printKilled(
        cli,
        user,
        job,
        { killed: true, phase: 'cancelled' },
        (window) => `Killed ${window} of ${user.name}.`,
      );
    let code: number = exitCode.ok;
    for (const [name, own] of Map.groupBy([...jobs, ...killed], ({ tpu }) => tpu))
      code = Math.max(code, await endProgramsOnTpu(cli, parts, await resolveTpu(cli, name), own));
    return code;
  });
}

async function endProgramsOnTpu(
  cli: TpuCli,
  parts: ClaimContext,
  tpu: LabTpu,
  own: readonly LabJob[],
): Promise<number> {
  const { tpus, signal } = parts;
  try {
    const state = await tpus.describe(tpu);
    if (state.kind === 'known' && state.state !== 'ready') return exitCode.ok;
    const ids = own.map(({ job }) => job);
    const folders = await runFoldersOn(cli, tpu, ids);
    await endOnWorkers(cli, tpus, tpu, { folders, pids: [] }, signal);
    // Programs of other jobs under way on this TPU are not leftovers.
    const sheet = { bookings: [], late: [], warnings: [] };
    const { usage, workerWarnings } = await readUsage(cli, parts, tpu, { user: null, hasWorkers: true, sheet });
    const { holders } = usage;
    for (const sentence of workerWarnings) cli.note(escapeLine(sentence));
    if (holders.length === 0) return exitCode.ok;
    for (const sentence of formatHolders(holders)) cli.printStderr(`On ${tpu.name} ${escapeLine(sentence)}`);
    if (await confirmEnd(cli, tpu)) await endOnWorkers(cli, tpus, tpu, { folders: [], pids: holders }, signal);
    return exitCode.ok;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    // The job is killed. A failed check of its workers is a separate error.
    cli.printStderr(`The processes on ${tpu.name} were not checked: ${error.message}`);
    return error.code;
  }
}

/** Another holder of a device may be another user's program, so it is ended only after a confirmation. */
async function confirmEnd(cli: TpuCli, tpu: LabTpu): Promise<boolean> {
  if (cli.yes || canAsk(cli)) return confirm(cli, 'It does not belong to the job. End it too?', '');
  cli.note(`It does not belong to the job and still runs. To end it: tpu solve ${tpu.name}`);
  return false;
}
