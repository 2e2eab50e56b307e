// Questions of an attempt's script at its begin (`__begin`) and end (`__end`), and the report of its window that it was closed
// (`__closed`). The script evaluates what `__begin` prints, and exits with the code that `__end` prints; standard error is the
// attempt's log.

import { existsSync, readdirSync, statSync } from 'node:fs';
import { chmod, mkdir, open, rename, writeFile } from 'node:fs/promises';
import { isAbsolute, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, JobView } from '../../../app/client.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { builtInProject } from '../../../core/spec.ts';
import { minute, second } from '../../../core/time.ts';
import { type Course, courseOf, foldersOf, historyLine, lastErrorIn, unconfirmedReason } from '../../../lab/attempt.ts';
import type { Pane } from '../../../lab/lab.ts';
import { type Families, familiesOf, triesOf } from '../../../lab/lineage.ts';
import type { LabAttempt, LabJob, WindowReport } from '../../../lab/record.ts';
import { beginningText, standIns } from '../../../lab/script.ts';
import type { TpuDesk, TpuState } from '../../../lab/tpu-desk.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { wake } from '../../controller.ts';
import { inertWord } from '../../../app/figures.ts';
import { bookAttempt } from '../begin-job.ts';
import type { TpuCli, Words } from '../command.ts';
import { endOnWorkers, endWhereHeard, labTpuOf } from '../take.ts';

const noPane = '%jobman';

/** Between the moment in which a job is created and the one in which the lab knows of it there may be this long. */
const labKnowsWithin = 15 * second;

/**
 * The limit of waiting for a silent worker, for one that answers the controller and not us: the controller gives up sooner, by a
 * rule.
 */
const answersWithin = 5 * minute;

export async function begin(desk: TpuCli, { raw }: Words): Promise<number> {
  const { env } = desk.io;
  const [runFolder = ''] = raw;
  const id = env['JOBMAN_JOB_ID'];
  const attempt = Number(env['JOBMAN_ATTEMPT']);
  if (id === undefined || !Number.isInteger(attempt) || runFolder === '')
    throw new JobmanError('Only the script of a job that `tpu run` has made may ask how to begin.', exitCode.usage);
  const labJob = await whenKnown(desk, id);
  try {
    return await beginOf(desk, labJob, attempt, runFolder);
  } catch (error) {
    // An attempt that does not begin calls no `__end`.
    await bookAttempt(desk, labJob, 'reserved', (sentence) => say(desk, sentence));
    throw error;
  }
}

async function beginOf(desk: TpuCli, labJob: LabJob, attempt: number, runFolder: string): Promise<number> {
  const { env } = desk.io;
  const { record } = desk.lab;
  const id = labJob.job;
  const client = await desk.services.client();
  const families = await familiesOf(record, [labJob]);
  const views = await viewsOf(client, families);
  const course = courseOf({
    job: labJob,
    attempt,
    families,
    jobOf: (job) => triesOf(views.get(job)),
    hasCheckpoints,
  });
  checkFolder(course, labJob);
  const { window, session } = await record.openWindow(id, attempt, desk.io.now());
  const where = `${session}:${window.window}`;
  say(desk, introduction(where, id, attempt, labJob, course));
  await endLeftovers(desk, labJob, families, attempt);
  // The first was booked by whoever asked for it; the end of the one before this has made that `reserved`.
  if (attempt > 1) await bookAttempt(desk, labJob, 'running', (sentence) => say(desk, sentence));
  const pane = await showWindow(desk, labJob, { session, window: window.window, attempt, runFolder });
  const cloud = await builtInCloud(desk, views.get(id));
  const folder = join(runFolder, 'bin');
  const { launcher } = desk.io;
  await writePrograms(
    folder,
    standIns({ folder, launcher, window: where, pane: pane?.pane ?? noPane, sshPort: cloud?.sshPort ?? null }),
  );
  desk.io.stdout.write(
    beginningText({
      folder: course.folder,
      args: course.args,
      exports: {
        PATH: `${folder}:${env['PATH'] ?? '/usr/local/bin:/usr/bin:/bin'}`,
        JOBMAN_HOME: desk.services.home,
        JOBMAN_WINDOW: where,
        TPU_USER: labJob.user,
        // Scripts name folders after it; what started the controller (cron, systemd) may not have set it.
        USER: env['USER'] || desk.io.user,
        TMUX: pane?.tmux ?? null,
        TMUX_PANE: pane?.pane ?? noPane,
        ...cloud?.exports,
      },
    }),
  );
  return exitCode.ok;
}

