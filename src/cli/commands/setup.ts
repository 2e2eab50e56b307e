import type { SetupFlags } from '../table/flags.ts';
import type { Client, Ref } from '../../app/client.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import type { StepRunner } from '../../app/services.ts';
import type { StepPlan } from '../../app/manual-step.ts';
import { pluralize, escapeLine } from '../../app/format.ts';
import type { OutcomeResult } from '../../core/model/observation.ts';
import { forEach, printError, refsOf, splitRef, type Cli, type GlobalFlags } from '../context.ts';
import { createOutputDisplay } from '../hosts/worker-output.ts';

interface WorkerResult {
  readonly worker: number;
  readonly detail: string | null;
}

/** 0 if the step succeeds on every worker, otherwise 1; the job's history records the result. */
export async function setup(cli: Cli, flags: SetupFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { refs, rest } = splitRef(args, flags.jobName);
  const [step, extra] = rest;
  const name = flags.jobName ?? refs[0];
  if (name === undefined || step === undefined || extra !== undefined) {
    throw usageError('Give one job and one of its setup steps: jobman setup 42 docker');
  }
  return forEach(cli, [name], async () => {
    const client = await cli.services.client();
    const [ref = ''] = await refsOf(client, refs, flags.jobName, 'change');
    return runOnJob(cli, client, ref, step, flags);
  });
}

async function runOnJob(cli: Cli, client: Client, ref: Ref, step: string, flags: SetupFlags): Promise<number> {
  const { io } = cli;
  const force = flags.force === true;
  const plan = await client.planStep(ref, step);
  const [runner, { user }] = await Promise.all([cli.services.stepRunner(plan.job), client.whoAmI()]);
  const results: WorkerResult[] = [];
  let leave = (): void => undefined;
  const left = new Promise<'left'>((resolve) => (leave = () => resolve('left')));
  const stopListening = io.onSignal(leave);
  try {
    const all = runStep(cli, { plan, runner, force, flags }, results);
    const isLeft = (await Promise.race([all, left])) === 'left';
    const { allocation, workers } = plan;
    const failed = workers.flatMap((worker) => {
      const result = results.find((one) => one.worker === worker);
      const detail = result === undefined ? `${user} detached before it ended` : result.detail;
      return detail === null ? [] : [{ worker, message: detail }];
    });
    const done = { allocation: allocation.ordinal, step, force, workers: workers.length, failed };
    await client.recordStep(plan.job.id, done);
    if (isLeft) {
      cli.note(`The step continues where it has not ended: jobman logs ${Number(plan.job.id)} --step ${step}`);
      return exitCode.interrupted;
    }
    if (failed.length === 0) {
      cli.note(`Step ${step} is applied on ${pluralize(workers.length, 'worker')} of job ${plan.job.id}.`);
      return exitCode.ok;
    }
    for (const { worker, message } of cli.json ? [] : failed) {
      printError(cli, `worker ${worker}, step ${step}: ${escapeLine(message)}`);
    }
    if (failed.length < workers.length) cli.note(`It is applied on the other ${workers.length - failed.length}.`);
    return exitCode.failed;
  } finally {
    stopListening();
    runner.close();
    await io.stdout.flush();
  }
}

interface StepRun {
  readonly plan: StepPlan;
  readonly runner: StepRunner;
  readonly force: boolean;
  readonly flags: SetupFlags;
}

/** On all workers at once; a failure on one worker stops no other. */
async function runStep(cli: Cli, { plan, runner, force, flags }: StepRun, results: WorkerResult[]): Promise<void> {
  const display = createOutputDisplay(cli, plan.workers, flags.noFold !== true);
  await Promise.all(
    plan.workers.map(async (worker) => {
      const printed: Uint8Array[] = [];
      const outcome = await runner.run(worker, plan, {
        force,
        onOutput: (chunk) => (cli.json ? void printed.push(chunk) : display.write(worker, chunk, 'stdout')),
      });
      const result = { worker, detail: detailOf(outcome) };
      results.push(result);
      if (!cli.json) {
        await display.ended(worker);
        return;
      }
      const output = Buffer.concat(printed).toString('utf8');
      const [job, step] = [plan.job.id, plan.step.name];
      cli.printJson({ job, step, worker, exitCode: exitCodeOf(outcome), message: result.detail, output });
    }),
  );
}

function detailOf(outcome: OutcomeResult): string | null {
  return outcome.kind === 'done' ? null : outcome.evidence.message;
}

/** Null if the step did not end or its exit code is unknown. */
function exitCodeOf(outcome: OutcomeResult): number | null {
  return outcome.kind === 'done' ? 0 : (outcome.evidence.exitCode ?? null);
}
