import { exitCode } from '../../app/errors.ts';
import type { CommandStep, FoundJob, PerformedCommand, PerformOptions } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import { printAnswer, type Cli } from '../context.ts';
import { untilInterrupted } from '../interrupt.ts';
import { confirm, untilConfirmed } from '../prompt.ts';

/** Gives the command, asks for each required confirmation, and resolves with the exit code. */
export async function performCommand(
  cli: Cli,
  jobs: Jobs,
  job: FoundJob,
  command: PerformedCommand,
  options: Omit<PerformOptions, 'signal' | 'confirmed'>,
): Promise<number> {
  if (command === 'delete' && !(await confirmDelete(cli, await jobs.heldCapacity(job)))) return exitCode.failed;
  const action = `${command.charAt(0).toUpperCase()}${command.slice(1)} it`;
  const result = await untilConfirmed(cli, action, `Job ${job.id} did not change`, (confirmed) =>
    untilInterrupted(cli, (signal) => lastStep(cli, jobs.perform(job, command, { ...options, confirmed, signal }))),
  );
  return result === null ? exitCode.failed : printResult(cli, result);
}

async function confirmDelete(cli: Cli, held: string | null): Promise<boolean> {
  if (held === null) return true;
  const refused = `${held}. It was not deleted.`;
  const isConfirmed = await confirm(cli, `${held}. Stop its program, release it and delete the job?`, refused);
  if (!isConfirmed) cli.note(refused);
  return isConfirmed;
}

/** Resolves with the exit code of the result. */
export async function printSteps(cli: Cli, steps: AsyncIterable<CommandStep>): Promise<number> {
  return printResult(cli, await lastStep(cli, steps));
}

type ResultStep = Extract<CommandStep, { readonly kind: 'result' }>;

/** Prints the progress. */
async function lastStep(cli: Cli, steps: AsyncIterable<CommandStep>): Promise<ResultStep> {
  let result: ResultStep | undefined;
  for await (const step of steps) {
    if (step.kind === 'progress') cli.note(step.message);
    else result = step;
  }
  if (result === undefined) throw new Error('a command ended without a result');
  return result;
}

function printResult(cli: Cli, result: ResultStep): number {
  if (result.exitCode !== exitCode.interrupted) return printAnswer(cli, result);
  cli.printStderr(result.message);
  return result.exitCode;
}
