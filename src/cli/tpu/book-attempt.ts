// What the booking sheet says of a job's TPU while its attempts come and go: running while one runs, and between them reserved,
// because whoever was running there has it for the next run until they release it. Only one's own row is changed.

import { JobmanError } from '../../app/errors.ts';
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
  try {
    const users = await desk.lab.record.users();
    const mine = users.find(({ name }) => name === job.user)?.sheetName;
    const sheet = await desk.lab.sheet();
    await sheet.change(job.tpu, { status }, (now) =>
      now.status.kind === from && now.user === mine ? null : 'somebody else has it, or it says so already',
    );
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    say(`The booking sheet was not changed: ${error.message}`);
  }
}
