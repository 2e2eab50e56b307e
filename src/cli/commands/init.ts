import { existsSync, writeFileSync } from 'node:fs';
import { basename, dirname, resolve } from 'node:path';
import { stringify } from 'yaml';
import { exitCode, JobmanError, messageOf, usageError } from '../../app/errors.ts';
import { findAccelerator, suggestAccelerator } from '../../catalogue/accelerators.ts';
import { zonesOffering } from '../../catalogue/zones.ts';
import { loadManifest } from '../../manifest/parse.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { withFile } from '../disk.ts';
import { ask } from '../prompt.ts';
import type { InitFlags } from '../table/flags.ts';

/** Asks at most three questions. The written manifest passes `validate`. */
export async function init(cli: Cli, flags: InitFlags & GlobalFlags, file = 'jobman.yaml'): Promise<number> {
  const path = resolve(cli.io.cwd, file);
  if (file === '') throw usageError('The path of the manifest is empty.');
  const exists = new JobmanError(`${file} exists; nothing was written.`, exitCode.conflict, [
    'Another name: jobman init NAME.yaml',
  ]);
  if (existsSync(path)) throw exists;
  if (!existsSync(dirname(path))) throw new JobmanError(`There is no folder ${dirname(file)}.`, exitCode.notFound);
  const question = 'Where does the job run? A TPU type such as v4-16, emulator, or local';
  const accelerator =
    flags.accelerator === undefined
      ? await askUntilValid(cli, question, '--accelerator', 'emulator', checkAccelerator)
      : checkAccelerator(flags.accelerator);
  if (accelerator === 'local' && (flags.project ?? flags.zone) !== undefined) {
    throw usageError('--project and --zone choose a TPU; a local job runs on this machine.');
  }
  if (accelerator === 'emulator' && (flags.project ?? 'emulator') !== 'emulator') {
    throw usageError('--project and the TPU emulator exclude each other: its project is `emulator`.');
  }
  const command = flags.command ?? (await ask(cli, 'Which command?', '--command', 'python3 train.py'));
  if (command.trim() === '') throw usageError('The command is empty.');
  const where = accelerator === 'local' ? 'A folder' : 'A bucket (gs://my-bucket/folder), or - for none';
  const asksCheckpoints =
    flags.checkpoints === undefined && (flags.accelerator === undefined || flags.command === undefined);
  const checkpoints =
    flags.checkpoints ??
    (asksCheckpoints
      ? await askUntilValid(
          cli,
          `Where do checkpoints go? ${where}`,
          '--checkpoints',
          accelerator === 'local' ? 'checkpoints' : '-',
          (answer) => checkCheckpoints(accelerator, answer),
        )
      : '-');
  const name =
    flags.name ??
    (basename(cli.io.cwd)
      .replaceAll(/[^\w.-]+/g, '-')
      .replace(/^[-\d]+/, '')
      .slice(0, 100) ||
      'my-job');
  const text = await manifestOf(cli, {
    ...flags,
    accelerator,
    command,
    checkpoints: checkpoints === '-' ? null : checkpoints,
    name,
  });
  await checkWritten(cli, path, text);
  try {
    writeFileSync(path, text, { flag: 'wx' });
  } catch (error) {
    // A link to a file that is missing is no file for existsSync.
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') throw exists;
    throw new JobmanError(`${file} cannot be written: ${messageOf(error)}.`, exitCode.failed);
  }
  cli.printResult({ file: path, name, accelerator }, `Wrote ${file}.`);
  cli.note(`Check: jobman validate ${file} · Start: jobman create ${file} --follow`);
  return exitCode.ok;
}

/** Asks again after an invalid answer. */
async function askUntilValid(
  cli: Cli,
  question: string,
  flag: string,
  fallback: string,
  check: (answer: string) => string,
): Promise<string> {
  for (;;) {
    const answer = await ask(cli, question, flag, fallback);
    try {
      return check(answer);
    } catch (error) {
      if (!(error instanceof JobmanError)) throw error;
      cli.printStderr(error.message);
    }
  }
}

/** Throws a usage error if `create` would refuse the manifest, for example because of its name. */
async function checkWritten({ io, services }: Cli, path: string, text: string): Promise<void> {
  const { tpu } = await services.settings();
  const found = loadManifest({
    file: path,
    cwd: io.cwd,
    sets: [],
    home: io.userHome,
    env: io.env,
    files: withFile(path, text),
    project: tpu.project,
    purpose: 'create',
  });
  if (!('problems' in found)) return;
  throw usageError(
    'The manifest would be invalid; nothing was written.',
    found.problems.map(({ path: key, message }) => `${key}: ${message}`),
  );
}

