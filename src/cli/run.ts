// The command line from outside: arguments in, exit code out.

import { exitCode } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import { helpFor } from './help.ts';
import { columnsOf } from './screen.ts';

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
    default: {
      // Help is made of the table alone; the framework would be most of its time.
      const help = helpFor(argv, columnsOf(io.stdout));
      if (help === undefined) return runCommand(argv, services);
      io.stdout.write(help);
      return exitCode.ok;
    }
  }
}

async function runCommand(argv: readonly string[], services: Services): Promise<number> {
  const { propose, scanAndRun } = await import('./application.ts');
  return argv[0] === '__complete' ? propose(argv.slice(1), services) : scanAndRun(argv, services);
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
