// ack: has jobs looked at now: those of the user that the line names, else everybody's, whoever types.

import { exitCode } from '../../../app/errors.ts';
import { isSettled } from '../../settled.ts';
import { usersOf } from '../people.ts';
import type { TpuCli } from '../tpu-cli.ts';
import type { Words } from '../words.ts';

export async function ack(desk: TpuCli, words: Words): Promise<number> {
  const users = await usersOf(desk, words);
  const client = await desk.services.client();
  const jobs: string[] = [];
  const told: string[] = [];
  for (const { name } of users) {
    const { rows } = await client.list({ owner: name });
    const live = new Set(rows.filter((row) => !isSettled(row)).map(({ id }) => id));
    if (live.size === 0) continue;
    jobs.push(...live);
    // Of several attempts of one job, people know the newest by its number.
    const windows = await desk.lab.record.windows({ user: name });
    const newest = new Map(windows.map(({ window }) => [window.job, window.window]));
    const shown = [...live].map((id) => newest.get(id)).filter((number) => number !== undefined);
    const which = shown.length === 0 ? '' : `: ${shown.toSorted((a, b) => a - b).join(', ')}`;
    told.push(`${live.size} ${live.size === 1 ? 'job' : 'jobs'} of ${name} will be looked at now${which}.`);
  }
  if (jobs.length === 0) {
    const [only] = users;
    const nobody = users.length === 1 && only !== undefined ? only.name : 'Nobody';
    desk.tell(`${nobody} has ${nobody === 'Nobody' ? 'a' : 'no'} job under way, so nothing is to be looked at.`);
    return exitCode.ok;
  }
  const news = await desk.lab.lookNow(jobs);
  for (const line of told) desk.tell(line);
  if (news !== null) desk.note(news);
  return exitCode.ok;
}
