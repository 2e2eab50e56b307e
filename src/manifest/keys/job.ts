import { second } from '../../core/model/time.ts';
import {
  dollars,
  duration,
  either,
  line,
  listOf,
  mapOf,
  oneOf,
  path,
  section,
  bool,
  asNumber,
  script,
  int,
  flag,
  text,
} from '../kinds.ts';
import { key, ownJobs, type Key, reportProblem, type Kind } from '../../schema/kinds.ts';
import type { Tree } from '../../schema/tree.ts';
import { variableName, environmentNames, setByJobman } from './environments.ts';

/** Signals that ask a program to end, by their names in Slurm and Docker. */
const signals = ['TERM', 'INT', 'HUP', 'QUIT', 'USR1', 'USR2', 'KILL'] as const;

const retired = {
  id: setByJobman,
  user: setByJobman,
  dir: setByJobman,
  worker_num: 'is not needed: tpu.accelerator determines it; remove it',
  queue: 'is not supported: a job runs one command; remove it and create one job for each command',
};

export const job = {
  description: 'Name, limits, files and behaviour of the job.',
  defaultText: 'the default of each key',
  kind: section(
    {
      name: key(
        line({
          description: 'name',
          pattern: /^(?!\d{1,6}$|-)[^\s/]{1,100}$/u,
          rule: 'is not a valid job name (at most 100 characters, without spaces and /; not only digits, because they are an id; not beginning with -, because it is a flag)',
          suggest: (written) =>
            written
              .trim()
              .replaceAll(/[\s/]+/g, '-')
              .replace(/^-+/, ''),
        }),
        'Name for people, shown in lists and logs. Commands accept it instead of the id.',
        { defaultText: "the file's name", example: 'pretrain-llama3-8b' },
      ),
      env_type: key(
        oneOf(environmentNames),
        'The environment in which the command runs; the section of that name configures it.',
        { jobs: ownJobs, defaultText: 'the one in setup.modules, or the only one with a section', example: 'docker' },
      ),
      loop: key(
        // `oneOf` reads a misspelled `failures`, so that the suggestion is right.
        either(
          bool(),
          (tree) => tree.kind === 'scalar' && !/fail/i.test(tree.source),
          oneOf(['failures'], () => 'failures'),
        ),
        'Start again after every exit (`true`) or after every failure (`failures`). Selects the recovery preset of that name.',
        { jobs: ownJobs, defaultText: 'false', example: 'true' },
      ),
      remote_user: key(
        line({ description: 'login name', pattern: /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/ }),
        'Login name on the workers.',
        { jobs: ['tpu'], defaultText: 'your login name on this machine', example: 'zephyr' },
      ),
      tags: key(listOf(line()), 'Labels to filter lists by.', { jobs: ownJobs, example: '[experiment, llama]' }),
      env: key(mapOf(variableName), 'Environment variables of the command.', {
        example: '{WANDB_MODE: offline}',
        aliases: ['environment'],
      }),
      secrets: key(
        mapOf(variableName),
        'Environment variables of the command with secret values. The value here is the source: `secret:NAME` is a secret that `jobman secret set NAME` has stored, `env` is the variable of the same name in your shell at `create`, `env:OTHER` is another variable, and everything else is the path of a file on this machine. `create` stores the values of variables and files with the job; in a cluster all values are in a Secret of the job.',
        { example: '{WANDB_API_KEY: "secret:wandb", HF_TOKEN: ~/.hf_token}' },
      ),
      checkpoint_dir: key(
        path(),
        'Folder for checkpoints, usually inside a mounted bucket. Each job gets its own subfolder (`000001-k3x9ab`: the ids of the job and of the installation), unless the path contains `${job.id}` or `${job.name}`. The program reads the folder from `JOBMAN_CHECKPOINT_DIR`, and after an interruption the newest complete checkpoint of its job from `JOBMAN_RESUME_FROM`.',
        { jobs: ownJobs, example: '~/bucket/checkpoints' },
      ),
      checkpoint_shared: flag(
        'All jobs with this `checkpoint_dir` share the folder, and each resumes from its newest checkpoint, whichever job wrote it.',
        ownJobs,
      ),
      resume_from: key(
        line(),
        'Checkpoint to start from: the id or name of a job (its newest checkpoint) or a path. A path that ends in `/` is a folder; jobman takes its newest complete entry. Once the job has written a checkpoint, it resumes from that one; `rerun` starts from `resume_from` again.',
        { jobs: ownJobs, example: '42' },
      ),
      silence_timeout: key(
        duration(second),
        'Maximum time without output from any worker. After it the attempt ends as `hung`, and the recovery rules apply. Output from one worker is enough.',
        { jobs: ownJobs, defaultText: 'no limit', example: '30m' },
      ),
      max_runtime: key(
        duration(second),
        'Maximum run time of the command in one attempt, counted from its start on the last worker. After it jobman stops the command, the attempt ends as `timed_out`, and the job fails; recovery rules do not apply.',
        { defaultText: 'no limit', example: '2d' },
      ),
      capacity_wait: key(
        duration(second),
        'Maximum time that one attempt waits for its TPU. After it the attempt ends as `allocation_failed`, and the job fails.',
        { jobs: ['tpu'], defaultText: 'no limit', example: '12h' },
      ),
      budget: key(
        dollars,
        'US dollars that the job may cost after each start by its owner (`start`, `resume`, `rerun`): for its TPUs, or for its hosts if they have a price. The prices are the estimates of `jobman prices`. At 80 % jobman warns the owner. At 100 % jobman stops the command and releases the TPU, even one that the job keeps after its end; the attempt ends as `budget`, and the job fails. `jobman resume` continues from its checkpoint with the whole budget again, or with another (`--budget`).',
        { jobs: ownJobs, defaultText: 'no limit', example: '50 USD' },
      ),
      stop_signal: key(
        oneOf(signals, (written) => signals.find((signal) => written.trim().toUpperCase() === `SIG${signal}`)),
        'Signal that asks the program to end: at a stop, at a limit, and when another worker fails. Written without `SIG`.',
        { jobs: ownJobs, defaultText: 'TERM', example: 'INT' },
      ),
      stop_grace: key(
        duration(),
        'Time that the program has to end before jobman kills it with all its children; `0` kills at once. A preemption does not wait for it: the cloud gives at most 30 s.',
        { jobs: ownJobs, defaultText: '30s', example: '2m' },
      ),
      on_finish: key(
        oneOf(['release', 'keep']),
        'Release or keep the TPU when the job finishes. A kept TPU costs money.',
        { jobs: ['tpu'], defaultText: 'release; keep for a job without a command', example: 'keep' },
      ),
      keep_for: key(
        duration(second),
        'With `on_finish: keep`: the TPU is released after this time. Without `on_finish: keep` it has no effect.',
        { jobs: ['tpu'], defaultText: 'until you release it', example: '1h' },
      ),
      hold_on_failure: key(
        duration(second),
        'Keep the TPU for this time after a failure, so that you can log in with `jobman ssh`. It costs money until then; `jobman stop --release` releases it earlier.',
        { jobs: ['tpu'], defaultText: 'released at once', example: '2h' },
      ),
      workdir: key(
        path(),
        'Folder on this machine that jobman copies to every worker; the command starts in the copy. Files that git ignores are not copied. `create` takes the copy, and `jobman resume --workdir` takes a new one. At most 50,000 files and 512 MiB; the setting `workdir.maxMiB` changes the second limit.',
        { jobs: ownJobs, example: '.' },
      ),
      files: key(
        listOf(path({ description: 'from:to' }), 'list of from:to'),
        'Files and folders that jobman copies to every worker as the first step, as `from:to`. `from` is relative to the manifest, `to` to the login folder of the worker; without `:to` the name stays the same. At most 1 MiB each and 4 MiB in total; put larger files in a bucket.',
        { jobs: ownJobs, example: '[train.py, data:experiment/data]' },
      ),
    },
    undefined,
    retired,
  ),
} satisfies Key<unknown>;

