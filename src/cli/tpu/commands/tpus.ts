// Commands about one TPU: its state (describe, check-status, check-env), its lifecycle (apply, reapply, delete,
// restart), and its workers (mount-disk, set-wandb).

import { problemFacts } from './solve.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import type { KnownTpuState } from '../../../lab/tpu-operations.ts';
import type { LabTpuStateOutput } from '../../outputs.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { capitalize, pluralize, escapeLine } from '../../../app/format.ts';
import { formatUsage } from '../../../lab/tpu-usage.ts';
import { requireOperable, reapplyOf } from '../../../lab/operation.ts';
import { siteSetups, wandbVariable } from '../../../lab/site-setup.ts';
import { checkPython, findProblems, gatherFacts, hasWorkers } from '../../../lab/solve.ts';
import { formatBooking } from '../../../lab/bookings.ts';
import type { EnvironmentClass } from '../../../lab/worker-facts.ts';
import { confirm } from '../../prompt.ts';
import { attachOr, operate, type PreparedTpu } from '../operate.ts';
import {
  withTpuContext,
  type TpuContext,
  readConcerns,
  confirmUse,
  hasWandbKey,
  logInToWandb,
  readWandbKey,
  requireKnown,
  requireRestartable,
  prepareWorkers,
  readState,
  observeExistence,
} from '../tpu-context.ts';
import { readUsage } from '../claim-tpu.ts';
import type { TpuHandler, ParsedArguments } from '../command.ts';
import { printTable } from '../terminal.ts';

export const describe: TpuHandler = (cli, args) =>
  withTpuContext(cli, args, async (context) => {
    const { tpu, tpus, site, signal } = context;
    const hasKey = await hasWandbKey(cli, site);
    const now = () => cli.io.now();
    const facts = await gatherFacts(tpus, tpu, { site, hasKey, now, signal });
    const state = requireKnown(tpu, facts.state);
    const hasAnswers = facts.workers.length > 0;
    const found = await readUsage(cli, context, tpu, { user: null, hasWorkers: hasAnswers });
    const { usage, booking, sheetWarnings, workerWarnings } = found;
    const uses = formatUsage({ ...usage, booking: null }, tpu.name);
    // Python would disturb a running program, so it is checked only on an idle TPU, and only if the site names a
    // Python.
    const isIdle = hasWorkers(state) && facts.unresponsive.length === 0 && uses.length === 0 && site.python !== null;
    const environment = isIdle ? await checkPython(tpus, tpu, site, signal) : null;
    const wrong = findProblems({ ...facts, environment }).filter(({ name }) => name !== 'device_busy');
    if (cli.json) {
      const { project, accelerator, pricing, runtimeVersion } = tpu;
      cli.printJson({
        ...stateJson(tpu, state),
        project,
        accelerator,
        pricing,
        runtimeVersion,
        uses,
        booking: booking === null ? null : { status: booking.status.kind, user: booking.user },
        environment,
        problems: wrong.map(problemFacts),
      });
      return exitCode.ok;
    }
    const where = state.zone === '' ? [] : [`in ${state.zone}`];
    const workers = state.workers === 0 ? [] : [pluralize(state.workers, 'worker')];
    const { class: verdict, message, worker } = environment ?? { class: 'success', message: '', worker: 0 };
    const python = verdict === 'success' ? message : `${verdict}, on worker ${worker}: ${message}`;
    printTable(cli, [
      ['TPU', `${tpu.name} (${tpu.accelerator}, ${tpu.pricing === 'ondemand' ? 'on demand' : tpu.pricing})`],
      ['State', [state.state, ...where, ...workers].join(', ')],
      ...labelledRows(hasWorkers(state) || uses.length > 0 ? 'Used by' : '', uses, 'no job or program'),
      [
        'Booking',
        sheetWarnings.length > 0 ? 'unknown' : booking === null ? 'not in the booking sheet' : formatBooking(booking),
      ],
      ...(environment === null ? [] : [['Python', python]]),
      ...labelledRows(
        hasWorkers(state) || wrong.length > 0 ? 'Problems' : '',
        wrong.map((one) => one.message),
        'none',
      ),
    ]);
    for (const line of [...workerWarnings, ...sheetWarnings]) cli.note(escapeLine(line));
    if (wrong.length > 0) cli.note(`To repair them: tpu solve ${tpu.name}`);
    return exitCode.ok;
  });

function stateJson({ name: tpu }: LabTpu, { state, zone, workers }: KnownTpuState): LabTpuStateOutput {
  return { tpu, state, zone: zone === '' ? null : zone, workers };
}

export const checkStatus: TpuHandler = (cli, args) =>
  withTpuContext(cli, args, async (context) => {
    const state = await readState(context);
    if (cli.json) cli.printJson(stateJson(context.tpu, state));
    else cli.print(state.state);
    return state.state === 'absent' ? exitCode.notFound : exitCode.ok;
  });

