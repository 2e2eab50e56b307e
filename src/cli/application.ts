// The table of commands as an application of the framework (stricli), with our words and our exit codes.

import {
  AliasNotFoundError,
  ArgumentParseError,
  buildApplication,
  buildCommand,
  buildRouteMap,
  EnumValidationError,
  ExitCode,
  FlagNotFoundError,
  formatMessageForArgumentScannerError,
  InvalidNegatedFlagSyntaxError,
  proposeCompletions,
  run as runApplication,
  text_en,
  UnexpectedFlagError,
  UnexpectedPositionalError,
  UnsatisfiedFlagError,
  UnsatisfiedPositionalError,
  type Application,
  type ApplicationText,
  type Command,
  type RouteMap,
} from '@stricli/core';
import { exitCode, JobmanError } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import { didYouMean } from '../catalogue/did-you-mean.ts';
import { arrange, commandIn } from './arrange.ts';
import { complainAbout, createCli, type GlobalFlags } from './context.ts';
import { proposeHappenings } from './completion/happenings.ts';
import { proposalLines } from './completion/lines.ts';
import { proposeSteps } from './completion/steps.ts';
import { flagName, globalFlags, globalLetters, isNamed, type Context, type Entry, type Flag } from './entry.ts';
import { groups, helpText } from './help.ts';
import { otherFlags, otherWord } from './other-words.ts';
import { table } from './table.ts';

/** Scans the arguments and runs the command that they name; resolves with its exit code. */
export async function scanAndRun(argv: readonly string[], services: Services): Promise<number> {
  const empty = flagWithoutValue(argv);
  if (empty !== undefined) {
    services.io.stderr.write(`jobman: ${empty} has nothing after the equals sign.\n`);
    return exitCode.usage;
  }
  const inputs = arrange(argv);
  let ownCode: number | undefined;
  const context = contextFor(services, inputs, (code) => {
    ownCode = code;
  });
  await runApplication(createApplication(inputs), inputs, context);
  const code = ownCode ?? exitCodeOf(Number(context.process.exitCode ?? 0));
  const command = commandIn(inputs);
  if (ownCode === undefined && code === exitCode.usage && command !== undefined) {
    services.io.stderr.write(`  \`jobman ${command} --help\` tells how it is used.\n`);
  }
  return code;
}

/** The framework would take `--name=` for an argument. */
function flagWithoutValue(argv: readonly string[]): string | undefined {
  const end = argv.indexOf('--');
  return argv.slice(0, end < 0 ? undefined : end).find((word) => /^--[a-z][\w-]*=$/i.test(word));
}

/** Prints what could stand in the place of the last word, one a line, with its meaning after a tab. */
export async function propose(words: readonly string[], services: Services): Promise<number> {
  const inputs = words.length === 0 ? [''] : words;
  const context = contextFor(services, inputs, () => {});
  // The framework knows the place of a step as that of any word, or of another job.
  const steps = await proposeSteps(inputs, context);
  const proposals =
    steps.length > 0
      ? steps
      : [
          ...(await proposeCompletions(createApplication(), inputs, context)),
          // They are no commands of the framework's, since their flags are the cloud's own.
          ...(await proposeHappenings(inputs, context)),
          ...(inputs.length === 1 && 'tpu'.startsWith(inputs[0] ?? '') ? [tpuWord] : []),
        ];
  // Flags are proposed to whoever begins one; between jobs and file names they are in the way.
  const wantsFlag = inputs.at(-1)?.startsWith('-') === true;
  const wanted = proposals.filter(({ completion }) => completion.startsWith('-') === wantsFlag);
  services.io.stdout.write(proposalLines(wanted.map(({ completion, brief }) => [completion, brief])));
  return exitCode.ok;
}

/** The word behind which another table begins. */
const tpuWord = { completion: 'tpu', brief: 'The commands of a lab that shares its TPUs' };

function contextFor(
  services: Services,
  inputs: readonly string[],
  ended: (code: number) => void,
): Context & { process: { exitCode?: number } } {
  const { io } = services;
  const end = inputs.indexOf('--');
  // No colour depth: the framework would colour whole messages.
  return {
    process: {
      stdout: { write: (text) => io.stdout.write(text) },
      stderr: { write: (text) => io.stderr.write(text) },
    },
    services,
    behind: end < 0 ? [] : inputs.slice(end + 1),
    ended,
  };
}

