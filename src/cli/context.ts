import { resolve } from 'node:path';
import type { CommandResult, Client, JobRow, Ref } from '../app/client.ts';
import { exitCode, JobmanError, usageError } from '../app/errors.ts';
import { escapeLine } from '../app/format.ts';
import { timesAsText } from '../app/json.ts';
import { isIdRef } from '../app/refs.ts';
import { formatServer, type ServerInUse } from '../app/server-in-use.ts';
import type { Io, Services, Stream } from '../app/services.ts';
import { withoutStderr } from './output.ts';
import type { ErrorOutput, Output } from './outputs.ts';
import { wrap } from './render/cell.ts';
import { screenFor, type Screen, type ScreenFlags } from './screen.ts';

/** Accepted before or after the command's name. A missing flag is undefined. */
export interface GlobalFlags extends ScreenFlags {
  readonly json?: boolean | undefined;
  readonly output?: 'table' | 'json' | undefined;
  readonly yes?: boolean | undefined;
  readonly quiet?: boolean | undefined;
  readonly settings?: string | undefined;
  readonly server?: string | undefined;
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
  /** With --json every line of standard output is one of these objects. */
  printJson(object: Output): void;
  printJsonLines(objects: readonly Output[]): void;
  /** The result of a command that prints only a sentence; with --json an object with `message`. */
  printSentence(sentence: string): void;
  printResult(object: Output, sentence: string): void;
  /** On standard error, suppressed by --quiet. */
  readonly note: (line: string) => void;
  /** On standard error, even with --quiet. */
  printStderr(line: string): void;
  printJsonError(error: ErrorOutput): void;
}

/** True if the command line asks for JSON, even if the rest of it is wrong. */
export function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf('--');
  const flags = argv.slice(0, end < 0 ? undefined : end);
  return flags.some(
    (flag, at) =>
      /^(--json|-ojson|(-o|--output)=json)$/.test(flag) ||
      (flag === 'json' && /^(-o|--output)$/.test(flags[at - 1] ?? '')),
  );
}

/** Throws JobmanError for a command that prints text for people or for a shell. */
export function refuseJson(isJson: boolean | undefined, what: string): void {
  if (isJson === true) throw usageError(`${what} has no JSON output.`);
}

export function createCli(services: Services, flags: GlobalFlags, argsAfterDash: readonly string[] = []): Cli {
  const json = flags.json === true || flags.output === 'json';
  // A program reads standard error too, and finds only errors there.
  const io = json ? withoutStderr(services.io) : services.io;
  if (flags.settings !== undefined) services.useSettings(resolve(io.cwd, flags.settings));
  const quiet = flags.quiet === true;
  const print = (line: string): void => io.stdout.write(`${line}\n`);
  const printAll = (lines: readonly string[]): void => io.stdout.write(lines.map((line) => `${line}\n`).join(''));
  const printJson = (object: Output): void => print(JSON.stringify(object, timesAsText));
  const printSentence = (sentence: string): void =>
    json ? printJson({ message: sentence }) : print(wrapForStream(sentence, io.stdout));
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
    printJson,
    printJsonLines: (objects) => printAll(objects.map((object) => JSON.stringify(object, timesAsText))),
    printSentence,
    printResult: (object, sentence) => (json ? printJson(object) : printSentence(sentence)),
    note: (line) => {
      if (!quiet) io.stderr.write(`${wrapForStream(line, io.stderr)}\n`);
    },
    printStderr: (line) => io.stderr.write(`${wrapForStream(line, io.stderr)}\n`),
    printJsonError: (error) => services.io.stderr.write(`${JSON.stringify(error)}\n`),
  };
}

/** Says once where a change goes, to people who did not name the server on the line. */
export function noteServer(cli: Cli): (server: ServerInUse) => void {
  let isDone = !cli.io.stdout.isTerminal || !cli.io.stderr.isTerminal;
  return (server) => {
    if (!isDone && server.chosenBy !== '--server') cli.note(`On the server ${formatServer(server)}:`);
    isDone = true;
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

interface ErrorContext {
  /** Its id or name. */
  readonly job?: string | undefined;
  readonly program?: 'jobman' | 'tpu';
}

/** Prints a failure, with --json as one object, and returns the exit code. */
export function printError(
  cli: Cli,
  sentence: string,
  code: number = exitCode.failed,
  context: ErrorContext = {},
): number {
  return reportError(new JobmanError(sentence, code), cli, context);
}

/** Prints an expected failure, with --json as one object, and returns its exit code. */
export function reportError(
  { message, lines, code, errorCode, problems, reasons }: JobmanError,
  cli: Cli,
  { job, program = 'jobman' }: ErrorContext = {},
): number {
  const [first = '', ...rest] = message.split('\n');
  const hints = [...rest, ...lines];
  if (cli.json) {
    const facts = { code: errorCode, exitCode: code, message: first, job: jobId(job) };
    cli.printJsonError({ error: { ...facts, hints: problems.length > 0 ? [] : hints, problems, reasons } });
  } else {
    cli.printStderr(`${cli.screen.styleErr('red', `${program}:`)} ${escapeLine(first)}`);
    // A hint may be the output of gcloud, with several lines.
    for (const line of hints.flatMap((hint) => hint.split('\n'))) {
      if (line !== '') cli.printStderr(`  ${escapeLine(line)}`);
    }
  }
  return code;
}

/** `1` is the id 000001. */
function jobId(ref: string | undefined): string | null {
  return ref === undefined ? null : isIdRef(ref) ? ref.padStart(6, '0') : ref;
}

export function printAnswer(cli: Cli, { id, ok, message, exitCode: code }: CommandResult): number {
  if (!ok) return printError(cli, message, code, { job: id });
  cli.printResult({ id, message }, message);
  return exitCode.ok;
}

/** The ids of the jobs to change, of the arguments and of `--job-name`. Throws JobmanError, also without a job. */
export async function refsOf(client: Client, args: readonly Ref[], name: string | undefined): Promise<readonly Ref[]> {
  const refs = args.map(async (arg) => (isIdRef(arg) ? arg : client.resolveName(arg, 'change')));
  const ids = await Promise.all(name === undefined ? refs : [...refs, client.resolveName(name, 'change')]);
  if (ids.length === 0) throw missingJobError();
  return ids;
}

export function missingJobError(): JobmanError {
  return usageError('Which job? Give its id or name; `jobman list` shows them.');
}

/** A failure is reported and does not stop the others; resolves with the worst exit code. */
export async function forEach(cli: Cli, jobs: readonly Ref[], act: (job: Ref) => Promise<number>): Promise<number> {
  let worst: number = exitCode.ok;
  for (const job of jobs) {
    try {
      worst = Math.max(worst, await act(job));
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      worst = Math.max(worst, reportError(error, cli, { job }));
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
