// `tpu doctor`: what in the lab's record does not fit together, each with what puts it right. Changes nothing.

import { stat } from 'node:fs/promises';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { countText } from '../../../app/figures.ts';
import { checkCount, examine, type LabState } from '../../../lab/doctor.ts';
import { inertWord } from '../../render/inert.ts';
import { type TpuBody, type TpuCli, wordsInUse } from '../tpu-cli.ts';

export const doctor: TpuBody = async (desk) => {
  const findings = examine(await gather(desk));
  if (desk.json) for (const finding of findings) desk.print(JSON.stringify(finding));
  else {
    for (const { says, remedy } of findings) {
      desk.tell(inertWord(says));
      desk.tell(`  ${inertWord(remedy)}`);
    }
    if (findings.length === 0) desk.tell(`All is well, as far as ${countText(checkCount, 'check')} can tell.`);
  }
  return findings.length === 0 ? exitCode.ok : exitCode.failed;
};

async function gather(desk: TpuCli): Promise<LabState> {
  const { lab, services } = desk;
  const { record } = lab;
  const client = await services.client();
  const [users, tpus, tpuAliases, jobs, windows, bookings, words, site, list, wrongModes] = await Promise.all([
    record.users(),
    record.tpus(),
    record.tpuAliases(),
    record.jobs(),
    record.windows({ cleared: true }),
    record.bookings(),
    wordsInUse(desk),
    lab.site(),
    client.list({ all: true }),
    services.labHome().then((home) => home.wrong()),
  ]);
  const gone = await goneOf([
    ...users.flatMap(({ directories }) => Object.values(directories)),
    ...windows.flatMap(({ window: { report, clearedAt } }) =>
      report === null || clearedAt !== null ? [] : [report.stageFolder],
    ),
  ]);
  return {
    users,
    tpus,
    tpuAliases,
    jobs,
    windows,
    rows: new Map(list.rows.map((row) => [row.id, row])),
    tmux: await tmuxWindows(
      desk,
      users.map(({ session }) => session),
    ),
    bookings: site.spreadsheet === null ? bookings : [],
    zones: site.zones,
    wrongModes,
    controllerRuns: (await (await services.controller()).status()).running,
    words,
    isGone: (folder) => gone.has(folder),
  };
}

async function tmuxWindows({ lab, note }: TpuCli, sessions: readonly string[]): Promise<LabState['tmux']> {
  const found = new Map<string, readonly number[]>();
  try {
    const host = await lab.windows();
    if (host.tmux === null) return found;
    for (const session of sessions) found.set(session, (await host.list(session)) ?? []);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    note(`The windows of tmux were not looked at: ${error.message}`);
  }
  return found;
}

/** A share whose server is away never answers. */
const patienceMs = 3_000;

/** Those that are certainly not there: a folder on a disk that does not answer, or that this login may not look into, may be. */
async function goneOf(folders: readonly string[]): Promise<ReadonlySet<string>> {
  const gone = new Set<string>();
  const looks = [...new Set(folders)].map(async (folder) => {
    try {
      if (!(await stat(folder)).isDirectory()) gone.add(folder);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined;
      if (code === 'ENOENT' || code === 'ENOTDIR') gone.add(folder);
    }
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, patienceMs);
  });
  await Promise.race([Promise.all(looks), late]);
  clearTimeout(timer);
  return new Set(gone);
}