/**
 * The commands, each of which loads its own file when it runs. With `inputs`, only those that their first word may mean
 * are made ready, because making all of them ready takes as long as a short command; all are, when it means none.
 */
function createApplication(inputs?: readonly string[]): Application<Context> {
  const [first] = inputs ?? [];
  const meant = table.filter((one) => first !== undefined && (isNamed(one, first) || one.path.split(' ')[0] === first));
  return buildApplication<Context>(
    rootOf(meant.length === 0 ? table : meant),
    {
      name: 'jobman',
      scanner: { caseStyle: 'allow-kebab-for-camel', allowArgumentEscapeSequence: true },
      documentation: { caseStyle: 'convert-camel-to-kebab' },
      completion: { includeAliases: true },
      localization: { text: textFor(inputs?.[0]) },
    },
    {
      help: {
        flag: {
          brief: 'Print help',
          aliases: ['h'],
          global: true,
          defaultForRouteMap: true,
          complete: true,
          run(_application, { result }) {
            this.process.stdout.write(helpText(result.prefix.slice(1).join(' ')));
          },
        },
      },
    },
  );
}

/** What the framework's own codes mean in the table of app/errors.ts. Our commands hand theirs to `Context.ended`. */
function exitCodeOf(frameworkCode: number): number {
  switch (frameworkCode) {
    case ExitCode.Success:
      return exitCode.ok;
    case ExitCode.UnknownCommand:
    case ExitCode.InvalidArgument:
      return exitCode.usage;
    default:
      return exitCode.failed;
  }
}

function rootOf(entries: readonly Entry[]): RouteMap<Context> {
  const routes: Record<string, Command<Context> | RouteMap<Context>> = {};
  const aliases: Record<string, string> = {};
  for (const entry of entries) {
    const [first = '', second] = entry.path.split(' ');
    if (second === undefined) routes[first] = commandOf(entry);
    else routes[first] ??= groupOf(first, entries);
    for (const alias of entry.aliases) aliases[alias] = entry.path;
  }
  return buildRouteMap<string, Context>({ routes, aliases, docs: { brief: 'Jobs on TPUs and on this machine' } });
}

function groupOf(group: string, entries: readonly Entry[]): RouteMap<Context> {
  const within = entries
    .filter((entry) => entry.path.startsWith(`${group} `))
    .map((entry) => [entry.path.slice(group.length + 1), entry] as const);
  return buildRouteMap<string, Context>({
    routes: Object.fromEntries(within.map(([word, entry]) => [word, commandOf(entry)])),
    docs: {
      brief: groups[group] ?? '',
      hideRoute: Object.fromEntries(within.map(([word, entry]) => [word, entry.hidden])),
    },
  });
}

function commandOf(entry: Entry): Command<Context> {
  return buildCommand<GlobalFlags, readonly unknown[], Context>({
    loader: async () => {
      const body = await entry.load();
      return async function (flags, ...args) {
        const cli = createCli(this.services, flags, this.behind);
        try {
          this.ended(await body(cli, flags, ...args));
        } catch (error) {
          if (!(error instanceof JobmanError)) throw error;
          this.ended(complainAbout(error, cli));
        }
      };
    },
    parameters: {
      flags: { ...entry.flags, ...globalFlags },
      aliases: { ...globalLetters, ...entry.letters },
      positional: entry.args,
      // The entry was checked against the command's own types where the table was written.
    } as never,
    docs: { brief: entry.brief },
  });
}

/** Our words, for a command line that begins with that one. */
function textFor(first: string | undefined): ApplicationText {
  return {
    ...linesFor(first),
    noCommandRegisteredForInput({ input, corrections }) {
      // A word of another tool stands before what only looks alike; as the second word (`controller ps`) it is none.
      const known = input === first ? otherWord(input) : undefined;
      // The framework proposes whatever is as short as the word; of `foo` nobody means `stop`.
      const near = corrections.filter(
        (correction) => didYouMean(input, [correction.replaceAll('`', '')]) !== undefined,
      );
      const guess = near.length === 0 ? '' : ` Did you mean ${near.join(' or ')}?`;
      const meant = known === undefined ? guess : `\n  ${known}`;
      return `jobman: there is no command \`${input}\`.${meant}\n  \`jobman --help\` lists them.`;
    },
  };
}

