// `jobman run FILE` creates the job of a manifest; `jobman run -- CMD` a local job from a command line.

import { quote } from '../../catalogue/shell.ts';
import { basename, extname, join, resolve } from 'node:path';
import { stringify } from 'yaml';
import { usageError } from '../../app/errors.ts';
import type { Io } from '../../app/services.ts';
import { omitUndefined } from '../../core/model/omit-undefined.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { disk, withFile } from '../disk.ts';
import type { CreateFlags } from '../table/flags.ts';
import { create, createFrom, interpreterOf } from './create.ts';

export async function run(cli: Cli, flags: CreateFlags & GlobalFlags, ...args: readonly string[]): Promise<number> {
  const { argsAfterDash: command, io } = cli;
  const [file, unexpected] = args.slice(0, args.length - command.length);
  if (command.length === 0) {
    const program = file === undefined ? undefined : interpreterOf(file);
    if (file !== undefined && program !== undefined) {
      throw usageError(`${file} is not a manifest.`, [
        `To run it as a local job: jobman run -- ${[program, ...args.map(quote)].join(' ')}`,
      ]);
    }
    if (unexpected !== undefined) {
      throw usageError(`Unexpected argument "${unexpected}".`, [
        `To run a command as a job: jobman run -- ${args.map(quote).join(' ')}`,
      ]);
    }
    if (file === undefined && flags.config === undefined) {
      throw usageError('What should run? A manifest or a command.', [
        'jobman run train.yaml          creates the job of a manifest',
        'jobman run -- python3 train.py creates a local job',
      ]);
    }
    if (file !== undefined && disk.inspect(join(io.cwd, file)).kind === 'absent' && !/\.ya?ml$/i.test(file)) {
      throw usageError(`There is no manifest "${file}".`, [
        `jobman continue ${file}    starts an existing job and follows it`,
      ]);
    }
    return create(cli, flags, file);
  }
  if (file !== undefined) {
    throw usageError(`Unexpected argument "${file}": \`run --\` creates a local job without a manifest.`);
  }
  for (const flag of ['config', 'namespace', 'context'] as const) {
    if (flags[flag] !== undefined)
      throw usageError(`--${flag} does not work with \`run --\`, which creates a local job.`);
  }
  if (command.length === 1 && command[0]?.trim() === '') throw usageError('The command is empty.');
  checkProgram(io, command);
  const path = join(io.cwd, 'jobman-run.yaml');
  const text = stringify({
    job: { name: nameOf(command) },
    local: { workdir: io.cwd },
    command: { run: command.length === 1 ? command[0] : command.map(quote).join(' ') },
  });
  return createFrom(cli, omitUndefined(flags), path, withFile(path, text));
}

const shellBuiltins = '. : cd command eval exec exit export set source test time trap ulimit umask unset wait'.split(
  ' ',
);

/** A job whose program does not exist would fail at once. Lines for the shell are not checked. */
function checkProgram({ cwd, env }: Io, [program = '', ...args]: readonly string[]): void {
  const isLine = args.length === 0 && !/^[\w./-]+$/.test(program);
  if (isLine || env['PATH'] === undefined || shellBuiltins.includes(program)) return;
  const folders = program.includes('/') ? [cwd] : env['PATH'].split(':').map((folder) => resolve(cwd, folder));
  const files = folders.map((folder) => disk.inspect(resolve(folder, program)));
  if (files.some(({ kind }) => kind !== 'absent' && kind !== 'folder')) return;
  throw usageError(
    program.includes('/') ? `There is no program ${program}.` : `There is no program ${program} on PATH.`,
  );
}

/** `train` for `LR=0.1 python3 train.py`, `ls` for `ls -l`, `pytest` for `python3 -m pytest`. */
function nameOf(command: readonly string[]): string {
  const args = command.length === 1 ? (command[0] ?? '').trim().split(/\s+/) : command;
  const start = args.findIndex((arg) => !/^\w+=/.test(arg));
  const [first = '', ...rest] = args.slice(Math.max(start, 0));
  const isInterpreter = /^(python[\d.]*|bash|sh|node|uv|torchrun|env)$/.test(basename(first));
  const script = isInterpreter ? rest.find((arg) => /\.(py|sh|m?js|ts)$/.test(arg)) : undefined;
  const module = isInterpreter && rest[0] === '-m' ? rest[1] : undefined;
  const program = script ?? module ?? first;
  const name = basename(program, script === undefined ? '' : extname(program))
    .replaceAll(/[^\w.-]+/g, '-')
    .replace(/^-+/, '');
  return /^\d{0,6}$/.test(name) ? `job-${name}` : name.slice(0, 100);
}