function say(desk: TpuCli, sentence: string): void {
  desk.io.stderr.write(`-- ${sentence}\n`);
}

async function whenKnown(desk: TpuCli, id: string): Promise<LabJob> {
  const { record } = desk.lab;
  const end = desk.io.now() + labKnowsWithin;
  for (;;) {
    const found = await record.job(id);
    if (found !== null) return found;
    if (desk.io.now() > end)
      throw new JobmanError(
        `Job ${id} is none of the lab's; whoever created it was ended before it was made one.`,
        exitCode.notFound,
        ['Run it again with `tpu run`.'],
      );
    await sleep(200);
  }
}

async function viewsOf(client: Client, { jobs }: Families): Promise<ReadonlyMap<string, JobView>> {
  const views = new Map<string, JobView>();
  for (const job of jobs.keys()) {
    try {
      views.set(job, await client.show(job));
    } catch (error) {
      // One that was deleted ends a line, and nothing else.
      if (!(error instanceof JobmanError) || error.code !== exitCode.notFound) throw error;
    }
  }
  return views;
}

/** Programs of every kind call what they save `checkpoint` and something; a folder that cannot be read has none to offer. */
function hasCheckpoints(logFolder: string): boolean {
  try {
    return readdirSync(logFolder).some((name) => /^(checkpoint|ckpt|step_)/i.test(name) && !/tmp/i.test(name));
  } catch {
    return false;
  }
}

function checkFolder({ folder, isFrozen }: Course, { directory, directoryNumber }: LabJob): void {
  const isThere = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  if (isThere && existsSync(join(folder, 'staging.sh'))) return;
  const lacks = isThere ? 'has no staging.sh' : 'is gone';
  if (isFrozen)
    throw new JobmanError(`The frozen code of this job ${lacks}: ${folder}`, exitCode.notFound, [
      `It cannot go on. To begin anew with ${directory}: tpu run`,
    ]);
  const number = directoryNumber === null ? '' : ` ${directoryNumber}`;
  throw new JobmanError(`Working directory${number} ${lacks}: ${directory}`, exitCode.notFound);
}

function introduction(where: string, id: string, attempt: number, labJob: LabJob, course: Course): string {
  const from = course.from === null ? '' : `; goes on from ${course.from.logFolder}, stage ${course.stage}`;
  return `window ${where}: job ${id}, attempt ${attempt} on ${labJob.tpu}${from}`;
}

/**
 * Ends what earlier attempts of its line left on the workers: two programs cannot hold one TPU. A worker that does not answer
 * may still have one, so it is waited for. Throws JobmanError: (1) where something does not die, (5) where a worker stays
 * silent.
 */
async function endLeftovers(desk: TpuCli, labJob: LabJob, families: Families, attempt: number): Promise<void> {
  const before = [...families.windows.values()].filter(
    (window) => window.job !== labJob.job || window.attempt !== attempt,
  );
  const windows = before.flatMap((window) => {
    const job = families.jobs.get(window.job);
    return job === undefined ? [] : [{ window, job }];
  });
  const folders = foldersOf(windows, labJob.tpu);
  if (folders.length === 0) return;
  const tpus = await desk.lab.tpus();
  const until = desk.io.now() + answersWithin;
  let said: string | null = null;
  try {
    for (let turn = 1; ; turn += 1) {
      const silence = await silenceLeft(desk, tpus, labJob.tpu, folders);
      if (silence === null) return;
      if (desk.io.now() > until)
        throw new JobmanError(
          `What earlier attempts have left on ${labJob.tpu} may be running still: ${silence}. This one was not begun.`,
          exitCode.unreachable,
          [`tpu solve ${labJob.tpu}    looks why`],
        );
      if (silence !== said) say(desk, `waits to end what earlier attempts may have left: ${silence}`);
      said = silence;
      await sleep(Math.min(turn, 5) * second);
    }
  } finally {
    tpus.close();
  }
}

/** A sentence, without its full stop, about a worker that did not answer; null where all did. */
async function silenceLeft(
  desk: TpuCli,
  tpus: TpuDesk,
  name: string,
  folders: readonly string[],
): Promise<string | null> {
  try {
    const tpu = await labTpuOf(desk, name);
    const [first] = await endWhereHeard(desk, tpus, tpu, { folders, pids: [] }, AbortSignal.timeout(minute));
    return first === undefined ? null : `worker ${first.worker} does not answer (${first.says})`;
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code === exitCode.failed) throw error;
    // Forgotten since, and nobody knows any more where it is.
    if (error.code === exitCode.notFound) {
      say(desk, `what earlier attempts may have left could not be looked for: ${error.message}`);
      return null;
    }
    return error.message.replace(/\.$/, '');
  }
}

