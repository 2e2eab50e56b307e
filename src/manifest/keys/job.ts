import { second } from '../../core/model/time.ts';
import {
  choice,
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
  customValue,
  path as pathKind,
  script,
  reportWrongKind,
  anyValue,
} from '../kinds.ts';
import { type Key, reportProblem, type Kind } from '../../schema/kinds.ts';
import { variableName, environmentNames, writtenByOlderVersion } from './environments.ts';

/** Signals that ask a program to end, by their names in Slurm and Docker. */
const signals = ['TERM', 'INT', 'HUP', 'QUIT', 'USR1', 'USR2', 'KILL'] as const;

/** `SIGINT`, `sigint` and the numbers of kill(1). */
function suggestSignal(written: string): string | undefined {
  const numbers: Readonly<Record<string, string>> = {
    1: 'HUP',
    2: 'INT',
    3: 'QUIT',
    9: 'KILL',
    10: 'USR1',
    12: 'USR2',
    15: 'TERM',
  };
  const name = written.trim().toUpperCase().replace(/^SIG/, '');
  return signals.find((signal) => signal === name) ?? numbers[name];
}

/** Keys of older versions: some wrote them into their copy of a manifest, others accepted them. */
const retired = {
  id: writtenByOlderVersion,
  user: writtenByOlderVersion,
  dir: writtenByOlderVersion,
  worker_num: 'follows from tpu.accelerator; remove it',
  queue: 'is a thing of the older jobman: here one job runs one command; remove it and create a job for each',
};

export const job = {
  description: 'What the job is called and how it behaves.',
  defaultText: 'all its defaults',
  kind: section(
    {
      name: {
        kind: line({
          description: 'name',
          pattern: /^(?!\d{1,6}$|-)[^\s/]{1,100}$/u,
          rule: 'is no name for a job (at most 100 characters; no space, no /, not only digits, which would be an id; does not begin with -, which would be a flag)',
          suggest: (written) =>
            written
              .trim()
              .replaceAll(/[\s/]+/g, '-')
              .replace(/^-+/, ''),
        }),
        description: 'A label for people, shown in lists and logs, and by which commands find the job.',
        defaultText: "the file's name",
        example: 'pretrain-llama3-8b',
      },
      env_type: {
        kind: choice(...environmentNames),
        description: 'The environment that the command runs in; its section says the rest.',
        defaultText: 'the one that setup.modules lists, or whose section stands alone',
        example: 'docker',
      },
      loop: {
        // `oneOf` reads a misspelled `failures`, so that the suggestion is right.
        kind: either(
          bool(),
          (tree) => tree.kind === 'scalar' && !/fail/i.test(tree.source),
          oneOf(['failures'], () => 'failures'),
        ),
        description:
          'Start again after every exit (`true`), or after every failure (`failures`). Short for a recovery preset.',
        defaultText: 'false',
        example: 'true',
      },
      remote_user: {
        kind: line({ description: 'login', pattern: /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/, rule: 'is no login name' }),
        description: 'Login name on the workers.',
        defaultText: 'your login name here',
        example: 'zephyr',
      },
      tags: {
        kind: listOf(line()),
        description: 'Labels to filter lists by.',
        example: '[experiment, llama]',
      },
      env: {
        kind: mapOf(variableName),
        description: 'Environment variables of the command.',
        example: '{WANDB_MODE: offline}',
        aliases: ['environment'],
      },
      secrets: {
        kind: mapOf(variableName),
        description:
          'Environment variables of the command that nobody else is to see. The value says where to read them: `env`, the variable of that name where you create the job; `env:OTHER`, another one; else a file of this machine, read at every start.',
        example: '{WANDB_API_KEY: env, HF_TOKEN: ~/.hf_token}',
      },
      checkpoint_dir: {
        kind: path(),
        description:
          'Folder for checkpoints, best inside a mounted bucket. Each job gets a folder of its own below it (`000001-k3x9ab`: the ids of the job and of the installation), or exactly this folder where it contains `${job.id}` or `${job.name}`. The program finds the folder as `JOBMAN_CHECKPOINT_DIR`, and after an interruption the newest complete checkpoint of its job as `JOBMAN_RESUME_FROM`.',
        example: '~/bucket/checkpoints',
      },
      checkpoint_shared: {
        kind: bool(),
        description:
          'Keep the checkpoints of all jobs with this `checkpoint_dir` in that one folder, and resume from the newest of any of them.',
        defaultText: 'false',
        example: 'true',
      },
      resume_from: {
        kind: line(),
        description:
          'Checkpoint to begin from: the id or name of a job (its newest one), or a path. A path that ends in `/` is a folder whose newest complete entry counts. Once the job has a checkpoint of its own, it resumes from that; `rerun` begins from here again.',
        example: '42',
      },
      silence_timeout: {
        kind: duration(second),
        description:
          'When the program has printed nothing for so long on any of its workers, the attempt ends as `hung`, and the rules say what follows. It is enough that one worker prints.',
        defaultText: 'no limit',
        example: '30m',
      },
      max_runtime: {
        kind: duration(second),
        description:
          "The command's longest run in one attempt, from the moment it runs on every worker. Then it is stopped, the attempt ends as `timed_out`, and the job fails whatever the rules say.",
        defaultText: 'no limit',
        example: '2d',
      },
      capacity_wait: {
        kind: duration(second),
        description: 'How long one attempt waits for its TPU. Then it ends as `allocation_failed`, and the job fails.',
        defaultText: 'no limit',
        example: '12h',
      },
      stop_signal: {
        kind: oneOf(signals, suggestSignal),
        description:
          'The signal that asks the program to end: at a stop, at a limit, and when another worker has failed. Without `SIG`.',
        defaultText: 'TERM',
        example: 'INT',
      },
      stop_grace: {
        kind: duration(),
        description:
          'How long the program then has to end, before it is killed with all its children; `0` kills at once. A preemption does not wait for it: the cloud gives 30 s at most.',
        defaultText: '30s',
        example: '2m',
      },
      on_finish: {
        kind: choice('release', 'keep'),
        description: 'What happens to the TPU when the job is over. A kept TPU goes on costing.',
        defaultText: 'release; keep for a job without a command',
        example: 'keep',
      },
      keep_for: {
        kind: duration(second),
        description:
          'With `on_finish: keep`: after so long it is released all the same. Without `on_finish: keep` it has no effect.',
        defaultText: 'until you release it',
        example: '1h',
      },
      hold_on_failure: {
        kind: duration(second),
        description:
          'When the job has failed, its TPU is kept for so long, for a look with `jobman ssh`; it goes on costing. `jobman stop --release` lets it go before.',
        defaultText: 'released at once',
        example: '2h',
      },
      workdir: {
        kind: path(),
        description:
          'Folder of this machine that every worker gets a copy of, and that the command starts in. What git ignores is left out. The copy is taken when the job is created; `jobman resume --workdir` takes it anew. At most 512 MiB and 50,000 files.',
        example: '.',
      },
      files: {
        kind: listOf(path({ description: 'from:to' }), 'list of from:to'),
        description:
          'Files and folders that are copied to every worker before anything else, as `from:to`. `from` is relative to the manifest, `to` to the login folder of the worker; without `:to` the name stays. At most 1 MiB each and 4 MiB together: larger things belong in a bucket.',
        example: '[train.py, data:experiment/data]',
      },
    },
    undefined,
    retired,
  ),
} satisfies Key<unknown>;

