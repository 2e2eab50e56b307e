// Hooks of an attempt's script: `__begin` at its start, `__end` at its end, and `__closed` when its tmux window is
// closed. The script evaluates the output of `__begin` and exits with the code that `__end` prints. Standard error is
// the attempt's log.

import { createReadStream, existsSync, readdirSync } from 'node:fs';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { basename, isAbsolute, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { Job } from '../../../core/model/job.ts';
import { emulatorProject } from '../../../core/model/spec.ts';
import { homeLauncher } from '../../../files/program-file.ts';
import { minute, second } from '../../../core/model/time.ts';
import {
  type AttemptPlan,
  earlierRunFolders,
  ownRunFolders,
  planAttempt,
  historyLine,
  findLastError,
  unconfirmedReason,
} from '../../../lab/attempt-plan.ts';
import type { Pane } from '../../../lab/lab.ts';
import { type Lineages, readLineages } from '../../../lab/lineage.ts';
import type { LabJob, WindowReport } from '../../../lab/lab-store.ts';
import { beginShellCode, wrapperPrograms } from '../../../lab/run-script.ts';
import type { TpuOperations } from '../../../lab/tpu-operations.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { wakeController } from '../../controller.ts';
import { escapeLine } from '../../../app/format.ts';
import type { TpuCli, ParsedArguments } from '../command.ts';
import { endOnWorkers, resolveTpu } from '../claim-tpu.ts';

const placeholderPane = '%jobman';

/** For a worker that only the controller can reach. If it cannot either, a recovery rule ends the attempt sooner. */
const workerTimeout = 5 * minute;

export async function begin(cli: TpuCli, { raw }: ParsedArguments): Promise<number> {
  const [runFolder = ''] = raw;
  const { id, attempt } = ownAttempt(cli, runFolder !== '');
  const store = cli.lab.localStore();
  const labJob = await store.job(id);
  if (labJob === null) throw new JobmanError(`Job ${id} is not a job of the lab.`, exitCode.notFound);
  const { env } = cli.io;
  const lineages = await readLineages(store, [labJob]);
  const states = await store.jobStates(labJob.user, [...lineages.jobs.keys()]);
  const jobs = new Map(states.map((job) => [job.id, job]));
  const plan = planAttempt({
    job: labJob,
    attempt,
    lineages,
    jobOf: (job) => jobs.get(job) ?? null,
    hasCheckpoints,
  });
  checkFolder(plan, labJob);
  const { window, session } = await store.openWindow(id, attempt, cli.io.now());
  const where = `${session}:${window.window}`;
  const from = plan.loadFrom === null ? '' : `, resumed from ${plan.loadFrom.logFolder}, stage ${plan.stage}`;
  printLine(cli, `window ${where}: job ${id}, attempt ${attempt} on ${labJob.tpu}${from}`);
  await endEarlierPrograms(cli, labJob, lineages, attempt);
  const pane = await openTmuxWindow(cli, labJob, { session, window: window.window, attempt, runFolder });
  const cloud = await emulatorAccess(cli, jobs.get(id));
  const folder = join(runFolder, 'bin');
  const launcher = homeLauncher(cli.services.home);
  await writePrograms(
    folder,
    wrapperPrograms({
      folder,
      launcher,
      window: where,
      pane: pane?.pane ?? placeholderPane,
      sshPort: cloud?.sshPort ?? null,
    }),
  );
  cli.io.stdout.write(
    beginShellCode({
      folder: plan.folder,
      args: plan.args,
      exports: {
        PATH: `${folder}:${env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'}`,
        JOBMAN_HOME: cli.services.home,
        JOBMAN_WINDOW: where,
        TPU_USER: labJob.user,
        // Scripts name folders after USER. The controller's environment lacks it under cron or systemd.
        USER: env['USER'] || cli.io.user,
        TMUX: pane?.tmux ?? null,
        TMUX_PANE: pane?.pane ?? placeholderPane,
        ...cloud?.exports,
      },
    }),
  );
  return exitCode.ok;
}

/** The attempt whose script calls. Throws JobmanError (2) for any other caller. */
function ownAttempt({ io: { env } }: TpuCli, isValid: boolean): { readonly id: string; readonly attempt: number } {
  const id = env['JOBMAN_JOB_ID'];
  const attempt = Number(env['JOBMAN_ATTEMPT']);
  if (id !== undefined && Number.isInteger(attempt) && isValid) return { id, attempt };
  throw new JobmanError('Only the script of a `tpu run` job calls this command.', exitCode.usage);
}

function printLine(cli: TpuCli, sentence: string): void {
  cli.io.stderr.write(`-- ${sentence}\n`);
}

/** Programs name their saved state `checkpoint...`, `ckpt...` or `step_...`. An unreadable folder has none. */
function hasCheckpoints(logFolder: string): boolean {
  try {
    return readdirSync(logFolder).some((name) => /^(checkpoint|ckpt|step_)/i.test(name) && !/tmp/i.test(name));
  } catch {
    return false;
  }
}

function checkFolder({ folder, isFrozen }: AttemptPlan, { directory, directoryNumber }: LabJob): void {
  if (existsSync(join(folder, 'staging.sh'))) return;
  const problem = existsSync(folder) ? 'has no staging.sh' : 'does not exist';
  if (isFrozen)
    throw new JobmanError(`The copy of the code of this job ${problem}: ${folder}`, exitCode.notFound, [
      `The job cannot resume. Start ${directory} again with tpu run.`,
    ]);
  const number = directoryNumber === null ? '' : ` ${directoryNumber}`;
  throw new JobmanError(`Working directory${number} ${problem}: ${directory}`, exitCode.notFound);
}

/** Throws JobmanError: (1) if one survives, (5) if a worker stays unreachable. */
async function endEarlierPrograms(cli: TpuCli, labJob: LabJob, lineages: Lineages, attempt: number): Promise<void> {
  const { replaces = [], foreignPrograms = [] } = labJob;
  const replaced = replaces.length === 0 ? [] : await cli.lab.store.windows({ jobs: replaces, cleared: true });
  const folders = earlierRunFolders(labJob, attempt, lineages, replaced);
  if (folders.length === 0 && foreignPrograms.length === 0) return;
  const tpus = await cli.lab.tpus();
  const until = cli.io.now() + workerTimeout;
  let reported: string | null = null;
  try {
    for (let round = 1; ; round += 1) {
      const problem = await findUnreachable(cli, tpus, labJob, folders);
      if (problem === null) return;
      if (cli.io.now() > until)
        throw new JobmanError(
          `Programs of earlier attempts may still run on ${labJob.tpu}: ${problem}. This attempt was not started.`,
          exitCode.unreachable,
          [`tpu solve ${labJob.tpu}    finds the reason`],
        );
      if (problem !== reported) printLine(cli, `waiting to end programs of earlier attempts: ${problem}`);
      reported = problem;
      await sleep(Math.min(round, 5) * second);
    }
  } finally {
    tpus.close();
  }
}

async function findUnreachable(
  cli: TpuCli,
  tpus: TpuOperations,
  { tpu: name, foreignPrograms = [] }: LabJob,
  folders: readonly string[],
): Promise<string | null> {
  const signal = AbortSignal.timeout(minute);
  try {
    const tpu = await resolveTpu(cli, name);
    const { holders, unreachable } =
      foreignPrograms.length === 0 ? { holders: [], unreachable: [] } : await tpus.holders(tpu, signal);
    // A process id may belong to another program by now.
    const pids = holders.filter((one) => foreignPrograms.some((agreed) => isDeepStrictEqual(agreed, one)));
    const silent = await endOnWorkers(cli, tpus, tpu, { folders, pids }, signal, () => undefined);
    const [first] = [...silent, ...unreachable];
    return first === undefined ? null : `worker ${first.worker} does not answer (${first.message})`;
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code === exitCode.failed) throw error;
    // The TPU was removed from the registry, so its location is unknown.
    if (error.code === exitCode.notFound) {
      printLine(cli, `programs of earlier attempts were not ended: ${error.message}`);
      return null;
    }
    return error.message.replace(/\.$/, '');
  }
}

