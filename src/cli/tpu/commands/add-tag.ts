// add-tag: a word to know a job by.

import { exitCode } from '../../../app/errors.ts';
import { newName } from '../../../lab/names.ts';
import { windowCalled } from '../list-of.ts';
import { actingFor } from '../people.ts';
import { type TpuCli, wordsInUse } from '../tpu-cli.ts';
import { textOf, type Words } from '../words.ts';

export async function addTag(desk: TpuCli, words: Words): Promise<number> {
  const { user } = await actingFor(desk, words, 'tag a job');
  const [number = 0] = words.windows;
  const tag = newName('tag', textOf(words, 'tag'), await wordsInUse(desk));
  const { job } = await windowCalled(desk, user, number);
  await desk.lab.record.changeJob(job.job, (stands) => ({ ...stands, tag }));
  desk.tell(`Window ${number} of ${user.name} (job ${job.job}) is tagged ${tag}.`);
  return exitCode.ok;
}