const workerNumber: Kind<number> = {
  ...int(0),
  read(tree, path, report) {
    const value = asNumber(tree);
    if (value !== undefined && Number.isInteger(value) && value >= 0) return value;
    const suggestion = tree.kind === 'scalar' && /^a/i.test(tree.source) ? 'all' : undefined;
    return reportProblem(tree, path, report, 'must be the number of a worker, a list of numbers, or all', suggestion);
  },
};

const workers: Kind<'all' | readonly number[]> = {
  ...either(listOf(workerNumber), (tree) => tree.kind !== 'scalar' || tree.value !== 'all', oneOf(['all'])),
  description: 'number | list | "all"',
};

/** An empty script would end at once and count as a success. */
const requiredScript: Kind<string> = {
  ...script,
  read(tree, path, report) {
    if (tree.kind === 'list')
      return reportProblem(
        tree,
        path,
        report,
        'must be one script, not a list; join the commands with && or use a | block',
      );
    const value = script.read(tree, path, report);
    return value?.trim() === '' ? reportProblem(tree, path, report, 'is empty, so there is nothing to run') : value;
  },
};

/** A single value of any type. */
const customValue: Kind<Tree> = {
  description: 'your own value',
  schema: { type: ['string', 'number', 'boolean', 'null'] },
  // The value is made to be inserted into the command, so text that looks like a shell variable stays one.
  isScript: true,
  read: (tree, path, report) =>
    tree.kind === 'scalar'
      ? tree
      : reportProblem(tree, path, report, 'must be a single value (lists and maps go below vars:)'),
};