const workers: Kind<'all' | readonly number[]> = {
  description: 'number | list | "all"',
  schema: {
    anyOf: [
      { enum: ['all'] },
      { type: 'integer', minimum: 0 },
      { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 1, uniqueItems: true },
      { type: 'string', pattern: '\\$\\{' },
    ],
  },
  read(tree, path, report) {
    if (tree.kind === 'scalar' && tree.value === 'all') return 'all';
    const items = tree.kind === 'list' ? tree.items : [tree];
    if (items.length === 0)
      return reportProblem(tree, path, report, 'is an empty list, so nothing would run the command');
    const numbers: number[] = [];
    for (const [index, item] of items.entries()) {
      const at = tree.kind === 'list' ? [...path, index] : path;
      const value = asNumber(item);
      if (item.kind === 'unknown') continue;
      if (value === undefined || !Number.isInteger(value) || value < 0) {
        const suggestion = item.kind === 'scalar' && /^a/i.test(item.source) ? 'all' : undefined;
        if (suggestion === undefined)
          reportWrongKind(item, 'the number of a worker, a list of numbers, or all', at, report);
        else reportProblem(item, at, report, 'wants the number of a worker, a list of numbers, or all', suggestion);
      } else if (numbers.includes(value)) reportProblem(item, at, report, `names worker ${value} twice`);
      else numbers.push(value);
    }
    return numbers;
  },
};

/** An empty script would end at once and count as a success. */
const requiredScript: Kind<string> = {
  ...script(),
  read(tree, path, report) {
    const value = script().read(tree, path, report);
    return value?.trim() === '' ? reportProblem(tree, path, report, 'is empty, so there is nothing to run') : value;
  },
};

export const command = {
  description:
    'The work itself. Keys of your own with a single value may stand here, for `${command.lr}` and `--set command.lr=0.01`.',
  defaultText: 'the job only sets up, and keeps its TPU',
  example: '{run: python3 train.py}',
  kind: section(
    {
      run: {
        kind: requiredScript,
        description:
          "A shell script. `${a.b}` is a value of the manifest; `$NAME` and a bare `${NAME}` are the shell's own.",
        isRequired: true,
        example: 'python3 train.py',
        aliases: ['cmd'],
      },
      workers: {
        kind: workers,
        description: 'Which workers run it, counted from 0.',
        defaultText: 'all',
        example: '[0]',
      },
      env: {
        kind: mapOf(variableName),
        description: 'Environment variables, over those of job.env.',
        example: '{SEED: 7}',
      },
      workdir: {
        kind: pathKind(),
        description: 'Folder that it starts in: on the worker, or inside the container.',
        defaultText: "the login folder, or the container's own",
        example: '~/experiment',
      },
      runs_on: {
        kind: choice('workers', 'here'),
        description:
          '`here` runs it once, on the machine of jobman itself, for scripts that drive the TPU from outside.',
        defaultText: 'workers',
        example: 'here',
      },
    },
    customValue(),
  ),
} satisfies Key<unknown>;

export const local = {
  description: 'Runs the job on this machine. An empty section (`local: {}`) is enough.',
  kind: section({
    workdir: {
      kind: path(),
      description: 'Folder that the command starts in.',
      defaultText: "the manifest's folder",
      example: '.',
    },
  }),
} satisfies Key<unknown>;

export const vars = {
  description: 'Values of your own, for `${vars.name}` anywhere in the manifest. Lists and maps may stand here too.',
  example: '{seed: 7}',
  kind: section({}, anyValue()),
} satisfies Key<unknown>;
