// The environment of a command: services and output. Made once from the flags that every command takes.

import { resolve } from 'node:path';
import type { AskAnswer, Client, JobRow, Ref } from '../app/client.ts';
import { exitCode, JobmanError, usageError } from '../app/errors.ts';
import type { Io, Services, Stream } from '../app/services.ts';
import { wrap } from './render/cell.ts';
import { screenFor, type Screen, type ScreenFlags } from './screen.ts';

/** Taken by every command, before or after its word. A flag that was not given is undefined. */
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
  /** The words behind `--`, as they were given. */
  readonly behind: readonly string[];
  print(line: string): void;
  /** Lines of result in one write: thousands of small ones would be most of a command's time. */
  printAll(lines: readonly string[]): void;
  /** One JSON object a line, in one write. */
  printObjects(objects: readonly object[]): void;
  /** One sentence of result, on standard output; a terminal gets it in lines that end between words. */
  tell(sentence: string): void;
  answer(object: object, sentence: string): void;
  /** One line of remark, on standard error; not said when the user wants quiet. */
  readonly note: (line: string) => void;
  /** One line about what went wrong, on standard error, said even when the user wants quiet. */
  complain(line: string): void;
}

export function createCli(services: Services, flags: GlobalFlags, behind: readonly string[] = []): Cli {
  const { io } = services;
  if (flags.settings !== undefined) services.useSettings(resolve(io.cwd, flags.settings));
  const quiet = flags.quiet === true;
  const json = flags.json === true;
  const print = (line: string): void => io.stdout.write(`${line}\n`);
  const printAll = (lines: readonly string[]): void => io.stdout.write(lines.map((line) => `${line}\n`).join(''));
  const tell = (sentence: string): void => print(inLines(sentence, io.stdout));
  return {
    services,
    io,
    screen: screenFor(io, flags),
    json,
    yes: flags.yes === true,
    quiet,
    behind,
    print,
    printAll,
    printObjects: (objects) => printAll(objects.map((object) => JSON.stringify(object))),
    tell,
    answer: (object, sentence) => (json ? print(JSON.stringify(object)) : tell(sentence)),
    note: (line) => {
      if (!quiet) io.stderr.write(`${inLines(line, io.stderr)}\n`);
    },
    complain: (line) => io.stderr.write(`${inLines(line, io.stderr)}\n`),
  };
}

function inLines(text: string, stream: Stream): string {
  if (!stream.isTerminal) return text;
  if (text.includes('\n')) {
    return text
      .split('\n')
      .map((line) => inLines(line, stream))
      .join('\n');
  }
  const [, blanks = '', sentence = ''] = /^( *)(.*)$/s.exec(text) ?? [];
  const [first = '', ...rest] = wrap(sentence, stream.size().columns - blanks.length - 2);
  return [blanks + first, ...rest.map((line) => `${blanks}  ${line}`)].join('\n');
}

/** One sentence about what went wrong, with our name in front, as every tool marks its own words on standard error. */
export function sayTrouble(cli: Pick<Cli, 'screen' | 'complain'>, sentence: string, name = 'jobman'): void {
  cli.complain(`${cli.screen.err('red', `${name}:`)} ${sentence}`);
}

/** Says an expected failure on standard error, under the name that was called, and returns the exit code that it ends in. */
export function complainAbout(error: JobmanError, cli: Pick<Cli, 'screen' | 'complain'>, name = 'jobman'): number {
  const [first, ...rest] = error.message.split('\n');
  sayTrouble(cli, first ?? '', name);
  for (const line of [...rest, ...error.lines]) cli.complain(`  ${line}`);
  return error.code;
}

export function sayAnswer(cli: Cli, answer: AskAnswer): number {
  if (cli.json) cli.print(JSON.stringify(answer));
  else if (answer.ok) cli.tell(answer.message);
  else sayTrouble(cli, answer.message);
  return answer.ok ? exitCode.ok : answer.code;
}

/**
 * What `--job-name` means as a ref: a name that looks like an id becomes the id of the job that has it as its name, where
 * there is one. Every other name is a ref as it is. Throws a conflict when several jobs have such a name.
 */
export async function refOfName(client: Client, name: string): Promise<Ref> {
  if (!/^\d{1,6}$/.test(name)) return name;
  const { rows } = await client.list({ name, all: true });
  if (rows.length > 1) {
    const ids = rows.map((row) => row.id).join(', ');
    throw new JobmanError(`Several jobs are named ${name}: ${ids}. Say which by its id.`, exitCode.conflict);
  }
  return rows[0]?.id ?? name;
}

/** The jobs that a command is about: those of its arguments and that of `--job-name`. Throws when there is none. */
export async function refsOf(client: Client, args: readonly Ref[], name: string | undefined): Promise<readonly Ref[]> {
  const refs = name === undefined ? args : [...args, await refOfName(client, name)];
  if (refs.length === 0) throw whichJob();
  return refs;
}

export function whichJob(): JobmanError {
  return usageError('Which job? Say its id or name; `jobman list` shows them.');
}

interface Shown {
  readonly objects: () => readonly object[];
  readonly lines: () => readonly string[];
}

/** Prints each of several jobs, with an empty line between their texts. The worst exit code is the command's. */
export function printEachRef(cli: Cli, refs: readonly Ref[], show: (ref: Ref) => Promise<Shown>): Promise<number> {
  let isFirst = true;
  return forEach(cli, refs, async (ref) => {
    const { objects, lines } = await show(ref);
    if (cli.json) cli.printObjects(objects());
    else cli.printAll([...(isFirst ? [] : ['']), ...lines()]);
    isFirst = false;
    return exitCode.ok;
  });
}

/**
 * Does the same for each of several jobs. One that fails is said and does not keep the others from theirs; the worst
 * exit code is the command's.
 */
export async function forEach<T>(cli: Cli, jobs: readonly T[], act: (job: T) => Promise<number>): Promise<number> {
  let worst: number = exitCode.ok;
  for (const job of jobs) {
    try {
      worst = Math.max(worst, await act(job));
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      worst = Math.max(worst, complainAbout(error, cli));
    }
  }
  return worst;
}

/** The word that names the job, where `--job-name` does not, and the words that are left. */
export function refAndWords(
  words: readonly string[],
  jobName: string | undefined,
): { readonly refs: readonly string[]; readonly words: readonly string[] } {
  return jobName === undefined ? { refs: words.slice(0, 1), words: words.slice(1) } : { refs: [], words };
}

/** The exit code that stands for how a job ended. */
export function verdictCode({ phase }: Pick<JobRow, 'phase'>): number {
  return phase === 'succeeded' ? exitCode.ok : exitCode.failed;
}
