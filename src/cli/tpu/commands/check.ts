// `tpu check`: the jobs of a user, once.

import { exitCode } from '../../../app/errors.ts';
import { isUnderWay } from '../../../lab/check.ts';
import { createLooker } from '../../../lab/looking.ts';
import { replaceKilled, wakerOf } from '../../controller.ts';
import { columnsOf } from '../../screen.ts';
import { userOf } from '../people.ts';
import { clockFor } from '../screen/clock.ts';
import { columnsFor } from '../screen/columns.ts';
import { rowJson, rowLines } from '../screen/rows.ts';
import type { TpuBody } from '../tpu-cli.ts';

export const check: TpuBody = async (desk, words) => {
  const { io, lab, screen, services } = desk;
  const user = await userOf(desk, words);
  const { namePrefix } = await lab.site();
  const looker = createLooker({ record: lab.record, home: services.home, user, namePrefix });
  const now = io.now();
  const rows = await looker.look(now);
  looker.keep();
  if (desk.json) {
    io.stdout.write(rows.map((row) => `${JSON.stringify(rowJson(row))}\n`).join(''));
    await replaceKilled(desk, wakerOf(desk), rows.some(isUnderWay));
    return exitCode.ok;
  }
  const lines = rowLines(rows, {
    letters: columnsFor(words.letters, user.settings),
    columns: columnsOf(io.stdout),
    ink: screen.out,
    clock: clockFor(user.settings.time_zone, now),
  });
  io.stdout.write([...lines.heading, ...lines.rows.flat()].map((line) => `${line}\n`).join(''));
  if (rows.length === 0) desk.note(`${user.name} has no windows. \`tpu run <tpu> ${user.name}\` begins a job.`);
  await replaceKilled(desk, wakerOf(desk), rows.some(isUnderWay));
  return exitCode.ok;
};