const mistakes = {
  AliasNotFoundError,
  ArgumentParseError,
  EnumValidationError,
  FlagNotFoundError,
  InvalidNegatedFlagSyntaxError,
  UnexpectedFlagError,
  UnexpectedPositionalError,
  UnsatisfiedFlagError,
  UnsatisfiedPositionalError,
};

// The framework tells mistakes apart by the names of their classes, which the bundle has shortened.
for (const [name, kind] of Object.entries(mistakes)) Object.defineProperty(kind, 'name', { value: name });

/** What is wrong with a command line, in our words; the framework's for the rest. */
function linesFor(first: string | undefined): ApplicationText {
  return {
    ...text_en,
    exceptionWhileParsingArguments(error) {
      return `jobman: ${formatMessageForArgumentScannerError(error as never, {
        FlagNotFoundError: ({ input }) => {
          const meant = meantFlag(input, first);
          return `there is no flag --${input}.${meant === undefined ? '' : ` Did you mean ${meant}?`}`;
        },
        AliasNotFoundError: ({ input }) => `there is no flag -${input}.`,
        ArgumentParseError: ({ externalFlagNameOrPlaceholder: name, input, exception }) =>
          isMark(name, first)
            ? `--${name} takes no value, and \`${input}\` was given.`
            : `${asTyped(name, first)} \`${input}\`: ${exception instanceof Error ? exception.message : String(exception)}.`,
        EnumValidationError: ({ externalFlagName, input, values }) =>
          `--${externalFlagName} \`${input}\`: expected one of ${values.join(', ')}.`,
        UnsatisfiedFlagError: ({ externalFlagName }) => `--${externalFlagName} needs a value.`,
        UnexpectedPositionalError: ({ input }) => `\`${input}\` is one word too many.`,
        UnsatisfiedPositionalError: ({ placeholder }) => `<${placeholder}> is missing.`,
        InvalidNegatedFlagSyntaxError: ({ externalFlagName, valueText }) =>
          `--${externalFlagName} takes no value, and \`${valueText}\` was given.`,
        UnexpectedFlagError: ({ externalFlagName, previousInput, input }) =>
          isMark(externalFlagName, first)
            ? `--${externalFlagName} was given twice.`
            : `--${externalFlagName} was given twice: \`${previousInput}\` and \`${input}\`.`,
      })}`;
    },
    exceptionWhileRunningCommand: (error) => ourMistake(error),
    exceptionWhileLoadingCommandFunction: (error) => ourMistake(error),
  };
}

/** The flag of the command that was most likely meant, with its dashes: a word of another tool first, then a similar one. */
function meantFlag(input: string, first: string | undefined): string | undefined {
  const flags = table
    .filter((one) => isNamed(one, first ?? '') || one.path.split(' ')[0] === first)
    .flatMap((entry) => Object.keys({ ...entry.flags, ...globalFlags }));
  const names = [...new Set(flags)].map(flagName);
  const known = otherFlags(input).find((name) => names.includes(name));
  if (known !== undefined) return known;
  const near = didYouMean(
    input,
    names.map((name) => name.slice(2)),
  );
  return near === undefined ? undefined : `--${near}`;
}

/** A flag's name with its dashes; the word for an argument as it is. */
function asTyped(name: string, first: string | undefined): string {
  return flagOf(name, first) === undefined ? name : `--${name}`;
}

/** True of a flag that says yes by being there. */
function isMark(name: string, first: string | undefined): boolean {
  return flagOf(name, first)?.kind === 'boolean';
}

/** The flag of this name, as it is typed: of the commands that begin with that word, else of any. */
function flagOf(name: string, first: string | undefined): Flag | undefined {
  const isMeant = (one: Entry): boolean => isNamed(one, first ?? '') || one.path.split(' ')[0] === first;
  const all = [
    globalFlags as Readonly<Record<string, Flag>>,
    ...table.filter(isMeant).map(({ flags }) => flags),
    ...table.map(({ flags }) => flags),
  ];
  return all.flatMap(Object.entries<Flag>).find(([flag]) => flagName(flag) === `--${name}`)?.[1];
}

function ourMistake(error: unknown): string {
  const where = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return `jobman stopped because of a mistake of its own:\n${where}`;
}
