import { resolve } from 'node:path';
import type { CommandResult, Client, JobRow, Ref } from '../app/client.ts';
import { exitCode, JobmanError, usageError } from '../app/errors.ts';
import type { Io, Services, Stream } from '../app/services.ts';
import { wrap } from './render/cell.ts';
import { screenFor, type Screen, type ScreenFlags } from './screen.ts';

/** Accepted before or after the command's name. A missing flag is undefined. */
export interface GlobalFlags extends ScreenFlags {
  readonly json?: boolean | undefined;
  readonly yes?: boolean | undefined;
  readonly quiet?: boolean | undefined;
  readonly settings?: string | undefined;
}

export interface Cli {
  readonly services: Services;
  readonly io: Io;
  readonly screen: Screen;
  readonly json: boolean;
  readonly yes: boolean;
  readonly quiet: boolean;
  readonly argsAfterDash: readonly string[];
  print(line: string): void;
  /** One write: thousands of small writes would take most of a command's time. */
  printAll(lines: readonly string[]): void;
  printObjects(objects: readonly object[]): void;
  printSentence(sentence: string): void;
  printResult(object: object, sentence: string): void;
  /** On standard error, suppressed by --quiet. */
  readonly note: (line: string) => void;
  /** On standard error, even with --quiet. */
  printStderr(line: string): void;
}

export function createCli(services: Services, flags: GlobalFlags, argsAfterDash: readonly string[] = []): Cli {
  const { io } = services;
  if (flags.settings !== undefined) services.useSettings(resolve(io.cwd, flags.settings));
  const quiet = flags.quiet === true;
  const json = flags.json === true;
  const print = (line: string): void => io.stdout.write(`${line}\n`);
  const printAll = (lines: readonly string[]): void => io.stdout.write(lines.map((line) => `${line}\n`).join(''));
  const printSentence = (sentence: string): void => print(wrapForStream(sentence, io.stdout));
  return {
    services,
    io,
    screen: screenFor(io, flags),
    json,
    yes: flags.yes === true,
    quiet,
    argsAfterDash,
    print,
    printAll,
    printObjects: (objects) => printAll(objects.map((object) => JSON.stringify(object))),
    printSentence,
    printResult: (object, sentence) => (json ? print(JSON.stringify(object)) : printSentence(sentence)),
    note: (line) => {
      if (!quiet) io.stderr.write(`${wrapForStream(line, io.stderr)}\n`);
    },
    printStderr: (line) => io.stderr.write(`${wrapForStream(line, io.stderr)}\n`),
  };
}

function wrapForStream(text: string, stream: Stream): string {
  if (!stream.isTerminal) return text;
  if (text.includes('\n')) {
    return text
      .split('\n')
      .map((line) => wrapForStream(line, stream))
      .join('\n');
  }
  const [, indent = '', sentence = ''] = /^( *)(.*)$/s.exec(text) ?? [];
  const [first = '', ...rest] = wrap(sentence, stream.size().columns - indent.length - 2);
  return [indent + first, ...rest.map((line) => `${indent}  ${line}`)].join('\n');
}

/** Behind the program's name, as every tool labels its messages on standard error. */
export function printError(cli: Pick<Cli, 'screen' | 'printStderr'>, sentence: string, name = 'jobman'): void {
  cli.printStderr(`${cli.screen.styleErr('red', `${name}:`)} ${sentence}`);
}

/** Prints an expected failure and returns its exit code. */
export function reportError(error: JobmanError, cli: Pick<Cli, 'screen' | 'printStderr'>, name = 'jobman'): number {
  const [first, ...rest] = error.message.split('\n');
  printError(cli, first ?? '', name);
  for (const line of [...rest, ...error.lines]) cli.printStderr(`  ${line}`);
  return error.code;
}

export function printAnswer(cli: Cli, answer: CommandResult): number {
  if (cli.json) cli.print(JSON.stringify(answer));
  else if (answer.ok) cli.printSentence(answer.message);
  else printError(cli, answer.message);
  return answer.ok ? exitCode.ok : answer.exitCode;
}

/** A name that looks like an id becomes the id of the job with that name. Throws a conflict if several jobs have it. */
export async function refOfName(client: Client, name: string): Promise<Ref> {
  if (!/^\d{1,6}$/.test(name)) return name;
  const { rows } = await client.list({ name, all: true });
  if (rows.length > 1) {
    const ids = rows.map((row) => row.id).join(', ');
    throw new JobmanError(`Several jobs are named ${name}: ${ids}. Say which by its id.`, exitCode.conflict);
  }
  return rows[0]?.id ?? name;
}

/** The jobs of the arguments and of `--job-name`. Throws if there is none. */
export async function refsOf(client: Client, args: readonly Ref[], name: string | undefined): Promise<readonly Ref[]> {
  const refs = name === undefined ? args : [...args, await refOfName(client, name)];
  if (refs.length === 0) throw missingJobError();
  return refs;
}

export function missingJobError(): JobmanError {
  return usageError('Which job? Say its id or name; `jobman list` shows them.');
}

interface JobOutput {
  readonly objects: () => readonly object[];
  readonly lines: () => readonly string[];
}

/** An empty line separates the jobs' texts. Resolves with the worst exit code. */
export function printEachJob(cli: Cli, refs: readonly Ref[], show: (ref: Ref) => Promise<JobOutput>): Promise<number> {
  let isFirst = true;
  return forEach(cli, refs, async (ref) => {
    const { objects, lines } = await show(ref);
    if (cli.json) cli.printObjects(objects());
    else cli.printAll([...(isFirst ? [] : ['']), ...lines()]);
    isFirst = false;
    return exitCode.ok;
  });
}

/** A failure is reported and does not stop the others; resolves with the worst exit code. */
export async function forEach<T>(cli: Cli, jobs: readonly T[], act: (job: T) => Promise<number>): Promise<number> {
  let worst: number = exitCode.ok;
  for (const job of jobs) {
    try {
      worst = Math.max(worst, await act(job));
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      worst = Math.max(worst, reportError(error, cli));
    }
  }
  return worst;
}

export function splitRef(
  args: readonly string[],
  jobName: string | undefined,
): { readonly refs: readonly string[]; readonly rest: readonly string[] } {
  return jobName === undefined ? { refs: args.slice(0, 1), rest: args.slice(1) } : { refs: [], rest: args };
}

export function verdictCode({ phase }: Pick<JobRow, 'phase'>): number {
  return phase === 'succeeded' ? exitCode.ok : exitCode.failed;
}
