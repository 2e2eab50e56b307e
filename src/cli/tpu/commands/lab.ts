// doctor, import and init-lab: commands about the lab as a whole.

import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setSetting } from '../../../app/change-settings.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { countText, inertWord } from '../../../app/figures.ts';
import { readRegularFile } from '../../../app/files.ts';
import { checkCount, examine, type LabState } from '../../../lab/doctor.ts';
import { applyImport, type ImportLine, type ImportParts, planImport } from '../../../lab/import-data.ts';
import { type OldData, oldDataIn } from '../../../lab/old-data.ts';
import { runSpec, writtenLine } from '../../../lab/run.ts';
import { jsonLines } from '../../../schema/json.ts';
import { JsonTextError } from '../../../schema/tree.ts';
import { disk } from '../../disk.ts';
import { showImport } from '../../render/import-lines.ts';
import { surroundings } from '../begin-job.ts';
import { textOf, type TpuBody, type TpuCli, wordsInUse } from '../command.ts';

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

export const importData: TpuBody = async (desk, words) => {
  const data = await read(resolve(desk.io.cwd, textOf(words, 'file')));
  const parts = await partsOf(desk);
  const isMeant = words.flags.has('apply');
  const { record } = desk.lab;
  const lines = await (isMeant ? applyImport(record, data, parts) : planImport(record, data, parts));
  const others = await settingsOf(desk, data, isMeant);
  showImport(desk, [...lines, ...others], isMeant);
  return exitCode.ok;
};

async function read(path: string): Promise<OldData> {
  if (disk.look(path).kind === 'folder') {
    throw new JobmanError(`${path} is a folder; \`tpu import\` takes a data.json.`, exitCode.usage, [
      `The folder jobs/ of the TPU manager: jobman import ${path}`,
    ]);
  }
  const text = textIn(path);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new JobmanError(`${path} is not valid JSON. Nothing was changed.`, exitCode.usage, [
      await placeIn(text, path),
    ]);
  }
  const data = oldDataIn(value);
  if (data !== undefined) return data;
  throw new JobmanError(`${path} is no data.json: it has no "users". Nothing was changed.`, exitCode.usage);
}

/** A data.json of many years has some megabytes. */
const dataMost = 64 * 1024 * 1024;

function textIn(path: string): string {
  try {
    return readRegularFile(path, dataMost).toString('utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      throw new JobmanError(`There is no file ${path}.`, exitCode.notFound);
    }
    const why = error instanceof Error ? error.message : String(error);
    throw new JobmanError(`${path} cannot be read. Nothing was changed.`, exitCode.usage, [why], { cause: error });
  }
}

async function placeIn(text: string, path: string): Promise<string> {
  const { parseJson } = await import('../../../schema/yaml.ts');
  try {
    parseJson(text);
    return path;
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    return jsonLines(text, path, [error.found]).join('');
  }
}

async function partsOf(desk: TpuCli): Promise<ImportParts> {
  const [words, around] = await Promise.all([wordsInUse(desk), surroundings(desk)]);
  return {
    words,
    now: desk.io.now(),
    specOf: ({ tpu, directory, tag, rule, monitor, configs }) =>
      runSpec({ directory, tag, ...around(tpu), rule, monitor, written: writtenLine(tpu.name, configs) }),
  };
}

/** Settings of the site. The W&B key goes into a file of its own, and into no record. */
async function settingsOf({ lab, services }: TpuCli, data: OldData, isMeant: boolean): Promise<readonly ImportLine[]> {
  const lines: ImportLine[] = [];
  const { condaEnvironment, wandbKeyFile } = await lab.site();
  const take = async (key: string, here: string | null, says: string, value: () => Promise<string>): Promise<void> => {
    const what = `setting ${key}`;
    if (here !== null) return void lines.push({ kind: 'have', what, says: '' });
    const given = isMeant ? await value() : '';
    if (isMeant) await setSetting(services.home, key, given);
    lines.push({ kind: 'take', what, says: isMeant && given !== says ? `${says}: ${given}` : says });
  };
  const { wandbKey, condaEnvironment: conda } = data;
  if (conda !== null) await take('lab.condaEnvironment', condaEnvironment, conda, async () => conda);
  if (wandbKey === null) return lines;
  await take('lab.wandbKeyFile', wandbKeyFile, 'the W&B key, in a file that only you may read', async () => {
    const { file } = await (await services.labHome()).keepSecret('wandb_api_key', wandbKey);
    return file;
  });
  return lines;
}

export const initLab: TpuBody = async (desk, { keys }) => {
  const { group } = keys;
  if (group === undefined) {
    throw new JobmanError('Which group of the system is to share it? Say group=NAME.', exitCode.usage);
  }
  for (const sentence of await (await desk.services.labHome()).share(group)) desk.tell(sentence);
  return exitCode.ok;
};
