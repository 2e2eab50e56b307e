// Creates a job of the lab, and keeps its bookings up to date.

import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { capitalize, escapeLine } from '../../app/format.ts';
import type { RunBooking } from '../../app/lab-job.ts';
import type { JobSpec } from '../../core/model/spec.ts';
import type { LabUser } from '../../lab/users.ts';
import type { LabJob } from '../../lab/lab-store.ts';
import { type RunRequest, scriptEnvironment, persistentTpuSpec } from '../../lab/run-spec.ts';
import { siteSteps } from '../../lab/site-setup.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import { type BookingSheet, bookRun } from '../../lab/bookings.ts';
import { wakeController } from '../controller.ts';
import type { TpuCli } from './command.ts';
import type { TpuClaim } from './claim-tpu.ts';

interface NewLabJob {
  readonly user: LabUser;
  readonly spec: JobSpec;
  readonly manifest: string;
  readonly labJob: Omit<LabJob, 'job' | 'user'>;
  readonly claim: Pick<TpuClaim, 'booking'>;
  readonly notes: string | null;
}

/** Throws JobmanError (4) and creates nothing if another command has just created a job on the TPU, or booked it. */
export async function createLabJob(
  cli: TpuCli,
  client: Client,
  { user, spec, manifest, labJob, claim, notes }: NewLabJob,
): Promise<{ readonly id: string; readonly window: number }> {
  const { io } = cli;
  const booking = runBooking(user, claim, notes);
  // A spreadsheet cannot take part in the transaction.
  const isLocal = (await cli.lab.site()).spreadsheet === null;
  const lab = { job: labJob, booking: isLocal ? booking : null };
  const answer = await client.create({ spec, manifest, onBehalfOf: user.name, env: io.env, lab });
  if (answer.kind !== 'created') {
    const reasons = answer.confirmation.reasons.map(({ message }) => `${capitalize(escapeLine(message))}.`);
    throw new JobmanError(`Nothing was started. ${reasons.join(' ')}`, exitCode.conflict, [
      'Run the command again to take the TPU.',
    ]);
  }
  const { id } = answer;
  if (!isLocal) await bookStartedRun(cli, labJob.tpu, booking);
  const { window } = await cli.lab.store.openWindow(id, 1, io.now());
  await wakeController(cli, client);
  return { id, window: window.window };
}

/** Another user's notes do not apply to this run. */
export function runBooking(
  { sheetName }: LabUser,
  { booking }: Pick<TpuClaim, 'booking'>,
  notes: string | null,
): RunBooking {
  const scriptNote = notes ?? (booking !== null && booking.user !== sheetName ? '' : undefined);
  return { user: sheetName, seenUser: booking?.user ?? null, ...(scriptNote !== undefined && { scriptNote }) };
}

/** For a job that has started: a booking that another user has just made is only a note. */
export function bookStartedRun(cli: TpuCli, tpu: string, booking: RunBooking): Promise<void> {
  return changeSheet(cli, cli.note, (sheet) => bookRun(sheet, tpu, booking));
}

/** Changes only the user's own row: `running` when an attempt begins, `reserved` when it ends. */
export async function bookAttempt(
  cli: Pick<TpuCli, 'lab'>,
  job: LabJob,
  status: 'running' | 'reserved',
  report: (sentence: string) => void,
): Promise<void> {
  const from = status === 'running' ? 'reserved' : 'running';
  await changeSheet(cli, report, async (sheet) => {
    const users = await cli.lab.store.users();
    const mine = users.find(({ name }) => name === job.user)?.sheetName;
    await sheet.change(job.tpu, { status }, (now) =>
      now.status.kind === from && now.user === mine ? null : 'another user booked it, or it is set already',
    );
  });
}

/** Records that the TPU was deleted (`gone`), or created again (`free`, only if the sheet says gone). */
export async function bookExistence(
  cli: Pick<TpuCli, 'lab'>,
  tpu: string,
  status: 'gone' | 'free',
  report: (sentence: string) => void,
): Promise<void> {
  await changeSheet(cli, report, async (sheet) => {
    if (status === 'gone') await sheet.change(tpu, { status, user: '', note: '', scriptNote: '' });
    else await sheet.change(tpu, { status }, (now) => (now.status.kind === 'gone' ? null : 'it is not gone'));
  });
}

async function changeSheet(
  cli: Pick<TpuCli, 'lab'>,
  report: (sentence: string) => void,
  act: (sheet: BookingSheet) => Promise<void>,
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