async function openTmuxWindow(
  cli: TpuCli,
  labJob: LabJob,
  of: { readonly session: string; readonly window: number; readonly attempt: number; readonly runFolder: string },
): Promise<Pane | null> {
  const { session, window, attempt, runFolder } = of;
  const launcher = homeLauncher(cli.services.home);
  try {
    const host = await cli.lab.tmuxWindows();
    if (host.tmux === null) return null;
    // The tmux server has the environment of the user who started it, and may have another JOBMAN_HOME.
    const home = `JOBMAN_HOME=${cli.services.home}`;
    const argv = host.viewerCommand({
      folder: runFolder,
      title: `Job ${labJob.job}, attempt ${attempt}`,
      nextCommand: `tpu check ${labJob.user}`,
      onClosed: ['env', home, ...launcher, 'tpu', '__closed', labJob.job, String(attempt)],
    });
    const title = labJob.tag ?? basename(labJob.directory);
    const pane = await host.open({ session, window }, { title, label: `${labJob.job}/${attempt}`, argv });
    if (pane === null)
      printLine(cli, `window ${window} of the tmux session ${session} is in use, so tmux does not show this attempt`);
    return pane;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    printLine(cli, error.message);
    return null;
  }
}

/** Settings that let Google's own tools reach the TPU emulator; undefined for any other TPU. */
async function emulatorAccess(
  cli: TpuCli,
  job: Job | undefined,
): Promise<{ readonly sshPort: number; readonly exports: Readonly<Record<string, string>> } | undefined> {
  const capacity = job?.spec.capacity;
  if (capacity?.kind !== 'tpu' || capacity.project !== emulatorProject) return undefined;
  if ((await cli.services.settings()).tpu.endpoint !== null) return undefined;
  const { url, sshPort } = await (await cli.services.emulator()).status();
  if (url === null || sshPort === null) return undefined;
  return {
    sshPort,
    exports: {
      CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU: `${url}/`,
      CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE: `${url}/compute/v1/`,
      CLOUDSDK_AUTH_DISABLE_CREDENTIALS: 'true',
      CLOUDSDK_CORE_PROJECT: emulatorProject,
      CLOUDSDK_CORE_DISABLE_PROMPTS: '1',
    },
  };
}

