// attach: to the tmux session of a user, and to one window of it.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { userOf } from '../people.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

export async function attach(desk: TpuCli, words: Words): Promise<number> {
  const user = await userOf(desk, words);
  const [number] = words.windows;
  const host = await desk.lab.windows();
  const look = number === undefined ? `tpu check ${user.name}` : `tpu log ${number} ${user.name} -f`;
  if (host.tmux === null)
    throw new JobmanError('There is no tmux on this machine, so there is no window to go to.', exitCode.failed, [
      `${look}    shows the same`,
    ]);
  const there = await host.list(user.session);
  if (there === null)
    throw new JobmanError(`The tmux session ${user.session} of ${user.name} is not there.`, exitCode.notFound, [
      `It comes with the next job; until then: ${look}`,
    ]);
  if (number !== undefined && !there.includes(number))
    throw new JobmanError(`The tmux session ${user.session} has no window ${number} of a job.`, exitCode.notFound, [
      `${look}    shows what it printed`,
    ]);
  if (!desk.io.stdin.isTerminal || !desk.io.stdout.isTerminal)
    throw new JobmanError('A window can be gone to on a terminal only.', exitCode.usage, [`${look}    is for scripts`]);
  const target = `=${user.session}:${number ?? ''}`;
  const inside = desk.io.env['TMUX'] !== undefined && desk.io.env['TMUX'] !== '';
  return desk.services.onTerminal([host.tmux.path, inside ? 'switch-client' : 'attach-session', '-t', target]);
}
