// run, resume and rerun: start a working directory on a TPU, or start the job of a window again. On the same TPU that
// is the next attempt of the job; on another TPU it is the first attempt of a new job that names this one as its
// parent.

import { join } from 'node:path';
import type { JobView } from '../../../app/client.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { escapeLine, formatStatus } from '../../../app/format.ts';
import { isFinishedPhase } from '../../../core/decide/phase.ts';
import { formatUsage, readBookings } from '../../../lab/tpu-usage.ts';
import { parseName } from '../../../lab/names.ts';
import type { DirectoryFacts } from '../../../lab/lab.ts';
import type { LabUser } from '../../../lab/users.ts';
import type { LabJob } from '../../../lab/lab-store.ts';
import {
  configArguments,
  type LabRule,
  buildRunSpec,
  tpuInScript,
  tpusOfTypes,
  defaultRule,
  formatCommandLine,
} from '../../../lab/run-spec.ts';
import { type LabTpu, shortName, tpuFromName } from '../../../lab/tpus.ts';
import { reportStart, tpuSpecContext } from '../create-lab-job.ts';
import { moveRun, restartRun, startRun, type StartedRun, type StartParts } from '../../../lab/start-run.ts';
import { type TpuHandler, type TpuCli, type ParsedArguments, namesInUse } from '../command.ts';
import { resolveActingEffect } from '../resolve-user.ts';
import {
  resolveTpu,
  type ClaimContext,
  type ClaimRequest,
  type TpuClaim,
  claimTpu,
  readUsage,
  withTpus,
} from '../claim-tpu.ts';
import { ask, canAsk } from '../../prompt.ts';
import { readNotes } from '../terminal.ts';
import { findWindow } from '../user-windows.ts';

const noNotesMessage = 'Without a terminal, give the notes for the booking sheet: ssn=the_notes';

const defaultDirectory = 1;

export async function run(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const { user, effect } = await resolveActingEffect(cli, args, 'run a job');
  const number = args.numbers['dir'] ?? defaultDirectory;
  const facts = await cli.lab.directory(user.name, number);
  requireCode(facts, user, number);
  const { path: directory } = facts;
  const { tag: tagArgument } = args.keys;
  const tag = tagArgument === undefined ? null : parseName('tag', tagArgument, await namesInUse(cli));
  const configs = configArguments(args.configs, user.aliases, cli.ownKeys);
  return withTpus(cli, user, async (parts) => {
    const tpu = args.tpu ?? (await chooseTpu(cli, args, user, facts, parts));
    const notes = await readNotes(cli, args, noNotesMessage);
    const agreed = { apply: args.flags.has('apply'), force: args.flags.has('f') };
    const claim = await claimTpu(cli, parts, { tpu, user, ...agreed, otherEffects: effect === null ? [] : [effect] });
    const specContext = (await tpuSpecContext(cli))(tpu, claim);
    const monitor = args.keys['monitor'] !== 'false';
    const spec = buildRunSpec({
      directory,
      tag,
      ...specContext,
      rule: (args.keys['rule'] as LabRule | undefined) ?? defaultRule(tpu),
      monitor,
      commandLine: formatCommandLine(tpu.name, configs),
    });
    const started = await startRun(startParts(cli, parts), {
      user,
      spec,
      manifest: `# Created by: tpu run ${tpu.name} ${user.name} dir=${number}\n# ${spec.command.userScript ?? ''}\n`,
      labJob: {
        directory,
        directoryNumber: number,
        tpu: tpu.name,
        configs,
        tag,
        monitor,
        logStage: args.flags.has('log-stage'),
        parent: null,
        baseStage: 0,
      },
      claim,
      notes,
    });
    const where = shortName(tpu.name, (await cli.lab.site()).namePrefix);
    await reportStart(cli, parts.client, started, claim, `runs ${directory} on ${where}`);
    return startMonitor(cli, args, user);
  });
}

function startParts({ lab, io }: TpuCli, { client }: ClaimContext): StartParts {
  return { client, lab, now: () => io.now() };
}

function requireCode({ path, exists, hasScript }: DirectoryFacts, user: LabUser, number: number): void {
  if (hasScript) return;
  const label = `Working directory ${number} of ${user.name}`;
  if (exists) throw new JobmanError(`${label} has no staging.sh, which \`tpu run\` needs: ${path}`, exitCode.notFound);
  throw new JobmanError(`${label} does not exist: ${path}`, exitCode.notFound, [
    `tpu set-cur ${number} ${user.name}    replaces it with the current folder`,
  ]);
}

