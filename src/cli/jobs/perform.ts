import type { ConfirmationRequired } from '../../app/client.ts';
import { exitCode } from '../../app/errors.ts';
import type { CommandStep, FoundJob, PerformedCommand, PerformOptions } from '../../app/job-source.ts';
import type { Jobs } from '../../app/jobs.ts';
import { printAnswer, type Cli } from '../context.ts';
import { untilInterrupted } from '../interrupt.ts';
import { confirm, confirmRequired } from '../prompt.ts';

/** Asks for a required confirmation, gives the command, and resolves with the exit code. */
export async function performCommand(
  cli: Cli,
  jobs: Jobs,
  job: FoundJob,
  command: PerformedCommand,
  options: Omit<PerformOptions, 'signal'>,
): Promise<number> {
  const required = await jobs.confirmation(job, command);
  if (required !== null && !(await confirmCommand(cli, job, command, required))) return exitCode.failed;
  return untilInterrupted(cli, (signal) => printSteps(cli, jobs.perform(job, command, { ...options, signal })));
}

async function confirmCommand(
  cli: Cli,
  { id }: FoundJob,
  command: PerformedCommand,
  required: ConfirmationRequired,
): Promise<boolean> {
  if (command !== 'delete') {
    const action = `${command.charAt(0).toUpperCase()}${command.slice(1)} it`;
    return confirmRequired(cli, required, action, `Job ${id} did not change`);
  }
  const refused = `${required.message}. It was not deleted.`;
  const isConfirmed = await confirm(
    cli,
    `${required.message}. Stop its program, release it and delete the job?`,
    refused,
  );
  if (!isConfirmed) cli.note(refused);
  return isConfirmed;
}

/** Resolves with the exit code of the result. */
export async function printSteps(cli: Cli, steps: AsyncIterable<CommandStep>): Promise<number> {
  let code: number = exitCode.failed;
  for await (const step of steps) {
    if (step.kind === 'progress') cli.note(step.message);
    else if (step.exitCode === exitCode.interrupted) {
      cli.printStderr(step.message);
      code = step.exitCode;
    } else code = printAnswer(cli, step);
  }
  return code;
}
