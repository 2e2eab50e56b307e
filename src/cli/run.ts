// The command line from outside: arguments in, exit code out.

import { exitCode, exitCodeAfter } from '../app/errors.ts';
import type { Services } from '../app/services.ts';
import type { LabServices } from '../lab/lab.ts';
import { lookWord } from '../app/version-check.ts';
import { withHarmlessOutput } from './output.ts';
import { runTpu } from './tpu/run-tpu.ts';

type Given = Services & Partial<LabServices>;

/**
 * Runs one command and resolves with its exit code (app/errors.ts). Throws for our own bugs only. Reads nothing and
 * starts nothing beyond what the command needs; on a terminal it may end with a line about a newer version.
 */
export async function run(argv: readonly string[], given: Given): Promise<number> {
  let left: number = exitCode.interrupted;
  const services = withHarmlessOutput(given, (signal) => (left = exitCodeAfter(signal)));
  const ended = await runWord(argv, services);
  const code = ended === exitCode.interrupted ? left : ended;
  if (isRead(argv, services) && ended !== exitCode.interrupted) {
    const sentence = await services.newerVersion();
    if (sentence !== null) services.io.stderr.write(`${sentence}\n`);
  }
  return code;
}

/**
 * Whether somebody sits there who would read a remark. A script is neither told nor made to look; and while a pager shows what
 * is printed, the screen is the pager's.
 */
function isRead([first = '', ...rest]: readonly string[], { io }: Services): boolean {
  if (first.startsWith('__') || !io.stdout.isTerminal || !io.stderr.isTerminal) return false;
  const end = rest.indexOf('--');
  const flags = [first, ...(end < 0 ? rest : rest.slice(0, end))];
  return !flags.some((word) => ['-q', '--quiet', '--json'].includes(word));
}

async function runWord(argv: readonly string[], services: Given): Promise<number> {
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
    case lookWord: {
      const [settings] = rest;
      if (settings !== undefined) services.useSettings(settings);
      await services.lookForVersion();
      return exitCode.ok;
    }
    case 'help':
      // `help --help` is about `help` itself, as is `help help`.
      return rest.some((word) => word === '--help' || word === '-h')
        ? runWordOfTable(argv, services)
        : runWord([...rest, '--help'], services);
    case '__complete':
      if (rest[0] === 'tpu' && rest.length > 1) return runWord(['tpu', '__complete', ...rest.slice(1)], services);
      return (await import('./complete.ts')).propose(rest, services);
    case 'tpu': {
      if (!hasLab(services)) throw new Error('`tpu` was called where no lab was handed in');
      return runTpu(rest, services);
    }
    default:
      return runWordOfTable(argv, services);
  }
}

function hasLab(services: Given): services is LabServices {
  return services.lab !== undefined;
}

/** The table of commands is loaded here, since `tpu` has one of its own. */
async function runWordOfTable(argv: readonly string[], services: Services): Promise<number> {
  const { dispatch } = await import('./dispatch.ts');
  return dispatch(argv, services);
}

function firstSteps(version: string): string {
  return [
    `jobman ${version}`,
    '',
    'A first job',
    '  on a TPU of the built-in cloud  jobman create --config=configs/quick-start.yaml --follow',
    '  on this machine                 jobman create configs/local.yaml --follow',
    '  on Kubernetes                   jobman submit -i alpine -r no-gpu --follow -- ls -al /',
    '',
    'Then',
    '  your jobs                       jobman list',
    '  why one waits or has failed     jobman why 1',
    '  all commands                    jobman --help',
    '  of a lab that shares its TPUs   tpu help',
    '',
  ].join('\n');
}
