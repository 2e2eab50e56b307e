// The command line from outside: arguments in, exit code out.

import { proposeCompletions, run as runApplication } from '@stricli/core';
import { exitCode } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import { arrange, commandIn, createApplication, exitCodeOf } from './application.ts';
import type { Context } from './entry.ts';

/**
 * Runs one command and resolves with its exit code (app/errors.ts). Throws for our own bugs only. Reads nothing and
 * starts nothing beyond what the command needs.
 */
export async function run(argv: readonly string[], services: Services): Promise<number> {
  const { io } = services;
  const [first, ...rest] = argv;
  switch (first) {
    case undefined:
      io.stdout.write(firstSteps(io.version));
      return exitCode.ok;
    case '-v':
    case '--version':
      io.stdout.write(`jobman ${io.version}\n`);
      return exitCode.ok;
    case 'help':
      return run([...rest, '--help'], services);
    case '__complete':
      return propose(rest, services);
    default:
      return runCommand(argv, services);
  }
}

function firstSteps(version: string): string {
  return [
    `jobman ${version}`,
    '',
    'Run the example:  jobman create --config=configs/quick-start.yaml --follow',
    'See your jobs:    jobman list',
    'All commands:     jobman --help',
    '',
  ].join('\n');
}

async function runCommand(argv: readonly string[], services: Services): Promise<number> {
  const empty = flagWithoutValue(argv);
  if (empty !== undefined) {
    services.io.stderr.write(`jobman: ${empty} has nothing after the equals sign.\n`);
    return exitCode.usage;
  }
  const inputs = arrange(argv);
  let ownCode: number | undefined;
  const context = contextFor(services, (code) => {
    ownCode = code;
  });
  await runApplication(createApplication(), inputs, context);
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
async function propose(words: readonly string[], services: Services): Promise<number> {
  const inputs = words.length === 0 ? [''] : words;
  const proposals = await proposeCompletions(
    createApplication(),
    inputs,
    contextFor(services, () => {}),
  );
  // Flags are proposed to whoever begins one; between jobs and file names they are in the way.
  const wantsFlag = inputs.at(-1)?.startsWith('-') === true;
  const wanted = proposals.filter(({ completion }) => completion.startsWith('-') === wantsFlag);
  services.io.stdout.write(wanted.map(({ completion, brief }) => `${completion}\t${brief}\n`).join(''));
  return exitCode.ok;
}

function contextFor(services: Services, ended: (code: number) => void): Context & { process: { exitCode?: number } } {
  const { io } = services;
  // No colour depth: the framework would colour whole messages.
  return {
    process: {
      stdout: { write: (text) => io.stdout.write(text) },
      stderr: { write: (text) => io.stderr.write(text) },
    },
    services,
    ended,
  };
}
