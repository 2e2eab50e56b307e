import { appendFileSync } from 'node:fs';
import { exitCode, JobmanError, messageOf, usageError } from '../../app/errors.ts';
import { escapeLine } from '../../app/format.ts';
import { metricsOfReport } from '../../core/model/metric-lines.ts';
import type { Cli, GlobalFlags } from '../context.ts';

/** One write of a file that is open for appending is atomic; a longer line might need two. */
const maxLineLength = 4_000;

/** Does the same as the script of `src/remote/mark.ts` on a worker, which has no jobman. */
export async function mark(cli: Cli, _flags: GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { io } = cli;
  if (args.length === 0) throw usageError('Name the metrics, for example: jobman mark step=100 loss=0.3');
  const file = io.env['JOBMAN_METRICS'] ?? '';
  if (file === '') throw usageError('jobman mark works only in the program of a job: JOBMAN_METRICS is not set.');
  const problems = new Map(args.flatMap((pair) => problemOf(pair).map((problem) => [pair, problem] as const)));
  const pairs = args.filter((pair) => !problems.has(pair));
  if (pairs.length === 0) throw usageError([...problems.values()].join(' '));
  // One wrong value must neither lose the others nor end a training.
  for (const problem of problems.values()) cli.printStderr(`jobman: ${escapeLine(problem)}`);
  const line = `${io.now()} ${pairs.join(' ')}`;
  if (line.length > maxLineLength)
    throw usageError('These are more than 4,000 characters; report them in several calls.');
  try {
    appendFileSync(file, `${line}\n`);
  } catch (error) {
    throw new JobmanError(`The file ${file} cannot be written: ${messageOf(error)}`, exitCode.failed);
  }
  return exitCode.ok;
}

function problemOf(pair: string): readonly string[] {
  const at = pair.indexOf('=');
  if (at < 0) return [`"${pair}" is not name=value.`];
  const [name, value] = [pair.slice(0, at), pair.slice(at + 1)];
  if (!/^[A-Za-z0-9_./%@-]+$/.test(name))
    return [`"${name}" is not the name of a metric: use letters, digits and _ . / % @ -`];
  return /\s/.test(value) || metricsOfReport(`x=${value}`) === undefined
    ? [`"${value}" is not a number (${name}=).`]
    : [];
}
