// Begin: a job of the lab is created with its booking and the number of its first window. What was written is taken back where a
// later part fails.

import type { Client } from '../../app/client.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import type { JobSpec } from '../../core/spec.ts';
import type { LabUser } from '../../lab/people.ts';
import type { LabJob } from '../../lab/record.ts';
import { type RunSpec, scriptEnvironment, standingSpec } from '../../lab/run.ts';
import { siteSteps } from '../../lab/site-setup.ts';
import type { LabTpu } from '../../lab/tpus.ts';
import type { Booking, BookingChange, BookingSheet } from '../../lab/bookings.ts';
import { wake } from '../controller.ts';
import type { TpuCli } from './command.ts';
import type { Taking } from './take.ts';

export interface NewLabJob {
  readonly user: LabUser;
  readonly by: string;
  readonly tpu: LabTpu;
  readonly spec: JobSpec;
  readonly manifest: string;
  readonly labJob: Omit<LabJob, 'job'>;
  readonly taking: Pick<Taking, 'known' | 'booking'>;
  readonly notes: string | null;
}

/** Creates the job. Of two at the same time on one TPU one wins; the other gets a conflict (4) and leaves nothing behind. */
export async function beginJob(
  desk: TpuCli,
  client: Client,
  asked: NewLabJob,
): Promise<{ readonly id: string; readonly window: number }> {
  const { user, by, tpu, spec, manifest, taking } = asked;
  const { record } = desk.lab;
  const unbook = await bookFor(desk, asked);
  let id: string | undefined;
  let isToUnbook = true;
  try {
    ({ id } = await client.create({ spec, manifest, owner: user.name, by, env: desk.io.env }));
    const labJob: LabJob = { job: id, ...asked.labJob };
    // From this moment it is on the TPU, and its script, which waits for it, may begin.
    await record.together(async (inside) => {
      const quicker = (await inside.jobs()).find((one) => one.tpu === tpu.name && !taking.known.has(one.job));
      // If both are the same user's, the booking now belongs to the winner.
      isToUnbook = quicker?.user !== user.name;
      if (quicker !== undefined)
        throw new JobmanError(
          `Job ${quicker.job} of ${quicker.user} was quicker: it has begun on ${tpu.name} in this moment, and yours has not.`,
          exitCode.conflict,
          ['Run it again to be asked whether to take the TPU.'],
        );
      await inside.addJob(labJob);
    });
  } catch (error) {
    if (id !== undefined) {
      await client.ask(id, 'delete', { by, onBehalf: true });
      await client.wake();
    }
    if (isToUnbook) await unbook();
    throw error;
  }
  const { window } = await record.openWindow(id, 1, desk.io.now());
  await wake(desk, client);
  return { id, window: window.window };
}

/**
 * Books the TPU. A sheet that does not answer keeps nobody from working; what another user wrote since it was read is a conflict
 * (4). Resolves with what takes the booking back.
 */
export async function bookFor(
  desk: TpuCli,
  {
    user,
    tpu,
    taking,
    notes,
  }: Pick<NewLabJob, 'user' | 'tpu' | 'notes'> & { readonly taking: Pick<Taking, 'booking'> },
): Promise<() => Promise<void>> {
  const nothing = (): Promise<void> => Promise.resolve();
  // Another user's notes do not apply to this run.
  const said = notes ?? (taking.booking !== null && taking.booking.user !== user.sheetName ? '' : undefined);
  const change: BookingChange = {
    status: 'running',
    user: user.sheetName,
    ...(said !== undefined && { scriptNote: said }),
  };
  try {
    const sheet = await desk.lab.sheet();
    const { before, refused } = await sheet.change(tpu.name, change, (now) => changedSince(taking.booking, now, user));
    if (refused !== null)
      throw new JobmanError(`${tpu.name} was booked in this moment: ${refused}. Nothing was begun.`, exitCode.conflict);
    if (before === null) return nothing;
    return async () => {
      try {
        await sheet.change(tpu.name, asBefore(before));
      } catch (error) {
        if (!(error instanceof JobmanError)) throw error;
        desk.note(`The booking of ${tpu.name} could not be taken back: ${error.message}`);
      }
    };
  } catch (error) {
    if (!(error instanceof JobmanError) || error.code === exitCode.conflict) throw error;
    desk.note(`The booking sheet was not changed: ${error.message}`);
    return nothing;
  }
}

/** The reason to keep the booking as it is now: another user has it who did not have it before; null where there is none. */
function changedSince(seen: Booking | null, now: Booking, user: LabUser): string | null {
  const isTaken = now.status.kind === 'running' || now.status.kind === 'reserved';
  if (!isTaken || now.user === '' || now.user === user.sheetName || now.user === seen?.user) return null;
  return `${now.user} has it now`;
}

function asBefore({ status, user, note, scriptNote }: Booking): BookingChange {
  const kind = status.kind === 'running' || status.kind === 'reserved' || status.kind === 'free' ? status.kind : null;
  return { ...(kind !== null && { status: kind }), user, note, scriptNote };
}

/**
 * An attempt of that job begins (`running`) or has ended (`reserved`: its user keeps the TPU for the next run until `tpu
 * release`). Only the user's own row changes; a sheet that does not answer is a note.
 */
export async function bookAttempt(
  desk: Pick<TpuCli, 'lab'>,
  job: LabJob,
  status: 'running' | 'reserved',
  say: (sentence: string) => void,
): Promise<void> {
  const from = status === 'running' ? 'reserved' : 'running';
  await change(desk, say, async (sheet) => {
    const users = await desk.lab.record.users();
    const mine = users.find(({ name }) => name === job.user)?.sheetName;
    await sheet.change(job.tpu, { status }, (now) =>
      now.status.kind === from && now.user === mine ? null : 'somebody else has it, or it says so already',
    );
  });
}

/**
 * Notes that the TPU was deleted (`gone`), so that nobody takes it for a free one, or created again (`free`, only if the sheet
 * says gone).
 */
export async function bookExistence(
  desk: Pick<TpuCli, 'lab'>,
  tpu: string,
  status: 'gone' | 'free',
  say: (sentence: string) => void,
): Promise<void> {
  await change(desk, say, async (sheet) => {
    if (status === 'gone') await sheet.change(tpu, { status, user: '', note: '', scriptNote: '' });
    else await sheet.change(tpu, { status }, (now) => (now.status.kind === 'gone' ? null : 'it is not gone there'));
  });
}

async function change(
  desk: Pick<TpuCli, 'lab'>,
  say: (sentence: string) => void,
  act: (sheet: BookingSheet) => Promise<void>,
): Promise<void> {
  try {
    await act(await desk.lab.sheet());
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    say(`The booking sheet was not changed: ${error.message}`);
  }
}

type Surroundings = Pick<RunSpec, 'capacity' | 'steps' | 'stageLimit' | 'hangGrace' | 'launcher' | 'env'>;

/**
 * The parts of a job's spec that depend on its TPU; `seenIn` is the zone in which the TPU was found. Throws as standingSpec
 * does.
 */
export async function surroundings({
  io,
  lab,
  services,
}: TpuCli): Promise<(tpu: LabTpu, seenIn?: string | null) => Surroundings> {
  const [site, { tpu: cloud }] = await Promise.all([lab.site(), services.settings()]);
  const { stageLimit, hangGrace } = site;
  const env = scriptEnvironment(io.env, services.home);
  return (tpu, seenIn = null) => {
    const capacity = standingSpec(tpu, site, { project: cloud.project, seenIn });
    return { capacity, steps: siteSteps(site, capacity.zone), stageLimit, hangGrace, launcher: io.launcher, env };
  };
}
