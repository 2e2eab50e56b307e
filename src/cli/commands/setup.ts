import type { SetupFlags } from '../table/flags.ts';
import type { Client, Ref } from '../../app/client.ts';
import { exitCode, usageError } from '../../app/errors.ts';
import type { StepProgress } from '../../app/manual-step.ts';
import { pluralize, escapeLine } from '../../app/format.ts';
import { forEach, printError, refsOf, splitRef, type Cli, type GlobalFlags } from '../context.ts';
import { createOutputDisplay } from '../hosts/worker-output.ts';
import { abortOnSignal, untilSignal } from '../interrupt.ts';

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
    const [ref = ''] = await refsOf(client, refs, flags.jobName);
    return runOnJob(cli, client, ref, step, flags);
  });
}

async function runOnJob(cli: Cli, client: Client, ref: Ref, step: string, flags: SetupFlags): Promise<number> {
  const { signal, release } = abortOnSignal(cli);
  let show: StepDisplay | undefined;
  try {
    for await (const progress of untilSignal(signal, client.runStep(ref, step, { force: flags.force === true }))) {
      if (progress.kind === 'begun') show = createStepDisplay(cli, step, progress, flags);
      else await show?.add(progress);
    }
    if (!signal.aborted) return show?.end() ?? exitCode.failed;
    cli.note(`The step continues where it has not ended: jobman logs ${Number(show?.job ?? ref)} --step ${step}`);
    return exitCode.interrupted;
  } finally {
    release();
    await cli.io.stdout.flush();
  }
}

type StepDisplay = ReturnType<typeof createStepDisplay>;

function createStepDisplay(
  cli: Cli,
  step: string,
  { job, workers }: Extract<StepProgress, { kind: 'begun' }>,
  flags: SetupFlags,
) {
  const display = createOutputDisplay(cli, workers, flags.noFold !== true);
  const printed = new Map<number, Uint8Array[]>();
  const failed: { readonly worker: number; readonly message: string }[] = [];
  return {
    job,

    async add(progress: Exclude<StepProgress, { kind: 'begun' }>): Promise<void> {
      const { worker } = progress;
      if (progress.kind === 'output') {
        if (cli.json) printed.set(worker, [...(printed.get(worker) ?? []), progress.bytes]);
        else await display.write(worker, progress.bytes, 'stdout');
        return;
      }
      const { message, exitCode: code } = progress;
      if (message !== null) failed.push({ worker, message });
      const output = Buffer.concat(printed.get(worker) ?? []).toString('utf8');
      if (cli.json) cli.printJson({ job, step, worker, exitCode: code, message, output });
      else await display.ended(worker);
    },

    end(): number {
      if (failed.length === 0) {
        cli.note(`Step ${step} is applied on ${pluralize(workers.length, 'worker')} of job ${job}.`);
        return exitCode.ok;
      }
      for (const { worker, message } of cli.json ? [] : failed.toSorted((one, other) => one.worker - other.worker))
        printError(cli, `worker ${worker}, step ${step}: ${escapeLine(message)}`);
      if (failed.length < workers.length) cli.note(`It is applied on the other ${workers.length - failed.length}.`);
      return exitCode.failed;
    },
  };
}