export const command = {
  description:
    'The command of the job. You can add keys with single values, for `${command.lr}` and `--set command.lr=0.01`.',
  defaultText: 'the job only runs setup and keeps its TPU',
  example: '{run: python3 train.py}',
  kind: section(
    {
      run: key(
        requiredScript,
        'A shell script. `${a.b}` is a value of the manifest; `$NAME` and `${NAME}` are shell variables.',
        { isRequired: true, example: 'python3 train.py', aliases: ['cmd'] },
      ),
      workers: key(workers, 'Workers that run the command, counted from 0.', {
        jobs: ownJobs,
        defaultText: 'all',
        example: '[0]',
      }),
      env: key(mapOf(variableName), 'Environment variables; they override `job.env`.', { example: '{SEED: 7}' }),
      workdir: key(path(), 'Folder in which the command starts, on the worker or inside the container.', {
        defaultText: "the login folder, or the container's",
        example: '~/experiment',
      }),
      runs_on: key(
        oneOf(['workers', 'here']),
        '`here` runs the command once on the machine that runs jobman, for scripts that control the TPU from outside.',
        { jobs: ownJobs, defaultText: 'workers', example: 'here' },
      ),
    },
    customValue,
  ),
} satisfies Key<unknown>;

export const local = {
  description: 'Runs the job on this machine, as `hosts: [localhost]`. An empty section (`local: {}`) is enough.',
  kind: section({
    workdir: key(path(), 'Folder in which the command starts.', { defaultText: "the manifest's folder", example: '.' }),
  }),
} satisfies Key<unknown>;

export const hosts = {
  description:
    'Machines of your own on which the job runs, by the names that `jobman hosts` lists: one worker and one slot on each, worker 0 on the first. `localhost` is this machine.',
  example: '[gpu1]',
  kind: listOf(text()),
} satisfies Key<unknown>;

export const vars = {
  description: 'Your own values, for `${vars.name}` anywhere in the manifest. Lists and maps are allowed.',
  example: '{seed: 7}',
  kind: section({}, { description: 'anything', schema: {}, read: (tree) => tree }),
} satisfies Key<unknown>;
