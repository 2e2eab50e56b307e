// `tpu log`: what the attempt of a window printed.

import { logs } from '../../commands/logs.ts';
import { windowCalled } from '../list-of.ts';
import { userOf } from '../people.ts';
import type { TpuBody } from '../tpu-cli.ts';

export const log: TpuBody = async (desk, words) => {
  const user = await userOf(desk, words);
  const [number = 0] = words.windows;
  const { job, attempt } = (await windowCalled(desk, user, number)).window;
  const lines = words.keys['n'];
  return logs(
    desk,
    {
      follow: words.flags.has('f') ? true : undefined,
      attempt,
      tail: lines === undefined ? undefined : Number(lines),
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