async function chooseTpu(
  cli: TpuCli,
  args: ParsedArguments,
  user: LabUser,
  { path, tpuScript }: DirectoryFacts,
  parts: ClaimContext,
): Promise<LabTpu> {
  if (args.types.length > 0 || args.flags.has('auto')) return findFreeTpu(cli, args.types, user, parts);
  const file = join(path, 'ka.sh');
  const text = tpuScript ?? '';
  const scriptTpu = tpuInScript(text, file);
  const missing = text === '' ? `${file} does not exist` : `${file} does not set VM_NAME to a plain name`;
  if (scriptTpu === null && !canAsk(cli))
    throw new JobmanError(`Which TPU? ${missing}.`, exitCode.usage, [
      'tpu list    shows the TPUs and their aliases; -auto takes a free one',
    ]);
  const name = scriptTpu ?? (await ask(cli, `Which TPU? (${missing})`));
  const { store } = cli.lab;
  const [known, aliases] = await Promise.all([store.tpus(), store.tpuAliases()]);
  const full = aliases.get(name) ?? name;
  const tpu = known.find((one) => one.name === full) ?? tpuFromName(full);
  if (tpu === null)
    throw new JobmanError(
      `The registry has no TPU "${name}"${scriptTpu === null ? '' : `, named in ${file}`}.`,
      exitCode.notFound,
      [`tpu register ${name} zone=ZONE type=v2-32    adds it`],
    );
  if (scriptTpu !== null) cli.note(`${file} names ${tpu.name}.`);
  return tpu;
}

const absentReason = 'it does not exist';

/** TPUs reserved for this user come first. Throws JobmanError: (4) if none is free, (3) if none exists. */
async function findFreeTpu(cli: TpuCli, types: readonly string[], user: LabUser, parts: ClaimContext): Promise<LabTpu> {
  const { store } = cli.lab;
  const ofTypes = types.length === 0 ? '' : ` of type ${types.join(' or ')}`;
  const of = tpusOfTypes(await store.tpus(), types);
  if (of.length === 0)
    throw new JobmanError(`The registry has no TPU${ofTypes}.`, exitCode.notFound, ['tpu list    shows the TPUs']);
  const [sheet, { namePrefix }] = await Promise.all([readBookings(() => cli.lab.sheet()), cli.lab.site()]);
  for (const sentence of sheet.warnings) cli.note(escapeLine(sentence));
  const isMine = ({ name }: LabTpu): boolean =>
    sheet.bookings.some(
      ({ tpu, status, user: bookedFor }) => tpu === name && status.kind === 'reserved' && bookedFor === user.sheetName,
    );
  const reasons: string[] = [];
  let unsure = 0;
  let absent: string | null = null;
  for (const tpu of of.toSorted((one, other) => Number(isMine(other)) - Number(isMine(one)))) {
    const why = await reasonInUse(tpu);
    const called = shortName(tpu.name, namePrefix);
    if (why === null) {
      cli.note(`${called} is free.`);
      return tpu;
    }
    reasons.push(`${called}: ${why}`);
    if (why === absentReason) absent ??= called;
  }
  if (unsure === of.length)
    throw new JobmanError(
      `It is unknown whether a TPU${ofTypes} is free. Nothing was started.`,
      exitCode.unreachable,
      reasons,
    );
  // A TPU is created only if the user names it.
  const hint = absent === null ? [] : [`tpu run ${absent} ${user.name} -apply    creates it first`];
  throw new JobmanError(`No TPU${ofTypes} is free.`, exitCode.conflict, [...reasons, ...hint]);

  async function reasonInUse(tpu: LabTpu): Promise<string | null> {
    const state = await parts.tpus.describe(tpu);
    if (state.kind === 'unknown') {
      unsure += 1;
      return state.message;
    }
    if (state.state !== 'ready') return state.state === 'absent' ? absentReason : `it is ${state.state}`;
    const { usage, workerWarnings } = await readUsage(cli, parts, tpu, { user, hasWorkers: true, sheet });
    return formatUsage(usage, 'it')[0] ?? workerWarnings[0] ?? null;
  }
}

export const resume: TpuHandler = (cli, args) => restartJobs(cli, args, 'resume');
export const rerun: TpuHandler = (cli, args) => restartJobs(cli, args, 'rerun');

type RestartMode = 'resume' | 'rerun';

interface RestartRequest extends Omit<ClaimRequest, 'job'> {
  readonly otherEffects: readonly string[];
  readonly startMode: RestartMode;
  readonly window: number;
  readonly labJob: LabJob;
  readonly view: JobView;
}

