import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { stringify } from 'yaml';
import { exitCode, JobmanError, messageOf, usageError } from '../../app/errors.ts';
import { findAccelerator, suggestAccelerator } from '../../catalogue/accelerators.ts';
import { zonesOffering } from '../../catalogue/zones.ts';
import { emulatorProject, isOwnHost, ownHost, type HostName } from '../../core/model/spec.ts';
import { hostsOf } from '../../app/hosts.ts';
import { didYouMean } from '../../catalogue/did-you-mean.ts';
import { placeholderProject } from '../../manifest/capacity.ts';
import { loadManifest } from '../../manifest/parse.ts';
import type { Cli, GlobalFlags } from '../context.ts';
import { withFile } from '../disk.ts';
import { askUntilValid, canAsk } from '../prompt.ts';
import type { InitFlags } from '../table/flags.ts';

/** The written manifest passes `validate`. */
export async function init(cli: Cli, flags: InitFlags & GlobalFlags, file = 'jobman.yaml'): Promise<number> {
  const path = resolve(cli.io.cwd, file);
  checkFile(path, file);
  const choices = await choose(cli, flags, path);
  const text = manifestOf(choices);
  const problems = await problemsIn(cli, path, text);
  if (problems.length > 0) throw usageError('The manifest would be invalid; nothing was written.', problems);
  try {
    writeFileSync(path, text, { flag: 'wx' });
  } catch (error) {
    // A link to a file that is missing is not a file for existsSync.
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') throw fileExists(file);
    throw new JobmanError(`${file} cannot be written: ${messageOf(error)}.`, exitCode.failed);
  }
  const { name, accelerator } = choices;
  cli.printResult({ file: path, name, accelerator }, `Wrote ${file}.`);
  cli.note(`Check: jobman validate ${file} · Start: jobman create ${file} --follow`);
  return exitCode.ok;
}

function checkFile(path: string, file: string): void {
  if (file === '') throw usageError('The path of the manifest is empty.');
  if (existsSync(path)) throw fileExists(file);
  if (!existsSync(dirname(path))) throw new JobmanError(`There is no folder ${dirname(file)}.`, exitCode.notFound);
}

function fileExists(file: string): JobmanError {
  return new JobmanError(`${file} exists; nothing was written.`, exitCode.conflict, [
    'Another name: jobman init NAME.yaml',
  ]);
}

interface Choices {
  readonly name: string;
  readonly accelerator: string;
  readonly command: string;
  /** The user's own machines; empty for a TPU. */
  readonly hosts: readonly HostName[];
  /** Null on own machines. */
  readonly project: string | null;
  readonly zone: string | undefined;
  readonly checkpoints: string | null;
}

