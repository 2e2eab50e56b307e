import { closeSync, existsSync, fchmodSync, fstatSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { exitCode, JobmanError, messageOf, usageError } from '../../app/errors.ts';
import { escapeForTerminal } from '../../app/format.ts';
import { knownSecrets, type SecretSources } from '../../files/known-secrets.ts';
import { createRedactor } from '../../catalogue/redact.ts';
import { settingsLayers } from '../../files/settings-files.ts';
import { jobPage, type JobPage } from '../../reports/job-page.ts';
import { type Cli, type GlobalFlags } from '../context.ts';
import type { FoundJob } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import type { Plot } from '../../reports/job-plot.ts';
import { forEachJob } from '../jobs/resolve.ts';
import { readMetrics } from '../read-progress.ts';
import { notOnServerError } from '../../app/server-in-use.ts';
import { installationFiles, makeBundle } from '../report/bundle.ts';
import { collectReport, type JobReport } from '../report/job-report.ts';
import { plotsOf } from '../report/plots.ts';
import type { ReportFlags } from '../table/flags.ts';

export async function report(
  cli: Cli,
  flags: ReportFlags & Omit<GlobalFlags, 'output'>,
  job?: string,
): Promise<number> {
  const args = job === undefined ? [] : [job];
  const server = flags.bundle === true ? await cli.services.server() : null;
  if (server !== null) throw notOnServerError('`jobman report --bundle`', server);
  if (job === undefined && flags.jobName === undefined) {
    if (flags.bundle !== true) throw usageError('Which job? Give its id or name; `jobman list` shows them.');
    return writeReport(cli, flags, null);
  }
  return forEachJob(cli, flags, args, 'read', async (found, jobs) => {
    const [collected, plots] = await Promise.all([collectReport(cli, jobs, found), readPlots(cli, jobs, found)]);
    return writeReport(cli, flags, collected, plots);
  });
}

/** A page without metrics is better than none. */
async function readPlots(cli: Cli, jobs: Jobs, job: FoundJob): Promise<readonly Plot[]> {
  try {
    return plotsOf(await readMetrics(cli, jobs.metrics(job, {})));
  } catch (error) {
    if (error instanceof JobmanError && error.code !== exitCode.interrupted) return [];
    throw error;
  }
}

/** Without a job, only a bug report about jobman itself. */
async function writeReport(
  cli: Cli,
  { output, bundle, replace }: ReportFlags,
  job: JobReport | null,
  plots: readonly Plot[] = [],
): Promise<number> {
  const { io } = cli;
  const name = `jobman-report${job === null ? '' : `-${job.page.id}`}${bundle === true ? '.tar.gz' : '.html'}`;
  const isFormat = output === 'json' || output === 'table';
  const path = resolve(io.cwd, output === undefined || isFormat ? name : output);
  if (existsSync(path) && replace !== true)
    throw new JobmanError(`${path} exists.`, exitCode.conflict, [
      'Replace it with --replace, or name another file with --output.',
    ]);
  const redact = await createReportRedactor(cli, job?.secrets ?? null);
  const page = job === null ? null : await pageOf(cli, { ...job.page, plots }, redact);
  if (bundle === true) {
    const files = [...(await installationFiles(cli)), ...(job?.files ?? [])];
    const clean = files.map(({ name: file, text }) => ({ name: redact(file), text: redact(text) }));
    const folder = basename(path).replace(/\.(?:tar\.gz|tgz)$/, '');
    const all = page === null ? clean : [...clean, { name: 'report.html', text: page }];
    writePrivateFile(path, await makeBundle(folder, all));
  } else if (page !== null) writePrivateFile(path, page);
  const hint = bundle === true ? ' Secrets that jobman knows are removed; read the files before you share them.' : '';
  cli.printResult({ id: job?.page.id ?? null, file: path, message: `Wrote ${path}.` }, `Wrote ${path}.${hint}`);
  return job?.exitCode ?? exitCode.ok;
}

/** For the owner only. A failure leaves no new file. */
function writePrivateFile(path: string, content: string | Buffer): void {
  const isNew = !existsSync(path);
  try {
    const file = openSync(path, 'w', 0o600);
    try {
      // A file that is replaced may have another mode. A device such as /dev/null belongs to all.
      if (fstatSync(file).isFile()) fchmodSync(file, 0o600);
      writeFileSync(file, content);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (isNew) rmSync(path, { force: true });
    throw new JobmanError(`${path} could not be written: ${messageOf(error)}`, exitCode.failed);
  }
}

async function createReportRedactor(
  { services, io }: Cli,
  job: SecretSources['job'],
): Promise<(text: string) => string> {
  const layers = await settingsLayers(services.settingsFiles());
  const settings = layers.map(({ text }) => text);
  // A page about a job of a server has nothing of the secrets there.
  const sealed = (await services.server()) === null ? await (await services.secretKeys()).values() : [];
  return createRedactor(
    knownSecrets({ env: io.env, userHome: io.userHome, home: services.home, settings, sealed, job }),
  );
}

/**
 * Secrets are removed from each text before it becomes markup, so that no pattern can match markup. Then control
 * characters and those that change the text direction are made visible.
 */
function pageOf(
  cli: Cli,
  page: Omit<JobPage, 'madeAt' | 'version'>,
  redact: (text: string) => string,
): Promise<string> {
  const all: JobPage = { ...page, madeAt: cli.io.now(), version: cli.io.version };
  const { logs, ...clean } = mapTexts(all, redact);
  const final = logs.map((log) => ({ ...log, text: eachLine(log.text, lastState) }));
  return jobPage(mapTexts({ ...clean, logs: final }, (text) => eachLine(text, withoutControls)));
}

function eachLine(text: string, change: (line: string) => string): string {
  return text
    .split('\n')
    .map((line) => change(line.replace(/\r+$/, '')))
    .join('\n');
}

/** A progress bar overwrites itself. */
function lastState(line: string): string {
  return line.split('\r').at(-1) ?? '';
}

function withoutControls(line: string): string {
  return escapeForTerminal(line, false);
}

function mapTexts<T>(value: T, change: (text: string) => string): T {
  if (typeof value === 'string') return change(value) as T;
  if (Array.isArray(value)) return value.map((one: unknown) => mapTexts(one, change)) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, mapTexts(one, change)])) as T;
}