function checkAccelerator(typed: string): string {
  const text = typed.trim().toLowerCase();
  if (text === 'local' || text === 'emulator' || findAccelerator(text) !== undefined) return text;
  const near = suggestAccelerator(text);
  throw usageError(`"${typed}" is no TPU type${near === undefined ? '' : ` (did you mean ${near}?)`}.`, [
    'Expected a type such as v4-16 or v5litepod-16, `emulator`, or `local`. GPUs are available in Kubernetes: jobman submit --gpus 1',
  ]);
}

function bucketIn(checkpoints: string | null): RegExpExecArray | null {
  return /^gs:\/\/([^/]+)\/?(.*)$/.exec(checkpoints ?? '');
}

function checkCheckpoints(accelerator: string, checkpoints: string): string {
  if (checkpoints === '-') return checkpoints;
  const bucket = bucketIn(checkpoints);
  if (bucket === null && /^gs:|^\w+:\/\//.test(checkpoints)) {
    throw usageError(`"${checkpoints}" is no bucket: expected gs://my-bucket or gs://my-bucket/folder.`);
  }
  if (accelerator !== 'local' && bucket === null) {
    throw usageError(`"${checkpoints}" is no bucket: expected gs://my-bucket/folder, or - for none.`);
  }
  if (accelerator === 'local' && bucket !== null) {
    throw usageError('A local job writes its checkpoints to a folder: --checkpoints checkpoints');
  }
  return checkpoints;
}

interface Choices extends Omit<InitFlags, 'checkpoints'> {
  readonly accelerator: string;
  readonly command: string;
  readonly checkpoints: string | null;
  readonly name: string;
}

async function manifestOf(cli: Cli, choices: Choices): Promise<string> {
  const { accelerator, command, checkpoints, name } = choices;
  if (checkpoints !== null) checkCheckpoints(accelerator, checkpoints);
  const bucket = bucketIn(checkpoints);
  const folder = bucket === null ? checkpoints : `~/bucket/${bucket[2] === '' ? 'checkpoints' : bucket[2]}`;
  const line = (key: string, value: string, comment: string): string =>
    `  ${yamlOf({ [key]: value }).padEnd(40)} # ${comment}`;
  const saves =
    folder === null
      ? ['  # checkpoint_dir: ~/bucket/checkpoints   # without one, a preempted job starts over']
      : [line('checkpoint_dir', folder, 'each job has its own folder below it: $JOBMAN_CHECKPOINT_DIR')];
  const head = [
    '# A job of jobman. Keys: docs/configuration.md. Check it with: jobman validate FILE',
    'job:',
    line('name', name, 'shown in lists, and used in commands'),
  ];
  const run = [yamlOf({ command: { run: command } })];
  if (accelerator === 'local') {
    return [
      ...head,
      ...saves,
      '',
      'local:',
      line('workdir', '.', 'the command starts here, relative to this file'),
      '',
      ...run,
      '',
      '# recovery: "loop: failures"              # start a failed job again from its last checkpoint',
      '',
    ].join('\n');
  }
  const { project, type, zone } = await placement(cli, choices);
  return [
    ...head,
    line('workdir', '.', 'copied to every worker; the command starts in the copy'),
    ...saves,
    '  # env:                                   # environment variables of the command',
    '  #   WANDB_MODE: offline',
    '',
    'tpu:',
    line(
      'project',
      project,
      project === 'emulator' ? 'TPUs are simulated and free; for real ones, your project' : 'your Google Cloud project',
    ),
    line('accelerator', type, 'type and size of the TPU'),
    line('zone', zone, 'keep the bucket in the same region'),
    line('pricing', 'spot', 'spot | ondemand; a preempted spot job resumes on a new TPU'),
    '',
    ...(bucket === null
      ? []
      : [
          'gcsfuse:',
          line('bucket_name', bucket[1] ?? '', 'mounted on every worker'),
          line('mount_path', '~/bucket', 'where it appears'),
          '',
        ]),
    ...run,
    '',
  ].join('\n');
}

/** Long lines are not folded. A text of several lines is quoted, so that a comment can follow it. */
function yamlOf(value: object): string {
  return stringify(value, { lineWidth: 0, blockQuote: false }).trimEnd();
}

async function placement(
  cli: Cli,
  { accelerator, project, zone }: Choices,
): Promise<{ readonly project: string; readonly type: string; readonly zone: string }> {
  const type = accelerator === 'emulator' ? 'v4-16' : accelerator;
  const found = findAccelerator(type);
  const offered = zone ?? (found === undefined ? undefined : zonesOffering(found)[0]);
  const { tpu } = await cli.services.settings();
  const isEmulated = accelerator === 'emulator';
  return {
    project: project ?? (isEmulated ? 'emulator' : (tpu.project ?? 'my-project')),
    type,
    zone: offered ?? 'us-central2-b',
  };
}
