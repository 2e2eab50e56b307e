// solve: finds and repairs problems of a TPU, causes first. After each repair it checks again; it does not repeat a
// repair that did not help.

import type { TpuProblemFacts } from '../../outputs.ts';
import { setTimeout as pause } from 'node:timers/promises';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { minute, second } from '../../../core/model/time.ts';
import {
  checkPython,
  type TpuProblem,
  findProblems,
  gatherFacts,
  hasWorkers,
  type SolveFacts,
} from '../../../lab/solve.ts';
import type { LabTpu } from '../../../lab/tpus.ts';
import { reapplyOf, requireOperable } from '../../../lab/operation.ts';
import type { KnownTpuState } from '../../../lab/tpu-operations.ts';
import { confirm } from '../../prompt.ts';
import { escapeLine, pluralize } from '../../../app/format.ts';
import { operate } from '../operate.ts';
import {
  withTpuContext,
  confirmUse,
  hasFailed,
  hasWandbKey,
  logInToWandb,
  readWandbKey,
  requireKnown,
  requireRestartable,
  type TpuContext,
} from '../tpu-context.ts';
import type { TpuHandler, TpuCli } from '../command.ts';

const maxWait = 10 * minute;

export const solve: TpuHandler = (cli, args) =>
  withTpuContext(cli, args, async (context) => {
    const { tpu } = context;
    const hasKey = await hasWandbKey(cli, context.site);
    const tried = new Set<string>();
    const until = performance.now() + maxWait;
    for (;;) {
      const facts = await diagnose(context, hasKey);
      const state = requireKnown(tpu, facts.state);
      const wrong = findProblems(facts);
      if (args.flags.has('dry-run')) return printDiagnosis(cli, tpu, wrong);
      const next = wrong.find((one) => isWorthTrying(one, tried, until));
      if (next === undefined) return printResult(cli, tpu, wrong, tried);
      tried.add(next.name);
      const line = `${next.name}: ${escapeLine(next.message)}`;
      if (cli.json) context.report(line);
      else cli.print(line);
      const isDone = await repair(context, next, state);
      if (!isDone) context.report(`${next.name}: not repaired`);
    }
  });

/** Python is checked last: its answer says nothing while there is another problem. */
async function diagnose(context: TpuContext, hasKey: boolean): Promise<SolveFacts> {
  const { tpu, tpus, site, signal, cli } = context;
  const facts = await gatherFacts(tpus, tpu, { site, hasKey, now: () => cli.io.now(), signal });
  const isWell = hasWorkers(facts.state) && findProblems(facts).length === 0;
  if (!isWell) return facts;
  if (site.python === null) {
    context.report('Python was not checked, because the setting lab.python is not set');
    return facts;
  }
  context.report(`checking ${site.python} on the workers`);
  return { ...facts, environment: await checkPython(tpus, tpu, site, signal) };
}

function isWorthTrying({ name, repair: { kind } }: TpuProblem, tried: ReadonlySet<string>, until: number): boolean {
  if (kind === 'manual') return false;
  if (kind === 'wait') return performance.now() < until;
  return !tried.has(name);
}

