import { commandNames } from '../completion/proposals.ts';
import { command, grouped } from '../command.ts';
import { createFlags, initFlags, submitFlags, validateFlags } from './flags.ts';

const file = { name: 'file', summary: 'The manifest' } as const;

const followExitCodes = {
  0: 'created; with --follow or --wait: the job succeeded',
  1: 'with --follow or --wait: the job failed, was stopped or was cancelled',
  2: 'the manifest is invalid; nothing was created',
  4: 'a budget of the owner is used up, even with --dry-run; nothing was created',
  5: 'the job needs Google Cloud, and there is no login to it; nothing was created',
  130: 'detached; the job keeps running',
};

export const create = grouped('Create', [
  command({
    names: ['create'],
    summary: 'Create a job from a manifest and start it',
    usage: '<file> [--follow] [--dry-run] [--name name] [--env name=value]... [--set key=value]...',
    about:
      'The job runs in the background, and the command prints its id.\n\n' +
      '--follow shows what the job waits for and what its workers print, and exits with the result of the job. ' +
      'Ctrl-C detaches: the job keeps running, and `jobman logs 1 -f` attaches again.\n\n' +
      'Unlike in kubectl, -f is short for --follow: `jobman create -f train.yaml` creates the job and follows it.',
    examples: [
      ['jobman create configs/quick-start.yaml --follow', 'run the example on the TPU emulator and watch it'],
      ['jobman create train.yaml --set command.lr=0.01', 'change one key of the manifest for this job'],
      ['jobman create train.yaml --dry-run', 'show the request, the price and the rules; create nothing'],
    ],
    exitCodes: followExitCodes,
    flags: createFlags,
    args: [file],
    load: async () => (await import('../commands/create.ts')).create,
  }),
  command({
    names: ['run'],
    summary: 'Run a manifest, or a command on this machine, as a job',
    usage: '<file> | [--name name] [--env name=value]... [--follow] -- <command>...',
    about:
      '`jobman run train.yaml` is `jobman create train.yaml`.\n\n' +
      'With `--` the command becomes a local job. It starts in the current folder, runs in the background, and ' +
      'is named after the program. One argument after `--` is a line for the shell; several are a program and ' +
      'its arguments.',
    examples: [
      ['jobman run -- python3 train.py --lr 0.1', 'a local job named train'],
      ['jobman run --name sweep-1 --follow -- python3 train.py', 'name the job and follow it'],
      ["jobman run -- 'python3 train.py | tee out.txt'", 'a line for the shell'],
      ['jobman run train.yaml', 'the same as jobman create train.yaml'],
    ],
    exitCodes: followExitCodes,
    flags: createFlags,
    args: [{ name: 'file', summary: 'The manifest, or after `--` the command', many: true }],
    load: async () => (await import('../commands/run.ts')).run,
  }),
  command({
    names: ['submit'],
    summary: 'Submit a job to a Kubernetes cluster',
    usage: '[-i image] [-r flavor] [-j name] [--dry-run] [file] [-- argument...]',
    about:
      "The arguments after `--` go to the image's entry point; with -c they replace it. A flavor is a name in " +
      'the settings (see jobman resources-flavors), a file, or JSON. Without -i and -r, the image and flavor of ' +
      'the settings apply.\n\n' +
      'Every user of the cluster can see the names of the job and of its flavor. Through a server, the clusters, ' +
      'flavors and other settings of the server apply.',
    examples: [
      ['jobman submit -i alpine -r no-gpu -- ls -al /', 'list a folder with the resources of the flavor no-gpu'],
      ['jobman submit -i alpine --dry-run -- ls', 'print the Job without contacting a cluster'],
      [
        'jobman submit -i lab/train:3 --gpus 2 --shm 8G --volume data:/data:ro -- python3 train.py',
        'two GPUs and a volume',
      ],
      ['jobman submit train.yaml --env SEED=7', 'a manifest with a `kubernetes` section, and one more variable'],
      ['jobman submit -it --rm -i alpine -- sh', 'a shell in a new pod, deleted when the shell ends'],
      ['jobman submit --stdin --rm -i alpine -- sort <names.txt', 'send a file or a pipe through a new pod'],
      ['jobman submit job.yaml -n vision', 'a whole Kubernetes Job object, as YAML or JSON'],
    ],
    exitCodes: { 2: 'the job is invalid; nothing was submitted', 3: 'there is no such flavor' },
    flags: submitFlags,
    args: [{ name: 'file', summary: 'A manifest or a Job; after `--` what the container runs', many: true }],
    load: async () => (await import('../commands/submit.ts')).submit,
  }),
  command({
    names: ['init'],
    summary: 'Write a commented manifest',
    usage: '[file] [--accelerator type|emulator|local|host] [--command command] [--checkpoints bucket|folder]',
    about:
      'Asks where the job runs, what it runs, in which project, and where its checkpoints go. A flag answers its ' +
      'question; with --accelerator and --command nothing is asked. Without a terminal, these two are required.\n\n' +
      'The file is jobman.yaml unless you name another. An existing file is never overwritten. `jobman create ' +
      'jobman.yaml` then starts the job.',
    examples: [
      ['jobman init', 'answer three or four questions'],
      ['jobman init train.yaml --accelerator local --command "python3 train.py"', 'ask nothing'],
      [
        'jobman init --accelerator v4-16 --command "python3 train.py" --checkpoints gs://my-bucket/vit',
        'a spot TPU, with checkpoints in a bucket',
      ],
    ],
    exitCodes: { 4: 'the file exists' },
    flags: initFlags,
    args: [{ name: 'file', summary: 'The manifest to write' }],
    load: async () => (await import('../commands/init.ts')).init,
  }),
  command({
    names: ['validate'],
    summary: 'Check a manifest and list every problem',
    usage: '<file> [--set key=value]... [--offline]',
    about:
      'Finds every problem for which `create` would refuse the manifest, including files and variables that are ' +
      'missing on this machine. Warnings do not stop `create`.\n\n' +
      'A bucket in another region than the TPU is a problem. If Cloud Storage does not answer within 3 s, a ' +
      'note says that the buckets were not checked.',
    examples: [
      ['jobman validate train.yaml', 'list each problem with its line, column and key'],
      ['jobman validate train.yaml --set tpu.accelerator=v5litepod-16', 'with one key changed, as for create'],
    ],
    exitCodes: { 0: 'the manifest is valid; there may be warnings', 2: 'the manifest is invalid' },
    flags: validateFlags,
    args: [file],
    load: async () => (await import('../commands/validate.ts')).validate,
  }),
  command({
    names: ['schema'],
    summary: 'Print the JSON Schema of manifests, or of the --json output of a command',
    usage: '[command]',
    about: 'docs/json.md describes the objects that commands print.',
    examples: [
      ['jobman schema > jobman.schema.json', 'then name the file in the YAML settings of the editor'],
      ['jobman schema list', 'one line of `list --json`'],
      ['jobman schema controller status', 'the object of a command with two words'],
      ['jobman schema error', 'one line on standard error'],
    ],
    args: [
      { name: 'command', summary: 'The command whose --json output is described', many: true, propose: commandNames },
    ],
    load: async (program) => (await import('../commands/validate.ts')).schemaFor(program),
  }),
]);
