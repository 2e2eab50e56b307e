// __begin: what the script of an attempt asks when it begins. What it prints, the script evaluates; what it says on standard
// error goes to the attempt's log.

import { existsSync, readdirSync, statSync } from 'node:fs';
import { chmod, mkdir, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client, JobView } from '../../../app/client.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { builtInProject } from '../../../core/spec.ts';
import { minute, second } from '../../../core/time.ts';
import { courseOf, foldersOf, type Course } from '../../../lab/attempt.ts';
import { familiesOf, type Families, type Tries } from '../../../lab/lineage.ts';
import { beginningText, standIns } from '../../../lab/script.ts';
import type { TpuDesk } from '../../../lab/tpu-desk.ts';
import type { Pane } from '../../../lab/window-host.ts';
import type { LabJob } from '../../../lab/windows.ts';
import { bookAttempt } from '../book-attempt.ts';
import { endWhereHeard, labTpuOf } from '../take.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

/** TMUX_PANE without a window. */
const noPane = '%jobman';

/** Between the moment in which a job is created and the one in which the lab knows of it there may be this long. */
const labKnowsWithin = 15 * second;

/**
 * How long a silent worker is waited for. The controller sees it too, and gives it up sooner, by a rule; this is for one that
 * lets the controller in and not us.
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

/** To the attempt's log, where it stands among what the scripts print. */
function say(desk: TpuCli, sentence: string): void {
  desk.io.stderr.write(`-- ${sentence}\n`);
}

/** Throws JobmanError (3) where it is none of the lab's. */
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

/** The attempts of a job, for lineage. */
export function triesOf(view: Pick<JobView, 'attempts'> | undefined): Tries | null {
  if (view === undefined) return null;
  return {
    attempts: view.attempts.map(({ asked, how, stage, started }) => ({ asked, how, stage, startedAt: started })),
  };
}

/** Programs of every kind call what they save `checkpoint` and something; a folder that cannot be read has none to offer. */
function hasCheckpoints(logFolder: string): boolean {
  try {
    return readdirSync(logFolder).some((name) => /^(checkpoint|ckpt|step_)/i.test(name) && !/tmp/i.test(name));
  } catch {
    return false;
  }
}

/** Throws JobmanError (3) where there is nothing to run. */
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
 * Ends what earlier attempts of its line have left on the workers: two programs cannot hold one TPU. A worker that does not
 * answer may still have one, and nothing could be begun there anyway, so it is waited for. Throws JobmanError: (1) where something
 * does not die, (5) where a worker stays silent.
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

/** Ends it where it can be reached; who did not answer, as a sentence without its full stop, or null. */
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

/** Each appears whole. */
async function writePrograms(folder: string, programs: Readonly<Record<string, string>>): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const [name, text] of Object.entries(programs)) {
    const file = join(folder, name);
    await writeFile(`${file}.new`, text);
    await chmod(`${file}.new`, 0o700);
    await rename(`${file}.new`, file);
  }
}