async function repair(context: TpuContext, problem: TpuProblem, state: KnownTpuState): Promise<boolean> {
  const { cli, tpu, tpus, signal, report } = context;
  const { repair: step, workers } = problem;
  const { zone } = state;
  try {
    switch (step.kind) {
      case 'apply':
        report(`creating ${tpu.name}`);
        await operate(cli, context, tpu, {
          operation: { name: 'apply', work: { kind: 'create' } },
          zone,
          prepares: false,
        });
        return true;
      case 'reapply':
        if (!(await confirmUse(context, false, `Delete ${tpu.name} and create it again`))) return false;
        requireOperable(tpu, state, 'reapply');
        await operate(cli, context, tpu, { operation: reapplyOf(state), zone, found: state.found, prepares: false });
        return true;
      case 'restart':
        if (!(await confirmUse(context, problem.name !== 'stopped', `Restart ${tpu.name}`))) return false;
        requireOperable(tpu, state, 'restart');
        await operate(cli, context, tpu, {
          operation: await requireRestartable(context, state),
          zone,
          prepares: false,
        });
        return true;
      case 'script': {
        report(step.description);
        const script = `(\n${step.script}\n) 2>&1\n`;
        const answers = await tpus.onWorkers(tpu, script, { timeoutMs: step.timeout, signal, workers });
        for (const answer of answers) {
          const lines = answer.kind === 'no_answer' ? answer.message : answer.output.trim();
          for (const line of lines.split('\n').filter((one) => one !== '')) report(`worker ${answer.worker}: ${line}`);
        }
        return !answers.some(hasFailed);
      }
      case 'login': {
        const key = await readWandbKey(cli, context.site);
        if (key === null) return false;
        report(step.description);
        return await logInToWandb(context, key);
      }
      case 'end': {
        if (!(await confirm(cli, `${problem.message}. End these processes?`, `${problem.message}.`))) return false;
        const pids = step.holders.map(({ worker, pid }) => ({ worker, pid }));
        const { left, unreachable } = await tpus.endPrograms(tpu, { folders: [], pids, graceMs: 10 * second }, signal);
        for (const one of left) report(`process ${one.pid} on worker ${one.worker} does not end`);
        for (const one of unreachable) report(`worker ${one.worker}: ${one.message}`);
        return left.length === 0 && unreachable.length === 0;
      }
      case 'wait':
        report('waiting');
        await pause(Math.min(step.duration, 5 * second), undefined, { signal }).catch(() => undefined);
        if (signal.aborted) throw new JobmanError(`Interrupted: ${problem.message}.`, exitCode.interrupted);
        return true;
      case 'manual':
        return false;
    }
  } catch (error) {
    // A refusal by the cloud fails this step only. An interruption, or a question without a terminal, ends the command.
    if (
      !(error instanceof JobmanError) ||
      error.code === exitCode.interrupted ||
      error.errorCode === 'confirmation_required'
    )
      throw error;
    for (const line of [error.message, ...error.lines]) cli.printStderr(escapeLine(line));
    return false;
  }
}

function printDiagnosis(cli: TpuCli, tpu: LabTpu, wrong: readonly TpuProblem[]): number {
  for (const one of wrong) {
    if (cli.json) cli.printJson({ tpu: tpu.name, ...problemFacts(one) });
    else {
      cli.print(`${one.name}: ${escapeLine(one.message)}`);
      cli.print(`  repair: ${escapeLine(formatRepair(one))}`);
    }
  }
  if (wrong.length > 0) return exitCode.failed;
  if (!cli.json) cli.printSentence(`${tpu.name} has no problem.`);
  return exitCode.ok;
}

export function problemFacts({ name, message, workers, repair: { kind } }: TpuProblem): TpuProblemFacts {
  return { name, message, workers, repair: kind };
}

function formatRepair({ repair: step, workers }: TpuProblem): string {
  const where = workers.length === 0 ? '' : ` on worker${workers.length === 1 ? '' : 's'} ${workers.join(', ')}`;
  switch (step.kind) {
    case 'apply':
      return 'create it';
    case 'reapply':
      return 'delete it and create it again';
    case 'restart':
      return 'restart its machines';
    case 'script':
    case 'login':
      return `${step.description}${where}`;
    case 'end':
      return `ask, and end ${pluralize(step.holders.length, 'process', 'processes')}`;
    case 'wait':
      return 'wait';
    case 'manual':
      return `none; ${step.description}`;
  }
}

function printResult(cli: TpuCli, tpu: LabTpu, wrong: readonly TpuProblem[], tried: ReadonlySet<string>): number {
  const isWell = wrong.length === 0;
  if (cli.json) {
    cli.printJson({ tpu: tpu.name, ok: isWell, tried: [...tried], problems: wrong.map(problemFacts) });
  } else if (isWell) {
    cli.printSentence(
      tried.size === 0 ? `${tpu.name} has no problem.` : `${tpu.name} is repaired (${[...tried].join(', ')}).`,
    );
  } else {
    cli.printSentence(`${tpu.name} still has problems:`);
    for (const one of wrong)
      cli.print(`  ${one.name}: ${escapeLine(`${one.message}${formatAdvice(tpu, one, tried.has(one.name))}`)}`);
  }
  return isWell ? exitCode.ok : exitCode.failed;
}

function formatAdvice({ name }: LabTpu, { repair: step }: TpuProblem, isTried: boolean): string {
  if (step.kind === 'manual') return `; ${step.description}`;
  if (!isTried) return '';
  // A machine that does not recover needs a new TPU, which the user has to request.
  const further = step.kind === 'restart' ? `; \`tpu reapply ${name}\` creates the TPU again` : '';
  return `; the repair did not help${further}`;
}