/** Uses the flags, and asks the user for the rest. With --accelerator and --command it asks nothing. */
async function choose(cli: Cli, flags: InitFlags & GlobalFlags, path: string): Promise<Choices> {
  const asks = !cli.yes && (flags.accelerator === undefined || flags.command === undefined);
  const choice = async (typed: string | undefined, question: Question): Promise<string> => {
    if (typed !== undefined) return question.check(typed);
    return asks ? answerTo(cli, question) : question.proposal;
  };
  const check = async (key: string, value: string, manifest: object): Promise<string> => {
    const problems = await problemsIn(cli, path, yamlOf(manifest));
    const found = problems.find((problem) => problem.startsWith(`${key}: `));
    if (found !== undefined) throw usageError(`${found}.`);
    return value;
  };

  const name = flags.name ?? defaultName(cli.io.cwd);
  await check('job.name', name, { job: { name }, local: {}, command: { run: 'true' } });
  const known = hostsOf(await cli.services.settings()).map((host) => host.name);
  const accelerator = await choice(flags.accelerator, acceleratorQuestion(known));
  const hosts = hostsIn(accelerator, known);
  const isOwn = hosts.length > 0;
  checkProjectFlags(accelerator, isOwn, flags);
  const command = await choice(flags.command, {
    text: 'Which command?',
    flag: '--command',
    proposal: 'python3 train.py',
    check: (run) => check('command.run', run, { local: {}, command: { run } }),
  });
  const ownProject = async (): Promise<string> =>
    choice(flags.project, {
      text: 'Which Google Cloud project?',
      flag: '--project',
      proposal: (await knownProject(cli)) ?? (asks ? '' : placeholderProject),
      check: (id) => {
        if (id === '') throw usageError('A TPU needs a Google Cloud project, such as my-project-1234.');
        return check('tpu.project', id, { tpu: { project: id, accelerator } });
      },
    });
  const project = isOwn ? null : accelerator === 'emulator' ? emulatorProject : await ownProject();
  const checkpoints = await choice(flags.checkpoints, {
    ...checkpointsQuestion(accelerator, isOwn),
    check: (answer) => {
      const bucket = bucketIn(checkCheckpoints(isOwn, answer))?.[1];
      if (bucket === undefined) return answer;
      return check('gcsfuse.bucket_name', answer, { gcsfuse: { bucket_name: bucket, mount_path: '~/bucket' } });
    },
  });
  return {
    name,
    accelerator,
    hosts,
    command,
    project,
    zone: flags.zone,
    checkpoints: checkpoints === '-' ? null : checkpoints,
  };
}

function acceleratorQuestion(known: readonly HostName[]): Question {
  const others = known.filter((name) => name !== ownHost);
  return {
    text: `Where does the job run? A TPU type such as v4-16, emulator, ${[...others, 'or local'].join(', ')}`,
    flag: '--accelerator',
    proposal: 'emulator',
    check: (typed) => checkAccelerator(typed, known),
  };
}

/** `local`, or names of hosts: `gpu1,gpu2`. Empty for anything else. */
function hostsIn(accelerator: string, known: readonly HostName[]): readonly HostName[] {
  const names = accelerator.split(',').map((name) => (name.trim() === 'local' ? ownHost : name.trim()));
  return names.every((name) => known.includes(name)) ? names : [];
}

/** `create` makes a missing bucket of the emulator. A bucket of Google Cloud must exist, so none is proposed. */
function checkpointsQuestion(accelerator: string, isOwn: boolean): Omit<Question, 'check'> {
  return {
    text: `Where do checkpoints go? ${isOwn ? 'A folder' : 'A bucket (gs://my-bucket/folder), or - for none'}`,
    flag: '--checkpoints',
    proposal: isOwn ? 'checkpoints' : accelerator === 'emulator' ? 'gs://my-bucket/checkpoints' : '-',
  };
}

function checkProjectFlags(accelerator: string, isOwn: boolean, { project, zone }: InitFlags): void {
  if (isOwn && (project ?? zone) !== undefined) {
    throw usageError('--project and --zone choose a TPU; this job runs on your own machines.');
  }
  if (accelerator === 'emulator' && (project ?? emulatorProject) !== emulatorProject) {
    throw usageError('--project and the TPU emulator exclude each other: its project is `emulator`.');
  }
}

function defaultName(folder: string): string {
  const name = basename(folder)
    .replaceAll(/[^\w.-]+/g, '-')
    .replace(/^[-\d]+/, '')
    .slice(0, 100);
  return name || 'my-job';
}

/** The project of the settings, or of gcloud's active configuration. */
async function knownProject({ io, services }: Cli): Promise<string | undefined> {
  const { tpu } = await services.settings();
  if (tpu.project !== null) return tpu.project;
  const project = io.env['CLOUDSDK_CORE_PROJECT'];
  if (project !== undefined) return project;
  const folder = io.env['CLOUDSDK_CONFIG'] ?? join(io.userHome, '.config/gcloud');
  try {
    const name = io.env['CLOUDSDK_ACTIVE_CONFIG_NAME'] ?? readFileSync(join(folder, 'active_config'), 'utf8').trim();
    const text = readFileSync(join(folder, 'configurations', `config_${name}`), 'utf8');
    return /^project *= *(\S+)/m.exec(text)?.[1];
  } catch {
    return undefined;
  }
}

