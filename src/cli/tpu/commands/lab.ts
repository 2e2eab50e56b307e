// doctor, import and init-lab: commands about the lab as a whole.

import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setSetting } from '../../../files/change-settings.ts';
import { exitCode, JobmanError, messageOf } from '../../../app/errors.ts';
import { escapeLine } from '../../../app/format.ts';
import { readRegularFile } from '../../../files/files.ts';
import { checkCount, runChecks, type LabState } from '../../../lab/doctor.ts';
import {
  applyImport,
  type ImportLine,
  type ImportContext,
  type OldData,
  parseOldData,
  planImport,
} from '../../../lab/import-old-data.ts';
import { buildRunSpec, formatCommandLine } from '../../../lab/run-spec.ts';
import { lateChanges } from '../../../lab/sheet-outbox.ts';
import { disk } from '../../disk.ts';
import { printImport } from '../../render/import-lines.ts';
import { tpuSpecContext } from '../create-lab-job.ts';
import { requiredText, type TpuHandler, type TpuCli, namesInUse } from '../command.ts';

export const doctor: TpuHandler = async (cli) => {
  const findings = runChecks(await readLabState(cli));
  if (cli.json) cli.printJsonLines(findings);
  else {
    for (const { message, remedy } of findings) {
      cli.printSentence(escapeLine(message));
      cli.printSentence(`  ${escapeLine(remedy)}`);
    }
    if (findings.length === 0) cli.printSentence(`All ${checkCount} checks passed.`);
  }
  return findings.length === 0 ? exitCode.ok : exitCode.failed;
};

async function readLabState(cli: TpuCli): Promise<LabState> {
  const { lab, services } = cli;
  const store = lab.localStore();
  const client = await services.client();
  const [users, tpus, tpuAliases, jobs, windows, bookings, sheetChanges, reserved, site, list, wrongModes] =
    await Promise.all([
      store.users(),
      store.tpus(),
      store.tpuAliases(),
      store.jobs(),
      store.windows({ cleared: true }),
      store.bookings(),
      store.sheetChanges(),
      namesInUse(cli),
      lab.site(),
      client.list({ all: true }),
      services.labHome().then((home) => home.wrongModes()),
    ]);
  const gone = await findMissing([
    ...users.flatMap(({ directories }) => Object.values(directories)),
    ...windows.flatMap(({ window: { report, clearedAt } }) =>
      report === null || clearedAt !== null ? [] : [report.stageFolder],
    ),
  ]);
  const { spreadsheet } = site;
  return {
    lateBookings: spreadsheet === null ? [] : lateChanges(sheetChanges, 'the spreadsheet', cli.io.now()),
    users,
    tpus,
    tpuAliases,
    jobs,
    windows,
    rows: new Map(list.rows.map((row) => [row.id, row])),
    tmux: await listTmuxWindows(
      cli,
      users.map(({ session }) => session),
    ),
    bookings: site.spreadsheet === null ? bookings : [],
    zones: site.zones,
    wrongModes,
    isControllerRunning: await (await services.client()).isControllerRunning(),
    reserved,
    isGone: (folder) => gone.has(folder),
  };
}

async function listTmuxWindows({ lab, note }: TpuCli, sessions: readonly string[]): Promise<LabState['tmux']> {
  const found = new Map<string, readonly number[]>();
  try {
    const host = await lab.tmuxWindows();
    if (host.tmux === null) return found;
    for (const session of sessions) found.set(session, (await host.list(session)) ?? []);
  } catch (error) {
    if (!(error instanceof JobmanError)) throw error;
    note(`The tmux windows were not checked: ${error.message}`);
  }
  return found;
}

/** Time limit for stat: a share whose server is down never answers. */
const statTimeoutMs = 3_000;