async function writePrograms(folder: string, programs: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const [name, text] of Object.entries(programs)) {
    const file = join(folder, name);
    await writeFile(`${file}.new`, text);
    await chmod(`${file}.new`, 0o700);
    await rename(`${file}.new`, file);
  }
}

/** The controller kills a stopped script after one minute. This limit is shorter. */
const endTimeout = 40 * second;
/** The cloud reports a preemption at most this long after the worker stops answering. */
const preemptionReportTimeout = 90 * second;
const pollInterval = 2 * second;

export async function end(cli: TpuCli, { raw }: ParsedArguments): Promise<number> {
  const code = Number(raw.at(-1));
  const { id, attempt } = ownAttempt(cli, Number.isInteger(code));
  const isStopped = raw.includes('--stopped');
  const windows = await cli.lab.store.windows({ jobs: [id], cleared: true });
  const found = windows.find(({ window }) => window.attempt === attempt);
  const report = found?.window.report ?? null;
  const isFinished = found !== undefined && found.window.finishedAt !== null;
  // Scripts of jobs that an earlier version created do not pass their run folder. For them only the exit code can
  // report a failure.
  const runFolder = raw.find((arg) => isAbsolute(arg)) ?? null;
  const reason = isStopped ? null : await findFailureReason(code, report, isFinished, runFolder);
  if (reason !== null) printLine(cli, `This attempt failed: ${reason}`);
  if (reason !== null && runFolder !== null) await writeFile(join(runFolder, 'failure'), `${escapeLine(reason)}\n`);
  const verdict = reason !== null && runFolder === null ? exitCode.failed : code;
  const folders = ownRunFolders(found, { isStopped, code, reason });
  if (found !== undefined && folders.length > 0) await endOwnPrograms(cli, found.job, folders, isStopped);
  cli.io.stdout.write(`${verdict}\n`);
  return exitCode.ok;
}