export const checkEnv: TpuHandler = (cli, args) =>
  withTpuContext(cli, args, async ({ tpu, tpus, site, signal }) => {
    const environment = await checkPython(tpus, tpu, site, signal);
    if (cli.json) cli.printJson({ tpu: tpu.name, ...environment });
    else {
      cli.print(environment.class);
      cli.note(`worker ${environment.worker}: ${escapeLine(environment.message)}`);
      const hint = site.python === null && environment.class === 'unknown' ? noPython : hints[environment.class];
      if (hint !== null) cli.note(hint.replace('TPU', tpu.name));
    }
    return environment.class === 'success' ? exitCode.ok : exitCode.failed;
  });

/** `solve` checks only the Python of the lab. */
const noPython =
  'This was `python3`, because the setting lab.python is not set: jobman settings set lab.python /path/to/python';

const hints: Readonly<Record<EnvironmentClass, string | null>> = {
  success: null,
  file_error: '`tpu mount-disk TPU` mounts the shares, which may have it; `tpu solve TPU` finds other reasons.',
  occupied: '`tpu describe TPU` shows who uses it.',
  timeout: '`tpu solve TPU` finds the reason.',
  unknown: '`tpu solve TPU` finds the reason.',
};

function labelledRows(heading: string, lines: readonly string[], otherwise: string): readonly (readonly string[])[] {
  if (heading === '') return [];
  return (lines.length === 0 ? [otherwise] : lines).map((line, index) => [index === 0 ? heading : '', line]);
}

export const apply: TpuHandler = (cli, args) =>
  withTpuContext(cli, args, async (opened) => {
    const context = withRequestedPricing(opened, args);
    const { tpu, report } = context;
    const work = { kind: 'create' } as const;
    const prepared = await attachOr(context, work, async () => {
      const state = await readState(context);
      if (state.state === 'ready') {
        report(`${tpu.name} exists already; preparing its workers`);
        return prepareWorkers(context, { name: 'apply', work: { kind: 'prepare' } }, state);
      }
      requireOperable(tpu, state, 'apply');
      await storePricing(context, args);
      const operation = { name: 'apply', work } as const;
      return operate(cli, context, tpu, { operation, zone: state.zone, prepares: true });
    });
    return finishApply(context, prepared);
  });

export const reapply: TpuHandler = (cli, args) =>
  withTpuContext(cli, args, async (opened) => {
    const context = withRequestedPricing(opened, args);
    const { tpu, report } = context;
    const prepared = await attachOr(context, { kind: 'recreate', creationTime: null }, async () => {
      const state = await readState(context);
      requireOperable(tpu, state, 'reapply', isOnDemand(args));
      if (!(await confirmUse(context, hasWorkers(state), `Delete ${tpu.name} and create it again`))) return null;
      if (state.found === undefined) report(`${tpu.name} does not exist; creating it`);
      await storePricing(context, args);
      const { zone, found } = state;
      return operate(cli, context, tpu, { operation: reapplyOf(state), zone, found, prepares: true });
    });
    return finishApply(context, prepared);
  });

/** -norm requests an on-demand TPU; `storePricing` stores that in the registry. */
function withRequestedPricing(context: TpuContext, args: ParsedArguments): TpuContext {
  return isOnDemand(args) ? { ...context, tpu: { ...context.tpu, pricing: 'ondemand' } } : context;
}

function isOnDemand({ verb, flags }: ParsedArguments): boolean {
  return flags.has('norm') || verb.endsWith('-norm');
}

/** Before the request, so that the registry is right whatever happens to this command. */
async function storePricing({ cli, tpu }: TpuContext, args: ParsedArguments): Promise<void> {
  if (isOnDemand(args)) await cli.lab.store.changeTpu(tpu.name, { kind: 'set_pricing', pricing: 'ondemand' });
}

function finishApply(context: TpuContext, prepared: PreparedTpu | null): number {
  const { name } = context.tpu;
  const failed = `, but its workers are not. To prepare them again: tpu mount-disk ${name}`;
  return printPrepared(context, prepared, (isPrepared) => `${name} is ready${isPrepared ? '' : failed}.`);
}

/** Null: the user did not agree. */
function printPrepared(
  { cli, tpu }: TpuContext,
  prepared: PreparedTpu | null,
  sentence: (isPrepared: boolean) => string,
): number {
  if (prepared === null) return exitCode.failed;
  const { zone, isPrepared } = prepared;
  cli.printResult({ tpu: tpu.name, zone, prepared: isPrepared }, sentence(isPrepared));
  return isPrepared ? exitCode.ok : exitCode.failed;
}

