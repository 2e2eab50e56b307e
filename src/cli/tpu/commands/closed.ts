// __closed: said by the program of a window that was closed under it. Where the rest of its tmux session stands somebody has
// closed that window by hand, and a job whose window was closed is not run again by a rule. Where the session or all of tmux
// is gone, nobody has said anything about this job.

import { setTimeout as sleep } from 'node:timers/promises';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { wake } from '../../controller.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

/** tmux answers nobody while it takes a session down window by window, but its server takes a moment to be gone. */
const sessionEndsWithin = 500;

export async function closed(desk: TpuCli, { raw }: Words): Promise<number> {
  const [id, ordinal] = raw;
  const attempt = Number(ordinal);
  if (id === undefined || !Number.isInteger(attempt))
    throw new JobmanError('Only the window of a job says that it was closed.', exitCode.usage);
  await sleep(sessionEndsWithin);
  const { record } = desk.lab;
  const windows = await record.windows({ jobs: [id], cleared: true });
  const found = windows.find(({ window }) => window.attempt === attempt);
  // The command that cleared the window has closed it.
  if (found === undefined || found.window.clearedAt !== null) return exitCode.ok;
  const [user] = (await record.users()).filter(({ name }) => name === found.job.user);
  const standing = user === undefined ? null : await (await desk.lab.windows()).list(user.session);
  if (standing === null || standing.includes(found.window.window)) return exitCode.ok;
  await record.markWindows([{ job: id, attempt }], 'closed', desk.io.now());
  // A later attempt has a window of its own: this one was only tidied away.
  if (windows.some(({ window }) => window.attempt > attempt)) return exitCode.ok;
  const client = await desk.services.client();
  const answer = await client.ask(id, 'last', { by: found.job.user, onBehalf: true });
  if (answer.ok) await wake(desk, client);
  return exitCode.ok;
}
