// The table of commands as an application of the framework (stricli), with our words and our exit codes.

import {
  buildApplication,
  buildCommand,
  buildRouteMap,
  ExitCode,
  formatMessageForArgumentScannerError,
  text_en,
  type Application,
  type ApplicationText,
  type Command,
  type RouteMap,
} from '@stricli/core';
import { exitCode, JobmanError } from '../app/errors.ts';
import { complainAbout, createCli, type GlobalFlags } from './context.ts';
import { globalFlags, globalLetters, type Context, type Entry } from './entry.ts';
import { flagName, groups, helpText, type HelpFacts } from './help.ts';
import { table } from './table.ts';

const facts: HelpFacts = { table, flags: globalFlags as HelpFacts['flags'], letters: globalLetters };

/** Every command, each of which loads its own file when it runs. */
export function createApplication(): Application<Context> {
  return buildApplication<Context>(
    rootOf(table),
    {
      name: 'jobman',
      scanner: { caseStyle: 'allow-kebab-for-camel', allowArgumentEscapeSequence: true },
      documentation: { caseStyle: 'convert-camel-to-kebab' },
      completion: { includeAliases: false },
      localization: { text },
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
            this.process.stdout.write(helpText(facts, result.prefix.slice(1).join(' ')));
          },
        },
      },
    },
  );
}

/** What the framework's own codes mean in the table of app/errors.ts. Our commands hand theirs to `Context.ended`. */
export function exitCodeOf(frameworkCode: number): number {
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

/**
 * Flags that stand before the command's word are put behind it, where the framework reads them; a happening in the
 * built-in cloud (`emulator preempt 1`) becomes the words of `emulator act`, because its flags are the cloud's own.
 */
export function arrange(argv: readonly string[]): readonly string[] {
  const before = leadingFlags(argv);
  const rest = argv.slice(before.length);
  const words = wordsOfCommand(rest);
  const [group, verb] = rest;
  if (group === 'emulator' && words === 1 && verb !== undefined && !verb.startsWith('-')) {
    // Behind `--` the framework reads nothing, not even a wish for help.
    const wantsHelp = rest.includes('--help') || rest.includes('-h');
    return wantsHelp ? [group, 'act', '--help'] : [group, 'act', ...before, '--', ...rest.slice(1)];
  }
  return [...rest.slice(0, words), ...before, ...rest.slice(words)];
}

/** The command that these words begin with; undefined when it is none of the table. */
export function commandIn(argv: readonly string[]): string | undefined {
  const words = argv.slice(0, wordsOfCommand(argv)).join(' ');
  return table.find((entry) => entry.path === words || entry.alias === words)?.path;
}

function leadingFlags(argv: readonly string[]): readonly string[] {
  let count = 0;
  for (let at = 0; at < argv.length; at = count) {
    const word = argv[at] ?? '';
    const [name = ''] = word.replace(/^--?/, '').split('=');
    const letter = (globalLetters as Readonly<Record<string, string>>)[name];
    const flag = facts.flags[word.startsWith('--') ? name : (letter ?? '')];
    if (!word.startsWith('-') || flag === undefined) break;
    count += flag.kind === 'boolean' || word.includes('=') ? 1 : 2;
  }
  return argv.slice(0, count);
}

/** How many of the first words name a command of the table. */
function wordsOfCommand(argv: readonly string[]): number {
  const [first = '', second = ''] = argv;
  if (table.some((entry) => entry.path === `${first} ${second}`)) return 2;
  return argv.length === 0 ? 0 : 1;
}

function rootOf(entries: readonly Entry[]): RouteMap<Context> {
  const routes: Record<string, Command<Context> | RouteMap<Context>> = {};
  const aliases: Record<string, string> = {};
  for (const entry of entries) {
    const [first = '', second] = entry.path.split(' ');
    if (second === undefined) routes[first] = commandOf(entry);
    else routes[first] ??= groupOf(first, entries);
    if (entry.alias !== undefined) aliases[entry.alias] = entry.path;
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
        const cli = createCli(this.services, flags);
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

/** Our words for what is wrong with a command line; the framework's for the rest. */
const text: ApplicationText = {
  ...text_en,
  noCommandRegisteredForInput({ input, corrections }) {
    const meant = corrections.length === 0 ? '' : ` Did you mean ${corrections.join(' or ')}?`;
    return `jobman: there is no command \`${input}\`.${meant}\n  \`jobman --help\` lists them.`;
  },
  exceptionWhileParsingArguments(error) {
    return `jobman: ${formatMessageForArgumentScannerError(error as never, {
      FlagNotFoundError: ({ input, corrections }) =>
        `there is no flag --${input}.${corrections.length === 0 ? '' : ` Did you mean ${corrections.map((name) => `--${name}`).join(' or ')}?`}`,
      AliasNotFoundError: ({ input }) => `there is no flag -${input}.`,
      ArgumentParseError: ({ externalFlagNameOrPlaceholder: name, input, exception }) =>
        `${asTyped(name)} \`${input}\`: ${exception instanceof Error ? exception.message : String(exception)}.`,
      EnumValidationError: ({ externalFlagName, input, values }) =>
        `--${externalFlagName} \`${input}\`: expected one of ${values.join(', ')}.`,
      UnsatisfiedFlagError: ({ externalFlagName }) => `--${externalFlagName} needs a value.`,
      UnexpectedPositionalError: ({ input }) => `\`${input}\` is one word too many.`,
      UnsatisfiedPositionalError: ({ placeholder }) => `<${placeholder}> is missing.`,
      InvalidNegatedFlagSyntaxError: ({ externalFlagName, valueText }) =>
        `--${externalFlagName} takes no value, and \`${valueText}\` was given.`,
      UnexpectedFlagError: ({ externalFlagName, previousInput, input }) =>
        `--${externalFlagName} was given twice: \`${previousInput}\` and \`${input}\`.`,
    })}`;
  },
  exceptionWhileRunningCommand: (error) => ourMistake(error),
  exceptionWhileLoadingCommandFunction: (error) => ourMistake(error),
};

/** A flag's name with its dashes; the word for an argument as it is. */
function asTyped(name: string): string {
  const isFlag = table.some(({ flags }) => Object.keys(flags).some((flag) => flagName(flag) === `--${name}`));
  return isFlag ? `--${name}` : name;
}

function ourMistake(error: unknown): string {
  const where = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return `jobman stopped because of a mistake of its own:\n${where}`;
}
