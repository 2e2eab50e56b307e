// resume and rerun: a job of a window once more, from its last checkpoint or from the start. On its own TPU that is the next
// attempt of the job, on another the first of a job that names this one its father.

import type { JobView } from '../../../app/client.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { isSettledPhase } from '../../../core/phase.ts';
import { stageOf } from '../../../lab/lineage.ts';
import { shortName } from '../../../lab/names-of-tpus.ts';
import { specElsewhere } from '../../../lab/run.ts';
import type { LabJob } from '../../../lab/windows.ts';
import { wake } from '../../controller.ts';
import { beginJob, bookFor } from '../begin-job.ts';
import { endJobs } from '../end-jobs.ts';
import { goOnWatching } from '../go-on-watching.ts';
import { windowCalled } from '../list-of.ts';
import { actingFor } from '../people.ts';
import { surroundings } from '../surroundings.ts';
import { labTpuOf, takeTpu, withParts, type TakeParts, type TakeRequest } from '../take.ts';
import type { TpuBody, TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';
import { triesOf } from './begin.ts';
import { sayBegun } from './run.ts';

export const resume: TpuBody = (desk, words) => again(desk, words, 'resume');
export const rerun: TpuBody = (desk, words) => again(desk, words, 'rerun');

type How = 'resume' | 'rerun';

/** One job that is wanted again, and the TPU that it is to run on. */
interface Again extends Omit<TakeRequest, 'job' | 'also'> {
  readonly how: How;
  /** The window by which it was called. */
  readonly number: number;
  readonly labJob: LabJob;
  readonly view: JobView;
}

async function again(desk: TpuCli, words: Words, how: How): Promise<number> {
  const { user, by } = await actingFor(desk, words, `${how} a job`);
  if (words.tpu !== null && words.windows.length > 1)
    throw new JobmanError('One TPU has room for one of several jobs. Say them one by one.', exitCode.usage);
  const agreed = { apply: words.flags.has('apply'), force: words.flags.has('f') };
  return withParts(desk, async (parts) => {
    for (const number of words.windows) {
      const { job: labJob } = await windowCalled(desk, user, number);
      const view = await parts.client.show(labJob.job);
      const tpu = words.tpu ?? (await labTpuOf(desk, labJob.tpu));
      const begin = tpu.name === labJob.tpu ? beginHere : beginElsewhere;
      await begin(desk, parts, { ...agreed, how, user, by, number, labJob, view, tpu });
      if (how === 'resume' && !(await hasReport(desk, labJob)))
        desk.note(
          `Window ${number} has never told where its log is (tpu upd-log), so there is nothing to go on from: it begins from the start.`,
        );
    }
    return goOnWatching(desk, words, user);
  });
}

/** True if an attempt has reported its folders. A job that continues another may have them from there. */
async function hasReport(desk: TpuCli, { job, father }: LabJob): Promise<boolean> {
  if (father !== null) return true;
  const windows = await desk.lab.record.windows({ jobs: [job], cleared: true });
  return windows.some(({ window }) => window.report !== null);
}

/** The next attempt of the same job. Throws JobmanError (4) where it is under way. */
async function beginHere(desk: TpuCli, parts: TakeParts, wanted: Again): Promise<void> {
  const { how, user, by, number, labJob, view, tpu } = wanted;
  const { client } = parts;
  if (!isSettledPhase(view.phase))
    throw new JobmanError(
      `Window ${number} of ${user.name} (job ${labJob.job}) is ${view.status} already.`,
      exitCode.conflict,
      [`tpu kill ${number} ${user.name}    ends it first; then tpu ${how} ${number} ${user.name}`],
    );
  const taking = await takeTpu(desk, parts, { ...wanted, job: labJob.job });
  await taking.prepare();
  const unbook = await bookFor(desk, { user, tpu, taking, notes: null });
  const answer = await client.ask(labJob.job, how, { by, onBehalf: true });
  if (!answer.ok) {
    await unbook();
    throw new JobmanError(answer.message, answer.code);
  }
  const { window } = await desk.lab.record.openWindow(labJob.job, view.attempts.length + 1, desk.io.now());
  await wake(desk, client);
  const where = shortName(tpu.name, (await desk.lab.site()).namePrefix);
  sayBegun(desk, { window: window.window, id: labJob.job, does: `${does(how, number)} on ${where}` });
}

/** A job that comes of this one. Where this one is under way it is ended first, which is asked about. */
async function beginElsewhere(desk: TpuCli, parts: TakeParts, wanted: Again): Promise<void> {
  const { how, user, by, number, labJob, view, tpu } = wanted;
  const { client, signal } = parts;
  const isOver = isSettledPhase(view.phase);
  const { namePrefix } = await desk.lab.site();
  const newest = view.attempts.at(-1)?.attempt ?? 1;
  const also = isOver
    ? []
    : [`window ${number} is ${view.status} on ${shortName(labJob.tpu, namePrefix)}, and would be ended`];
  const taking = await takeTpu(desk, parts, { ...wanted, also });
  const around = (await surroundings(desk))(tpu, taking.zone);
  if (!isOver) await endJobs(desk, client, [labJob.job], { by, signal });
  await taking.prepare();
  const spec = specElsewhere(view.spec, around, labJob);
  const { job: father, ...same } = labJob;
  const { id, window } = await beginJob(desk, client, {
    user,
    by,
    tpu,
    spec,
    manifest: `# Made by: tpu ${how} windows=${number} tpu=${tpu.name} ${user.name}\n`,
    labJob: {
      ...same,
      tpu: tpu.name,
      father: { job: father, attempt: newest, how },
      baseStage: how === 'resume' ? stageOf(labJob, triesOf(view) ?? { attempts: [] }, newest) + 1 : 0,
    },
    taking,
    notes: null,
  });
  sayBegun(desk, { window, id, does: `${does(how, number)} on ${shortName(tpu.name, namePrefix)}` });
}

function does(how: How, number: number): string {
  return how === 'resume' ? `resumes window ${number}` : `begins window ${number} again`;
}
