// Creates a job of the lab with its booking and its first window. If a later step fails, the earlier ones are undone.

import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { JobSpec } from '../../core/model/spec.ts';
import type { LabUser } from '../../lab/users.ts';
import type { LabJob } from '../../lab/lab-store.ts';
import { type RunRequest, scriptEnvironment, persistentTpuSpec } from '../../lab/run-spec.ts';
import { siteSteps } from '../../lab/site-setup.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import { type BookingChange, type BookingSheet, isBookedByOther } from '../../lab/bookings.ts';
import { wakeController } from '../controller.ts';
import type { TpuCli } from './command.ts';
import type { TpuClaim } from './claim-tpu.ts';

export interface NewLabJob {
  readonly user: LabUser;
  readonly by: string;
  readonly tpu: LabTpu;
  readonly spec: JobSpec;
  readonly manifest: string;
  readonly labJob: Omit<LabJob, 'job'>;
  readonly claim: Pick<TpuClaim, 'knownJobs' | 'booking'>;
  readonly notes: string | null;
}

/** Throws a conflict (4) and leaves nothing behind if another command has just created a job on the TPU. */
export async function createLabJob(
  cli: TpuCli,
  client: Client,
  request: NewLabJob,
): Promise<{ readonly id: string; readonly window: number }> {
  const { user, by, tpu, spec, manifest, claim } = request;
  const { store } = cli.lab;
  const unbook = await bookFor(cli, request);
  let id: string | undefined;
  let isToUnbook = true;
  try {
    ({ id } = await client.create({ spec, manifest, owner: user.name, by, env: cli.io.env }));
    const labJob: LabJob = { job: id, ...request.labJob };
    // After this transaction the job is on the TPU. Its script waits for the row before it begins.
    await store.transaction(async (inside) => {
      const winner = (await inside.jobs()).find((one) => one.tpu === tpu.name && !claim.knownJobs.has(one.job));
      // If the winner has the same user, the booking belongs to the winner.
      isToUnbook = winner?.user !== user.name;
      if (winner !== undefined)
        throw new JobmanError(
          `Job ${winner.job} of ${winner.user} has just started on ${tpu.name}. Yours was not started.`,
          exitCode.conflict,
          ['Run the command again to take the TPU.'],
        );
      await inside.addJob(labJob);
    });
  } catch (error) {
    if (id !== undefined) {
      await client.sendCommand(id, 'delete', { by, onBehalf: true });
      await client.wake();
    }
    if (isToUnbook) await unbook();
    throw error;
  }
  const { window } = await store.openWindow(id, 1, cli.io.now());
  await wakeController(cli, client);
  return { id, window: window.window };
}

/** Returns a function that restores the booking. Throws JobmanError (4) if another user has just booked the TPU. */
export async function bookFor(
  cli: TpuCli,
  { user, tpu, claim, notes }: Pick<NewLabJob, 'user' | 'tpu' | 'claim' | 'notes'>,
): Promise<() => Promise<void>> {
  const nothing = (): Promise<void> => Promise.resolve();
  // Another user's notes do not apply to this run.
  const newNotes = notes ?? (claim.booking !== null && claim.booking.user !== user.sheetName ? '' : undefined);
  const change: BookingChange = {
    status: 'running',
    user: user.sheetName,
    ...(newNotes !== undefined && { scriptNote: newNotes }),
  };
  try {
    const sheet = await cli.lab.sheet();
    const { before, refused } = await sheet.change(tpu.name, change, (now) =>
      isBookedByOther(now, user) && now.user !== claim.booking?.user ? now.user : null,
    );
    if (refused !== null)
      throw new JobmanError(`${refused} has just booked ${tpu.name}. Nothing was started.`, exitCode.conflict);
    if (before === null) return nothing;
    const { status, user: bookedFor, note, scriptNote } = before;
    const restored = { user: bookedFor, note, scriptNote, ...(status.kind !== 'unknown' && { status: status.kind }) };
    return async () => {
      try {
        await sheet.change(tpu.name, restored);
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        cli.note(`The booking of ${tpu.name} was not undone: ${error.message}`);
      }
    };
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code === exitCode.conflict) throw error;
    cli.note(`The booking sheet was not changed: ${error.message}`);
    return nothing;
  }
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