/** The registry keeps the name, so that `tpu apply` can create the TPU again. */
export const deleteTpu: TpuHandler = (cli, args) =>
  withTpuContext(cli, args, async (context) => {
    const { tpu } = context;
    const work = { kind: 'delete', creationTime: null } as const;
    const deleted = await attachOr(context, work, async () => {
      const state = await readState(context);
      if (state.state === 'absent') {
        await observeExistence(context, false);
        return 'absent';
      }
      requireOperable(tpu, state, 'delete');
      const concerns = await readConcerns(context, hasWorkers(state));
      const uses = concerns.length === 0 ? '' : `${escapeLine(capitalize(concerns.join('; ')))}. `;
      const what = `${tpu.name} (${tpu.accelerator}, ${state.state}, in ${state.zone})`;
      const isMeant = await confirm(
        cli,
        `${uses}Delete ${what} and its disks, for all users?`,
        `${uses}${what} was not deleted. Deleting it also deletes its disks, for all users.`,
      );
      if (!isMeant) return null;
      const { zone, found } = state;
      const operation = { name: 'delete', work: { ...work, creationTime: found?.creationTime ?? null } } as const;
      return operate(cli, context, tpu, { operation, zone, prepares: false });
    });
    if (deleted === null) return exitCode.failed;
    if (deleted === 'absent')
      cli.printResult({ tpu: tpu.name, zone: null, deleted: false }, `${tpu.name} does not exist.`);
    else
      cli.printResult(
        { tpu: tpu.name, zone: deleted.zone, deleted: true },
        `Deleted ${tpu.name}. Create it again: tpu apply ${tpu.name} · Remove it from the registry: tpu unregister ${tpu.name}`,
      );
    return exitCode.ok;
  });

/** Mounts do not survive a reboot, so the workers are prepared too. */
export const restart: TpuHandler = (cli, args) =>
  withTpuContext(cli, args, async (context) => {
    const { tpu } = context;
    const restarted = await attachOr(context, { kind: 'restart', creationTime: null }, async () => {
      const state = await readState(context);
      requireOperable(tpu, state, 'restart');
      if (!(await confirmUse(context, hasWorkers(state), `Restart ${tpu.name}`))) return null;
      const operation = await requireRestartable(context, state);
      return operate(cli, context, tpu, { operation, zone: state.zone, prepares: true });
    });
    const failed = ', but its workers are not prepared';
    return printPrepared(context, restarted, (isPrepared) => `Restarted ${tpu.name}${isPrepared ? '' : failed}.`);
  });

export const mountDisk: TpuHandler = (cli, args) =>
  withTpuContext(cli, args, async (context) => {
    const { tpu, site } = context;
    const operation = { name: 'mount-disk', work: { kind: 'prepare' } } as const;
    const hasKey = await hasWandbKey(cli, site);
    const { zone, isPrepared } = await attachOr(context, operation.work, async () => {
      const state = await readyState(context);
      if (siteSetups(site, state.zone, hasKey).length === 0)
        throw new JobmanError(`The settings have no share for ${state.zone} and no W&B key.`, exitCode.usage, [
          `jobman settings set lab.shares '[{"source": "10.0.0.2:/home", "target": "/home-nfs"}]'`,
          'See docs/settings.md#a-lab.',
        ]);
      return prepareWorkers(context, operation, state);
    });
    const setups = siteSetups(site, zone, hasKey);
    const has = (name: string): boolean => setups.some((setup) => setup.name === name);
    const what = has('shares') ? (has('W&B') ? 'mounted and logged in to W&B' : 'mounted') : 'logged in to W&B';
    if (isPrepared) cli.printSentence(`All workers of ${tpu.name} are ${what}.`);
    if (!has('shares')) cli.note(`No share was mounted: lab.shares has none for ${zone}.`);
    return isPrepared ? exitCode.ok : exitCode.failed;
  });

export const setWandb: TpuHandler = (cli, args) =>
  withTpuContext(cli, args, async (context) => {
    const key = await readWandbKey(cli, context.site);
    if (key === null)
      throw new JobmanError('There is no W&B key.', exitCode.usage, [
        `jobman settings set lab.wandbKeyFile ~/.wandb-key    sets the file with the key; or set ${wandbVariable}`,
      ]);
    await readyState(context);
    if (!(await logInToWandb(context, key))) return exitCode.failed;
    cli.printSentence(`All workers of ${context.tpu.name} are logged in to W&B.`);
    return exitCode.ok;
  });

async function readyState(context: TpuContext): Promise<KnownTpuState> {
  const state = await readState(context);
  if (hasWorkers(state)) return state;
  const { name } = context.tpu;
  throw new JobmanError(`${name} is ${state.state}, so it has no workers to prepare.`, exitCode.conflict, [
    `tpu ${state.state === 'absent' ? 'apply' : 'reapply'} ${name}    creates it and prepares its workers`,
  ]);
}
