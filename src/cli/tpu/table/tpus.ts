import { grouped } from '../../command.ts';
import { choiceFlag, boolFlag, stringFlag } from '../../flags.ts';
import { tpuCommand } from '../command.ts';
import { alias, askNotes, notes } from './shared.ts';

const fullName = { name: 'full', needed: true, summary: "TPU's full name" } as const;
const zone = stringFlag('Its zone', 'zone');
const type = stringFlag('Its type, if its name does not say it', 'v2-32');
const pricing = choiceFlag('How Google charges for it', ['ondemand', 'preemptible', 'spot']);
const normal = boolFlag('Not as a preemptible one, whatever the registry says');

export const tpuCommands = grouped('TPUs', [
  tpuCommand({
    names: ['find'],
    usage: '[types]... [-n|-p] [style=full]',
    summary: 'Which TPUs are free, reserved or running, by the booking sheet',
    about: 'Types are v2, v3, v4, several at once (v234), one with its size (v2-32), or all: -a, or v* in quotes.',
    examples: [
      ['tpu find v34 -n', 'v3 and v4 that are not preemptible'],
      ['tpu find v2-32 -p', 'preemptible ones of that size'],
    ],
    takes: {
      types: 'families',
      keys: {
        style: choiceFlag('How much of each row', ['full', 'category', 'category_note']),
      },
    },
    flags: {
      n: boolFlag('Only those that are not preemptible', 'normal'),
      p: boolFlag('Only preemptible ones', 'preemptible'),
      a: boolFlag('All types', 'all'),
    },
    changes: false,
    load: async () => (await import('../commands/bookings.ts')).find,
  }),
  tpuCommand({
    names: ['book'],
    usage: '<tpu> [user] [ssn=notes]',
    summary: 'Reserve a TPU in the booking sheet, or change its notes',
    examples: [['tpu book v2-32-6 ada ssn=until_monday', 'with a note']],
    takes: { user: true, tpu: 'one', keys: { ssn: notes } },
    flags: { ssn: askNotes },
    load: async () => (await import('../commands/bookings.ts')).book,
  }),
  tpuCommand({
    names: ['release', 'rel'],
    summary: 'Say in the booking sheet that a TPU is free',
    about: 'With a user it is released only if it is booked by that user.',
    examples: [['tpu rel v2-32-6 ada', "if it is ada's"]],
    takes: { user: true, tpu: 'one' },
    load: async () => (await import('../commands/bookings.ts')).release,
  }),
  tpuCommand({
    names: ['describe', '-dtpu', 'describe-tpu'],
    summary: 'State, environment and users of a TPU',
    examples: [['tpu describe v2-32-6', 'and what to do about what is wrong']],
    takes: { tpu: 'one' },
    changes: false,
    load: async () => (await import('../commands/tpus.ts')).describe,
  }),
  tpuCommand({
    names: ['check-status', '-cktpu'],
    summary: "Google's word for its state: ready, preempted, creating, ...",
    examples: [['tpu check-status v2-32-6', 'one word']],
    exitCodes: { 3: 'the cloud has none of that name', 5: 'the cloud could not be asked' },
    takes: { tpu: 'one' },
    changes: false,
    load: async () => (await import('../commands/tpus.ts')).checkStatus,
  }),
  tpuCommand({
    names: ['check-env'],
    summary: 'Whether its Python sees the devices',
    examples: [['tpu check-env v2-32-6', 'success, file error, occupied, timeout or unknown']],
    takes: { tpu: 'one' },
    changes: false,
    load: async () => (await import('../commands/tpus.ts')).checkEnv,
  }),
  tpuCommand({
    names: ['solve', 'solve-env'],
    usage: '<tpu> [--dry-run]',
    summary: 'Find out what is wrong with a TPU, and put it right',
    examples: [['tpu solve v2-32-6 --dry-run', 'what it would do']],
    takes: { tpu: 'one' },
    flags: { 'dry-run': boolFlag('Say what would be done, and do nothing', 'dry') },
    load: async () => (await import('../commands/solve.ts')).solve,
  }),
  tpuCommand({
    names: ['mount-disk'],
    summary: "Mount the site's shares on a TPU, and log it in to W&B",
    examples: [['tpu mount-disk v2-32-6', 'may be repeated']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).mountDisk,
  }),
  tpuCommand({
    names: ['set-wandb'],
    summary: 'Log a TPU in to W&B',
    examples: [['tpu set-wandb v2-32-6', 'with the key that the settings name']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).setWandb,
  }),
  tpuCommand({
    names: ['apply', 'apply-norm'],
    usage: '<tpu> [-norm]',
    summary: 'Create a TPU and mount its disks',
    examples: [['tpu apply v2-32-p1', 'as the registry knows it']],
    takes: { tpu: 'one' },
    flags: { norm: normal },
    load: async () => (await import('../commands/tpus.ts')).apply,
  }),
  tpuCommand({
    names: ['reapply', 'reapply-norm'],
    usage: '<tpu> [-norm]',
    summary: 'Delete a TPU, create it anew and mount its disks',
    about: 'Jobs that run on it are named, and you are asked.',
    examples: [['tpu reapply v2-32-p1 --yes', 'without a question']],
    takes: { tpu: 'one' },
    flags: { norm: normal },
    load: async () => (await import('../commands/tpus.ts')).reapply,
  }),
  tpuCommand({
    names: ['delete'],
    summary: 'Delete a TPU in the cloud; the registry keeps its name',
    about:
      'Always asks, and names the jobs and programs that use the TPU. `--yes` deletes without a question.\n' +
      'The booking sheet calls the TPU gone until `tpu apply` makes it again.',
    examples: [['tpu delete v2-32-p1', 'it costs nothing from then on']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).deleteTpu,
  }),
  tpuCommand({
    names: ['restart'],
    summary: 'Stop and start the machines of a TPU',
    examples: [['tpu restart v2-32-6', 'and wait until they answer']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpus.ts')).restart,
  }),
  tpuCommand({
    names: ['-lta', '-sta', 'list-tpu-aliases'],
    summary: 'All TPUs with their aliases',
    examples: [['tpu -lta --json', 'for programs']],
    changes: false,
    load: async () => (await import('../commands/tpu-registry.ts')).listTpuAliases,
  }),
  tpuCommand({
    names: ['-ta', '-ata', 'add-tpu-alias'],
    usage: '<alias> <full name> [zone=Z] [type=T] [pricing=P]',
    summary: 'Give a TPU a short name',
    about: 'A full name that is not known yet is registered with it.',
    examples: [['tpu -ta v2-32-6 lab-tpu-v2-32-6 zone=europe-west4-a', 'also says where it is']],
    takes: { keys: { zone, type, pricing } },
    args: [alias, fullName],
    load: async () => (await import('../commands/tpu-registry.ts')).addTpuAlias,
  }),
  tpuCommand({
    names: ['del-tpu-alias'],
    summary: 'Take a short name of a TPU away',
    examples: [['tpu del-tpu-alias v2-32-6', 'the TPU stays registered']],
    args: [{ ...alias, suggests: 'TPU aliases' }],
    load: async () => (await import('../commands/tpu-registry.ts')).delTpuAlias,
  }),
  tpuCommand({
    names: ['register'],
    usage: '<full name> [zone=Z] [type=T] [pricing=P] [project=P] [version=V]',
    summary: 'Write down what is known of a TPU; what is not said stays as it was',
    examples: [['tpu register lab-tpu-v2-32-p1 zone=europe-west4-a pricing=preemptible', 'its type is in its name']],
    takes: {
      keys: {
        zone,
        type,
        pricing,
        project: stringFlag('The project of Google Cloud, if not that of the settings', 'project'),
        version: stringFlag('The runtime version to create it with', 'version'),
      },
    },
    args: [fullName],
    load: async () => (await import('../commands/tpu-registry.ts')).register,
  }),
  tpuCommand({
    names: ['unregister', 'del-reg'],
    summary: 'Forget a TPU and its aliases; the TPU itself stays as it is',
    examples: [['tpu unregister v2-32-p1', 'by alias or full name']],
    takes: { tpu: 'one' },
    load: async () => (await import('../commands/tpu-registry.ts')).unregister,
  }),
]);
