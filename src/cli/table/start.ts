import { command, grouped } from '../command.ts';
import { boolFlag, stringFlag, stringListFlag } from '../flags.ts';
import { createFlags, submitFlags } from './flags.ts';

const yaml = { name: 'yaml', summary: 'The manifest' } as const;

export const start = grouped('Start', [
  command({
    names: ['create'],
    summary: 'Create a job from a manifest and start it',
    usage: '<yaml> [--follow] [--dry-run] [--set key=value]...',
    about:
      "Prints the job's id. The job goes on without this terminal; --follow shows what it waits for and what its workers\n" +
      "print, and ends with the job's verdict. Ctrl-C leaves and never ends the job; `jobman logs 1 -f` comes back to it.",
    examples: [
      ['jobman create configs/quick-start.yaml --follow', 'run the example on the built-in cloud and watch it'],
      ['jobman create --config=train.yaml --set command.lr=0.01', 'one key of the manifest changed for this job'],
      ['jobman create train.yaml --dry-run', 'what would be asked for, under which rules; nothing is stored'],
    ],
    exitCodes: {
      0: 'created; with --follow: the job succeeded',
      1: 'with --follow: the job failed, was stopped or was cancelled',
      2: 'the manifest is wrong; nothing was stored',
      5: 'there is no login to Google Cloud, and the job needs one; nothing was stored',
      130: 'you left; the job goes on',
    },
    flags: createFlags,
    args: [yaml],
    load: async () => (await import('../commands/create.ts')).create,
  }),
  command({
    names: ['submit'],
    summary: 'Submit a job to a Kubernetes cluster',
    usage: '[-i image] [-r flavor] [-j name] [-f yaml] [--dry-run] [-- word...]',
    about:
      "What stands behind `--` is run in the container: behind the image's entry point, or with -c in its place. A flavor is\n" +
      "the name of one of the settings (jobman resources-flavors), a file, or JSON. Without -i and -r the settings' own are\n" +
      'taken. The names of the job and of its flavor can be seen by everybody in the cluster.',
    examples: [
      ['jobman submit -i alpine -r no-gpu -- ls -al /', 'a listing, on what the flavor no-gpu asks for'],
      ['jobman submit -i alpine --dry-run -- ls', 'print the Job, and ask no cluster'],
      [
        'jobman submit -i lab/train:3 --gpus 2 --shm 8G --volume data:/data:ro -- python3 train.py',
        'two GPUs, and data',
      ],
      ['jobman submit -f train.yaml --env SEED=7', 'a manifest with a section kubernetes, and a variable beside it'],
      ['jobman submit -it --rm -i alpine -- sh', 'a shell in a new pod, which is deleted at the end'],
      ['jobman submit --stdin --rm -i alpine -- sort <words', 'a file or a pipe through a new pod'],
      ['jobman submit -f job.yaml -n vision', 'a whole Job object of Kubernetes, as YAML or JSON'],
    ],
    exitCodes: { 2: 'something is wrong with the job; nothing was submitted', 3: 'there is no such flavor' },
    flags: submitFlags,
    args: [{ name: 'word', summary: 'What the container runs, behind two dashes', many: true }],
    load: async () => (await import('../commands/submit.ts')).submit,
  }),
  command({
    names: ['validate'],
    summary: 'Check a manifest and say every problem at once',
    usage: '<yaml> [--set key=value]... [--offline]',
    about:
      'A problem is what `create` refuses, also a file or a variable that is missing on this machine. A warning is what it\n' +
      'accepts, and what is most likely not meant.\n' +
      'Cloud Storage is asked where the buckets are: one in another region than the TPU is a problem. Where it does not\n' +
      'answer within 3 s, a line says so.\n' +
      'With --json: one object a line for each of them, with its severity; nothing for a manifest without any.',
    examples: [
      ['jobman validate train.yaml', 'each problem with its line, column and key'],
      ['jobman validate train.yaml --set tpu.accelerator=v5litepod-16', 'with one key changed, as create takes it'],
    ],
    exitCodes: { 0: 'it may be created; there may be warnings', 2: 'the manifest is wrong' },
    flags: {
      set: stringListFlag('Change one key of the manifest', 'key=value'),
      offline: boolFlag('Ask nobody where the buckets are'),
    },
    args: [{ ...yaml, needed: true }],
    load: async () => (await import('../commands/validate.ts')).validate,
  }),
  command({
    names: ['schema'],
    summary: 'Print the JSON Schema of a manifest, or of --json output',
    usage: '[--output command]',
    about: 'The commands and their objects are described in docs/json.md.',
    examples: [
      ['jobman schema > jobman.schema.json', "name it in the editor's YAML settings"],
      ['jobman schema --output list', 'of one line that list --json prints'],
      ['jobman schema --output error', 'of one line on standard error'],
    ],
    flags: { output: stringFlag("Of this command's --json output", 'command') },
    load: async () => (await import('../commands/validate.ts')).schema,
  }),
]);