/** Folders that certainly do not exist. A folder on a disk that does not answer, or without permission, may exist. */
async function findMissing(folders: readonly string[]): Promise<ReadonlySet<string>> {
  const gone = new Set<string>();
  const checks = [...new Set(folders)].map(async (folder) => {
    try {
      if (!(await stat(folder)).isDirectory()) gone.add(folder);
    } catch (error) {
      const code = error instanceof Error && 'code' in error ? error.code : undefined;
      if (code === 'ENOENT' || code === 'ENOTDIR') gone.add(folder);
    }
  });
  await Promise.race([Promise.all(checks), sleep(statTimeoutMs, undefined, { ref: false })]);
  return new Set(gone);
}

export const importData: TpuHandler = async (cli, args) => {
  const data = readDataFile(resolve(cli.io.cwd, requiredText(args, 'file')));
  const context = await importContext(cli);
  const isMeant = args.flags.has('apply');
  const store = cli.lab.localStore();
  const lines = await (isMeant ? applyImport(store, data, context) : planImport(store, data, context));
  const others = await importSiteSettings(cli, data, isMeant);
  printImport(cli, [...lines, ...others], isMeant);
  return exitCode.ok;
};

function readDataFile(path: string): OldData {
  if (disk.inspect(path).kind === 'folder')
    throw new JobmanError(`${path} is a folder; \`tpu import\` needs a data.json.`, exitCode.usage, [
      `jobman import ${path}    imports the jobs/ folder of the older TPU manager`,
    ]);
  const text = readDataText(path);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new JobmanError(`${path} is not valid JSON. Nothing was changed.`, exitCode.usage, [messageOf(error)]);
  }
  const data = parseOldData(value);
  if (data !== undefined) return data;
  throw new JobmanError(`${path} is not a data.json: it has no "users". Nothing was changed.`, exitCode.usage);
}

/** A data.json with years of history has several megabytes. */
const maxDataBytes = 64 * 1024 * 1024;

function readDataText(path: string): string {
  try {
    return readRegularFile(path, maxDataBytes).toString('utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT')
      throw new JobmanError(`There is no file ${path}.`, exitCode.notFound);
    throw new JobmanError(`${path} cannot be read. Nothing was changed.`, exitCode.usage, [messageOf(error)], {
      cause: error,
    });
  }
}

async function importContext(cli: TpuCli): Promise<ImportContext> {
  const [reserved, contextFor] = await Promise.all([namesInUse(cli), tpuSpecContext(cli)]);
  return {
    reserved,
    now: cli.io.now(),
    specOf: ({ tpu, directory, tag, rule, monitor, configs }) =>
      buildRunSpec({
        directory,
        tag,
        ...contextFor(tpu, { zone: null, creates: null }),
        rule,
        monitor,
        commandLine: formatCommandLine(tpu.name, configs),
      }),
  };
}

/** Imports settings of the site. The W&B key goes into its own file and never into the database. */
async function importSiteSettings(
  { lab, services }: TpuCli,
  { wandbKey, condaEnvironment: conda }: OldData,
  isMeant: boolean,
): Promise<readonly ImportLine[]> {
  const site = await lab.site();
  const saveKey = async (key: string): Promise<string> =>
    (await (await services.labHome()).saveSecret('wandb_api_key', key)).file;
  const settings = [
    ['lab.condaEnvironment', site.condaEnvironment, conda, conda, async (name: string) => name],
    ['lab.wandbKeyFile', site.wandbKeyFile, wandbKey, 'the W&B key, in a file that only you can read', saveKey],
  ] as const;
  const lines: ImportLine[] = [];
  for (const [key, here, given, message, save] of settings) {
    if (given === null) continue;
    const subject = `setting ${key}`;
    if (here !== null) lines.push({ kind: 'exists', subject, message: '' });
    else lines.push({ kind: 'import', subject, message: message ?? '' });
    if (here === null && isMeant) await setSetting(services.settingsFiles(), key, await save(given));
  }
  return lines;
}

export const initLab: TpuHandler = async (cli, { keys }) => {
  const { group } = keys;
  if (group === undefined) throw new JobmanError('Which system group shares the lab? Give group=NAME.', exitCode.usage);
  for (const sentence of await (await cli.services.labHome()).share(group)) cli.printSentence(sentence);
  return exitCode.ok;
};
