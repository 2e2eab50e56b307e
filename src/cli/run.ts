import { existsSync } from 'node:fs';
import { join, relative } from 'node:path';
import { exitCode, exitCodeAfter } from '../app/errors.ts';
import { packageFolder } from '../files/files.ts';
import { quote } from '../catalogue/shell.ts';
import type { Io, Services } from '../app/services.ts';
import type { LabServices } from '../lab/lab.ts';
import { checkVersionArgument } from '../app/version-check.ts';
import { withSanitizedOutput } from './output.ts';
import { runTpu } from './tpu/run-tpu.ts';

type AnyServices = Services & Partial<LabServices>;

/** Resolves with an exit code of app/errors.ts. Throws only for bugs. Starts nothing that the command does not need. */
export async function run(argv: readonly string[], given: AnyServices): Promise<number> {
  let interruptCode: number = exitCode.interrupted;
  const services = withSanitizedOutput(given, (signal) => (interruptCode = exitCodeAfter(signal)));
  const ended = await runCommand(argv, services);
  const code = ended === exitCode.interrupted ? interruptCode : ended;
  if (isInteractive(argv, services) && ended !== exitCode.interrupted) {
    const sentence = await services.newerVersion();
    if (sentence !== null) services.io.stderr.write(`${sentence}\n`);
  }
  return code;
}

/** A script gets no version check; and while a pager shows the output, the screen belongs to the pager. */
function isInteractive([first = '', ...rest]: readonly string[], { io }: Services): boolean {
  if (first.startsWith('__') || !io.stdout.isTerminal || !io.stderr.isTerminal) return false;
  const end = rest.indexOf('--');
  const flags = [first, ...(end < 0 ? rest : rest.slice(0, end))];
  return !flags.some((arg) => ['-q', '--quiet', '--json', 'json'].includes(arg));
}

async function runCommand(argv: readonly string[], services: AnyServices): Promise<number> {
  const { io } = services;
  const [first, ...rest] = argv;
  switch (first) {
    case undefined:
      io.stdout.write(firstSteps(io));
      return exitCode.ok;
    case '-v':
    case '-V':
    case '--version':
      if (rest.length > 0) return runTableCommand(['version', ...rest], services);
      io.stdout.write(`jobman ${io.version}\n`);
      return exitCode.ok;
    case checkVersionArgument: {
      const [settings] = rest;
      if (settings !== undefined) services.useSettings(settings);
      await services.checkVersion();
      return exitCode.ok;
    }
    case 'help':
      // `help --help` shows the help of `help`, as `help help` does.
      return rest.some((arg) => arg === '--help' || arg === '-h')
        ? runTableCommand(argv, services)
        : runCommand([...rest, '--help'], services);
    case '__complete':
      if (rest[0] === 'tpu' && rest.length > 1) return runCommand(['tpu', '__complete', ...rest.slice(1)], services);
      return (await import('./complete.ts')).propose(rest, services);
    case 'tpu': {
      if (!hasLab(services)) throw new Error('`tpu` needs the services of the lab');
      return runTpu(rest, services);
    }
    default:
      return runTableCommand(argv, services);
  }
}

function hasLab(services: AnyServices): services is LabServices {
  return services.lab !== undefined;
}

/** Loads the table of commands here, since `tpu` has its own. */
async function runTableCommand(argv: readonly string[], services: Services): Promise<number> {
  const { dispatch } = await import('./dispatch.ts');
  return dispatch(argv, services);
}

/** The example that jobman brings, as the shell finds it from the current folder. */
function examplePath({ launcher, cwd }: Io): string {
  const name = 'configs/quick-start.yaml';
  const path = join(packageFolder(launcher.at(-1) ?? ''), name);
  if (!existsSync(path)) return name;
  const fromHere = relative(cwd, path);
  return quote(fromHere.startsWith('..') ? path : fromHere);
}

function firstSteps(io: Io): string {
  return [
    `jobman ${io.version}`,
    '',
    'A first job',
    `  on the TPU emulator       jobman create ${examplePath(io)} --follow`,
    '  on this machine           jobman run --follow -- echo hello',
    '  on Kubernetes             jobman submit -i alpine -r no-gpu --follow -- ls -al /',
    '  your own program          jobman init',
    '',
    'Then',
    '  list your jobs            jobman list',
    '  why a job waits or failed jobman why 1',
    '  all commands              jobman --help',
    '  labs that share TPUs      tpu help',
    '',
  ].join('\n');
}