async function findFailureReason(
  code: number,
  report: WindowReport | null,
  isFinished: boolean,
  runFolder: string | null,
): Promise<string | null> {
  if (code !== 0 || isFinished) return null;
  // The attempt's own log has the script's output. It is the only log if the script did not report its log folder.
  const own = runFolder === null ? [] : [join(runFolder, 'log')];
  const logs = await Promise.all(
    [...(report === null ? [] : [join(report.logFolder, 'output.log')]), ...own].map(scanLog),
  );
  const hasHistory = logs.some((log) => log.hasHistory);
  const lastError = logs.map(({ tail }) => findLastError(tail)).find((error) => error !== null) ?? null;
  return unconfirmedReason({ code, report, isFinished, hasHistory, lastError });
}

/** A program on a worker survives the script that started it, and would keep the TPU busy. */
async function endOwnPrograms(
  cli: TpuCli,
  labJob: LabJob,
  folders: readonly string[],
  isStopped: boolean,
): Promise<void> {
  const tpus = await cli.lab.tpus();
  try {
    const tpu = await resolveTpu(cli, labJob.tpu);
    if (!(await isReady(tpus, tpu))) return;
    const missed = await endOnWorkers(cli, tpus, tpu, { folders, pids: [] }, AbortSignal.timeout(endTimeout));
    if (missed.length > 0 && !isStopped && tpu.pricing !== 'ondemand') await waitForPreemption(tpus, tpu);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    for (const line of [error.message, ...error.lines]) printLine(cli, line);
  } finally {
    tpus.close();
  }
}

/** Workers stop answering before the cloud reports a preemption. Waiting lets the attempt end as preempted. */
async function waitForPreemption(tpus: TpuOperations, tpu: LabTpu): Promise<void> {
  for (let round = 0; round < preemptionReportTimeout / pollInterval; round += 1) {
    await sleep(pollInterval);
    if (!(await isReady(tpus, tpu))) return;
  }
}

async function isReady(tpus: TpuOperations, tpu: LabTpu): Promise<boolean> {
  const state = await tpus.describe(tpu);
  return state.kind === 'known' && state.state === 'ready';
}

const tailLength = 64 * 1024;

/** Reads the whole log. A log that cannot be read is empty. */
async function scanLog(path: string): Promise<{ readonly hasHistory: boolean; readonly tail: string }> {
  let hasHistory = false;
  let tail = '';
  try {
    for await (const chunk of createReadStream(path, 'utf8')) {
      const text = tail + String(chunk);
      hasHistory ||= text.includes(historyLine);
      tail = text.slice(-tailLength);
    }
  } catch {
    // The part that was read counts.
  }
  return { hasHistory, tail };
}

/** While tmux closes a whole session it answers no command. List the windows after that. */
const sessionCloseDelayMs = 500;

export async function closed(cli: TpuCli, { raw }: ParsedArguments): Promise<number> {
  const [id, ordinal] = raw;
  const attempt = Number(ordinal);
  if (id === undefined || !Number.isInteger(attempt))
    throw new JobmanError('Only the window of a job calls this command.', exitCode.usage);
  await sleep(sessionCloseDelayMs);
  const { store } = cli.lab;
  const windows = await store.windows({ jobs: [id], cleared: true });
  const found = windows.find(({ window }) => window.attempt === attempt);
  // The command that cleared the window has closed it.
  if (found === undefined || found.window.clearedAt !== null) return exitCode.ok;
  const [user] = (await store.users()).filter(({ name }) => name === found.job.user);
  const shown = user === undefined ? null : await (await cli.lab.tmuxWindows()).list(user.session);
  if (shown === null || shown.includes(found.window.window)) return exitCode.ok;
  await store.setWindowState([{ job: id, attempt }], 'closed', cli.io.now());
  // A later attempt has its own window, so this one was only tidied up.
  if (windows.some(({ window }) => window.attempt > attempt)) return exitCode.ok;
  // The tmux server may have been started with the TPU_USER of another user.
  const { user: onBehalfOf } = found.job;
  const client = await cli.services.clientAs(onBehalfOf);
  const answer = await client.sendCommand(id, 'disable-recovery', { onBehalfOf });
  if (answer.ok) await wakeController(cli, client);
  return exitCode.ok;
}
