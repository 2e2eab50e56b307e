// The row of a job's TPU in the booking sheet: running while an attempt runs, and between attempts reserved,
// because whoever was running there has it for the next run until they release it. Only one's own row is changed. A TPU that was
// deleted is gone there until it is made again, so that nobody takes it for a free one.

import { JobmanError } from '../../app/errors.ts';
import type { BookingSheet } from '../../lab/tpus.ts';
import type { LabJob } from '../../lab/windows.ts';
import type { TpuCli } from './tpu-cli.ts';

/**
 * An attempt of that job begins (`running`) or has ended (`reserved`). That a sheet does not answer is said and keeps nobody from
 * anything, and what somebody else has written there is left.
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

/** Notes that the TPU was deleted (`gone`), or created again (`free`, only if the sheet says gone). As bookAttempt. */
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
