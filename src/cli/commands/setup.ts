// setup: one setup step of a job, gone through again on all workers that it holds ready.

import { exitCode, usageError } from '../../app/errors.ts';
import type { StepRunner } from '../../app/services.ts';
import type { StepPlan } from '../../app/setup-by-hand.ts';
import { countText, inertWord } from '../../app/figures.ts';
import type { OutcomeResult } from '../../core/observation.ts';
import { refOfName, sayTrouble, type Cli, type GlobalFlags } from '../context.ts';
import { showLines } from '../hosts/show-lines.ts';

interface SetupFlags {
  readonly force?: boolean | undefined;
  readonly noFold?: boolean | undefined;
  readonly jobName?: string | undefined;
}

interface WorkerResult {
  readonly worker: number;
  readonly detail: string | null;
}

/** 0 when the step holds on every worker, 1 when it does not. What came of it is told to the job's history either way. */
export async function setup(cli: Cli, flags: SetupFlags & GlobalFlags, ...words: readonly string[]): Promise<number> {
  const { io } = cli;
  const client = await cli.services.client();
  const [ref, step, tooMuch] = flags.jobName === undefined ? words : [await refOfName(client, flags.jobName), ...words];
  if (ref === undefined || step === undefined || tooMuch !== undefined) {
    throw usageError('Say one job and one of its setup steps: jobman setup 42 docker');
  }
  const force = flags.force === true;
  const plan = await client.planStep(ref, step, io.user);
  const runner = await cli.services.stepRunner(plan.job);
  const results: WorkerResult[] = [];
  let leave = (): void => undefined;
  const left = new Promise<'left'>((resolve) => (leave = () => resolve('left')));
  const unhear = io.onSignal(leave);
  try {
    const all = goThrough(cli, { plan, runner, force, flags }, results);
    const isLeft = (await Promise.race([all, left])) === 'left';
    const { allocation, workers } = plan;
    const failed = workers.flatMap((worker) => {
      const result = results.find((one) => one.worker === worker);
      const detail = result === undefined ? `${io.user} left before it had ended` : result.detail;
      return detail === null ? [] : [{ worker, detail }];
    });
    const done = { allocation: allocation.ordinal, step, by: io.user, force, workers: workers.length, failed };
    await client.recordStep(plan.job.id, done);
    if (isLeft) {
      cli.note(`It goes on there where it has not ended: jobman logs ${Number(plan.job.id)} --step ${step}`);
      return exitCode.interrupted;
    }
    if (failed.length === 0) {
      cli.note(`Step ${step} holds on ${countText(workers.length, 'worker')} of job ${plan.job.id}.`);
      return exitCode.ok;
    }
    for (const { worker, detail } of failed) {
      sayTrouble(cli, `worker ${worker}, step ${step}: ${inertWord(detail)}`);
    }
    if (failed.length < workers.length) cli.note(`It holds on the other ${workers.length - failed.length}.`);
    return exitCode.failed;
  } finally {
    unhear();
    runner.close();
    await io.stdout.flush();
  }
}

interface Work {
  readonly plan: StepPlan;
  readonly runner: StepRunner;
  readonly force: boolean;
  readonly flags: SetupFlags;
}

/** On all workers side by side: one that fails stops nobody else. */
async function goThrough(cli: Cli, { plan, runner, force, flags }: Work, results: WorkerResult[]): Promise<void> {
  const show = showLines(cli, plan.workers, flags.noFold !== true);
  await Promise.all(
    plan.workers.map(async (worker) => {
      const printed: Uint8Array[] = [];
      const outcome = await runner.run(worker, plan, {
        force,
        onOutput: (chunk) => (cli.json ? void printed.push(chunk) : show.take(worker, chunk, 'stdout')),
      });
      const result = { worker, detail: detailOf(outcome) };
      results.push(result);
      if (!cli.json) {
        await show.ended(worker);
        return;
      }
      const output = Buffer.concat(printed).toString('utf8');
      cli.print(JSON.stringify({ step: plan.step.name, ...result, exitCode: exitCodeOf(outcome), output }));
    }),
  );
}

function detailOf(outcome: OutcomeResult): string | null {
  return outcome.kind === 'done' ? null : outcome.evidence.detail;
}

/** The step's own; null where it did not come to an end, or nobody knows. */
function exitCodeOf(outcome: OutcomeResult): number | null {
  return outcome.kind === 'done' ? 0 : (outcome.evidence.exitCode ?? null);
}
