// `tpu log`: what the attempt of a window printed.

import { exitCode, JobmanError } from '../../../app/errors.ts';
import { logs } from '../../commands/logs.ts';
import { userOf } from '../people.ts';
import type { TpuCommand } from '../tpu-cli.ts';

export const log: TpuCommand = async (desk, words) => {
  const user = await userOf(desk, words);
  const [number] = words.windows;
  // Of several that had that number, the one on the list; else the newest, which was cleared last.
  const all = await desk.lab.record.windows({ user: user.name, cleared: true });
  const meant = all.filter(({ window }) => window.window === number);
  const found = meant.find(({ window }) => window.clearedAt === null) ?? meant.at(-1);
  if (found === undefined) {
    throw new JobmanError(`${user.name} has no window ${number}.`, exitCode.notFound, [
      `tpu check ${user.name}    shows the windows`,
    ]);
  }
  const lines = words.keys['n'];
  const { job, attempt } = found.window;
  return logs(
    desk,
    {
      follow: words.flags.has('f') ? true : undefined,
      attempt,
      tail: lines === undefined ? undefined : Number(lines),
      worker: undefined,
      step: undefined,
      grep: undefined,
      noFold: undefined,
      firstError: undefined,
      raw: undefined,
      jobName: undefined,
      container: undefined,
      previous: undefined,
      allPods: undefined,
      since: undefined,
      namespace: undefined,
      context: undefined,
      json: desk.json,
      yes: desk.yes,
      quiet: desk.quiet,
      settings: undefined,
      color: undefined,
      progress: undefined,
    },
    job,
  );
};