interface Question {
  readonly text: string;
  readonly flag: string;
  readonly proposal: string;
  /** Throws a usage error for an invalid answer. */
  readonly check: (answer: string) => string | Promise<string>;
}

async function answerTo(cli: Cli, { text, flag, proposal, check }: Question): Promise<string> {
  if (cli.yes) return check(proposal);
  if (!canAsk(cli)) {
    throw usageError(`${flag} is missing, and there is no terminal to ask on.`, [
      'For example: jobman init --accelerator v4-16 --command "python3 train.py"',
    ]);
  }
  return askUntilValid(cli, text, proposal, check);
}

/** The reasons for which `create` would refuse the manifest: `job.name: ...`. */
async function problemsIn({ io, services }: Cli, path: string, text: string): Promise<readonly string[]> {
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
  return 'problems' in found ? found.problems.map(({ path: key, message }) => `${key}: ${message}`) : [];
}

function checkAccelerator(typed: string, known: readonly HostName[]): string {
  const text = typed.trim().toLowerCase();
  if (text === 'emulator' || findAccelerator(text) !== undefined || hostsIn(text, known).length > 0) return text;
  const near = suggestAccelerator(text) ?? didYouMean(text, known);
  throw usageError(`"${typed}" is not a TPU type${near === undefined ? '' : ` (did you mean ${near}?)`}.`, [
    'Expected a type such as v4-16 or v5litepod-16, `emulator`, `local`, or a name of `jobman hosts`. GPUs are available in Kubernetes: jobman submit --gpus 1',
  ]);
}

function bucketIn(checkpoints: string | null): RegExpExecArray | null {
  return /^gs:\/\/([^/]+)\/?(.*)$/.exec(checkpoints ?? '');
}

function checkCheckpoints(isOwn: boolean, checkpoints: string): string {
  if (checkpoints === '-') return checkpoints;
  const bucket = bucketIn(checkpoints);
  if (bucket === null && /^gs:|^\w+:\/\//.test(checkpoints)) {
    throw usageError(`"${checkpoints}" is not a bucket: expected gs://my-bucket or gs://my-bucket/folder.`);
  }
  if (!isOwn && bucket === null) {
    throw usageError(`"${checkpoints}" is not a bucket: expected gs://my-bucket/folder, or - for none.`);
  }
  if (isOwn && bucket !== null) {
    throw usageError('A job on your own machines writes its checkpoints to a folder: --checkpoints checkpoints');
  }
  return checkpoints;
}

function manifestOf({ name, accelerator, hosts, command, project, zone, checkpoints }: Choices): string {
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
  if (project === null) {
    const where = isOwnHost(hosts)
      ? [...saves, '', 'local:', line('workdir', '.', 'the command starts here, relative to this file')]
      : [
          line('workdir', '.', 'copied to every host; the command starts in the copy'),
          ...saves,
          '',
          `${`hosts: [${hosts.join(', ')}]`.padEnd(42)} # your machines, one worker on each: jobman hosts`,
        ];
    return [
      ...head,
      ...where,
      '',
      ...run,
      '',
      '# recovery: "loop: failures"              # start a failed job again from its last checkpoint',
      '',
    ].join('\n');
  }
  const type = accelerator === 'emulator' ? 'v4-16' : accelerator;
  const known = findAccelerator(type);
  const offered = known === undefined ? undefined : zonesOffering(known)[0];
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
      project === emulatorProject
        ? 'TPUs are simulated and free; for real ones, your project'
        : 'your Google Cloud project',
    ),
    line('accelerator', type, 'type and size of the TPU'),
    line('zone', zone ?? offered ?? 'us-central2-b', 'keep the bucket in the same region'),
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
