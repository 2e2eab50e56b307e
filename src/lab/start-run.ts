// Start run: the jobs of `tpu run`, `tpu resume` and `tpu rerun`. Each start is one transaction: the job with its window and
// booking, and the end requests of the jobs that it replaces. The front end asks the questions first and prints the answer.

import type { Client, JobView } from '../app/client.ts';
import { exitCode, JobmanError } from '../app/errors.ts';
import { formatReasons } from '../app/format.ts';
import type { DeviceHolder, RunBooking } from '../app/lab-job.ts';
import type { JobSpec } from '../core/model/spec.ts';
import { isFinishedPhase } from '../core/decide/phase.ts';
import type { Instant } from '../core/model/time.ts';
import type { Booking, LateChange } from './bookings.ts';
import type { Lab } from './lab.ts';
import type { LabJob } from './lab-store.ts';
import { stageOf } from './lineage.ts';
import { retargetSpec } from './run-spec.ts';
import type { LabUser } from './users.ts';

export interface StartParts {
  readonly client: Pick<Client, 'create' | 'sendCommand'>;
  readonly lab: Pick<Lab, 'site' | 'sheet' | 'store'>;
  readonly now: () => Instant;
}

/** The state of the TPU to which the user has agreed. */
interface AgreedClaim {
  /** The jobs to end when the new one is stored. A later job on the TPU is a conflict. */
  readonly replaces: readonly string[];
  readonly foreignPrograms: readonly DeviceHolder[];
  readonly booking: Booking | null;
}

export interface StartedRun {
  readonly id: string;
  readonly window: number;
  /** It starts once these jobs have ended. */
  readonly replaces: readonly string[];
  /** Changes of the spreadsheet that it does not have yet. */
  readonly late: readonly LateChange[];
}

interface NewRun {
  readonly user: LabUser;
  readonly spec: JobSpec;
  readonly manifest: string;
  readonly labJob: Omit<LabJob, 'job' | 'user'>;
  readonly claim: AgreedClaim;
  readonly notes: string | null;
}

/** Throws JobmanError (4) and creates nothing if another command has just created a job on the TPU, or booked it. */
export async function startRun(parts: StartParts, run: NewRun): Promise<StartedRun> {
  const { user, spec, manifest, labJob, claim, notes } = run;
  const { replaces, foreignPrograms } = claim;
  const job = { ...labJob, replaces, foreignPrograms, ...(await sheetOf(parts)) };
  const lab = { job, booking: bookingFor(user, claim, notes) };
  const answer = await parts.client.create({ spec, manifest, onBehalfOf: user.name, lab, replaces });
  if (answer.kind !== 'created') {
    throw new JobmanError(`Nothing was started. ${formatReasons(answer.confirmation)}`, exitCode.conflict, [
      'Run the command again to take the TPU.',
    ]);
  }
  return finishStart(parts, answer.id, 1, labJob.tpu, replaces);
}

interface Restart {
  readonly user: LabUser;
  readonly startMode: 'resume' | 'rerun';
  readonly labJob: LabJob;
  readonly view: JobView;
  readonly claim: AgreedClaim;
}

/** The next attempt of the job, on its TPU. Throws JobmanError as the client refuses the command. */
export async function restartRun(parts: StartParts, restart: Restart): Promise<StartedRun> {
  const { user, startMode, labJob, view, claim } = restart;
  const { replaces, foreignPrograms } = claim;
  const attempt = view.attempts.length + 1;
  const lab = { attempt, replaces, foreignPrograms, booking: bookingFor(user, claim, null), ...(await sheetOf(parts)) };
  const answer = await parts.client.sendCommand(labJob.job, startMode, { onBehalfOf: user.name, replaces, lab });
  if (!answer.ok) throw new JobmanError(answer.message, answer.exitCode);
  return finishStart(parts, labJob.job, attempt, labJob.tpu, replaces);
}

/** A new job on another TPU, with this one as its parent. If this one is under way, the new job ends it. */
export async function moveRun(
  parts: StartParts,
  { user, startMode, labJob, view, claim }: Restart,
  to: { readonly tpu: string; readonly window: number; readonly context: Parameters<typeof retargetSpec>[1] },
): Promise<StartedRun> {
  const { job: parent, user: _user, ...same } = labJob;
  const newest = view.attempts.at(-1)?.attempt ?? 1;
  const attempts = view.attempts.map((one) => ({ ...one, startedByOwner: one.startedBy === 'owner' }));
  return startRun(parts, {
    user,
    spec: retargetSpec(view.spec, to.context, labJob),
    manifest: `# Created by: tpu ${startMode} windows=${to.window} tpu=${to.tpu} ${user.name}\n`,
    labJob: {
      ...same,
      tpu: to.tpu,
      parent: { job: parent, attempt: newest, startMode },
      baseStage: startMode === 'resume' ? stageOf(labJob, { attempts }, newest) + 1 : 0,
    },
    claim: isFinishedPhase(view.phase) ? claim : { ...claim, replaces: [...claim.replaces, parent] },
    notes: null,
  });
}

/** The sheet of new bookings. */
async function sheetOf({ lab }: StartParts): Promise<Pick<LabJob, 'spreadsheet'>> {
  return (await lab.site()).spreadsheet === null ? {} : { spreadsheet: true };
}

function bookingFor({ sheetName }: LabUser, { booking: seen }: AgreedClaim, notes: string | null): RunBooking {
  // Another user's notes do not apply to this run.
  const scriptNote = notes ?? (seen !== null && seen.user !== sheetName ? '' : undefined);
  return { user: sheetName, seenUser: seen?.user ?? null, ...(scriptNote !== undefined && { scriptNote }) };
}

/** The job has started, so a booking that another user has just made is only reported. */
async function finishStart(
  { lab, now }: StartParts,
  id: string,
  attempt: number,
  tpu: string,
  replaces: readonly string[],
): Promise<StartedRun> {
  const { late } = await (await lab.sheet()).deliver();
  const { window } = await lab.store.openWindow(id, attempt, now());
  return { id, window: window.window, replaces, late: late.filter((one) => one.tpu === tpu) };
}
