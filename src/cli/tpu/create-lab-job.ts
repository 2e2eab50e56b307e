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
import type { Delivery } from '../../lab/bookings.ts';
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
  const { replaces } = claim;
  const lab = { job: { ...labJob, replaces, ...(await sheetOf(cli)) }, booking: bookingFor(user, claim, notes) };
  const answer = await client.create({ spec, manifest, onBehalfOf: user.name, lab, replaces });
  if (answer.kind !== 'created') {
    const reasons = answer.confirmation.reasons.map(({ message }) => `${capitalize(escapeLine(message))}.`);
    throw new JobmanError(`Nothing was started. ${reasons.join(' ')}`, exitCode.conflict, [
      'Run the command again to take the TPU.',
    ]);
  }
  const { id } = answer;
  return { id, window: await finishStart(cli, client, { id, attempt: 1, tpu: labJob.tpu, replaces }) };
}

/** The sheet of new bookings. */
export async function sheetOf(cli: Pick<TpuCli, 'lab'>): Promise<Pick<LabJob, 'spreadsheet'>> {
  return (await cli.lab.site()).spreadsheet === null ? {} : { spreadsheet: true };
}

/** Writes the booking to a spreadsheet, starts the controller, and returns the number of the window. */
export async function finishStart(
  cli: TpuCli,
  client: Client,
  run: {
    readonly id: string;
    readonly attempt: number;
    readonly tpu: string;
    readonly replaces: readonly string[];
  },
): Promise<number> {
  const { id, attempt, tpu, replaces } = run;
  // The job has started, so a booking that another user has just made is only a note.
  await reportDelivery(tpu, (await cli.lab.sheet()).deliver(), cli.note);
  const { window } = await cli.lab.store.openWindow(id, attempt, cli.io.now());
  await wakeController(cli, client);
  if (replaces.length > 0) cli.note(`It starts once ${formatJobs(replaces)} ended.`);
  return window.window;
}

function formatJobs(ids: readonly string[]): string {
  return ids.length === 1 ? `job ${ids[0]} has` : `jobs ${formatList(ids)} have`;
}

export function bookingFor(
  { sheetName }: LabUser,
  { booking: seen }: Pick<TpuClaim, 'booking'>,
  notes: string | null,
): RunBooking {
  // Another user's notes do not apply to this run.
  const scriptNote = notes ?? (seen !== null && seen.user !== sheetName ? '' : undefined);
  return { user: sheetName, seenUser: seen?.user ?? null, ...(scriptNote !== undefined && { scriptNote }) };
}

/** Records that the TPU was deleted (`gone`), or created again (`free`, only if the sheet says gone). */
export async function bookExistence(
  cli: Pick<TpuCli, 'lab'>,
  tpu: string,
  status: 'gone' | 'free',
  report: (sentence: string) => void,
): Promise<void> {
  const sheet = await cli.lab.sheet();
  await reportDelivery(tpu, sheet.changeLater(tpu, { kind: 'observe', exists: status === 'free' }), report);
}

async function reportDelivery(
  tpu: string,
  delivery: Promise<Delivery>,
  report: (sentence: string) => void,
): Promise<void> {
  for (const one of (await delivery).late) if (one.tpu === tpu) report(escapeLine(one.message));
}

type TpuSpecContext = Pick<RunRequest, 'capacity' | 'steps' | 'stageLimit' | 'hangGraceMs' | 'env'>;

/** `foundZone` is the zone that the cloud reports. Throws as `persistentTpuSpec` does. */
export async function tpuSpecContext({
  io,
  lab,
  services,
}: TpuCli): Promise<(tpu: LabTpu, foundZone?: string | null) => TpuSpecContext> {
  const [site, { tpu: cloud }] = await Promise.all([lab.site(), services.settings()]);
  const { stageLimit, hangGraceMs } = site;
  const env = scriptEnvironment(io.env);
  return (tpu, foundZone = null) => {
    const capacity = persistentTpuSpec(tpu, site, { project: cloud.project, foundZone });
    return { capacity, steps: siteSteps(site, capacity.zone), stageLimit, hangGraceMs, env };
  };
}