/** The window of the attempt; null where there is none to see it in, which keeps nobody from running. */
async function showWindow(
  desk: TpuCli,
  labJob: LabJob,
  of: { readonly session: string; readonly window: number; readonly attempt: number; readonly runFolder: string },
): Promise<Pane | null> {
  const { session, window, attempt, runFolder } = of;
  const { launcher } = desk.io;
  try {
    const host = await desk.lab.windows();
    if (host.tmux === null) return null;
    // The server's environment is that of whoever started it, which may know of another home.
    const home = `JOBMAN_HOME=${desk.services.home}`;
    const argv = host.shower({
      folder: runFolder,
      about: `Job ${labJob.job}, attempt ${attempt}`,
      next: `tpu check ${labJob.user}`,
      closed: ['env', home, ...launcher, 'tpu', '__closed', labJob.job, String(attempt)],
    });
    const title = labJob.tag ?? labJob.directory.split('/').findLast((part) => part !== '') ?? labJob.job;
    const pane = await host.open({ session, window }, { title, mark: `${labJob.job}/${attempt}`, argv });
    if (pane === null)
      say(desk, `window ${window} of the tmux session ${session} is somebody else's, so this one is shown nowhere`);
    return pane;
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    say(desk, error.message);
    return null;
  }
}

/** Settings with which Google's own tools reach the built-in cloud; undefined for any other TPU. */
async function builtInCloud(
  desk: TpuCli,
  view: JobView | undefined,
): Promise<{ readonly sshPort: number; readonly exports: Readonly<Record<string, string>> } | undefined> {
  const capacity = view?.spec.capacity;
  if (capacity?.kind !== 'tpu' || capacity.project !== builtInProject) return undefined;
  if ((await desk.services.settings()).tpu.endpoint !== null) return undefined;
  const { url, cloud } = await (await desk.services.emulator()).status();
  if (url === null || cloud === null) return undefined;
  return {
    sshPort: cloud.sshPort,
    exports: {
      CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU: `${url}/`,
      CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE: `${url}/compute/v1/`,
      CLOUDSDK_AUTH_DISABLE_CREDENTIALS: 'true',
      CLOUDSDK_CORE_PROJECT: builtInProject,
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

/** A script that was asked to end has a minute until it is killed. */
const endWithin = 40 * second;
/** The cloud's word about a machine that it takes comes later than its silence by so much at most. */
const cloudSaysWithin = 90 * second;
const lookEvery = 2 * second;

export async function end(desk: TpuCli, { raw }: Words): Promise<number> {
  const { env } = desk.io;
  const id = env['JOBMAN_JOB_ID'];
  const attempt = Number(env['JOBMAN_ATTEMPT']);
  const code = Number(raw.at(-1));
  if (id === undefined || !Number.isInteger(code))
    throw new JobmanError('Only the script of a job that `tpu run` has made may ask how it came out.', exitCode.usage);
  const isStopped = raw.includes('--stopped');
  const windows = await desk.lab.record.windows({ jobs: [id], cleared: true });
  const found = windows.find(({ window }) => window.attempt === attempt);
  const report = found?.window.report ?? null;
  const isFinished = found !== undefined && found.window.finishedAt !== null;
  // Jobs that an earlier version created do not name their run folder: for them the exit code alone can report a failure.
  const runFolder = raw.find((word) => isAbsolute(word)) ?? null;
  const reason = isStopped ? null : await unconfirmed(code, report, isFinished, runFolder);
  if (reason !== null) desk.io.stderr.write(`-- This attempt failed: ${reason}\n`);
  if (reason !== null && runFolder !== null) await writeFile(join(runFolder, 'failure'), `${inertWord(reason)}\n`);
  const verdict = reason !== null && runFolder === null ? exitCode.failed : code;
  if (found !== undefined) {
    if (isStopped || code !== 0 || reason !== null) await endOwn(desk, found, isStopped);
    await bookAttempt(desk, found.job, 'reserved', (sentence) => desk.io.stderr.write(`-- ${sentence}\n`));
  }
  desk.io.stdout.write(`${verdict}\n`);
  return exitCode.ok;
}

async function unconfirmed(
  code: number,
  report: WindowReport | null,
  isFinished: boolean,
  runFolder: string | null,
): Promise<string | null> {
  if (code !== 0 || isFinished) return null;
  // The attempt's own log has what the script printed, which is all there is where the script did not name its log.
  const own = runFolder === null ? [] : [join(runFolder, 'log')];
  const logs = [...(report === null ? [] : [join(report.logFolder, 'output.log')]), ...own];
  let hasHistory = false;
  let lastError: string | null = null;
  for (const log of logs) {
    hasHistory ||= await hasLine(log, historyLine);
    lastError ??= lastErrorIn(await endOf(log));
  }
  return unconfirmedReason({ code, report, isFinished, hasHistory, lastError });
}

/** A program on a worker outlives the line that started it, and would hold the TPU for nobody. */
async function endOwn(desk: TpuCli, found: LabAttempt, isStopped: boolean): Promise<void> {
  const folders = foldersOf([found], found.job.tpu);
  if (folders.length === 0) return;
  const tpus = await desk.lab.tpus();
  try {
    const tpu = await labTpuOf(desk, found.job.tpu);
    const state = await tpus.describe(tpu);
    // A TPU that the cloud has taken has no workers.
    if (!isReady(state)) return;
    const missed = await endOnWorkers(desk, tpus, tpu, { folders, pids: [] }, AbortSignal.timeout(endWithin));
    if (missed.length > 0 && !isStopped && tpu.pricing !== 'ondemand') await cloudSays(tpus, tpu);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    for (const line of [error.message, ...error.lines]) desk.io.stderr.write(`-- ${line}\n`);
  } finally {
    tpus.close();
  }
}

function isReady(state: TpuState): boolean {
  return state.kind === 'known' && state.state === 'ready';
}

/**
 * A worker falls silent before the cloud reports the preemption, and the script then fails with a code of its own. So the cloud
 * gets time for its report.
 */
async function cloudSays(tpus: TpuDesk, tpu: LabTpu): Promise<void> {
  for (let turn = 0; turn < cloudSaysWithin / lookEvery; turn += 1) {
    await sleep(lookEvery);
    if (!isReady(await tpus.describe(tpu))) return;
  }
}

const chunkSize = 1 << 20;

const endSize = 64 * 1024;

async function endOf(path: string): Promise<string> {
  let file;
  try {
    file = await open(path, 'r');
    const { size } = await file.stat();
    const from = Math.max(0, size - endSize);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    return buffer.subarray(0, bytesRead).toString('utf8');
  } catch {
    return '';
  } finally {
    await file?.close();
  }
}

/** True if the file contains the text. The end is read first, since a log may have gigabytes and the text is most likely there. */
async function hasLine(path: string, text: string): Promise<boolean> {
  const wanted = Buffer.from(text);
  let file;
  try {
    file = await open(path, 'r');
  } catch {
    return false;
  }
  try {
    const { size } = await file.stat();
    const buffer = Buffer.alloc(chunkSize + wanted.length);
    for (let end = size; end > 0; end -= chunkSize) {
      const from = Math.max(0, end - chunkSize);
      // Overlap, so that a text across the border of two parts is whole in one.
      const length = Math.min(end - from + wanted.length, size - from);
      const { bytesRead } = await file.read(buffer, 0, length, from);
      if (buffer.subarray(0, bytesRead).includes(wanted)) return true;
    }
    return false;
  } finally {
    await file.close();
  }
}

/** tmux answers nobody while it takes a session down window by window, but its server takes a moment to be gone. */
const sessionEndsWithin = 500;

export async function closed(desk: TpuCli, { raw }: Words): Promise<number> {
  const [id, ordinal] = raw;
  const attempt = Number(ordinal);
  if (id === undefined || !Number.isInteger(attempt))
    throw new JobmanError('Only the window of a job says that it was closed.', exitCode.usage);
  await sleep(sessionEndsWithin);
  const { record } = desk.lab;
  const windows = await record.windows({ jobs: [id], cleared: true });
  const found = windows.find(({ window }) => window.attempt === attempt);
  // The command that cleared the window has closed it.
  if (found === undefined || found.window.clearedAt !== null) return exitCode.ok;
  const [user] = (await record.users()).filter(({ name }) => name === found.job.user);
  const standing = user === undefined ? null : await (await desk.lab.windows()).list(user.session);
  if (standing === null || standing.includes(found.window.window)) return exitCode.ok;
  await record.markWindows([{ job: id, attempt }], 'closed', desk.io.now());
  // A later attempt has a window of its own: this one was only tidied away.
  if (windows.some(({ window }) => window.attempt > attempt)) return exitCode.ok;
  const client = await desk.services.client();
  const answer = await client.ask(id, 'last', { by: found.job.user, onBehalf: true });
  if (answer.ok) await wake(desk, client);
  return exitCode.ok;
}