async function restartJobs(cli: TpuCli, args: ParsedArguments, startMode: RestartMode): Promise<number> {
  const { user, effect } = await resolveActingEffect(cli, args, `${startMode} a job`);
  let otherEffects = effect === null ? [] : [effect];
  if (args.tpu !== null && args.windows.length > 1)
    throw new JobmanError('One TPU runs one job. Give one window, or no TPU.', exitCode.usage);
  const agreed = { apply: args.flags.has('apply'), force: args.flags.has('f') };
  return withTpus(cli, user, async (parts) => {
    for (const number of args.windows) {
      const { job: labJob } = await findWindow(cli, user, number);
      const view = await parts.client.show(labJob.job);
      const tpu = args.tpu ?? (await resolveTpu(cli, labJob.tpu));
      const begin = tpu.name === labJob.tpu ? restartOnSameTpu : restartOnOtherTpu;
      await begin(cli, parts, { ...agreed, otherEffects, startMode, user, window: number, labJob, view, tpu });
      // The first question covers all windows.
      otherEffects = [];
      if (startMode !== 'resume' || labJob.parent !== null) continue;
      // A job with a parent may have its folders from the parent.
      const windows = await cli.lab.store.windows({ jobs: [labJob.job], cleared: true });
      if (windows.every(({ window }) => window.report === null))
        cli.note(`Window ${number} never reported its log folder (tpu upd-log), so it starts from the beginning.`);
    }
    return startMonitor(cli, args, user);
  });
}

async function restartOnSameTpu(cli: TpuCli, parts: ClaimContext, request: RestartRequest): Promise<void> {
  const { startMode, user, window: number, labJob, view } = request;
  if (!isFinishedPhase(view.phase))
    throw new JobmanError(
      `Window ${number} of ${user.name} (job ${labJob.job}) is still ${formatStatus(view)}.`,
      exitCode.conflict,
      [`tpu kill ${number} ${user.name}    kills it; then tpu ${startMode} ${number} ${user.name}`],
    );
  const claim = await claimTpu(cli, parts, { ...request, job: labJob.job });
  // The spec of a job is fixed, so a new job creates the TPU.
  if (claim.creates !== null) return moveJob(cli, parts, request, claim);
  const started = await restartRun(startParts(cli, parts), { ...request, claim });
  await reportRestart(cli, parts, request, claim, started);
}

/** If the job is under way, the user confirms its end. */
async function restartOnOtherTpu(cli: TpuCli, parts: ClaimContext, request: RestartRequest): Promise<void> {
  const { window: number, labJob, view } = request;
  const isOver = isFinishedPhase(view.phase);
  const { namePrefix } = await cli.lab.site();
  const killed = `window ${number} is ${formatStatus(view)} on ${shortName(labJob.tpu, namePrefix)} and would be killed`;
  const otherEffects = [...request.otherEffects, ...(isOver ? [] : [killed])];
  const claim = await claimTpu(cli, parts, { ...request, otherEffects });
  await moveJob(cli, parts, request, claim);
}

async function moveJob(cli: TpuCli, parts: ClaimContext, request: RestartRequest, claim: TpuClaim): Promise<void> {
  const { tpu, window } = request;
  const context = (await tpuSpecContext(cli))(tpu, claim);
  const started = await moveRun(startParts(cli, parts), { ...request, claim }, { tpu: tpu.name, window, context });
  await reportRestart(cli, parts, request, claim, started);
}

async function reportRestart(
  cli: TpuCli,
  { client }: ClaimContext,
  { tpu, startMode, window }: RestartRequest,
  claim: TpuClaim,
  started: StartedRun,
): Promise<void> {
  const where = shortName(tpu.name, (await cli.lab.site()).namePrefix);
  await reportStart(cli, client, started, claim, `${formatAction(startMode, window)} on ${where}`);
}

function formatAction(startMode: RestartMode, number: number): string {
  return startMode === 'resume' ? `resumes window ${number}` : `reruns window ${number}`;
}

/** Continues as `tpu monitor` on a terminal, if the user's settings allow it. -q and --json prevent it. */
export async function startMonitor(cli: TpuCli, args: ParsedArguments, user: LabUser): Promise<number> {
  const { io, quiet, json } = cli;
  if (!io.stdout.isTerminal || quiet || json || args.flags.has('q') || !user.settings.monitor_after_run)
    return exitCode.ok;
  const { runMonitor } = await import('./check.ts');
  return runMonitor(cli, user);
}
