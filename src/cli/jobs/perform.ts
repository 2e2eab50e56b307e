import { mapConcurrent } from '../../app/concurrency.ts';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { pluralize } from '../../app/format.ts';
import type { CommandStep, PerformedCommand, PerformOptions } from '../../app/command-steps.ts';
import type { FoundJob, JobScope, JobSelection } from '../../app/job-source.ts';
import { openJobs, type Jobs } from '../../app/jobs.ts';
import { printAnswer, reportError, type Cli } from '../context.ts';
import { createWaker, wakeController } from '../controller.ts';
import { untilInterrupted } from '../interrupt.ts';
import { listLines } from '../render/list.ts';
import { columnsOf, layoutOf } from '../screen.ts';
import { confirm, untilConfirmed } from '../prompt.ts';

type CommandOptions = Omit<PerformOptions, 'signal' | 'confirmed'>;

/** Gives the command, asks for each required confirmation, and resolves with the exit code. */
export async function performCommand(
  cli: Cli,
  jobs: Jobs,
  job: FoundJob,
  command: PerformedCommand,
  options: CommandOptions,
): Promise<number> {
  if (command === 'delete') {
    // A refusal comes before a question.
    const { answer } = (await jobs.actions(job)).delete;
    if (answer !== 'deny' && !(await confirmDelete(cli, await jobs.heldCapacity(job)))) return exitCode.failed;
  }
  return performOnce(cli, jobs, job, command, options);
}

async function performOnce(
  cli: Cli,
  jobs: Jobs,
  job: FoundJob,
  command: PerformedCommand,
  options: CommandOptions,
): Promise<number> {
  const action = `${command.charAt(0).toUpperCase()}${command.slice(1)} it`;
  const result = await untilConfirmed(cli, action, `Job ${job.id} did not change`, (confirmed) =>
    untilInterrupted(cli, (signal) => lastStep(cli, jobs.perform(job, command, { ...options, confirmed, signal }))),
  );
  if (result === null) return exitCode.failed;
  const { refusedFor: owner, message } = result;
  if (owner === undefined || result.mayActForOwner !== true) return printResult(cli, result);
  const refused = `${message} Nothing was done.`;
  const how = `To ${command} it in the name of ${owner}, confirm`;
  if (await confirm(cli, `${message} ${action} in the name of ${owner}?`, refused, [refused], how))
    return performOnce(cli, jobs, job, command, { ...options, onBehalfOf: owner });
  cli.note(refused);
  return exitCode.failed;
}

async function confirmDelete(cli: Cli, held: string | null): Promise<boolean> {
  if (held === null) return true;
  const refused = `${held}. It was not deleted.`;
  const isConfirmed = await confirm(cli, `${held}. Stop its program, release it and delete the job?`, refused);
  if (!isConfirmed) cli.note(refused);
  return isConfirmed;
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

/** Concurrent commands: the API server of a cluster accepts many, its controllers handle few. */
const maxConcurrent = 8;
const maxRows = 50;
const questions = { cancel: 'Cancel', delete: 'Delete', clean: 'Remove the files of' } as const;

/** For `--all`: lists the jobs, asks, and gives the command to each. Resolves with the worst exit code. */
export async function performOnAll(
  cli: Cli,
  scope: JobScope,
  command: keyof typeof questions,
  own = false,
): Promise<number> {
  const jobs = openJobs(cli.services, scope);
  let worst: number = exitCode.ok;
  try {
    for (const selection of await jobs.select(command, own)) {
      const code = await performOnSelection(cli, jobs, command, selection);
      worst = Math.max(worst, code);
    }
    return worst;
  } finally {
    await jobs.close();
  }
}

async function performOnSelection(
  cli: Cli,
  jobs: Jobs,
  command: keyof typeof questions,
  { jobs: selected, rows, description, nothing }: JobSelection,
): Promise<number> {
  if (selected.length === 0) {
    cli.note(nothing);
    return exitCode.ok;
  }
  if (!cli.yes) {
    const layout = { ...layoutOf(cli), columns: columnsOf(cli.io.stderr), styler: cli.screen.styleErr };
    const more = rows.length > maxRows ? [`and ${rows.length - maxRows} more`] : [];
    const lines = [...listLines(rows.slice(0, maxRows), layout), ...more];
    cli.io.stderr.write(lines.map((line) => `${line}\n`).join(''));
  }
  const refused = command === 'clean' ? 'Nothing was removed.' : `Nothing changed: ${description}.`;
  if (!(await confirm(cli, `${questions[command]} ${description}?`, refused))) {
    cli.note(refused);
    return exitCode.failed;
  }
  return untilInterrupted(cli, (signal) => performOnEach(cli, jobs, command, selected, signal));
}

/** A failure does not stop the others; Ctrl-C does. */
async function performOnEach(
  cli: Cli,
  jobs: Jobs,
  command: PerformedCommand,
  selected: readonly FoundJob[],
  signal: AbortSignal,
): Promise<number> {
  const codes = await mapConcurrent(selected, maxConcurrent, async (job) => {
    if (signal.aborted) return null;
    try {
      return printResult(cli, await lastStep(cli, jobs.perform(job, command, { signal })));
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      return reportError(error, cli, { job: job.id });
    }
  });
  const left = codes.filter((code) => code === null).length;
  if (left > 0) cli.printStderr(`The other ${pluralize(left, 'job')} did not change.`);
  const isStoredDone = selected.some(({ cluster }, index) => cluster === null && codes[index] === exitCode.ok);
  if (isStoredDone && command !== 'clean') await wakeController(cli, createWaker(cli));
  return Math.max(...codes.map((code) => code ?? exitCode.ok));
}
