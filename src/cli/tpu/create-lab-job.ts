// Creates a job of the lab, and keeps its bookings up to date.

import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { capitalize, escapeLine, formatList } from '../../app/format.ts';
import type { RunBooking } from '../../app/lab-job.ts';
import type { JobSpec } from '../../core/model/spec.ts';
import type { LabUser } from '../../lab/users.ts';
import type { LabJob } from '../../lab/lab-store.ts';
import { type RunRequest, scriptEnvironment, persistentTpuSpec } from '../../lab/run-spec.ts';
import { siteSteps } from '../../lab/site-setup.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import type { BookingSheet } from '../../lab/bookings.ts';
import { wakeController } from '../controller.ts';
import type { TpuCli } from './command.ts';
import type { TpuClaim } from './claim-tpu.ts';

interface NewLabJob {
  readonly user: LabUser;
  readonly spec: JobSpec;
  readonly manifest: string;
  readonly labJob: Omit<LabJob, 'job' | 'user'>;
  readonly claim: Pick<TpuClaim, 'replaces' | 'booking'>;
  readonly notes: string | null;
}

/** Throws JobmanError (4) and creates nothing if another command has just created a job on the TPU, or booked it. */
export async function createLabJob(
  cli: TpuCli,
  client: Client,
  { user, spec, manifest, labJob, claim, notes }: NewLabJob,
): Promise<{ readonly id: string; readonly window: number }> {
  const { io } = cli;
  const { replaces } = claim;
  const { booking, stored } = await bookingFor(cli, user, claim, notes);
  const lab = { job: { ...labJob, replaces }, booking: stored };
  const answer = await client.create({ spec, manifest, onBehalfOf: user.name, env: io.env, lab, replaces });
  if (answer.kind !== 'created') {
    const reasons = answer.confirmation.reasons.map(({ message }) => `${capitalize(escapeLine(message))}.`);
    throw new JobmanError(`Nothing was started. ${reasons.join(' ')}`, exitCode.conflict, [
      'Run the command again to take the TPU.',
    ]);
  }
  const { id } = answer;
  const run = { id, attempt: 1, tpu: labJob.tpu, replaces, booking: stored === null ? booking : null };
  return { id, window: await finishStart(cli, client, run) };
}

/** Starts the controller, and returns the number of the window. `booking`: for a spreadsheet. */
export async function finishStart(
  cli: TpuCli,
  client: Client,
  run: {
    readonly id: string;
    readonly attempt: number;
    readonly tpu: string;
    readonly replaces: readonly string[];
    readonly booking: RunBooking | null;
  },
): Promise<number> {
  const { id, attempt, tpu, replaces, booking } = run;
  // The job has started, so a booking that another user has just made is only a note.
  if (booking !== null) await changeSheet(cli, cli.note, (sheet) => sheet.change(tpu, { kind: 'run', ...booking }));
  const { window } = await cli.lab.store.openWindow(id, attempt, cli.io.now());
  await wakeController(cli, client);
  if (replaces.length > 0) cli.note(`It starts once ${formatJobs(replaces)} ended.`);
  return window.window;
}

function formatJobs(ids: readonly string[]): string {
  return ids.length === 1 ? `job ${ids[0]} has` : `jobs ${formatList(ids)} have`;
}

/** `stored`: null for a spreadsheet, which cannot take part in the transaction. */
export async function bookingFor(
  cli: TpuCli,
  { sheetName }: LabUser,
  { booking: seen }: Pick<TpuClaim, 'booking'>,
  notes: string | null,
): Promise<{ readonly booking: RunBooking; readonly stored: RunBooking | null }> {
  // Another user's notes do not apply to this run.
  const scriptNote = notes ?? (seen !== null && seen.user !== sheetName ? '' : undefined);
  const booking = {
    user: sheetName,
    seenUser: seen?.user ?? null,
    ...(scriptNote !== undefined && { scriptNote }),
  };
  return { booking, stored: (await cli.lab.site()).spreadsheet === null ? booking : null };
}

/** Changes only the user's own row: `running` when an attempt begins, `reserved` when it ends. */
export async function bookAttempt(
  cli: Pick<TpuCli, 'lab'>,
  job: LabJob,
  status: 'running' | 'reserved',
  report: (sentence: string) => void,
): Promise<void> {
  await changeSheet(cli, report, async (sheet) => {
    const users = await cli.lab.store.users();
    const user = users.find(({ name }) => name === job.user)?.sheetName;
    if (user !== undefined)
      await sheet.change(job.tpu, { kind: status === 'running' ? 'begin_attempt' : 'end_attempt', user });
  });
}

/** Records that the TPU was deleted (`gone`), or created again (`free`, only if the sheet says gone). */
export async function bookExistence(
  cli: Pick<TpuCli, 'lab'>,
  tpu: string,
  status: 'gone' | 'free',
  report: (sentence: string) => void,
): Promise<void> {
  await changeSheet(cli, report, (sheet) => sheet.change(tpu, { kind: 'observe', exists: status === 'free' }));
}

async function changeSheet(
  cli: Pick<TpuCli, 'lab'>,
  report: (sentence: string) => void,
  act: (sheet: BookingSheet) => Promise<unknown>,
): Promise<void> {
  try {
    await act(await cli.lab.sheet());
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    report(`The booking sheet was not changed: ${error.message}`);
  }
}

type TpuSpecContext = Pick<RunRequest, 'capacity' | 'steps' | 'stageLimit' | 'hangGraceMs' | 'launcher' | 'env'>;

/** `foundZone` is the zone that the cloud reports. Throws as `persistentTpuSpec` does. */
export async function tpuSpecContext({
  io,
  lab,
  services,
}: TpuCli): Promise<(tpu: LabTpu, foundZone?: string | null) => TpuSpecContext> {
  const [site, { tpu: cloud }] = await Promise.all([lab.site(), services.settings()]);
  const { stageLimit, hangGraceMs } = site;
  const env = scriptEnvironment(io.env, services.home);
  return (tpu, foundZone = null) => {
    const capacity = persistentTpuSpec(tpu, site, { project: cloud.project, foundZone });
    return { capacity, steps: siteSteps(site, capacity.zone), stageLimit, hangGraceMs, launcher: io.launcher, env };
  };
}
